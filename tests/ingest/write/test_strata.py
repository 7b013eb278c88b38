"""Stratified splits: every class gets its share of each split, whatever the order and however the data is divided."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from components.errors import SettingsError
from components.ingest import run as ingesting
from components.ingest import units
from components.ingest.survey import survey
from components.ingest.units import Output
from components.ingest.write import strata
from components.ingest.write.strata import ROW
from components.records.manifest import Manifest
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS, Splits
from components.storage.hashing import HashCache

STRATIFIED = Splits(stratify=True)


@pytest.mark.parametrize(
    ("count", "shares"),
    [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (4, [2, 1, 1]), (5, [3, 1, 1]), (9, [7, 1, 1]), (10, [8, 1, 1]),
     (15, [12, 2, 1]), (16, [13, 2, 1]), (1000, [800, 100, 100])],
)  # fmt: skip
def test_the_shares_of_a_class(count: int, shares: list[int]) -> None:
    """A17: by largest remainder, at least one each if there are three."""
    assert strata.share(count, STRATIFIED) == shares


def rows(count: int, classes: int) -> Any:
    """Returns random places with classes."""
    random = np.random.default_rng(3)
    made = np.empty(count, ROW)
    made["place"], made["class"] = random.integers(0, 1 << 63, count) * 2, random.integers(0, classes, count)
    return made


def test_every_class_gets_its_shares() -> None:
    """A17: exactly, for classes of all sizes."""
    made = rows(3000, 400)
    splits = strata.decide(made, STRATIFIED).split_numbers(made["place"], made["class"])

    for name, size in Counter(made["class"].tolist()).items():
        mine = np.bincount(splits[made["class"] == name], minlength=3).tolist()
        assert mine == strata.share(size, STRATIFIED)


def test_the_lowest_places_are_in_train() -> None:
    """By rank, so the result does not depend on the order of the records."""
    made = rows(100, 1)
    decided = strata.decide(made, STRATIFIED)
    made.sort(order="place")

    assert decided.split_numbers(made["place"], made["class"]).tolist() == [0] * 80 + [1] * 10 + [2] * 10
    assert decided.digest == strata.decide(np.random.default_rng(1).permutation(made), STRATIFIED).digest


def test_a_content_with_several_labels_is_in_one_split() -> None:
    """A6: also if all contents have."""
    made = rows(200, 5)
    other = made.copy()
    other["class"] = 4 - made["class"]
    both = np.concatenate([made, other, made])
    splits = strata.decide(both, STRATIFIED).split_numbers(both["place"], both["class"]).reshape(3, -1)

    assert (splits == splits[0]).all()
    assert set(splits[0].tolist()) == {0, 1, 2}


def ingest(data: Path | str, out: Path, *flags: str, earlier: Path | None = None, **settings: Any) -> Manifest:
    """Ingests data with stratified splits; flags are Beam's."""
    chosen, cache = Ingest(**{"splits": STRATIFIED, **settings}), HashCache(None)
    out.mkdir()

    def take() -> survey.Survey:
        return survey.take(str(data), chosen, cache)

    job = ingesting.IngestJob(take(), Output(out, chosen), out / "bad.jsonl", earlier)
    return ingesting.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(flags))), take)


def shares(made: Manifest) -> dict[str, list[int]]:
    """Returns the records of each class, by split."""
    return {name: [made.classes[split][name] for split in SPLITS] for name in made.classes["train"]}


