"""The manifest is the sum of the shards' reports, and the run stops if too many records are quarantined."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import BadInput, LedgerMismatch
from components.ingest.close.manifest import build, check_budget, close
from components.ingest.sources import SourceFile
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.survey.listing import Listing
from components.ingest.write.report import ShardReport
from components.records import manifest, shard_files
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.quarantine import Quarantined
from components.settings.ingest import Ingest


def report(
    split: str,
    name: str,
    records: int,
    classes: dict[str, int],
    sides: dict[int, int] | None = None,
    changed: dict[str, int] | None = None,
    quarantined: tuple[Quarantined, ...] = (),
    failure: str = "",
) -> ShardReport:
    """Returns a report of a shard of 10 bytes."""
    return ShardReport(split, name, records, 10, "cafe", classes, sides or {}, changed or {}, quarantined, failure)


def listing(files: Sequence[tuple[str, str]], refused: tuple[Quarantined, ...] = ()) -> Listing:
    """Returns a listing of (path, start of the digest)."""
    rows = (ListedFile(SourceFile(path, path.partition("/")[0]), 7, f"{digest:0<64}") for path, digest in files)
    return Listing(ListedFiles(rows), refused, ())


FILES = [("cats/1.jpg", "a1"), ("cats/2.jpg", "a2"), ("cats/bad.jpg", "a3"), ("dogs/3.jpg", "a4"), ("dogs/4.jpg", "a5")]
LISTING = listing(FILES, (Quarantined("top.jpg", "not inside a class folder"),))
REPORTS = [
    report("train", "Split-train/t0", 2, {"cats": 1, "dogs": 1}, {8: 1, 32: 1}, {"BMP": 1}),
    report("train", "Split-train/t1", 1, {"cats": 1}, {8: 1}, {"BMP": 1}, (Quarantined("cats/bad.jpg", "empty file"),)),
    report("eval", "Split-eval/e0", 1, {"dogs": 1}, {64: 1}, {"alpha": 1}),
    report("test", "Split-test/x0", 0, {}),
]
MANIFEST = Manifest(
    data_digest=LISTING.digest,
    found=6,
    sources=SourceTotals(len(FILES), 7 * len(FILES)),
    shards=(
        Shard("train", "Split-train/t0", 2, 10, "cafe"),
        Shard("train", "Split-train/t1", 1, 10, "cafe"),
        Shard("eval", "Split-eval/e0", 1, 10, "cafe"),
        Shard("test", "Split-test/x0", 0, 10, "cafe"),
    ),
    classes={"train": {"cats": 2, "dogs": 1}, "eval": {"cats": 0, "dogs": 1}, "test": {"cats": 0, "dogs": 0}},
    quarantined=2,
    changed={"BMP": 2, "alpha": 1},
    median_side=8,
    warnings=(),
)


class TestBuild:
    """Reports are added up."""

    def test_every_class_is_listed_in_every_split(self) -> None:
        """With 0 where there is none; quarantined files are sorted by path, whenever they were rejected."""
        bad = (Quarantined("cats/bad.jpg", "empty file"), Quarantined("top.jpg", "not inside a class folder"))

        assert build(LISTING, REPORTS) == (MANIFEST, bad)

    @pytest.mark.parametrize(
        ("sides", "median"),
        [({}, 0), ({28: 1}, 28), ({8: 1, 32: 1}, 8), ({8: 1, 32: 2}, 32), ({9: 1, 10: 1, 200: 9}, 200)],
    )
    def test_the_median_side_is_the_lower_median(self, sides: dict[int, int], median: int) -> None:
        """Without images it is 0."""
        assert build(LISTING, [report("train", "Split-train/t0", 1, {}, sides)])[0].median_side == median

    def test_the_median_side_is_of_the_training_split(self) -> None:
        """Held-out images must not decide the image size of the model."""
        reports = [report("train", "t", 1, {}, {8: 1}), report("eval", "e", 9, {}, {64: 9})]

        assert build(LISTING, reports)[0].median_side == 8


class TestClose:
    """The manifest is checked before it is written."""

    def test_manifest_and_both_quarantine_lists_are_written(self, tmp_path: Path) -> None:
        """The second list is outside of the artifact. The manifest has the settings that decided the splits."""
        settings = Ingest(max_bad_fraction=0.5, near_duplicate_bits=-1)
        for shard in MANIFEST.shards:
            with shard_files.publish(tmp_path, shard.name) as temporary:
                temporary.write_bytes(b"0123456789")
        built = close(tmp_path, LISTING, REPORTS, settings, tmp_path / "notes" / "list", warnings=["old"])

        assert manifest.read(tmp_path) == built
        assert built.warnings == ("old",)
        assert built.splits == {
            "train": 0.8, "eval": 0.1, "test": 0.1, "salt": "", "stratify": False, "split_by": "", "unused": [],
        }  # fmt: skip
        assert (tmp_path / "notes" / "list").read_text() == (tmp_path / manifest.QUARANTINE).read_text()

    def test_a_lost_shard_stops_the_run(self, tmp_path: Path) -> None:
        """B16: the files must be those of the reports before the manifest is written."""
        settings = Ingest(max_bad_fraction=0.5, near_duplicate_bits=-1)
        with pytest.raises(LedgerMismatch, match="Split-eval/e0 is missing"):
            close(tmp_path, LISTING, REPORTS, settings, tmp_path / "list")

        assert not (tmp_path / manifest.MANIFEST).exists()

    def test_a_lost_record_stops_the_run(self, tmp_path: Path) -> None:
        """Promise A16: records are counted from the shards, not from what should be in them."""
        settings = Ingest(max_bad_fraction=0.5, near_duplicate_bits=-1)
        with pytest.raises(LedgerMismatch, match="2 records lost"):
            close(tmp_path, LISTING, REPORTS[1:], settings, tmp_path / "list")

        assert not (tmp_path / manifest.MANIFEST).exists()

    def test_a_file_that_vanished_stops_the_run(self, tmp_path: Path) -> None:
        """The report's failure is the message."""
        gone = report("train", "Split-train/t0", 0, {}, failure="cats/1.jpg: cannot be read")
        with pytest.raises(BadInput, match=r"^cats/1.jpg: cannot be read; nothing after it was run$"):
            close(tmp_path, LISTING, [gone], Ingest(), tmp_path / "list")


