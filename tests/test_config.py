"""Task defaults, settings file and flags come together once; what cannot be used is refused by name."""

import dataclasses
from pathlib import Path

import pytest

from components.errors import SettingsError
from components.settings.tree import Settings
from components.tasks import NAMES, get
from pipelines import config as run_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, away from any settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path


def settings_file(home: Path, text: str, name: str = "penstock.toml") -> str:
    """Writes a settings file."""
    (home / name).write_text(text, encoding="utf-8")
    return str(home / name)


class TestOrder:
    """Who has the last word."""

    @pytest.fixture
    def task_defaults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Gives the image task defaults of its own."""
        task = dataclasses.replace(get("image"), settings={"train": {"epochs": 2, "seed": 2, "learning_rate": 0.2}})
        monkeypatch.setattr(run_config, "get", lambda _: task)

    @pytest.mark.usefixtures("task_defaults")
    def test_flags_go_over_the_file_over_the_task(self, home: Path) -> None:
        """Each says its own key and leaves the others."""
        settings_file(home, "[image.train]\nepochs = 3\nseed = 3\n")
        made = run_config.make("image", data="data", flags=["train.epochs=4"])

        assert made.settings == Settings.model_validate({"train": {"epochs": 4, "seed": 3, "learning_rate": 0.2}})

    def test_the_last_of_two_flags_counts(self) -> None:
        """As in any command."""
        made = run_config.make("image", data="data", flags=["train.epochs=4", "train.epochs=5"])

        assert made.settings == Settings.model_validate({"train": {"epochs": 5}})

    def test_nothing_said_is_the_defaults(self) -> None:
        """Without a settings file too."""
        assert run_config.make("image", data="data").settings == Settings()

    def test_a_file_that_is_named_goes_before_the_one_that_lies_there(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By flag, then by environment, then penstock.toml."""
        settings_file(home, "[image.train]\nepochs = 1\n")
        monkeypatch.setenv("PENSTOCK_SETTINGS", settings_file(home, "[image.train]\nepochs = 2\n", "environment.toml"))
        given = settings_file(home, "[image.train]\nepochs = 3\n", "given.toml")
        by_environment, by_flag = (
            run_config.make("image", data="data", settings_file=chosen).settings.train.epochs
            for chosen in (None, given)
        )

        assert (by_environment, by_flag) == (2, 3)


