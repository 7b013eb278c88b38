"""Settings are typed, frozen and checked; a wrong one is named with what was expected."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

from components.errors import SettingsError
from components.settings.gate import Gate
from components.settings.names import check_name, nearest
from components.settings.section import Section
from components.settings.train import Train
from components.settings.tree import RENAMED, RenamedSetting, Settings, load, parse_flag, read_file
from pipelines import config

BAD_NAME = "expected a lower-case letter, then lower-case letters, digits, - or _, at most 63 characters"


def rejection(*overlays: dict[str, Any]) -> str:
    """Returns the message with which overlays are rejected."""
    with pytest.raises(SettingsError) as refused:
        load(overlays)
    return str(refused.value)


def test_without_overlays_settings_are_the_defaults() -> None:
    """As the code has them."""
    assert load() == Settings()


def test_the_defaults_of_ingest() -> None:
    """The documentation quotes them."""
    assert load().section("ingest") == {
        "splits": {"train": 0.8, "eval": 0.1, "test": 0.1, "salt": "", "stratify": False},
        "max_bad_fraction": 0.01,
        "max_pixels": 50_000_000,
        "max_file_mb": 64,
        "max_row_mb": 64,
        "shard_mb": 128,
        "min_shards": 8,
        "compression": "none",
        "spans": "all",
        "window": "growing",
        "late": "fail",
        "gaps": "fail",
        "header": "auto",
        "names": [],
        "label": "",
        "unlabelled": "quarantine",
        "columns": {},
        "unused": [],
        "text": [],
        "text_separator": "\n",
        "split_by": "",
        "images": "",
        "image_check": "full",
        "store": "original",
        "store_side": 256,
        "store_quality": 90,
        "near_duplicate_bits": 3,
    }


def test_a_later_overlay_wins() -> None:
    """Of two values for one key the last counts."""
    assert load([{"train": {"epochs": 3}}, {"train": {"epochs": 5}}]).train.epochs == 5


def test_overlays_are_merged_key_by_key() -> None:
    """An overlay of one key leaves the other keys of the section unchanged."""
    loaded = load([{"train": {"epochs": 3, "seed": 1}}, {"train": {"epochs": 5}}, {"gate": {"min_per_class": 2}}])

    assert (loaded.train, loaded.gate) == (Train(epochs=5, seed=1), Gate(min_per_class=2))


@pytest.mark.parametrize(
    ("section", "changed"),
    [("train", {"checkpoint_seconds": 5, "workers": 2}), ("input", {"nice": 3, "cache_directory": "cache"})],
)
def test_settings_without_effect_on_results_are_not_selected(section: str, changed: dict[str, object]) -> None:
    """A cache key does not contain how often a checkpoint is written, where records are cached, or a mere check."""
    assert load([{section: changed}]).select([section]) == load().select([section])
    assert "epochs" in load().select(["train"])["train"]


def test_single_settings_can_be_selected() -> None:
    """A node's cache key holds the sections that it reads, and single settings of other sections."""
    assert load().select(["gate", "input.max_tokens", "input.truncate"]) == {
        "gate": load().section("gate"),
        "input": {"max_tokens": 512, "truncate": "end"},
    }


def test_overlays_are_not_modified() -> None:
    """Merging changes none of the given mappings."""
    first: dict[str, Any] = {"train": {"epochs": 3}}
    load([first, {"train": {"seed": 1}}])

    assert first == {"train": {"epochs": 3}}


NOTES = {"evaluate.min_r2": r"\. R² is another, stricter measure: it is never above the squared correlation"}


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_the_old_name_of_a_setting_is_accepted_with_a_warning(old: str, new: str) -> None:
    """For one release, in a settings file and as a flag."""
    section, key = new.split(".")
    values = {"near_duplicate_bits": 1, "tokens": "characters", "tensor_zscore": "all", "min_r2": 0.5}
    with pytest.warns(
        RenamedSetting, match=f"^setting {old} was renamed to {new}; use the new name{NOTES.get(new, '')}$"
    ):
        loaded = load([parse_flag(f"{old}={values[key]}")])

    assert loaded.section(section)[key] == values[key]


