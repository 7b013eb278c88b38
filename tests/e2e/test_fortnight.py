"""Fourteen days of retraining with what goes wrong in them, then a rollback; and the same days without the kills.

The table in docs/retraining.md is what the calls of this test did.
"""

import csv
import gzip
import io
import random
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.records import manifest
from components.serving import live

pytestmark = [pytest.mark.all, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "retraining.md"
FIRST = date(2024, 2, 20)  # so that 29 February is one of the days
ROWS, HELD_OUT = 600, 3000  # per day; of the fixed hold-out
COMMON = ("ingest.window=last 5", "train.epochs=6")
CENTERS = {"ant": (0.0, 0.0), "bee": (3.0, 0.0), "wasp": (1.5, 2.6), "moth": (9.0, 9.0)}
PLACES = {"ant": "nnnw", "bee": "ssse", "wasp": "nsew", "moth": "nsew"}
USUAL = ("ant", "bee", "wasp")
WITH_MOTHS = (*USUAL, "moth")
READERS = (("Trainer", "base_model"), ("Evaluator", "baseline_model"))  # inputs that are models
WEIGHTS = "variables/variables.data-00000-of-00001"
# Kills the process group in the middle of training, when the call that follows the twelfth begins.
KILLED_IN_TRAINING = """
import os, signal
from components.training.calls import Calls
call, calls = Calls.__call__, []
def killed(self, iterator, left):
    if len(calls) == 12:
        os.killpg(0, signal.SIGKILL)
    calls.append(self)
    return call(self, iterator, left)
Calls.__call__ = killed
"""


def day_text(number: int) -> str:
    """Returns a day, counted from 1, as people write it."""
    return (FIRST + timedelta(days=number - 1)).isoformat()


def draw_rows(seed: str, count: int, classes: Sequence[str], scale: float = 1.0) -> list[tuple[float, float, str, str]]:
    """Returns rows of two sizes, a place and a class; the classes overlap, so that no model is always right."""
    chosen = random.Random(seed)
    rows = []
    for number in range(count):
        name = classes[number % len(classes)]
        width, height = (round(chosen.gauss(center, 1.0), 3) for center in CENTERS[name])
        rows.append((round(scale * width, 3), height, chosen.choice(PLACES[name]), name))
    return rows


def write_day(
    data: Path, number: int, version: int = 1, classes: Sequence[str] = USUAL, scale: float = 1.0, cut: bool = False
) -> None:
    """Writes the file of one day and version; the same arguments give the same bytes."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["width", "height", "place", "label"])
    rows.writerows(draw_rows(f"{number} {version}", ROWS, classes, scale))
    content = gzip.compress(text.getvalue().encode(), mtime=0)
    folder = data / day_text(number) / f"v{version}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv.gz").write_bytes(content[: len(content) // 2] if cut else content)


@dataclass(frozen=True)
class Outcome:
    """What a call did."""

    code: int
    line: str  # the last one, without the day and without advice
    version: int  # that is live
    read: tuple[int, ...] = ()  # days whose files Ingest read
    linked: tuple[int, ...] = ()  # days whose shards it linked
    compared: tuple[int, ...] = ()  # days that the Gate compared with the live model's data
    analyzed: str = ""  # spans that Transform read, of all
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """One call of `penstock retrain`, what happened before it, and what it must do."""

    day: int
    happened: str
    outcome: Outcome
    writes: Callable[[Path], None] = lambda _: None
    flags: tuple[str, ...] = ()
    killed: str = ""  # node


def arrives(day: int, **more: Any) -> Callable[[Path], None]:
    """Returns a function that writes a day."""
    return lambda data: write_day(data, day, **more)


def corrected_with_the_next(data: Path) -> None:
    """Writes the second version of day 8, and day 9."""
    write_day(data, 8, 2)
    write_day(data, 9)


ALLOW_FOUR, ALLOW_ONE = (("--set", f"ingest.gaps=allow {number}") for number in (4, 1))
FOUND = ("drift:width", "drift:height", "drift:label", "classes:label")
ACCEPT = (*(word for finding in FOUND for word in ("--accept", finding)), "--because", "moths are new")
WARM = "pushed version {}, warm start from the live model"
STOPPED = "gate stopped: the data is not fit for training"
NO_FILE = "not there: no file logs/{}/v*/*.csv.gz"
CALLS = (
    Call(
        1, "the first day arrives",
        Outcome(0, "pushed version 1, cold start: no earlier model", 1, (1,), (), (), "1 of 1"),
        arrives(1), ALLOW_FOUR,
    ),
    Call(2, "the day arrives", Outcome(0, WARM.format(2), 2, (2,), (1,), (2,), "1 of 2"), arrives(2), ALLOW_FOUR),
    Call(2, "called again", Outcome(0, "done: span 2024-02-21, version 2 is live", 2), flags=ALLOW_FOUR),
    Call(3, "the day is late", Outcome(9, f"is {NO_FILE.format('2024-02-22')}", 2), flags=ALLOW_FOUR),
    Call(3, "it arrives", Outcome(0, WARM.format(3), 3, (3,), (1, 2), (3,), "1 of 3"), arrives(3), ALLOW_FOUR),
    Call(4, "`kill -9` in Ingest", Outcome(-9, "", 3), arrives(4), ALLOW_FOUR, killed="Ingest"),
    Call(4, "called again", Outcome(0, WARM.format(4), 4, (4,), (1, 2, 3), (4,), "1 of 4"), flags=ALLOW_FOUR),
    Call(
        5, "never arrives, `ingest.late=skip`",
        Outcome(10, f"is skipped, because it is {NO_FILE.format('2024-02-24')} (ingest.late = skip)", 4),
        flags=("--set", "ingest.late=skip"),
    ),
    Call(
        6, "the day arrives; the day before is a gap",
        Outcome(
            9, "1 older spans of its window 2024-02-21..2024-02-25 are missing, 0 allowed (ingest.gaps = fail): "
            "2024-02-24", 4,
        ),
        arrives(6),
    ),
    Call(
        6, "`ingest.gaps=allow 1`, until the gap has left the window",
        Outcome(0, WARM.format(5), 5, (6,), (2, 3, 4), (6,), "1 of 4"), flags=ALLOW_ONE,
    ),
    Call(7, "the day arrives", Outcome(0, WARM.format(6), 6, (7,), (3, 4, 6), (7,), "1 of 4"), arrives(7), ALLOW_ONE),
    Call(
        7, "a corrected version of 2024-02-23 arrives",
        Outcome(0, WARM.format(7), 7, (4,), (3, 6, 7), (4,), "1 of 4"), arrives(4, version=2), ALLOW_ONE,
    ),
    Call(
        8, "the day arrives, one column in another unit",
        Outcome(5, STOPPED, 7, (8,), (4, 6, 7), (8,), findings=("drift:width",)), arrives(8, scale=2.54), ALLOW_ONE,
    ),
    Call(
        9, "a corrected version of 2024-02-27 arrives, and the day",
        Outcome(0, WARM.format(8), 8, (8, 9), (6, 7), (8, 9), "2 of 4"),
        corrected_with_the_next, ALLOW_ONE,
    ),
    Call(
        10, "the day arrives without one of the classes",
        Outcome(5, STOPPED, 8, (10,), (6, 7, 8, 9), (10,), findings=("drift:label", "classes:label")),
        arrives(10, classes=("ant", "bee")),
    ),
    Call(
        11, "the day arrives", Outcome(0, WARM.format(9), 9, (11,), (7, 8, 9, 10), (10, 11), "2 of 5"), arrives(11),
    ),
    Call(
        12, "the day arrives with a new class",
        Outcome(5, STOPPED, 9, (12,), (8, 9, 10, 11), (12,), findings=FOUND), arrives(12, classes=WITH_MOTHS),
    ),
    Call(
        12, "`--accept` each of them, `--because` it is right",
        Outcome(0, WARM.format(10), 10, (), (), (12,), "1 of 5"), flags=ACCEPT,
    ),
    Call(
        13, "half of the file arrives",
        Outcome(
            4, "logs/2024-03-03/v1/rows.csv.gz: damaged or truncated gzip data (Compressed file ended before the "
            "end-of-stream marker was reached)", 10,
        ),
        arrives(13, classes=WITH_MOTHS, cut=True),
    ),
    Call(
        13, "the whole file arrives", Outcome(0, WARM.format(11), 11, (13,), (9, 10, 11, 12), (13,), "1 of 5"),
        arrives(13, classes=WITH_MOTHS),
    ),
    Call(
        14, "`kill -9` in training", Outcome(-9, "", 11, (14,), (10, 11, 12, 13), (14,), "1 of 5"),
        arrives(14, classes=WITH_MOTHS), killed="Trainer",
    ),
    Call(14, "called again", Outcome(0, WARM.format(12), 12, (), (), (14,), "1 of 5")),
)  # fmt: skip
AFTER_ROLLBACK = Call(
    15, "version 12 was rolled back, and the day arrives",
    Outcome(0, WARM.format(14), 14, (15,), (11, 12, 13, 14), (14, 15), "1 of 5"), arrives(15, classes=WITH_MOTHS),
)  # fmt: skip


@dataclass
class Days:
    """A root, and what became of each call."""

    pipeline: Any
    home: Path
    root: Path
    watched: Callable[..., str]
    outcomes: list[Outcome] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    weights: dict[int, bytes] = field(default_factory=dict)  # of each version
    accuracies: dict[int, float] = field(default_factory=dict)  # of each version on the hold-out

    def play(self, calls: Sequence[Call], *, kills: bool = True) -> None:
        """Makes some calls, one after another; without kills, those that would be killed are left out."""
        for call in calls:
            call.writes(self.home / "logs")
            if kills or not call.killed:
                self.retrain(call)

    def retrain(self, call: Call) -> None:
        """Makes one call and notes what it did."""
        before = self.shards()
        words = [word for setting in COMMON for word in ("--set", setting)]
        arguments = ["retrain", *self.pipeline.arguments(*words, "--span", day_text(call.day), *call.flags)[1:]]
        code = {"Ingest": self.watched(self.home / "none", ["Ingest", 60]), "Trainer": KILLED_IN_TRAINING}
        started = self.pipeline.server.start_command(*arguments, before=code.get(call.killed, ""))
        result = started.wait()
        self.outputs.append(result.output)
        self.outcomes.append(self.outcome(call, result, before))

    def outcome(self, call: Call, result: Any, before: Mapping[Path, tuple[str, int]]) -> Outcome:
        """Returns what a call did.

        Args:
            call: the call.
            result: its exit code and output.
            before: the shards before it.
        """
        made = [shard for path, shard in self.shards().items() if path not in before]
        known = {inode for _, inode in before.values()}
        compared = re.search(r"statistics of new spans? (.+) alone$", result.output, re.MULTILINE)
        analyzed = re.search(r"(\d+ of \d+) spans analyzed", result.output)
        return Outcome(
            code=result.code,
            line=self.plain(result.output.splitlines()[-1], call.day) if result.code >= 0 else "",
            version=self.measured(),
            read=days_of(span for span, inode in made if inode not in known),
            linked=days_of(span for span, inode in made if inode in known),
            compared=days_of(f"s{day.replace('-', '')}" for day in compared[1].split(", ")) if compared else (),
            analyzed=analyzed[1] if analyzed else "",
            findings=tuple(re.findall(r"^    ([a-z]+:\w+) is [\d.]+, expected at most", result.output, re.MULTILINE)),
        )

    def plain(self, line: str, day: int) -> str:
        """Returns a line without the folder of the test, the day at its beginning, and the advice at its end."""
        for text in ("penstock: ", f"span {day_text(day)}: ", f"span {day_text(day)} "):
            line = line.removeprefix(text)
        return line.replace(f"{self.home}/", "").partition("; ")[0]

    def shards(self) -> dict[Path, tuple[str, int]]:
        """Returns the shards of finished artifacts, with their spans and inodes."""
        homes = [each.parent for each in (self.root / "Ingest" / "examples").glob("*/manifest.json")]
        found = [home / shard.name for home in homes for shard in manifest.read(home).shards]
        return {path: (manifest.span_of(path.name), path.stat().st_ino) for path in found}

    def pointer(self) -> live.LivePointer | None:
        """Returns which version is live, and the moves before."""
        return live.current(self.root, self.root / "serving", "tabular")

    def measured(self) -> int:
        """Returns the live version, 0 without one; the first time, notes its weights and its accuracy."""
        pointer = self.pointer()
        if pointer is None:
            return 0
        version, folder = pointer.live.version, Path(pointer.live.folder)
        if version not in self.weights:
            self.weights[version] = (folder / WEIGHTS).read_bytes()
            self.accuracies[version] = accuracy(folder)
        return version


def days_of(spans: Iterable[str]) -> tuple[int, ...]:
    """Returns the days of some spans, each once, in order."""
    dates = {datetime.strptime(span, "s%Y%m%d").date() for span in spans}  # noqa: DTZ007 - a date
    return tuple(sorted((each - FIRST).days + 1 for each in dates))


def accuracy(model: Path) -> float:
    """Returns the accuracy of a served model on the hold-out, which no training has seen."""
    rows = draw_rows("hold-out", HELD_OUT, USUAL)
    examples = []
    for width, height, place, _ in rows:
        record = tf.train.Example()
        values = record.features.feature
        values["width"].float_list.value.append(width)
        values["height"].float_list.value.append(height)
        values["place"].bytes_list.value.append(place.encode())
        examples.append(record.SerializeToString())
    answer = tf.saved_model.load(str(model)).signatures["serving_default"](examples=tf.constant(examples))
    predicted = answer["all_classes"][0].numpy()[answer["probabilities"].numpy().argmax(axis=1)]
    return float(np.mean(predicted == np.array([label.encode() for *_, label in rows])))


@pytest.fixture(scope="module")
def make_days(
    make_pipeline: Any, watched: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Days]:
    """Returns a function that makes an empty root."""

    def make(name: str) -> Days:
        home = tmp_path_factory.mktemp(name)
        data = home / "logs" / "{YYYY}-{MM}-{DD}" / "v{VERSION}" / "*.csv.gz"
        return Days(make_pipeline(data, home / "root", task="tabular"), home, home / "root", watched)

    return make


@pytest.fixture(scope="module")
def fortnight(make_days: Callable[[str], Days]) -> Days:
    """The root in which calls were killed, after the fourteenth day."""
    days = make_days("killed")
    days.play(CALLS)
    return days


def table(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> str:
    """Returns what the calls did, as it is in the documentation."""
    lines = [
        "| span | what happened | exit code | last line, and findings | read | linked | compared | analyzed | live |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for call, done in zip(calls, outcomes, strict=True):
        said = f"`{done.line}`" if done.line else "killed"
        names = ", ".join(f"`{each}`" for each in done.findings)
        days = (", ".join(day_text(day)[5:] for day in each) for each in (done.read, done.linked, done.compared))
        cells = [day_text(call.day), call.happened, done.code, ": ".join(filter(None, (said, names))), *days]
        lines.append(f"| {' | '.join(map(str, [*cells, done.analyzed, done.version]))} |")
    return "\n".join(lines)


def test_every_call_does_what_its_day_asks_for(fortnight: Days) -> None:
    """C5, C7, B1: outcome, exit code, reason, version and the spans that were read are those of the table in docs."""
    found = dict(zip([(call.day, call.happened) for call in CALLS], fortnight.outcomes, strict=True))
    again = [output for call, output in zip(CALLS, fortnight.outputs, strict=True) if call.happened == "called again"]
    accepted = fortnight.outputs[[call.flags for call in CALLS].index(ACCEPT)]

    assert found == {(call.day, call.happened): call.outcome for call in CALLS}
    assert "Ingest: an earlier run was killed in this node" in again[1]
    assert re.search(r"resumed at epoch [2-6]", again[2])
    assert "classes: new: moth (weights start from random values)" in accepted
    assert table(CALLS, fortnight.outcomes) in DOCS.read_text()


def test_the_live_model_never_gets_worse(fortnight: Days) -> None:
    """On a fixed hold-out, each live version is within two standard deviations of the best one before it, or better."""
    accuracies = [fortnight.accuracies[version] for version in range(1, 13)]
    best = [max(accuracies[: place + 1]) for place in range(len(accuracies))]
    noise = [2 * (value * (1 - value) / HELD_OUT) ** 0.5 for value in best]

    assert [a for a, b, allowed in zip(accuracies, best, noise, strict=True) if a < b - allowed] == []
    assert max(accuracies) > 0.9


def test_a_fresh_root_gives_the_same_versions_and_weights(fortnight: Days, make_days: Callable[[str], Days]) -> None:
    """B1, B3: without the kills, each version has the same weights, bit by bit."""
    days = make_days("never killed")
    days.play(CALLS, kills=False)

    ended = [done for done in fortnight.outcomes if done.code != -signal.SIGKILL]
    # A call that repeats a killed one need not read the files again.
    assert [replace(done, read=(), linked=()) for done in days.outcomes] == [
        replace(done, read=(), linked=()) for done in ended
    ]
    assert [*days.weights] == [*range(1, 13)]
    assert [version for version, found in days.weights.items() if found != fortnight.weights[version]] == []


def test_after_a_rollback_base_and_baseline_are_the_model_that_is_live_again(fortnight: Days) -> None:
    """The spans that only the withdrawn model was trained on are new once more."""
    command = ["models", "rollback", "tabular", "--root", str(fortnight.root), "--reason", "labels were wrong"]
    rolled_back = fortnight.pipeline.server.run(*command)
    fortnight.play([AFTER_ROLLBACK])
    pointer, store = fortnight.pointer(), fortnight.pipeline.store()
    assert pointer is not None
    models = {move.version: move.model.artifact for move in pointer.moves}
    base, baseline = (store.inputs(fortnight.pipeline.newest(node).id)[name].id for node, name in READERS)

    assert rolled_back.code == 0, rolled_back.output
    assert fortnight.outcomes.pop() == AFTER_ROLLBACK.outcome
    assert models[13] == models[11]
    assert (base, baseline) == (models[11], models[11])
