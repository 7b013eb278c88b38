"""Tensors: mean and variance over all values, per channel or per element."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from components.fitting import tensor
from components.fitting.fitted import Fitted
from components.records.roles import Column
from components.settings.transform import Transform

pytestmark = pytest.mark.slow  # starts Beam

RANDOM = np.random.default_rng(3)
VALUES: dict[str, Any] = {
    "pixels": RANDOM.integers(0, 256, (5, 2, 3), dtype=np.uint8),
    "wave": RANDOM.normal(100, 5, (5, 4)),  # float64
    "counts": RANDOM.integers(0, 2**32, (5, 2), dtype=np.uint32),
    "flat": np.full((5, 2), 7, np.int16),
    "single": RANDOM.normal(size=5).astype(np.float32),
}
COLUMNS = {name: Column(name, "tensor", values.dtype.name, values.shape[1:]) for name, values in VALUES.items()}
AXES: dict[str, Callable[[Any], Any]] = {
    "all": lambda _: None,
    "channel": lambda values: tuple(range(max(1, values.ndim - 1))),
    "element": lambda _: 0,
}


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """All tensors, with all settings of `transform.tensor_zscore`."""
    settings: dict[str, Transform] = {moments: Transform(tensor_zscore=moments) for moments in (*AXES, "none")}
    functions = {moments: _fit_by(each) for moments, each in settings.items()}
    records = {name: [row.tobytes() for row in values] for name, values in VALUES.items()}
    return {moments: Fitted(graph, settings[moments]) for moments, graph in fit(records, functions).items()}


def _fit_by(settings: Transform) -> Callable[[dict[str, Any]], dict[str, Any]]:
    # A graph needs at least one output.
    return lambda inputs: {"rows": inputs["flat"], **tensor.fit(inputs, list(COLUMNS.values()), settings)}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("moments", AXES)
def test_moments_are_those_of_the_values(fitted: dict[str, Fitted], moments: str, name: str) -> None:
    """For every dtype, in the shape that the model's first layer needs."""
    found = fitted[moments].moments(COLUMNS[name])
    values = VALUES[name].astype(np.float64)
    axes = AXES[moments](values)

    assert found is not None
    np.testing.assert_allclose(found[0], values.mean(axis=axes), rtol=1e-5)
    np.testing.assert_allclose(found[1], values.var(axis=axes), rtol=1e-4)


@pytest.mark.parametrize("name", VALUES)
def test_without_the_setting_there_are_no_moments(fitted: dict[str, Fitted], name: str) -> None:
    """The model then uses batch normalization."""
    assert fitted["none"].moments(COLUMNS[name]) is None


def test_without_the_setting_nothing_is_decoded() -> None:
    """`fit` returns no outputs."""
    assert tensor.fit({}, [COLUMNS["pixels"]], Transform(tensor_zscore="none")) == {}