def test_the_new_name_of_a_setting_wins_over_the_old_one() -> None:
    """If both are given at once."""
    with pytest.warns(RenamedSetting):
        loaded = load([{"transform": {"tokens": "words", "split": "characters"}}])

    assert loaded.transform.tokens == "words"


def test_every_setting_has_a_description() -> None:
    """The settings page and the error messages rely on it."""

    def missing(section: type[Section], path: str) -> list[str]:
        found: list[str] = []
        for name, field in section.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, Section):
                found += missing(kind, f"{path}{name}.")
            elif not field.description:
                found.append(path + name)
        return found

    assert missing(Settings, "") == []


def test_settings_are_frozen() -> None:
    """No code can change a setting during a run."""
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load().train.epochs = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("flag", "overlay"),
    [
        ("train.epochs=3", {"train": {"epochs": "3"}}),
        ("ingest.splits.train=0.7", {"ingest": {"splits": {"train": "0.7"}}}),
        ("ingest.splits.salt=a=b", {"ingest": {"splits": {"salt": "a=b"}}}),
        ("ingest.splits.salt=", {"ingest": {"splits": {"salt": ""}}}),
    ],
)
def test_a_flag_is_an_overlay_of_one_key(flag: str, overlay: dict[str, Any]) -> None:
    """Dots separate sections; only the first equals sign separates key and value."""
    assert parse_flag(flag) == overlay


@pytest.mark.parametrize("flag", ["train.epochs", "=3", ""])
def test_a_flag_without_key_or_value_is_rejected(flag: str) -> None:
    """The message repeats the flag and shows the expected form."""
    with pytest.raises(SettingsError) as refused:
        parse_flag(flag)

    assert str(refused.value) == f"--set {flag}: expected SECTION.KEY=VALUE, such as train.epochs=3"


def test_the_text_of_a_flag_is_converted() -> None:
    """To an integer, a float and a boolean."""
    flags = ["train.epochs=3", "train.learning_rate=0.5", "input.augment=false"]
    loaded = load(map(parse_flag, flags))

    assert (loaded.train.epochs, loaded.train.learning_rate, loaded.input.augment) == (3, 0.5, False)


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"trian": {}}, "unknown setting 'trian': did you mean 'train'?"),
        ({"train": {"epoch": 3}}, "unknown setting 'train.epoch': did you mean 'epochs'?"),
        ({"ingest": {"splits": {"tset": 0.1}}}, "unknown setting 'ingest.splits.tset': did you mean 'test'?"),
        ({"push": {"zzz": 1}}, "unknown setting 'push.zzz': known: directory"),
        ({"train": 3}, "setting 'train' is a section: expected train.KEY, got 3"),
    ],
)
def test_an_unknown_key_is_rejected_with_the_nearest_name(overlay: dict[str, Any], message: str) -> None:
    """At any depth."""
    assert rejection(overlay) == message


def test_without_a_near_name_all_names_are_listed() -> None:
    """In alphabetical order."""
    assert nearest("zzz", ["trainer", "gate"]) == "known: gate, trainer"


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        (
            {"train": {"epochs": "three"}},
            "setting train.epochs: Input should be a valid integer, unable to parse string as an integer (got 'three')",
        ),
        ({"train": {"epochs": 0}}, "setting train.epochs: Input should be greater than 0 (got 0)"),
        (
            {"evaluate": {"min_accuracy": 1.5}},
            "setting evaluate.min_accuracy: Input should be less than or equal to 1 (got 1.5)",
        ),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_rejected(overlay: dict[str, Any], message: str) -> None:
    """The message names the setting, what was expected and the value."""
    assert rejection(overlay) == message


