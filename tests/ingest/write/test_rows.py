"""A range of rows becomes shards: each row once, in the split that its content decides, complete or absent."""

import csv
import gzip
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.errors import SettingsError
from components.ingest.close import duplicates
from components.ingest.sources.csv.csv_rows import SOURCE as CSV
from components.ingest.sources.parquet.parquet_rows import SOURCE as PARQUET
from components.ingest.survey import columns
from components.ingest.write import rows as write_rows
from components.ingest.write.report import ShardReport
from components.ingest.write.rows import RangeReader, write_range
from components.records import checksum
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS, Splits

Table = list[list[Any]]
ONLY = "00000-of-00001"  # the end of a shard's name
HALVES = Splits(train=0.5, eval=0.3, test=0.2)


def table(path: Path, rows: Table) -> Path:
    """Writes a table with Python's own writer; the first row has the names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write(
    path: Path, artifact: Path, *, source: Any = CSV, label: str = "label", pieces: int = 1, **settings: Any
) -> list[ShardReport]:
    """Writes all ranges of a file."""
    schema = source.schema(path)
    ranges = source.divide(path, path.name, -(-path.stat().st_size // pieces))
    return [
        report
        for number, part in enumerate(ranges)
        for report in write_range(
            RangeReader(part, source, schema, path.parent, Ingest(**settings), label),
            f"{number:05d}-of-{len(ranges):05d}",
            artifact,
        )
    ]


def records(artifact: Path, split: str = "*") -> list[dict[str, Any]]:
    """Reads records back with nothing but TensorFlow."""
    found = []
    for path in sorted(artifact.glob(f"Split-{split}/data_tfrecord-*")):
        packed = "GZIP" if path.suffix == ".gz" else ""
        for record in tf.data.TFRecordDataset(str(path), packed).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({name: getattr(f, f.WhichOneof("kind")).value[0] for name, f in features.items()})
    return found


def splits_of(artifact: Path, column: str) -> dict[Any, set[str]]:
    """Returns the splits that have each value of a column."""
    found: dict[Any, set[str]] = {}
    for split in SPLITS:
        for record in records(artifact, split):
            found.setdefault(record.get(column), set()).add(split)
    return found


def files(artifact: Path) -> dict[str, bytes]:
    """Returns every file of an artifact, leftovers too."""
    return {p.relative_to(artifact).as_posix(): p.read_bytes() for p in sorted(artifact.rglob("*")) if p.is_file()}


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """The folder that the shards go to."""
    return tmp_path / "examples"


class TestSplit:
    """Promise A6: equal contents are always in one split."""

    def test_a_text_with_two_labels_is_in_one_split(self, tmp_path: Path, artifact: Path) -> None:
        """Else the model would be tested on what it was trained on."""
        texts = [f"text {number}" for number in range(200)]
        rows = [[text, label] for label in ("x", "y") for text in texts]
        write(table(tmp_path / "a.csv", [["text", "label"], *rows]), artifact, splits=HALVES, pieces=4)
        found = splits_of(artifact, "text")

        assert {len(splits) for splits in found.values()} == {1}
        assert set().union(*found.values()) == set(SPLITS)

    def test_the_user_may_name_the_column_that_decides(self, tmp_path: Path, artifact: Path) -> None:
        """All rows of one patient are in one split."""
        rows = [[number % 40, number, "xy"[number % 2]] for number in range(400)]
        path = table(tmp_path / "a.csv", [["patient", "value", "label"], *rows])
        write(path, artifact, splits=HALVES, split_by="patient", pieces=4)
        found = splits_of(artifact, "patient")

        assert ({len(splits) for splits in found.values()}, set().union(*found.values())) == ({1}, set(SPLITS))

    def test_a_row_without_a_value_there_is_split_by_its_content(self, tmp_path: Path, artifact: Path) -> None:
        """They are not all in one split."""
        rows = [["", number, "x"] for number in range(100)]
        path = table(tmp_path / "a.csv", [["patient", "value", "label"], [7, 1000, "x"], *rows])
        write(path, artifact, splits=HALVES, split_by="patient")

        assert splits_of(artifact, "patient")[None] == set(SPLITS)

    def test_an_unknown_column_cannot_decide(self, tmp_path: Path, artifact: Path) -> None:
        """The nearest name is suggested."""
        path = table(tmp_path / "a.csv", [["patient", "label"], [1, "x"]])

        with pytest.raises(SettingsError, match=r"setting ingest.split_by: no column 'patent' .* 'patient'\?"):
            write(path, artifact, split_by="patent")

    def test_a_label_that_is_the_only_column_is_split_by_itself(self, tmp_path: Path, artifact: Path) -> None:
        """There is no other content."""
        write(table(tmp_path / "a.csv", [["label"], *([f"c{n}"] for n in range(100))]), artifact, splits=HALVES)

        assert {split for splits in splits_of(artifact, "label").values() for split in splits} == set(SPLITS)

    def test_another_salt_is_another_split(self, tmp_path: Path) -> None:
        """The same salt is the same split."""
        path = table(tmp_path / "a.csv", [["text", "label"], *([f"text {n}", "x"] for n in range(100))])
        for name, salt in (("a", ""), ("b", ""), ("c", "pepper")):
            write(path, tmp_path / name, splits=Splits(train=0.5, eval=0.3, test=0.2, salt=salt))
        a, b, c = (splits_of(tmp_path / name, "text") for name in "abc")

        assert (a == b, a == c) == (True, False)


class TestRecords:
    """What later nodes read."""

    def test_records_have_all_columns_and_an_id(self, tmp_path: Path, artifact: Path) -> None:
        """The id is a positive number that depends on the content without the label."""
        rows: Table = [["a", 1, "x"], ["a", 1, "y"], ["b", "", "x"]]
        write(table(tmp_path / "a.csv", [["text", "number", "label"], *rows]), artifact)
        found = records(artifact)
        ids = {record["text"]: record.pop("id") for record in found}

        assert sorted(found, key=lambda record: (record["text"], record["label"])) == [
            {"text": b"a", "number": 1, "label": b"x"},
            {"text": b"a", "number": 1, "label": b"y"},
            {"text": b"b", "label": b"x"},
        ]
        assert (len(set(ids.values())), min(ids.values()) >= 0, max(ids.values()) < 1 << 63) == (2, True, True)

    def test_a_column_id_of_the_user_is_kept(self, tmp_path: Path, artifact: Path) -> None:
        """Ours is called record_id then."""
        path = table(tmp_path / "a.csv", [["id", "label"], ["p-7", "x"], ["p-8", "x"]])
        write(path, artifact)
        found = {record["id"]: record["record_id"] for record in records(artifact)}

        assert sorted(found) == [b"p-7", b"p-8"]
        assert columns.record_schema(CSV.schema(path)).names == ["id", "label", "record_id"]

    def test_ids_do_not_depend_on_file_and_order(self, tmp_path: Path) -> None:
        """Augmentation is seeded by them."""
        rows = [[f"text {number}", number, "x"] for number in range(50)]
        for name, some in (("a", rows), ("b", rows[::-1])):
            write(table(tmp_path / f"{name}.csv", [["text", "number", "label"], *some]), tmp_path / name)
        a, b = ({record["text"]: record["id"] for record in records(tmp_path / name)} for name in "ab")

        assert a == b
        assert len(set(a.values())) == 50


class TestReport:
    """What the manifest is built from."""

    def test_the_report_is_true(self, tmp_path: Path, artifact: Path) -> None:
        """Promises A8 and A16: classes by split, size and checksum of each file, and no row is missing."""
        rows: Table = [[number, "even" if number % 2 == 0 else "odd"] for number in range(300)]
        path = table(tmp_path / "a.csv", [["number", "label"], *rows, ["x", "odd"], [1, 2, 3]])
        reports = write(path, artifact, splits=HALVES)
        counts = {split: Counter(record["label"].decode() for record in records(artifact, split)) for split in SPLITS}

        assert {report.split: report.classes for report in reports} == counts
        assert {report.name: (report.bytes, report.checksum, report.records) for report in reports} == {
            name: (len(content), checksum.of_bytes(content), sum(counts[split].values()))
            for split in SPLITS
            for name, content in files(artifact).items()
            if name.startswith(f"Split-{split}/")
        }
        assert sum(report.read for report in reports) == 302
        assert sum(report.records + len(report.quarantined) for report in reports) == 302

    def test_bad_rows_are_quarantined_with_file_line_and_text(self, tmp_path: Path, artifact: Path) -> None:
        """Promise A12: in the first report of the range."""
        rows: Table = [["number", "label"], *([n, "a"] for n in range(30)), ["=cmd()", "b"], [1, 2, 3], [31, "a"]]
        reports = write(table(tmp_path / "a.csv", rows), artifact, splits=HALVES)

        assert [(bad.path, bad.position, bad.reason, bad.raw) for report in reports for bad in report.quarantined] == [
            ("a.csv", "line 32", "column number: '=cmd()' is not of type int64", "=cmd(),b"),
            ("a.csv", "line 33", "3 cells, expected 2 as in the header", "1,2,3"),
        ]

    def test_a_range_of_bad_rows_has_a_report_and_no_shard(self, tmp_path: Path, artifact: Path) -> None:
        """Its rows are counted in the ledger."""
        path = table(tmp_path / "a.csv", [["number", "label"], [1, "a"]])
        schema, (part,) = CSV.schema(path), CSV.divide(path, path.name, 1 << 30)
        path.write_bytes(path.read_bytes().replace(b"1,a", b"x,a"))
        [report] = write_range(RangeReader(part, CSV, schema, tmp_path, Ingest(), "label"), ONLY, artifact)

        assert (report.name, report.records, report.read, len(report.quarantined)) == ("", 0, 1, 1)
        assert not artifact.exists()

    @pytest.mark.parametrize(
        ("values", "classes"),
        [
            (pa.array([1, 2, 1]), {"1": 2, "2": 1}),
            (pa.array([True, False, True]), {"true": 2, "false": 1}),
            (pa.array([b"\xff", b"a", b"\xff"]), {"\\xff": 2, "a": 1}),
            (pa.array([0.5, 1.5, 0.5]), {}),
            (pa.array([["a", "b"], ["a"], []]), {}),
        ],
    )
    def test_classes_are_counted_by_name(
        self, tmp_path: Path, artifact: Path, values: pa.Array, classes: dict[str, int]
    ) -> None:
        """Also if they are integers, booleans or bytes; floats and lists are no classes."""
        pq.write_table(pa.table({"label": values, "n": [1, 2, 3]}), tmp_path / "a.parquet")
        reports = write(tmp_path / "a.parquet", artifact, source=PARQUET)
        total: Counter[str] = Counter()
        for report in reports:
            total.update(report.classes)

        assert (total, sum(report.records for report in reports)) == (classes, 3)

    def test_classes_beyond_the_limit_are_counted_together(
        self, tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A label that is different in every row must not fill the memory."""
        monkeypatch.setattr(write_rows, "_MAX_CLASSES", 3)
        reports = write(table(tmp_path / "a.csv", [["n", "label"], *([n, f"c{n}"] for n in range(50))]), artifact)
        total: Counter[str] = Counter()
        for report in reports:
            total.update(report.classes)

        assert total == {"c0": 1, "c1": 1, "c2": 1, "…": 47}

    def test_the_text_of_bad_rows_is_kept_up_to_a_limit(
        self, tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Position and reason are kept of all."""
        monkeypatch.setattr(write_rows, "_MAX_RAW", 2)
        rows: Table = [["n", "label"], *([n, "a"] for n in range(9)), *(["x", "y", "z"] for _ in range(4))]
        reports = write(table(tmp_path / "a.csv", rows), artifact)

        assert [(bad.position, bad.raw) for report in reports for bad in report.quarantined] == [
            ("line 11", "x,y,z"), ("line 12", "x,y,z"), ("line 13", ""), ("line 14", ""),
        ]  # fmt: skip

    def test_duplicates_are_found_among_all_shards(self, tmp_path: Path, artifact: Path) -> None:
        """Promise A6: a row that occurs twice, and a text with two labels."""
        rows = [[f"text {n}", "x"] for n in range(300)]
        path = table(tmp_path / "a.csv", [["text", "label"], *rows, ["text 5", "x"], ["text 7", "y"]])
        reports = write(path, artifact, pieces=3, splits=HALVES)
        found, _ = duplicates.find(artifact, [report.name for report in reports])
        shards = {report.name: list(tf.data.TFRecordDataset(str(artifact / report.name))) for report in reports}
        assert found.example is not None
        one, other = (shards[shard][number].numpy() for shard, number in found.example)

        assert (found.extra, found.groups, found.conflicts, one == other, b"text 5" in one) == (1, 1, 1, True, True)


class TestGzip:
    """Shards of rows may be compressed."""

    def test_gzip_shards_end_in_gz(self, tmp_path: Path, artifact: Path) -> None:
        """And have no timestamp, so that they are the same tomorrow."""
        path = table(tmp_path / "a.csv", [["n", "label"], *([n, "x"] for n in range(100))])
        reports = write(path, artifact, compression="gzip")
        heads = [(artifact / report.name).read_bytes()[:10] for report in reports]

        assert [report.name for report in reports] == [
            f"Split-{split}/data_tfrecord-00000-of-00001.gz" for split in ("train", "eval", "test")
        ]
        assert {head[4:8] for head in heads} == {bytes(4)}
        assert sorted(record["n"] for record in records(artifact)) == list(range(100))
        assert all(gzip.decompress((artifact / report.name).read_bytes()) for report in reports)


def test_a_full_disk_leaves_no_truncated_shard(tmp_path: Path, tiny_disk: Path) -> None:
    """Promise B5: the error is raised, and all shards that exist are complete."""
    noise = np.random.default_rng(1).integers(0, 1 << 62, (3000, 4)).tolist()
    path = table(tmp_path / "a.csv", [["a", "b", "c", "d", "label"], *([*row, "x"] for row in noise)])

    with pytest.raises((OSError, tf.errors.ResourceExhaustedError), match="No space left"):
        write(path, tiny_disk)

    shards = [tiny_disk / name for name in files(tiny_disk) if name.startswith("Split-")]
    assert [path.name for path in shards if path.name.startswith(".")] == []
    assert all(list(tf.data.TFRecordDataset(str(path))) for path in shards)


@pytest.fixture
def gallery(data: Path, image: Callable[..., bytes]) -> Path:
    """A data folder with twenty images of two sizes."""
    for number in range(20):
        (data / f"{number}.png").write_bytes(image(number, size=(6, 4) if number % 2 else (9, 8)))
    return data


def write_references(path: Path, rows: Sequence[dict[str, Any]], artifact: Path, **settings: Any) -> list[ShardReport]:
    """Writes JSON lines that refer to images in `file`, and ingests them."""
    from components.ingest.sources.jsonl.jsonl_rows import SOURCE

    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (part,) = SOURCE.divide(path, path.name, 1 << 30)
    reader = RangeReader(part, SOURCE, SOURCE.schema(path), path.parent, Ingest(**settings), "label", "file")
    return write_range(reader, ONLY, artifact)


class TestImages:
    """Rows that refer to images."""

    def test_the_record_has_the_image_and_not_its_path(self, gallery: Path, artifact: Path) -> None:
        """Besides text and numbers: a model must not learn from file names."""
        rows = [{"file": f"{n}.png", "text": f"is it {n}?", "n": n, "label": "yes"} for n in range(20)]
        write_references(gallery / "a.jsonl", rows, artifact)
        found = sorted(records(artifact), key=lambda record: int(record["n"]))
        ids = {record.pop("id") for record in found}

        assert found == [
            {"image": (gallery / f"{n}.png").read_bytes(), "text": f"is it {n}?".encode(), "n": n, "label": b"yes"}
            for n in range(20)
        ]
        assert len(ids) == 20

    def test_a_table_of_images_alone_is_read(self, gallery: Path, artifact: Path) -> None:
        """Without a label or any other column."""
        path = table(gallery / "a.csv", [["file"], *([f"{n}.png"] for n in range(20))])
        (part,) = CSV.divide(path, path.name, 1 << 30)
        write_range(RangeReader(part, CSV, CSV.schema(path), gallery, Ingest(), "", "file"), ONLY, artifact)
        found = records(artifact)

        assert {record["image"] for record in found} == {(gallery / f"{n}.png").read_bytes() for n in range(20)}
        assert {tuple(sorted(record)) for record in found} == {("id", "image")}

    def test_all_rows_of_an_image_are_in_one_split(self, gallery: Path, artifact: Path) -> None:
        """Whatever their other columns; a copy is the same image."""
        (gallery / "copy.png").write_bytes((gallery / "3.png").read_bytes())
        names = [*(f"{n}.png" for n in range(20)), "copy.png"]
        rows = [{"file": name, "text": f"question {q}", "label": "x"} for q in range(5) for name in names]
        write_references(gallery / "a.jsonl", rows, artifact, splits=HALVES)
        found = splits_of(artifact, "image")

        assert (len(found), {len(splits) for splits in found.values()}) == (20, {1})
        assert set().union(*found.values()) == set(SPLITS)

    def test_an_image_is_in_the_same_split_as_in_class_folders(self, gallery: Path, artifact: Path) -> None:
        """A folder that becomes a table keeps its splits."""
        from components.ingest.write.shards import split_of

        write_references(
            gallery / "a.jsonl", [{"file": f"{n}.png", "label": "x"} for n in range(20)], artifact, splits=HALVES
        )

        assert splits_of(artifact, "image") == {
            content: {split_of(hashlib.sha256(content).hexdigest(), HALVES)}
            for content in ((gallery / f"{n}.png").read_bytes() for n in range(20))
        }

    def test_the_user_may_name_another_column_that_decides(self, gallery: Path, artifact: Path) -> None:
        """All images of one patient are in one split."""
        rows = [{"file": f"{n}.png", "patient": n % 3, "label": "x"} for n in range(20)]
        write_references(gallery / "a.jsonl", rows, artifact, splits=HALVES, split_by="patient")

        assert {len(splits) for splits in splits_of(artifact, "patient").values()} == {1}

    def test_sides_and_re_encoded_images_are_counted(
        self, gallery: Path, artifact: Path, image: Callable[..., bytes]
    ) -> None:
        """As for class folders: the image size of training is chosen by them."""
        (gallery / "b.bmp").write_bytes(image(77, "BMP", size=(5, 7)))
        rows = [{"file": name, "label": "x"} for name in ("0.png", "1.png", "3.png", "b.bmp")]
        reports = write_references(gallery / "a.jsonl", rows, artifact)
        sizes: Counter[int] = Counter()
        changed: Counter[str] = Counter()
        for report in reports:
            sizes.update(report.sides)
            changed.update(report.changed)

        assert (sizes, changed) == ({8: 1, 4: 2, 5: 1}, {"BMP": 1})

    def test_a_bad_image_makes_a_bad_row(self, gallery: Path, artifact: Path) -> None:
        """With position and text of the row, and the reason; other rows are good."""
        (gallery / "html.png").write_bytes(b"<html>")
        (gallery / "large.png").write_bytes(bytes((1 << 20) + 1))
        (gallery.parent / "secret.png").write_bytes((gallery / "1.png").read_bytes())
        names = ["1.png", "html.png", "large.png", "gone.png", "../secret.png", None, "2.png"]
        rows = [{"file": name, "label": "x"} for name in names]
        reports = write_references(gallery / "a.jsonl", rows, artifact, max_file_mb=1)
        expected = "expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF"

        assert [(bad.path, bad.position, bad.reason) for report in reports for bad in report.quarantined] == [
            ("a.jsonl", "line 2", f"column file: image 'html.png': not an image: starts with '<html>', {expected}"),
            ("a.jsonl", "line 3", "column file: image 'large.png': 1,048,577 bytes, more than max_file_mb = 1"),
            ("a.jsonl", "line 4", "column file: image 'gone.png' does not exist"),
            ("a.jsonl", "line 5", "column file: image '../secret.png' leads outside the data folder"),
            ("a.jsonl", "line 6", "column file: refers to no image"),
        ]
        assert [orjson.loads(bad.raw) for report in reports for bad in report.quarantined] == rows[1:6]
        assert sum(report.records + len(report.quarantined) for report in reports) == reports[0].read == 7

    def test_rows_without_any_good_image_make_no_shard(self, gallery: Path, artifact: Path) -> None:
        """All of them are quarantined."""
        [report] = write_references(gallery / "a.jsonl", [{"file": "gone.png", "label": "x"}] * 3, artifact)

        assert (report.name, report.records, report.read, len(report.quarantined)) == ("", 0, 3, 3)

    def test_more_rows_than_a_slice_keep_their_order(
        self, gallery: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Slices are bounded in rows and bytes, and do not show in the shard."""
        from components.ingest.write import image_column

        rows = [{"file": f"{n % 20}.png", "n": n, "label": "x"} for n in range(100)]
        write_references(gallery / "a.jsonl", rows, artifact)
        monkeypatch.setattr(image_column, "_SLICE_ROWS", 7)
        monkeypatch.setattr(image_column, "_SLICE_BYTES", 300)
        write_references(gallery / "a.jsonl", rows, artifact.parent / "sliced")

        assert files(artifact) == files(artifact.parent / "sliced")
        assert [record["n"] for record in records(artifact, "train")] == sorted(
            record["n"] for record in records(artifact, "train")
        )

    def test_shards_with_images_are_not_compressed(self, gallery: Path, artifact: Path) -> None:
        """Images are compressed already."""
        reports = write_references(gallery / "a.jsonl", [{"file": "1.png", "label": "x"}], artifact, compression="gzip")

        assert [Path(report.name).suffix for report in reports] == [""]

    def test_a_path_cannot_be_the_label(self, gallery: Path, artifact: Path) -> None:
        """A column has one role."""
        path = table(gallery / "a.csv", [["file"], ["1.png"]])
        (part,) = CSV.divide(path, path.name, 1 << 30)

        with pytest.raises(SettingsError, match=r"column 'file' cannot be both the label and the path of an image"):
            write_range(RangeReader(part, CSV, CSV.schema(path), gallery, Ingest(), "file", "file"), ONLY, artifact)
