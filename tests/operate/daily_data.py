"""Daily tables, and a pipeline that is retrained on them."""

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from components.ingest.survey import cached
from components.serving import live
from components.serving.live import LiveModel, Move
from components.storage import paths
from components.storage.hashing import HashCache
from pipelines import config
from pipelines.config import RunConfig
from pipelines.operate import retrain, ticks, window
from pipelines.operate.retrain import RetrainRequest
from pipelines.operate.ticks import Attempt


class Data:
    """Daily tables, and a pipeline on them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []
        self.runs: list[str] = []  # lines with the id of a run

    def say(self, line: str) -> None:
        """Keeps a line that was said."""
        (self.runs if line.startswith("run ") else self.said).append(line)

    def write(self, *days: str) -> None:
        """Writes a table per day."""
        for day in days:
            (self.home / day).mkdir(parents=True)
            (self.home / day / "a.csv").write_text("size,label\n1,a\n2,b\n")

    def config(self, *flags: str) -> RunConfig:
        """Returns the configuration with some settings."""
        pattern = f"{self.home}/{{YYYY}}-{{MM}}-{{DD}}/*.csv"
        return config.make("tabular", data=pattern, root=str(self.home / "root"), flags=flags)

    def retrain(self, *flags: str, pause: Callable[[float], None] = lambda _: None, **values: Any) -> int:
        """Retrains for the third day."""
        request = RetrainRequest(**{"span": "2026-11-03", "timeout": 60, **values})
        return retrain.retrain(self.config(*flags), request, self.say, pause)

    def attempts(self, span: str = "2026-11-03") -> list[tuple[str, int]]:
        """Returns outcome and exit code of each recorded attempt."""
        return [(each.outcome, each.exit_code) for each in ticks.of(self.config()).of_span(span)]

    def record(self, *flags: str, day: str = "2026-11-03", **values: Any) -> Attempt:
        """Writes into the ledger that the day was retrained."""
        chosen, now = self.config(*flags), datetime.now(timezone.utc)
        found = window.resolve(chosen.data, chosen.settings.ingest.window, day, paths.matches, now)
        pinned = retrain._pinned(chosen, found)
        cache = HashCache(None)
        survey = cached.take(pinned.data, pinned.settings.ingest, cache, pinned.needs)
        attempt = Attempt(
            **{
                "span": day, "place": found.tick, "key": ticks.key_of(pinned, found, survey, cache),
                "outcome": "pushed", "reason": "pushed as version 7", "exit_code": 0, "started": "",
                "ended": "2026-11-04T06:00:00", "version": "7", **values,
            }
        )  # fmt: skip
        ticks.of(chosen).add(attempt)
        if attempt.version:
            self.move("push", int(attempt.version), day)
        return attempt

    def move(self, kind: live.Kind, version: int, day: str, source: str = "") -> None:
        """Makes a version live, which was trained up to a day."""
        folder = self.home / "root" / "serving" / str(version)
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        number = int(source or version)
        model = LiveModel(number, f"model {number}", spans=("s20261101", f"s{day.replace('-', '')}"))
        source = str(folder.with_name(source)) if source else ""
        move = Move(kind, str(folder), live.now(), "ann", "bad labels", model, source)
        live.write(self.home / "root", lambda pointer: live.follow(pointer, [move], "tabular"))