def splits_of(out: Path, column: str) -> dict[Any, set[str]]:
    """Returns the splits that have each value of a column."""
    found: dict[Any, set[str]] = {}
    for split in SPLITS:
        for path in sorted(out.glob(f"Split-{split}/data_tfrecord-*")):
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                feature = tf.train.Example.FromString(record).features.feature[column]
                found.setdefault(getattr(feature, feature.WhichOneof("kind")).value[0], set()).add(split)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two tables: classes of 50, 3, 2 and 1 different texts, some texts twice, and bad rows."""
    home = tmp_path / "table"
    home.mkdir()
    lines = [f"text {name} {number},{name}" for name, count in {"a": 50, "b": 3, "c": 2, "d": 1}.items()
             for number in range(count)]  # fmt: skip
    (home / "1.csv").write_text("\n".join(["text,label", *lines[::2], lines[1], "no label,"]))
    (home / "2.csv").write_text("\n".join(["text,label", *lines[1::2], lines[0], "too,many,cells"]))
    return home


class TestRows:
    """Tables."""

    def test_classes_get_their_shares_and_duplicates_one_split(self, table: Path, tmp_path: Path) -> None:
        """A6, A17: bad rows and copies take nobody's share, and nothing is left behind."""
        made = ingest(table, tmp_path / "out", max_bad_fraction=0.1)
        found = splits_of(tmp_path / "out", "text")

        assert {len(splits) for splits in found.values()} == {1}
        by_class = Counter((text.split()[1].decode(), *splits) for text, splits in found.items())
        assert {name: [by_class[name, split] for split in SPLITS] for name in "abcd"} == {
            "a": [40, 5, 5],
            "b": [1, 1, 1],
            "c": [1, 1, 0],
            "d": [1, 0, 0],
        }
        assert (made.found, sum(made.records.values()), made.quarantined) == (60, 58, 2)
        assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {
            "sources",
            *(f"Split-{split}" for split in SPLITS),
        }

    def test_neither_ranges_nor_the_order_of_files_matter(
        self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """D2: the same splits of one range per file, of many ranges, and of renamed files."""
        ingest(table, tmp_path / "one", max_bad_fraction=0.1)
        monkeypatch.setattr(units, "_MIN_RANGE", 100)
        (table / "1.csv").rename(table / "3.csv")
        ingest(table, tmp_path / "many", max_bad_fraction=0.1)

        assert splits_of(tmp_path / "one", "text") == splits_of(tmp_path / "many", "text")

    @pytest.mark.all
    def test_beam_workers_give_the_same_shards(self, table: Path, tmp_path: Path) -> None:
        """D2: byte for byte."""
        workers = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
        ingest(table, tmp_path / "here", max_bad_fraction=0.1)
        ingest(table, tmp_path / "there", *workers, max_bad_fraction=0.1)
        here, there = (
            {path.relative_to(out).as_posix(): path.read_bytes() for path in out.glob("Split-*/*")}
            for out in (tmp_path / "here", tmp_path / "there")
        )

        assert here == there

    def test_new_spans_are_divided_with_the_old_ones(self, tmp_path: Path) -> None:
        """A6: a copy in another span is in the same split; old spans are read again, as their records may move."""
        for span, count in ((1, 10), (2, 20)):
            (tmp_path / f"{span}.csv").write_text("\n".join(["text,label", *(f"text {n},a" for n in range(count))]))
        first = ingest(f"{tmp_path}/{{SPAN}}.csv", tmp_path / "first", spans="1-1")
        both = ingest(f"{tmp_path}/{{SPAN}}.csv", tmp_path / "both", earlier=tmp_path / "first")
        splits = splits_of(tmp_path / "both", "text")

        assert (shares(first), sum(both.records.values())) == ({"a": [8, 1, 1]}, 30)
        assert Counter(split for each in splits.values() for split in each) == {"train": 16, "eval": 2, "test": 2}

    @pytest.mark.parametrize(("text", "what"), [("x,label\n1,1.5\n", "the label 'label' is double"),
                                                ("x,z\n1,2\n", "the data has no label")])  # fmt: skip
    def test_quantities_have_no_strata(self, text: str, what: str, tmp_path: Path) -> None:
        """The message says so."""
        (tmp_path / "a.csv").write_text(text)

        with pytest.raises(SettingsError, match=f"ingest.splits.stratify: needs a label with classes, but {what}"):
            ingest(tmp_path / "a.csv", tmp_path / "out")


def test_arrays_get_their_shares(data: Path, tmp_path: Path) -> None:
    """A17: with labels in a file beside them."""
    np.save(data / "x.npy", np.arange(26.0).reshape(13, 2))
    np.save(data / "x_labels.npy", np.array([7] * 10 + [8] * 3))

    assert shares(ingest(data, tmp_path / "out")) == {"7": [8, 1, 1], "8": [1, 1, 1]}


def test_class_folders_get_their_shares(data: Path, tmp_path: Path, image: Callable[..., bytes]) -> None:
    """A17, A6: rare classes are in all splits, copies in one."""
    for number in range(60):
        place = data / f"class {number % 20}" / f"{number}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(image(number))
    (data / "class 0" / "copy.png").write_bytes(image(0))
    found = shares(ingest(data, tmp_path / "out", near_duplicate_bits=-1))

    assert (sum(found.pop("class 0")), set(map(tuple, found.values()))) == (4, {(1, 1, 1)})


def test_rows_of_one_image_are_in_one_split(data: Path, tmp_path: Path, image: Callable[..., bytes]) -> None:
    """A6: also with different labels."""
    lines = [f"{number}.png,{number},{label}" for number in range(10) for label in "ab"]
    (data / "list.csv").write_text("\n".join(["path,n,label", *lines]))
    for number in range(10):
        (data / f"{number}.png").write_bytes(image(number))
    made = ingest(data / "list.csv", tmp_path / "out", near_duplicate_bits=-1)

    assert shares(made) == {"a": [8, 1, 1], "b": [8, 1, 1]}
    assert {len(splits) for splits in splits_of(tmp_path / "out", "n").values()} == {1}
