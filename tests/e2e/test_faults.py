"""Runs that fail, are stopped or are killed: each test injects a real fault and checks what it leaves behind."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# StatisticsGen does its work again and again, so that a signal always meets it at work.
ENDLESS_STATISTICS = """
from components.evaluation.statistics import SpanStatisticsExecutor as Executor
do = Executor.Do
def endless(*arguments):
    while True:
        do(*arguments)
Executor.Do = endless
"""


@pytest.fixture
def pipeline(some_digits: Path, tmp_path: Path, make_pipeline: Callable[..., Any]) -> Any:
    """A new root on 300 digits."""
    return make_pipeline(some_digits, tmp_path / "root")


def states(pipeline: Any) -> dict[str, str]:
    """Returns the state of each node's last execution."""
    found = {node.id: next(pipeline.store().executions(node.id), None) for node in graph.NODES}
    return {node: execution.state for node, execution in found.items() if execution is not None}


def shard_bytes(pipeline: Any) -> dict[str, bytes]:
    """Returns the content of each shard that Ingest published last."""
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    return {shard.name: (examples.uri / shard.name).read_bytes() for shard in manifest.read(examples.uri).shards}


def test_run_after_a_killed_run_keeps_finished_nodes(pipeline: Any) -> None:
    """SIGKILL frees the lock; the next run marks the open execution as failed and runs only what was not finished."""
    process = pipeline.start("--to", "StatisticsGen", before=ENDLESS_STATISTICS)
    pipeline.wait_until_running("StatisticsGen", process)
    process.stop(signal.SIGKILL)
    left = states(pipeline)
    again = pipeline.run("--to", "StatisticsGen")

    assert left == {"Ingest": "COMPLETE", "Schema": "COMPLETE", "StatisticsGen": "RUNNING"}
    assert again.code == 0, again.output
    assert "StatisticsGen: an earlier run was killed in this node; marked as failed" in again.output
    assert re.search(r"^= Ingest .*same data", again.output, re.MULTILINE)
    assert [execution.state for execution in pipeline.store().executions("StatisticsGen")] == ["COMPLETE", "FAILED"]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_run_closes_its_executions(pipeline: Any, signum: signal.Signals, code: int) -> None:
    """SIGTERM and Ctrl-C end the run with their own exit code and leave no running execution in the metadata."""
    process = pipeline.start("--to", "StatisticsGen", before=ENDLESS_STATISTICS)
    pipeline.wait_until_running("StatisticsGen", process)
    result = process.stop(signum)

    assert result.code == code, result.output
    assert states(pipeline)["StatisticsGen"] == "CANCELED"


@pytest.mark.parametrize("broken", [False, True], ids=["unfinished TensorFlow", "no facts"])
def test_signal_while_tensorflow_initializes(pipeline: Any, broken: bool) -> None:
    """The run ends as any stopped run, although TensorFlow can run nothing any more, and even without a report."""
    signal_inside = (
        "import os, signal\n"
        "from tensorflow.python.eager.context import Context\n"
        "initialize = Context._initialize_logical_devices\n"
        "def initialize_and_stop(self):\n"
        "    initialize(self)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "Context._initialize_logical_devices = initialize_and_stop\n"
    )
    if broken:
        signal_inside += (
            "from pipelines.report import gather\n"
            "def fail(*_, **__): raise OSError('the manifest cannot be read')\n"
            "gather.facts = fail\n"
        )
    result = pipeline.run("--to", "Trainer", before=signal_inside)

    assert result.code == 143, result.output
    assert "CANCELED" in states(pipeline).values()
    assert "stopped by SIGTERM" in result.output


def test_second_run_on_a_root_is_rejected_or_waits(pipeline: Any, tmp_path: Path, wait_for: Any) -> None:
    """B6: while a run holds the root, a second one exits with 75 and names the holder; with --wait it runs after it."""
    keep_lock = (
        "import contextlib, pathlib, time\n"
        "from pipelines.orchestration.root import lock\n"
        "hold = lock.hold\n"
        "@contextlib.contextmanager\n"
        "def hold_until_released(*arguments, **options):\n"
        "    with hold(*arguments, **options):\n"
        f"        while not pathlib.Path({str(tmp_path / 'release')!r}).exists(): time.sleep(0.05)\n"
        "        yield\n"
        "lock.hold = hold_until_released"
    )
    holder = pipeline.start("--to", "Ingest", before=keep_lock)
    wait_for((pipeline.root / ".penstock" / "holder.json").exists, holder)
    rejected = pipeline.run("--to", "Ingest")
    waiting = pipeline.start("--to", "Ingest", "--wait")
    (tmp_path / "release").touch()
    held, waited = holder.wait(), waiting.wait()

    assert rejected.code == 75, rejected.output
    assert re.search(rf"is in use: by pid {holder.pid}, started \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC", rejected.output)
    assert (held.code, waited.code) == (0, 0), held.output + waited.output
    assert "nothing to do" in waited.output


