"""`penstock predict` reads every source that ingest reads, with or without labels."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.errors import BadInput, PenstockError, SettingsError
from components.inference import run, units
from components.inference.model import LoadedModel, RejectedByModel
from components.records import checksum
from components.serving.reading import Argument, Reading
from pipelines.predict import predict
from tests.inference import conftest
from tests.inference.conftest import CLASSES, png, save_convolution

TABLE = (Argument("size", "size", "number", "float"), Argument("name_", "name", "category", "text"))
ROWS = [(1.5, "a", "high"), (None, "bb", "low"), (4.0, "", "high")]
TOTALS = np.array([2.5, 2.5, 4.0], np.float32)
HIGH = 1 / (1 + np.exp(2 - TOTALS))
IMAGE = (conftest.IMAGE,)


def predictions(out: Path) -> pa.Table:
    """Returns all predictions in order."""
    return pa.concat_tables([pq.read_table(file) for file in sorted(out.glob("predictions-*.parquet"))])


def write_csv(folder: Path, labelled: bool, header: bool = True) -> Path:
    """Writes the rows as CSV; the label is in the middle."""
    lines = [["size", "kind", "name"]] * header
    lines += [["" if size is None else str(size), label, name] for size, name, label in ROWS]
    kept = [line if labelled else [line[0], line[2]] for line in lines]
    (folder / "rows.csv").write_text("".join(",".join(line) + "\n" for line in kept))
    return folder / "rows.csv"


def write_jsonl(folder: Path, labelled: bool) -> Path:
    """Writes the rows as JSON Lines, with a blank line between them."""
    rows = [{"size": size, "name": name, **({"kind": label} if labelled else {})} for size, name, label in ROWS]
    (folder / "rows.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n")
    return folder / "rows.jsonl"


def write_parquet(folder: Path, labelled: bool) -> Path:
    """Writes the rows as Parquet, with a column that the model does not use."""
    sizes, names, labels = zip(*ROWS, strict=True)
    columns = {"size": pa.array(sizes), "name": names, "other": [[1], [2, 3], []]}
    pq.write_table(pa.table({**columns, **({"kind": labels} if labelled else {})}), folder / "rows.parquet")
    return folder / "rows.parquet"


def write_tfrecord(folder: Path, labelled: bool) -> Path:
    """Writes the rows as tf.Examples."""
    with tf.io.TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
        for size, name, label in ROWS:
            example = tf.train.Example()
            features = example.features.feature
            if size is not None:
                features["size"].float_list.value.append(size)
            features["name"].bytes_list.value.append(name.encode())
            if labelled:
                features["kind"].bytes_list.value.append(label.encode())
            writer.write(example.SerializeToString())
    return folder / "rows.tfrecord"


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(
    ("write", "rows"),
    [(write_csv, [2, 3, 4]), (write_jsonl, [1, 3, 5]), (write_parquet, [1, 2, 3]), (write_tfrecord, [1, 2, 3])],
)
def test_tables(
    write: Any, rows: list[int], labelled: bool, saved: Any, request_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Each row has its file, its number, its label, the class and the probabilities; missing values are as trained."""
    made = predict(request_of(saved(TABLE, label_source="kind"), write(tmp_path, labelled)))

    found = predictions(tmp_path / "out")
    assert found.column_names == ["file", "row", "label", "prediction", "probability", "probabilities"]
    assert found["file"].to_pylist() == [f"rows{write(tmp_path, labelled).suffix}"] * 3
    assert found["row"].to_pylist() == rows
    assert found["label"].to_pylist() == (["high", "low", "high"] if labelled else [None] * 3)
    assert found["prediction"].to_pylist() == ["high"] * 3
    np.testing.assert_allclose(np.stack(found["probabilities"].to_pylist()), np.stack([1 - HIGH, HIGH], 1), rtol=1e-5)
    assert (made.records, made.predicted, made.quarantined) == (3, 3, 0)
    assert made.metrics.get("accuracy") == (pytest.approx(2 / 3) if labelled else None)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_csv_without_header_and_without_its_label_column(
    labelled: bool, saved: Any, request_of: Callable[..., Any], tmp_path: Path
) -> None:
    """The remaining columns keep the names that they have in the training data."""
    arguments = (Argument("a", "column_1", "number", "float"), Argument("b", "column_3", "category", "text"))
    model = saved(arguments, label_source="column_2", columns=("column_1", "column_2", "column_3"))
    file = write_csv(tmp_path, labelled, header=False)

    predict(request_of(model, file, given={"header": "no"}))

    np.testing.assert_allclose(predictions(tmp_path / "out")["probability"].to_numpy(), HIGH, rtol=1e-5)


