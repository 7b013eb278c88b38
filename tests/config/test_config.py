"""The configuration of a run is made from the task, the settings file and flags; invalid parts are named."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import SettingsError
from components.settings.tree import Settings
from components.tasks import NAMES, get
from pipelines import config as run_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder without a settings file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path


def settings_file(home: Path, text: str, name: str = "penstock.toml") -> str:
    """Writes a settings file."""
    (home / name).write_text(text, encoding="utf-8")
    return str(home / name)


class TestOrder:
    """Which value wins."""

    @pytest.fixture
    def task_defaults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Gives the image task its own defaults."""
        task = dataclasses.replace(get("image"), defaults={"train": {"epochs": 2, "seed": 2, "learning_rate": 0.2}})
        monkeypatch.setattr(run_config, "get", lambda _: task)

    @pytest.mark.usefixtures("task_defaults")
    def test_flags_override_the_file_and_the_file_overrides_the_task(self, home: Path) -> None:
        """Key by key."""
        settings_file(home, "[image.train]\nepochs = 3\nseed = 3\n")
        made = run_config.make("image", data="data", flags=["train.epochs=4"])

        assert made.settings == Settings.model_validate({"train": {"epochs": 4, "seed": 3, "learning_rate": 0.2}})

    def test_a_renamed_setting_is_reported_in_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The run continues with its value."""
        made = run_config.make("image", data="data", flags=["transform.split=characters"])

        assert made.settings.transform.tokens == "characters"
        assert capsys.readouterr().err == (
            "penstock: warning: setting transform.split was renamed to transform.tokens; use the new name\n"
        )

    def test_the_last_of_two_flags_wins(self) -> None:
        """As in other commands."""
        made = run_config.make("image", data="data", flags=["train.epochs=4", "train.epochs=5"])

        assert made.settings == Settings.model_validate({"train": {"epochs": 5}})

    def test_without_flags_and_file_settings_are_the_defaults(self) -> None:
        """Of the image task."""
        assert run_config.make("image", data="data").settings == Settings()

    def test_a_named_settings_file_replaces_penstock_toml(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The flag wins over the environment, the environment over penstock.toml."""
        settings_file(home, "[image.train]\nepochs = 1\n")
        monkeypatch.setenv("PENSTOCK_SETTINGS", settings_file(home, "[image.train]\nepochs = 2\n", "environment.toml"))
        given = settings_file(home, "[image.train]\nepochs = 3\n", "given.toml")
        by_environment, by_flag = (
            run_config.make("image", data="data", settings_file=chosen).settings.train.epochs
            for chosen in (None, given)
        )

        assert (by_environment, by_flag) == (2, 3)


