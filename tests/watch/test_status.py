"""What `penstock status`, `runs` and `logs` say of pipelines, and the exit code for a monitor."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from components.errors import SettingsError
from components.progress import Progress
from pipelines import cli
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.journal.events import EventLog
from pipelines.watch import logs, pipelines, status

NOW = datetime(2026, 11, 19, 3, 0, tzinfo=timezone.utc)


def command(*arguments: str, code: int = 0) -> str:
    """Returns what a command prints; it must end with this exit code."""
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.mark.parametrize(
    ("codes", "health"),
    [
        ([0], "well"),
        ([0, 3], "well"),
        ([0, 4], "failing"),
        ([4, 0], "well"),
        ([4, 130], "failing"),
        ([4, 10], "failing"),
        ([0, 5], "failing"),
        ([0, 9], "late"),
    ],
)
def test_the_last_run_with_a_result_decides(runs: Any, codes: list[int], health: str) -> None:
    """One that a person cancelled, or that was left out, says nothing; a model that is not better is no failure."""
    for number, code in enumerate(codes):
        runs.call(f"{number}", code)

    assert status.of(runs.pipeline, NOW).health == health


def test_a_run_that_goes_on_makes_up_for_a_late_one(runs: Any) -> None:
    """9 is for a late pipeline on which nothing works; a failure stays until a run has ended well."""
    runs.call("A", 9)
    with calls.opened(runs.config, Origin("B")) as call:
        late = status.of(runs.pipeline, NOW).health
        call.end(4, "data: empty")
    with calls.opened(runs.config, Origin("C")) as call:
        failed = status.of(runs.pipeline, NOW).health
        call.end(0, "")

    assert (late, failed) == ("well", "failing")


def test_state_and_result_are_of_one_run(runs: Any) -> None:
    """Of the one that decides, and not of one that was cancelled after it; a text that is cut says so."""
    runs.call("A", 4, f"data: empty {'x' * 99} end")
    runs.call("B", 130, "stopped by SIGINT")
    shown = command("status", "--root", str(runs.config.root), code=1)

    assert "failing" in shown
    assert "failed: data: empty" in shown
    assert "…" in shown
    assert "SIGINT" not in shown


def test_a_running_node_has_its_progress(runs: Any) -> None:
    """The newest of the node that runs now, from the log of events."""
    runs.executions("R", {"Ingest": "COMPLETE", "Trainer": "RUNNING"})
    log = EventLog(runs.pipeline.logs / "R.jsonl", "R", "image")
    with calls.opened(runs.config, Origin("R")) as call:
        log.node_started("Ingest", "first run")
        log.progress(Progress(10, 20))
        before = status.of(runs.pipeline, NOW)
        log.node_started("Trainer", "first run")
        log.progress(Progress(100, 200, place="epoch 1/2"))
        log.progress(Progress(101, 200, place="epoch 1/2"))  # within two seconds
        now = status.of(runs.pipeline, NOW)
        shown = command("status", "--root", str(runs.config.root))
        call.end(0, "")

    assert before.progress is None
    assert now.running is not None
    assert now.running.node is not None
    assert (now.running.node.node, now.running.state, now.last, now.health) == ("Trainer", "running", None, "well")
    assert now.progress is not None
    assert {name: now.progress[name] for name in ("done", "total", "place")} == {
        "done": 100, "total": 200, "place": "epoch 1/2",
    }  # fmt: skip
    assert "running Trainer for" in shown
    assert "epoch 1/2" in shown


def test_the_worst_pipeline_decides_the_exit_code(make_runs: Callable[..., Any], tmp_path: Path) -> None:
    """1 before 9; `--json` has every pipeline, and the names of states do not depend on the terminal."""
    for folder, code in (("runs/a", 0), ("runs/b", 9)):
        make_runs(folder).call("R", code, "because", live=None)
    late = orjson.loads(command("status", "--root", str(tmp_path / "runs"), "--json", code=9))
    make_runs("runs/c").call("R", 7)
    command("status", "--root", str(tmp_path / "runs"), code=1)
    command("status", "--root", str(tmp_path / "runs" / "a"))

    assert [(each["root"], each["health"], each["results"], each["schedule"]) for each in late] == [
        (str(tmp_path / "runs" / "a"), "well", ["succeeded"], None),
        (str(tmp_path / "runs" / "b"), "late", ["late"], None),
    ]


def test_a_run_with_a_log_and_a_report_as_json(runs: Any) -> None:
    """Their paths are texts, in every command that prints runs."""
    runs.call("R")
    runs.pipeline.logs.mkdir()
    for kind in ("log", "html"):
        (runs.pipeline.logs / f"R.{kind}").write_text(kind)
    root = ("--root", str(runs.config.root), "--json")
    found = [
        orjson.loads(command("status", *root))[0]["last"],
        orjson.loads(command("runs", "list", *root))[0],
        orjson.loads(command("runs", "show", "R", *root)),
    ]

    assert {(each["log"], each["report"]) for each in found} == {
        (str(runs.pipeline.logs / "R.log"), str(runs.pipeline.logs / "R.html"))
    }


def test_the_command_of_a_run_can_be_run_again(runs: Any) -> None:
    """A shell reads the words that were given; the report has its line."""
    runs.call("R", command=("run", "image", "--because", "bug week"))
    runs.pipeline.logs.mkdir()
    (runs.pipeline.logs / "R.html").touch()
    shown = command("runs", "show", "R", "--root", str(runs.config.root)).splitlines()

    assert [line.split(maxsplit=1)[1] for line in shown if line.startswith(("command", "report"))] == [
        "penstock run image --because 'bug week'", str(runs.pipeline.logs / "R.html"),
    ]  # fmt: skip


@pytest.mark.parametrize("folder", ["", "empty"])
def test_there_is_no_run_yet(folder: str, runs: Any, tmp_path: Path) -> None:
    """The message says how to start one: of a pipeline, and of a folder without pipelines."""
    runs.pipeline.calls.mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(cli.app, ["runs", "show", "last", "--root", str(tmp_path / (folder or "root"))])

    assert isinstance(done.exception, SettingsError)
    assert "no runs yet" in str(done.exception)
    assert "start one with penstock run TASK" in str(done.exception)


def test_runs_of_all_pipelines_are_listed_newest_first(make_runs: Callable[..., Any], tmp_path: Path) -> None:
    """A run is found by its id among them; one that two pipelines have is asked for."""
    for folder, name, run in (("r/a", "x", "one"), ("r/b", "y", "two"), ("r/a", "x", "both"), ("r/b", "y", "both")):
        make_runs(folder, name).call(run, 4 if run == "two" else 0, f"reason {run}")
    root = ["--root", str(tmp_path / "r")]
    listed = orjson.loads(command("runs", "list", *root, "--json"))

    assert [(each["id"], each["pipeline"]) for each in listed] == [
        ("both", "y"), ("both", "x"), ("two", "y"), ("one", "x"),
    ]  # fmt: skip
    assert "reason two" in command("runs", "show", "tw", *root)
    assert orjson.loads(command("runs", "show", "last", *root, "--json"))["pipeline"] == "y"
    assert orjson.loads(command("runs", "show", "both", "--name", "x", *root, "--json"))["pipeline"] == "x"
    wrong = CliRunner().invoke(cli.app, ["runs", "show", "both", *root])
    assert isinstance(wrong.exception, SettingsError)
    assert "it is known to: x, y; choose one with --name" in str(wrong.exception)


def test_the_last_run_beside_a_pipeline_without_one(make_runs: Callable[..., Any], tmp_path: Path) -> None:
    """One that found its root locked left a folder, and no run."""
    make_runs("many/a").call("R")
    make_runs("many/b").pipeline.calls.mkdir(parents=True)
    done = CliRunner().invoke(cli.app, ["runs", "show", "last", "--root", str(tmp_path / "many")])

    assert (done.exit_code, "R" in done.output) == (0, True), done.output


def test_two_runs_are_compared(runs: Any) -> None:
    """Only what differs is shown."""
    runs.call("a", metrics={"accuracy": 0.5}, records={"train": 5})
    runs.call("b", metrics={"accuracy": 0.75}, records={"train": 5})
    shown = orjson.loads(command("runs", "compare", "a", "b", "--root", str(runs.config.root), "--json"))
    metrics = [each for each in shown["differences"] if each["group"] in ("metrics", "records")]

    assert metrics == [{"group": "metrics", "name": "accuracy", "first": 0.5, "second": 0.75}]


def test_the_log_of_a_run_is_printed(runs: Any) -> None:
    """As it is, or its events; one without a log says what the run led to."""
    runs.call("R", 1, "failed: because")
    runs.call("S", state="nothing due")
    runs.pipeline.logs.mkdir()
    (runs.pipeline.logs / "R.log").write_bytes(b"first\nl\xc3\xa4st \xff\n")
    (runs.pipeline.logs / "R.jsonl").write_text('{"event": "run started"}\n')
    root = ["--root", str(runs.config.root)]

    assert command("logs", "R", *root) == "first\nläst �\n"
    assert command("logs", "R", "--events", *root) == '{"event": "run started"}\n'
    assert "run S: no log, because it loaded no library: nothing due" in command("logs", "S", *root)


def test_a_growing_log_is_followed_to_its_end(tmp_path: Path) -> None:
    """From before its first line to what was written just before the run ended."""
    file, steps = tmp_path / "R.log", iter(["", "one\n", "one\ntwo\n", None])

    def goes_on() -> bool:
        content = next(steps)
        if content:
            file.write_text(content)
        return content is not None

    assert list(logs.follow(file, goes_on, lambda _: None)) == ["one\n", "two\n"]


def test_a_character_that_is_cut_is_whole(tmp_path: Path) -> None:
    """A writer may have written a part of it when the log is read."""
    file, steps = tmp_path / "R.log", iter([b"caf\xc3", b"caf\xc3\xa9\n\xff", b""])

    def goes_on() -> bool:
        content = next(steps)
        file.write_bytes(content or file.read_bytes())
        return bool(content)

    assert "".join(logs.follow(file, goes_on, lambda _: None)) == "café\n\N{REPLACEMENT CHARACTER}"


def test_events_are_private_whole_lines_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: each line is JSON with time, run and pipeline; the file is readable by its owner only."""
    monkeypatch.setenv("SOME_TOKEN", "tok-123456")
    log = EventLog(tmp_path / "logs" / "R.jsonl", "R", "image")
    log.write("warning", message="tok-123456\nsecond line", seconds=None)
    log.ended(4, "password=hunter22")
    lines = [orjson.loads(line) for line in (tmp_path / "logs" / "R.jsonl").read_bytes().splitlines()]

    assert [{**line, "time": "", "seconds": 0} for line in lines] == [
        {"time": "", "run": "R", "pipeline": "image", "event": "warning", "message": "***\nsecond line", "seconds": 0},
        {
            "time": "", "run": "R", "pipeline": "image", "event": "run ended", "state": "failed", "exit_code": 4,
            "reason": "password=***", "seconds": 0,
        },
    ]  # fmt: skip
    assert (tmp_path / "logs" / "R.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_may_not_be_read(
    open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    """Such as lost+found on a disk of its own: it is no root."""
    (open_folder / "lost+found").mkdir(mode=0)
    with without_rights():
        assert pipelines.find(open_folder) == []
