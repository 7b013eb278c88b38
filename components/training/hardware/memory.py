"""Peak memory of a training: of this process, and of each GPU."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_MB = 1 << 20


def reset(devices: Sequence[str]) -> None:
    """Starts to measure, on the devices of this worker too: earlier nodes ran in the same process."""
    with contextlib.suppress(OSError):  # the peak of the process is shown then, which is never lower
        _CLEAR.write_text(_RESET_PEAK)
    for device in _gpus(devices):
        tf.config.experimental.reset_memory_stats(device)


def peaks(devices: Sequence[str]) -> dict[str, Any]:
    """Returns the peak memory since `reset` in MB: `host`, and the GPUs of this worker by name."""
    gpus = {device: tf.config.experimental.get_memory_info(device)["peak"] / _MB for device in _gpus(devices)}
    return {"host": resident_mb("VmHWM"), "devices": gpus}


def resident_mb(what: str) -> float:
    """Returns the resident memory of this process in MB: now (`VmRSS`), or its peak (`VmHWM`)."""
    return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith(f"{what}:")) / 1024


def _gpus(devices: Sequence[str]) -> list[str]:
    return [device for device in devices if device.startswith("GPU")]