class TestFile:
    """Errors in a settings file."""

    @pytest.mark.parametrize(
        ("text", "message"),
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
    def test_unknown_names_are_reported(self, home: Path, text: str, message: str) -> None:
        """With the nearest known name."""
        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", settings_file=settings_file(home, text))

        assert str(refused.value) == message.format(home / "penstock.toml")

    @pytest.mark.parametrize("text", ["image = 3\n", "image = 'data'\n", "image = [1]\n"])
    def test_a_task_that_is_no_table_is_rejected(self, home: Path, text: str) -> None:
        """The message names the file."""
        with pytest.raises(SettingsError, match=r"penstock\.toml.*image"):
            run_config.make("image", data="data", settings_file=settings_file(home, text))

    def test_a_broken_file_is_named(self, home: Path) -> None:
        """The message has the line."""
        with pytest.raises(SettingsError, match=r"penstock\.toml: not valid TOML: .*line 1"):
            run_config.make("image", data="data", settings_file=settings_file(home, "[image\n"))

    @pytest.mark.parametrize("by", ["flag", "environment"])
    def test_a_named_file_must_exist(self, home: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
        """The run does not start with other settings."""
        gone = str(home / "gone.toml")
        if by == "environment":
            monkeypatch.setenv("PENSTOCK_SETTINGS", gone)

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", settings_file=gone if by == "flag" else None)

        assert str(refused.value) == f"settings file {gone}: No such file or directory"

    def test_an_unknown_task_is_named(self) -> None:
        """With the nearest known name."""
        with pytest.raises(SettingsError, match=r"^unknown task 'imge': did you mean 'image'\?$"):
            run_config.make("imge", data="data")


class TestPlaces:
    """Paths of data, root and models."""

    def test_by_default_everything_is_below_the_working_folder(self, home: Path) -> None:
        """Every path is absolute."""
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

    def test_the_settings_file_can_set_paths(self, home: Path) -> None:
        """They are no settings."""
        settings_file(home, '[image]\ndata = "data"\nroot = "elsewhere"\nname = "cats"\n[image.train]\nepochs = 3\n')
        made = run_config.make("image")

        assert (made.name, made.data, made.root) == ("cats", str(home / "data"), home / "elsewhere")
        assert made.settings == Settings.model_validate({"train": {"epochs": 3}})

    def test_flags_set_other_paths(self, home: Path) -> None:
        """They override the settings file."""
        settings_file(home, '[image]\ndata = "gone"\nroot = "gone"\nname = "gone"\n')
        made = run_config.make("image", data="data", root="here", name="dogs")

        assert (made.name, made.data, made.root) == ("dogs", str(home / "data"), home / "here")

    def test_the_root_is_named_for_the_pipeline(self, home: Path) -> None:
        """Two pipelines do not share a root by accident."""
        assert run_config.make("image", data="data", name="dogs").root == home / "runs" / "dogs"

    @pytest.mark.parametrize("place", ["data", "root", "push.directory"])
    def test_a_tilde_is_the_home_folder(self, home: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        """Wherever a path is expected; in a settings file no shell expands it."""
        monkeypatch.setenv("HOME", str(home / "me"))
        places = {"data": "data"} | ({place: "~/x"} if place in ("data", "root") else {})
        flags = [f"{place}=~/x"] if place == "push.directory" else []
        made = run_config.make("image", flags=flags, **places)
        found = {"data": made.data, "root": made.root, "push.directory": made.serving}

        assert str(found[place]) == str(home / "me" / "x")

    def test_models_can_be_pushed_to_another_folder(self, home: Path) -> None:
        """A relative path is relative to the working folder."""
        made = run_config.make("image", data="data", flags=["push.directory=models"])

        assert made.serving == home / "models"

    def test_without_data_and_sample_data_the_message_says_what_to_do(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both possibilities are named."""
        monkeypatch.setattr(run_config, "HOME", home)

        with pytest.raises(SettingsError) as refused:
            run_config.make("image")

        assert str(refused.value) == (
            "no --data given, and the sample data of task 'image' does not exist: "
            "name your data with --data, or generate the sample with `python -m data image`"
        )

    def test_without_data_the_sample_is_used(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If it was generated."""
        monkeypatch.setattr(run_config, "HOME", home)
        (home / "data" / "samples" / "image").mkdir(parents=True)

        assert run_config.make("image").data == str(home / "data" / "samples" / "image")


class TestUnsafe:
    """D4: invalid paths and names."""

    @pytest.mark.parametrize(
        ("place", "path", "reason"),
        [
            ("root", "file:///etc", "root 'file:///etc': expected a path on this machine, not an address"),
            ("root", "hdfs://host/x", "root 'hdfs://host/x': expected a path on this machine, not an address"),
            ("root", "gs://bucket", "root 'gs://bucket': expected a folder in a bucket, such as gs://bucket/folder"),
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
    def test_addresses_and_nul_are_rejected(self, home: Path, place: str, path: str, reason: str, by: str) -> None:
        """From a flag and from the settings file; only some addresses are accepted for data."""
        places = {"data": "data", "root": "root", place: path}
        if by == "file":
            rows = [f'{key} = "{value}"' for key, value in places.items()]
            settings_file(home, "\n".join(["[image]", *rows]).replace("\0", "\\u0000"))

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", **(places if by == "flag" else {}))

        assert str(refused.value) == reason

    def test_data_may_have_an_address(self, home: Path) -> None:
        """It is not made absolute."""
        del home

        assert run_config.make("image", data="gs://bucket/animals/").data == "gs://bucket/animals"

    @pytest.mark.parametrize("directory", ["s3://bucket", "mo\0dels"])
    def test_models_are_not_pushed_to_a_bucket_or_no_path(self, directory: str) -> None:
        """The setting is checked like a flag."""
        with pytest.raises(SettingsError, match=r"^setting push\.directory: "):
            run_config.make("image", data="data", flags=[f"push.directory={directory}"])

    def test_root_and_serving_folder_may_be_on_a_store(self, home: Path) -> None:
        """The state folder is then one of this machine, named like the pipeline."""
        made = run_config.make("image", data="data", root="gs://b/x/", name="own", flags=["push.directory=s3://c/y"])

        assert (str(made.root), str(made.serving)) == ("gs://b/x", "s3://c/y")
        assert made.state == home / "runs" / "own"
        assert made.report == made.state / "report.html"
        assert str(run_config.make("image", data="data", root="gs://b/x").serving) == "gs://b/x/serving"

    @pytest.mark.parametrize(
        "name", ["../up", "/abs", "a/b", "..", ".hidden", "UPPER", "a b", "a\0", "a\n", "é", "a" * 64]
    )
    @pytest.mark.parametrize("by", ["flag", "file"])
    def test_names_that_could_leave_the_root_are_rejected(self, home: Path, name: str, by: str) -> None:
        """A name becomes a folder and a key in the metadata."""
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
        settings_file(home, f'[image]\nname = "{escaped}"\n' if by == "file" else "")

        with pytest.raises(SettingsError) as refused:
            run_config.make("image", data="data", name=name if by == "flag" else None)

        assert str(refused.value).startswith(f"pipeline name {name!r}: expected a lower-case letter")

    def test_the_home_folder_of_an_unknown_user_is_rejected(self) -> None:
        """The message has the path."""
        with pytest.raises(SettingsError, match="~nobody-of-that-name"):
            run_config.make("image", data="~nobody-of-that-name/data")

    def test_no_file_is_created(self, home: Path) -> None:
        """Making a configuration only reads."""
        before = sorted(home.rglob("*"))
        run_config.make("image", data="data", root="fresh", flags=["push.directory=models"])

        assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    [
        ["ingest", ".", "--out", "s3://bucket/x"],
        ["ingest", ".", "--out", "x", "--earlier", "gs://bucket/x"],
        ["package", "image", "--out", "s3://bucket/x"],
        ["stage", "image", "--sample", ".", "--sample-data", ".", "--root", "gs://b/r", "--data", "gs://b/d",
         "--out", "gs://bucket/x"],
    ],
)  # fmt: skip
def test_a_folder_that_must_be_on_this_machine_is_no_uri(command: list[str], home: Path) -> None:
    """Exit code 2; no folder of the name s3: is made."""
    program = Path(sys.executable).with_name("penstock")
    ended = subprocess.run([program, *command], cwd=home, check=False, capture_output=True, text=True)

    assert "expected a path on this machine, not an address" in ended.stderr
    assert ended.returncode == 2
    assert [path.name for path in home.iterdir()] == ["data"]
