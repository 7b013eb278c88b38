"""A handwritten digit, a question about it and a number to compare with: the sample data of the multimodal task.

    digit-0003.png  "is it above the number?"   number 4  ink 0.31  ─► no
    digit-0003.png  "is it at most the number?" number 4  ink 0.31  ─► yes
    digit-0003.png  "is this digit odd?"        number 5  ink 0.31  ─► yes
    digit-0003.png  "is the digit even?"        number 5  ink 0.31  ─► no

No part can answer alone. A question stands with its opposite beside the same image and the same numbers, so the
image and the numbers, even both, say yes exactly half of the time. What a question and the numbers can know without
the image is that fewer digits are above 5 than above 3: they are right in six of ten at most.

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
NUMBERS = (3, 4, 5)  # to compare with: about as many digits are above as are not
SEED = 17
ROWS_PER_IMAGE = 4

Answer = Callable[[int, int], bool]
# What is asked, in the words of several people, and the answer by digit and number. Opposites stand beside each other.
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
    """Writes `out`/questions.jsonl and the images it names, unless they are there, and returns the number of rows.

    A `limit` is rounded up to whole images: four rows each.
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
    """Yields the rows of a image: a question of each pair and its opposite, each pair with a number of its own."""
    chance = random.Random(f"{SEED} {index}")  # of its own: a image's rows do not depend on those before it
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
    """Writes the questions that the command line asks for."""
    summary = "Write digits and questions as JSON Lines with images."
    return sample.command(write_questions, "data.digit_questions", summary, DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
