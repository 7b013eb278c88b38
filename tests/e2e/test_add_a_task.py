"""A new task takes files of its own and one changed line: its name in the list of tasks.

The example classifies genes: strands of A, C, G and T, which no shipped modality reads. Transform fits the mean length
of a strand; the model sees the fraction of each letter, and the length divided by that mean.
"""

import difflib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("components", "data", "pipelines", "schemas", "pyproject.toml")
NAMES = Path("components/tasks/__init__.py")

FILES = {
    "components/tasks/gene.py": '''\
"""Strands of DNA: which organism does a strand come from?"""

from components.tasks import Part, Task, parts

STRAND = Part(
    roles=("text",),
    fit="components.fitting.strand:fit",
    feature="components.features.strand:from_columns",
    encoder="components.models.strand:encodings",
)
TASK = Task(
    name="gene",
    summary="classify strands of DNA",
    sources=parts.TABLES,
    schema="schemas/gene.pbtxt",
    parts=(STRAND,),
    required_roles=("text",),
    sample_data="data/samples/gene",
    defaults={"train": {"epochs": 12}},
)
''',
    "components/fitting/strand.py": '''\
"""Strands: their mean length."""

import tensorflow as tf
import tensorflow_transform as tft


def fit(inputs, columns, settings):
    """Returns each strand's length divided by the mean length."""
    lengths = {column.name: tf.cast(tf.strings.length(inputs[column.name]), tf.float32) for column in columns}
    return {f"{name}_length": length / tft.mean(length) for name, length in lengths.items()}
''',
    "components/features/strand.py": '''\
"""Strands: letters in the record, fractions of the four bases and the length in the model."""

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from components.features import NotAugmented

BASES = "ACGT"


@dataclass(frozen=True)
class StrandFeature(NotAugmented):
    """A strand as five numbers."""

    name: str
    fitted: Any

    decoded_bytes = 4 * (len(BASES) + 1)

    def spec(self):
        """Returns how the record stores a strand: as one string."""
        return tf.io.FixedLenFeature([], tf.string, "")

    def decode(self, stored):
        """Returns float32 [n, 5]."""
        counts = [tf.strings.length(tf.strings.regex_replace(stored, f"[^{base}]", "")) for base in BASES]
        fractions = tf.cast(tf.stack(counts, axis=1), tf.float32)
        fractions /= tf.maximum(tf.reduce_sum(fractions, axis=1, keepdims=True), 1.0)
        length = self.fitted.apply({self.name: stored})[f"{self.name}_length"]
        return tf.concat([fractions, length[:, tf.newaxis]], axis=1)

    def keras_input(self, name):
        """Returns the model's input."""
        return keras.Input([len(BASES) + 1], name=name)


def from_columns(columns, fitted, settings, data):
    """Returns one feature per column."""
    return {column.name: StrandFeature(column.name, fitted) for column in columns}
''',
    "components/models/strand.py": '''\
"""Strands: a dense layer over five numbers."""

from keras import layers


def encodings(inputs, columns, fitted):
    """Returns one encoding per column."""
    return [layers.Dense(16, activation="relu")(inputs[column.name]) for column in columns]
''',
    "schemas/gene.pbtxt": """\
feature {
  name: "strand"
  type: BYTES
  presence { min_fraction: 1.0 min_count: 1 }
  shape {}
  annotation { tag: "text" }
}
feature {
  name: "label"
  type: BYTES
  presence { min_fraction: 1.0 min_count: 1 }
  shape {}
}
feature {
  name: "id"
  type: INT
  presence { min_fraction: 1.0 min_count: 1 }
  shape {}
  annotation { tag: "record id" }
}
""",
    "pipelines/gene.py": '''\
"""The gene pipeline for the `tfx` command."""

from pipelines.tfx_entry import main

if __name__ == "__main__":
    main("gene")
''',
}


def write_strands(path: Path) -> None:
    """Writes strands of two organisms; one has more G and C than the other."""
    generator = random.Random(5)
    weights = {"hot spring": (1, 3, 3, 1), "soil": (3, 1, 1, 3)}
    with path.open("w") as file:
        for row in range(400):
            label = ("hot spring", "soil")[row % 2]
            strand = "".join(generator.choices("ACGT", weights[label], k=generator.randint(30, 90)))
            file.write(json.dumps({"strand": strand, "label": label}) + "\n")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the new task."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "samples"))
        else:
            shutil.copy(source, folder / name)
    for name, content in FILES.items():
        assert not (folder / name).exists()
        (folder / name).write_text(content)
    (line,) = [line for line in (folder / NAMES).read_text().splitlines() if line.startswith("NAMES = (")]
    changed = line.replace(")", ', "gene")')
    (folder / NAMES).write_text((folder / NAMES).read_text().replace(line, changed))
    return folder


def test_new_task_changes_one_line(copy: Path) -> None:
    """Everything else of the task is in new files."""
    changed = []
    for path in sorted(copy.rglob("*")):
        name = path.relative_to(copy)
        if path.is_file() and str(name) not in FILES and path.read_bytes() != (PROJECT / name).read_bytes():
            before, after = ((folder / name).read_text().splitlines() for folder in (PROJECT, copy))
            differences = list(difflib.ndiff(before, after))
            changed.append((name, [sum(line.startswith(mark) for line in differences) for mark in ("- ", "+ ")]))

    assert changed == [(NAMES, [1, 1])]


@pytest.fixture(scope="module")
def first_run(
    copy: Path, make_pipeline: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    """A first run of the task, and its result."""
    home = tmp_path_factory.mktemp("gene")
    write_strands(home / "strands.jsonl")
    pipeline = make_pipeline(home / "strands.jsonl", home / "root", copy, {"PYTHONPATH": str(copy)}, task="gene")
    return pipeline, pipeline.run()


def test_new_task_is_trained_and_pushed(first_run: tuple[Any, Any]) -> None:
    """The served model takes strands and contains what Transform fitted."""
    import tensorflow as tf

    pipeline, result = first_run
    assert result.code == 0, result.output
    assert "blessed and pushed as version 1" in result.output

    raw = tf.saved_model.load(str(pipeline.root / "serving" / "1")).signatures["raw"]
    found = raw(strand=tf.constant(["GGCCGCGGCCGTGCGGCACC" * 3, "ATTATAATATCTAATTAGAT" * 3]))["label"].numpy()
    assert [label.decode() for label in found] == ["hot spring", "soil"]


@pytest.mark.parametrize(
    ("file", "node"),
    [("components/models/strand.py", "Trainer"), ("components/fitting/strand.py", "Transform")],
)
def test_edit_of_the_task_runs_the_nodes_that_use_it(first_run: tuple[Any, Any], file: str, node: str) -> None:
    """A15: the new files are in the cache keys of the nodes that import them; nothing has to declare them."""
    pipeline, _ = first_run
    content = (pipeline.code / file).read_text()
    (pipeline.code / file).write_text(f"{content}# edited\n")
    edited = pipeline.run("--dry-run")
    (pipeline.code / file).write_text(content)

    assert edited.reason(node) == f"code changed: {file}"
