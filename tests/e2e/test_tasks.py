"""Every task from end to end on its sample, as a user runs it: it reaches its bar, is pushed, and answers raw values.

The image task has tests of its own, in test_image.py.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from components.tasks import NAMES
from data.__main__ import generators

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BARS = {"text": 0.90, "tensor": 0.97, "tabular": 0.95, "multimodal": 0.90}
ASKED = 40
Rows = list[tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any, run_all: Callable[..., dict[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """A first run of each task with its default settings, and what it said."""
    pipelines = {}
    for name in BARS:
        home = tmp_path_factory.mktemp(name)
        generators()[name].main(["--out", str(home / "data")])
        pipelines[name] = make_pipeline(home / "data", home / "root", task=name)
    results = run_all(pipelines)
    return {name: (pipeline, results[name]) for name, pipeline in pipelines.items()}


def test_no_task_is_left_out() -> None:
    """A new one has a bar to reach, too."""
    assert set(BARS) | {"image"} == set(NAMES)


@pytest.mark.parametrize("name", BARS)
def test_a_first_run_reaches_its_bar_and_is_pushed(finished: dict[str, tuple[Any, Any]], name: str) -> None:
    """On records that it never saw."""
    pipeline, result = finished[name]

    assert result.code == 0, result.said
    assert "blessed and pushed as version 1" in result.said
    assert pipeline.newest("Evaluator").facts["metrics"]["accuracy"] >= BARS[name]


@pytest.mark.parametrize("name", BARS)
def test_the_pushed_model_answers_raw_values(finished: dict[str, tuple[Any, Any]], tmp_path: Path, name: str) -> None:
    """In a fresh process with plain TensorFlow: values as they stand in the raw files in, class names out."""
    pipeline, _ = finished[name]
    rows = ROWS[name](pipeline.data)[:ASKED]
    columns = {key: [values[key] for values, _ in rows] for key in rows[0][0]}
    script = (
        "import json, sys, tensorflow as tf\n"
        "raw = tf.saved_model.load(sys.argv[1]).signatures['raw']\n"
        f"given = {columns!r}\n"
        "spec = raw.structured_input_signature[1]\n"
        "assert given.keys() == spec.keys(), (given.keys(), spec.keys())\n"
        "found = raw(**{key: tf.constant(values, spec[key].dtype) for key, values in given.items()})\n"
        "ours = {'components', 'pipelines', 'tfx', 'tensorflow_transform'} & set(sys.modules)\n"
        "print(json.dumps([sorted(ours), [each.decode() for each in found['label'].numpy()],\n"
        "                  [each.decode() for each in found['all_classes'].numpy()[0]],\n"
        "                  found['probabilities'].numpy().tolist()]))\n"
    )
    (tmp_path / "ask.py").write_text(script)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "ask.py", str(pipeline.root / "serving" / "1")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours, labels, classes, probabilities = orjson.loads(done.stdout)

    assert (ours, sorted(classes)) == ([], sorted({label for _, label in ROWS[name](pipeline.data)}))
    np.testing.assert_allclose(np.sum(probabilities, axis=1), np.ones(ASKED), rtol=1e-5)
    assert labels == [classes[place] for place in np.argmax(probabilities, axis=1)]
    assert np.mean([found == label for found, (_, label) in zip(labels, rows, strict=True)]) >= 0.8


def texts(data: Path) -> Rows:
    """Returns texts and their labels."""
    rows = map(json.loads, (data / "docstrings.jsonl").read_text().splitlines())
    return [({"text": row["text"]}, row["label"]) for row in rows]


def arrays(data: Path) -> Rows:
    """Returns the bytes of arrays and their labels."""
    with np.load(data / "digits.npz") as held:
        return [({"pixels": x.tobytes()}, str(y)) for x, y in zip(held["pixels"], held["label"], strict=True)]


def cells(data: Path) -> Rows:
    """Returns rows without gaps and their labels."""
    with (data / "tumours.csv").open(newline="") as file:
        whole = [row for row in csv.DictReader(file) if all(row.values())]
    return [({key: _cell(key, value) for key, value in row.items() if key != "label"}, row["label"]) for row in whole]


def _cell(column: str, value: str) -> Any:
    if column == "symmetric":
        return int(value == "true")
    return value if column in {"size", "entered"} else float(value)


def questions(data: Path) -> Rows:
    """Returns images, questions and numbers, and the answers."""
    rows = map(json.loads, (data / "questions.jsonl").read_text().splitlines())
    return [
        (
            {"image": (data / row.pop("image")).read_bytes(), **{key: row[key] for key in row if key != "label"}},
            row["label"],
        )
        for row in rows
    ]


ROWS = {"text": texts, "tensor": arrays, "tabular": cells, "multimodal": questions}
