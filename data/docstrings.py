"""Docstrings of installed packages: which library does this text come from? The sample data of the text task.

    files of a package ─► ast (nothing is imported) ─► docstrings ─► names of libraries cut out ─► near-copies dropped
                       ─► docstrings.jsonl: {"text": "Merge two frames …", "label": "pandas"}

Texts are as their authors wrote them, line breaks, examples and all, from a sentence to many pages.

    python -m data.docstrings [--out data/samples/text] [--limit N]
"""

import ast
import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import PackagePath, files
from pathlib import Path

from data import sample

DEFAULT_OUT = Path("data/samples/text")
FILE = "docstrings.jsonl"
# Distribution and package. Of fields far enough apart that a reader of the text could tell, and all in the lock.
LIBRARIES = {
    "apache-beam": "apache_beam",
    "nltk": "nltk",
    "pandas": "pandas",
    "pymongo": "pymongo",
    "scikit-learn": "sklearn",
    "tensorflow": "tensorflow",
}
# The names of the libraries wherever they stand, inside of words too, and the aliases that their users import them by.
GIVE_AWAYS = re.compile(
    r"(?:apache[-_ ]?)?beam|nltk|pandas|(?:py)?mongo(?:db)?|scikits?(?:[-_ ]?learn)?|sklearn|tensorflow"
    r"|(?<![a-z0-9])(?:pd|tf)(?![a-z0-9])",
    re.IGNORECASE,
)
MOST_PER_LIBRARY = 1500
FEWEST_WORDS = 20  # two sentences; below it a person can hardly tell either: "Return the name of this."
_SHINGLE = 4  # words: one other word in a sentence of twelve leaves more than half of its runs as they were
_MOST_KNOWN = 0.5  # of a text's shingles; at this it is a near-copy
_GENERATED = "clients"  # Beam's: written by a program, one like the other
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_GIVE_AWAY_AND_DOT = re.compile(rf"(?:{GIVE_AWAYS.pattern})\.?", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


def write_docstrings(out: Path, limit: int | None = None) -> int:
    """Writes `out`/docstrings.jsonl, unless it is there already, and returns the number of its records.

    A `limit` is shared out evenly between the libraries.
    """
    own = {"limit": limit, "most": MOST_PER_LIBRARY, "words": FEWEST_WORDS, "shingle": _SHINGLE, "known": _MOST_KNOWN}
    recipe = own | {"cut": GIVE_AWAYS.pattern} | sample.versions(*LIBRARIES)
    sample.write_whole(out, recipe, lambda folder: sample.write_lines(folder / FILE, _records(limit)))
    return sample.count_lines(out / FILE)


def _records(limit: int | None) -> list[dict[str, str]]:
    """Returns the records in the order of their hashes: mixed, and the same each time."""
    known: set[int] = set()
    found = []
    for number, (distribution, package) in enumerate(LIBRARIES.items()):
        most = MOST_PER_LIBRARY if limit is None else len(range(number, limit, len(LIBRARIES)))
        found += [{"text": text, "label": distribution} for text in _texts(distribution, package, most, known)]
    return sorted(found, key=lambda record: _order(record["text"]))


def _texts(distribution: str, package: str, most: int, known: set[int]) -> Iterator[str]:
    """Yields up to `most` texts of a library, and adds their shingles to those that are known."""
    count = 0
    for file in _files(distribution, package):
        for docstring in _docstrings(file):
            if count == most:
                return
            text = _without_give_aways(docstring)
            if _is_worth(text, known):
                count += 1
                yield text


def _files(distribution: str, package: str) -> list[PackagePath]:
    """Returns the source files of a package, tests aside, in an order that mixes its parts."""
    sources = (file for file in files(distribution) or () if file.suffix == ".py" and file.parts[0] == package)
    kept = (file for file in sources if not any("test" in part or part == _GENERATED for part in file.parts))
    return sorted(kept, key=lambda file: _order(file.as_posix()))


def _docstrings(file: PackagePath) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes in other people's code
        try:
            module = ast.parse(Path(str(file.locate())).read_bytes())
        except SyntaxError:  # a template, or Python 2
            return
    for node in ast.walk(module):
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring


def _without_give_aways(text: str) -> str:
    """Cuts names out until none is left: `pdpd.` shows a new one when the first is gone."""
    shorter = _GIVE_AWAY_AND_DOT.sub("", text)
    return text.strip() if shorter == text else _without_give_aways(shorter)


def _is_worth(text: str, known: set[int]) -> bool:
    """Whether a text says something that was not said before; if so, what it says is known from now on."""
    words = _WORD.findall(text.lower())
    if len(words) < FEWEST_WORDS or not _is_unicode(text):
        return False
    shingles = set(_shingles(words))
    if len(shingles & known) >= _MOST_KNOWN * len(shingles):
        return False
    known |= shingles
    return True


def _shingles(words: list[str]) -> Iterable[int]:
    runs = (" ".join(words[start : start + _SHINGLE]) for start in range(len(words) - _SHINGLE + 1))
    return (int.from_bytes(_order(run)[:8], "big") for run in runs)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: half a surrogate pair, as in examples of what goes wrong, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _order(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def main(argv: list[str] | None = None) -> int:
    """Writes the texts that the command line asks for."""
    return sample.command(write_docstrings, "data.docstrings", "Write docstrings as JSON Lines.", DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
