"""Settings are typed, frozen and checked at birth; what is wrong is named with what was expected."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

from components.errors import SettingsError
from components.settings.names import check_name, nearest
from components.settings.tree import Settings, load, parse_flag, read_file
from pipelines import config

BAD_NAME = "expected a lower-case letter, then letters, digits, - or _ (63 at most)"


def refusal(*overlays: dict[str, Any]) -> str:
    """Returns the message with which overlays are refused."""
    with pytest.raises(SettingsError) as refused:
        load(overlays)
    return str(refused.value)


def test_without_overlays_the_defaults_hold() -> None:
    """Nothing given is the tree as the code has it."""
    assert load() == Settings()


def test_the_documented_defaults_hold() -> None:
    """The fractions and the budget that the README and the issues speak of."""
    assert load().section("ingest") == {
        "splits": {"train": 0.8, "eval": 0.1, "test": 0.1, "salt": ""},
        "max_bad_fraction": 0.01,
        "max_pixels": 50_000_000,
        "max_file_mb": 64,
        "shard_mb": 128,
        "min_shards": 8,
        "compression": "none",
        "spans": "all",
        "label": "",
        "columns": {},
        "unused": [],
        "text": "",
        "split_by": "",
        "images": "",
        "image_check": "full",
        "store": "original",
        "store_side": 256,
        "store_quality": 90,
        "near_bits": 3,
    }


def test_a_later_overlay_wins() -> None:
    """Of two values for one key the last one given counts."""
    assert load([{"train": {"epochs": 3}}, {"train": {"epochs": 5}}]).train.epochs == 5


def test_overlays_are_merged_key_by_key() -> None:
    """An overlay of one key leaves its neighbours as an earlier overlay set them."""
    loaded = load([{"train": {"epochs": 3, "seed": 1}}, {"train": {"epochs": 5}}, {"gate": {"min_per_class": 2}}])

    assert (loaded.section("train"), loaded.section("gate")) == (
        {"epochs": 5, "learning_rate": 0.003, "seed": 1, "class_weights": 0.0},
        {"min_per_class": 2},
    )


def test_overlays_are_left_as_they_were() -> None:
    """Merging changes none of the mappings that it was given."""
    first: dict[str, Any] = {"train": {"epochs": 3}}
    load([first, {"train": {"seed": 1}}])

    assert first == {"train": {"epochs": 3}}


def test_settings_are_frozen() -> None:
    """No code can change a setting after the run has begun."""
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
    """Dots lead into sections, and only the first equals sign divides."""
    assert parse_flag(flag) == overlay


@pytest.mark.parametrize("flag", ["train.epochs", "=3", ""])
def test_a_flag_without_key_or_value_is_refused(flag: str) -> None:
    """The message repeats the flag and shows the form."""
    with pytest.raises(SettingsError) as refused:
        parse_flag(flag)

    assert str(refused.value) == f"--set {flag}: expected SECTION.KEY=VALUE, such as train.epochs=3"


def test_the_text_of_a_flag_becomes_the_settings_type() -> None:
    """A number, a fraction and a truth value come out typed."""
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
def test_an_unknown_key_is_refused_with_the_nearest_name(overlay: dict[str, Any], message: str) -> None:
    """A misspelt setting is never silently left out, at any depth."""
    assert refusal(overlay) == message


def test_what_resembles_nothing_is_answered_with_all_names() -> None:
    """Without a near name the known ones are listed in order."""
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
def test_a_value_of_the_wrong_type_or_range_is_refused(overlay: dict[str, Any], message: str) -> None:
    """The message names the setting, what was expected and what came."""
    assert refusal(overlay) == message


def test_all_wrong_values_are_told_at_once() -> None:
    """Two mistakes are two lines of one message."""
    lines = refusal({"train": {"epochs": -1}, "gate": {"min_per_class": -1}}).splitlines()

    assert [line.partition(":")[0] for line in lines] == ["setting gate.min_per_class", "setting train.epochs"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_learning_rate_that_is_no_number_is_refused(value: float) -> None:
    """TOML can spell nan and inf; neither trains a model."""
    assert refusal({"train": {"learning_rate": value}}).startswith("setting train.learning_rate: ")


def test_more_pixels_than_tensorflow_decodes_are_refused_at_once() -> None:
    """A limit that no decoder could honour stops the run before it has begun, not at the first image."""
    assert refusal({"ingest": {"max_pixels": 2**29}}).startswith("setting ingest.max_pixels: ")


def test_fractions_that_do_not_sum_to_one_are_refused() -> None:
    """The message shows the sum."""
    assert refusal({"ingest": {"splits": {"train": 0.9}}}) == (
        "setting ingest.splits: Value error, train + eval + test must be 1, they are 1.1 (got {'train': 0.9})"
    )


def test_a_rounding_error_in_the_sum_is_forgiven() -> None:
    """0.7 + 0.2 + 0.1 is not 1 in binary, and is meant to be."""
    fractions = {"train": 0.7, "eval": 0.2, "test": 0.1}

    assert load([{"ingest": {"splits": fractions}}]).ingest.splits.fractions() == tuple(fractions.items())


@pytest.mark.parametrize("fraction", [0, 1, -0.1])
def test_a_split_of_nothing_or_everything_is_refused(fraction: float) -> None:
    """Each of the three splits needs records."""
    assert refusal({"ingest": {"splits": {"test": fraction}}}).startswith("setting ingest.splits.test: ")


def test_a_settings_file_has_one_table_a_section(tmp_path: Path) -> None:
    """TOML is read as it stands, with its own types."""
    (tmp_path / "penstock.toml").write_text("[image]\ndata = 'photos'\n[image.train]\nepochs = 3\n")

    assert read_file(tmp_path / "penstock.toml") == {"image": {"data": "photos", "train": {"epochs": 3}}}


@pytest.mark.parametrize("content", [b"[image\n", b"epochs = \n", b"name = '\xff'\n"])
def test_a_damaged_settings_file_is_named(content: bytes, tmp_path: Path) -> None:
    """What is not TOML, or not text, is an error of settings and not a traceback."""
    file = tmp_path / "penstock.toml"
    file.write_bytes(content)

    with pytest.raises(SettingsError) as refused:
        read_file(file)

    assert str(refused.value).startswith(f"settings file {file}: not valid TOML: ")


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    """A file that was asked for and is not there is an error."""
    with pytest.raises(SettingsError) as refused:
        read_file(tmp_path / "none.toml")

    assert str(refused.value) == f"settings file {tmp_path / 'none.toml'}: No such file or directory"


@pytest.mark.parametrize("name", ["image", "a", "cats-and-dogs_2", "a" * 63])
def test_a_plain_name_is_taken(name: str) -> None:
    """Lower-case letters, digits, dash and underscore make a pipeline name."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "../x", "/abs", "a/b", "a\0b", "Image", "1st", "-x", ".x", "a b", "image\n", "é", "file://x", "a" * 64]
)
def test_a_name_that_could_leave_the_root_is_refused(name: str) -> None:
    """Promise D4: a name is a folder name and nothing else."""
    with pytest.raises(SettingsError) as refused:
        check_name(name)

    assert str(refused.value) == f"pipeline name {name!r}: {BAD_NAME}"


@pytest.mark.parametrize("directory", ["file:///models", "gs://bucket/models", "mo\0dels"])
def test_a_serving_folder_that_is_no_path_is_refused(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise D4: an address or a NUL in push.directory is found before anything is trained."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"push\.directory"):
        config.make("image", flags=[f"push.directory={directory}"])
