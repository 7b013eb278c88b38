"""A settings file gets new values and keeps everything else."""

from pathlib import Path

import pytest

from components.errors import SettingsError
from pipelines.bench import settings_file
from pipelines.bench.settings_file import Value

TABLE = ("image", "input")


def edited(path: Path, text: str, **values: Value) -> str:
    """Returns the text after setting values of [image.input]."""
    path.write_bytes(text.encode())
    settings_file.write(path, TABLE, values)
    return path.read_bytes().decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The settings file."""
    return tmp_path / "penstock.toml"


def test_a_new_file(path: Path) -> None:
    """A file that does not exist is created."""
    settings_file.write(path, TABLE, {"prefetch": 4, "order": "fastest", "autotune": True})

    assert path.read_text() == '[image.input]\nprefetch = 4\norder = "fastest"\nautotune = true\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '# mine\n[image.input]\n  prefetch = 2   # why "two" # unsure\nbatch_size = 32\n\n[image.train]\n',
            '# mine\n[image.input]\n  prefetch = 8   # why "two" # unsure\nbatch_size = 32\n\n[image.train]\n',
        ),
        (
            "[image.input]\nbatch_size = 32\n\n# training\n[image.train]\nepochs = 3\n",
            "[image.input]\nbatch_size = 32\nprefetch = 8\n\n# training\n[image.train]\nepochs = 3\n",
        ),
        ("[image.input] # empty\n\n[text]\n", "[image.input] # empty\nprefetch = 8\n\n[text]\n"),
        ("[image.train]\nepochs = 3\n", "[image.train]\nepochs = 3\n\n[image.input]\nprefetch = 8\n"),
        ("[image]\ninput.prefetch = 2\n", "[image]\ninput.prefetch = 8\n"),
        ("image = { input = { prefetch = 2 } }\n", "image = { input = { prefetch = 8 } }\n"),
        (
            "[image.train]\nepochs = 1\n[text.input]\nprefetch = 1\n[image.input]\norder = 'exact'\n",
            "[image.train]\nepochs = 1\n[text.input]\nprefetch = 1\n[image.input]\norder = 'exact'\nprefetch = 8\n",
        ),
        ("[image.input]\r\nbatch_size = 2\r\n", "[image.input]\r\nbatch_size = 2\r\nprefetch = 8\r\n"),
    ],
    ids=["comment", "next table's comment", "empty", "new table", "dotted", "inline", "out of order", "Windows"],
)
def test_everything_else_stays(path: Path, before: str, after: str) -> None:
    """Comments, order, indentation, line ends and other tables are kept."""
    assert edited(path, before, prefetch=8) == after


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    """The target of a symbolic link is replaced, with its mode."""
    real, link = tmp_path / "real.toml", tmp_path / "penstock.toml"
    real.write_text("[image.input]\nprefetch = 2\n")
    real.chmod(0o640)
    link.symlink_to(real)
    settings_file.write(link, TABLE, {"prefetch": 8})

    assert (link.is_symlink(), real.read_text()) == (True, "[image.input]\nprefetch = 8\n")
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["penstock.toml", "real.toml"]


@pytest.mark.parametrize("content", [b"[image", b"\xff"], ids=["not TOML", "not UTF-8"])
def test_an_invalid_file_is_not_changed(path: Path, content: bytes) -> None:
    """The user gets an error and keeps the file."""
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=r"not valid TOML: .*; nothing was written"):
        settings_file.write(path, TABLE, {"prefetch": 8})

    assert path.read_bytes() == content


def test_a_file_that_cannot_be_changed_gets_the_lines_in_the_message(path: Path) -> None:
    """The measurements are not lost, and the file stays as it is."""
    path.write_text("image = {train={epochs=3}}\n")

    with pytest.raises(SettingsError, match=r"(?s)nothing was written.*image\.input\.prefetch = 8"):
        settings_file.write(path, TABLE, {"prefetch": 8})
    assert path.read_text() == "image = {train={epochs=3}}\n"
