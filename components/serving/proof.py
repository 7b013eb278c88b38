"""Proves at every export that the served model answers as the trained one does, on held-out records (promise D1).

                                   ┌─► Reader.evaluation ─► Keras model                      training
    200 records of the eval split ─┼─► SavedModel, serving_default, in this process          evaluation
                                   └─► SavedModel, both signatures, in a new process with    serving_default, raw
                                       plain TensorFlow and none of our code

The new process takes seconds to import TensorFlow, so it is started before the export, or before a short training.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import keras
import numpy as np
import tensorflow as tf

from components import helper_process
from components.errors import PenstockError
from components.input_pipeline import Reader, RecordFile
from components.models.heads import Regression
from components.records.verify import Verified
from components.serving import predict_alone
from components.storage.location import location

RECORDS = 200
TOLERANCE = 1e-5  # of probabilities, and of a quantity in standard deviations of the labels
_ROUNDING = 2  # float32 values next to each other by which a quantity may differ: nothing finer can be represented
_BATCH, _SMALL = 32, 8 << 20  # records of fewer bytes than that are one batch
_LONGEST = 600  # seconds; only a process that hangs takes that long
_SHOWN = 2000  # characters of a failed process's errors
_NO_RAW = "the records hold embeddings and not the images that clients send"

Answers = dict[str, Any]  # outputs of a signature


@dataclass(frozen=True)
class FreshProcess:
    """A process that imports TensorFlow, and then predicts."""

    process: subprocess.Popen[str]
    folder: Path  # of its files
    errors: IO[bytes]

    def ask(self, request: Mapping[str, Any]) -> None:
        """Sends the request; the process works while this one goes on."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: `answers` says why
            print(json.dumps({**request, "answers": str(self.folder)}), file=self.process.stdin, flush=True)

    def answers(self) -> dict[str, Answers]:
        """Waits for the process and returns its answers by signature."""
        try:
            code = self.process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            self.errors.seek(0)
            end = "did not end within 10 minutes" if code is None else f"ended with code {code}"
            raise PenstockError(
                f"proof of the exported model: the process with plain TensorFlow {end}; expected predictions. "
                f"Its last lines:\n{self.errors.read().decode(errors='replace')[-_SHOWN:].strip()}"
            )
        found: dict[str, Answers] = {}
        for file in sorted(self.folder.iterdir(), reverse=True):  # serving_default, then raw
            signature, output = file.name.split(".")
            kind = tf.string if output in ("label", "all_classes") else tf.float32
            found.setdefault(signature, {})[output] = tf.io.parse_tensor(file.read_bytes(), kind).numpy()
        return found


@contextlib.contextmanager
def fresh_process() -> Iterator[FreshProcess]:
    """Starts the process that predicts alone; ends it if it is still running afterwards."""
    command = helper_process.script(predict_alone.__file__)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}  # training may hold all memory of the GPUs
    with (
        tempfile.TemporaryDirectory(prefix="penstock-proof-") as folder,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=environment, text=True
        ) as process,
    ):
        try:
            yield FreshProcess(process, Path(folder), errors)
        finally:
            process.kill()


