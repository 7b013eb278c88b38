"""Finding the pretrained model that the settings name, and checking its digest."""

from pathlib import Path

import pytest

from components.errors import BadInput
from components.pretrained.find import PretrainedModel, find_model
from components.settings.extract import Extract
from components.storage.hashing import HashCache, sha256_of


def find(model: Path | str, sha256: str = "") -> PretrainedModel:
    """Returns the model that a path or a name means."""
    return find_model(Extract(model=str(model), sha256=sha256), HashCache(None))


@pytest.fixture
def keras_file(tmp_path: Path) -> Path:
    """A file that is named like a Keras model; its content is not read."""
    (tmp_path / "net.keras").write_bytes(b"weights")
    return tmp_path / "net.keras"


def test_a_keras_file_is_identified_by_its_content(keras_file: Path) -> None:
    """Its digest is the SHA-256 of the file."""
    assert find(keras_file) == PretrainedModel(str(keras_file), sha256_of(keras_file))


def test_a_model_with_another_digest_is_rejected(keras_file: Path) -> None:
    """The message has both digests."""
    with pytest.raises(BadInput, match=f"its SHA-256 is {sha256_of(keras_file)}, but extract.sha256 is 00; "):
        find(keras_file, "00")


def test_a_folder_is_identified_by_all_its_files(tmp_path: Path) -> None:
    """A changed weight changes the digest."""
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "w").write_bytes(b"1")
    before = find(tmp_path).digest
    (tmp_path / "variables" / "w").write_bytes(b"2")

    assert find(tmp_path).digest != before


@pytest.mark.parametrize("where", ["frozen", "finetune"])
def test_a_saved_model_without_an_extractor_cannot_be_part_of_a_model(tmp_path: Path, where: str) -> None:
    """Found before the run; the message names the user's folder."""
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    settings = Extract(model=str(tmp_path), where=where)

    with pytest.raises(
        BadInput, match=f"^extract.model {tmp_path}: the SavedModel has no assets.extra/extractor.keras"
    ):
        find_model(settings, HashCache(None))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "the folder has no saved_model.pb; expected a SavedModel"),
        ("net.h5", "expected a .keras file"),
        ("nothing", "no such file or folder; expected a SavedModel, a .keras file, or a KerasHub preset"),
    ],
)
def test_a_path_without_a_model_is_rejected(tmp_path: Path, name: str, reason: str) -> None:
    """The message says what is missing and what was expected."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "net.h5").touch()
    with pytest.raises(BadInput, match=reason):
        find(tmp_path / name)


def test_a_name_that_is_in_no_cache_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the caches of Keras and KerasHub."""
    monkeypatch.setenv("KERAS_HOME", "/nowhere/keras")
    monkeypatch.setenv("KAGGLEHUB_CACHE", "/nowhere/hub")
    with pytest.raises(BadInput, match=r"MobileNetV2: .* in /nowhere/keras/models, and no .* in /nowhere/hub/models"):
        find("MobileNetV2")
