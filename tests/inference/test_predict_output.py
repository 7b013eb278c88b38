"""What `penstock predict` writes: formats, manifest, the same bytes with any number of workers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.errors import SettingsError
from components.inference import run, units
from components.records import checksum
from pipelines.predict import predict
from tests.inference.conftest import CLASSES, png, save_convolution
from tests.inference.tables import HIGH, TABLE, save_network, write_csv


class TestOutput:
    """What is written."""

    @pytest.mark.parametrize("form", ["jsonl", "tfrecord"])
    def test_other_formats(self, form: str, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """They hold the same columns."""
        model, file = saved(TABLE, label_source="kind"), write_csv(tmp_path, labelled=True)

        made = predict(request_of(model, file, form=form))

        path = tmp_path / "out" / f"predictions-00000-of-00001.{form}"
        assert checksum.of_file(path) == made.files[0].checksum
        if form == "jsonl":
            first = json.loads(path.read_text().splitlines()[0])
            assert list(first) == ["file", "row", "label", "prediction", "probability", "probabilities"]
            assert (first["row"], first["label"], first["prediction"]) == (2, "high", "high")
        else:
            record = next(iter(tf.data.TFRecordDataset(str(path)))).numpy()
            features = tf.train.Example.FromString(record).features.feature
            assert features["row"].int64_list.value[:] == [2]
            assert features["prediction"].bytes_list.value[:] == [b"high"]
            assert features["probabilities"].float_list.value[:] == pytest.approx([1 - HIGH[0], HIGH[0]], rel=1e-5)

    def test_the_manifest(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It names the model, the classes, all counts, and each file with its checksum."""
        model = saved(TABLE, label_source="kind")
        made = predict(request_of(model, write_csv(tmp_path, labelled=True)))

        stored = json.loads((tmp_path / "out" / "manifest.json").read_text())
        file = tmp_path / "out" / "predictions-00000-of-00001.parquet"
        assert stored["files"] == [
            {"name": file.name, "records": 3, "bytes": file.stat().st_size, "checksum": checksum.of_file(file)}
        ]
        assert stored["model"] == {"path": str(model / "1"), "version": "1", "digest": made.model["digest"]}
        assert stored["classes"] == ["low", "high"]
        assert json.loads(pq.read_schema(file).metadata[b"penstock.classes"]) == ["low", "high"]
        assert {path.name for path in (tmp_path / "out").iterdir()} == {file.name, "manifest.json", "quarantine.jsonl"}

    def test_an_existing_folder_is_rejected(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """Nothing in it changes."""
        (tmp_path / "out").mkdir()

        with pytest.raises(SettingsError, match=r"--out .*: exists already; choose another folder"):
            predict(request_of(saved(TABLE), write_csv(tmp_path, labelled=True)))


PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), pytest.param(PROCESSES, marks=pytest.mark.all)], ids=["threads", "processes"])
def test_any_number_of_workers_writes_the_same_bytes(
    request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Of several ranges per file and batches per range: one, two and four threads, or Beam's worker processes."""
    save_network(tmp_path / "model")
    monkeypatch.setattr(units, "_LEAST_BYTES", 16_000)
    for part in range(2):
        rows = [
            f"{number % 7},{'xyz'[number % 3] * (number % 9)},{CLASSES[number % 2]}\n" for number in range(part, 5000)
        ]
        (tmp_path / f"rows-{part}.csv").write_text("size,review,kind\n" + "".join(rows) + "bad\n")
    data = str(tmp_path / "*.csv")
    for threads in (1, 2, 4):
        monkeypatch.setattr(run, "_CORES", threads)
        predict(request_of(tmp_path / "model", data, out=tmp_path / str(threads)))
    made = predict(request_of(tmp_path / "model", data, out=tmp_path / "more", beam_args=flags))

    one, *others = (
        {file.name: file.read_bytes() for file in (tmp_path / out).iterdir()} for out in ("1", "2", "4", "more")
    )
    assert len(made.files) > 4
    assert min(file.records for file in made.files) > 2 * 256  # the rows of a batch
    assert (made.predicted, made.quarantined) == (9999, 2)
    assert others == [one] * 3


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), pytest.param(PROCESSES, marks=pytest.mark.all)], ids=["threads", "processes"])
def test_any_number_of_workers_writes_the_same_bytes_for_images(
    request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Of several work units and batches per unit by a convolution; the model rejects one image."""
    save_convolution(tmp_path / "model")
    monkeypatch.setattr(units, "_LEAST_FILES", 200)
    (tmp_path / "photos").mkdir()
    for number in range(700):
        (tmp_path / "photos" / f"{number}.png").write_bytes(png(number % 256))
    (tmp_path / "photos" / "large.png").write_bytes(png(7, side=9))
    for threads in (1, 2, 4):
        monkeypatch.setattr(run, "_CORES", threads)
        predict(request_of(tmp_path / "model", tmp_path / "photos", out=tmp_path / str(threads)))
    made = predict(request_of(tmp_path / "model", tmp_path / "photos", out=tmp_path / "more", beam_args=flags))

    one, *others = (
        {file.name: file.read_bytes() for file in (tmp_path / out).iterdir()} for out in ("1", "2", "4", "more")
    )
    assert (len(made.files), made.predicted, made.quarantined) == (4, 700, 1)
    assert others == [one] * 3
