"""Clients of object stores, one per bucket and process, and what their errors mean.

    s3://bucket ─► environment variables ─► obstore's S3Store or GCSStore, made at the first request, then kept

    request ─► error ─┬─ may pass (no connection, timeout, 5xx, 429) ─► repeated for a minute, with longer pauses
                      └─ final ─► OSError with number, reason and URI, without secrets

The pauses are in Python, because a signal is handled between two calls of obstore and not inside of one.
"""

import errno
import functools
import ipaddress
import os
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from components import redact
from components.errors import SettingsError

if TYPE_CHECKING:
    from obstore.store import GCSStore, S3Store

T = TypeVar("T")

SCHEMES = ("s3", "gs")
PATIENCE = 60.0  # seconds for which a request is repeated
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds
_REASON = 300  # characters of a store's message
_ENDPOINTS = {  # variables with the address of a server that is not the provider's; the first one counts
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT"),
    "gs": ("STORAGE_EMULATOR_HOST",),
}
_READ = re.compile(r"AWS_|S3_ENDPOINT|GOOGLE_|STORAGE_EMULATOR_HOST|HOME$")  # variables that a client is made from
_STATUS = re.compile(r"status(?: code)?:? (\d{3})")
_MAY_PASS = {408, 429}  # of the 4xx
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_XML = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_METADATA_SERVER = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|metadata/computeMetadata")
_NUMBERS = {
    "PermissionDeniedError": errno.EACCES,
    "UnauthenticatedError": errno.EACCES,
    "AlreadyExistsError": errno.EEXIST,
    "PreconditionError": errno.ESTALE,
    "NotModifiedError": errno.ESTALE,
    "InvalidPathError": errno.EINVAL,
    "NotSupportedError": errno.ENOTSUP,
}
_STATUS_NUMBERS = {"401": errno.EACCES, "403": errno.EACCES, "404": errno.ENOENT}
_stops = threading.local()
_WORDS = {
    errno.ENOENT: "No such file or directory",
    errno.EACCES: "Permission denied",
    errno.EEXIST: "File exists",
    errno.ESTALE: "It was changed meanwhile",
}


def client(scheme: str, bucket: str) -> "S3Store | GCSStore":
    """Returns the client of a bucket, by the environment variables of this process."""
    return _client(scheme, bucket, tuple(sorted(each for each in os.environ.items() if _READ.match(each[0]))))


@functools.lru_cache(maxsize=32)
def _client(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...]) -> "S3Store | GCSStore":
    from obstore.store import GCSStore, S3Store

    del settings  # obstore and boto3 read them
    server = endpoint(scheme)
    common: dict[str, Any] = {
        "client_options": {
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=30),
            "allow_http": bool(server) and _may_be_http(server),
        },
        # One part of a large upload is repeated by obstore, the whole request by `ask`.
        "retry_config": {
            "max_retries": 2,
            "retry_timeout": timedelta(seconds=10),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1)},
        },
    }
    if scheme == "gs":
        return GCSStore(bucket, config={"base_url": server, "bearer_token": "emulator"} if server else {}, **common)
    if server:
        common["config"] = {"endpoint": server}
    if not os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SKIP_SIGNATURE", "").lower() != "true":
        common["credential_provider"] = _boto3_credentials()
    return S3Store(bucket, **common)


def _boto3_credentials() -> Any:
    """Returns the credentials of a profile, a role or this machine, as boto3 finds them."""
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except Exception as error:  # noqa: BLE001 - boto3 and botocore have many kinds
        raise SettingsError(
            f"s3:// needs credentials ({_first_line(error)}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE; for a public bucket AWS_SKIP_SIGNATURE=true"
        ) from None


def endpoint(scheme: str) -> str:
    """Returns the address of the server of a scheme; empty for the provider's own."""
    name, text = next(((name, os.environ[name]) for name in _ENDPOINTS[scheme] if os.environ.get(name)), ("", ""))
    if name == "STORAGE_EMULATOR_HOST" and "://" not in text:
        text = f"http://{text}"  # Google's own clients accept host:port
    if text and not re.match(r"https?://[^/?#]+/?$", text):
        raise SettingsError(f"{name}={redact.redact(text)}: expected a URL such as http://127.0.0.1:9000")
    if text.startswith("http://") and not _may_be_http(text):
        raise SettingsError(
            f"{name}={redact.redact(text)}: data and credentials would travel unencrypted; use https://, or set "
            "AWS_ALLOW_HTTP=true if the network is private"
        )
    return text.rstrip("/")


