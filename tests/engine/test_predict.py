"""`penstock predict` on a real Flink cluster: the same bytes as on the direct runner."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.serving.reading import Argument, Reading
from tests.inference.conftest import CLASSES, Adder, dtype_of, png, save_convolution

pytestmark = pytest.mark.engine


def save(folder: Path, *arguments: Argument) -> None:
    """Saves a model of two classes."""
    module = Adder(arguments, "class")
    specs = {each.name: tf.TensorSpec([None], dtype_of(each), each.name) for each in arguments}
    raw = tf.function(module.raw, autograph=False).get_concrete_function(**specs)
    tf.saved_model.save(module, str(folder), signatures={"raw": raw})
    Reading(arguments, "label", "class", CLASSES, label_source="kind").write(folder)


def results(out: Path) -> dict[str, bytes]:
    """Returns all files of a result."""
    return {file.name: file.read_bytes() for file in out.iterdir()}


def compare(engine: Any, model: Path, data: str, home: Path, *flags: str) -> dict[str, bytes]:
    """Predicts on both runners and compares all files; returns them."""
    for runner in ("direct", "flink"):
        code, output = engine.run("predict", str(model), data, "--out", str(home / runner), "--runner", runner, *flags)
        assert code == 0, output
    direct, flink = results(home / "direct"), results(home / "flink")
    assert flink == direct
    return flink


def test_a_table(healthy: Any, tmp_path: Path) -> None:
    """Rows of several files, some of them bad."""
    save(tmp_path / "model", Argument("size", "size", "number", "float"), Argument("name_", "name", "category", "text"))
    for part in range(3):
        rows = [f"{n % 7},{'n' * (n % 5)},{CLASSES[n % 2]}\n" for n in range(part, 5000, 3)]
        (tmp_path / f"rows-{part}.csv").write_text("size,name,kind\n" + "".join(rows) + "bad\n")

    found = compare(healthy, tmp_path / "model", str(tmp_path / "rows-*.csv"), tmp_path)

    assert [name for name in sorted(found) if name.startswith("predictions")] == [
        f"predictions-0000{part}-of-00003.parquet" for part in range(3)
    ]


def test_images(healthy: Any, tmp_path: Path) -> None:
    """Files of several work units, one of them no image, by a convolution."""
    save_convolution(tmp_path / "model")
    (tmp_path / "photos").mkdir()
    for number in range(1200):
        (tmp_path / "photos" / f"{number:04d}.png").write_bytes(png(number % 256))
    (tmp_path / "photos" / "0700.png").write_bytes(b"<html>")

    found = compare(healthy, tmp_path / "model", str(tmp_path / "photos"), tmp_path, "--format", "jsonl")

    assert len([name for name in found if name.startswith("predictions")]) == 3