def test_all_wrong_values_are_reported_at_once() -> None:
    """One line per mistake."""
    lines = rejection({"train": {"epochs": -1}, "gate": {"min_per_class": -1}}).splitlines()

    assert [line.partition(":")[0] for line in lines] == ["setting gate.min_per_class", "setting train.epochs"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_learning_rate_that_is_not_finite_is_rejected(value: float) -> None:
    """TOML has nan and inf."""
    assert rejection({"train": {"learning_rate": value}}).startswith("setting train.learning_rate: ")


def test_more_pixels_than_tensorflow_decodes_are_rejected() -> None:
    """Before the run starts, and not at the first image."""
    assert rejection({"ingest": {"max_pixels": 2**29}}).startswith("setting ingest.max_pixels: ")


def test_fractions_that_do_not_sum_to_one_are_rejected() -> None:
    """The message shows the sum."""
    assert rejection({"ingest": {"splits": {"train": 0.9}}}) == (
        "setting ingest.splits: Value error, expected train + eval + test = 1, got 1.1 (got {'train': 0.9})"
    )


def test_a_rounding_error_in_the_sum_is_accepted() -> None:
    """0.7 + 0.2 + 0.1 is not exactly 1 in binary."""
    fractions = {"train": 0.7, "eval": 0.2, "test": 0.1}

    assert load([{"ingest": {"splits": fractions}}]).ingest.splits.fractions() == tuple(fractions.items())


@pytest.mark.parametrize("fraction", [0, 1, -0.1])
def test_a_split_of_nothing_or_everything_is_rejected(fraction: float) -> None:
    """Each of the three splits needs records."""
    assert rejection({"ingest": {"splits": {"test": fraction}}}).startswith("setting ingest.splits.test: ")


def test_a_settings_file_has_one_table_per_section(tmp_path: Path) -> None:
    """Values keep their TOML types."""
    (tmp_path / "penstock.toml").write_text("[image]\ndata = 'photos'\n[image.train]\nepochs = 3\n")

    assert read_file(tmp_path / "penstock.toml") == {"image": {"data": "photos", "train": {"epochs": 3}}}


@pytest.mark.parametrize("content", [b"[image\n", b"epochs = \n", b"name = '\xff'\n"])
def test_a_damaged_settings_file_is_named(content: bytes, tmp_path: Path) -> None:
    """It is a SettingsError and not a traceback."""
    file = tmp_path / "penstock.toml"
    file.write_bytes(content)

    with pytest.raises(SettingsError) as refused:
        read_file(file)

    assert str(refused.value).startswith(f"settings file {file}: not valid TOML: ")


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    """A file that the user names must exist."""
    with pytest.raises(SettingsError) as refused:
        read_file(tmp_path / "none.toml")

    assert str(refused.value) == f"settings file {tmp_path / 'none.toml'}: No such file or directory"


@pytest.mark.parametrize("name", ["image", "a", "cats-and-dogs_2", "a" * 63])
def test_a_valid_name_is_accepted(name: str) -> None:
    """Lower-case letters, digits, dash and underscore."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "../x", "/abs", "a/b", "a\0b", "Image", "1st", "-x", ".x", "a b", "image\n", "é", "file://x", "a" * 64]
)
def test_a_name_that_could_leave_the_root_is_rejected(name: str) -> None:
    """Promise D4: a name is a folder name and nothing else."""
    with pytest.raises(SettingsError) as refused:
        check_name(name)

    assert str(refused.value) == f"pipeline name {name!r}: {BAD_NAME}"


@pytest.mark.parametrize(
    "directory", ["file:///models", "hdfs://host/models", "gs://bucket", "s3://b/../x", "mo\0dels"]
)
def test_a_serving_folder_that_is_no_path_is_rejected(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise D4: an address or a NUL in push.directory is rejected before training."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"push\.directory"):
        config.make("image", flags=[f"push.directory={directory}"])


def test_a_column_with_a_dot_has_a_drift_threshold() -> None:
    """As a flag, and as both ways to write it in a file."""
    flag = parse_flag("gate.max_drift_of.image.size=0.5")
    named = {"gate": {"max_drift_of": {"age": 1, "image.entropy": 2}}}

    assert load([flag, named]).gate.max_drift_of == {"image.size": 0.5, "age": 1.0, "image.entropy": 2.0}
