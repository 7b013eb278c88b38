"""The account of an ingest adds up, is read back as it was, and stops the run when too much is bad."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import Refused, SourceFile
from components.ingest.survey.listing import ListedFile, Listing
from components.records import manifest as account
from components.records.ledger import Entry
from components.records.manifest import Manifest, Shard, check_budget
from components.settings.ingest import Ingest


@dataclass(frozen=True)
class Report:
    """What the account reads of a shard's report, which itself needs TensorFlow."""

    split: str
    name: str
    records: int
    classes: dict[str, int]
    sides: dict[int, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    quarantined: tuple[Refused, ...] = ()
    bytes: int = 10
    checksum: str = "cafe"


def manifest(files: Sequence[tuple[str, str]], refused: tuple[Refused, ...] = ()) -> Listing:
    """Returns a manifest of (path, digest)."""
    rows = (ListedFile(SourceFile(path, path.partition("/")[0]), 7, digest) for path, digest in files)
    return Listing(tuple(rows), refused, ())


FILES = [("cats/1.jpg", "a1"), ("cats/2.jpg", "a2"), ("cats/bad.jpg", "a3"), ("dogs/3.jpg", "a4"), ("dogs/4.jpg", "a5")]
MANIFEST = manifest(FILES, (Refused("top.jpg", "not inside a class folder"),))
REPORTS = [
    Report("train", "t0", 2, {"cats": 1, "dogs": 1}, {8: 1, 32: 1}, {"BMP": 1}),
    Report("train", "t1", 1, {"cats": 1}, {8: 1}, {"BMP": 1}, (Refused("cats/bad.jpg", "empty file"),)),
    Report("eval", "e0", 1, {"dogs": 1}, {64: 1}, {"alpha": 1}),
    Report("test", "x0", 0, {}),
]


@pytest.fixture(scope="module")
def made() -> tuple[Manifest, tuple[Refused, ...]]:
    """The account of these reports."""
    return account.make(MANIFEST, REPORTS)


def test_the_reports_are_added_up(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """Every class is listed in every split, with nothing where there is nothing."""
    assert made[0] == Manifest(
        data_digest=MANIFEST.digest,
        found=6,
        sources=tuple((path, 7, digest) for path, digest in FILES),
        shards=(
            Shard("train", "t0", 2, 10, "cafe"),
            Shard("train", "t1", 1, 10, "cafe"),
            Shard("eval", "e0", 1, 10, "cafe"),
            Shard("test", "x0", 0, 10, "cafe"),
        ),
        classes={
            "train": {"cats": 2, "dogs": 1},
            "eval": {"cats": 0, "dogs": 1},
            "test": {"cats": 0, "dogs": 0},
        },
        quarantined=2,
        changed={"BMP": 2, "alpha": 1},
        median_side=8,
        warnings=(),
    )


def test_what_was_set_aside_is_listed_by_path(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """Files refused before and after they were opened stand in one list."""
    assert made[1] == (Refused("cats/bad.jpg", "empty file"), Refused("top.jpg", "not inside a class folder"))


def test_the_ledger_entry_counts_every_file(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """Promise A16: six in, four out, two set aside."""
    assert made[0].entry() == Entry("Ingest", 6, 4, 2)


def test_a_lost_record_shows_in_the_entry() -> None:
    """Promise A16: the entry is counted from the shards, not from what should be in them."""
    entry = account.make(MANIFEST, REPORTS[1:])[0].entry()

    assert (entry, entry.balanced) == (Entry("Ingest", 6, 2, 2), False)


def test_records_are_summed_by_split(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """An empty split has zero, not nothing."""
    assert made[0].records == {"train": 3, "eval": 1, "test": 0}


def test_shards_are_found_by_split(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """In the order in which they were planned."""
    assert [shard.name for shard in made[0].shards_of("train")] == ["t0", "t1"]


def test_disk_is_compared(made: tuple[Manifest, tuple[Refused, ...]]) -> None:
    """What the files take, and what the shards take on top of that."""
    assert (made[0].source_bytes, made[0].stored_bytes) == (35, 40)


class TestMedian:
    """The image size of a model is taken from the training split."""

    @pytest.mark.parametrize(
        ("sides", "median"),
        [
            ({}, 0),
            ({28: 1}, 28),
            ({8: 1, 32: 1}, 8),
            ({8: 1, 32: 2}, 32),
            ({8: 2, 32: 1, 64: 1}, 8),
            ({9: 1, 10: 1, 200: 9}, 200),
        ],
    )
    def test_half_of_the_images_are_no_larger(self, sides: dict[int, int], median: int) -> None:
        """Of two middle values the smaller one counts; without images it is 0."""
        assert account.make(MANIFEST, [Report("train", "t0", 1, {}, sides)])[0].median_side == median

    def test_other_splits_have_no_say(self) -> None:
        """Held-out images must not shape the model."""
        reports = [Report("train", "t", 1, {}, {8: 1}), Report("eval", "e", 9, {}, {64: 9})]

        assert account.make(MANIFEST, reports)[0].median_side == 8


class TestWarnings:
    """Promise A6: exact duplicates are shown."""

    def test_duplicates_are_counted(self) -> None:
        """The first group is named."""
        files = [
            ("cats/1.jpg", "a"),
            ("cats/2.jpg", "a"),
            ("cats/3.jpg", "a"),
            ("dogs/4.jpg", "b"),
            ("dogs/5.jpg", "b"),
        ]

        assert account.make(manifest(files), [])[0].warnings == (
            "3 exact duplicates in 2 groups, each kept within one split, such as cats/1.jpg = cats/2.jpg = cats/3.jpg",
        )

    def test_one_image_under_two_labels_is_named(self) -> None:
        """It cannot be both."""
        files = [("cats/1.jpg", "a"), ("cats/2.jpg", "a"), ("cats/3.jpg", "b"), ("dogs/4.jpg", "b")]

        assert account.make(manifest(files), [])[0].warnings == (
            "2 exact duplicates in 2 groups, each kept within one split, such as cats/1.jpg = cats/2.jpg",
            "1 images stand under two labels, such as cats/3.jpg = dogs/4.jpg",
        )


class TestStorage:
    """The account is kept inside the artifact."""

    def test_an_account_is_read_back_as_it_was_written(
        self, made: tuple[Manifest, tuple[Refused, ...]], tmp_path: Path
    ) -> None:
        """Types included: tuples are tuples again."""
        account.write(tmp_path, *made)

        assert account.read(tmp_path) == made[0]

    def test_the_quarantine_list_is_read_back_as_it_was_written(
        self, made: tuple[Manifest, tuple[Refused, ...]], tmp_path: Path
    ) -> None:
        """Every path with its reason."""
        account.write(tmp_path, *made)

        assert account.read_quarantine(tmp_path) == list(made[1])

    def test_the_quarantine_list_is_one_line_a_file(
        self, made: tuple[Manifest, tuple[Refused, ...]], tmp_path: Path
    ) -> None:
        """Any tool can read it; its folder is made on the way."""
        account.write_quarantine(tmp_path / "new" / "quarantine.jsonl", made[1])

        assert (tmp_path / "new" / "quarantine.jsonl").read_text() == (
            '{"path":"cats/bad.jpg","reason":"empty file"}\n{"path":"top.jpg","reason":"not inside a class folder"}\n'
        )

    def test_names_that_cannot_be_printed_are_spelt_out(self, tmp_path: Path) -> None:
        """A line break or an odd byte in a name is no line break or odd byte in the list."""
        bad = [Refused("cats/a\nb.jpg", "empty file"), Refused("cats/caf\udce9.jpg", "empty file")]
        account.write_quarantine(tmp_path / "quarantine.jsonl", bad)

        assert account.read_quarantine(tmp_path) == [
            Refused("cats/a\nb.jpg", "empty file"),
            Refused("cats/caf\\xe9.jpg", "empty file"),
        ]

    def test_sources_that_cannot_be_printed_are_spelt_out(self, tmp_path: Path) -> None:
        """Their account can be stored and read."""
        made, bad = account.make(manifest([("cats/caf\udce9.jpg", "a")]), [])
        account.write(tmp_path, made, bad)

        assert account.read(tmp_path).sources == (("cats/caf\\xe9.jpg", 7, "a"),)


def refused(count: int) -> list[Refused]:
    """Returns that many bad files."""
    return [Refused(f"cats/{index}.jpg", "empty file") for index in range(count)]


class TestBudget:
    """Above ingest.max_bad_fraction the run stops."""

    @pytest.mark.parametrize(("bad", "records"), [(0, 1), (0, 100), (1, 100), (10, 1_000)])
    def test_up_to_the_fraction_the_run_goes_on(self, bad: int, records: int, tmp_path: Path) -> None:
        """One percent of the files may be bad by default."""
        check_budget(refused(bad), records, Ingest(), tmp_path / "list")

    @pytest.mark.parametrize(("bad", "records"), [(1, 99), (2, 100), (11, 1_000), (1, 1)])
    def test_above_the_fraction_the_run_stops(self, bad: int, records: int, tmp_path: Path) -> None:
        """One file more is too many."""
        with pytest.raises(BadInput, match=f"^{bad} of {records} files are bad"):
            check_budget(refused(bad), records, Ingest(), tmp_path / "list")

    @given(records=st.integers(2, 2_000), data=st.data())
    def test_exactly_the_fraction_is_allowed(self, records: int, data: st.DataObject) -> None:
        """Whatever the numbers: no rounding error stops a run."""
        bad = data.draw(st.integers(0, records - 1))

        check_budget(refused(bad), records, Ingest(max_bad_fraction=bad / records), Path("list"))

    def test_a_budget_of_nothing_stops_at_the_first(self, tmp_path: Path) -> None:
        """0 means that every file must be good."""
        with pytest.raises(BadInput):
            check_budget(refused(1), 1_000_000, Ingest(max_bad_fraction=0), tmp_path / "list")

    def test_the_message_shows_some_and_where_all_are(self, tmp_path: Path) -> None:
        """How many, how much, which, and what to do."""
        with pytest.raises(BadInput) as stopped:
            check_budget(refused(7), 350, Ingest(), tmp_path / "list")

        assert str(stopped.value).splitlines() == [
            "7 of 350 files are bad (2.0%), more than ingest.max_bad_fraction = 0.01 allows:",
            "  cats/0.jpg: empty file",
            "  cats/1.jpg: empty file",
            "  cats/2.jpg: empty file",
            "  cats/3.jpg: empty file",
            "  cats/4.jpg: empty file",
            "  … 2 more",
            (
                f"all of them are listed in {tmp_path / 'list'}; mend or remove them, "
                "or raise the fraction (--set ingest.max_bad_fraction=…)"
            ),
        ]

    @pytest.mark.parametrize("fraction", [0.01, 1.0])
    def test_nothing_but_bad_files_stops_the_run_whatever_the_fraction(self, fraction: float, tmp_path: Path) -> None:
        """Promise A3: the message names a file and says 0 examples."""
        with pytest.raises(BadInput) as stopped:
            check_budget(refused(3), 3, Ingest(max_bad_fraction=fraction), tmp_path / "list")

        assert "0 examples" in str(stopped.value)
        assert "cats/0.jpg: empty file" in str(stopped.value)
