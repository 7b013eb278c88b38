"""Ingest of images in class folders (hash, check, shards, manifest) against its unavoidable work.

    small     10,000 JPEGs of 32 x 32                                             4,000 per second
    full      4,000 JPEGs of about 100 KB, each read to its end                   0.7 of two processes of simplejpeg
    header    the same, headers only                                              0.5 of read + sha256
    memory    ten times the files                                                 1.2 times the peak at most

python -m benchmarks.ingest_images --rounds 5              everything; creates simplejpeg's environment
python -m benchmarks.ingest_images small memory            some cases
"""

import argparse
import hashlib
import inspect
import io
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks import measure

HOME = Path(__file__).resolve().parents[1]
CACHE = HOME / ".tools" / "bench-data"
_ME = "benchmarks.ingest_images"
_SMALL, _PHOTOS, _FEW = 10_000, 4_000, 10  # files; and how many times fewer they are where memory is compared
_SIDE, _QUALITY = 32, 94
_CLASSES = 10
_TARGETS = {"small": 4_000, "full": 0.7, "header": 0.5, "memory": 1.2}
_AT_ONCE = 2  # processes of what we are compared with: as many as the machine has cores


def write_small(home: Path, count: int) -> None:
    """Writes squares of 32 pixels, cut from photos."""
    from PIL import Image

    from benchmarks import images

    made = 0
    for large in images.images(range(count)):
        with Image.open(io.BytesIO(large.content)) as image:
            for top in range(0, image.height - _SIDE, _SIDE):
                for left in range(0, image.width - _SIDE, _SIDE):
                    image.crop((left, top, left + _SIDE, top + _SIDE)).save(_place(home, made), quality=90)
                    made += 1
                    if made == count:
                        return


def write_photos(home: Path, count: int) -> None:
    """Writes photos of about 100 KB."""
    import numpy as np
    from PIL import Image

    from benchmarks import images

    def write_one(number: int) -> None:
        pixels = images.draw(np.random.default_rng([11, number]))
        Image.fromarray(pixels).save(_place(home, number), quality=_QUALITY)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(write_one, range(count)))


def _place(home: Path, number: int) -> Path:
    folder = home / f"class-{number % _CLASSES}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{number:06d}.jpg"


def data_of(write: Callable[[Path, int], None], count: int) -> Path:
    """Returns a folder of files; generates it first if it is missing."""
    from components.storage import durable

    source = inspect.getsource(write) + Path(__file__).with_name("images.py").read_text()
    target = CACHE / f"{write.__name__}-{count}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    if not target.exists():
        print(f"making {count:,} files …", file=sys.stderr)
        with durable.publish_folder(target) as aside:
            write(aside, count)
    return target


def ours(data: str, check: str) -> None:
    """Ingests with Penstock; imports are not measured."""
    import apache_beam  # noqa: F401
    import tensorflow as tf  # noqa: F401

    from components.ingest import run  # noqa: F401
    from components.settings.ingest import Ingest
    from pipelines import ingest

    settings = Ingest.model_validate({"image_check": check})
    with tempfile.TemporaryDirectory(dir=CACHE) as home:
        measure.report(lambda: ingest.ingest(ingest.IngestRequest(data, Path(home, "out"), settings)))


def simplejpeg(data: str) -> None:
    """Decodes all files in processes of another environment."""
    from benchmarks import peers

    command = [str(peers.make("simplejpeg")), "-m", _ME, "--only", "decode", "--data", data]
    subprocess.run(command, cwd=HOME, check=True)


def decode(data: str) -> None:
    """Runs in the environment of simplejpeg; measures from the moment when all processes are up."""
    files = sorted(map(str, Path(data).rglob("*.jpg")))
    start = multiprocessing.Barrier(_AT_ONCE + 1)
    workers = [
        multiprocessing.Process(target=_decode_files, args=(files[number::_AT_ONCE], start))
        for number in range(_AT_ONCE)
    ]
    for worker in workers:
        worker.start()
    start.wait()

    def finish() -> None:
        for worker in workers:
            worker.join()

    measure.report(finish)


def _decode_files(files: Sequence[str], start: Barrier) -> None:
    from simplejpeg import decode_jpeg  # type: ignore[import-not-found,unused-ignore]

    start.wait()
    for file in files:
        decode_jpeg(Path(file).read_bytes())


def plain(data: str) -> None:
    """Reads and hashes all files, one by one: two threads take longer because of the GIL."""
    files = sorted(Path(data).rglob("*.jpg"))
    measure.report(lambda: [hashlib.sha256(file.read_bytes()).hexdigest() for file in files])


def measure_small(rounds: int) -> None:
    """Prints how many small files are ingested per second."""
    runs = measure.in_turn({"small": _ours(data_of(write_small, _SMALL), "full")}, rounds)
    rate = _SMALL / measure.median(runs["small"]).seconds
    _show("small, full check", f"{rate:,.0f} per second", rate >= _TARGETS["small"], _TARGETS["small"])


def measure_full(rounds: int) -> None:
    """Prints how a full check compares with decoding alone."""
    _compare("full", "simplejpeg, two processes", "simplejpeg", rounds)


def measure_header(rounds: int) -> None:
    """Prints how a check of headers compares with reading and hashing alone."""
    _compare("header", "read + sha256", "plain", rounds)


def _compare(check: str, name: str, peer: str, rounds: int) -> None:
    data = data_of(write_photos, _PHOTOS)
    command = ["-m", _ME, "--data", str(data), "--only", peer]
    runs = measure.in_turn({check: _ours(data, check), name: command}, rounds)
    rates = {each: _PHOTOS / measure.median(done).seconds for each, done in runs.items()}
    for each, rate in rates.items():
        print(f"{each:<28}{rate:>10,.0f} a second")
    ratio = rates[check] / rates[name]
    _show(f"photos, {check} check", f"{ratio:.2f} of {name}", ratio >= _TARGETS[check], _TARGETS[check])


def measure_memory(rounds: int) -> None:
    """Prints the peak memory with ten times the files."""
    most = _TARGETS["memory"]
    for write, count in ((write_small, _SMALL), (write_photos, _PHOTOS)):
        sizes = {f"{each:,} files": data_of(write, each) for each in (count // _FEW, count)}
        runs = measure.in_turn({name: _ours(data, "full") for name, data in sizes.items()}, rounds)
        few, many = (measure.median(done).peak_mb for done in runs.values())
        found = f"{few:,.0f} MB to {many:,.0f} MB, {many / few:.2f} times"
        _show(f"memory, {write.__name__.removeprefix('write_')}", found, many / few <= most, most)


def _ours(data: Path, check: str) -> list[str]:
    return ["-m", _ME, "--only", "ours", "--data", str(data), "--check", check]


def _show(what: str, found: str, passed: bool, target: float) -> None:
    print(f"{what:<28}{found:<52} target {target:,}: {'passed' if passed else 'MISSED'}")


PARTS: Mapping[str, Callable[[int], None]] = {
    "small": measure_small,
    "full": measure_full,
    "header": measure_header,
    "memory": measure_memory,
}


def main() -> None:
    """Measures the named cases, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="none named: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["ours", "simplejpeg", "decode", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--check", default="full", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only == "ours":
        ours(asked.data, asked.check)
    elif asked.only:
        {"simplejpeg": simplejpeg, "decode": decode, "plain": plain}[asked.only](asked.data)
    else:
        for part in asked.parts or PARTS:
            PARTS[part](asked.rounds)


if __name__ == "__main__":
    main()