def test_bad_images_are_quarantined_and_unusual_ones_converted(pipeline: Any) -> None:
    """A4: quarantine.jsonl lists bad images with a reason, and the manifest counts them and every conversion."""
    folder = pipeline.data / "seven"
    image = Image.radial_gradient("L").convert("RGB").resize((40, 20))
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG")
    rotated = image.getexif()
    rotated[0x0112] = 6
    (folder / "truncated.jpg").write_bytes(jpeg.getvalue()[:300])
    (folder / "page.jpg").write_bytes(b"<!DOCTYPE html><p>not found")
    (folder / "empty.png").touch()
    image.save(folder / "rotated.jpg", exif=rotated)
    image.save(folder / "moving.gif")
    image.convert("CMYK").save(folder / "print.jpg")
    (folder / "outside.png").symlink_to("/etc/hostname")
    result = pipeline.run("--to", "Ingest", "--set", "ingest.max_bad_fraction=0.05")
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    written = manifest.read(examples.uri)

    assert result.code == 0, result.output
    assert {bad.path for bad in manifest.read_quarantine(examples.uri)} == {
        "seven/empty.png", "seven/outside.png", "seven/page.jpg", "seven/truncated.jpg",
    }  # fmt: skip
    assert written.changed == {"CMYK": 1, "EXIF rotation": 1, "GIF": 1}
    assert (written.found, sum(written.records.values()), written.quarantined) == (307, 303, 4)
    assert "4, listed in" in result.output


def test_too_many_bad_images_stop_the_run(pipeline: Any) -> None:
    """Above max_bad_fraction the run exits with 4, names the files, keeps their list, and runs nothing after Ingest."""
    for index in range(10):
        (pipeline.data / "two" / f"bad-{index}.jpg").write_bytes(b"no image")
    result = pipeline.run()

    assert result.code == 4
    assert "10 of 310 records were quarantined (3.2%), more than ingest.max_bad_fraction = 0.01" in result.output
    assert "two/bad-0.jpg: not an image: starts with 'no image'" in result.output
    assert len((pipeline.root / "quarantine.jsonl").read_text().splitlines()) == 10
    assert states(pipeline) == {"Ingest": "FAILED"}


def test_missing_data_is_named(tmp_path: Path, make_pipeline: Any) -> None:
    """A3: a data folder that does not exist ends the run with 4 and a message that starts with its path."""
    result = make_pipeline(tmp_path / "data", tmp_path / "root").run()

    assert result.code == 4
    assert result.output.splitlines()[1].startswith(f"penstock: {tmp_path}/data: 0 examples: no such file or folder")


def test_folder_of_empty_files_has_no_examples(tmp_path: Path, make_pipeline: Any) -> None:
    """A3: when no file in the folder can be read, the run exits with 4 whatever max_bad_fraction is."""
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).touch()
    result = make_pipeline(tmp_path / "data", tmp_path / "root").run("--set", "ingest.max_bad_fraction=1")

    assert result.code == 4
    assert "2 of 2 records were quarantined (100.0%)" in result.output
    assert "cat/1.jpg: empty file" in result.output


def test_gate_stops_when_a_split_lacks_a_class(pipeline: Any) -> None:
    """A8: one image of a class cannot be in all splits: exit code 5, a table of classes and splits, no training."""
    (pipeline.data / "ten").mkdir()
    Image.radial_gradient("L").resize((32, 32)).save(pipeline.data / "ten" / "only.png")
    result = pipeline.run()

    assert result.code == 5, result.output
    assert re.search(r"split '\w+' has too few records \(expected at least 1\) of: .*ten", result.output)
    assert re.search(r"^ *class +train +eval +test *$", result.output, re.MULTILINE)
    assert re.search(r"^ *ten +[01] +[01] +[01] *$", result.output, re.MULTILINE)
    assert states(pipeline)["Gate"] == "FAILED"
    assert "Trainer" not in states(pipeline)


