"""The fitted graph applies to any subset of columns, and fitting again gives the same graph."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.fitting import preprocessing
from components.fitting.fitted import Fitted
from components.records.roles import Column
from components.settings.transform import Transform

pytestmark = pytest.mark.slow  # starts Beam

RECORDS = {
    "label": ["yes", "no", "yes", "yes"],
    "said": ["a b", "b c", "", "c a b"],
    "size": [1.0, 2.0, 3.0, 4.0],
    "kind": ["x", "y", "x", "z"],
}
CONFIG: dict[str, Any] = {
    "label": "label",
    "kind": "class",
    "parts": [
        ["components.fitting.text:fit", [Column("said", "text", "string").to_dict()]],
        [
            "components.fitting.table:fit",
            [Column("size", "number", "float32").to_dict(), Column("kind", "category", "string").to_dict()],
        ],
    ],
    "settings": {"min_count": 1},
}


def preprocess(inputs: dict[str, Any]) -> dict[str, Any]:
    """Calls the entry point as the pipeline does."""
    return preprocessing.fit_all(inputs, CONFIG)


@pytest.fixture(scope="module")
def graphs(fit: Callable[..., dict[str, str]]) -> dict[str, str]:
    """Two graphs, fitted on the same records."""
    return fit(RECORDS, {"once": preprocess, "again": preprocess})


@pytest.fixture(scope="module")
def fitted(graphs: dict[str, str]) -> Fitted:
    """One of the graphs."""
    return Fitted(graphs["once"], Transform())


def test_all_parts_are_in_one_graph(fitted: Fitted) -> None:
    """Under the names that features and Trainer read."""
    columns = {name: tf.constant(values) for name, values in RECORDS.items()}

    assert fitted.apply(columns).keys() == {"label", "said", "table_numbers", "table_categories"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(["label"], {"label"}), (["said"], {"said"}), (["size", "kind"], {"table_numbers", "table_categories"})],
)
def test_a_subset_of_columns_can_be_transformed(fitted: Fitted, given: list[str], expected: set[str]) -> None:
    """Clients send no label, and training transforms texts and labels separately."""
    assert fitted.apply({name: tf.constant(RECORDS[name]) for name in given}).keys() == expected


def test_vocabularies_are_the_same_bytes_each_time(graphs: dict[str, str]) -> None:
    """D2: fitting is reproducible."""
    once, again = (
        {path.name: path.read_bytes() for path in Path(graph, "transform_fn", "assets").iterdir()}
        for graph in (graphs["once"], graphs["again"])
    )

    assert once == again
    assert sorted(once) == ["category_0", "label_counts", "labels", "tokens_0"]


def test_tf_data_gives_the_same_as_eager_calls(fitted: Fitted) -> None:
    """Training applies the graph in its input pipeline."""
    data = tf.data.Dataset.from_tensors({"size": RECORDS["size"], "kind": RECORDS["kind"]}).map(fitted.apply)
    (mapped,) = data.as_numpy_iterator()
    called = fitted.apply({"size": tf.constant(RECORDS["size"]), "kind": tf.constant(RECORDS["kind"])})

    assert {key: value.tolist() for key, value in mapped.items()} == {
        key: value.numpy().tolist() for key, value in called.items()
    }
