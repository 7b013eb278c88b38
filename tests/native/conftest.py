"""The native ops, and photographs as JPEG files of all kinds."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from components.native.decode import loader

Pixels = NDArray[np.uint8]


def decode(ops: loader.Ops, *arguments: Any) -> Pixels:
    """Decodes a batch without a damaged record."""
    pixels, problems = ops.decode_crop_resize(*arguments)
    assert set(problems.numpy().tolist()) <= {b""}
    found: Pixels = pixels.numpy()
    return found


def problems(ops: loader.Ops, *arguments: Any) -> list[str]:
    """Decodes a batch and returns why each record failed, or an empty string."""
    return [problem.decode() for problem in ops.decode_crop_resize(*arguments)[1].numpy()]


@pytest.fixture(scope="session")
def ops() -> loader.Ops:
    """The native ops."""
    found = loader.load()
    if found is None:
        pytest.skip(f"no native op: {loader.why_not()}")
    return found


@pytest.fixture(scope="session")
def photo() -> Callable[[int, int], Pixels]:
    """Cuts a piece of the given height and width out of a photograph from scikit-learn."""
    from sklearn.datasets import load_sample_image

    whole = Image.fromarray(load_sample_image("china.jpg"))

    def piece(height: int, width: int) -> Pixels:
        side = min(whole.width / width, whole.height / height)
        box = (0, 0, max(1, int(width * side)), max(1, int(height * side)))
        return np.asarray(whole.resize((width, height), Image.Resampling.LANCZOS, box))

    return piece


@pytest.fixture(scope="session")
def jpeg() -> Callable[..., bytes]:
    """Encodes pixels as a JPEG with Pillow's options."""

    def encode(pixels: Pixels, mode: str = "RGB", kind: str = "JPEG", **options: Any) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).convert(mode).save(out, kind, **options)
        return out.getvalue()

    return encode


@pytest.fixture(scope="session")
def raw() -> Callable[[Pixels], bytes]:
    """Encodes pixels in Penstock's raw format."""

    def write(pixels: Pixels) -> bytes:
        height, width = pixels.shape[:2]
        return b"P6 %05d %05d 255\n" % (width, height) + pixels.tobytes()

    return write
