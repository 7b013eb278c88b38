"""Every task on its sample data, as a user runs it: the model reaches its accuracy, is pushed and takes raw values.

The image task is tested in test_image.py.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from components.tasks import NAMES
from data.__main__ import generators
from pipelines.predict import PredictRequest, predict

# Only in `make test-all`: test_own_data.py runs the same tasks on smaller data.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

ACCURACY = {"text": 0.90, "tensor": 0.97, "tabular": 0.95, "multimodal": 0.90}
REQUESTS = 40
Rows = list[tuple[dict[str, Any], str]]


@pytest.fixture(scope="module", params=ACCURACY)
def first_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any
) -> tuple[Any, Any]:
    """A first run of a task with its default settings, and its result."""
    home = tmp_path_factory.mktemp(request.param)
    generators()[request.param].main(["--out", str(home / "data")])
    pipeline = make_pipeline(home / "data", home / "root", task=request.param)
    return pipeline, pipeline.run()


def test_every_task_is_tested() -> None:
    """A new task needs an entry in ACCURACY."""
    assert {*ACCURACY, "image"} == set(NAMES)


def test_first_run_reaches_its_accuracy_and_is_pushed(first_run: tuple[Any, Any]) -> None:
    """The Evaluator measures the accuracy on records that training has not seen."""
    pipeline, result = first_run

    assert result.code == 0, result.output
    assert "blessed and pushed as version 1" in result.output
    assert pipeline.newest("Evaluator").facts["metrics"]["accuracy"] >= ACCURACY[pipeline.task]


def test_batch_inference_reads_the_data_as_training_did(first_run: tuple[Any, Any], tmp_path: Path) -> None:
    """No setting is repeated, every record is predicted, and the accuracy is that of the model."""
    pipeline, _ = first_run
    made = predict(PredictRequest(pipeline.root / "serving", str(pipeline.data), tmp_path / "out"))

    assert (made.predicted, made.quarantined, made.unknown_labels) == (made.records, 0, 0)
    assert made.labelled == made.records
    assert made.metrics["accuracy"] >= ACCURACY[pipeline.task]


def test_pushed_model_takes_raw_values(first_run: tuple[Any, Any], tmp_path: Path) -> None:
    """A new process with plain TensorFlow passes in the values of the raw files and gets class names."""
    pipeline, _ = first_run
    rows = read_rows(pipeline)
    requests = rows[:REQUESTS]
    columns = {key: [values[key] for values, _ in requests] for key in requests[0][0]}
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
    (tmp_path / "predict.py").write_text(script)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "predict.py", str(pipeline.root / "serving" / "1")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours, labels, classes, probabilities = orjson.loads(done.stdout)

    assert (ours, sorted(classes)) == ([], sorted({label for _, label in rows}))
    np.testing.assert_allclose(np.sum(probabilities, axis=1), np.ones(REQUESTS), rtol=1e-5)
    assert labels == [classes[index] for index in np.argmax(probabilities, axis=1)]
    assert np.mean([found == label for found, (_, label) in zip(labels, requests, strict=True)]) >= 0.8


def read_rows(pipeline: Any) -> Rows:
    """Returns the values and the label of each raw example of a task."""
    readers = {"text": texts, "tensor": arrays, "tabular": cells, "multimodal": questions}
    return readers[pipeline.task](pipeline.data)


def texts(data: Path) -> Rows:
    """Returns texts and their labels."""
    rows = map(json.loads, (data / "docstrings.jsonl").read_text().splitlines())
    return [({"text": row["text"]}, row["label"]) for row in rows]


def arrays(data: Path) -> Rows:
    """Returns the bytes of arrays and their labels."""
    with np.load(data / "digits.npz") as file:
        return [({"pixels": x.tobytes()}, str(y)) for x, y in zip(file["pixels"], file["label"], strict=True)]


def cells(data: Path) -> Rows:
    """Returns rows without missing values, and their labels."""
    with (data / "tumours.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row.values())]
    return [({key: _cell(key, value) for key, value in row.items() if key != "label"}, row["label"]) for row in rows]


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
