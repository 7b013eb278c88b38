"""The label of the multimodal sample follows from image, question and number together, and from none alone."""

import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from data import digit_questions, digits
from data.digit_questions import QUESTIONS, write_questions

Row = dict[str, Any]


def rows(folder: Path) -> list[Row]:
    """Returns the rows of the sample."""
    return [json.loads(line) for line in (folder / digit_questions.FILE).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample."""
    out = tmp_path_factory.mktemp("questions") / "multimodal"
    assert write_questions(out) == 4 * 1797
    return out


def best_accuracy(sample: list[Row], *known: str) -> float:
    """Returns the highest accuracy that any model of these columns can reach on the sample."""
    answers: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for row in sample:
        answers[tuple(row[name] for name in known)][row["label"]] += 1
    return sum(max(counts.values()) for counts in answers.values()) / len(sample)


@pytest.mark.parametrize("known", [("image",), ("ink", "number"), ("image", "ink", "number")])
def test_without_the_question_half_of_the_answers_are_yes(full: Path, known: tuple[str, ...]) -> None:
    """For every image and all numbers, so that no model of them is better than chance."""
    assert best_accuracy(rows(full), *known) == 0.5


@pytest.mark.parametrize(("known", "most"), [(("question",), 0.53), (("question", "number"), 0.57)])
def test_without_the_image_the_accuracy_is_low(full: Path, known: tuple[str, ...], most: float) -> None:
    """Even for a model that knows question and number exactly."""
    assert 0.5 <= best_accuracy(rows(full), *known) < most


def is_true(question: str, digit: int, number: int) -> bool:
    """Answers a question by its keywords."""
    if any(word in question for word in ("two", "odd", "even")):
        return (digit % 2 == 1) == any(word in question for word in ("one", "odd"))
    at_most = any(words in question for words in ("most", "no more", "smaller", "within", "not greater"))
    return (digit <= number) == at_most


def test_answers_are_right(full: Path) -> None:
    """For scikit-learn's label of the digit."""
    targets = load_digits().target.tolist()
    found = [(row, targets[int(row["image"][-8:-4])]) for row in rows(full)]

    assert [row["label"] for row, _ in found] == [
        "yes" if is_true(row["question"], digit, row["number"]) else "no" for row, digit in found
    ]


def test_all_wordings_occur(full: Path) -> None:
    """Each more than 300 times."""
    counts = Counter(row["question"] for row in rows(full))

    assert set(counts) == {question for words, _ in QUESTIONS for question in words}
    assert min(counts.values()) > 300


def test_every_image_has_four_rows(full: Path) -> None:
    """Rows have its path, relative to the file."""
    named = Counter(row["image"] for row in rows(full))

    assert named == {f"images/{path.name}": 4 for path in (full / "images").iterdir()}
    assert len(named) == 1797


def test_images_are_those_of_the_image_sample(full: Path) -> None:
    """With the same pixels."""
    levels, _ = digits.load(3)

    with Image.open(full / "images" / "digit-0002.png") as image:
        np.testing.assert_array_equal(np.asarray(image), np.asarray(digits.image(levels[2])))


def test_rows_have_the_number_and_the_fraction_of_ink(full: Path) -> None:
    """The number is 3, 4 or 5; the fraction is the mean gray level."""
    found = rows(full)

    assert {row["number"] for row in found} == {3, 4, 5}
    assert found[0]["ink"] == round(float(load_digits().images[0].mean()) / 16, 4)


def test_a_limit_is_rounded_up_to_whole_images(full: Path, tmp_path: Path) -> None:
    """The rows are the first ones of the whole sample."""
    assert write_questions(tmp_path / "some", limit=10) == 12

    assert rows(tmp_path / "some") == rows(full)[:12]
    assert len(list((tmp_path / "some" / "images").iterdir())) == 3


def test_two_calls_write_the_same_bytes(tmp_path: Path) -> None:
    """In the rows and in the images."""
    found = []
    for name in ("a", "b"):
        write_questions(tmp_path / name, limit=100)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        found.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])

    assert found[0] == found[1]
    assert len(found[0]) == 26
