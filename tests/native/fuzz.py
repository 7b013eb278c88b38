"""Build the fuzzer with sanitizers and run it on mutated images.

    python tests/native/fuzz.py --count 20000

Exit code 0: every record was decoded or rejected with a reason, and nothing crashed, leaked or differed.
"""

import argparse
import io
import itertools
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
SIZES = ((1, 1), (7, 9), (16, 16), (33, 47), (100, 75), (190, 250))
KINDS: tuple[dict[str, Any], ...] = (
    {"quality": 90, "subsampling": 2},
    {"quality": 75, "subsampling": 1, "optimize": True},
    {"quality": 98, "subsampling": 0},
    {"quality": 60, "subsampling": 2, "progressive": True},
    {"quality": 85, "subsampling": 2, "restart_marker_blocks": 3},
    {"quality": 85, "subsampling": 0, "restart_marker_rows": 1, "optimize": True},
)


def waves(height: int, width: int) -> Image.Image:
    """Returns an image of waves with noise in one half: blocks with few and with many coefficients."""
    down, across = np.mgrid[:height, :width]
    smooth = np.stack([np.sin(down / 9) + np.cos(across / 5), np.sin(across / 30), np.cos(down * across / 900)], 2)
    noise = np.random.default_rng(height).normal(0, 8, smooth.shape) * (across > width // 2)[..., None]
    return Image.fromarray(np.clip(128 + 60 * smooth + noise, 0, 255).astype(np.uint8))


def jpegs() -> Iterator[bytes]:
    """Yields JPEGs of all kinds that are decoded, and one that is not."""
    for (height, width), kind in itertools.product(SIZES, KINDS):
        for mode in ("RGB", "L"):
            yield encoded(waves(height, width).convert(mode), **kind)
    yield encoded(waves(30, 40).convert("CMYK"))


def encoded(image: Image.Image, **options: Any) -> bytes:
    """Returns an image as a JPEG file."""
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def raw(image: Image.Image) -> bytes:
    """Returns an image in Penstock's raw format."""
    return b"P6 %05d %05d 255\n" % image.size + image.tobytes()


def build(out: Path) -> None:
    """Compiles the fuzzer against the libjpeg that the ops are linked with."""
    sys.path.insert(0, str(HERE.parents[1]))
    from components.native.build import SOURCES, jpeg_headers, jpeg_link

    packages = Path(np.__file__).parents[1]
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    words = ["g++", *flags, "-Wall", "-Wextra", f"-I{SOURCES}", *jpeg_headers(packages)]
    words += [str(HERE / "fuzz.cc"), "-o", str(out), *jpeg_link(packages, out.parent), "-ldl"]
    subprocess.run(words, check=True)


def main() -> int:
    """Builds and runs the fuzzer, and prints the number of records per outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, help="run only this record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        seeds, program = Path(home, "seeds"), Path(home, "fuzz")
        files = [*jpegs(), raw(waves(33, 47)), raw(waves(100, 75))]
        seeds.write_bytes(b"".join(struct.pack("<i", len(file)) + file for file in files))
        build(program)
        words = [str(program), str(seeds), str(arguments.count), str(arguments.seed)]
        words += [] if arguments.index is None else [str(arguments.index)]
        options = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run(words, check=False, env={**os.environ, **options}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
