"""Ingest reads from a real S3 server and writes to it: the same shards and the same manifest as on this machine."""

import csv
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from components.ingest import run as ingesting
from components.ingest import units
from components.ingest.survey import survey
from components.ingest.units import Output
from components.records import manifest, source_files, verify
from components.records.manifest import Manifest
from components.records.tfrecord import walk
from components.settings.ingest import Ingest
from components.settings.splits import Splits
from components.storage.hashing import HashCache
from components.storage.location import Location
from components.storage.objects import ObjectPath
from components.storage.paths import files_below

pytestmark = pytest.mark.slow


def run(
    data: str, out: Location, notes: Path, *flags: str, earlier: Location | None = None, **settings: Any
) -> Manifest:
    """Ingests a folder or pattern; flags are Beam's."""
    chosen, cache = Ingest(**settings), HashCache(None)
    notes.mkdir(parents=True, exist_ok=True)
    if isinstance(out, Path):
        out.mkdir(parents=True)

    def take() -> survey.Survey:
        return survey.take(data, chosen, cache)

    output = Output(out, chosen, notes / "caches" / "checks.db")
    job = ingesting.IngestJob(take(), output, notes / f"{out.name}.jsonl", earlier)
    return ingesting.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), take)


def content(artifact: Location) -> dict[str, bytes]:
    """Returns all files of an artifact."""
    return {name: (artifact / name).read_bytes() for name in sorted(files_below(artifact))}


def without_manifest(artifact: Location) -> dict[str, bytes]:
    """Returns all files but the manifest and the list of source files, which depend on where the data is."""
    known = (manifest.MANIFEST, source_files.FOLDER)
    return {name: stored for name, stored in content(artifact).items() if not name.startswith(known)}


@pytest.fixture(autouse=True)
def _small_ranges() -> Iterator[None]:
    """Divides small files too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "_MIN_RANGE", 4096)
        yield


@pytest.fixture
def upload(s3_bucket: str) -> Callable[[Path], ObjectPath]:
    """Copies a folder to the store and returns where it is."""

    def copy(folder: Path) -> ObjectPath:
        target = ObjectPath(f"{s3_bucket}/{folder.name}")
        for name in files_below(folder):
            (target / name).upload(folder / name)
        return target

    return copy


def write_table(path: Path, rows: int, first: int = 0) -> None:
    """Writes numbers, words and a class; one row is bad, two are equal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "word", "class"])
        writer.writerows([index, f"say\n{index}", "even" if index % 2 == 0 else "odd"] for index in range(first, rows))
        writer.writerows([[first, f"say\n{first}", "even"], [1]])


@pytest.mark.parametrize("stratify", [False, True])
def test_a_table_from_a_store_to_a_store(
    upload: Callable[[Path], ObjectPath], s3_bucket: str, tmp_path: Path, stratify: bool
) -> None:
    """Shards, manifest, quarantine and schema are byte-equal, and nothing else is in the artifact."""
    write_table(tmp_path / "data" / "a.csv", 600)
    write_table(tmp_path / "data" / "b.csv", 900, first=600)
    settings: dict[str, Any] = {"label": "class", "splits": Splits(stratify=stratify), "max_bad_fraction": 0.1}
    here, there = tmp_path / "here", ObjectPath(f"{s3_bucket}/runs/there")
    made = run(str(tmp_path / "data"), here, tmp_path / "notes", **settings)
    on_store = run(str(upload(tmp_path / "data")), there, tmp_path / "notes", **settings)

    assert without_manifest(there) == without_manifest(here)
    assert replace(on_store, data_digest=made.data_digest) == made
    assert manifest.read(there) == on_store
    assert [identity for _, _, identity in source_files.read(there, on_store.sources.files)] == [
        f"stat {size}:{hashlib.md5((tmp_path / 'data' / name).read_bytes()).hexdigest()}"  # noqa: S324 - S3's own
        for name, size, _ in source_files.read(here, made.sources.files)
    ]
    assert (tmp_path / "notes" / "here.jsonl").read_bytes() == (tmp_path / "notes" / "there.jsonl").read_bytes() != b""
    verify.check(there, on_store.shards)
    assert [walk.count_records(there / each.name) for each in made.shards] == [r.records for r in made.shards]


