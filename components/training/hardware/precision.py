"""Mixed precision: the layers of a model compute in 16 bits, its variables and its head stay in float32.

    GPU of compute capability 8.0 and more ─► mixed_bfloat16
    GPU of compute capability 7.x ──────────► mixed_float16, with a scaled loss (optimizer.py)
    older GPU, CPU ─────────────────────────► float32: 16 bits are slower, on CPUs with bfloat16 instructions, too, and
                                              training a table in bfloat16 ended one of those with SIGILL (TF 2.16)

The exported model computes in float32 in any case: it has the same weights and runs on any device.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from components.settings.train import Train

FLOAT32 = "float32"


def policy(settings: Train) -> str:
    """Returns the name of the Keras dtype policy for the devices of this machine."""
    is_used = settings.precision == "mixed" and not settings.devices.startswith("cpu")
    gpus = tf.config.list_physical_devices("GPU") if is_used else []
    if not gpus:
        return FLOAT32
    details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
    oldest = min(each.get("compute_capability", (0, 0)) for each in details)
    return "mixed_bfloat16" if oldest >= (8, 0) else "mixed_float16" if oldest >= (7, 0) else FLOAT32


def is_float16(model: keras.Model) -> bool:
    """Returns whether some layer computes in float16. A copy of a model has its layers' policies, but not its own."""
    return any(layer.compute_dtype == "float16" for layer in model.layers)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Gives layers that are created within the block a dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def in_float32(model: keras.Model, build: Callable[[], keras.Model]) -> keras.Model:
    """Returns a model that computes in float32 with the weights of this one; `build` creates another such model."""
    if model.dtype_policy.name == FLOAT32:
        return model
    with scope(FLOAT32):
        exact = build()
    exact.set_weights(model.get_weights())
    return exact
