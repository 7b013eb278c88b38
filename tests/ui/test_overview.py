"""What the page shows of a folder of roots."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from components.progress import Progress
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.journal.events import EventLog
from pipelines.ui import overview, pages
from pipelines.ui.overview import Overview, PipelineView
from pipelines.ui.site import FileLinks
from pipelines.watch.history import NodeRun, Run
from tests.ui.conftest import NOW, call, write_calls
from tests.watch.conftest import Runs

Read = Callable[[], Overview]


def test_every_pipeline_of_a_folder(read: Read) -> None:
    """Runs, live model and schedule come from journal, live pointer and ledger."""
    customers, flowers = read().pipelines

    assert [(run.id, run.state) for run in customers.runs] == [
        ("20261118-030000-abcd", "succeeded"),
        ("20261117-030000-abcd", "gate stopped"),
        ("20261116-030000-abcd", "succeeded"),
    ]
    assert customers.live is not None
    assert (customers.live.live.version, customers.runs[1].drift) == (18, 1.7)
    assert [tick.state for each in customers.schedules for tick in each.last] == ["pushed", "gate stopped", "pushed"]
    assert customers.runs[0].report == customers.pipeline.logs / "20261118-030000-abcd.html"
    assert (flowers.live, flowers.schedules, [run.reason for run in flowers.runs]) == (None, (), ["no disk"])


def test_a_pipeline_that_cannot_be_read(root: Path, read: Read) -> None:
    """A damaged file is named; the other pipelines are shown as usual."""
    (root / "customers" / "live.json").write_text("{")
    customers, flowers = read().pipelines

    assert "live.json: damaged" in customers.problem
    assert len(flowers.runs) == 1


def test_metadata_that_cannot_be_read(root: Path, read: Read) -> None:
    """A damaged database is the problem of its own row."""
    (root / "broken").mkdir()
    (root / "broken" / "metadata.db").write_bytes(b"no database" * 100)
    found = {view.pipeline.name: view.problem for view in read().pipelines}

    assert (found["customers"], found["flowers"]) == ("", "")
    assert "metadata.db: cannot be read" in found["broken"]


def test_pages_of_equal_names(tmp_path: Path) -> None:
    """Two pipelines of one name, and names that are no file names, have pages of their own."""
    for folder, name in (("a", "customers"), ("b", "customers"), ("c", "größe & co"), ("d", "größe ? co")):
        write_calls(tmp_path / folder, call(1, pipeline=name))
    keys = [view.key for view in overview.read(tmp_path, NOW).pipelines]

    assert len({*keys}) == 4
    assert all(key.replace("-", "").isalnum() and key.isascii() for key in keys)


def test_what_a_running_node_says(tmp_path: Path) -> None:
    """Its newest progress in the log of events, as `penstock status` shows it."""
    runs = Runs(tmp_path / "root")
    runs.executions("R", {"Ingest": "COMPLETE", "Trainer": "RUNNING"})
    log = EventLog(runs.pipeline.logs / "R.jsonl", "R", "image")
    with calls.opened(runs.config, Origin("R")) as call:
        log.node_started("Trainer", "first run")
        log.progress(Progress(1000, 5000))
        found = overview.read(tmp_path / "root", NOW)
        call.end(0, "")

    assert found.pipelines[0].progress is not None
    assert found.pipelines[0].progress.place == "1,000 of 5,000 records"
    assert "It is at 1,000 of 5,000 records." in pages.of_pipeline(found, found.pipelines[0], FileLinks(tmp_path))


def test_progress_of_a_running_node(read: Read) -> None:
    """Its time against the usual one, which is the median of the runs before; nothing without such a run."""
    view = read().pipelines[0]
    now = NodeRun("Trainer", "running", "", "", 15.0)
    done = NodeRun("Ingest", "ran", "", "", 1.0)
    before = tuple(
        Run(str(at), "customers", "succeeded", "", "", 1.0, (NodeRun("Trainer", "ran", "", "", seconds),))
        for at, seconds in enumerate((20.0, 30.0, 90.0))
    )
    running = Run("r", "customers", "running", "", "", 16.0, (done, now))
    progress = replace(view, runs=(running, *before)).progress

    assert progress is not None
    assert (progress.node, progress.usual, progress.done, progress.part) == (now, 30.0, 1, 0.5)
    first = PipelineView("k", view.pipeline, (running,)).progress
    assert first is not None
    assert (first.usual, first.part) == (None, None)
    assert replace(view, runs=before).progress is None
