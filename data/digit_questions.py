"""Sample data of the multimodal task: a handwritten digit, a question about it and a number to compare with.

    digit-0003.png  "is it above the number?"   number 4  ink 0.31  ─► no
    digit-0003.png  "is it at most the number?" number 4  ink 0.31  ─► yes
    digit-0003.png  "is this digit odd?"        number 5  ink 0.31  ─► yes
    digit-0003.png  "is the digit even?"        number 5  ink 0.31  ─► no

No modality predicts the answer alone. Every question occurs with its opposite, for the same image and numbers, so
without the question exactly half of the answers are yes. Without the image, question and numbers only show that fewer
digits are above 5 than above 3: a model of them is right in at most six of ten rows.

    python -m data.digit_questions [--out data/samples/multimodal] [--limit N]
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data import digits, sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_OUT = Path("data/samples/multimodal")
FILE = "questions.jsonl"
IMAGES = "images"
NUMBERS = (3, 4, 5)  # to compare with: about half of the digits are above
SEED = 17
ROWS_PER_IMAGE = 4

Answer = Callable[[int, int], bool]
# Wordings of each question, and its answer by digit and number. Opposite questions are neighbours.
QUESTIONS: tuple[tuple[tuple[str, ...], Answer], ...] = (
    (
        (
            "is it odd?",
            "is this digit odd?",
            "is what you see an odd number?",
            "would one be left over if it were shared by two?",
            "Tell me if it's odd.",
        ),
        lambda digit, _: digit % 2 == 1,
    ),
    (
        (
            "is it even?",
            "is the digit even?",
            "is what you see an even number?",
            "can it be shared by two with nothing left over?",
            "Tell me if it's even.",
        ),
        lambda digit, _: digit % 2 == 0,
    ),
    (
        (
            "is it above the number?",
            "is it more than the number?",
            "is this digit larger than the given number?",
            "does it exceed the number?",
            "Say yes if the digit is greater.",
        ),
        lambda digit, number: digit > number,
    ),
    (
        (
            "is it at most the number?",
            "is it no more than the number?",
            "is this digit smaller than the given number, or the same?",
            "does it stay within the number?",
            "Say yes if the digit is not greater.",
        ),
        lambda digit, number: digit <= number,
    ),
)
_PAIRS = (QUESTIONS[:2], QUESTIONS[2:])


def write_questions(out: Path, limit: int | None = None) -> int:
    """Writes `out`/questions.jsonl and its images, unless they exist already, and returns the number of rows.

    A `limit` is rounded up to whole images, which have four rows each.
    """
    recipe = {"edge": digits.EDGE, "limit": limit, "seed": SEED} | sample.versions("pillow", "scikit-learn")
    images = None if limit is None else -(-limit // ROWS_PER_IMAGE)
    sample.write_whole(out, recipe, lambda folder: _write(folder, images))
    return sample.count_lines(out / FILE)


def _write(folder: Path, images: int | None) -> None:
    levels, targets = digits.load(images)
    (folder / IMAGES).mkdir()
    for index, each in enumerate(levels):
        digits.image(each).save(folder / _path(index))
    rows = (row for index, target in enumerate(targets) for row in _rows(index, int(target), levels[index]))
    sample.write_lines(folder / FILE, rows)


def _rows(index: int, digit: int, levels: "NDArray[np.uint8]") -> Iterator[dict[str, Any]]:
    """Yields the rows of an image: both questions of each pair, with one number per pair."""
    chance = random.Random(f"{SEED} {index}")  # seeded per image: its rows do not depend on the images before it
    ink = round(float(levels.mean()) / digits.MAX_LEVEL, 4)
    for pair in _PAIRS:
        number = chance.choice(NUMBERS)
        for words, answer in pair:
            yield {
                "image": _path(index),
                "question": chance.choice(words),
                "number": number,
                "ink": ink,
                "label": "yes" if answer(digit, number) else "no",
            }


def _path(index: int) -> str:
    return f"{IMAGES}/digit-{index:04d}.png"


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    summary = "Write digits and questions as JSON Lines with images."
    return sample.command(write_questions, "data.digit_questions", summary, DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
