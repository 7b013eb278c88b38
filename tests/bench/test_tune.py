"""`penstock tune input`: what it measures, what it chooses, what it writes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.settings.input import Input
from components.settings.tree import Settings
from pipelines import cli, config
from pipelines.bench import show, tune
from pipelines.bench.measurements import MeasureJob, Measurement, MeasureResult, RecordFacts
from pipelines.bench.processes import jobs
from pipelines.bench.tune import Candidate, TuneResult

CURRENT = Candidate({}, (100.0, 102.0, 98.0), 50.0)


def candidate(rates: tuple[float, ...], **change: int | str | bool) -> Candidate:
    """A change and its rates."""
    return Candidate(dict(change), rates, 50.0)


class TestSearch:
    """Single changes, then the combination of those that gain."""

    def test_changes(self) -> None:
        """Every value but the current one; the default of `parallel` is the number of cores."""
        assert tune.changes(Input(prefetch=4), cores=2) == [
            {"parallel": 1},
            {"parallel": 4},
            {"interleave": 1},
            {"interleave": 8},
            {"interleave": 16},
            {"prefetch": 1},
            {"prefetch": 2},
            {"prefetch": 8},
            {"autotune": True},
            {"order": "fastest"},
        ]

    @pytest.mark.parametrize(
        ("rates", "expected"),
        [
            ((110.0, 111.0, 109.0), True),
            ((103.0, 104.0, 102.0), True),
            ((101.9, 101.9, 101.9), False),
            ((110.0, 140.0, 100.0), False),
            ((90.0, 90.0, 90.0), False),
        ],
        ids=["clear", "just", "below the minimum gain", "as noisy as it is fast", "slower"],
    )
    def test_a_gain_must_exceed_the_noise(self, rates: tuple[float, ...], expected: bool) -> None:
        """The noise of either candidate counts."""
        assert tune.beats(candidate(rates), CURRENT) is expected

    def test_the_best_values_are_combined(self) -> None:
        """The fastest value of each setting; settings without a gain are left out."""
        others = [
            candidate((130.0,) * 3, prefetch=8),
            candidate((120.0,) * 3, prefetch=4),
            candidate((90.0,) * 3, interleave=1),
            candidate((110.0,) * 3, parallel=4),
        ]

        assert tune.combined(CURRENT, others) == {"prefetch": 8, "parallel": 4}
        assert tune.combined(CURRENT, others[2:3]) == {}


def test_table() -> None:
    """The fastest candidate comes first, with its gain over the current settings."""
    winner = candidate((150.0,), prefetch=8, order="fastest")

    assert show.tuned(TuneResult((CURRENT, winner), CURRENT, "written")).splitlines() == [
        "                              samples/s      CPU-µs     gain",
        "prefetch=8, order=fastest           150        50.0    1.50x",
        "current settings                    100        50.0    1.00x",
        "",
        "written",
    ]


def measured(job: MeasureJob) -> MeasureResult:
    """Measurements in which `prefetch=8` gains 100 and `order=fastest` 50 samples per second."""
    rates = [
        100 + 100 * (each.settings.prefetch == 8) + 50 * (each.settings.order == "fastest") for each in job.variants
    ]
    rounds = [(Measurement(rate, 50.0, 0.0, 0.5, 0.01, 0.02, 700.0),) * job.rounds for rate in rates]
    return MeasureResult(RecordFacts(40, 4000, (), 1.0, "image", 64), tuple(rounds))


class TestTuneInput:
    """The whole command, on measurements that are given."""

    @pytest.fixture(autouse=True)
    def _given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(jobs, "run", measured)

    @pytest.mark.parametrize(
        ("any_order", "written"),
        [(False, "[image.input]\nprefetch = 8\n"), (True, '[image.input]\norder = "fastest"\nprefetch = 8\n')],
    )
    def test_every_change_is_measured(self, tmp_path: Path, any_order: bool, written: str) -> None:
        """The faster ones together once more; `order` needs permission."""
        result = tune.tune(MeasureJob("image", Settings(), tmp_path, None), any_order=any_order)

        assert {key for each in result.candidates for key in each.change} == {
            "parallel",
            "interleave",
            "prefetch",
            "autotune",
            "order",
        }
        assert (tmp_path / "penstock.toml").read_text() == written

    def test_the_winner_is_written(self, artifact: Path, tmp_path: Path) -> None:
        """It goes into the named file, the verdict says so, and the next run reads it."""
        path = tmp_path / "mine.toml"
        path.write_text("[image.train]\nepochs = 3  # enough\n")
        shown = self.verdict(artifact, "--settings", str(path))

        assert shown == f"prefetch=8: 2.00x the rate of the current settings; written to {path}"
        assert path.read_text() == "[image.train]\nepochs = 3  # enough\n\n[image.input]\nprefetch = 8\n"
        again = config.make("image", data=str(tmp_path), settings_file=str(path))
        assert again.settings.input.prefetch == 8

    def test_a_dry_run_writes_nothing(self, artifact: Path, tmp_path: Path) -> None:
        """The verdict says so."""
        shown = self.verdict(artifact, "--dry-run")

        assert shown == "prefetch=8: 2.00x the rate of the current settings; nothing was written (--dry-run)"
        assert list(tmp_path.iterdir()) == []

    def verdict(self, artifact: Path, *arguments: str) -> str:
        """Returns the last line of the command."""
        command = ["tune", "input", "image", "--data", ".", "--records", str(artifact), *arguments]
        result = CliRunner().invoke(cli.app, command, catch_exceptions=False)
        return result.stdout.splitlines()[-1]