def _may_be_http(server: str) -> bool:
    host = urllib.parse.urlsplit(server).hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return loopback or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


def ask(uri: str, question: Callable[["S3Store | GCSStore"], T]) -> T:
    """Returns the answer of a store; repeats the question while the store cannot be reached.

    Args:
        uri: of the object.
        question: called with the client of its bucket.

    Raises:
        OSError: with number, reason and URI.
    """
    scheme, _, rest = uri.partition("://")
    began, pause = time.monotonic(), _FIRST_PAUSE
    while True:
        store = client(scheme, rest.partition("/")[0])
        try:
            return question(store)
        except Exception as error:  # noqa: BLE001 - obstore's have no common base
            waited = time.monotonic() - began
            if not may_pass(error) or waited + pause > PATIENCE:
                raise _as_os_error(error, uri, waited if may_pass(error) else None) from None
        _wait(pause * random.uniform(0.5, 1), uri)  # not all workers at once
        pause = min(2 * pause, _LONGEST_PAUSE)


def stop_of_thread() -> threading.Event | None:
    """Returns the event that stops this thread's requests from being repeated; None if there is none."""
    return getattr(_stops, "event", None)


def stop_thread_by(event: threading.Event) -> None:
    """Makes an event stop this thread's requests from being repeated."""
    _stops.event = event


def _wait(seconds: float, uri: str) -> None:
    stop = stop_of_thread()
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise InterruptedError(errno.EINTR, "Stopped while the store could not be reached", uri)


def may_pass(error: BaseException) -> bool:
    """Whether an error may be gone a little later."""
    if type(error).__name__ != "GenericError" or _METADATA_SERVER.search(str(error)):
        return False
    found = _STATUS.search(str(error))
    return not found or int(found[1]) >= 500 or int(found[1]) in _MAY_PASS  # noqa: PLR2004 - HTTP


def _number(error: BaseException) -> int:
    if isinstance(error, OSError):
        return error.errno or (errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO)
    if isinstance(error, ValueError):
        return errno.EINVAL
    status = _STATUS.search(str(error))  # of a listing, whose errors are all of one type
    return _NUMBERS.get(type(error).__name__) or _STATUS_NUMBERS.get(status[1] if status else "", errno.EIO)


def _as_os_error(error: BaseException, uri: str, waited: float | None) -> OSError:
    """Returns an OSError with number, reason and URI; `waited` is how long the store could not be reached."""
    number = _number(error)
    if isinstance(error, OSError) and error.errno:
        return OSError(number, error.strerror, uri)
    scheme = uri.partition("://")[0]
    server = endpoint(scheme) or f"the servers of {scheme}://"
    if waited is not None:
        why = f"{server} did not answer for {waited:.0f} s ({_reason(error)}); check address and network"
        return OSError(errno.ETIMEDOUT, why, uri)
    if _METADATA_SERVER.search(str(error)):
        return OSError(errno.EACCES, "no credentials; set GOOGLE_APPLICATION_CREDENTIALS", uri)
    said = _XML.search(str(error))
    if number == errno.EACCES:
        why = f": {_first_line(said[1])}" if said else ""
        return OSError(number, f"Permission denied by {server}{why}; check the credentials and their rights", uri)
    if said and said[1] == "NoSuchBucket":
        return OSError(errno.ENOENT, "No such bucket", uri)
    return OSError(number, _WORDS.get(number) or _reason(error), uri)


def _reason(error: BaseException) -> str:
    """Returns what a store said, or else the last causes of an error."""
    said = _XML.search(str(error))
    if said:
        return _first_line(": ".join(filter(None, said.groups())))
    if isinstance(error, UnicodeError):
        return "the name is not UTF-8"
    line = _first_line(error, 4 * _REASON)
    if status := _STATUS.search(line):
        return f"HTTP status {status[1]}"
    kind = _KIND.search(str(error))
    return {"Connect": "no connection", "Timeout": "timeout"}.get(kind[1] if kind else "", line.rpartition(" - ")[2])


def _first_line(error: object, limit: int = _REASON) -> str:
    return redact.redact((str(error).splitlines() or [""])[0])[:limit]
