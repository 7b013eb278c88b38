"""A remote path behaves like a local one: names, listings, byte ranges, errors that name it."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import BadInput
from components.storage.remote_path import RemotePath
from components.storage.uri_path import RemoteStat

Remote = Callable[[Path], RemotePath]


class TestNames:
    """No request is made."""

    @pytest.mark.parametrize(
        "uri", ["gs://bucket/folder/a.csv.gz", "gs://bucket/.hidden", "hdfs:///data/x", "s3://b/x.y"]
    )
    def test_parts_are_those_of_pathlib(self, uri: str) -> None:
        """Name, stem and suffix."""
        here, there = Path("/", uri.partition("//")[2]), RemotePath(uri)

        assert (there.name, there.stem, there.suffix) == (here.name, here.stem, here.suffix)
        assert str(there.with_name("b.csv")) == uri.rpartition("/")[0] + "/b.csv"
        assert there.parent / there.name == there
        assert there.relative_to(there.parent).as_posix() == there.name

    def test_a_bucket_is_its_own_parent(self) -> None:
        """And has no name."""
        bucket = RemotePath("gs://bucket")

        assert (bucket.parent, bucket.name) == (bucket, "")
        assert bucket / "a/b.csv" == RemotePath("gs://bucket/a/b.csv")

    @pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "gs://other/x", "a\0b", ""])
    def test_a_name_cannot_lead_outside(self, name: str) -> None:
        """D4: names come from the user's data."""
        with pytest.raises(BadInput, match="leads outside of it"):
            RemotePath("gs://bucket/folder") / name

    def test_it_can_be_pickled(self) -> None:
        """Beam pickles it for its workers."""
        path = RemotePath("gs://bucket/folder")

        assert pickle.loads(pickle.dumps(path)) == path  # noqa: S301 - our own


NAMES = ["a.csv", "b.csv", "y1/a.csv", "y1/x/c.csv", "y2/d.txt", ".hidden/e.csv", "odd[1]*?.csv"]


@pytest.fixture
def folder(ground: Any) -> Path:
    """Files at several depths, and an empty folder."""
    home = ground.folder / "set"
    for name in NAMES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(name.encode())
    (home / "empty").mkdir()
    (home / "nothing.csv").touch()
    return home


class TestListing:
    """In an object store, and in a filesystem with folders."""

    @pytest.mark.parametrize(
        "pattern", ["*.csv", "**/*", "**/*.csv", "*/*.csv", "y?/**/c.csv", "y1/*", "y1/a.csv", "[!.]*.csv", "no*"]
    )
    def test_patterns_match_as_in_pathlib(self, folder: Path, remote: Remote, pattern: str) -> None:
        """The same files, in order."""
        expected = sorted(remote(path) for path in folder.glob(pattern) if path.is_file())

        assert list(remote(folder).glob(pattern)) == expected

    @pytest.mark.usefixtures("folder")
    def test_a_pattern_of_one_part_lists_no_folder_below(self, ground: Any) -> None:
        """Folders that cannot match are not requested."""
        list(RemotePath("tree://set").glob("*.csv"))

        assert [each for each in ground.listed if each.endswith("y1")] == []

    def test_files_and_folders_are_distinguished(self, folder: Path, remote: Remote) -> None:
        """An empty file is a file."""
        found = {name: (path.exists(), path.is_file(), path.is_dir()) for name, path in (
            ("file", remote(folder / "a.csv")),
            ("empty file", remote(folder / "nothing.csv")),
            ("folder", remote(folder / "y1")),
            ("none", remote(folder / "none")),
        )}  # fmt: skip

        assert found == {
            "file": (True, True, False),
            "empty file": (True, True, False),
            "folder": (True, False, True),
            "none": (False, False, False),
        }

    def test_a_stat_has_size_and_time(self, folder: Path, remote: Remote) -> None:
        """As the filesystem reports them."""
        here = (folder / "a.csv").stat()

        assert remote(folder / "a.csv").stat() == RemoteStat(5, round(here.st_mtime * 1e9))

    def test_an_unknown_time_is_0(self, folder: Path, remote: Remote, ground: Any) -> None:
        """Not every filesystem has one."""
        ground.timed = False

        assert remote(folder / "a.csv").stat() == RemoteStat(5, 0)

    def test_a_folder_with_a_wildcard_in_its_name_is_rejected(self, folder: Path, remote: Remote) -> None:
        """Beam would use its name as a pattern, and list other folders."""
        with pytest.raises(BadInput, match=r"odd\[1\]: a folder with \*, \? or \[ in its name cannot be listed"):
            list(remote(folder / "odd[1]").glob("*"))


