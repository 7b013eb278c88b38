"""Errors of a real S3 server are OSErrors with number, reason and URI; a server that comes back is waited for."""

import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.storage import object_stores
from components.storage.objects import ObjectPath


@pytest.fixture
def home(s3_bucket: str) -> ObjectPath:
    """An empty folder in an empty bucket."""
    return ObjectPath(f"{s3_bucket}/home")


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

        assert results[2] == (home / "lock").stat().identity
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
        assert (away.value.errno, away.value.filename) == (errno.ETIMEDOUT, f"{home}/a")
