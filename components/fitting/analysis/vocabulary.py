"""Vocabularies: how often each token occurs, counted exactly, then ordered and cut.

    strings ─► distinct ones of a batch, with counts (in the graph) ─► counts of all ─► file, one token per line

The file is that of TensorFlow Transform, byte for byte: descending count, equal counts in descending order of bytes.
Empty strings, and those with a line break, are in no vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

from components.fitting.analysis import trace
from components.fitting.analysis.trace import Arrays

_NOT_A_LINE = r"^$|\C*[\n\r]\C*"  # that of TensorFlow Transform
# A file without a line is no lookup table. TensorFlow Transform's value, with a count of 1.
_NO_TOKEN = b"49d0cd50-04bb-48c0-bc6f-5b575dce351a"
_PENDING = 1 << 20  # tokens counted together, because each grouping costs as much as all tokens before it


def fit(values: Any, name: str, top_k: int | None = None, min_count: int = 1, *, counts: bool = False) -> None:
    """Fits the vocabulary `name` on strings of any shape.

    Args:
        values: strings; dense or ragged.
        name: of the file, and of the vocabulary in `tft.TFTransformOutput`.
        top_k: maximum number of tokens.
        min_count: minimum count of a token.
        counts: whether each line of the file begins with the count.
    """
    flat = tf.reshape(values.flat_values if isinstance(values, tf.RaggedTensor) else values, [-1])
    lines = tf.boolean_mask(flat, ~tf.strings.regex_full_match(flat, _NOT_A_LINE))
    distinct, _, times = tf.unique_with_counts(lines, tf.int64)
    trace.result(Vocabulary(name, top_k, min_count, counts), distinct, times)
    if (folder := trace.folder()) is not None:
        tft.annotate_asset(name, name)
        # Nothing else in the graph may refer to the file.
        tft.make_and_track_object(lambda: tf.saved_model.Asset(str(folder / name)), name=f"{name}_file")


def apply(values: Any, name: str, default_value: int = -1, unknown_buckets: int = 0) -> Any:
    """Returns the place of each string in the vocabulary `name`, int64, in the shape of the values."""
    folder = trace.folder()
    if folder is None:
        return trace.stand_in(tf.cast(tf.strings.length(values), tf.int64))
    return tft.apply_vocabulary(
        values, str(folder / name), default_value=default_value, num_oov_buckets=unknown_buckets
    )


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary file."""

    name: str
    top_k: int | None = None
    min_count: int = 1
    counts: bool = False

    def start(self) -> "TokenCounts":
        """Returns counts of nothing."""
        return TokenCounts()

    def constant(self, counted: "TokenCounts") -> NDArray[Any]:
        """Returns nothing: the graph reads the file."""
        del counted
        return np.zeros(0, np.int64)

    def files(self, counted: "TokenCounts") -> dict[str, bytes]:
        """Returns the vocabulary file."""
        found = counted.ordered(self.min_count, self.top_k) or [(_NO_TOKEN, 1)]
        lines = [b"%d %s\n" % (count, token) if self.counts else token + b"\n" for token, count in found]
        return {self.name: b"".join(lines)}


class TokenCounts:
    """Counts of distinct strings."""

    def __init__(self) -> None:
        """Starts without a string."""
        self._tables = [_table([], [])]
        self._pending = 0

    def add(self, tokens: Any, counts: Any) -> None:
        """Adds distinct strings, an array of bytes, with their counts."""
        self._append(_table(tokens, counts))

    def merge(self, other: "TokenCounts") -> None:
        """Adds the counts of another worker."""
        self._append(other._grouped())  # noqa: SLF001 - of the same class

    def ordered(self, min_count: int = 1, top_k: int | None = None) -> list[tuple[bytes, int]]:
        """Returns the strings of the vocabulary in its order, with their counts."""
        table = self._grouped()
        table = table.filter(pc.greater_equal(table["count"], min_count))
        order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("token", "descending")])
        kept = table.take(order[:top_k])
        return list(zip(kept["token"].to_pylist(), kept["count"].to_pylist(), strict=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the bytes of all strings one after another, where each ends, and the counts."""
        table = self._grouped().sort_by("token").combine_chunks()
        tokens = table["token"].to_pylist()
        return {
            "bytes": np.frombuffer(b"".join(tokens), np.uint8),
            "ends": np.cumsum(np.array([len(token) for token in tokens], np.int64)),
            "counts": table["count"].to_numpy(),
        }

    def load(self, arrays: Arrays) -> None:
        """Replaces the counts by those that `arrays` returned."""
        offsets = np.concatenate([np.zeros(1, np.int64), arrays["ends"]])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(arrays["bytes"])]
        tokens = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(arrays["ends"]), buffers)
        self._tables, self._pending = [_table(tokens, arrays["counts"])], 0

    def _append(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._pending += len(table)
        if self._pending > max(_PENDING, len(self._tables[0])):
            self._grouped()

    def _grouped(self) -> pa.Table:
        """Returns one row per string, in no order."""
        if self._pending:
            grouped = pa.concat_tables(self._tables).group_by("token").aggregate([("count", "sum")])
            self._tables, self._pending = [grouped.rename_columns(["count", "token"]).select(["token", "count"])], 0
        return self._tables[0]


def _table(tokens: Any, counts: Any) -> pa.Table:
    strings = tokens if isinstance(tokens, pa.Array) else pa.array(tokens, pa.large_binary())
    return pa.table({"token": strings, "count": pa.array(counts, pa.int64())})