class TestFile:
    """What a settings file may say."""

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[imag]\n", "settings file {}: unknown task [imag]: did you mean 'image'?"),
            (
                "[audio.train]\nepochs = 1\n",
                "settings file {}: unknown task [audio]: known: " + ", ".join(sorted(NAMES)),
            ),
            ("[image.train]\nepoch = 1\n", "unknown setting 'train.epoch': did you mean 'epochs'?"),
            ("[image]\ntrain = 3\n", "setting 'train' is a section: expected train.KEY, got 3"),
        ],
        ids=["misspelt task", "foreign task", "misspelt setting", "no section"],
    )
    def test_what_is_unknown_is_named(self, home: Path, text: str, said: str) -> None:
        """With what was probably meant."""
        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", settings_file=settings_file(home, text))

        assert str(refused.value) == said.format(home / "penstock.toml")

    @pytest.mark.parametrize("text", ["image = 3\n", "image = 'data'\n", "image = [1]\n"])
    def test_a_task_that_is_no_table_is_refused(self, home: Path, text: str) -> None:
        """With the file's name, and not with a traceback."""
        with pytest.raises(SettingsError, match=r"penstock\.toml.*image"):
            run_config.make("image", data="data", settings_file=settings_file(home, text))

    def test_a_broken_file_is_named(self, home: Path) -> None:
        """With the place in it."""
        with pytest.raises(SettingsError, match=r"penstock\.toml: not valid TOML: .*line 1"):
            run_config.make("image", data="data", settings_file=settings_file(home, "[image\n"))

    @pytest.mark.parametrize("by", ["flag", "environment"])
    def test_a_named_file_must_be_there(self, home: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
        """A run with other settings than asked for is worse than none."""
        gone = str(home / "gone.toml")
        if by == "environment":
            monkeypatch.setenv("PENSTOCK_SETTINGS", gone)

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", settings_file=gone if by == "flag" else None)

        assert str(refused.value) == f"settings file {gone}: No such file or directory"

    def test_an_unknown_task_is_named(self) -> None:
        """With what was probably meant."""
        with pytest.raises(SettingsError, match=r"^unknown task 'imge': did you mean 'image'\?$"):
            run_config.make("imge", data="data")


class TestPlaces:
    """Where data, root and models are."""

    def test_by_default_all_is_below_the_folder_one_is_in(self, home: Path) -> None:
        """Every path is absolute, whatever folder one goes to later."""
        made = run_config.make("image", data="data")

        assert (made.name, made.data, made.root) == ("image", str(home / "data"), home / "runs" / "image")
        assert {
            "metadata": made.metadata,
            "notes": made.notes,
            "hashes": made.hash_cache,
            "serving": made.serving,
            "quarantine": made.quarantine_list,
            "report": made.report,
        } == {
            "metadata": home / "runs/image/metadata.db",
            "notes": home / "runs/image/.penstock",
            "hashes": home / "runs/image/.penstock/hashes.db",
            "serving": home / "runs/image/serving",
            "quarantine": home / "runs/image/quarantine.jsonl",
            "report": home / "runs/image/report.html",
        }

    def test_the_settings_file_names_places(self, home: Path) -> None:
        """They are not taken for settings."""
        settings_file(home, '[image]\ndata = "data"\nroot = "elsewhere"\nname = "cats"\n[image.train]\nepochs = 3\n')
        made = run_config.make("image")

        assert (made.name, made.data, made.root) == ("cats", str(home / "data"), home / "elsewhere")
        assert made.settings == Settings.model_validate({"train": {"epochs": 3}})

    def test_flags_name_other_places(self, home: Path) -> None:
        """Over those of the settings file."""
        settings_file(home, '[image]\ndata = "gone"\nroot = "gone"\nname = "gone"\n')
        made = run_config.make("image", data="data", root="here", name="dogs")

        assert (made.name, made.data, made.root) == ("dogs", str(home / "data"), home / "here")

    def test_the_root_is_named_for_the_pipeline(self, home: Path) -> None:
        """Two names do not share a root by accident."""
        assert run_config.make("image", data="data", name="dogs").root == home / "runs" / "dogs"

    @pytest.mark.parametrize("place", ["data", "root", "push.directory"])
    def test_a_tilde_is_the_home_folder(self, home: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        """Wherever a path is expected; in a settings file no shell has done it before."""
        monkeypatch.setenv("HOME", str(home / "me"))
        places = {"data": "data"} | ({place: "~/x"} if place in ("data", "root") else {})
        flags = [f"{place}=~/x"] if place == "push.directory" else []
        made = run_config.make("image", flags=flags, **places)
        found = {"data": made.data, "root": made.root, "push.directory": made.serving}

        assert str(found[place]) == str(home / "me" / "x")

    def test_models_can_be_served_from_elsewhere(self, home: Path) -> None:
        """A relative folder is taken from where one is."""
        made = run_config.make("image", data="data", flags=["push.directory=models"])

        assert made.serving == home / "models"

    def test_without_data_and_without_sample_data_it_says_what_to_do(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both ways out are named."""
        monkeypatch.setattr(run_config, "HOME", home)

        with pytest.raises(SettingsError) as refused:
            run_config.make("image")

        assert str(refused.value) == (
            "no --data given, and the sample data of task 'image' is not there: "
            "name your data with --data, or generate the sample with `make demo TASK=image`"
        )

    def test_without_data_the_sample_is_taken(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If it has been generated."""
        monkeypatch.setattr(run_config, "HOME", home)
        (home / "data" / "samples" / "image").mkdir(parents=True)

        assert run_config.make("image").data == str(home / "data" / "samples" / "image")


class TestUnsafe:
    """D4: what only looks like a path or a name."""

    @pytest.mark.parametrize(
        ("place", "path", "reason"),
        [
            ("root", "file:///etc", "root 'file:///etc': expected a path on this machine, not an address"),
            ("root", "gs://bucket/x", "root 'gs://bucket/x': expected a path on this machine, not an address"),
            ("root", "da\0ta", "root 'da\\x00ta': a path cannot contain a NUL character"),
            ("data", "da\0ta", "data 'da\\x00ta': a path cannot contain a NUL character"),
            ("data", "file:///etc", "file:///etc: file:// URIs are not supported; use the path itself"),
            (
                "data",
                "gs://bucket/../x",
                "gs://bucket/../x: expected the URI of a file or folder, such as gs://bucket/folder",
            ),
        ],
    )
    @pytest.mark.parametrize("by", ["flag", "file"])
    def test_addresses_and_nul_are_refused(self, home: Path, place: str, path: str, reason: str, by: str) -> None:
        """Wherever they come from; data may lie at an address, but not at every one."""
        places = {"data": "data", "root": "root", place: path}
        if by == "file":
            rows = [f'{key} = "{value}"' for key, value in places.items()]
            settings_file(home, "\n".join(["[image]", *rows]).replace("\0", "\\u0000"))

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", **(places if by == "flag" else {}))

        assert str(refused.value) == reason

    def test_data_may_lie_at_an_address(self, home: Path) -> None:
        """It is no path, and stays as it is."""
        del home

        assert run_config.make("image", data="gs://bucket/animals/").data == "gs://bucket/animals"

    @pytest.mark.parametrize("directory", ["s3://bucket", "mo\0dels"])
    def test_models_are_not_pushed_to_addresses(self, directory: str) -> None:
        """The setting is checked like a flag."""
        with pytest.raises(SettingsError, match=r"^setting push\.directory: "):
            run_config.make("image", data="data", flags=[f"push.directory={directory}"])

    @pytest.mark.parametrize(
        "name", ["../up", "/abs", "a/b", "..", ".hidden", "UPPER", "a b", "a\0", "a\n", "é", "a" * 64]
    )
    @pytest.mark.parametrize("by", ["flag", "file"])
    def test_names_that_could_leave_the_root_are_refused(self, home: Path, name: str, by: str) -> None:
        """A name becomes a folder and a key of the metadata."""
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
        settings_file(home, f'[image]\nname = "{escaped}"\n' if by == "file" else "")

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", name=name if by == "flag" else None)

        assert str(refused.value).startswith(f"pipeline name {name!r}: expected a lower-case letter")

    def test_a_home_folder_of_nobody_is_refused(self) -> None:
        """With the path, and not with a traceback."""
        with pytest.raises(SettingsError, match="~nobody-of-that-name"):
            run_config.make("image", data="~nobody-of-that-name/data")

    def test_nothing_is_made_on_the_way(self, home: Path) -> None:
        """Making a configuration only reads."""
        before = sorted(home.rglob("*"))
        run_config.make("image", data="data", root="fresh", flags=["push.directory=models"])

        assert sorted(home.rglob("*")) == before
