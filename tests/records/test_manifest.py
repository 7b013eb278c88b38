"""Manifest and quarantine list are read back as they were written."""

from dataclasses import replace
from pathlib import Path

from components.records import manifest
from components.records.ledger import Entry
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.quarantine import Quarantined

MANIFEST = Manifest(
    data_digest="cafe",
    found=6,
    sources=SourceTotals(2, 35),
    shards=(
        Shard("train", "t0", 2, 10, "crc32c:00000001"),
        Shard("train", "t1", 1, 10, "crc32c:00000002"),
        Shard("eval", "e0", 1, 20, "crc32c:00000003"),
    ),
    classes={"train": {"cats": 2, "dogs": 1}, "eval": {"cats": 0, "dogs": 1}, "test": {"cats": 0, "dogs": 0}},
    quarantined=2,
    changed={"BMP": 2},
    median_side=8,
    warnings=("2 exact duplicates",),
)


def test_records_are_summed_over_shards() -> None:
    """An empty split has 0 records; shards keep their order."""
    assert MANIFEST.records == {"train": 3, "eval": 1, "test": 0}
    assert [shard.name for shard in MANIFEST.shards_of("train")] == ["t0", "t1"]
    assert MANIFEST.entry() == Entry("Ingest", 6, 4, 2)


def test_spans_are_known_by_the_names_of_their_shards() -> None:
    """In their order; dates, hours and numbers of more digits included."""
    ends = ("s00012-00000-of-00001", "s99999-f00001-00000-of-00001", "s100000-00000-of-00001", "f00001-00000-of-00002")
    shards = tuple(Shard("train", f"Split-train/data_tfrecord-{end}", 2, 1, "") for end in ends)
    spans = replace(MANIFEST, shards=shards)

    assert spans.spans == ("s00012", "s99999", "s100000")
    assert spans.records_of("s00012") == {"train": 2, "eval": 0, "test": 0}
    assert spans.records_of("") == spans.records
    assert manifest.span_of("Split-train/data_tfrecord-s20261114T05-00000-of-00001") == "s20261114T05"
    assert MANIFEST.spans == ()


def test_both_files_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """Types included: tuples are tuples again."""
    bad = [
        Quarantined("cats/bad.jpg", "empty file"),
        Quarantined("rows.csv", "too few cells", "line 7", raw="a\r\nb\0c\x1b\u2028d"),
        Quarantined("rows.csv", "not UTF-8", "line 9", raw_base64="/woA"),
    ]
    manifest.write(tmp_path, MANIFEST, bad)

    assert manifest.read(tmp_path) == MANIFEST
    assert manifest.read_quarantine(tmp_path) == bad


def test_the_quarantine_list_has_one_line_per_entry(tmp_path: Path) -> None:
    """Its folder is created; names that are not UTF-8 are escaped; empty fields are left out."""
    bad = [Quarantined("cats/a\nb.jpg", "empty file"), Quarantined("cats/caf\udce9.jpg", "truncated", "byte 9")]
    manifest.write_quarantine(tmp_path / "new" / "quarantine.jsonl", bad)

    assert (tmp_path / "new" / "quarantine.jsonl").read_text() == (
        '{"path":"cats/a\\nb.jpg","reason":"empty file"}\n'
        '{"path":"cats/caf\\\\xe9.jpg","position":"byte 9","reason":"truncated"}\n'
    )
