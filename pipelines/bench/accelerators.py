"""Accelerators to simulate, as a number of samples per second.

The named ones are MLPerf Storage's figures (`storage-conf/workload/resnet50_*.yaml`): ResNet-50 at 224 px, a batch of
400 and the seconds one device computes on it. For any other model, give the rate itself: `--accelerator 350`.
"""

import math
from dataclasses import dataclass

from components.errors import SettingsError
from components.settings.names import nearest

_RESNET_50_BATCH = 400
_RESNET_50_SECONDS = {"a100": 0.435, "h100": 0.224}


@dataclass(frozen=True)
class Accelerator:
    """A simulated device."""

    name: str
    rate: float  # samples per second


def parse(text: str) -> Accelerator:
    """Returns the accelerator for a name (`h100`) or a rate in samples per second (`350`)."""
    name = text.lower()
    if name in _RESNET_50_SECONDS:
        return Accelerator(f"{name.upper()}, ResNet-50", _RESNET_50_BATCH / _RESNET_50_SECONDS[name])
    try:
        rate = float(text)
    except ValueError:
        raise SettingsError(
            f"--accelerator {text}: expected samples per second, such as 350, or a device name; "
            f"{nearest(name, _RESNET_50_SECONDS)}"
        ) from None
    if not (rate > 0 and math.isfinite(rate)):
        raise SettingsError(f"--accelerator {text}: expected a finite number of samples per second greater than 0")
    return Accelerator(f"{rate:,.0f} samples/s", rate)
