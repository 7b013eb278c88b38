"""Runs that must fail, be stopped or be killed: the real fault is injected, and what is left behind is looked at."""

import io
import os
import pty
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def pipeline(some_digits: Path, tmp_path: Path, make_pipeline: Callable[[Path, Path], Any]) -> Any:
    """A fresh root on three hundred digits."""
    return make_pipeline(some_digits, tmp_path / "root")


def states(pipeline: Any) -> dict[str, str]:
    """Returns the last state of every node that has one."""
    found = {node: next(pipeline.store().executions(node), None) for node in graph.IDS}
    return {node: execution.state for node, execution in found.items() if execution is not None}


def shard_bytes(pipeline: Any) -> dict[str, bytes]:
    """Returns every shard that ingest published last."""
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    return {shard.name: (examples.uri / shard.name).read_bytes() for shard in manifest.read(examples.uri).shards}


def test_killed_run_is_taken_up_where_it_was(pipeline: Any, stopping: Any) -> None:
    """A killed run frees the lock, its open execution is marked failed by the next, and finished nodes stay done."""
    process = pipeline.start("--to", "StatisticsGen")
    pipeline.wait_for("StatisticsGen", process)
    stopping(process, signal.SIGKILL)
    left = states(pipeline)
    again = pipeline.run("--to", "StatisticsGen")

    assert left == {"Ingest": "COMPLETE", "Schema": "COMPLETE", "StatisticsGen": "RUNNING"}
    assert again.code == 0, again.said
    assert "StatisticsGen: an earlier run was killed in it; marked as failed" in again.said
    assert re.search(r"^= Ingest .*same data", again.said, re.MULTILINE)
    assert [execution.state for execution in pipeline.store().executions("StatisticsGen")] == ["COMPLETE", "FAILED"]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_run_closes_its_books(pipeline: Any, stopping: Any, signum: signal.Signals, code: int) -> None:
    """SIGTERM and Ctrl-C end the run with their own exit code and leave nothing running in the metadata."""
    process = pipeline.start("--to", "StatisticsGen")
    pipeline.wait_for("StatisticsGen", process)
    result = stopping(process, signum)

    assert result.code == code, result.said
    assert states(pipeline)["StatisticsGen"] == "CANCELED"


def test_second_run_on_one_root_is_refused_or_waits(pipeline: Any) -> None:
    """B6: while a run holds the root, another one exits 75 naming its pid; with --wait it goes on after it."""
    holder = pipeline.start("--to", "Ingest")
    pipeline.wait_for("Ingest", holder)
    holder.send_signal(signal.SIGSTOP)  # an ingest of few images is over before another command has begun
    refused = pipeline.run("--to", "Ingest")
    waiter = pipeline.start("--to", "Ingest", "--wait")
    holder.send_signal(signal.SIGCONT)
    holder.communicate(timeout=120)
    said, _ = waiter.communicate(timeout=120)

    assert refused.code == 75, refused.said
    assert re.search(rf"is in use: by pid {holder.pid}, started \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC", refused.said)
    assert (holder.returncode, waiter.returncode) == (0, 0), said
    assert "nothing to do" in said


def test_images_that_cannot_be_used_are_listed(pipeline: Any) -> None:
    """A4: bad images are set aside with path and reason, odd ones are set right, and the counts show both."""
    folder = pipeline.data / "seven"
    image = Image.radial_gradient("L").convert("RGB").resize((40, 20))
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG")
    rotated = image.getexif()
    rotated[0x0112] = 6
    (folder / "truncated.jpg").write_bytes(jpeg.getvalue()[:300])
    (folder / "page.jpg").write_bytes(b"<!DOCTYPE html><p>not found")
    (folder / "empty.png").touch()
    image.save(folder / "turned.jpg", exif=rotated)
    image.save(folder / "moving.gif")
    image.convert("CMYK").save(folder / "print.jpg")
    (folder / "outside.png").symlink_to("/etc/hostname")
    result = pipeline.run("--to", "Ingest", "--set", "ingest.max_bad_fraction=0.05")
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    written = manifest.read(examples.uri)

    assert result.code == 0, result.said
    assert {bad.path for bad in manifest.read_quarantine(examples.uri)} == {
        "seven/empty.png", "seven/outside.png", "seven/page.jpg", "seven/truncated.jpg",
    }  # fmt: skip
    assert written.changed == {"CMYK": 1, "EXIF rotation": 1, "GIF": 1}
    assert (written.found, sum(written.records.values()), written.quarantined) == (307, 303, 4)
    assert "4, listed in" in result.said


