"""Accelerators by name and by rate."""

import pytest

from components.errors import SettingsError
from pipelines.bench import accelerators
from pipelines.bench.accelerators import Accelerator


@pytest.mark.parametrize(
    ("text", "name", "rate"),
    [
        ("a100", "A100, ResNet-50", 920),
        ("H100", "H100, ResNet-50", 1786),
        ("350", "350 samples/s", 350),
        ("1e5", "100,000 samples/s", 100_000),
    ],
)
def test_names_and_rates(text: str, name: str, rate: float) -> None:
    """A name gives MLPerf's rate; a number is the rate."""
    found = accelerators.parse(text)

    assert Accelerator(found.name, round(found.rate)) == Accelerator(name, rate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h10", "--accelerator h10: expected samples per second, such as 350, or a device name; did you mean 'h100'?"),
        ("tpu", "--accelerator tpu: expected samples per second, such as 350, or a device name; known: a100, h100"),
        ("0", "--accelerator 0: expected a finite number of samples per second greater than 0"),
        ("-3", "--accelerator -3: expected a finite number of samples per second greater than 0"),
        ("nan", "--accelerator nan: expected a finite number of samples per second greater than 0"),
    ],
)
def test_invalid_accelerators(text: str, message: str) -> None:
    """The error suggests the nearest name, or says what is expected."""
    with pytest.raises(SettingsError) as caught:
        accelerators.parse(text)

    assert str(caught.value) == message
