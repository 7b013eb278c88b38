"""A run reads the flags of its stores before it asks them, and one that lost its lock touches nothing of the next."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.errors import Locked
from pipelines import config as run_config
from pipelines import run
from pipelines.journal import calls
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.remote import lease, remote_root
from pipelines.report import model_card, page

CALL = calls.OpenCall(Path(), (), calls.Call("20261119-014433-7f3a", 1, "", 1, "host"))


def test_a_run_that_lost_its_lock_leaves_executions_and_reports_alone(
    s3_bucket: str, tmp_path: Path, open_metadata: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the run that has taken the lock over."""
    config = run_config.make("image", data=".", root=f"{s3_bucket}/root", state=str(tmp_path))
    assert config.store is not None
    open_metadata(tmp_path / "metadata.db")("Trainer", state="RUNNING")
    config.report.write_text("mine")
    monkeypatch.setattr(page, "write", lambda *_: None)
    monkeypatch.setattr(model_card, "write", lambda *_: None)
    store: Any = Store(config.metadata, "image", read_only=False)
    nothing: Any = None

    def end(held: lease.Lease) -> tuple[str, bool]:
        ended = run._TfxRun(config, store, nothing, held, CALL)
        ended._close_executions("FAILED")
        ended._write_report(nothing)
        (execution,) = store.executions("Trainer")
        return execution.state, (config.store / "report.html").is_file()  # type: ignore[operator]

    with lease.hold(config.store, "mine") as first, lease.hold(config.store, "other", take_over=True):
        first.beat()
        assert end(first) == ("RUNNING", False)
    with lease.hold(config.store, "mine") as holding:
        assert end(holding) == ("FAILED", True)


@pytest.mark.parametrize("place", ["data", "root", "serving"])
def test_flags_of_s3_count_for_every_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the data alone."""
    monkeypatch.setenv("AWS_REGION", "before")
    config = run_config.make(
        "image",
        data="s3://bucket/data" if place == "data" else ".",
        root="s3://bucket/root" if place == "root" else str(tmp_path),
        state=str(tmp_path) if place == "root" else None,
        flags=["push.directory=s3://bucket/serving"] if place == "serving" else [],
        beam_args=["--s3_region_name=moon"],
    )
    remote_root.prepare(config)
    assert os.environ["AWS_REGION"] == "moon"


@pytest.mark.parametrize("state", ["ran", "failed", "cached", ""])
def test_an_old_quarantine_list_is_not_uploaded(
    s3_bucket: str, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that of an Ingest in this run: on a shared root, it may be older than the one on the store."""
    config = run_config.make("image", data=".", root=f"{s3_bucket}/root", state=str(tmp_path))
    assert config.store is not None
    config.quarantine_list.write_text("")
    monkeypatch.setattr(page, "write", lambda *_: None)
    monkeypatch.setattr(model_card, "write", lambda *_: None)
    nothing: Any = None
    ended = run._TfxRun(config, nothing, nothing, nothing, CALL)
    ended._nodes += [NodeFacts("Ingest", state, 0.0, "")] if state else []
    ended._write_report(nothing)
    assert (config.store / "quarantine.jsonl").is_file() is (state in ("ran", "failed"))


def test_a_run_that_lost_its_lock_starts_no_node(s3_bucket: str, tmp_path: Path) -> None:
    """Not even one that is up to date, whose outputs it would publish again."""
    from pipelines.orchestration.local_runner import Hooks, LocalRunner

    config = run_config.make("image", data=".", root=f"{s3_bucket}/root", state=str(tmp_path))
    assert config.store is not None
    planned: Any = SimpleNamespace(node=SimpleNamespace(id="Ingest"), execution=None, reason="")
    ended: list[str] = []
    nothing: Any = None
    with lease.hold(config.store, "mine") as first, lease.hold(config.store, "other", take_over=True):
        first.beat()
        hooks = Hooks(lambda _: None, nothing, nothing, lambda node: ended.append(node.state))
        runner = LocalRunner(config, nothing, hooks, nothing, "run", first)
        with pytest.raises(Locked):
            runner._run_node(planned, nothing, nothing, nothing, nothing)
    assert ended == ["failed"]