def bad_files(count: int) -> list[Quarantined]:
    """Returns that many quarantined files."""
    return [Quarantined(f"cats/{index}.jpg", "empty file") for index in range(count)]


class TestBudget:
    """Above ingest.max_bad_fraction the run stops."""

    @pytest.mark.parametrize(("bad", "records"), [(0, 1), (0, 100), (1, 100), (10, 1_000)])
    def test_up_to_the_fraction_the_run_goes_on(self, bad: int, records: int, tmp_path: Path) -> None:
        """1 % by default."""
        check_budget(bad_files(bad), records, Ingest(), tmp_path / "list")

    @pytest.mark.parametrize(("bad", "records"), [(1, 99), (2, 100), (11, 1_000), (1, 1)])
    def test_above_the_fraction_the_run_stops(self, bad: int, records: int, tmp_path: Path) -> None:
        """One file more stops it."""
        with pytest.raises(BadInput, match=f"^{bad} of {records} records were quarantined"):
            check_budget(bad_files(bad), records, Ingest(), tmp_path / "list")

    @given(records=st.integers(2, 2_000), data=st.data())
    def test_exactly_the_fraction_is_allowed(self, records: int, data: st.DataObject) -> None:
        """No rounding error stops a run."""
        bad = data.draw(st.integers(0, records - 1))

        check_budget(bad_files(bad), records, Ingest(max_bad_fraction=bad / records), Path("list"))

    def test_a_fraction_of_0_stops_at_the_first(self, tmp_path: Path) -> None:
        """Every file must be readable."""
        with pytest.raises(BadInput):
            check_budget(bad_files(1), 1_000_000, Ingest(max_bad_fraction=0), tmp_path / "list")

    def test_the_message_names_some_files_and_the_list(self, tmp_path: Path) -> None:
        """Count, fraction, limit, files, and what to do."""
        with pytest.raises(BadInput) as stopped:
            check_budget(bad_files(7), 350, Ingest(), tmp_path / "list")

        assert str(stopped.value).splitlines() == [
            "7 of 350 records were quarantined (2.0%), more than ingest.max_bad_fraction = 0.01 allows:",
            "  cats/0.jpg: empty file",
            "  cats/1.jpg: empty file",
            "  cats/2.jpg: empty file",
            "  cats/3.jpg: empty file",
            "  cats/4.jpg: empty file",
            "  … 2 more",
            (
                f"all of them are listed in {tmp_path / 'list'}; repair or remove them, "
                "or raise the fraction (--set ingest.max_bad_fraction=…)"
            ),
        ]

    @pytest.mark.parametrize("fraction", [0.01, 1.0])
    def test_no_readable_file_stops_the_run_at_any_fraction(self, fraction: float, tmp_path: Path) -> None:
        """Promise A3: the message names a file and says 0 examples."""
        with pytest.raises(BadInput) as stopped:
            check_budget(bad_files(3), 3, Ingest(max_bad_fraction=fraction), tmp_path / "list")

        assert "0 examples" in str(stopped.value)
        assert "cats/0.jpg: empty file" in str(stopped.value)