def test_record_lost_in_ingest_stops_the_run(pipeline: Any) -> None:
    """A16: the ledger finds a writer that drops one record of a batch, and its output is not published."""
    drop = (
        "from components.records.tfrecord.framing import TFRecordWriter\n"
        "whole = TFRecordWriter.write\n"
        "TFRecordWriter.write = lambda self, records: whole(self, list(records)[:-1])"
    )
    result = pipeline.run("--to", "Ingest", before=drop)

    assert result.code == 6, result.output
    assert "records lost" in result.output
    assert "expected in = out + quarantined" in result.output
    assert states(pipeline) == {"Ingest": "FAILED"}


def test_input_that_vanishes_stops_the_run(pipeline: Any) -> None:
    """B9: an image that is deleted between listing and reading is named, and nothing after Ingest runs."""
    victim = min((pipeline.data / "one").iterdir())
    vanish = (
        "import pathlib\n"
        "from components.ingest.write import files\n"
        "whole = files.write_unit\n"
        "def write_unit(*arguments):\n"
        f"    pathlib.Path({str(victim)!r}).unlink(missing_ok=True)\n"
        "    return whole(*arguments)\n"
        "files.write_unit = write_unit"
    )
    result = pipeline.run(before=vanish)

    assert result.code == 4, result.output
    assert f"{victim}: cannot be read: No such file or directory" in result.output
    assert states(pipeline) == {"Ingest": "FAILED"}


@pytest.mark.all
def test_beam_flags_change_no_byte(pipeline: Any, tmp_path: Path, make_pipeline: Any) -> None:
    """Flags after `--` reach Beam, and two worker processes write the same shards as one thread."""
    other = make_pipeline(pipeline.data, tmp_path / "other")
    one = pipeline.run("--to", "Ingest")
    two = other.run("--to", "Ingest", "--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
    log = max((other.root / "logs").glob("*.log")).read_text()

    assert (one.code, two.code) == (0, 0), one.output + two.output
    assert shard_bytes(pipeline) == shard_bytes(other)
    assert "multi_processing" in log


@pytest.mark.parametrize(("flag", "value"), [("--name", "../up"), ("--data", "file:///etc")])
def test_unsafe_names_and_addresses_are_rejected(pipeline: Any, flag: str, value: str) -> None:
    """D4: a name that leaves the root, or an address without a file system, exits with 2 and creates nothing."""
    result = pipeline.run(flag, value)

    assert (result.code, value in result.output) == (2, True)
    assert not pipeline.root.exists()


def test_root_without_write_permission_is_named(pipeline: Any, make_pipeline: Any, open_folder: Path) -> None:
    """B9: a read-only root ends the run at once, with the reason."""
    (open_folder / "root").mkdir(mode=0o555)
    # Root may write anywhere; modules are imported first because another user may not be allowed to read them.
    limited = "import os, prometheus_client, pipelines.config, pipelines.run, components.tasks.image\n"
    limited += "os.seteuid(65534)" if os.geteuid() == 0 else ""
    result = make_pipeline(pipeline.data, open_folder / "root" / "inner").run(before=limited)

    assert result.code == 4
    assert "cannot be written: Permission denied; choose another --root" in result.output


@pytest.mark.all
def test_terminal_shows_only_our_lines(pipeline: Any) -> None:
    """The installed command shows a progress line and one line per node; what libraries print is in the log file."""
    reader, writer = pty.openpty()
    penstock = Path(sys.executable).with_name("penstock")
    arguments = pipeline.arguments("--to", "StatisticsGen")
    process = subprocess.Popen([str(penstock), *arguments], stdout=writer, stderr=subprocess.STDOUT, cwd=pipeline.code)
    os.close(writer)
    shown = bytearray()
    with suppress(OSError):  # Linux ends a terminal whose other side is closed with EIO
        while True:
            shown += os.read(reader, 4096)
    os.close(reader)
    text = shown.decode(errors="replace")

    assert process.wait(timeout=60) == 0, text
    assert not re.search(r"^[IWE]\d{4} |Warning|WARNING|tensorflow", text, re.MULTILINE)
    assert "▸ StatisticsGen" in text
    assert "MetadataStore" in max((pipeline.root / "logs").glob("*.log")).read_text()
