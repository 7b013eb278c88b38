"""One small model per modality, and a joined one, with random records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

from components.models import heads, image, joined, table, tensor, text

RECORDS = 16
CLASSES = 4
VOCABULARY = 50


@dataclass(frozen=True)
class Case:
    """Inputs, their encoder, and records for them."""

    inputs: Callable[[], dict[str, Any]]
    encode: Callable[[dict[str, Any]], list[Any]]
    records: Callable[[np.random.Generator, int], dict[str, Any]]

    def model(self, **compiling: Any) -> Any:
        """Returns a seeded, compiled model."""
        head = heads.Classification(CLASSES)
        keras.utils.set_random_seed(3)
        inputs = self.inputs()
        model = joined.build(inputs, self.encode(inputs), head)
        model.compile(keras.optimizers.Adam(3e-3), head.loss(), metrics=head.metrics(), **compiling)
        return model

    def batch(self, records: int = RECORDS) -> dict[str, Any]:
        """Returns records, the same in every call."""
        return self.records(np.random.default_rng(3), records)


def texts(rng: np.random.Generator, records: int) -> Any:
    """Returns texts of increasing lengths, from 0."""
    ids = rng.integers(1, VOCABULARY, (records, RECORDS))
    ids[np.arange(RECORDS) >= np.arange(records)[:, np.newaxis]] = text.PADDING
    return ids


IMAGE = Case(
    lambda: {"image": keras.Input([16, 16, 3], dtype="uint8", name="image")},
    lambda inputs: [image.encode(inputs["image"])],
    lambda rng, records: {"image": rng.integers(0, 256, (records, 16, 16, 3), dtype=np.uint8)},
)
TEXT = Case(
    lambda: {"text": keras.Input([None], dtype="int64", name="text")},
    lambda inputs: [text.encode(inputs["text"], VOCABULARY)],
    lambda rng, records: {"text": texts(rng, records)},
)
TENSOR = Case(
    lambda: {"tensor": keras.Input([8, 8], dtype="int16", name="tensor")},
    lambda inputs: [tensor.encode(inputs["tensor"], (100.0, 3000.0))],
    lambda rng, records: {"tensor": rng.integers(0, 200, (records, 8, 8), dtype=np.int16)},
)
ROW = Case(
    lambda: {"row": keras.Input([5], dtype="float64", name="row")},
    lambda inputs: [tensor.encode(inputs["row"])],
    lambda rng, records: {"row": rng.normal(size=(records, 5))},
)
TABLE = Case(
    lambda: {
        "numbers": keras.Input([3], name="numbers"),
        "categories": keras.Input([2], dtype="int64", name="categories"),
    },
    lambda inputs: [table.encode(inputs["numbers"], inputs["categories"], sizes=[4, 30])],
    lambda rng, records: {
        "numbers": rng.normal(size=(records, 3)).astype(np.float32),
        "categories": rng.integers(0, [4, 30], (records, 2)),
    },
)
JOINED = Case(
    lambda: {**IMAGE.inputs(), **TEXT.inputs(), **TABLE.inputs()},
    lambda inputs: [*IMAGE.encode(inputs), *TEXT.encode(inputs), *TABLE.encode(inputs)],
    lambda rng, records: {
        **IMAGE.records(rng, records),
        **TEXT.records(rng, records),
        **TABLE.records(rng, records),
    },
)
CASES = {"image": IMAGE, "text": TEXT, "tensor": TENSOR, "row": ROW, "table": TABLE, "joined": JOINED}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """Each modality, and all of them joined."""
    return CASES[request.param]


@pytest.fixture(scope="module")
def untrained(case: Case) -> Any:
    """A model for tests that do not change its weights; building one takes longer than most tests."""
    return case.model()
