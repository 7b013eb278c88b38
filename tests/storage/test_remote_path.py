"""A path at an address behaves as one of this machine: names, listings, reading by parts, errors with its name."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import BadInput
from components.storage.remote_path import RemotePath, RemoteStat

Address = Callable[[Path], RemotePath]


class TestNames:
    """Nothing is asked of the filesystem."""

    @pytest.mark.parametrize(
        "address", ["gs://bucket/folder/a.csv.gz", "gs://bucket/.hidden", "hdfs:///data/x", "s3://b/x.y"]
    )
    def test_parts_are_those_of_pathlib(self, address: str) -> None:
        """Name, stem and suffix."""
        here, there = Path("/", address.partition("//")[2]), RemotePath(address)

        assert (there.name, there.stem, there.suffix) == (here.name, here.stem, here.suffix)
        assert str(there.with_name("b.csv")) == address.rpartition("/")[0] + "/b.csv"
        assert there.parent / there.name == there
        assert there.relative_to(there.parent).as_posix() == there.name

    def test_a_bucket_is_its_own_parent(self) -> None:
        """It has no name either."""
        bucket = RemotePath("gs://bucket")

        assert (bucket.parent, bucket.name) == (bucket, "")
        assert bucket / "a/b.csv" == RemotePath("gs://bucket/a/b.csv")

    @pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "gs://other/x", "a\0b", ""])
    def test_nothing_leads_out_of_a_folder(self, name: str) -> None:
        """D4: a name in a row or a list must not name another place."""
        with pytest.raises(BadInput, match="leads out of it"):
            RemotePath("gs://bucket/folder") / name

    def test_it_travels_to_workers(self) -> None:
        """Beam pickles what a DoFn holds."""
        path = RemotePath("gs://bucket/folder")

        assert pickle.loads(pickle.dumps(path)) == path  # noqa: S301 - our own


NAMES = ["a.csv", "b.csv", "y1/a.csv", "y1/x/c.csv", "y2/d.txt", ".hidden/e.csv", "odd[1]*?.csv"]


@pytest.fixture
def folder(ground: Any) -> Path:
    """A few files at several depths, and an empty folder."""
    home = ground.folder / "set"
    for name in NAMES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(name.encode())
    (home / "empty").mkdir()
    (home / "nothing.csv").touch()
    return home


class TestListing:
    """Files of an object store, and of one with folders."""

    @pytest.mark.parametrize(
        "pattern", ["*.csv", "**/*", "**/*.csv", "*/*.csv", "y?/**/c.csv", "y1/*", "y1/a.csv", "[!.]*.csv", "no*"]
    )
    def test_patterns_mean_what_they_mean_for_pathlib(self, folder: Path, address: Address, pattern: str) -> None:
        """The same files, in order."""
        expected = sorted(address(path) for path in folder.glob(pattern) if path.is_file())

        assert list(address(folder).glob(pattern)) == expected

    @pytest.mark.usefixtures("folder")
    def test_a_pattern_without_stars_for_folders_enters_none(self, ground: Any) -> None:
        """Where folders are listed one at a time, those that cannot match are spared."""
        list(RemotePath("tree://set").glob("*.csv"))

        assert [each for each in ground.listed if each.endswith("y1")] == []

    def test_what_is_there(self, folder: Path, address: Address) -> None:
        """Files and folders are told apart; an empty file is a file."""
        told = {name: (path.exists(), path.is_file(), path.is_dir()) for name, path in (
            ("file", address(folder / "a.csv")),
            ("empty file", address(folder / "nothing.csv")),
            ("folder", address(folder / "y1")),
            ("none", address(folder / "none")),
        )}  # fmt: skip

        assert told == {
            "file": (True, True, False),
            "empty file": (True, True, False),
            "folder": (True, False, True),
            "none": (False, False, False),
        }

    def test_a_stat_has_size_and_time(self, folder: Path, address: Address) -> None:
        """As the filesystem tells them."""
        here = (folder / "a.csv").stat()

        assert address(folder / "a.csv").stat() == RemoteStat(5, round(here.st_mtime * 1e9))

    def test_no_time_is_told_as_none(self, folder: Path, address: Address, ground: Any) -> None:
        """Not every filesystem has one."""
        ground.timed = False

        assert address(folder / "a.csv").stat() == RemoteStat(5, 0)

    def test_a_folder_that_cannot_be_listed_is_refused(self, folder: Path, address: Address) -> None:
        """Beam would take its name for a pattern, and find others."""
        with pytest.raises(BadInput, match=r"odd\[1\]: a folder with \*, \? or \[ in its name cannot be listed"):
            list(address(folder / "odd[1]").glob("*"))


class TestReading:
    """By parts, never whole."""

    @pytest.fixture
    def large(self, ground: Any) -> Path:
        """Twenty megabytes that tell where they stand."""
        path = ground.folder / "set" / "large.bin"
        path.write_bytes(np.arange(5 << 20, dtype="<u4").tobytes())
        return path

    def test_a_read_is_as_on_this_machine(self, large: Path, address: Address) -> None:
        """From any offset, of any length, from both ends."""
        with large.open("rb") as here, address(large).open("rb") as there:
            for offset, whence, size in ((0, 0, 3), (7 << 20, 0, 2 << 20), (-9, 2, 100), (5, 0, 1 << 23), (4, 1, 8)):
                assert there.seek(offset, whence) == here.seek(offset, whence)
                assert there.read(size) == here.read(size)
                assert there.tell() == here.tell()

    def test_a_few_bytes_cost_one_small_request(self, large: Path, address: Address, ground: Any) -> None:
        """Beam's own streams would fetch 16 MB for a header."""
        with address(large).open("rb") as stream:
            stream.seek(10 << 20)
            stream.read(4)

        assert ground.served == [("large.bin", 10 << 20, 1 << 20)]

    def test_a_large_read_is_one_request(self, large: Path, address: Address, ground: Any) -> None:
        """Not one for each buffer."""
        with address(large).open("rb") as stream:
            stream.read(8 << 20)

        assert ground.served == [("large.bin", 0, 8 << 20)]

    def test_the_whole_content(self, large: Path, address: Address) -> None:
        """For images and texts, which are small."""
        assert address(large).read_bytes() == large.read_bytes()

    def test_what_is_packed_stays_so(self, ground: Any, address: Address) -> None:
        """Beam would unpack it by its name; the source does."""
        path = ground.folder / "set" / "a.csv.gz"
        path.write_bytes(b"\x1f\x8bpacked")

        assert address(path).read_bytes() == b"\x1f\x8bpacked"


class TestErrors:
    """B9: an OSError with number, reason and address, whatever the library raised."""

    def test_a_missing_file(self, ground: Any, address: Address) -> None:
        """Opened, or asked about."""
        path = address(ground.folder / "set" / "none.csv")
        for use in (path.read_bytes, path.stat):
            with pytest.raises(FileNotFoundError) as missing:
                use()
            assert (missing.value.strerror, missing.value.filename) == ("No such file or directory", str(path))

    def test_a_forbidden_file(self, ground: Any, address: Address) -> None:
        """The code of HTTP is understood."""
        (ground.folder / "set" / "denied.csv").write_bytes(b"x")
        path = address(ground.folder / "set" / "denied.csv")
        with pytest.raises(PermissionError) as denied:
            path.read_bytes()

        assert (denied.value.strerror, denied.value.filename) == ("Permission denied", str(path))

    def test_a_filesystem_that_cannot_be_used(self) -> None:
        """The library's own words, on one line."""
        with pytest.raises(OSError, match=r"hdfs://x/a\.csv") as broken:
            RemotePath("hdfs://x/a.csv").stat()

        assert str(broken.value.strerror).startswith("ValueError: ")
