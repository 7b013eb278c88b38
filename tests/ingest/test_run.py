"""A table goes through Beam into shards: every row once, the same bytes each time, bad rows with their place."""

import csv
import os
from pathlib import Path

import apache_beam as beam
import orjson
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import BadInput, SettingsError
from components.ingest import run as ingesting
from components.ingest.survey import survey
from components.ingest.work import units
from components.ingest.work.units import Output
from components.records import manifest
from components.settings.ingest import Ingest
from components.settings.splits import Splits
from components.storage.hashing import HashCache

Rows = list[dict[str, object]]


def write_table(path: Path, rows: int, first: int = 0) -> None:
    """Writes numbers, words and a class with Python's own writer."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "share", "word", "class"])
        for index in range(first, first + rows):
            writer.writerow([index, index / 8, f'say "{index}",\nthen stop', "even" if index % 2 == 0 else "odd"])


def run(
    data: Path | str, out: Path, *flags: str, earlier: Path | None = None, label: str = "class", **settings: object
) -> manifest.Manifest:
    """Ingests a folder or pattern."""
    chosen, cache = Ingest(label=label, **settings), HashCache(None)
    out.mkdir(parents=True)

    def look() -> survey.Survey:
        return survey.take(str(data), chosen, cache)

    job = ingesting.Job(look(), Output(out, chosen), out / "bad.jsonl", earlier)
    return ingesting.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), look)


def shards(out: Path) -> dict[str, bytes]:
    """Returns every shard's bytes by name."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("data_tfrecord-*"))}


