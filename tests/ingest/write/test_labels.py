"""Promise A17: a row without a label is quarantined, kept as a class, or stops the run, as `ingest.unlabelled` says."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.errors import BadInput, SettingsError
from components.ingest import units
from components.ingest.close.manifest import check_labels
from components.ingest.config import Needs
from components.ingest.survey import survey
from components.ingest.units import Output
from components.ingest.write import labels
from components.records.quarantine import Quarantined
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache

LABELLED = Needs(label="label")


def ingest(data: Path, needs: Needs = LABELLED, **settings: Any) -> tuple[Counter[str], list[Quarantined]]:
    """Ingests a file as a task does; returns the records per class, and the quarantine."""
    chosen = Ingest(**settings)
    found = survey.take(str(data), chosen, HashCache(None), needs)
    assert found.table is not None
    out = data.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    output = Output(out, chosen, table=found.table)
    made = [
        each for unit in units.divide_all(units.of_rows(found.spans[0], chosen), output) for each in unit.write(output)
    ]
    classes: Counter[str] = sum((Counter(report.classes) for report in made), Counter())
    quarantined = [bad for report in made for bad in report.quarantined]
    assert sum(report.read for report in made) == sum(report.records for report in made) + len(quarantined)
    return classes, quarantined


def reasons(quarantined: list[Quarantined]) -> list[tuple[str, str]]:
    """Returns positions and reasons."""
    return [(bad.position, bad.reason) for bad in quarantined]


def csv(path: Path) -> None:
    """A table with an empty label, and one of blanks."""
    path.with_suffix(".csv").write_text('fare,label\n1,cash\n2,\n3,"  "\n4,card\n')


def jsonl(path: Path) -> None:
    """A label that is null, one that is not there, one of a no-break space."""
    rows = [{"fare": 1, "label": "cash"}, {"fare": 2, "label": None}, {"fare": 3, "label": "\u00a0"}]
    lines = [*map(orjson.dumps, rows), b'{"fare": 4, "label": "card"}']
    path.with_suffix(".jsonl").write_bytes(b"\n".join(lines))


def parquet(path: Path) -> None:
    """A null, and an empty string."""
    pq.write_table(pa.table({"fare": [1, 2, 3, 4], "label": ["cash", None, "", "card"]}), path.with_suffix(".parquet"))


def arrays(path: Path) -> None:
    """Labels in a file beside the array."""
    np.save(path.with_suffix(".npy"), np.arange(8.0).reshape(4, 2))
    np.save(path.with_name(f"{path.name}_labels.npy"), np.array(["cash", "", " \t", "card"]))


def tfrecords(path: Path) -> None:
    """A record without the feature, and one with empty bytes."""
    with tf.io.TFRecordWriter(str(path.with_suffix(".tfrecord"))) as writer:
        for number, label in enumerate(["cash", None, "", "card"]):
            features = {"fare": tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))}
            if label is not None:
                features["label"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[label.encode()]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@pytest.mark.parametrize("write", [csv, jsonl, parquet, arrays, tfrecords])
class TestEverySource:
    """A row source cannot leave a label out."""

    def test_rows_without_a_label_are_quarantined(self, write: Callable[[Path], None], data: Path) -> None:
        """A17: with file and position, and every row is counted once."""
        write(data / "taxi")
        classes, quarantined = ingest(data)

        assert (classes, {bad.reason for bad in quarantined}) == ({"cash": 1, "card": 1}, {"no label"})
        assert [bad.path.startswith("taxi.") and bool(bad.position and bad.raw) for bad in quarantined] == [True, True]

    def test_they_can_be_a_class(self, write: Callable[[Path], None], data: Path) -> None:
        """A17: all of them under one documented name."""
        write(data / "taxi")

        assert ingest(data, unlabelled="keep_as_class") == ({"cash": 1, "card": 1, "(none)": 2}, [])

    def test_they_can_stop_the_run(self, write: Callable[[Path], None], data: Path) -> None:
        """A17: the message names file and position of the first one."""
        write(data / "taxi")
        _, quarantined = ingest(data, unlabelled="stop")

        with pytest.raises(BadInput) as error:
            check_labels(quarantined, data / "quarantine.jsonl")
        assert str(error.value) == (
            f"{quarantined[0].path}: {quarantined[0].position}: no label; ingest.unlabelled = stop expects a label in "
            f"every row; 2 rows have none, listed in {data}/quarantine.jsonl: add it, or set ingest.unlabelled to "
            "quarantine or keep_as_class"
        )


def test_the_quarantine_has_line_and_text(data: Path) -> None:
    """A17: in a file of several ranges and with a bad row of another kind, line numbers are those of the file."""
    (data / "a.csv").write_text("fare,label\n1,cash\nx,card\n3,\n4,card\n" + "5,cash\n" * 30)
    _, quarantined = ingest(data, columns={"fare": "float"})

    assert [(bad.path, bad.position, bad.reason.partition(" is")[0], bad.raw) for bad in quarantined] == [
        ("a.csv", "line 3", "column fare: 'x'", "x,card"),
        ("a.csv", "line 4", "no label", "3,"),
    ]


def test_the_image_of_a_row_without_a_label_is_not_needed(data: Path, image: Callable[..., bytes]) -> None:
    """A17: rows after it keep their own line number, also for a later fault."""
    (data / "1.png").write_bytes(image(1))
    (data / "2.png").write_bytes(b"no image")
    (data / "list.csv").write_text("path,label\n1.png,\n1.png,cat\n2.png,dog\n")
    classes, quarantined = ingest(data, images="path")

    assert classes == {"cat": 1}
    assert [(bad.position, bad.reason.split(":")[0]) for bad in quarantined] == [
        ("line 2", "no label"),
        ("line 4", "column path"),
    ]


@pytest.mark.parametrize("missing", ["NA", "null", " n/a "])
def test_a_missing_number_is_no_class(missing: str, data: Path) -> None:
    """A17: where classes are numbers; where they are names, NA is one of them."""
    (data / "numbers.csv").write_text("fare,label\n" + "1,0\n2,1\n" * 20 + f"3,{missing}\n")
    (data / "names.csv").write_text(f"fare,label\n1,one\n2,{missing}\n")

    assert ingest(data / "numbers.csv")[0] == {"0": 20, "1": 20}
    assert ingest(data / "names.csv")[0] == {"one": 1, missing: 1}


@pytest.mark.parametrize(("unlabelled", "warned"), [("keep_as_class", True), ("quarantine", False)])
def test_a_class_with_the_name_of_rows_without_a_label(unlabelled: str, warned: bool, data: Path) -> None:
    """A17: both are one class then, and a warning says so."""
    (data / "a.csv").write_text("fare,label\n1,cash\n2,\n3,(none)\n4,(none)\n")
    settings = Ingest.model_validate({"unlabelled": unlabelled})
    found = survey.take(str(data), settings, HashCache(None), LABELLED)
    output = Output(data.parent / "out", settings, table=found.table)
    made = [
        each
        for unit in units.divide_all(units.of_rows(found.spans[0], settings), output)
        for each in unit.write(output)
    ]
    expected = (
        "2 rows have the label (none) in the data, and rows without a label are in the same class "
        "(ingest.unlabelled = keep_as_class); rename that class, or set ingest.unlabelled to quarantine"
    )

    assert labels.warnings(made) == ([expected] if warned else [])


class TestRegression:
    """The label is a quantity."""

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "npz"])
    def test_a_quantity_that_is_missing_or_not_finite_is_no_label(self, suffix: str, data: Path) -> None:
        """A17, A9: nan and infinity too; other columns are not affected."""
        values = [1.5, float("nan"), float("inf"), 1e300, 2.5]
        if suffix == "csv":
            (data / "a.csv").write_text("x,label\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)))
        elif suffix == "jsonl":
            (data / "a.jsonl").write_text(
                "".join(f"{json.dumps({'x': n, 'label': v})}\n" for n, v in enumerate(values))
            )
        elif suffix == "parquet":
            pq.write_table(pa.table({"x": range(5), "label": values}), data / "a.parquet")
        else:
            np.savez(data / "a.npz", x=np.arange(5), label=np.array(values))
        _, quarantined = ingest(data)

        word, first = {"csv": ("line", 3), "jsonl": ("line", 2)}.get(suffix, ("row", 2))
        assert reasons(quarantined) == [
            (f"{word} {first}", "no label: nan"),
            (f"{word} {first + 1}", "no label: inf"),
            (f"{word} {first + 2}", "no label: 1e+300, beyond the range of float32"),
        ]

    def test_a_missing_quantity_is_no_label(self, data: Path) -> None:
        """A17: an empty cell, a null."""
        (data / "a.csv").write_text("x,label\n1,1.5\n2,\n3,NA\n")
        pq.write_table(pa.table({"x": [1, 2], "label": [1.5, None]}), data / "a.parquet")

        assert reasons(ingest(data / "a.csv")[1]) == [("line 3", "no label"), ("line 4", "no label")]
        assert reasons(ingest(data / "a.parquet")[1]) == [("row 2", "no label")]

    def test_a_quantity_cannot_be_a_class(self, data: Path) -> None:
        """A17: the survey says so, with the name of the column in the data."""
        (data / "a.csv").write_text("x,price\n1,1.5\n2,\n")

        with pytest.raises(SettingsError) as error:
            ingest(data, label="price", unlabelled="keep_as_class")
        assert str(error.value) == (
            "setting ingest.unlabelled: keep_as_class needs a label of text, but 'price' is double; "
            "use quarantine or stop, or --set ingest.columns.price=text"
        )


def test_without_a_label_column_nothing_is_missing(data: Path) -> None:
    """`penstock ingest` of a table without labels."""
    (data / "a.csv").write_text("x,y2\n1,\n2,3\n")

    assert ingest(data, Needs()) == ({}, [])
