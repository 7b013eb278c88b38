"""Sample data of the text task: docstrings of installed packages, with the package as label.

    files of a package ─► ast (nothing is imported) ─► docstrings ─► library names removed ─► near duplicates dropped
                       ─► docstrings.jsonl: {"text": "Merge two frames …", "label": "pandas"}

Texts keep their line breaks and examples; they have from one sentence to many pages.

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
# Distribution and package: of different fields, so that a person could tell them apart, and all in the lock file.
LIBRARIES = {
    "apache-beam": "apache_beam",
    "nltk": "nltk",
    "pandas": "pandas",
    "pymongo": "pymongo",
    "scikit-learn": "sklearn",
    "tensorflow": "tensorflow",
}
# The names of the libraries, also inside words, and the aliases by which they are imported.
LIBRARY_NAMES = re.compile(
    r"(?:apache[-_ ]?)?beam|nltk|pandas|(?:py)?mongo(?:db)?|scikits?(?:[-_ ]?learn)?|sklearn|tensorflow"
    r"|(?<![a-z0-9])(?:pd|tf)(?![a-z0-9])",
    re.IGNORECASE,
)
MAX_PER_LIBRARY = 1500
MIN_WORDS = 20  # two sentences; a person cannot classify shorter texts either: "Return the name of this."
_SHINGLE = 4  # words; replacing one word in a sentence of twelve keeps more than half of its shingles
_NEAR_DUPLICATE = 0.5  # fraction of known shingles from which a text is a near duplicate
_GENERATED = "clients"  # generated code of Beam
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NAME_AND_DOT = re.compile(rf"(?:{LIBRARY_NAMES.pattern})\.?", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


def write_docstrings(out: Path, limit: int | None = None) -> int:
    """Writes `out`/docstrings.jsonl, unless it exists already, and returns the number of its records.

    A `limit` is divided evenly among the libraries.
    """
    own = {"limit": limit, "most": MAX_PER_LIBRARY, "words": MIN_WORDS, "shingle": _SHINGLE, "known": _NEAR_DUPLICATE}
    recipe = own | {"cut": LIBRARY_NAMES.pattern} | sample.versions(*LIBRARIES)
    sample.write_whole(out, recipe, lambda folder: sample.write_lines(folder / FILE, _records(limit)))
    return sample.count_lines(out / FILE)


def _records(limit: int | None) -> list[dict[str, str]]:
    """Returns the records in the order of their hashes: shuffled, and the same in every call."""
    known: set[int] = set()
    found = []
    for number, (distribution, package) in enumerate(LIBRARIES.items()):
        most = MAX_PER_LIBRARY if limit is None else len(range(number, limit, len(LIBRARIES)))
        found += [{"text": text, "label": distribution} for text in _texts(distribution, package, most, known)]
    return sorted(found, key=lambda record: _order(record["text"]))


def _texts(distribution: str, package: str, most: int, known: set[int]) -> Iterator[str]:
    """Yields up to `most` texts of a library, and adds their shingles to `known`."""
    count = 0
    for file in _files(distribution, package):
        for docstring in _docstrings(file):
            if count == most:
                return
            text = _without_library_names(docstring)
            if _is_new(text, known):
                count += 1
                yield text


def _files(distribution: str, package: str) -> list[PackagePath]:
    """Returns the source files of a package, without tests, in the order of their hashes."""
    sources = (file for file in files(distribution) or () if file.suffix == ".py" and file.parts[0] == package)
    kept = (file for file in sources if not any("test" in part or part == _GENERATED for part in file.parts))
    return sorted(kept, key=lambda file: _order(file.as_posix()))


def _docstrings(file: PackagePath) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes in the packages' code
        try:
            module = ast.parse(Path(str(file.locate())).read_bytes())
        except SyntaxError:  # a template, or Python 2
            return
    for node in ast.walk(module):
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring


def _without_library_names(text: str) -> str:
    """Removes names until none is left: removing one can create another, as in `pdpd.`."""
    shorter = _NAME_AND_DOT.sub("", text)
    return text.strip() if shorter == text else _without_library_names(shorter)


def _is_new(text: str, known: set[int]) -> bool:
    """Returns whether a text is long enough and no near duplicate; if so, adds its shingles to `known`."""
    words = _WORD.findall(text.lower())
    if len(words) < MIN_WORDS or not _is_unicode(text):
        return False
    shingles = set(_shingles(words))
    if len(shingles & known) >= _NEAR_DUPLICATE * len(shingles):
        return False
    known |= shingles
    return True


def _shingles(words: list[str]) -> Iterable[int]:
    runs = (" ".join(words[start : start + _SHINGLE]) for start in range(len(words) - _SHINGLE + 1))
    return (int.from_bytes(_order(run)[:8], "big") for run in runs)


def _is_unicode(text: str) -> bool:
    """Returns whether a text can be encoded; a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _order(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    return sample.command(write_docstrings, "data.docstrings", "Write docstrings as JSON Lines.", DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
