"""A table becomes shards: each row once, the same bytes every time, bad rows with their position."""

import csv
from collections.abc import Iterator
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
from components.ingest import units
from components.ingest.survey import survey
from components.ingest.units import Output
from components.records import manifest, source_files
from components.records.manifest import Manifest
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS, Splits
from components.storage.hashing import HashCache

Rows = list[dict[str, object]]


def write_table(path: Path, rows: int, first: int = 0) -> None:
    """Writes numbers, words with line breaks and a class with Python's own writer."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "share", "word", "class"])
        for index in range(first, first + rows):
            writer.writerow([index, index / 8, f'say "{index}",\nthen stop', "even" if index % 2 == 0 else "odd"])


def run(
    data: Path | str, out: Path, *flags: str, earlier: Path | None = None, label: str = "class", **settings: object
) -> Manifest:
    """Ingests a folder or pattern; flags are Beam's."""
    chosen, cache = Ingest(label=label, **settings), HashCache(None)
    out.mkdir(parents=True)

    def take() -> survey.Survey:
        return survey.take(str(data), chosen, cache)

    job = ingesting.IngestJob(take(), Output(out, chosen), out / "bad.jsonl", earlier)
    return ingesting.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), take)


def shards(out: Path) -> dict[str, bytes]:
    """Returns the content of every shard by name."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("data_tfrecord-*"))}


def records(out: Path, split: str = "*") -> Rows:
    """Reads records with TensorFlow alone."""
    found: Rows = []
    for path in sorted(out.glob(f"Split-{split}/data_tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({k: getattr(f, f.WhichOneof("kind")).value[0] for k, f in features.items() if k != "id"})
    return found


def write_data(folder: Path) -> Path:
    """Writes two tables of 600 rows each."""
    folder.mkdir()
    write_table(folder / "a.csv", 600)
    write_table(folder / "b.csv", 600, first=600)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two tables of 600 rows each."""
    return write_data(tmp_path / "data")


