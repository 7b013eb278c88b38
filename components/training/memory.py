"""Peak memory of a training: of this process, and of each GPU."""

import contextlib
from pathlib import Path
from typing import Any

import tensorflow as tf

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_MB = 1 << 20


def reset() -> None:
    """Starts to measure: earlier nodes ran in the same process."""
    with contextlib.suppress(OSError):  # the peak of the process is shown then, which is never lower
        _CLEAR.write_text(_RESET_PEAK)
    for device in _gpus():
        tf.config.experimental.reset_memory_stats(device)


def peaks() -> dict[str, Any]:
    """Returns the peak memory since `reset` in MB: `host`, and the GPUs by name."""
    gpus = {device: tf.config.experimental.get_memory_info(device)["peak"] / _MB for device in _gpus()}
    return {"host": resident_mb("VmHWM"), "devices": gpus}


def resident_mb(what: str) -> float:
    """Returns the resident memory of this process in MB: now (`VmRSS`), or its peak (`VmHWM`)."""
    return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith(f"{what}:")) / 1024


def _gpus() -> list[str]:
    return [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("GPU")]
