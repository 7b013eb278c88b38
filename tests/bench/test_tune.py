"""What `tune input` tries, what it takes, and what it writes."""

from pathlib import Path

import pytest

from components.settings.input import Input
from pipelines import config
from pipelines.bench import show, tune
from pipelines.bench.tune import Tried, Tuned, Wish

CURRENT = Tried({}, (100.0, 102.0, 98.0), 50.0)


def tried(rates: tuple[float, ...], **change: int | str | bool) -> Tried:
    """A change and its rates."""
    return Tried(dict(change), rates, 50.0)


class TestSearch:
    """One change at a time, then all that gained."""

    def test_what_is_tried(self) -> None:
        """Everything but what is set already; cores that are the default are no change."""
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
        ids=["clear", "just", "below the least noise", "as noisy as it is fast", "slower"],
    )
    def test_a_gain_must_exceed_the_noise(self, rates: tuple[float, ...], expected: bool) -> None:
        """That of either."""
        assert tune.beats(tried(rates), CURRENT) is expected

    def test_the_best_of_each_setting_is_combined(self) -> None:
        """What does not gain is left out."""
        others = [
            tried((120.0,) * 3, prefetch=4),
            tried((130.0,) * 3, prefetch=8),
            tried((90.0,) * 3, interleave=1),
            tried((110.0,) * 3, parallel=4),
        ]

        assert tune.combined(CURRENT, others) == {"prefetch": 8, "parallel": 4}
        assert tune.combined(CURRENT, others[2:3]) == {}


class TestShown:
    """The table."""

    def test_the_best_first(self) -> None:
        """With the gain over the current settings."""
        winner = tried((150.0,), prefetch=8, order="fastest")

        assert show.tuned(Tuned((CURRENT, winner), CURRENT, winner, "written")) == [
            "                              samples/s      CPU-µs     gain",
            "prefetch=8, order=fastest           150        50.0    1.50x",
            "current settings                    100        50.0    1.00x",
            "",
            "written",
        ]


class TestWritten:
    """The user's file."""

    def test_the_winner_is_written(self, tmp_path: Path) -> None:
        """Into the file that is named, and read by the next run."""
        path = tmp_path / "mine.toml"
        path.write_text("[image.train]\nepochs = 3  # enough\n")
        chosen = config.make("image", data=str(tmp_path), settings_file=str(path))
        said = tune._written(chosen, Wish(settings_file=str(path)), tried((150.0,), prefetch=8), CURRENT)

        assert said == f"prefetch=8: 1.50x the current settings; written to {path}"
        assert path.read_text() == "[image.train]\nepochs = 3  # enough\n\n[image.input]\nprefetch = 8\n"
        again = config.make("image", data=str(tmp_path), settings_file=str(path))
        assert again.settings.input.prefetch == 8

    def test_a_dry_run_writes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It tells what it would have written."""
        monkeypatch.chdir(tmp_path)
        chosen = config.make("image", data=str(tmp_path))
        said = tune._written(chosen, Wish(dry_run=True), tried((150.0,), prefetch=8), CURRENT)

        assert said == "prefetch=8: 1.50x the current settings; nothing was written (--dry-run)"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_whole_of_it(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting is tried on real records; a file is written if and only if there is a winner."""
    monkeypatch.chdir(tmp_path)
    flags = ["input.batch_size=8", "input.image_size=32"]
    chosen = config.make("image", data=str(tmp_path), root=str(tmp_path / "root"), flags=flags)
    found = tune.tune(chosen, Wish(str(artifact), rounds=1, seconds=0.05), lambda _: None)

    assert {tuple(each.change) for each in found.tried} >= {(), ("parallel",), ("prefetch",), ("order",)}
    assert (tmp_path / "penstock.toml").exists() is (found.winner is not None)