def test_too_many_bad_images_stop_the_run(pipeline: Any) -> None:
    """Above max_bad_fraction the run exits 4, names the files and keeps their list; nothing after ingest is run."""
    for index in range(10):
        (pipeline.data / "two" / f"bad-{index}.jpg").write_bytes(b"no image")
    result = pipeline.run()

    assert result.code == 4
    assert "10 of 310 records were quarantined (3.2%), more than ingest.max_bad_fraction = 0.01 allows:" in result.said
    assert "two/bad-0.jpg: not an image: starts with 'no image'" in result.said
    assert len((pipeline.root / "quarantine.jsonl").read_text().splitlines()) == 10
    assert states(pipeline) == {"Ingest": "FAILED"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder.exists(), "0 examples: no such file or folder"),
        (lambda folder: folder.mkdir(), "0 examples in it; expected class folders of images, "),
        (lambda folder: (folder / "cats").mkdir(parents=True), "0 examples in it; expected class folders of images, "),
        (
            lambda folder: folder.write_text("cat"),
            "data is of no known kind by its name; expected class folders of ",
        ),
    ],
    ids=["missing", "empty", "empty class", "file"],
)
def test_data_that_is_not_there_is_named(
    tmp_path: Path, make_pipeline: Any, make: Callable[[Path], object], said: str
) -> None:
    """A3: a missing, empty or wrong data folder exits 4 at once and names it."""
    make(tmp_path / "data")
    result = make_pipeline(tmp_path / "data", tmp_path / "root").run()

    assert (result.code, result.said.startswith(f"penstock: {tmp_path}/data: {said}")) == (4, True)


def test_folder_of_zero_byte_files_has_no_examples(tmp_path: Path, make_pipeline: Any) -> None:
    """A3: when nothing in the folder can be read, the run exits 4 whatever the budget."""
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).touch()
    result = make_pipeline(tmp_path / "data", tmp_path / "root").run("--set", "ingest.max_bad_fraction=1")

    assert result.code == 4
    assert "2 of 2 records were quarantined (100.0%)" in result.said
    assert "cat/1.jpg: empty file" in result.said


def test_gate_stops_a_class_that_a_split_lacks(pipeline: Any) -> None:
    """A8: a class with one image cannot be in all splits: exit 5, a table of class by split, no training."""
    (pipeline.data / "ten").mkdir()
    Image.radial_gradient("L").resize((32, 32)).save(pipeline.data / "ten" / "only.png")
    result = pipeline.run()

    assert result.code == 5, result.said
    assert re.search(r"split '\w+' has fewer than 1 of: .*ten", result.said)
    assert re.search(r"^ *class +train +eval +test *$", result.said, re.MULTILINE)
    assert re.search(r"^ *ten +[01] +[01] +[01] *$", result.said, re.MULTILINE)
    assert states(pipeline)["Gate"] == "FAILED"
    assert "Trainer" not in states(pipeline)


def test_lost_record_stops_the_run(pipeline: Any) -> None:
    """A16: a writer that drops one record of a batch is found out by the ledger, and its output is not published."""
    drop = (
        "from components.records.tfrecord import TFRecordWriter\n"
        "whole = TFRecordWriter.write\n"
        "TFRecordWriter.write = lambda self, records: whole(self, list(records)[:-1])"
    )
    result = pipeline.run("--to", "Ingest", before=drop)

    assert result.code == 6, result.said
    assert "records lost" in result.said
    assert "expected in = out + quarantined" in result.said
    assert states(pipeline) == {"Ingest": "FAILED"}


def test_record_lost_after_ingest_stops_the_run(pipeline: Any) -> None:
    """A16: statistics that counted fewer records than ingest wrote end the run too."""
    drop = (
        "from pipelines import quiet; quiet.prepare_environment()\n"
        "import components.records.manifest as account\n"
        "read = account.Manifest.records.fget\n"
        "account.Manifest.records = property(lambda self: {**read(self), 'train': read(self)['train'] + 1})"
    )
    result = pipeline.run(before=drop)

    assert result.code == 6, result.said
    assert "StatisticsGen, split train: 1 records lost" in result.said
    assert states(pipeline)["StatisticsGen"] == "FAILED"