def test_types_are_those_of_the_training_data(saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
    """A code that looks like a number is text if it was text, and an unused column cannot make a row bad."""
    (tmp_path / "rows.csv").write_text("code,noise\n" + "007,1\n" * 40 + "8,x\n")

    made = predict(
        request_of(saved((Argument("code", "code", "category", "text"),), "quantity"), tmp_path / "rows.csv")
    )

    assert predictions(tmp_path / "out")["prediction"].to_pylist() == [3.0] * 40 + [1.0]
    assert made.quarantined == 0


def write_odd_jsonl(folder: Path) -> Path:
    """Writes rows with another key, whose type changes, which is nested or there once; one is no JSON."""
    others = ['"noise": 1', '"noise": "x"', '"other": {"a": 1}', '"new": [1, "x"]', '"size": 1 2']
    lines = [f'{{"code": "007", {other}}}\n' for other in others]
    (folder / "rows.jsonl").write_text("".join(lines))
    return folder / "rows.jsonl"


def write_odd_tfrecord(folder: Path) -> Path:
    """Writes rows with another feature, whose type changes, or which is there after the first thousand; one is none."""
    with tf.io.TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
        for number in range(1_001):
            example = tf.train.Example()
            features = example.features.feature
            features["code"].bytes_list.value.append(b"007")
            if number == 1:
                features["noise"].bytes_list.value.append(b"x")
            elif number == 1_000:
                features["new"].int64_list.value.append(1)
            else:
                features["noise"].int64_list.value.append(number)
            writer.write(example.SerializeToString())
        writer.write(b"no Example")
    return folder / "rows.tfrecord"


@pytest.mark.parametrize(("write", "rows"), [(write_odd_jsonl, 4), (write_odd_tfrecord, 1_001)])
def test_other_columns_are_not_read(
    write: Callable[[Path], Path], rows: int, saved: Any, request_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Not of JSON Lines or TFRecords either; a row that is damaged is quarantined still."""
    model = saved((Argument("code", "code", "category", "text"),), "quantity")

    made = predict(request_of(model, write(tmp_path), given={"max_bad_fraction": 0.5}))

    assert predictions(tmp_path / "out")["prediction"].to_pylist() == [3.0] * rows
    assert made.quarantined == 1


def test_joined_texts(saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
    """The model knows which columns its text was joined from, and by what."""
    (tmp_path / "rows.csv").write_text("title,body\nab,cde\n,xyz w\n")
    settings = {"text": ["title", "body"], "text_separator": " | "}
    model = saved((Argument("text", "title_body", "text", "text"),), "quantity", settings=settings)

    predict(request_of(model, tmp_path / "rows.csv"))

    assert predictions(tmp_path / "out")["prediction"].to_pylist() == [8.0, 5.0]


def test_arrays(saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
    """The bytes of a tensor are the argument; the label beside it is found."""
    np.savez(tmp_path / "rows.npz", x=np.arange(8, dtype=np.float32).reshape(4, 2), label=np.array([1.0, 5, 9, 14]))
    model = saved((Argument("x", "x", "tensor", "bytes", "float32", (2,)),), "quantity", label_source="label")

    made = predict(request_of(model, tmp_path / "rows.npz"))

    assert predictions(tmp_path / "out")["prediction"].to_pylist() == [1.0, 5.0, 9.0, 13.0]
    assert made.metrics == pytest.approx({"r2": 1 - 1 / 92.75, "mae": 0.25, "rmse": 0.5})


def test_arrays_of_another_shape(saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
    """Both shapes are named, and nothing is written."""
    np.savez(tmp_path / "rows.npz", x=np.zeros((4, 3), np.float32))
    model = saved((Argument("x", "x", "tensor", "bytes", "float32", (2,)),), "quantity")

    with pytest.raises(BadInput, match=r"column 'x' has tensors of float32 3; the model expects float32 2"):
        predict(request_of(model, tmp_path / "rows.npz"))

    assert not (tmp_path / "out").exists()


class TestFiles:
    """A file is a record."""

    def test_a_flat_folder_of_images(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """No class folder is needed; files that are no images are ignored, damaged ones quarantined."""
        data = tmp_path / "photos"
        data.mkdir()
        for name, content in {"b.png": png(51), "a.png": png(255), "notes.txt": b"x", "c.jpg": b"<html>"}.items():
            (data / name).write_bytes(content)

        made = predict(request_of(saved(IMAGE), data, given={"max_bad_fraction": 0.5}))

        found = predictions(tmp_path / "out")
        assert found["file"].to_pylist() == ["a.png", "b.png"]
        assert (found["row"].null_count, found["label"].null_count) == (2, 2)
        np.testing.assert_allclose(found["probability"].to_numpy(), 1 / (1 + np.exp([-1.0, -1.8])), rtol=1e-5)
        assert (made.records, made.predicted, made.quarantined, made.ignored) == (3, 2, 1, 1)
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["path"] == "c.jpg"
        assert bad["reason"].startswith("not an image: starts with '<html>'")

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            (
                "",
                {
                    "link.png": "symbolic link that leads outside the data folder",
                    "linked": "symbolic link that leads outside the data folder",
                    "pipe.png": "not a regular file",
                },
            ),
            ("*/*.png", {"linked/b.png": "symbolic link that leads outside the data folder"}),
            (
                "*.png",
                {"link.png": "symbolic link that leads outside the data folder", "pipe.png": "not a regular file"},
            ),
        ],
    )
    def test_links_and_pipes(
        self, pattern: str, expected: dict[str, str], saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """None is followed or opened: each is quarantined; hidden files are counted as ignored."""
        data, other = tmp_path / "photos", tmp_path / "other"
        for name in (data / "a.png", data / "in" / "b.png", data / ".hidden" / "c.png", other / "b.png"):
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(png(0))
        (data / "linked").symlink_to(other)
        (data / "link.png").symlink_to(other / "b.png")
        os.mkfifo(data / "pipe.png")

        made = predict(request_of(saved(IMAGE), f"{data}/{pattern}", given={"max_bad_fraction": 0.9}))

        listed = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert {bad["path"]: bad["reason"] for bad in listed} == expected
        assert (made.quarantined, made.ignored) == (len(expected), 0 if pattern else 1)

    def test_class_folders(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A folder is the label if it is one of the model's classes."""
        for name in ("low/a.png", "other/b.png"):
            (tmp_path / "photos" / name).parent.mkdir(parents=True)
            (tmp_path / "photos" / name).write_bytes(png(0))

        made = predict(request_of(saved(IMAGE), tmp_path / "photos"))

        assert predictions(tmp_path / "out")["label"].to_pylist() == ["low", None]
        assert (made.labelled, made.metrics["accuracy"]) == (1, 1.0)

    def test_damaged_images(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """One that TensorFlow decodes without an error, to wrong pixels, is quarantined as ingest does it."""
        (tmp_path / "photos").mkdir()
        whole = png(255)
        at = whole.index(b"IDAT") + 8
        for name, content in {
            "a.png": whole,
            "b.png": whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :],
            "c.png": whole,
        }.items():
            (tmp_path / "photos" / name).write_bytes(content)

        predict(request_of(saved(IMAGE), tmp_path / "photos", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["file"].to_pylist() == ["a.png", "c.png"]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert (bad["path"], "checksum" in bad["reason"].lower()) == ("b.png", True)

    def test_texts(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """Each file is a text."""
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "a.txt").write_text("abcd")

        predict(request_of(saved((Argument("text", "text", "text", "text"),), "quantity"), tmp_path / "texts"))

        assert predictions(tmp_path / "out")["prediction"].to_pylist() == [4.0]

    def test_a_table_with_image_paths(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The model knows the column; a row whose image does not exist is quarantined, the others keep their lines."""
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "1.png").write_bytes(png(255))
        (tmp_path / "data" / "rows.csv").write_text("photo,other\nmissing.png,2.png\n1.png,1.png\n")
        model = saved(IMAGE, image_source="photo")

        made = predict(request_of(model, tmp_path / "data", given={"max_bad_fraction": 0.5}))

        found = predictions(tmp_path / "out")
        assert (found["file"].to_pylist(), found["row"].to_pylist()) == (["rows.csv"], [3])
        assert (made.records, made.quarantined) == (2, 1)


class TestQuarantine:
    """Bad rows."""

    def test_a_record_that_the_model_rejects(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It is found among the others of its batch, which are predicted."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,boom\n3,d\n")

        predict(request_of(saved(TABLE), tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["position"] == "row 3"
        assert bad["reason"].startswith("the model cannot predict it: ")

    def test_a_prediction_that_is_not_finite(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It is quarantined, instead of being read as the first class."""
        save_network(tmp_path / "model")
        (tmp_path / "rows.csv").write_text("size,review\n1,a\n,b\n3,d\n")

        made = predict(request_of(tmp_path / "model", tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["position"] == "row 3"
        assert bad["reason"] == "the model cannot predict it: its prediction is not a finite number"
        assert (made.predicted, made.quarantined) == (2, 1)

    def test_a_rejected_record_is_found_by_halves(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch of 256 takes two calls per halving, the first call, and one for the others."""
        (tmp_path / "rows.csv").write_text("size,name\n" + "1,a\n" * 100 + "1,boom\n" + "1,a\n" * 155)
        sizes, served = list[int](), LoadedModel.predict

        def counted(self: LoadedModel, columns: Any) -> Any:
            sizes.append(len(columns["size"]))
            return served(self, columns)

        monkeypatch.setattr(LoadedModel, "predict", counted)
        made = predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

        assert (made.predicted, made.quarantined) == (255, 1)
        assert sorted(sizes) == sorted([256, 255, *(size for power in range(8) for size in [1 << power] * 2)])

    def test_a_model_that_rejects_every_record(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """It ends with the model's error, not with a list of all records."""
        (tmp_path / "rows.csv").write_text("size,name\n" + "1,boom\n" * 40)

        with pytest.raises(BadInput, match=r"rows.csv: the model cannot predict any of the first 40 records: .*assert"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_a_model_whose_predictions_depend_on_the_batch(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is an error that names the file, not a bug."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b\n3,c\n")
        served = LoadedModel.predict

        def predict_few(self: LoadedModel, columns: Any) -> Any:
            if len(columns["size"]) > 2:
                raise RejectedByModel("too many")
            return served(self, columns)

        monkeypatch.setattr(LoadedModel, "predict", predict_few)

        with pytest.raises(PenstockError, match=r"rows.csv: the model predicts each of 3 records, but not all of them"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_labels_of_a_quantity_that_are_no_numbers(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """They are null, and their rows are predicted."""
        (tmp_path / "rows.csv").write_text("size,price\n1, 1.5\n2,unknown\n3,-2e1\n4,\n5,nan\n")

        made = predict(request_of(saved(TABLE[:1], "quantity", label_source="price"), tmp_path / "rows.csv"))

        assert predictions(tmp_path / "out")["label"].to_pylist() == [1.5, None, -20.0, None, None]
        assert (made.labelled, made.quarantined) == (2, 0)

    def test_a_bad_row_is_listed_and_the_next_rows_keep_their_numbers(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """With line, reason and text."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b,c\n3,d\n")

        predict(request_of(saved(TABLE), tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad == {
            "path": "rows.csv", "position": "line 3", "reason": "3 cells, expected 2 as in the header", "raw": "2,b,c",
        }  # fmt: skip

    def test_too_many_bad_rows_stop_it(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """There is no --out; the list stays."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b,c\n3,d\n")

        with pytest.raises(BadInput, match=r"1 of 3 records were quarantined"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

        assert not (tmp_path / "out").exists()
        assert (tmp_path / "out.quarantine.jsonl").exists()
        assert not list(tmp_path.glob(".aside-*"))


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


class TestErrors:
    """Each says what happened, what was expected and what to do."""

    def test_missing_columns(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """They are named, with those that there are."""
        (tmp_path / "rows.csv").write_text("size,other\n1,2\n")

        with pytest.raises(BadInput, match=r"the model reads name \(category\), which the data does not have; it has"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_lists_instead_of_values(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """File, column and what is expected are named."""
        (tmp_path / "rows.jsonl").write_text('{"size": [1.0, 2.0], "name": "a"}\n')

        with pytest.raises(
            BadInput, match=r"rows.jsonl: column 'size' has lists \(list.*the model expects one value \(fl"
        ):
            predict(request_of(saved(TABLE), tmp_path / "rows.jsonl"))

    def test_a_column_named_as_the_label_of_records(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """It is no label if the training data had its label in a column of another name."""
        (tmp_path / "rows.csv").write_text("size,name,label\n1,a,high\n")

        assert predict(request_of(saved(TABLE, label_source="kind"), tmp_path / "rows.csv")).labelled == 0

    def test_settings_of_a_model(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A wrong one names the model; limits are the user's."""
        file = write_csv(tmp_path, labelled=False)
        predict(request_of(saved(TABLE, settings={"max_bad_fraction": 2, "max_pixels": "all"}), file))

        with pytest.raises(SettingsError, match=r"model .*serving/1: assets.extra/reading.json: setting ingest.header"):
            predict(request_of(saved(TABLE, settings={"header": "perhaps"}), file, out=tmp_path / "other"))

    def test_a_model_that_changes_meanwhile(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The process that loads it compares its digest."""
        serving = saved(TABLE)

        def change(*_: Any) -> None:
            (serving / "1" / "assets.extra" / "other").write_bytes(b"new")

        with pytest.raises(PenstockError, match=r"model .*serving/1: its files changed after it was found; run again"):
            predict(request_of(serving, write_csv(tmp_path, labelled=False)), change)

    def test_a_model_of_another_kind(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A folder of images is no table."""
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "a.png").write_bytes(png(0))

        with pytest.raises(BadInput, match=r"holds class folders of images, but the model reads size \(number\)"):
            predict(request_of(saved(TABLE), tmp_path / "photos"))

    def test_no_model(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The folder is named."""
        with pytest.raises(SettingsError, match=r"model .*nowhere: no such folder; expected a model that Penstock"):
            predict(request_of(tmp_path / "nowhere", tmp_path))

    def test_a_model_of_another_program(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It does not say how raw data becomes its arguments."""
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "saved_model.pb").write_bytes(b"")

        with pytest.raises(SettingsError, match=r"it has no assets.extra/reading.json"):
            predict(request_of(tmp_path / "model", tmp_path))

    def test_no_data(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """Zero examples are an error."""
        (tmp_path / "photos").mkdir()

        with pytest.raises(BadInput, match=r"0 examples"):
            predict(request_of(saved(IMAGE), tmp_path / "photos"))


def save_network(folder: Path) -> None:
    """Saves a network of two dense layers, whose last digits depend on the number of rows that it gets at once."""
    arguments = (Argument("size", "size", "number", "float"), Argument("review", "review", "text", "text"))
    random = np.random.default_rng(3)
    module = tf.Module()
    module.first, module.second = (
        tf.Variable(random.normal(size=shape), dtype=tf.float32) for shape in [(9, 64), (64, 2)]
    )

    def raw(size: Any, review: Any) -> dict[str, Any]:
        codes = tf.io.decode_raw(review, tf.uint8, fixed_length=8)
        inputs = tf.concat([size[:, tf.newaxis], tf.cast(codes, tf.float32) / 128], axis=1)
        return {"probabilities": tf.nn.softmax(tf.nn.relu(inputs @ module.first) @ module.second / 8)}

    specs = {"size": tf.TensorSpec([None], tf.float32, "size"), "review": tf.TensorSpec([None], tf.string, "review")}
    module.raw = tf.function(raw, autograph=False)
    tf.saved_model.save(module, str(folder), signatures={"raw": module.raw.get_concrete_function(**specs)})
    Reading(arguments, "label", "class", CLASSES, label_source="kind").write(folder)


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
