"""The sample digits are scikit-learn's, and the folder is complete or absent."""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from data import digits
from data.digits import CLASS_NAMES, main, write_image_folder

ROOT = Path(__file__).resolve().parents[2]


def contents(folder: Path) -> dict[str, str]:
    """Returns the digest of every file under `folder`, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample."""
    out = tmp_path_factory.mktemp("digits") / "image"
    assert write_image_folder(out) == 1797
    return out


def test_every_class_has_as_many_files_as_scikit_learn_has_rows(full: Path) -> None:
    """The class folders are the ten digits in words."""
    counts = {folder.name: len(list(folder.iterdir())) for folder in full.iterdir()}

    assert counts == dict(zip(CLASS_NAMES, np.bincount(load_digits().target).tolist(), strict=True))


def test_rows_alternate_between_png_and_jpeg(full: Path) -> None:
    """The number in the file name is the row; even rows are PNG and odd rows JPEG."""
    written = {path.name: path.read_bytes()[:4] for path in full.glob("*/*")}

    assert written == {
        f"digit-{row:04d}.{'jpg' if row % 2 else 'png'}": b"\xff\xd8\xff\xe0" if row % 2 else b"\x89PNG"
        for row in range(1797)
    }


def test_a_png_has_the_pixels_of_the_enlarged_row(full: Path) -> None:
    """Scaled to 255 and enlarged by bicubic interpolation; row 0 is a zero."""
    gray = np.rint(load_digits().images[0] * (255 / 16)).astype(np.uint8)
    expected = Image.fromarray(gray).resize((32, 32), Image.Resampling.BICUBIC)

    with Image.open(full / "zero" / "digit-0000.png") as image:
        assert image.mode == "L"
        np.testing.assert_array_equal(np.asarray(image), np.asarray(expected))


def test_a_jpeg_is_close_to_the_enlarged_row(full: Path) -> None:
    """JPEG at quality 95 loses little; row 1 is a one."""
    gray = np.rint(load_digits().images[1] * (255 / 16)).astype(np.uint8)
    expected = np.asarray(Image.fromarray(gray).resize((32, 32), Image.Resampling.BICUBIC), dtype=np.int16)

    with Image.open(full / "one" / "digit-0001.jpg") as image:
        assert np.abs(np.asarray(image, dtype=np.int16) - expected).mean() < 2


def test_two_calls_write_the_same_bytes(tmp_path: Path) -> None:
    """Independent of time and folder."""
    write_image_folder(tmp_path / "a" / "image", limit=100)
    write_image_folder(tmp_path / "b" / "other", limit=100)

    assert contents(tmp_path / "a" / "image") == contents(tmp_path / "b" / "other")


def test_a_complete_folder_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call only returns the number of images."""
    out = tmp_path / "image"
    write_image_folder(out, limit=30)
    monkeypatch.setattr(digits, "_write_classes", lambda *_: pytest.fail("written again"))

    assert write_image_folder(out, limit=30) == 30


def test_the_folder_holds_class_folders_only(tmp_path: Path) -> None:
    """Stamp and lock are next to the folder."""
    write_image_folder(tmp_path / "image", limit=10)

    assert sorted(path.name for path in (tmp_path / "image").iterdir()) == sorted(CLASS_NAMES)
    assert json.loads((tmp_path / ".image.complete").read_text())["limit"] == 10


def test_another_limit_replaces_the_folder(tmp_path: Path) -> None:
    """A folder with another recipe is written again."""
    write_image_folder(tmp_path / "image", limit=30)

    assert write_image_folder(tmp_path / "image", limit=20) == 20
    assert not list(tmp_path.glob(".image.old")) + list(tmp_path.glob(".image.partial"))


KILLED_AT_ROW_7 = """
import os, pathlib, signal, sys
from data import digits

write = digits._write_image
def write_or_die(folder, index, levels):
    if index == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    write(folder, index, levels)

digits._write_image = write_or_die
digits.write_image_folder(pathlib.Path(sys.argv[1]), limit=20)
"""


def test_a_killed_call_leaves_no_folder(tmp_path: Path) -> None:
    """Its files are in a temporary folder, and the next call succeeds."""
    out = tmp_path / "image"

    killed = subprocess.run([sys.executable, "-c", KILLED_AT_ROW_7, str(out)], cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert len(contents(tmp_path / ".image.partial")) == 7
    assert not out.exists()
    assert write_image_folder(out, limit=20) == 20
    assert not (tmp_path / ".image.partial").exists()


def test_another_folder_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without stamp keeps its files, and the command ends with a usage error."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")

    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path / "photos")])

    assert stopped.value.code == 2
    assert "not written by this generator" in capsys.readouterr().err
    assert (tmp_path / "photos" / "cat.jpg").read_bytes() == b"cat"


def test_a_limit_below_one_is_rejected(tmp_path: Path) -> None:
    """The message says what was expected."""
    with pytest.raises(ValueError, match="limit is 0; expected 1 or more"):
        write_image_folder(tmp_path / "image", limit=0)