class TestReading:
    """Files are read by byte ranges."""

    @pytest.fixture
    def large(self, ground: Any) -> Path:
        """20 MB of increasing numbers."""
        path = ground.folder / "set" / "large.bin"
        path.write_bytes(np.arange(5 << 20, dtype="<u4").tobytes())
        return path

    def test_any_range_is_read_as_from_a_local_file(self, large: Path, remote: Remote) -> None:
        """Any offset, any length, from both ends."""
        with large.open("rb") as here, remote(large).open("rb") as there:
            for offset, whence, size in ((0, 0, 3), (7 << 20, 0, 2 << 20), (-9, 2, 100), (5, 0, 1 << 23), (4, 1, 8)):
                assert there.seek(offset, whence) == here.seek(offset, whence)
                assert there.read(size) == here.read(size)
                assert there.tell() == here.tell()

    def test_a_few_bytes_cost_one_small_request(self, large: Path, remote: Remote, ground: Any) -> None:
        """Beam's own streams would fetch 16 MB for a header."""
        with remote(large).open("rb") as stream:
            stream.seek(10 << 20)
            stream.read(4)

        assert ground.served == [("large.bin", 10 << 20, 1 << 20)]

    def test_a_large_read_is_one_request(self, large: Path, remote: Remote, ground: Any) -> None:
        """Not one for each buffer."""
        with remote(large).open("rb") as stream:
            stream.read(8 << 20)

        assert ground.served == [("large.bin", 0, 8 << 20)]

    def test_a_whole_file_is_read(self, large: Path, remote: Remote) -> None:
        """For images and texts, which are small."""
        assert remote(large).read_bytes() == large.read_bytes()

    def test_gzip_is_not_decompressed(self, ground: Any, remote: Remote) -> None:
        """Beam would decompress it by its name; the source does that."""
        path = ground.folder / "set" / "a.csv.gz"
        path.write_bytes(b"\x1f\x8bdata")

        assert remote(path).read_bytes() == b"\x1f\x8bdata"


class TestErrors:
    """B9: an OSError with number, reason and URI, whatever the library raised."""

    def test_a_missing_file(self, ground: Any, remote: Remote) -> None:
        """When it is opened, and when its stat is requested."""
        path = remote(ground.folder / "set" / "none.csv")
        for use in (path.read_bytes, path.stat):
            with pytest.raises(FileNotFoundError) as missing:
                use()
            assert (missing.value.strerror, missing.value.filename) == ("No such file or directory", str(path))

    def test_a_forbidden_file(self, ground: Any, remote: Remote) -> None:
        """The HTTP status decides."""
        (ground.folder / "set" / "denied.csv").write_bytes(b"x")
        path = remote(ground.folder / "set" / "denied.csv")
        with pytest.raises(PermissionError) as denied:
            path.read_bytes()

        assert (denied.value.strerror, denied.value.filename) == ("Permission denied", str(path))

    def test_a_filesystem_without_its_options(self) -> None:
        """The first line of the library's message."""
        with pytest.raises(OSError, match=r"hdfs://x/a\.csv") as broken:
            RemotePath("hdfs://x/a.csv").stat()

        assert str(broken.value.strerror).startswith("ValueError: ")
