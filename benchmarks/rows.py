"""Seeded rows: texts with the word counts and frequencies of real ones, arrays, a table.

200,000 texts of 60 words in the mean (log-normal, 3 to 400), 50,000 words by Zipf's law
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = 50_000
_LETTERS = "etaoinshrdlcumwf"
_MEAN_WORDS, _SPREAD, _LEAST, _MOST = 60, 0.75, 3, 400
_FLOATS, _INTS = 12, 6
_BLOCK = 10_000
_SEED = 5


def vocabulary() -> list[str]:
    """Returns all words, the most frequent first; frequent ones are short, as in every language."""
    return [_word(rank) for rank in range(WORDS)]


def write_texts(home: Path, rows: int) -> None:
    """Writes `texts.jsonl`, and the words' list beside it."""
    random = np.random.default_rng(_SEED)
    words = vocabulary()
    (home / "words.list").write_text("\n".join(words) + "\n")
    with (home / "texts.jsonl").open("wb") as file:
        for text in _texts(random, np.array(words), rows):
            file.write(orjson.dumps({"text": text, "label": int(random.integers(10))}) + b"\n")


def write_small_arrays(home: Path, rows: int) -> None:
    """Writes `arrays.npz`: uint8 images of 28 x 28 and labels."""
    random = np.random.default_rng(_SEED)
    images = random.integers(0, 256, (rows, 28, 28), np.uint8)
    np.savez(home / "arrays.npz", image=images, label=random.integers(0, 10, rows))


def write_large_arrays(home: Path, rows: int) -> None:
    """Writes `arrays.npz`: float32 images of 64 x 64 x 3 and labels."""
    random = np.random.default_rng(_SEED)
    images = random.random((rows, 64, 64, 3), np.float32)
    np.savez(home / "arrays.npz", image=images, label=random.integers(0, 10, rows))


def write_table(home: Path, rows: int) -> None:
    """Writes `table.parquet`: 12 floats, 6 integers, 2 strings and a label."""
    random = np.random.default_rng(_SEED)
    table: dict[str, npt.NDArray[Any]] = {
        f"f{index:02d}": random.normal(size=rows).astype(np.float32) for index in range(_FLOATS)
    }
    table |= {f"i{index:02d}": random.integers(0, 1000, rows) for index in range(_INTS)}
    table["kind"] = random.choice(np.array([f"kind {index}" for index in range(20)]), rows)
    table["place"] = random.choice(np.array([f"place {index}" for index in range(500)]), rows)
    table["label"] = random.integers(0, 2, rows)
    pq.write_table(pa.table(table), home / "table.parquet")


def _texts(random: np.random.Generator, words: npt.NDArray[np.str_], rows: int) -> Iterator[str]:
    for start in range(0, rows, _BLOCK):
        # The mean of a log-normal is exp(mu + sigma²/2).
        mu = np.log(_MEAN_WORDS) - _SPREAD**2 / 2
        lengths = np.clip(random.lognormal(mu, _SPREAD, min(_BLOCK, rows - start)), _LEAST, _MOST).astype(int)
        ranks = (WORDS ** random.random(lengths.sum())).astype(int) - 1  # Zipf: log of the rank is uniform
        for text in np.split(words[ranks], np.cumsum(lengths)[:-1]):
            yield " ".join(text)


def _word(rank: int) -> str:
    """Returns the rank in letters: another word for each rank."""
    letters = ""
    rank += 1
    while rank:
        rank, letter = divmod(rank - 1, len(_LETTERS))
        letters += _LETTERS[letter]
    return letters
