"""A label file beside an array belongs to the data, also when the user names the array alone."""

from pathlib import Path

import numpy as np
import pytest

from components.errors import BadInput
from components.ingest.survey import survey
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An array with its labels."""
    folder = tmp_path / "data"
    folder.mkdir()
    np.save(folder / "x.npy", np.zeros((2, 3)))
    np.save(folder / "x_labels.npy", np.array([1, 2]))
    return folder


def take(data: str, cache: Path) -> survey.Survey:
    """Surveys the data."""
    return survey.take(data, Ingest(), HashCache(cache))


@pytest.mark.parametrize("named", ["", "/x.npy", "/x.np*", "/?.npy"])
def test_a_changed_label_file_changes_the_digest(named: str, data: Path, tmp_path: Path) -> None:
    """Named as folder, file or pattern: the cache key of Ingest holds the labels."""
    before = take(f"{data}{named}", tmp_path / "hashes.db").digest
    np.save(data / "x_labels.npy", np.array([2, 1]))

    assert take(f"{data}{named}", tmp_path / "hashes.db").digest != before


@pytest.mark.parametrize("named", ["", "/x.npy"])
def test_a_label_file_that_leads_outside_the_data_folder_is_rejected(named: str, data: Path, tmp_path: Path) -> None:
    """It is not read, and the message says what to do."""
    (data / "x_labels.npy").rename(tmp_path / "elsewhere.npy")
    (data / "x_labels.npy").symlink_to(tmp_path / "elsewhere.npy")

    with pytest.raises(BadInput) as error:
        take(f"{data}{named}", tmp_path / "hashes.db")
    assert str(error.value) == (
        f"{data}/x_labels.npy: label file is a symbolic link that leads outside the data folder; "
        "copy the file into the folder"
    )
