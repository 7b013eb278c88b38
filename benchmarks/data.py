"""Benchmark data: generated from a seed, ingested by Penstock, kept in `.tools`.

    generator ─► .tools/bench-data/image-4000-1a2b… ─► penstock ingest ─► image-4000-1a2b…-original-3c4d…

A folder's name has a digest of its generator, and folders are published complete: an existing one is valid.
Peers read the same bytes in their own formats: files, tar archives, JSON Lines.

python -m benchmarks.data              generate everything (a few minutes, 2 GB)
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components import fingerprint, refs
from components.storage import durable

HOME = Path(__file__).resolve().parents[1]
CACHE = HOME / ".tools" / "bench-data"
# Nearly everything in one split: the benchmarks measure training.
_SPLITS = ("ingest.splits.train=0.998", "ingest.splits.eval=0.001", "ingest.splits.test=0.001")


@dataclass(frozen=True)
class Kind:
    """A set of raw data."""

    rows: int
    write: str  # reference of (folder, rows) -> None
    data: str  # what is ingested, relative to the raw folder
    label: str = ""


KINDS: Mapping[str, Kind] = {
    "image": Kind(4_000, "benchmarks.images:write", "files"),
    "digits": Kind(1_797, "benchmarks.images:write_digits", "files"),
    "text": Kind(200_000, "benchmarks.rows:write_texts", "texts.jsonl", "label"),
    "tensor": Kind(100_000, "benchmarks.rows:write_small_arrays", "arrays.npz", "label"),
    "tensor64": Kind(4_000, "benchmarks.rows:write_large_arrays", "arrays.npz", "label"),
    "table": Kind(200_000, "benchmarks.rows:write_table", "table.parquet", "label"),
}
# Shards of the same images, stored smaller by ingest.
STORED: Mapping[str, Sequence[str]] = {
    "original": (),
    "jpeg256": ("ingest.store=jpeg", "ingest.store_side=256"),
    "raw256": ("ingest.store=raw", "ingest.store_side=256"),
}


def raw(name: str, rows: int = 0, cache: Path = CACHE) -> Path:
    """Returns the folder of raw data; generates it first if it is missing."""
    kind = KINDS[name]
    rows = rows or kind.rows
    source = HOME.joinpath(*refs.module_of(kind.write).split(".")).with_suffix(".py").read_text()
    target = cache / f"{name}-{rows}-{_digest(source)}"
    if not target.exists():
        _remove(cache, f"{name}-{rows}-*")
        print(f"generating {rows:,} of {name} …", file=sys.stderr)
        with durable.publish_folder(target) as aside:
            refs.load(kind.write)(aside, rows)
    return target


def shards(name: str, stored: str = "original", rows: int = 0, cache: Path = CACHE) -> Path:
    """Returns the ingested artifact of the raw data; ingests it first if it is missing."""
    home, kind = raw(name, rows, cache), KINDS[name]
    flags = (*_SPLITS, *STORED[stored])
    sources = fingerprint.sources(["pipelines.ingest", "components.ingest.sources"])
    target = home.with_name(f"{home.name}-{stored}-{_digest(*flags, *sources.values())}")
    if not target.exists():
        _remove(cache, f"{home.name}-{stored}-*")
        print(f"ingesting {name}, {stored} …", file=sys.stderr)
        words = ["ingest", str(home / kind.data), "--out", str(target)]
        words += ["--label", kind.label] if kind.label else []
        words += [word for flag in flags for word in ("--set", flag)]
        command = [sys.executable, "-c", "from pipelines.cli import main; main()", *words]
        subprocess.run(command, cwd=HOME, check=True, stdout=subprocess.DEVNULL)
    return target


def _remove(cache: Path, pattern: str) -> None:
    """Removes folders of older generators and older ingest code."""
    for old in cache.glob(pattern):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def main() -> None:
    """Generates the named kinds, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; default: all")
    for name in parser.parse_args().kinds or KINDS:
        for stored in STORED if name == "image" else ("original",):
            print(shards(name, stored))


if __name__ == "__main__":
    main()
