"""The sample texts are docstrings as their authors wrote them, but for the names that would give them away."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data import docstrings
from data.docstrings import GIVE_AWAYS, LIBRARIES, write_docstrings

ROOT = Path(__file__).resolve().parents[2]


def records(folder: Path) -> list[dict[str, Any]]:
    """Returns what stands in the sample."""
    return [json.loads(line) for line in (folder / docstrings.FILE).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred texts of each library."""
    out = tmp_path_factory.mktemp("docstrings") / "text"
    assert write_docstrings(out, limit=600) == 600
    return out


def test_a_limit_is_shared_out_evenly(some: Path) -> None:
    """Every library has as many texts as any other."""
    assert Counter(record["label"] for record in records(some)) == dict.fromkeys(LIBRARIES, 100)


def test_a_record_is_a_text_and_its_library(some: Path) -> None:
    """Nothing else stands in it that a model could learn from, such as the file's path."""
    assert {tuple(record) for record in records(some)} == {("text", "label")}


def test_texts_are_short_and_long(some: Path) -> None:
    """From a sentence to pages, none without something to read."""
    lengths = sorted(len(record["text"].split()) for record in records(some))

    assert lengths[len(lengths) // 10] < 30
    assert lengths[-1] > 500


def test_no_text_names_its_library(some: Path) -> None:
    """Neither by its name, also inside of other words, nor by the alias that it is imported by."""
    assert [record["text"] for record in records(some) if GIVE_AWAYS.search(record["text"])] == []


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
def test_names_are_cut_out_and_nothing_else(text: str, left: str) -> None:
    """The dot behind a name goes with it, and what shows up when a name is gone goes too."""
    assert docstrings._without_give_aways(text) == left


def test_no_two_texts_are_nearly_the_same(some: Path) -> None:
    """Of the runs of four words in any two texts, fewer than half are in both."""
    texts = [docstrings._WORD.findall(record["text"].lower()) for record in records(some)]
    runs = [set(docstrings._shingles(words)) for words in texts]

    assert max(len(one & other) / len(one | other) for one, other in itertools.combinations(runs, 2)) < 0.5


KNOWN = (
    "Compute the mean of all numbers in the array, leave out those that are missing, and return it to whoever asked."
)


@pytest.mark.parametrize(
    ("text", "is_worth"),
    [
        (KNOWN.replace("array", "list").replace("missing", "empty"), False),
        ("Write every record to a file of its own, in the order of keys, and sync the folder when all is done.", True),
        ("Return the name.", False),
        (f"{' '.join('abcdefghijklmnopqrstuvwxyz')} \ud800", False),
    ],
)
def test_a_text_is_worth_keeping_if_it_says_something_new(text: str, is_worth: bool) -> None:
    """Near-copies, texts that say nothing and half a surrogate pair are not."""
    known: set[int] = set()

    assert docstrings._is_worth(KNOWN, known)
    assert docstrings._is_worth(text, known) is is_worth


def test_two_calls_write_the_same_bytes(some: Path, tmp_path: Path) -> None:
    """Whatever the order in which Python's sets and folders of files come, in a process of its own."""
    command = [sys.executable, "-m", "data.docstrings", "--limit", "600", "--out", str(tmp_path / "again")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == f"600 records in {tmp_path / 'again'}\n"
    assert (tmp_path / "again" / docstrings.FILE).read_bytes() == (some / docstrings.FILE).read_bytes()


def test_nothing_is_imported_to_be_read(tmp_path: Path) -> None:
    """Docstrings come out of source files; the libraries themselves stay unloaded."""
    script = (
        "import sys, pathlib; from data.docstrings import LIBRARIES, write_docstrings;"
        f"write_docstrings(pathlib.Path({str(tmp_path / 'text')!r}), 12);"
        "print(set(LIBRARIES.values()) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.slow
def test_the_whole_sample_has_thousands_of_texts(tmp_path: Path) -> None:
    """As the lock's versions have them; the counts of data/README.md."""
    write_docstrings(tmp_path / "text")

    assert Counter(record["label"] for record in records(tmp_path / "text")) == {
        "apache-beam": 1493,
        "nltk": 1500,
        "pandas": 1500,
        "pymongo": 285,
        "scikit-learn": 1140,
        "tensorflow": 1500,
    }
