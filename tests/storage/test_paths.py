"""Any address that Beam knows is a place for data; what only looks like one is refused before anything is read."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.storage import paths
from components.storage.paths import is_address, place
from components.storage.remote_path import RemotePath


@pytest.mark.parametrize(
    "text", ["gs://bucket/a", "s3://b", "hdfs:///data", "flat://x", "no-such+scheme.1://x", "file://x"]
)
def test_what_has_a_scheme_is_an_address(text: str) -> None:
    """Known or not."""
    assert is_address(text)


@pytest.mark.parametrize("text", ["data", "/data/a.csv", "a:b/c", "://x", "1s://x", "a/gs://b", "gs:/bucket", ""])
def test_what_has_none_is_a_path(text: str) -> None:
    """Of this machine."""
    assert not is_address(text)
    assert place(text) == Path(text)


@pytest.mark.parametrize("text", ["gs://bucket/folder", "gs://bucket", "hdfs:///data/x.csv", "flat://set"])
def test_an_address_of_beam_is_a_remote_path(text: str) -> None:
    """Those of Beam's own libraries and of plugins; a slash at its end says nothing."""
    assert place(text) == RemotePath(text)
    assert place(f"{text}/") == RemotePath(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file:///etc/passwd", "file:///etc/passwd: file:// addresses are not taken; give the path itself"),
        ("FILE://x", "FILE://x: file:// addresses are not taken; give the path itself"),
        (
            "http://x/a.csv",
            "http://x/a.csv: no filesystem for http://; expected a path, or one of azfs://, flat://, gs:",
        ),
        ("gss://b/a", "gss://b/a: no filesystem for gss://; expected a path, or one of"),
        ("gs://b/../c", "gs://b/../c: expected the plain address of a file or folder, such as gs://bucket/folder"),
        ("gs:///", "gs:///: expected the plain address of a file or folder"),
        ("gs://b/a\0.csv", r"'gs://b/a\x00.csv': a path cannot hold NUL"),
        ("a\0b", r"'a\x00b': a path cannot hold NUL"),
    ],
)
def test_what_cannot_be_a_place_is_refused(text: str, reason: str) -> None:
    """D4: before anything is opened, with the reason."""
    with pytest.raises(SettingsError) as refused:
        place(text)

    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("text", "library", "extra"), [("s3://bucket/a", "boto3", "aws"), ("azfs://a/b", "azure.storage.blob", "azure")]
)
def test_an_address_whose_library_is_not_installed_is_refused(text: str, library: str, extra: str) -> None:
    """With what to install."""
    try:
        importlib.import_module(library)
    except ImportError:
        with pytest.raises(SettingsError, match=rf"needs {library}.*pip install 'apache-beam\[{extra}\]'"):
            place(text)
    else:
        assert place(text) == RemotePath(text)


def test_a_path_does_not_pay_for_beam() -> None:
    """Local data are found and hashed without it."""
    script = (
        "import sys; from pathlib import Path; from components.storage.hashing import HashCache\n"
        "from components.storage.paths import matches, place\n"
        "place('setup.cfg'); matches('*.toml'); HashCache(None).hash_files(Path('.'), ['README.md', 'LICENSE'])\n"
        "assert 'apache_beam' not in sys.modules and 'tensorflow' not in sys.modules"
    )
    home = Path(__file__).resolve().parents[2]

    subprocess.run([sys.executable, "-c", script], cwd=home, check=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logs/*.csv", (Path("logs"), "*.csv")),
        ("/a/b/c?/*/x.csv", (Path("/a/b"), "c?/*/x.csv")),
        ("*.csv", (Path(), "*.csv")),
        ("a/b.csv", (Path("a"), "b.csv")),
        ("flat://set/y[12]/*.csv", (RemotePath("flat://set"), "y[12]/*.csv")),
        ("flat://set/a.csv", (RemotePath("flat://set"), "a.csv")),
        ("hdfs:///data/*.csv", (RemotePath("hdfs:///data"), "*.csv")),
    ],
)
def test_a_pattern_is_parted_before_its_first_wildcard(text: str, expected: tuple[Path | RemotePath, str]) -> None:
    """What is before it is a folder; the last part always belongs to the pattern."""
    assert paths.split_pattern(text) == expected


def fill(folder: Path, *names: str) -> None:
    """Writes a file for each name, and the folders above it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())


def test_files_and_folders_match_a_pattern(ground: Any, scheme: str) -> None:
    """Spans may be files or folders: both are found, as they are on this machine."""
    fill(ground.folder, "set/day-1/a.csv", "set/day-2/x/b.csv", "set/day-3.csv", "set/other/day-9/c.csv")
    expected = ["day-1", "day-2", "day-3.csv"]

    assert paths.matches(f"{scheme}://set/day-*") == [f"{scheme}://set/{name}" for name in expected]
    assert paths.matches(f"{ground.folder}/set/day-*") == [f"{ground.folder}/set/{name}" for name in expected]
    assert paths.matches(f"{scheme}://set/*/a.csv") == [f"{scheme}://set/day-1/a.csv"]


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["/a/b/c", "/a/b/d", "/a/b"], "/a/b"),
        (["flat://set/day-1", "flat://set/day-2"], "flat://set"),
        (["flat://set/x"], "flat://set/x"),
    ],
)
def test_the_common_folder_is_the_innermost_one(folders: list[str], expected: str) -> None:
    """Parts of names do not count."""
    assert paths.common_folder([place(folder) for folder in folders]) == place(expected)


MANY = [f"{number}.txt" for number in range(9)]


def test_one_listing_tells_of_many_files(ground: Any, scheme: str) -> None:
    """A request for each of ten thousand images would take minutes."""
    fill(ground.folder / "set", *MANY)
    found = paths.stats(place(f"{scheme}://set"), MANY[::-1])

    assert [stat.st_size for stat in found] == [5] * 9
    assert ground.listed == [f"{scheme}://set" + "/" * (scheme == "flat")]


def test_few_files_are_asked_about_one_by_one(ground: Any, scheme: str) -> None:
    """Beside them there may be a million others."""
    fill(ground.folder / "set", *MANY)
    paths.stats(place(f"{scheme}://set"), ["3.txt", "1.txt"])

    assert ground.listed == [f"{scheme}://set/3.txt", f"{scheme}://set/1.txt"]


@pytest.mark.parametrize("names", [["0.txt", "none.txt"], [*MANY, "none.txt"]])
def test_a_file_that_is_not_there_is_named(names: list[str], ground: Any, scheme: str) -> None:
    """Listed or asked about."""
    fill(ground.folder / "set", *MANY)

    with pytest.raises(FileNotFoundError) as missing:
        paths.stats(place(f"{scheme}://set"), names)
    assert missing.value.filename == f"{scheme}://set/none.txt"
