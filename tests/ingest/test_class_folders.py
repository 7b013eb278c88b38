"""Class folders become the same shards and the same manifest, whatever divides the work: D2, A6, A7."""

import random
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image

from components.errors import LedgerMismatch
from components.ingest import run as ingesting
from components.ingest import units
from components.ingest.close import compare
from components.ingest.survey import survey
from components.ingest.units import Output
from components.records import manifest
from components.records.manifest import Manifest
from components.settings.ingest import Ingest
from components.settings.splits import Splits
from components.storage.hashing import HashCache

FRACTIONS = {"train": 0.4, "eval": 0.3, "test": 0.3}


def run(data: Path | str, out: Path, *flags: str, earlier: Path | None = None, stratify: bool = False) -> Manifest:
    """Ingests a folder or pattern; flags are Beam's."""
    settings = Ingest(max_bad_fraction=0.1, min_shards=3, splits=Splits(**FRACTIONS, stratify=stratify))
    out.mkdir()

    def take() -> survey.Survey:
        return survey.take(str(data), settings, HashCache(None))

    job = ingesting.IngestJob(take(), Output(out, settings), out.with_suffix(".jsonl"), earlier)
    return ingesting.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), take)


def workers(count: int, mode: str = "multi_threading") -> tuple[str, str]:
    """Returns flags for several workers of Beam."""
    return f"--direct_num_workers={count}", f"--direct_running_mode={mode}"


def content(out: Path) -> dict[str, bytes]:
    """Returns all files of an artifact."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def scene(seed: int) -> Image.Image:
    """Returns an image that depends on the seed."""
    chosen = random.Random(seed)
    return Image.frombytes("RGB", (9, 7), chosen.randbytes(189)).resize((120, 90), Image.Resampling.BICUBIC)


@pytest.fixture
def data(data: Path) -> Path:
    """Images in two classes, with copies, an exact copy in the other class, a re-encoded one, and a bad file."""
    for name in ("cats", "dogs"):
        (data / name).mkdir()
    for seed in range(24):
        scene(seed).save(data / ("cats" if seed % 3 else "dogs") / f"{seed} ü.jpg", quality=90)
        scene(seed).resize((80, 60)).save(data / "dogs" / f"like {seed}.jpg", quality=60)
    first = (data / "cats" / "1 ü.jpg").read_bytes()
    for name in ("cats/copy.jpg", "dogs/copy.jpg"):
        (data / name).write_bytes(first)
    (data / "cats" / "bad.jpg").write_bytes(b"no image")
    return data


@pytest.mark.parametrize("stratify", [False, True])
def test_workers_write_the_same_bytes(data: Path, tmp_path: Path, stratify: bool) -> None:
    """In this process, in worker processes, on two and four workers of Beam: the manifest with its warnings as well."""
    made = run(data, tmp_path / "here", stratify=stratify)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "_MANY_FILES", 1)
        patch.setattr(units, "_CORES", 2)
        run(data, tmp_path / "processes", stratify=stratify)
    for count in (2, 4):
        run(data, tmp_path / f"beam {count}", *workers(count), stratify=stratify)

    here = content(tmp_path / "here")
    assert {path.name for path in (tmp_path / "here").iterdir() if path.is_dir()} == {
        "sources",
        *(f"Split-{split}" for split in FRACTIONS),
    }
    assert [content(tmp_path / name) == here for name in ("processes", "beam 2", "beam 4")] == [True] * 3
    assert (made.found, made.quarantined, sum(made.records.values())) == (51, 1, 50)
    assert made.warnings[:2] == (
        "1 exact duplicates in 1 groups, each kept within one split, such as cats/1 ü.jpg = cats/copy.jpg",
        "1 groups of equal records have different labels, such as dogs/copy.jpg = cats/1 ü.jpg",
    )
    assert "pairs of images in different splits look the same" in made.warnings[2]


def test_spans_that_are_reused_are_compared_with_new_ones(data: Path, tmp_path: Path) -> None:
    """In this process and on Beam's workers; a record is named by its span."""
    (tmp_path / "spans").mkdir()
    data.rename(tmp_path / "spans" / "span-1")
    pattern = f"{tmp_path}/spans/span-{{SPAN}}"
    run(pattern, tmp_path / "old")
    (tmp_path / "spans" / "span-2" / "birds").mkdir(parents=True)
    scene(99).save(tmp_path / "spans" / "span-2" / "birds" / "a.jpg")
    (tmp_path / "spans" / "span-2" / "birds" / "b.jpg").write_bytes(
        (tmp_path / "spans" / "span-1" / "dogs" / "like 0.jpg").read_bytes()
    )
    made = run(pattern, tmp_path / "here", earlier=tmp_path / "old")
    run(pattern, tmp_path / "beam", *workers(2), earlier=tmp_path / "old")
    run(pattern, tmp_path / "fresh")

    assert content(tmp_path / "here") == content(tmp_path / "beam") == content(tmp_path / "fresh")
    assert made.warnings[1].startswith("2 groups of equal records have different labels")


def test_records_that_were_not_compared_stop_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A16: the results of all buckets must account for all records."""
    store = compare.store

    def lose(artifact: Path, bucket: str, result: compare.ComparedBucket) -> None:
        if not bucket.startswith("000"):
            store(artifact, bucket, result)

    monkeypatch.setattr(compare, "store", lose)

    with pytest.raises(LedgerMismatch, match=r"0 of 50 records were compared"):
        run(data, tmp_path / "out", *workers(2))


def test_a_copy_to_another_class_is_another_digest(data: Path, tmp_path: Path, image: Callable[..., bytes]) -> None:
    """A13: shards and digest change when an image is moved to another class."""
    (data / "cats" / "moved.png").write_bytes(image(1))
    before = run(data, tmp_path / "before")
    (data / "cats" / "moved.png").rename(data / "dogs" / "moved.png")
    after = run(data, tmp_path / "after")

    assert before.data_digest != after.data_digest
    assert sum(after.classes[split]["dogs"] - before.classes[split]["dogs"] for split in FRACTIONS) == 1


def test_the_manifest_is_read_back(data: Path, tmp_path: Path) -> None:
    """Each split has a shard per unit."""
    made = run(data, tmp_path / "out")

    assert manifest.read(tmp_path / "out") == made
    assert {shard.name.rpartition("-of-")[2] for shard in made.shards} == {"00003"}
