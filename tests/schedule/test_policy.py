"""What becomes of ticks that cannot run when they are due."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from pipelines.schedule import policy
from pipelines.schedule.policy import TickRecord
from pipelines.schedule.schedule import CatchUp, PipelineSchedule

At = Callable[[str], datetime]
Nightly = Callable[..., PipelineSchedule]
MakeTick = Callable[..., TickRecord]


def decided(schedule: PipelineSchedule, ledger: list[TickRecord], now: datetime, **more: Any) -> dict[int, str]:
    """Returns day and new state of each tick that is decided."""
    return {each.tick.local.day: each.state for each in policy.decide(schedule, ledger, now, **more)}


def test_a_tick_is_started_when_it_is_due(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """Not a second before."""
    ledger = [tick(9, "pushed")]

    assert decided(nightly(), ledger, at("2026-03-10T01:59:59")) == {}
    assert decided(nightly(), ledger, at("2026-03-10T02:00:00")) == {10: "running"}


@pytest.mark.parametrize(("overlap", "state"), [("skip", "skipped"), ("queue", "queued")])
def test_a_run_longer_than_the_interval(overlap: str, state: str, nightly: Nightly, tick: MakeTick, at: At) -> None:
    """C1: the tick is skipped or queued, and none is started while a run goes on."""
    schedule, ledger = nightly(overlap=overlap), [tick(9, "running")]

    (found,) = policy.decide(schedule, ledger, at("2026-03-10T02:00"))

    assert (found.tick.key, found.state) == ("2026-03-10T03:00", state)
    assert "run of tick 2026-03-09T03:00" in found.reason


def test_the_newest_tick_waits_and_is_started_after_the_run(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """C1: with --overlap queue; with --catch-up all, each waits, and they run in order."""
    newest, each = nightly(overlap="queue"), nightly(overlap="queue", catch_up="all")
    busy, free = ([tick(9, state), tick(10, "queued")] for state in ("running", "pushed"))

    assert decided(newest, busy, at("2026-03-11T02:00")) == {10: "missed", 11: "queued"}
    assert decided(each, busy, at("2026-03-11T02:00")) == {11: "queued"}
    assert decided(newest, free, at("2026-03-10T05:00")) == {10: "running"}
    assert decided(each, free, at("2026-03-11T02:00")) == {10: "running", 11: "queued"}


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("none", dict.fromkeys(range(10, 15), "missed")),
        ("last", {**dict.fromkeys(range(10, 14), "missed"), 14: "running"}),
        ("all", {10: "running", **dict.fromkeys(range(11, 15), "queued")}),
    ],
)
def test_the_scheduler_was_down(
    catch_up: CatchUp, expected: dict[int, str], nightly: Nightly, tick: MakeTick, at: At
) -> None:
    """C2: five ticks were due meanwhile; every one gets a state, at most one is started, and the next is as usual."""
    schedule, ledger = nightly(catch_up=catch_up), [tick(9, "pushed")]

    assert decided(schedule, ledger, at("2026-03-14T12:00")) == expected
    assert nightly().catch_up == "last"
    after: Any = [tick(day, "pushed" if state != "missed" else state) for day, state in expected.items()]
    assert decided(schedule, after, at("2026-03-14T12:00")) == {}
    assert decided(schedule, after, at("2026-03-15T02:00")) == {15: "running"}


def test_a_tick_that_is_due_now_is_newer_than_those_that_were_missed(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """C2: without catching up, the one that is due at this moment still runs."""
    states = {10: "missed", 11: "missed", 12: "running"}

    assert decided(nightly(catch_up="none"), [tick(9, "pushed")], at("2026-03-12T02:00:10")) == states
    assert decided(nightly(catch_up="last"), [tick(9, "pushed")], at("2026-03-12T02:00:10")) == states


def test_a_clock_that_is_set_back_repeats_nothing(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """C3: not by an hour, and not by days; what the ledger lacks is due as soon as it comes."""
    ledger = [tick(9, "pushed"), tick(10, "pushed"), tick(11, "not better")]

    assert decided(nightly(), ledger, at("2026-03-11T01:00")) == {}
    assert decided(nightly(), ledger, at("2026-03-11T02:00")) == {}
    assert decided(nightly(), ledger, at("2026-03-09T02:00")) == {}
    assert decided(nightly(), ledger, at("2026-03-12T02:00")) == {12: "running"}


def test_a_clock_that_was_years_ahead_stops_nothing(nightly: Nightly, at: At) -> None:
    """C3: ticks that were decided in a false future do not hide those of the present."""
    schedule = nightly(catch_up="none")
    ahead = policy.decide(schedule, [], at("2036-03-01"))
    ledger = [TickRecord("sales", each.tick, each.state) for each in ahead]

    assert len(ledger) == policy.LOOK_BACK
    assert decided(schedule, ledger, at("2026-03-09T02:00:20")) == {
        **dict.fromkeys(range(1, 9), "missed"),
        9: "running",
    }


def test_an_interrupted_tick_is_started_again(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """Whatever the policy on ticks that never began, unless a newer one is due."""
    ledger = [tick(9, "queued", starts=1)]

    assert decided(nightly(catch_up="none"), ledger, at("2026-03-09T02:10")) == {9: "running"}
    assert decided(nightly(), ledger, at("2026-03-10T02:00")) == {9: "missed", 10: "running"}


def test_a_tick_waits_for_room(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """Runs of other pipelines delay a tick, and no policy on overlaps applies."""
    schedule, now = nightly(), at("2026-03-10T02:00")

    assert decided(schedule, [tick(9, "pushed")], now, is_free=False) == {10: "queued"}
    assert decided(schedule, [tick(9, "pushed"), tick(10, "queued")], now, is_free=False) == {}
    assert decided(schedule, [tick(9, "pushed"), tick(10, "queued")], now) == {10: "running"}


def test_a_paused_schedule_has_no_ticks(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """After it is resumed, those of the pause are not caught up."""
    resumed = nightly(resumed=at("2026-03-12"), catch_up="all")

    assert decided(replace(resumed, paused=True), [tick(9, "queued")], at("2026-03-20")) == {}
    assert decided(resumed, [tick(9, "pushed")], at("2026-03-12T02:00")) == {12: "running"}


def test_a_run_by_hand_hides_no_missed_tick(nightly: Nightly, tick: MakeTick, at: At) -> None:
    """C2: ticks that were due before `run-now` still get a state."""
    by_hand = nightly().timetable.by_hand(at("2026-03-11T12:00"))
    ledger = [tick(9, "pushed"), TickRecord("sales", by_hand, "pushed")]

    assert decided(nightly(), ledger, at("2026-03-11T13:00")) == {10: "missed", 11: "running"}
