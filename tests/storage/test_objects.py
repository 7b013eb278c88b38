"""A path on a real S3 server behaves like a local one, and its writes are whole, conditional and survive an outage."""

import errno
import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from components.errors import BadInput, SettingsError
from components.storage import object_stores
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

        def create(number: int) -> bool:
            barrier.wait()
            return (home / "lock").create(f"{number}".encode())

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(create, range(8)))

        assert won.count(True) == 1
        assert (home / "lock").read_text() == str(won.index(True))

    def test_an_object_is_replaced_only_if_it_is_the_known_one(self, home: ObjectPath) -> None:
        """Compare and swap by identity."""
        (home / "a").write_bytes(b"1")
        known = (home / "a").stat().identity

        assert [(home / "a").replace_if(text, known) for text in (b"2", b"3")] == [True, False]
        assert (home / "a").read_bytes() == b"2"
        assert (home / "none").replace_if(b"1", known) is False

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


class TestErrors:
    """B9: an OSError with number, reason and URI."""

    @pytest.mark.parametrize(
        "use",
        [
            ObjectPath.read_bytes, ObjectPath.open, ObjectPath.stat, ObjectPath.unlink,
            lambda path: path.download(Path(os.devnull)),
        ],
    )  # fmt: skip
    def test_a_missing_object(self, home: ObjectPath, use: Callable[[ObjectPath], Any]) -> None:
        """As for a local file."""
        with pytest.raises(FileNotFoundError) as missing:
            use(home / "none")

        assert (missing.value.strerror, missing.value.filename) == ("No such file or directory", f"{home}/none")

    @pytest.mark.usefixtures("home")
    def test_a_missing_bucket(self) -> None:
        """Not an empty listing."""
        with pytest.raises(FileNotFoundError, match="No such bucket: 's3://no-such-bucket/a'"):
            ObjectPath("s3://no-such-bucket/a").files_below()

    def test_wrong_credentials_are_refused_without_being_printed(
        self, home: ObjectPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """D5: the message names the server and what it said."""
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-right-one")
        for use in (home.files_below, (home / "a").read_bytes, lambda: (home / "a").write_bytes(b"x")):
            with pytest.raises(
                PermissionError, match=r"Permission denied by http://127\.0\.0\.1:\d+: Sig.*rights"
            ) as no:
                use()
            assert "not-the-right-one" not in str(no.value)
            assert "penstock-tests" not in str(no.value)

    @pytest.mark.parametrize("name", ["bad\x01", "bad\udc80"])
    def test_a_name_that_no_store_can_have(self, home: ObjectPath, name: str) -> None:
        """A control character, or bytes that are not UTF-8."""
        with pytest.raises(OSError) as rejected:  # noqa: PT011 - the number is compared
            (home / name).write_bytes(b"x")

        assert (rejected.value.errno, rejected.value.filename) == (errno.EINVAL, f"{home}/{name}")

    def test_no_credentials_at_all(self, home: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """At once, and with what to set."""
        for name in [name for name in os.environ if name.startswith("AWS_") and "DISABLED" not in name]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(SettingsError, match=r"s3:// needs credentials.*set AWS_ACCESS_KEY_ID and AWS_SECRET"):
            home.exists()

    @pytest.mark.parametrize(
        ("address", "reason"),
        [
            ("http://198.51.100.7:9000", "data and credentials would travel unencrypted; use https://"),
            ("127.0.0.1:9000", "expected a URL such as http://127.0.0.1:9000"),
            ("ftp://127.0.0.1", "expected a URL such as http://127.0.0.1:9000"),
        ],
    )
    def test_an_endpoint_that_cannot_be_used(
        self, home: ObjectPath, address: str, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before a request is made: TensorFlow would wait a minute for an address without http://."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(SettingsError, match=f"AWS_ENDPOINT_URL={address}: {reason}"):
            home.exists()


class TestOutage:
    """A store that cannot be reached for a while."""

    def test_a_write_waits_until_the_store_is_back(
        self, home: ObjectPath, tmp_path: Path, s3_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server starts again after the first attempts of each writer have failed."""
        (tmp_path / "large").write_bytes(os.urandom(20 << 20))
        failed = threading.Semaphore(0)
        pause = time.sleep

        def pause_and_count(seconds: float) -> None:
            failed.release()
            pause(seconds)

        monkeypatch.setattr(time, "sleep", pause_and_count)
        s3_server.stop()
        with ThreadPoolExecutor(4) as pool:
            written: list[Future[Any]] = [
                pool.submit((home / "small").write_bytes, b"1"),
                pool.submit((home / "large").upload, tmp_path / "large"),
                pool.submit((home / "lock").create, b"1"),
                pool.submit(home.files_below),
            ]
            for _ in range(2 * len(written)):
                assert failed.acquire(timeout=60)
            s3_server.start()
            results = [each.result() for each in written]

        assert results[2] is True
        assert (home / "small").read_bytes() == b"1"
        assert (home / "large").read_bytes() == (tmp_path / "large").read_bytes()

    def test_a_store_that_stays_away_is_named(
        self, home: ObjectPath, s3_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B9: with address and URI, when the patience is over."""
        monkeypatch.setattr(object_stores, "PATIENCE", 0.5)
        s3_server.stop()
        with pytest.raises(OSError, match=r"did not answer for .* check address and network") as away:
            (home / "a").write_bytes(b"1")

        assert s3_server.environment["AWS_ENDPOINT_URL"] in str(away.value)
        assert (away.value.errno, away.value.filename) == (errno.EIO, f"{home}/a")

    def test_a_creator_whose_answer_was_lost_has_won(self, home: ObjectPath) -> None:
        """Its second attempt finds the object that the first one wrote."""
        calls: list[int] = []

        def put(store: Any) -> bool:
            calls.append(1)
            store.put((home / "lock").key, b"me", mode="create")
            if len(calls) == 1:
                from obstore.exceptions import GenericError

                raise GenericError("connection closed before message completed")
            return True

        won = object_stores.ask(str(home / "lock"), put, lost_answer=lambda: (home / "lock").read_bytes() == b"me")

        assert (won, len(calls)) == (True, 2)
