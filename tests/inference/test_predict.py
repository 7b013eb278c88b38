"""`penstock predict` reads every source that ingest reads, with or without labels."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.errors import BadInput
from components.serving.reading import Argument
from pipelines.predict import predict
from tests.inference.tables import HIGH, ROWS, TABLE, predictions, write_csv


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
    (tmp_path / "rows.csv").write_bytes(b"code,noise\n" + b"007,1\n" * 40 + b"8,caf\xe9\n")

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
