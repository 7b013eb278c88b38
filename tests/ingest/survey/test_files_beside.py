"""Promise A18: a file that is read beside the named one, labels or images, is in the digest; links out are refused."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.errors import BadInput
from components.ingest.survey import cached, survey
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


def change_in_place(path: Path, content: bytes) -> None:
    """Overwrites a file with as many bytes, and sets its old times."""
    before = path.stat()
    assert len(content) == before.st_size
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_label_file_that_is_changed_in_place_changes_the_digest(data: Path, tmp_path: Path) -> None:
    """A13, A18: same size, same modification time; also `labels.npy`, and for the survey that a process keeps."""
    (data / "x_labels.npy").rename(data / "labels.npy")
    cache = HashCache(tmp_path / "hashes.db")
    before = cached.take(f"{data}/x.npy", Ingest(), cache).digest
    change_in_place(data / "labels.npy", (data / "labels.npy").read_bytes()[:-16] + np.array([2, 1]).tobytes())

    assert cached.take(f"{data}/x.npy", Ingest(), cache).digest != before
    assert take(f"{data}/x.npy", tmp_path / "hashes.db").digest != before


def test_a_label_file_that_appears_changes_the_digest(data: Path, tmp_path: Path) -> None:
    """A18: the survey that a process keeps is not used either."""
    (data / "x_labels.npy").rename(tmp_path / "labels.npy")
    cache = HashCache(tmp_path / "hashes.db")
    before = cached.take(f"{data}/x.npy", Ingest(), cache).digest
    (tmp_path / "labels.npy").rename(data / "labels.npy")

    assert cached.take(f"{data}/x.npy", Ingest(), cache).digest != before


def test_a_referenced_image_that_is_changed_in_place_changes_the_digest(
    tmp_path: Path, image: Callable[..., bytes]
) -> None:
    """A13, A18: the user names the table alone."""
    (tmp_path / "1.bmp").write_bytes(image(1, "BMP"))
    (tmp_path / "list.csv").write_text("path,label\n1.bmp,cat\n")
    cache = HashCache(tmp_path / "hashes.db")
    before = cached.take(f"{tmp_path}/list.csv", Ingest(), cache).digest
    change_in_place(tmp_path / "1.bmp", image(2, "BMP"))

    assert cached.take(f"{tmp_path}/list.csv", Ingest(), cache).digest != before


def test_a_referenced_image_that_leads_outside_is_not_listed(tmp_path: Path, image: Callable[..., bytes]) -> None:
    """A18, D4: neither its bytes nor its digest are read; its row will be quarantined."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "secret.png").write_bytes(image(1))
    (data / "1.png").symlink_to(tmp_path / "secret.png")
    (data / "2.png").write_bytes(image(2))
    (data / "list.csv").write_text("path,label\n1.png,cat\n2.png,dog\n../secret.png,dog\n")
    found = survey.take(f"{data}/list.csv", Ingest(images="path"), HashCache(None))

    assert [item.file.path for item in found.listing.files] == ["list.csv", "2.png"]


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
