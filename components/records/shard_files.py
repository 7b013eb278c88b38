"""The files of an artifact while its shards are written: temporary ones aside, and nothing else than was reported.

    worker ─► <artifact>/.unfinished/… ─► renamed ─► <artifact>/Split-train/data_tfrecord-…     on this machine
    worker ─► temporary file of its machine ─► uploaded ─► <artifact>/Split-train/…             on an object store

    all shards written ─► the listing of Split-* = the shards of the manifest ─► manifest.json

Later nodes read all files of a split. So a file that a killed worker left there would be read as a shard: temporary
files are in a folder of their own, and a listing that is not the expected one stops the run.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from components.errors import LedgerMismatch
from components.records.quarantine import printable
from components.storage import durable, paths
from components.storage.location import Location

UNFINISHED = ".unfinished"  # folder of an artifact
_SPLIT = "Split-"  # begins the name of a folder with shards
_SHOWN = 3  # files named in a message


class ShardFile(Protocol):
    """Name and size of a shard."""

    @property
    def name(self) -> str:
        """Relative to the artifact."""

    @property
    def bytes(self) -> int:
        """Size of the file."""


def publish(artifact: Location, name: str, *, sync: bool = False) -> AbstractContextManager[Path]:
    """Returns a context that yields a local path to write to; on success the file is in the artifact, whole."""
    return durable.publish_file(artifact / name, sync=sync, aside=artifact / UNFINISHED)


def finish(artifact: Location, shards: Sequence[ShardFile]) -> None:
    """Removes what killed workers left, and compares the files in the splits with the shards that were reported.

    Call it when no worker writes any more, and before the manifest is written.

    Raises:
        LedgerMismatch: A shard is missing, has another size, or is in no report.
    """
    durable.remove(artifact / UNFINISHED)
    found = {name: stat.st_size for name, stat in paths.files_below(artifact).items() if name.startswith(_SPLIT)}
    expected = {shard.name: shard.bytes for shard in shards}
    problems = list(_problems(found, expected))
    if problems:
        more = f", and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise LedgerMismatch(
            f"{artifact}: the files are not those that the workers reported: {'; '.join(problems[:_SHOWN])}{more}; "
            "no manifest was written and nothing after this node was run: run again"
        )


def _problems(found: dict[str, int], expected: dict[str, int]) -> Iterator[str]:
    for name in sorted(expected.keys() - found.keys()):
        yield f"{name} is missing"
    for name in sorted(found.keys() - expected.keys()):
        yield f"{printable(name)} is in no report"
    for name in sorted(found.keys() & expected.keys()):
        if found[name] != expected[name]:
            yield f"{name} has {found[name]:,} bytes, {expected[name]:,} were reported"