@pytest.fixture(scope="module", autouse=True)
def _small_ranges() -> Iterator[None]:
    """Divides small files too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "_MIN_RANGE", 4096)
        yield


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Manifest]:
    """The data, its shards and its manifest."""
    home = tmp_path_factory.mktemp("ingested")
    data = write_data(home / "data")
    return data, home / "out", run(data, home / "out", splits=Splits(train=0.6, eval=0.3, test=0.1), min_shards=6)


class TestRecords:
    """What later nodes read."""

    def test_every_row_is_a_record_once(self, ingested: tuple[Path, Path, Manifest]) -> None:
        """All values are read back, over all splits and shards."""
        _, out, made = ingested
        found = sorted(records(out), key=lambda record: record["number"])  # type: ignore[arg-type,return-value]

        assert found == [
            {
                "number": index,
                "share": index / 8,
                "word": f'say "{index}",\nthen stop'.encode(),
                "class": b"even" if index % 2 == 0 else b"odd",
            }
            for index in range(1200)
        ]
        assert (made.found, sum(made.records.values()), made.quarantined) == (1200, 1200, 0)

    def test_there_are_min_shards(self, ingested: tuple[Path, Path, Manifest]) -> None:
        """So that interleave has something to interleave."""
        assert len(ingested[2].shards_of("train")) >= 6

    def test_splits_have_their_fractions(self, ingested: tuple[Path, Path, Manifest]) -> None:
        """Within what chance allows, and labels are counted by split."""
        made = ingested[2]

        assert made.records["train"] == pytest.approx(720, abs=70)
        assert made.records["eval"] == pytest.approx(360, abs=70)
        assert sum(split["even"] for split in made.classes.values()) == 600

    def test_equal_rows_are_in_one_split(self, tmp_path: Path) -> None:
        """A6: a table that is there twice gives each row twice to one split."""
        folder = tmp_path / "data"
        folder.mkdir()
        for name in ("a.csv", "b.csv"):
            write_table(folder / name, 300)
        made = run(folder, tmp_path / "out")
        numbers = {split: {record["number"] for record in records(tmp_path / "out", split)} for split in SPLITS}

        assert sum(map(len, numbers.values())) == len(set().union(*numbers.values())) == 300
        assert any(warning.startswith("300 exact duplicates in 300 groups") for warning in made.warnings)

    def test_equal_texts_with_different_ids_are_in_one_split(self, tmp_path: Path) -> None:
        """A6: they are reported as duplicates; ids and unused columns are stored all the same."""
        rows = [f"{number},web{number % 7},text {number % 100},{'xy'[number % 2]}" for number in range(300)]
        (tmp_path / "a.csv").write_text("\n".join(["review_id,source,text,class", *rows]))
        made = run(tmp_path / "a.csv", tmp_path / "out", unused=("source",))
        texts = {split: {record["text"] for record in records(tmp_path / "out", split)} for split in SPLITS}

        assert sum(map(len, texts.values())) == len(set().union(*texts.values())) == 100
        assert {record["review_id"] for record in records(tmp_path / "out")} == set(range(300))
        [warning] = made.warnings
        assert warning.startswith("200 exact duplicates in 100 groups")
        assert warning.endswith("; not compared: review_id, source")

    def test_the_schema_is_written_as_text(self, ingested: tuple[Path, Path, Manifest]) -> None:
        """With the inferred types, for the user to edit."""
        schema = text_format.Parse((ingested[1] / "schema.pbtxt").read_text(), schema_pb2.Schema())

        assert {feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in schema.feature} == {
            "number": "INT",
            "share": "FLOAT",
            "word": "BYTES",
            "class": "BYTES",
            "id": "INT",
        }


class TestBytes:
    """D2: the same input gives the same shards."""

    @pytest.mark.parametrize("compression", ["none", "gzip"])
    def test_a_second_run_writes_the_same_bytes(self, data: Path, tmp_path: Path, compression: str) -> None:
        """A retried bundle writes the same file."""
        for name in ("one", "two"):
            run(data, tmp_path / name, compression=compression)

        assert shards(tmp_path / "one") == shards(tmp_path / "two") != {}

    def test_a_shard_is_named_by_its_file_and_its_range(self, data: Path, tmp_path: Path) -> None:
        """So workers divide files without a count over all of them."""
        write_table(data / "b.csv", 600)  # as long as the other one
        made = run(data, tmp_path / "out", min_shards=4)

        ends = {shard.name.partition("tfrecord-")[2] for shard in made.shards}
        assert ends == {f"f0000{file}-0000{part}-of-00002" for file in (0, 1) for part in (0, 1)}

    @pytest.mark.parametrize(
        ("mode", "workers"),
        [("multi_threading", 2), ("multi_threading", 4), pytest.param("multi_processing", 2, marks=pytest.mark.all)],
    )  # starting Beam's worker processes takes ten seconds
    def test_beam_workers_write_the_same_bytes(self, data: Path, tmp_path: Path, mode: str, workers: int) -> None:
        """Several workers of Beam and this process alone agree."""
        run(data, tmp_path / "one")
        run(data, tmp_path / "two", f"--direct_num_workers={workers}", f"--direct_running_mode={mode}")

        assert shards(tmp_path / "one") == shards(tmp_path / "two") != {}
        assert manifest.read(tmp_path / "one") == manifest.read(tmp_path / "two")


class TestBadRows:
    """A12: rows that cannot be records are quarantined with their position."""

    def test_a_bad_row_is_listed_with_file_line_and_text(self, data: Path, tmp_path: Path) -> None:
        """Below the limit the run goes on without it."""
        with (data / "a.csv").open("a") as file:
            file.write("7,1.5\r\n")
        made = run(data, tmp_path / "out")
        bad = [orjson.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_bytes().splitlines()]

        assert (made.found, made.quarantined) == (1201, 1)
        assert [(row["path"], row["position"], row["raw"].strip()) for row in bad] == [
            ("a.csv", "line 1202", "7,1.5"),
        ]

    def test_too_many_stop_the_run(self, data: Path, tmp_path: Path) -> None:
        """With their number in the message."""
        with (data / "a.csv").open("a") as file:
            file.write("bad\r\n" * 100)

        with pytest.raises(BadInput, match=r"100 of 1300 "):
            run(data, tmp_path / "out")


def test_files_must_agree_on_their_columns(data: Path, tmp_path: Path) -> None:
    """A file with another header is named, with missing and extra columns."""
    (data / "c.csv").write_text("number,share,word,klass\n1,2.0,x,odd\n")

    with pytest.raises(BadInput, match=r"c\.csv: .*missing class; extra klass"):
        run(data, tmp_path / "out")


def test_an_unknown_label_is_named(data: Path, tmp_path: Path) -> None:
    """With the nearest column."""
    with pytest.raises(SettingsError, match=r"no column 'klass' .* did you mean 'class'\?"):
        run(data, tmp_path / "out", label="klass")


def write_spans(home: Path, *numbers: int) -> str:
    """Writes one table per span and returns the pattern of all of them."""
    for number in numbers:
        folder = home / f"day-{number}"
        folder.mkdir(parents=True)
        write_table(folder / "t.csv", 100, first=1000 * number)
    return str(home / "day-{SPAN}" / "*.csv")


class TestSpans:
    """Growing data: only new spans are read."""

    def test_all_spans_are_ingested(self, tmp_path: Path) -> None:
        """Each into shards of its own, with one manifest."""
        made = run(write_spans(tmp_path / "data", 1, 2), tmp_path / "out")
        numbers = sorted(int(str(record["number"])) for record in records(tmp_path / "out"))

        assert numbers == [*range(1000, 1100), *range(2000, 2100)]
        assert {shard.name.split("-")[2] for shard in made.shards} == {"s00001", "s00002"}
        assert [path for path, _, _ in source_files.read(tmp_path / "out", 2)] == ["day-1/t.csv", "day-2/t.csv"]

    def test_an_unchanged_span_is_not_read_again(self, tmp_path: Path) -> None:
        """Its shards are hard links to those of the earlier ingest, and its bad rows are listed again."""
        pattern = write_spans(tmp_path / "data", 1)
        with (tmp_path / "data" / "day-1" / "t.csv").open("a") as file:
            file.write("7,1.5\r\n")
        run(pattern, tmp_path / "one")
        write_spans(tmp_path / "data", 2)
        run(pattern, tmp_path / "two", earlier=tmp_path / "one")
        run(pattern, tmp_path / "new")
        old = {p.name: p.stat().st_ino for p in (tmp_path / "one").rglob("data_tfrecord-*")}
        linked = {p.name: p.stat().st_ino for p in (tmp_path / "two").rglob("data_tfrecord-s00001-*")}

        assert linked == old
        assert shards(tmp_path / "two") == shards(tmp_path / "new")
        assert manifest.read(tmp_path / "two") == manifest.read(tmp_path / "new")
        assert manifest.read_quarantine(tmp_path / "two") == manifest.read_quarantine(tmp_path / "new") != []

    @pytest.mark.parametrize("folder", ["Split-train", "fingerprints"])
    @pytest.mark.parametrize("how", ["altered", "deleted"])
    def test_a_damaged_shard_is_not_reused(self, tmp_path: Path, how: str, folder: str) -> None:
        """A14: a flipped bit or a missing file, also of the fingerprints, and the span is read again."""
        pattern = write_spans(tmp_path / "data", 1)
        run(pattern, tmp_path / "one")
        expected = shards(tmp_path / "one")
        victim = max((tmp_path / "one" / folder).iterdir())
        old = victim.read_bytes()
        if how == "deleted":
            victim.unlink()
        else:
            content = bytearray(victim.read_bytes())
            content[len(content) // 2] ^= 1
            victim.write_bytes(bytes(content))
        run(pattern, tmp_path / "two", earlier=tmp_path / "one")

        assert shards(tmp_path / "two") == expected
        assert (tmp_path / "two" / folder / victim.name).read_bytes() == old

    def test_a_bad_span_does_not_hide_in_a_long_window(self, tmp_path: Path) -> None:
        """The limit of quarantined records holds for each new span; what was accepted once is not judged again."""
        pattern = write_spans(tmp_path / "data", 1, 2, 3, 4, 5)
        with (tmp_path / "data" / "day-3" / "t.csv").open("a") as file:
            file.write("7,1.5\r\n" * 5)

        with pytest.raises(BadInput, match=r"^5 of 105 records of span 3 were quarantined \(4\.8%\), more") as raised:
            run(pattern, tmp_path / "out")

        assert "day-3/t.csv" in str(raised.value)
        assert not (tmp_path / "out" / manifest.MANIFEST).exists()
        assert run(pattern, tmp_path / "accepted", max_bad_fraction=0.05).quarantined == 5
        assert run(pattern, tmp_path / "linked", earlier=tmp_path / "accepted").quarantined == 5
        assert run(pattern, tmp_path / "read", earlier=tmp_path / "accepted", shard_mb=1).quarantined == 5

    def test_chance_explains_a_few_bad_records_of_a_small_span(self, tmp_path: Path) -> None:
        """With one per cent allowed, four of a hundred; all spans together must still be below it."""
        pattern = write_spans(tmp_path / "data", 1, 2, 3, 4)
        with (tmp_path / "data" / "day-3" / "t.csv").open("a") as file:
            file.write("7,1.5\r\n" * 4)

        assert run(pattern, tmp_path / "out").quarantined == 4

    def test_the_highest_version_of_a_span_is_read(self, tmp_path: Path) -> None:
        """A corrected span replaces the old one."""
        for version, first in ((1, 0), (2, 500)):
            (tmp_path / "data" / "7" / f"v{version}").mkdir(parents=True)
            write_table(tmp_path / "data" / "7" / f"v{version}" / "t.csv", 100, first)
        pattern = str(tmp_path / "data" / "{SPAN}" / "v{VERSION}" / "*.csv")
        run(pattern, tmp_path / "out")

        assert min(int(str(record["number"])) for record in records(tmp_path / "out")) == 500

    def test_a_corrected_old_day_is_read_again_alone(self, tmp_path: Path) -> None:
        """Its higher version; the shards of the other days are links, whatever the window is."""
        days = {"2024-02-28": 1, "2024-02-29": 2, "2024-03-01": 3}
        for day, number in days.items():
            (tmp_path / "data" / day / "v1").mkdir(parents=True)
            write_table(tmp_path / "data" / day / "v1" / "t.csv", 100, first=1000 * number)
        pattern = str(tmp_path / "data" / "{YYYY}-{MM}-{DD}" / "v{VERSION}" / "*.csv")
        run(pattern, tmp_path / "one", window="last 3")
        (tmp_path / "data" / "2024-02-29" / "v2").mkdir()
        write_table(tmp_path / "data" / "2024-02-29" / "v2" / "t.csv", 100, first=9000)
        run(pattern, tmp_path / "two", earlier=tmp_path / "one", spans="2024-02-29,2024-03-01")
        old, new = (
            {p.name: p.stat().st_ino for p in (tmp_path / out).rglob("data_tfrecord-*")} for out in ("one", "two")
        )
        read = {name.split("-")[1] for name, inode in new.items() if old.get(name) != inode}

        assert ({name.split("-")[1] for name in new}, read) == ({"s20240229", "s20240301"}, {"s20240229"})
        assert sorted(int(str(record["number"])) for record in records(tmp_path / "two")) == [
            *range(3000, 3100), *range(9000, 9100),
        ]  # fmt: skip

    def test_other_settings_reuse_nothing(self, tmp_path: Path) -> None:
        """The shards have other splits."""
        pattern = write_spans(tmp_path / "data", 1)
        run(pattern, tmp_path / "one")
        fractions = Splits(train=0.5, eval=0.25, test=0.25)
        run(pattern, tmp_path / "two", earlier=tmp_path / "one", splits=fractions)
        run(pattern, tmp_path / "new", splits=fractions)

        assert shards(tmp_path / "two") == shards(tmp_path / "new")


def test_a_file_that_changes_meanwhile_stops_the_ingest(data: Path, tmp_path: Path) -> None:
    """B9: the records would be neither those of the old file nor those of the new one."""
    cache, settings = HashCache(None), Ingest(label="class")
    (tmp_path / "out").mkdir()

    def take() -> survey.Survey:
        return survey.take(str(data), settings, cache)

    def pipeline() -> beam.Pipeline:
        (data / "b.csv").write_text((data / "b.csv").read_text() + "1,2.0,x,odd\n")
        return beam.Pipeline()

    job = ingesting.IngestJob(take(), Output(tmp_path / "out", settings), tmp_path / "bad.jsonl")
    with pytest.raises(BadInput, match=r"changed while it was being ingested|ends at byte"):
        ingesting.run(job, pipeline, take)


def test_a_link_out_of_the_folder_is_quarantined(data: Path, tmp_path: Path) -> None:
    """D4: it is not opened, and it is listed."""
    (tmp_path / "secret.csv").write_text("number,share,word,class\n1,2.0,secret,odd\n")
    (data / "link.csv").symlink_to(tmp_path / "secret.csv")
    made = run(data, tmp_path / "out")

    assert (made.found, made.quarantined) == (1201, 1)
    assert [bad.path for bad in manifest.read_quarantine(tmp_path / "out")] == ["link.csv"]
    assert b"secret" not in [record["word"] for record in records(tmp_path / "out")]


def test_a_full_disk_leaves_no_truncated_shard(data: Path, tmp_path: Path, tiny_disk: Path) -> None:
    """B5: a shard is complete or absent, and there is no manifest."""
    with pytest.raises(OSError, match="No space left"):
        run(data, tiny_disk / "out")
    run(data, tmp_path / "whole")

    assert shards(tiny_disk / "out").items() < shards(tmp_path / "whole").items()
    assert not (tiny_disk / "out" / "manifest.json").exists()


def test_a_table_without_a_header(tmp_path: Path) -> None:
    """A17: the first line is a record; the manifest says so; the label is named by its position; texts are joined."""
    rows = [[str(index % 4), f"title {index}", f'said "{index}",\nand more'] for index in range(200)]
    (tmp_path / "data").mkdir()
    for name, part in (("a.csv", rows[:120]), ("b.csv", rows[120:])):
        with (tmp_path / "data" / name).open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(part)

    made = run(tmp_path / "data", tmp_path / "out", label="column_1", text="column_2,column_3", min_shards=3)

    found = {(record["column_1"], record["column_2_column_3"]) for record in records(tmp_path / "out")}
    assert found == {(int(kind), f"{title}\n{text}".encode()) for kind, title, text in rows}
    decision = (
        "first line of a.csv read as data: '0' is a number like those below it in column 1; "
        "--set ingest.header=yes reads it as column names, ingest.names names the columns"
    )
    assert (made.found, made.quarantined, made.warnings, made.notes) == (200, 0, (), (decision,))


def test_the_first_row_without_a_label_is_named(tmp_path: Path) -> None:
    """A17: with ingest.unlabelled = stop, by file and line, whichever range is read first."""
    (tmp_path / "data").mkdir()
    for name in "ab":
        rows = [f"{number},{'' if number % 5_000 == 4_999 else 'x'}\n" for number in range(100_000)]
        (tmp_path / "data" / f"{name}.csv").write_text("n,kind\n" + "".join(rows))

    with pytest.raises(BadInput, match=r"^a\.csv: line 5001: no label; .* in every row; 40 rows have none, listed in "):
        run(tmp_path / "data", tmp_path / "out", label="kind", unlabelled="stop", min_shards=8)


def test_empty_texts_are_counted(tmp_path: Path) -> None:
    """A17: a record without a text is kept, and the warning counts them."""
    texts = ["good", None, "", " ", "bad"]
    (tmp_path / "a.jsonl").write_text(
        "".join(orjson.dumps({"text": text, "class": "x"}).decode() + "\n" for text in texts)
    )

    made = run(tmp_path / "a.jsonl", tmp_path / "out", text="text")

    assert sum(made.records.values()) == len(texts)
    assert made.warnings[0] == "3 records have an empty or missing text; they are kept"
