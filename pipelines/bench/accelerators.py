"""Devices to simulate: how many samples a second one would take.

The figures are MLPerf Storage's (`storage-conf/workload/resnet50_*.yaml`): ResNet-50 at 224 px, a batch of 400 and the
seconds that it computes on one device. Nobody has published such figures for the user's own model: `--accelerator 350`
says that it takes 350 samples a second.
"""

import math
from dataclasses import dataclass

from components.errors import SettingsError
from components.settings.names import nearest

_RESNET_50_BATCH = 400
_RESNET_50_SECONDS = {"a100": 0.435, "h100": 0.224}


@dataclass(frozen=True)
class Accelerator:
    """A device of a given speed."""

    name: str
    rate: float  # samples a second


def named() -> dict[str, Accelerator]:
    """Returns the devices that are known by name."""
    return {
        name: Accelerator(f"{name.upper()}, ResNet-50", _RESNET_50_BATCH / seconds)
        for name, seconds in _RESNET_50_SECONDS.items()
    }


def of(text: str) -> Accelerator:
    """Returns the device that a name or a rate stands for."""
    known = named()
    if text.lower() in known:
        return known[text.lower()]
    try:
        rate = float(text)
    except ValueError:
        raise SettingsError(
            f"--accelerator {text}: expected samples a second, such as 350, or a device: {nearest(text.lower(), known)}"
        ) from None
    if not (rate > 0 and math.isfinite(rate)):
        raise SettingsError(f"--accelerator {text}: expected more than 0 samples a second")
    return Accelerator(f"{rate:,.0f} samples/s", rate)
