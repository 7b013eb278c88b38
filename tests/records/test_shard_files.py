"""B16: what a killed worker leaves is never where a later node reads it, and a wrong listing stops the run."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import LedgerMismatch
from components.records import shard_files
from components.records.manifest import Shard
from components.storage.location import Location
from components.storage.objects import ObjectPath

HOME = Path(__file__).resolve().parents[2]
SHARD = Shard("train", "Split-train/data_tfrecord-00000-of-00001", 1, 5, "")


@pytest.fixture(params=["here", "s3"])
def artifact(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """The folder of an artifact, on this machine and on a store."""
    if request.param == "here":
        return tmp_path / "artifact"
    return ObjectPath(f"{request.getfixturevalue('s3_bucket')}/artifact")


def write(artifact: Location, name: str, content: bytes = b"bytes") -> None:
    """Publishes one file of an artifact."""
    with shard_files.publish(artifact, name) as temporary:
        temporary.write_bytes(content)


def test_reported_shards_are_accepted(artifact: Location) -> None:
    """Files outside of the splits are not shards."""
    write(artifact, SHARD.name)
    write(artifact, "schema.pbtxt")

    shard_files.finish(artifact, [SHARD])
    assert (artifact / SHARD.name).read_bytes() == b"bytes"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "Split-train/data_tfrecord-00000-of-00001 is missing"),
        ({SHARD.name: b"longer"}, "Split-train/data_tfrecord-00000-of-00001 has 6 bytes, 5 were reported"),
        ({SHARD.name: b"bytes", "Split-eval/x": b""}, "Split-eval/x is in no report"),
        (
            {SHARD.name: b"bytes", "Split-train/.aside-0123456789ab-x": b"old"},
            "Split-train/.aside-.*-x is in no report",
        ),
    ],
)
def test_any_other_listing_stops_the_run(artifact: Location, files: dict[str, bytes], reason: str) -> None:
    """With the name of the file and what to do."""
    for name, content in files.items():
        write(artifact, name, content)

    with pytest.raises(LedgerMismatch, match=rf"{reason}; no manifest was written .* run again$"):
        shard_files.finish(artifact, [SHARD])


KILLED = """
import pathlib, sys
from components.records import shard_files
from components.records.tfrecord.framing import TFRecordWriter
from components.storage.location import location
with shard_files.publish(location(sys.argv[1]), sys.argv[2]) as temporary, TFRecordWriter(temporary) as file:
    file.write([[b"half of it"]])
    file._stream.flush()
    print(temporary, flush=True)
    sys.stdin.read()
"""


def test_a_killed_worker_leaves_nothing_in_the_split(artifact: Location) -> None:
    """Its unit is written again by another one; what it left is removed before the manifest is written."""
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(artifact), SHARD.name],
        cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdout is not None
    left = Path(worker.stdout.readline().strip())
    assert left.stat().st_size
    worker.kill()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    write(artifact, SHARD.name)

    assert left.exists()
    assert [path.name for path in artifact.glob("Split-*/*")] == [Path(SHARD.name).name]
    shard_files.finish(artifact, [SHARD])
    assert [str(path) for path in artifact.rglob("*") if path.is_file()] == [f"{artifact}/{SHARD.name}"]
    assert left.exists() == (not isinstance(artifact, Path))  # on the worker's own disk
    if left.exists():
        left.unlink()
        left.parent.rmdir()
