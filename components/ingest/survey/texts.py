"""Several text columns as one: `ingest.text = title,description` becomes the column `title_description`.

    title, description ─► JoinedTexts ─► title_description: both, with `ingest.text_separator` between them

The texts are joined before they are written, whole batches at once, so training, export and serving see one text. A
missing or empty text is left out, with its separator.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from components.errors import SettingsError
from components.ingest.sources.conversion import is_text
from components.ingest.sources.rows import Range, RowBatch, RowSource, Sample
from components.ingest.survey.columns import Prose, first_values, strings
from components.storage.paths import DataPath


@dataclass(frozen=True)
class JoinedTexts:
    """Reads another source and joins some of its columns."""

    inner: RowSource
    fields: tuple[pa.Field, ...]  # of the inner source, in the order of the joined text
    separator: str

    @property
    def name(self) -> str:
        """The joined column."""
        return _joined_name([field.name for field in self.fields])

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the columns with the joined one."""
        return self.joined(self.inner.schema(path))

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides as the inner source does."""
        return self.inner.divide(path, relative, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads rows for a schema with the joined column, which comes last."""
        place = schema.get_field_index(self.name)
        inner = schema.remove(place)
        for field in self.fields:
            inner = inner.append(field)
        for batch in self.inner.read(path, part, inner):
            columns = batch.columns.columns
            kept = columns[: -len(self.fields)]
            kept.insert(place, self._join(columns[-len(self.fields) :]))
            yield replace(batch, columns=pa.RecordBatch.from_arrays(kept, schema=schema))

    def joined(self, schema: pa.Schema) -> pa.Schema:
        """Returns a schema of the inner source with the joined column instead of its parts."""
        names = {field.name for field in self.fields}
        return pa.schema([*(field for field in schema if field.name not in names), pa.field(self.name, self._type())])

    def _type(self) -> pa.DataType:
        return pa.string() if all(is_text(field.type) for field in self.fields) else pa.binary()

    def _join(self, parts: Sequence[pa.Array]) -> pa.Array:
        kind = self._type()
        empty, separator = pa.scalar("").cast(kind), pa.scalar(self.separator).cast(kind)
        joined, *others = (part.cast(kind).fill_null(empty) for part in parts)
        for text in others:
            # Not null_handling="skip", by which Arrow 10 drops rows that are all null.
            both = pc.and_(pc.not_equal(joined, empty), pc.not_equal(text, empty))
            joined = pc.binary_join_element_wise(joined, pc.if_else(both, separator, empty), text, empty)
        return joined


def check(schema: pa.Schema, text: Sequence[str], split_by: str) -> None:
    """Rejects texts whose joined column exists already, or of which one decides the split."""
    name, joined = _joined_name(text), ", ".join(text)
    if name in schema.names and name not in text:
        raise SettingsError(
            f"setting ingest.text: {joined} would be joined into the column {name!r}, which the data has already; "
            "rename that column, or name the columns in another order"
        )
    if split_by in text:
        raise SettingsError(
            f"setting ingest.split_by: column {split_by!r} is joined into {name!r} by ingest.text={','.join(text)}; "
            "name a column that is not joined"
        )


def _joined_name(names: Sequence[str]) -> str:
    return "_".join(names)


def note(schema: pa.Schema, text: Sequence[str], others: Collection[str], prose: Prose) -> str:
    """Returns which columns of free text are read as text and which are not; "" if there is no other one."""
    left = prose([name for name in strings(schema) if name not in {*others, *text}])
    if not text or not left:
        return ""
    joined = ",".join(name for name in schema.names if name in {*text, *left[:1]})
    return (
        f"text read from {', '.join(text)}, not from {', '.join(left)}; "
        f"--set ingest.text={joined} joins columns, ingest.unused drops them"
    )


def prose(sample: Sample, names: Sequence[str]) -> list[str]:
    """Returns those of the columns that hold free text: most values have several words and differ from each other."""
    return [name for name in names if _is_prose(first_values(sample.column(name)))]


def _is_prose(values: Sequence[str]) -> bool:
    return 2 * len(set(values)) > len(values) and 2 * sum(" " in value.strip() for value in values) > len(values)