def records(out: Path, split: str = "*") -> Rows:
    """Reads records back with nothing but TensorFlow."""
    found: Rows = []
    for path in sorted(out.glob(f"Split-{split}/data_tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({k: getattr(f, f.WhichOneof("kind")).value[0] for k, f in features.items() if k != "id"})
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
    monkeypatch.setattr(units, "_MIN_RANGE", 4096)


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
        made = run(folder, tmp_path / "out")
        sides = {
            split: {record["number"] for record in records(tmp_path / "out", split)}
            for split in ("train", "eval", "test")
        }

        assert (
            sides["train"] & sides["eval"] == sides["train"] & sides["test"] == sides["eval"] & sides["test"] == set()
        )
        assert any(said.startswith("500 exact duplicates in 500 groups") for said in made.warnings)

    def test_the_schema_is_there_to_be_curated(self, data: Path, tmp_path: Path) -> None:
        """Types as inferred, as text that TensorFlow Metadata reads."""
        run(data, tmp_path / "out")
        schema = text_format.Parse((tmp_path / "out" / "schema.pbtxt").read_text(), schema_pb2.Schema())

        assert {feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in schema.feature} == {
            "number": "INT",
            "share": "FLOAT",
            "word": "BYTES",
            "class": "BYTES",
            "id": "INT",
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

    with pytest.raises(BadInput, match=r"c\.csv: its columns differ from those of a\.csv: missing class; extra klass"):
        run(data, tmp_path / "out")


def test_a_label_that_is_no_column_is_named(data: Path, tmp_path: Path) -> None:
    """With the nearest column there is."""
    with pytest.raises(SettingsError, match=r"no column 'klass' .* did you mean 'class'\?"):
        run(data, tmp_path / "out", label="klass")


def write_spans(home: Path, *numbers: int) -> str:
    """Writes a table a span and returns the pattern of all of them."""
    for number in numbers:
        folder = home / f"day-{number}"
        folder.mkdir(parents=True)
        write_table(folder / "t.csv", 300, first=1000 * number)
    return str(home / "day-{SPAN}" / "*.csv")


class TestSpans:
    """Data that grows: only what is new is read."""

    def test_all_spans_are_ingested(self, tmp_path: Path) -> None:
        """Each into shards of its own, under one account."""
        made = run(write_spans(tmp_path / "data", 1, 2), tmp_path / "out")
        numbers = sorted(int(str(record["number"])) for record in records(tmp_path / "out"))

        assert numbers == [*range(1000, 1300), *range(2000, 2300)]
        assert {shard.name.split("-")[2] for shard in made.shards} == {"s00001", "s00002"}
        assert [path for path, _, _ in made.sources] == ["day-1/t.csv", "day-2/t.csv"]

    def test_a_span_that_has_not_changed_is_not_read_again(self, tmp_path: Path) -> None:
        """Its shards are the very files of the earlier ingest."""
        pattern = write_spans(tmp_path / "data", 1)
        run(pattern, tmp_path / "one")
        write_spans(tmp_path / "data", 2)
        run(pattern, tmp_path / "two", earlier=tmp_path / "one")
        run(pattern, tmp_path / "afresh")
        old = {p.name: p.stat().st_ino for p in (tmp_path / "one").rglob("data_tfrecord-*")}
        new = {p.name: p.stat().st_ino for p in (tmp_path / "two").rglob("data_tfrecord-s00001-*")}

        assert new == old
        assert shards(tmp_path / "two") == shards(tmp_path / "afresh")
        assert manifest.read(tmp_path / "two") == manifest.read(tmp_path / "afresh")

    def test_bad_rows_of_a_span_are_told_again(self, tmp_path: Path) -> None:
        """What is taken over brings its quarantine and its counts."""
        pattern = write_spans(tmp_path / "data", 1)
        with (tmp_path / "data" / "day-1" / "t.csv").open("a") as file:
            file.write("7,1.5\r\n")
        run(pattern, tmp_path / "one")
        made = run(pattern, tmp_path / "two", earlier=tmp_path / "one")

        assert (made.found, made.quarantined) == (301, 1)
        assert manifest.read_quarantine(tmp_path / "one") == manifest.read_quarantine(tmp_path / "two")

    @pytest.mark.parametrize("how", ["altered", "deleted"])
    def test_a_shard_that_is_not_what_it_was_is_not_taken_over(self, tmp_path: Path, how: str) -> None:
        """A14: a flipped bit, or a missing file, and the span is read anew."""
        pattern = write_spans(tmp_path / "data", 1)
        run(pattern, tmp_path / "one")
        victim = max((tmp_path / "one").rglob("data_tfrecord-*"))
        if how == "deleted":
            victim.unlink()
        else:
            content = bytearray(victim.read_bytes())
            content[len(content) // 2] ^= 1
            victim.write_bytes(bytes(content))
        run(pattern, tmp_path / "two", earlier=tmp_path / "one")
        run(pattern, tmp_path / "afresh")

        assert shards(tmp_path / "two") == shards(tmp_path / "afresh")

    def test_another_version_is_read_in_place_of_the_old_one(self, tmp_path: Path) -> None:
        """A corrected span replaces what it corrects."""
        for version, first in ((1, 0), (2, 500)):
            (tmp_path / "data" / "7" / f"v{version}").mkdir(parents=True)
            write_table(tmp_path / "data" / "7" / f"v{version}" / "t.csv", 100, first)
        pattern = str(tmp_path / "data" / "{SPAN}" / "v{VERSION}" / "*.csv")
        run(pattern, tmp_path / "out")

        assert min(int(str(record["number"])) for record in records(tmp_path / "out")) == 500

    def test_another_setting_reads_all_anew(self, tmp_path: Path) -> None:
        """Shards of other splits are of no use."""
        pattern = write_spans(tmp_path / "data", 1)
        run(pattern, tmp_path / "one")
        fractions = Splits(train=0.5, eval=0.25, test=0.25)
        run(pattern, tmp_path / "two", earlier=tmp_path / "one", splits=fractions)
        run(pattern, tmp_path / "afresh", splits=fractions)

        assert shards(tmp_path / "two") == shards(tmp_path / "afresh")


def test_a_file_that_changes_meanwhile_ends_the_ingest(data: Path, tmp_path: Path) -> None:
    """B9: what was read would be neither the old nor the new."""
    cache, settings = HashCache(None), Ingest(label="class")
    (tmp_path / "out").mkdir()

    def look() -> survey.Survey:
        return survey.take(str(data), settings, cache)

    def pipeline() -> beam.Pipeline:
        (data / "b.csv").write_text((data / "b.csv").read_text() + "1,2.0,x,odd\n")
        return beam.Pipeline()

    job = ingesting.Job(look(), Output(tmp_path / "out", settings), tmp_path / "bad.jsonl")
    with pytest.raises(BadInput, match=r"changed while it was being ingested|ends at byte"):
        ingesting.run(job, pipeline, look)


def test_a_link_out_of_the_folder_is_quarantined(data: Path, tmp_path: Path) -> None:
    """D4: it is not opened, and not left out in silence."""
    (tmp_path / "secret.csv").write_text("number,share,word,class\n1,2.0,secret,odd\n")
    (data / "link.csv").symlink_to(tmp_path / "secret.csv")
    made = run(data, tmp_path / "out")

    assert (made.found, made.quarantined) == (6001, 1)
    assert [bad.path for bad in manifest.read_quarantine(tmp_path / "out")] == ["link.csv"]
    assert b"secret" not in [record["word"] for record in records(tmp_path / "out")]


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk needs the right to mount a tmpfs")
def test_a_full_disk_leaves_no_truncated_shard(data: Path, tmp_path: Path, tiny_disk: Path) -> None:
    """B5: a shard is complete or absent, and there is no manifest."""
    with pytest.raises(OSError, match="No space left"):
        run(data, tiny_disk / "out")
    run(data, tmp_path / "whole")

    assert shards(tiny_disk / "out").items() < shards(tmp_path / "whole").items()
    assert not (tiny_disk / "out" / "manifest.json").exists()