def test_input_that_vanishes_stops_the_run(pipeline: Any) -> None:
    """B9: an image that is deleted between listing and reading is named, and nothing after ingest is run."""
    victim = min((pipeline.data / "one").iterdir())
    vanish = (
        "import os\n"
        "from pipelines import quiet; quiet.prepare_environment()\n"
        "import components.ingest.write.files as files\n"
        "whole = files.write_shard\n"
        "def write_shard(*arguments):\n"
        f"    if os.path.exists({str(victim)!r}): os.unlink({str(victim)!r})\n"
        "    return whole(*arguments)\n"
        "files.write_shard = write_shard"
    )
    result = pipeline.run(before=vanish)

    assert result.code == 4, result.said
    assert f"{victim}: cannot be read: No such file or directory" in result.said
    assert states(pipeline) == {"Ingest": "FAILED"}


def test_full_disk_leaves_no_half_artifact(pipeline: Any, small_disk: Path, make_pipeline: Any) -> None:
    """A disk that fills up ends the run with its own code, says how much is free, and publishes nothing."""
    tiny = make_pipeline(pipeline.data, small_disk / "root")
    result = tiny.run("--to", "Ingest")

    assert result.code == 7, result.said
    assert re.search(r"no space left on its disk: [\d.]+ MB free, the data alone is [\d.]+ MB", result.said)
    assert list(tiny.store().finished("Ingest")) == []


def test_beam_flags_change_no_byte(pipeline: Any, tmp_path: Path, make_pipeline: Any) -> None:
    """Flags after `--` reach Beam, and two worker processes write the same shards as one thread."""
    other = make_pipeline(pipeline.data, tmp_path / "other")
    one = pipeline.run("--to", "Ingest")
    two = other.run("--to", "Ingest", "--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
    log = max((other.root / "logs").iterdir()).read_text()

    assert (one.code, two.code) == (0, 0), one.said + two.said
    assert shard_bytes(pipeline) == shard_bytes(other)
    assert "multi_processing" in log


@pytest.mark.parametrize("name", ["../up", "/abs", "UPPER", "a b", "file://x"])
def test_unsafe_pipeline_names_are_refused(pipeline: Any, name: str) -> None:
    """D4: a pipeline name that could leave the root is refused, and nothing is made."""
    result = pipeline.run("--name", name)

    assert result.code == 2
    assert f"pipeline name {name!r}" in result.said
    assert not pipeline.root.exists()


@pytest.mark.parametrize("path", ["file:///etc", "ftp://host/x"])
def test_not_every_address_is_taken(pipeline: Any, path: str) -> None:
    """D4: only what Beam has a filesystem for."""
    result = pipeline.run("--data", path)

    assert (result.code, path in result.said) == (2, True)


def test_root_that_cannot_be_written_is_named(pipeline: Any, open_folder: Path) -> None:
    """B9: a read-only root ends the run at once, with the reason."""
    (open_folder / "root").mkdir(mode=0o555)
    # Root may write anywhere; the modules are imported first because another user may not read them.
    limited = "import os, pipelines.config, pipelines.orchestration.run, components.tasks.image\n"
    limited += "os.seteuid(65534)" if os.geteuid() == 0 else ""
    result = type(pipeline)(pipeline.data, open_folder / "root" / "inner").run(before=limited)

    assert result.code == 4
    assert "cannot be written: Permission denied; choose another --root" in result.said


def test_terminal_shows_our_lines_only(pipeline: Any) -> None:
    """On a terminal there is a moving line and one line a node; what libraries log is in the log file."""
    reader, writer = pty.openpty()
    process = pipeline.start("--to", "StatisticsGen", stdout=writer)
    os.close(writer)
    shown = ""
    with suppress(OSError):  # Linux ends a terminal whose other side is closed with EIO
        while True:
            shown += os.read(reader, 4096).decode(errors="replace")
    process.wait(timeout=60)

    assert process.returncode == 0
    assert not re.search(r"^[IWE]\d{4} |Warning|WARNING|tensorflow", shown, re.MULTILINE)
    assert "▸ StatisticsGen" in shown
    assert "MetadataStore" in max((pipeline.root / "logs").iterdir()).read_text()
