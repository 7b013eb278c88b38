"""A path on a real S3 server behaves like a local one, and its writes are whole and conditional."""

import datetime as dt
import errno
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from obstore.exceptions import GenericError

from components.errors import BadInput, SettingsError
from components.storage import object_stores, objects
from components.storage.entries import Entries
from components.storage.objects import ObjectPath

ODD = ["odd [1]*?#%41+&é ü.csv", "pct%20name", "sp ace/x y", "a=b;c,d@e$f~g!h'(i)", ".hidden/x", "-", "日本/語"]
NAMES = ["a.csv", "b.csv", "y1/a.csv", "y1/x/c.csv", "y2/d.txt", ".hidden/e.csv", "odd[1]*?.csv"]


@pytest.fixture
def home(s3_bucket: str) -> ObjectPath:
    """An empty folder in an empty bucket."""
    return ObjectPath(f"{s3_bucket}/home")


def fill(folder: Any, names: list[str]) -> None:
    """Writes a file for each name, with its name as content."""
    for name in names:
        if isinstance(folder, Path):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())


class Unstable:
    """A client that loses its connection after every fourth page of a listing."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Yields four pages, then raises."""
        yield from itertools.islice(self._store.list(*arguments, **options), 4)
        if list(itertools.islice(self._store.list(*arguments, **options), 4, 5)):
            raise GenericError("connection lost")


class Pages:
    """A client that lists these pages, in any order of names; None is a lost connection."""

    def __init__(self, pages: list[list[dict[str, Any]] | None]) -> None:
        self._pages = iter(pages)

    def list(self, *_: Any, **__: Any) -> Iterator[list[dict[str, Any]]]:
        """Yields the rest of the pages."""
        for page in self._pages:
            if page is None:
                raise GenericError("connection lost")
            yield page


def meta(path: str, size: int) -> dict[str, Any]:
    """Returns what obstore says about an object."""
    return {"path": path, "size": size, "last_modified": dt.datetime.now(dt.timezone.utc), "e_tag": path}


class TestNames:
    """No request is made."""

    def test_parts_are_those_of_pathlib(self) -> None:
        """Name, stem, suffix, parent, and text."""
        path = ObjectPath("s3://bucket/folder/a.csv.gz/")

        assert (str(path), path.name, path.stem, path.suffix) == (
            "s3://bucket/folder/a.csv.gz", "a.csv.gz", "a.csv", ".gz",
        )  # fmt: skip
        assert (path.bucket, path.key) == ("s3://bucket", "folder/a.csv.gz")
        assert (path.parent / "b.csv", path.with_name("b.csv")) == (ObjectPath("s3://bucket/folder/b.csv"),) * 2
        assert path.relative_to(path.parent.parent).as_posix() == "folder/a.csv.gz"

    @pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "s3://other/x", "a\0b", ""])
    def test_a_name_cannot_lead_outside(self, name: str) -> None:
        """D4: names come from the user's data."""
        with pytest.raises(BadInput, match="leads outside of it"):
            ObjectPath("s3://bucket/folder") / name

    @pytest.mark.parametrize("uri", ["s3://", "s3:///x", "s3://b/../x", "gs://b//x", "s3://b/./x", "az://b/x", "b/x"])
    def test_any_other_uri_is_rejected(self, uri: str) -> None:
        """D4: before anything is requested."""
        with pytest.raises(SettingsError, match="expected a URI such as s3://bucket/folder"):
            ObjectPath(uri)

    def test_it_travels_to_workers_as_its_uri(self) -> None:
        """No client, no credentials."""
        path = ObjectPath("gs://bucket/folder")

        assert pickle.loads(pickle.dumps(path)) == path  # noqa: S301 - our own
        assert vars(path) == {"uri": "gs://bucket/folder"}


