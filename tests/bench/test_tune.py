"""`penstock tune input`: what it measures, what it chooses, what it writes."""

from pathlib import Path

import pytest

from components.settings.input import Input
from pipelines import config
from pipelines.bench import jobs, show, tune
from pipelines.bench.measurements import MeasureJob, Measurement, MeasureResult, RecordFacts
from pipelines.bench.tune import Candidate, TuneRequest, TuneResult

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

    assert show.tuned(TuneResult((CURRENT, winner), CURRENT, winner, "written")) == [
        "                              samples/s      CPU-µs     gain",
        "prefetch=8, order=fastest           150        50.0    1.50x",
        "current settings                    100        50.0    1.00x",
        "",
        "written",
    ]


class TestWrite:
    """The user's settings file."""

    def test_the_winner_is_written(self, tmp_path: Path) -> None:
        """It goes into the named file, and the next run reads it."""
        path = tmp_path / "mine.toml"
        path.write_text("[image.train]\nepochs = 3  # enough\n")
        chosen = config.make("image", data=str(tmp_path), settings_file=str(path))
        verdict = tune.write(chosen, TuneRequest(settings_file=str(path)), candidate((150.0,), prefetch=8), CURRENT)

        assert verdict == f"prefetch=8: 1.50x the rate of the current settings; written to {path}"
        assert path.read_text() == "[image.train]\nepochs = 3  # enough\n\n[image.input]\nprefetch = 8\n"
        again = config.make("image", data=str(tmp_path), settings_file=str(path))
        assert again.settings.input.prefetch == 8

    def test_a_dry_run_writes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The verdict says so."""
        monkeypatch.chdir(tmp_path)
        chosen = config.make("image", data=str(tmp_path))
        verdict = tune.write(chosen, TuneRequest(dry_run=True), candidate((150.0,), prefetch=8), CURRENT)

        assert verdict == "prefetch=8: 1.50x the rate of the current settings; nothing was written (--dry-run)"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("any_order", "written"),
    [(False, "[image.input]\nprefetch = 8\n"), (True, '[image.input]\norder = "fastest"\nprefetch = 8\n')],
)
def test_tune_input(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, any_order: bool, written: str
) -> None:
    """Every change is measured, the faster ones together once more; `order` needs permission."""

    def rate(settings: Input) -> float:
        return 100 + 100 * (settings.prefetch == 8) + 50 * (settings.order == "fastest")

    def run(job: MeasureJob) -> MeasureResult:
        rates = [rate(each.settings) for each in job.variants]
        measured = [(Measurement(each, 50.0, 0.0, 0.5, 0.01, 0.02, 700.0),) * job.rounds for each in rates]
        return MeasureResult(RecordFacts(40, 4000, (), 1.0, "image"), tuple(measured))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "run", run)
    chosen = config.make("image", data=str(tmp_path), root=str(tmp_path / "root"))
    result = tune.tune(chosen, TuneRequest(str(artifact), any_order=any_order), lambda _: None)

    assert {key for each in result.candidates for key in each.change} == {
        "parallel",
        "interleave",
        "prefetch",
        "autotune",
        "order",
    }
    assert (tmp_path / "penstock.toml").read_text() == written
