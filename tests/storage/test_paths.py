"""Data may be on an object store, or at any URI that Beam can read; other URIs are rejected before a request."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.storage import paths
from components.storage.objects import ObjectPath
from components.storage.paths import data_path, is_uri
from components.storage.remote_path import RemotePath


@pytest.mark.parametrize(
    "text", ["gs://bucket/a", "s3://b", "hdfs:///data", "flat://x", "no-such+scheme.1://x", "file://x"]
)
def test_a_text_with_a_scheme_is_a_uri(text: str) -> None:
    """Whether the scheme is known or not."""
    assert is_uri(text)


@pytest.mark.parametrize("text", ["data", "/data/a.csv", "a:b/c", "://x", "1s://x", "a/gs://b", "gs:/bucket", ""])
def test_any_other_text_is_a_path(text: str) -> None:
    """On this machine."""
    assert not is_uri(text)
    assert data_path(text) == Path(text)


@pytest.mark.parametrize("text", ["gs://bucket/folder", "s3://bucket"])
def test_a_uri_of_a_store_is_an_object_path(text: str) -> None:
    """A slash at the end is ignored; files can be written there."""
    assert data_path(text) == data_path(f"{text}/") == ObjectPath(text)


def test_beam_flags_of_s3_are_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """They worked before s3:// was read without Beam."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    paths.prepare("s3://bucket", ["--s3_endpoint_url=http://127.0.0.1:2", "--runner=DirectRunner", "--flag"])

    assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:2"


@pytest.mark.parametrize("text", ["hdfs:///data/x.csv", "flat://set"])
def test_a_uri_of_beam_is_a_remote_path(text: str) -> None:
    """Beam's own schemes and those of plugins; a slash at the end is ignored."""
    assert data_path(text) == RemotePath(text)
    assert data_path(f"{text}/") == RemotePath(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file:///etc/passwd", "file:///etc/passwd: file:// URIs are not supported; use the path itself"),
        ("FILE://x", "FILE://x: file:// URIs are not supported; use the path itself"),
        (
            "http://x/a.csv",
            "http://x/a.csv: no filesystem for http://; expected a path or one of azfs://, flat://, gs:",
        ),
        ("gss://b/a", "gss://b/a: no filesystem for gss://; expected a path or one of"),
        ("gs://b/../c", "gs://b/../c: expected the URI of a file or folder, such as gs://bucket/folder"),
        ("gs:///", "gs:///: expected the URI of a file or folder"),
        ("gs://b/a\0.csv", r"'gs://b/a\x00.csv': a path cannot contain NUL"),
        ("a\0b", r"'a\x00b': a path cannot contain NUL"),
    ],
)
def test_any_other_uri_is_rejected(text: str, reason: str) -> None:
    """D4: with the reason, before anything is opened."""
    with pytest.raises(SettingsError) as rejected:
        data_path(text)

    assert str(rejected.value).startswith(reason)


@pytest.mark.parametrize(("text", "library", "extra"), [("azfs://a/b", "azure.storage.blob", "azure")])
def test_a_uri_whose_library_is_not_installed_is_rejected(text: str, library: str, extra: str) -> None:
    """With the command that installs it."""
    try:
        importlib.import_module(library)
    except ImportError:
        with pytest.raises(SettingsError, match=rf"needs {library}.*pip install 'apache-beam\[{extra}\]'"):
            data_path(text)
    else:
        assert data_path(text) == RemotePath(text)


def test_local_data_does_not_import_beam() -> None:
    """Paths are found and hashed without it."""
    script = (
        "import sys; from pathlib import Path; from components.storage.hashing import HashCache\n"
        "from components.storage.paths import matches, data_path\n"
        "data_path('setup.cfg'); matches('*.toml'); HashCache(None).hash_files(Path('.'), ['README.md', 'LICENSE'])\n"
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
def test_a_pattern_is_split_before_its_first_wildcard(text: str, expected: tuple[Path | RemotePath, str]) -> None:
    """The last part always belongs to the pattern."""
    assert paths.split_pattern(text) == expected


def fill(folder: Path, *names: str) -> None:
    """Writes a file for each name, and the folders above it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())


def test_files_and_folders_match_a_pattern(ground: Any, scheme: str) -> None:
    """As on this machine: spans may be files or folders."""
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
    """By whole parts of the path."""
    assert paths.common_folder([data_path(folder) for folder in folders]) == data_path(expected)


MANY = [f"{number}.txt" for number in range(9)]


def test_many_files_are_found_by_one_listing(ground: Any, scheme: str) -> None:
    """Ten thousand requests would take minutes."""
    fill(ground.folder / "set", *MANY)
    found = paths.stats(data_path(f"{scheme}://set"), MANY[::-1])

    assert [stat.st_size for stat in found] == [5] * 9
    assert ground.listed == [f"{scheme}://set" + "/" * (scheme == "flat")]


def test_few_files_have_one_request_each(ground: Any, scheme: str) -> None:
    """The folder may contain a million others."""
    fill(ground.folder / "set", *MANY)
    paths.stats(data_path(f"{scheme}://set"), ["3.txt", "1.txt"])

    assert ground.listed == [f"{scheme}://set/3.txt", f"{scheme}://set/1.txt"]


@pytest.mark.parametrize("names", [["0.txt", "none.txt"], [*MANY, "none.txt"]])
def test_a_missing_file_is_named(names: list[str], ground: Any, scheme: str) -> None:
    """By a listing, and by a request."""
    fill(ground.folder / "set", *MANY)

    with pytest.raises(FileNotFoundError) as missing:
        paths.stats(data_path(f"{scheme}://set"), names)
    assert missing.value.filename == f"{scheme}://set/none.txt"