class TestListing:
    """By one request per thousand objects."""

    @pytest.mark.parametrize(
        "pattern", ["*.csv", "**/*", "**/*.csv", "*/*.csv", "y?/**/c.csv", "y1/*", "y1/a.csv", "[!.]*.csv", "no*"]
    )
    def test_patterns_match_as_in_pathlib(self, home: ObjectPath, tmp_path: Path, pattern: str) -> None:
        """The same files, in order."""
        fill(home, NAMES)
        fill(tmp_path, NAMES)
        expected = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob(pattern) if path.is_file())

        assert [path.relative_to(home).as_posix() for path in home.glob(pattern)] == expected

    def test_a_listing_has_the_stat_of_each_object(self, home: ObjectPath) -> None:
        """Size, time and identity, the same as by a request for one object; odd names are kept."""
        fill(home, ODD)
        found = home.files_below()

        assert found == {name: (home / name).stat() for name in ODD}
        assert [(stat.st_size, len(stat.identity)) for stat in found.values()] == [
            (len(name.encode()), 32) for name in found
        ]
        assert {name: (home / name).read_text() for name in ODD} == {name: name for name in ODD}

    def test_a_folder_is_listed_without_those_whose_names_begin_alike(self, home: ObjectPath) -> None:
        """`home` is not `home2`."""
        fill(home, ["a"])
        (home.parent / "home2/b").write_bytes(b"b")

        assert list(home.files_below()) == ["a"]
        assert sorted(map(str, home.parent.iterdir())) == [str(home), f"{home}2"]

    def test_objects_that_stand_for_folders_are_skipped(self, home: ObjectPath) -> None:
        """TensorFlow writes empty objects whose key ends in /; an empty file is a file."""
        fill(home, ["full/a"])
        (home / "empty").write_bytes(b"")
        client = boto3.client("s3")
        for key in ("home/", "home/full/", "home/nothing/", "home/nothing/below/"):
            client.put_object(Bucket=home.bucket.removeprefix("s3://"), Key=key, Body=b"")

        assert sorted(home.files_below()) == ["empty", "full/a"]
        assert [(home / name).exists() for name in ("nothing", "full", "empty")] == [False, True, True]

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_a_listing_that_fails_goes_on_where_it_was(
        self, home: ObjectPath, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection is lost after every fourth page: no object is lost, and none is there twice."""
        names = [*NAMES, "full/a", "full-b", "sp ace/x y", *(f"void{number}" for number in range(9))]
        fill(home, names)
        for number in range(9):
            (home / f"void{number}").write_bytes(b"")
        client = boto3.client("s3")
        for key in ("home/", "home/full/", "home/nothing/", "home/zzz/"):
            client.put_object(Bucket=home.bucket.removeprefix("s3://"), Key=key, Body=b"")
        connect = object_stores.client
        monkeypatch.setattr(object_stores, "client", lambda *bucket: Unstable(connect(*bucket)))
        monkeypatch.setattr(object_stores, "_FIRST_PAUSE", 0.0)
        monkeypatch.setattr(objects, "_PAGE", size)

        assert sorted(name for name, _ in home.entries()) == sorted(names)

    @pytest.mark.parametrize("page", [1, 2, 3, 6])
    def test_no_name_is_listed_twice(self, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """An object may have the name of a folder's object, which comes later; a folder itself is no file."""
        metas = [meta(name, size) for name, size in (("a", 3), ("a-b", 1), ("a", 0), ("a/c", 1), ("b", 0), ("b", 0))]
        pages: list[list[Any] | None] = [metas[at : at + page] for at in range(0, len(metas), page)]
        monkeypatch.setattr(object_stores, "client", lambda *_: Pages(pages))

        assert [each["path"] for each in ObjectPath("s3://bucket")._listed()] == ["a", "a-b", "a/c", "b"]

    @pytest.mark.parametrize("pages", [[["c"], ["a"], None, ["d"]], [["a", "c"], None, ["b"]]])
    def test_an_interrupted_listing_of_a_store_that_does_not_sort_is_an_error(
        self, pages: list[list[str] | None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Names would be lost or there twice."""
        served = Pages([None if page is None else [meta(name, 1) for name in page] for page in pages])
        monkeypatch.setattr(object_stores, "client", lambda *_: served)
        monkeypatch.setattr(object_stores, "_FIRST_PAUSE", 0.0)

        with pytest.raises(OSError, match="Listing was interrupted, and the store does not sort names"):
            list(ObjectPath("s3://bucket").entries())

    def test_objects_that_a_store_does_not_sort_are_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In one listing without an interruption, in any order; columns are sorted."""
        monkeypatch.setattr(object_stores, "client", lambda *_: Pages([[meta("c", 1), meta("a", 2), meta("b", 3)]]))

        found = Entries.below(ObjectPath("s3://bucket"))
        assert (list(found.names), list(found.sizes)) == (["a", "b", "c"], [2, 3, 1])

    def test_files_and_folders_are_distinguished(self, home: ObjectPath) -> None:
        """A folder exists if there are objects below it."""
        fill(home, ["a", "sub/b"])
        names = {"a": (True, False), "sub": (False, True), "none": (False, False)}

        assert {name: ((home / name).is_file(), (home / name).is_dir()) for name in names} == names
        assert [path.name for path in home.iterdir()] == ["a", "sub"]

    def test_more_objects_than_one_page_are_listed_and_removed(self, home: ObjectPath) -> None:
        """S3 lists and deletes a thousand per request."""
        names = [f"{number:04}" for number in range(1_005)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: (home / name).write_bytes(b"x"), names))

        assert sorted(home.files_below()) == names
        home.remove_tree()
        assert (home.files_below(), home.exists()) == ({}, False)


class TestContent:
    """Reading and writing."""

    def test_a_version_that_is_not_wanted_is_not_read(self, home: ObjectPath) -> None:
        """Its stat is known before its content."""
        (home / "a").write_bytes(b"content")
        stat = (home / "a").stat()

        assert (home / "a").read_version(lambda found: found == stat) == (b"content", stat)
        assert (home / "a").read_version(lambda found: found != stat) == (b"", stat)

    def test_any_range_is_read_as_from_a_local_file(self, home: ObjectPath, tmp_path: Path) -> None:
        """20 MB, uploaded in parts; any offset, any length, from both ends."""
        local, again = tmp_path / "large", tmp_path / "again"
        local.write_bytes(os.urandom(20 << 20))
        remote = home / "large"
        remote.upload(local)
        remote.download(again)

        assert again.read_bytes() == local.read_bytes() == remote.read_bytes()
        with local.open("rb") as here, remote.open("rb") as there:
            for offset, whence, size in ((0, 0, 3), (7 << 20, 0, 2 << 20), (-9, 2, 100), (5, 0, 1 << 23), (4, 1, -1)):
                assert there.seek(offset, whence) == here.seek(offset, whence)
                assert there.read(size) == here.read(size)
                assert there.tell() == here.tell()

    def test_a_reader_never_mixes_two_versions(self, home: ObjectPath) -> None:
        """An object that is replaced while it is read is an error."""
        (home / "a").write_bytes(b"1" * (3 << 20))
        with (home / "a").open("rb") as stream:
            stream.read(1)
            (home / "a").write_bytes(b"2" * (3 << 20))
            with pytest.raises(OSError, match="It was changed meanwhile") as changed:
                stream.read()

        assert (changed.value.errno, changed.value.filename) == (errno.ESTALE, f"{home}/a")

    def test_empty_objects_are_read(self, home: ObjectPath, tmp_path: Path) -> None:
        """By every method."""
        (tmp_path / "none").touch()
        (home / "a").upload(tmp_path / "none")
        (home / "a").download(tmp_path / "b")

        assert ((home / "a").read_bytes(), (tmp_path / "b").read_bytes(), (home / "a").open().read()) == (b"",) * 3

    def test_of_racing_creators_one_wins(self, home: ObjectPath) -> None:
        """The store decides."""
        barrier = threading.Barrier(8)

        def create(number: int) -> str:
            barrier.wait()
            return (home / "lock").create(f"{number}".encode())

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(create, range(8)))

        (identity,) = filter(None, won)
        assert (home / "lock").read_text() == str(won.index(identity))
        assert (home / "lock").stat().identity == identity

    def test_an_object_is_replaced_only_if_it_is_the_known_one(self, home: ObjectPath) -> None:
        """Compare and swap by identity."""
        (home / "a").write_bytes(b"1")
        known = (home / "a").stat().identity

        made = [(home / "a").replace_if(text, known) for text in (b"2", b"3")]
        assert made == [(home / "a").stat().identity, ""]
        assert (home / "a").read_bytes() == b"2"
        assert (home / "none").replace_if(b"1", known) == ""

    def test_a_writer_whose_answer_was_lost_has_won(
        self, home: ObjectPath, lost_answers: Callable[[str], None]
    ) -> None:
        """Obstore repeats the request, and the store refuses it: the condition was broken by the first attempt."""
        lost_answers("me")

        made = (home / "lock").create(b"me")
        assert made == (home / "lock").stat().identity
        assert (home / "lock").create(b"you") == ""

        lost_answers("again")
        replaced = (home / "lock").replace_if(b"again", made)
        assert replaced == (home / "lock").stat().identity != made
        assert (home / "lock").replace_if(b"you", made) == ""
        assert (home / "lock").read_bytes() == b"again"

    def test_objects_are_copied_on_the_server_and_between_buckets(self, home: ObjectPath, s3_server: Any) -> None:
        """The copy has the same bytes."""
        (home / "a").write_bytes(b"content")
        for target in (home / "copies/a b", ObjectPath(f"{s3_server.new_bucket()}/a")):
            (home / "a").copy_to(target)

            assert target.read_bytes() == b"content"

    def test_an_object_is_deleted(self, home: ObjectPath) -> None:
        """As pathlib does: one that does not exist is an error unless that is expected."""
        (home / "a").write_bytes(b"1")
        (home / "a").unlink()
        (home / "a").unlink(missing_ok=True)

        assert not (home / "a").exists()
        with pytest.raises(FileNotFoundError):
            (home / "a").unlink()


@pytest.mark.parametrize("size", [0, 10, 11, 5 << 20])
def test_at_most_so_many_bytes(size: int, home: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request asks for all of a larger object."""
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    (home / "file").write_bytes(content)
    asked, read_part = [0], ObjectPath.read_part

    def noted(self: ObjectPath, start: int, stop: int, etag: str | None) -> bytes:
        asked.append(stop)
        return read_part(self, start, stop, etag)

    monkeypatch.setattr(ObjectPath, "read_part", noted)

    assert (home / "file").read_at_most(10) == content[:10]
    assert max(asked) <= 1 << 20
