"""The sample texts are docstrings without the names of their libraries."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data import docstrings
from data.docstrings import LIBRARIES, LIBRARY_NAMES, write_docstrings

ROOT = Path(__file__).resolve().parents[2]


def records(folder: Path) -> list[dict[str, Any]]:
    """Returns the records of the sample."""
    return [json.loads(line) for line in (folder / docstrings.FILE).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty texts of each library."""
    out = tmp_path_factory.mktemp("docstrings") / "text"
    assert write_docstrings(out, limit=240) == 240
    return out


def test_a_limit_is_divided_evenly(some: Path) -> None:
    """Every library has the same number of texts."""
    assert Counter(record["label"] for record in records(some)) == dict.fromkeys(LIBRARIES, 40)


def test_a_record_is_a_text_and_its_library(some: Path) -> None:
    """It has nothing else that a model could learn from, such as a path."""
    assert {tuple(record) for record in records(some)} == {("text", "label")}


def test_texts_are_short_and_long(some: Path) -> None:
    """From one sentence to pages."""
    lengths = sorted(len(record["text"].split()) for record in records(some))

    assert lengths[len(lengths) // 10] < 30
    assert lengths[-1] > 500


def test_no_text_names_its_library(some: Path) -> None:
    """Neither by its name, also inside other words, nor by its alias."""
    assert [record["text"] for record in records(some) if LIBRARY_NAMES.search(record["text"])] == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a `pandas.DataFrame` or pd.Series", "a `DataFrame` or Series"),
        ("tf.data in TensorFlow 2", "data in  2"),
        ("from sklearn.svm or scikit-learn", "from svm or"),
        ("the MongoDB server, by PyMongo", "the  server, by"),
        ("Apache Beam's BeamRunner", "'s Runner"),
        ("as_pd_frame, tf_records, nltk_data", "as__frame, _records, _data"),
        ("tensortensorflowflow", ""),
        ("update, shelf, tfrecord", "update, shelf, tfrecord"),
    ],
)
def test_only_library_names_are_removed(text: str, left: str) -> None:
    """With the dot after a name, and until none is left."""
    assert docstrings._without_library_names(text) == left


def test_no_two_texts_are_nearly_the_same(some: Path) -> None:
    """Any two texts share fewer than half of their runs of four words."""
    texts = [docstrings._WORD.findall(record["text"].lower()) for record in records(some)]
    runs = [set(docstrings._shingles(words)) for words in texts]

    assert max(len(one & other) / len(one | other) for one, other in itertools.combinations(runs, 2)) < 0.5


KNOWN = (
    "Compute the mean of all numbers in the array, leave out those that are missing, and return it to whoever asked."
)


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        (KNOWN.replace("array", "list").replace("missing", "empty"), False),
        ("Write every record to a file of its own, in the order of keys, and sync the folder when all is done.", True),
        ("Return the name.", False),
        (f"{' '.join('abcdefghijklmnopqrstuvwxyz')} \ud800", False),
    ],
)
def test_short_texts_and_near_duplicates_are_dropped(text: str, is_new: bool) -> None:
    """Texts that cannot be encoded as well."""
    known: set[int] = set()

    assert docstrings._is_new(KNOWN, known)
    assert docstrings._is_new(text, known) is is_new


def test_two_calls_write_the_same_bytes(some: Path, tmp_path: Path) -> None:
    """In another process, with another order of sets and folder entries."""
    command = [sys.executable, "-m", "data.docstrings", "--limit", "240", "--out", str(tmp_path / "again")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == f"240 records in {tmp_path / 'again'}\n"
    assert (tmp_path / "again" / docstrings.FILE).read_bytes() == (some / docstrings.FILE).read_bytes()


def test_the_libraries_are_not_imported(tmp_path: Path) -> None:
    """Docstrings are read from source files."""
    script = (
        "import sys, pathlib; from data.docstrings import LIBRARIES, write_docstrings;"
        f"write_docstrings(pathlib.Path({str(tmp_path / 'text')!r}), 12);"
        "print(set(LIBRARIES.values()) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.all
def test_the_whole_sample_has_thousands_of_texts(tmp_path: Path) -> None:
    """The counts of data/README.md, for the versions of the lock file."""
    write_docstrings(tmp_path / "text")

    assert Counter(record["label"] for record in records(tmp_path / "text")) == {
        "apache-beam": 1493,
        "nltk": 1500,
        "pandas": 1500,
        "pymongo": 285,
        "scikit-learn": 1140,
        "tensorflow": 1500,
    }