def prove(
    model: keras.Model,
    reader: Reader,
    evaluation: Verified,
    classes: Sequence[str],
    quantity: Regression | None,
    served: str,
    raw: Mapping[str, tuple[str, Any]],
    alone: FreshProcess,
) -> dict[str, Any]:
    """Compares all ways to predict; returns the figures, or raises PenstockError with the worst record.

    Args:
        model: the trained model.
        reader: how records become batches.
        evaluation: the eval split.
        classes: class names in the order of the model's outputs; none if it predicts a quantity.
        quantity: mean and standard deviation of the labels, if it predicts a quantity.
        served: folder of the SavedModel.
        raw: by argument of the signature `raw`: its column in the records, and the value of a missing one. Empty if
            the records do not hold what clients send.
        alone: the process that predicts alone.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-proof-") as folder:
        records = _held_out(evaluation, Path(folder) / "records")
        batch = RECORDS if records.bytes < _SMALL else _BATCH
        alone.ask({"model": served, "records": str(records.path), "batch_size": batch, "raw": dict(raw)})
        examples = tf.data.TFRecordDataset(str(records.path)).batch(batch)
        with tf.device("CPU"):
            expected = _by_training(model, reader, records, batch)
            signature = tf.saved_model.load(served).signatures["serving_default"]
            parts = [signature(examples=batch) for batch in examples]
        by_examples = {output: np.concatenate([part[output] for part in parts]) for output in parts[0]}
        ways = {"evaluation": by_examples, **alone.answers()}
        comparison = _Comparison(expected, classes, quantity)
        figures = {name: comparison.figures(found) for name, found in ways.items()}
        if wrong := [name for name, found in figures.items() if not found["passed"]]:
            raise PenstockError(_message(comparison, figures, ways[wrong[0]], wrong[0], _names(reader, records)))
    return {
        "records": records.records,
        "split": "eval",
        "compared": "probability of each class" if classes else "value, in standard deviations of the labels",
        "tolerance": TOLERANCE,
        "largest_difference": {name: found["largest"] for name, found in figures.items()},
        "unproven": {} if raw else {"raw": _NO_RAW},
        "seconds": round(time.monotonic() - began, 2),
    }


@dataclass(frozen=True)
class _Comparison:
    """Compares answers with those of the training path."""

    expected: Any  # [n, classes] or [n, 1]
    classes: Sequence[str]
    quantity: Regression | None = None

    def figures(self, found: Answers) -> dict[str, Any]:
        """Returns the largest difference, its record, and whether the answers are the same."""
        differences = self._differences(found)
        worst = int(np.argmax(np.nan_to_num(differences, nan=np.inf)))
        largest = float(differences[worst])
        return {"largest": largest, "worst": worst, "passed": bool(largest <= TOLERANCE)}

    def values(self, found: Answers) -> Any:
        """Returns the answers as an array like the expected one."""
        return found["probabilities"] if self.classes else found["value"][:, np.newaxis]

    def shown(self, place: int, values: Any, label: str | None = None) -> str:
        """Returns one answer in words."""
        if not self.classes:
            return f"{values[place, 0]:.7g}"
        best = int(np.argmax(values[place]))
        return f"{label or self.classes[best]!r} with {values[place, best]:.7f}"

    def _differences(self, found: Answers) -> Any:
        """Returns the difference of each record; infinite if another class is answered."""
        values = self.values(found)
        if values.shape != self.expected.shape:
            return np.full(len(self.expected), np.inf)
        if self.quantity:
            return self._quantity_differences(values[:, 0].astype(np.float64), self.quantity)
        differences = np.abs(values - self.expected).max(axis=1)
        names = [name.encode() for name in self.classes]
        answered = [names.index(label) if label in names else -1 for label in found["label"]]
        # With two classes that are equally probable, either one is right.
        behind = self.expected.max(axis=1) - self.expected[np.arange(len(answered)), answered]
        is_other = (behind > 2 * TOLERANCE) | (np.array(answered) < 0)
        is_renamed = (found["all_classes"] != np.array(names, object)).any(axis=1)
        return np.where(is_other | is_renamed, np.inf, differences)

    def _quantity_differences(self, values: Any, labels: Regression) -> Any:
        """Returns differences beyond rounding, in standard deviations; far from the mean, relative to the distance."""
        expected = self.expected[:, 0].astype(np.float64)  # float32 overflows in sums and differences
        scale = np.maximum(np.abs(expected - labels.mean), labels.deviation)
        largest = np.minimum(np.maximum(np.abs(expected), abs(labels.mean)), np.finfo(np.float32).max)
        rounding = _ROUNDING * np.spacing(largest.astype(np.float32)).astype(np.float64)
        return np.maximum(np.abs(values - expected) - rounding, 0) / scale


def _held_out(split: Verified, path: Path) -> RecordFile:
    """Copies up to 200 records to one file, as many from each shard."""
    files = [RecordFile(location(shard.name), shard.records, shard.bytes) for shard in split.shards[:RECORDS]]
    names, compression = [str(file.path) for file in files], files[0].compression
    stored = tf.data.Dataset.from_tensor_slices(names).interleave(
        lambda name: tf.data.TFRecordDataset(name, compression), len(names), block_length=1
    )
    taken = 0
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in stored.take(RECORDS).as_numpy_iterator():
            writer.write(record)
            taken += 1
    return RecordFile(path, taken, path.stat().st_size)


def _by_training(model: keras.Model, reader: Reader, records: RecordFile, batch: int) -> Any:
    settings = reader.settings.model_copy(update={"batch_size": batch})
    batches = replace(reader, settings=settings).evaluation([records])
    return np.concatenate([model(values, training=False).numpy() for values, _ in batches])


def _names(reader: Reader, records: RecordFile) -> list[str]:
    """Returns what identifies each record, for people: its id, or else its label."""
    key = reader.record_id or reader.label
    found = tf.data.TFRecordDataset(str(records.path)).as_numpy_iterator()
    columns = [tf.train.Example.FromString(record).features.feature[key] for record in found]
    return [f"{key} {[*c.int64_list.value, *c.bytes_list.value, *c.float_list.value]}" for c in columns]


def _message(comparison: _Comparison, figures: Any, found: Answers, way: str, names: list[str]) -> str:
    worst = figures[way]["worst"]
    label = found["label"][worst].decode(errors="replace") if "label" in found else None
    largest = ", ".join(f"{name} {each['largest']:.3g}" for name, each in figures.items())
    return (
        f"proof of the exported model: {way} does not predict as training does; record {worst + 1} of {len(names)} "
        f"({names[worst]}): training {comparison.shown(worst, comparison.expected)}, "
        f"{way} {comparison.shown(worst, comparison.values(found), label)}. "
        f"Largest differences: {largest} (inf: another class); expected at most {TOLERANCE:g}. "
        "A feature's decode, or a layer, works differently in the exported graph: nothing was exported. Check the "
        "parts of the task that are your own; if it has none, please report this as a bug of Penstock"
    )