def test_images_from_a_store_to_a_store(
    upload: Callable[[Path], ObjectPath], s3_bucket: str, tmp_path: Path, image: Callable[..., bytes]
) -> None:
    """Class folders of images; one is no image."""
    for number in range(40):
        file = tmp_path / "data" / ("cats" if number % 2 else "dogs") / f"{number} ü.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(image(number))
    (tmp_path / "data" / "cats" / "bad.png").write_bytes(b"no image")
    here, there = tmp_path / "here", ObjectPath(f"{s3_bucket}/there")
    made = run(str(tmp_path / "data"), here, tmp_path / "notes", max_bad_fraction=0.1)
    on_store = run(str(upload(tmp_path / "data")), there, tmp_path / "notes", max_bad_fraction=0.1)

    assert without_manifest(there) == without_manifest(here)
    assert replace(on_store, data_digest=made.data_digest) == made
    assert made.quarantined == 1
    assert [path for path, _, _ in source_files.read(there, 41)] == [path for path, _, _ in source_files.read(here, 41)]


def test_an_unchanged_span_is_copied_on_the_store(
    upload: Callable[[Path], ObjectPath], s3_bucket: str, tmp_path: Path, s3_server: Any
) -> None:
    """Its shards are those of the newest earlier artifact that has them intact."""
    write_table(tmp_path / "data" / "day-1" / "t.csv", 100)
    runs = ObjectPath(f"{s3_bucket}/runs")
    pattern = str(upload(tmp_path / "data") / "day-{SPAN}/*.csv")
    settings: dict[str, Any] = {"label": "class", "max_bad_fraction": 0.1}
    for number in ("3", "20"):
        run(pattern, runs / number, tmp_path / "notes", **settings)
    write_table(tmp_path / "data" / "day-2" / "t.csv", 300, first=200)
    upload(tmp_path / "data")
    # The newest one is damaged, behind the server's back.
    victim = max((s3_server.folder / s3_bucket.removeprefix("s3://") / "runs" / "20").rglob("data_tfrecord-*"))
    victim.write_bytes(bytes([victim.read_bytes()[0] ^ 1]) + victim.read_bytes()[1:])
    read, write = list[str](), units.write

    def write_and_note(unit: units.Unit, output: Output) -> int:
        read.append(unit.name)
        return write(unit, output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "write", write_and_note)
        made = run(pattern, runs / "21", tmp_path / "notes", earlier=runs, **settings)
    fresh = run(pattern, runs / "22", tmp_path / "notes", **settings)

    assert {name.split("-")[1] for name in read} == {"s00002"}
    assert content(runs / "21") == content(runs / "22")
    assert made == fresh


@pytest.mark.all
def test_workers_of_beam_write_to_the_store(
    upload: Callable[[Path], ObjectPath], s3_bucket: str, tmp_path: Path, image: Callable[..., bytes]
) -> None:
    """The same bytes, from other processes, which do not create the submitter's cache folder."""
    for number in range(20):
        file = tmp_path / "data" / ("cats" if number % 2 else "dogs") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(image(number))
    data = str(upload(tmp_path / "data"))
    one, two = ObjectPath(f"{s3_bucket}/one"), ObjectPath(f"{s3_bucket}/two")
    run(data, one, tmp_path / "notes")
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    run(data, two, tmp_path / "others", *workers)

    assert content(one) == content(two) != {}
    assert sorted(path.name for path in (tmp_path / "others").iterdir()) == ["two.jsonl"]


def test_workers_that_share_only_a_store_have_no_cache(tmp_path: Path) -> None:
    """Those that share a folder of this machine use its cache of image checks."""
    cache = tmp_path / "checks.db"

    assert Output(ObjectPath("s3://b/x"), Ingest(), cache).for_workers().checks is None
    assert Output(tmp_path, Ingest(), cache).for_workers().checks == cache
