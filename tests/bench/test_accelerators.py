"""Devices by name and by rate."""

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
def test_a_device(text: str, name: str, rate: float) -> None:
    """MLPerf's figures behind a name, or the user's own."""
    found = accelerators.of(text)

    assert Accelerator(found.name, round(found.rate)) == Accelerator(name, rate)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h10", "--accelerator h10: expected samples a second, such as 350, or a device: did you mean 'h100'?"),
        ("tpu", "--accelerator tpu: expected samples a second, such as 350, or a device: known: a100, h100"),
        ("0", "--accelerator 0: expected more than 0 samples a second"),
        ("-3", "--accelerator -3: expected more than 0 samples a second"),
        ("nan", "--accelerator nan: expected more than 0 samples a second"),
        ("inf", "--accelerator inf: expected more than 0 samples a second"),
    ],
)
def test_what_is_no_device(text: str, said: str) -> None:
    """The nearest name, or what was expected."""
    with pytest.raises(SettingsError) as caught:
        accelerators.of(text)

    assert str(caught.value) == said
