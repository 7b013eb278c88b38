"""A table goes through Beam into shards: every row once, the same bytes each time, bad rows with their place."""

import csv
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import orjson
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import BadInput
from components.hashing import HashCache
from components.ingest import account, run_rows
from components.ingest.run_rows import RowsJob
from components.settings import Ingest, Splits

CSV = "components.ingest.sources.csv_rows:SOURCE"
Rows = list[dict[str, object]]


def write_table(path: Path, rows: int, first: int = 0) -> None:
    """Writes numbers, words and a class with Python's own writer."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "share", "word", "class"])
        for index in range(first, first + rows):
            writer.writerow([index, index / 8, f'say "{index}",\nthen stop', "even" if index % 2 == 0 else "odd"])


def run(data: Path, out: Path, *flags: str, **settings: object) -> account.Account:
    """Ingests every CSV file of a folder."""
    files = tuple(sorted(path.name for path in data.glob("*.csv")))
    job = RowsJob(data, files, CSV, "class", Ingest(**settings), out, out / "bad.jsonl")
    out.mkdir(parents=True)
    return run_rows.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), HashCache(None))


def shards(out: Path) -> dict[str, bytes]:
    """Returns every shard's bytes by name."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("data_tfrecord-*"))}


def records(out: Path, split: str = "*") -> Rows:
    """Reads records back with nothing but TensorFlow."""
    found: Rows = []
    for path in sorted(out.glob(f"Split-{split}/data_tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({k: getattr(f, f.WhichOneof("kind")).value[0] for k, f in features.items()})
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two tables of 3,000 rows each, with line breaks in their cells."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_table(folder / "a.csv", 3000)
    write_table(folder / "b.csv", 3000, first=3000)
    return folder


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts small files too."""
    monkeypatch.setattr(run_rows, "_LEAST_RANGE", 4096)


@pytest.mark.usefixtures("small_ranges")
class TestRecords:
    """What later nodes read."""

    def test_every_row_is_a_record_once(self, data: Path, tmp_path: Path) -> None:
        """All values come back, over all splits and shards."""
        made = run(data, tmp_path / "out")
        found = sorted(records(tmp_path / "out"), key=lambda record: record["number"])  # type: ignore[arg-type,return-value]

        assert found == [
            {
                "number": index,
                "share": index / 8,
                "word": f'say "{index}",\nthen stop'.encode(),
                "class": b"even" if index % 2 == 0 else b"odd",
            }
            for index in range(6000)
        ]
        assert (made.found, sum(made.records.values()), made.quarantined) == (6000, 6000, 0)

    def test_there_is_more_than_one_shard(self, data: Path, tmp_path: Path) -> None:
        """Interleave has something to interleave."""
        made = run(data, tmp_path / "out", min_shards=6)

        assert len(made.shards_of("train")) >= 6

    def test_splits_have_their_fractions(self, data: Path, tmp_path: Path) -> None:
        """Within what chance allows, and labels are counted by split."""
        made = run(data, tmp_path / "out", splits=Splits(train=0.6, eval=0.3, test=0.1))

        assert made.records["train"] == pytest.approx(3600, abs=150)
        assert made.records["eval"] == pytest.approx(1800, abs=150)
        assert sum(split["even"] for split in made.classes.values()) == 3000

    def test_the_same_row_is_always_in_one_split(self, tmp_path: Path) -> None:
        """A6: a table written twice under two names gives each row twice to one split."""
        folder = tmp_path / "data"
        folder.mkdir()
        write_table(folder / "a.csv", 500)
        write_table(folder / "b.csv", 500)
        run(folder, tmp_path / "out")
        sides = {
            split: {record["number"] for record in records(tmp_path / "out", split)}
            for split in ("train", "eval", "test")
        }

        assert (
            sides["train"] & sides["eval"] == sides["train"] & sides["test"] == sides["eval"] & sides["test"] == set()
        )

    def test_the_schema_is_there_to_be_curated(self, data: Path, tmp_path: Path) -> None:
        """Types as inferred, as text that TensorFlow Metadata reads."""
        run(data, tmp_path / "out")
        schema = text_format.Parse((tmp_path / "out" / "schema.pbtxt").read_text(), schema_pb2.Schema())

        assert {feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in schema.feature} == {
            "number": "INT",
            "share": "FLOAT",
            "word": "BYTES",
            "class": "BYTES",
        }


@pytest.mark.usefixtures("small_ranges")
class TestBytes:
    """The same input gives the same shards."""

    def test_a_second_run_writes_the_same_bytes(self, data: Path, tmp_path: Path) -> None:
        """Also when a bundle is tried again: it writes the same file."""
        run(data, tmp_path / "one")
        run(data, tmp_path / "two")

        assert shards(tmp_path / "one") == shards(tmp_path / "two")

    @pytest.mark.slow
    def test_two_processes_write_the_same_bytes(self, data: Path, tmp_path: Path) -> None:
        """D2: one thread and two worker processes agree."""
        run(data, tmp_path / "one")
        run(data, tmp_path / "two", "--direct_num_workers=2", "--direct_running_mode=multi_processing")

        assert shards(tmp_path / "one") == shards(tmp_path / "two")


class TestBadRows:
    """A12: what cannot be a record is listed with its place."""

    def test_a_bad_row_is_told_with_file_line_and_text(self, data: Path, tmp_path: Path) -> None:
        """Within the budget the run goes on without it."""
        with (data / "a.csv").open("a") as file:
            file.write("7,1.5\r\n")
        made = run(data, tmp_path / "out")
        bad = [orjson.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_bytes().splitlines()]

        assert (made.found, made.quarantined) == (6001, 1)
        assert [(row["path"], row["position"], row["raw"].strip()) for row in bad] == [
            ("a.csv", "line 6002", "7,1.5"),
        ]

    def test_too_many_stop_the_run(self, data: Path, tmp_path: Path) -> None:
        """The message names file and line; the list is kept."""
        with (data / "a.csv").open("a") as file:
            file.write("bad\r\n" * 100)

        with pytest.raises(BadInput, match=r"100 of 6100 "):
            run(data, tmp_path / "out")


def test_files_must_agree_on_their_columns(data: Path, tmp_path: Path) -> None:
    """A file with another header is named, with what it lacks and what it has too much."""
    (data / "c.csv").write_text("number,share,word,klass\n1,2.0,x,odd\n")

    with pytest.raises(BadInput, match=r"c\.csv: its columns are not those of a\.csv: missing class; extra klass"):
        run(data, tmp_path / "out")


def test_a_label_that_is_no_column_is_named(data: Path, tmp_path: Path) -> None:
    """With the columns there are."""
    job = RowsJob(data, ("a.csv",), CSV, "klass", Ingest(), tmp_path, tmp_path / "bad.jsonl")
    make: Callable[[], beam.Pipeline] = beam.Pipeline

    with pytest.raises(BadInput, match=r"no column 'klass' .* columns: number, share, word, class"):
        run_rows.run(job, make, HashCache(None))
