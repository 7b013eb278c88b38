"""A path on an object store: s3://bucket/key or gs://bucket/key, in the words of `pathlib.Path`.

    ObjectPath ─┬─ stat, is_file ─► one request         files_below, glob ─► one listing, with identities
                ├─ open ──────────► requests for byte ranges, all of the same version of the object
                ├─ write_bytes, upload ─► whole or not at all: an object appears with its last byte
                ├─ create, replace_if ──► by one writer only, decided by the store
                └─ download, copy_to, unlink, remove_tree

It holds the URI alone, so it can be sent to Beam's workers; the client is made in the process that uses it. A store has
no folders and no rename: a folder exists if there are objects below it.
"""

import contextlib
import errno
import io
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter, lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from components.errors import SettingsError
from components.storage import transfers
from components.storage.object_stores import SCHEMES, ask
from components.storage.uri_path import REQUEST, RemoteStat, UriPath

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta, PutResult

_PART = 8 << 20  # bytes per request of a large transfer
_MOST_PARTS = 9_000  # of one upload; S3 allows 10,000
_AT_ONCE = 4  # requests of one transfer
_PAGE = 1_000  # objects per request of a listing
_LARGEST_COPY = 5 << 30  # bytes that S3 copies in one request


@dataclass(frozen=True, order=True)
class ObjectPath(UriPath):
    """An object, or a folder of objects."""

    def __post_init__(self) -> None:
        """Raises SettingsError if the URI cannot be that of an object."""
        scheme, found, rest = self.uri.rstrip("/").partition("://")
        bucket, *names = rest.split("/")
        if scheme not in SCHEMES or not found or not bucket or {"", ".", ".."} & set(names) or "\0" in rest:
            raise SettingsError(
                f"{self.uri}: expected a URI such as s3://bucket/folder or gs://bucket/folder, without empty names, "
                ". or .. in it"
            )
        object.__setattr__(self, "uri", self.uri.rstrip("/"))

    @property
    def bucket(self) -> str:
        """URI of the bucket."""
        return self._home

    @property
    def key(self) -> str:
        """Name of the object in its bucket; empty for the bucket."""
        return self.uri[len(self._home) + 1 :]

    def stat(self) -> RemoteStat:
        """Returns size, time and identity of an object; the identity is its etag, which changes with the content."""
        return _stat_of(self._head())

    def _head(self) -> "ObjectMeta":
        if not self.key:
            raise OSError(errno.EISDIR, "Is a directory", self.uri)
        return ask(self.uri, lambda store: store.head(self.key))

    def is_file(self) -> bool:
        """Whether there is an object with this name."""
        try:
            return bool(self.key) and self.stat() is not None
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether there are objects below it."""

        def first_page(store: Any) -> "list[ObjectMeta]":
            return list(next(iter(store.list(self.key or None, chunk_size=_PAGE)), []))

        return bool(self._files_of(ask(self.uri, first_page)))

    def iterdir(self) -> Iterator["ObjectPath"]:
        """Yields the files and folders directly below, by one listing."""
        found = ask(self.uri, lambda store: store.list_with_delimiter(self.key or None))
        folders = {_relative(prefix, self.key) for prefix in found["common_prefixes"]}
        for name in sorted(folders | set(self._files_of(list(found["objects"]), folders))):
            yield self / name

    def files_below(self, depth: int | None = None) -> dict[str, RemoteStat]:
        """Returns all objects below by their relative names, by one listing; `depth` is the most names in one."""
        return {name: stat for name, stat in self.entries() if depth is None or name.count("/") < depth}

    def entries(self) -> Iterator[tuple[str, RemoteStat]]:
        """Yields all objects below with their relative names, in the order of the store, without the empty objects for
        folders; never all of them are in memory.
        """  # noqa: D205
        held: tuple[str, RemoteStat] | None = None  # an empty object: the next one shows whether it is a folder
        folder = self.key
        for each in self._listed():
            found = _relative(each["path"], folder), _stat_of(each)
            if held and not found[0].startswith(f"{held[0]}/") and (self / held[0]).is_file():
                yield held
            held = found if found[0] and not found[1].st_size else None
            if found[0] and not held:  # an empty name is the object of this folder itself
                yield found
        if held and (self / held[0]).is_file():
            yield held

    def _listed(self) -> Iterator["ObjectMeta"]:
        """Yields what the store lists, page by page, each name once; after an error the listing goes on where it was.

        Raises:
            OSError: a listing that had to go on did so elsewhere, because the store does not sort names.
        """
        after: str | None = None  # name from which a listing can go on; obstore drops the / of a folder's key
        since: set[str] = set()  # names that were yielded and may be listed again after that one
        above: list[str] = []  # names that were yielded and begin the next one: `a` is there before the folder `a/`
        last, is_sorted, again = "", True, False
        pages: Iterator[list[ObjectMeta]] | None = None

        def next_page(store: Any) -> "list[ObjectMeta]":
            nonlocal pages, last, again
            if pages is None:
                pages = iter(store.list(self.key or None, offset=after, chunk_size=_PAGE))
                last = after or ""
            try:
                return list(next(pages, []))
            except Exception:
                pages, again = None, True
                raise

        while page := ask(self.uri, next_page):
            if names := _plain_names(page, last, again):
                yield from page
                after = last = names[-1]
                since, above = {last}, _beginnings(last, {*above, *names})
                continue
            for each in page:
                name = each["path"]
                # The key of an empty object may have had a / at its end, and so come later than its name.
                key = name if name > last or each["size"] else f"{name}/"
                is_sorted, last = is_sorted and key > last, key
                self._check_order(is_sorted or not again)
                while above and not key.startswith(above[-1]):
                    above.pop()
                if name in since or name in above:
                    continue
                above.append(name)
                yield each
                if key == name:
                    after = name
                    since.clear()
                since.add(name)

    def _check_order(self, is_sorted: bool) -> None:
        if not is_sorted:
            raise OSError(errno.EIO, "Listing was interrupted, and the store does not sort names", self.uri)

    def _files_of(self, listed: "list[ObjectMeta]", folders: set[str] | None = None) -> dict[str, RemoteStat]:
        """Returns the files of a listing, without the empty objects for folders, whose key ends in /.

        obstore drops the / of a key. So an empty object is one of them if others are below it, or if there is no object
        with its name.
        """
        found = {_relative(each["path"], self.key): _stat_of(each) for each in listed}
        found.pop("", None)  # the object of this folder itself
        above = {name[:at] for name in found for at, char in enumerate(name) if char == "/"} | (folders or set())
        for name in [name for name, stat in found.items() if not stat.st_size]:
            if name in above or not (self / name).is_file():
                del found[name]
        return found

    def open(self, mode: Literal["rb"] = "rb", buffering: int = -1) -> BinaryIO:
        """Opens an object; `buffering` is the minimum of bytes per request."""
        del mode
        return io.BufferedReader(_ObjectStream(self), max(buffering, REQUEST))

    def read_bytes(self) -> bytes:
        """Returns the whole content, a small one by one request."""
        content = self._small(_PART)
        return super().read_bytes() if content is None else content

    def read_at_most(self, limit: int) -> bytes:
        """Returns the content, or so many bytes of it; a small one by one request."""
        content = self._small(min(limit, _PART))
        return super().read_at_most(limit) if content is None else content

    def read_version(self, is_wanted: Callable[[RemoteStat], bool]) -> tuple[bytes, RemoteStat]:
        """Returns the whole content, and the stat of the version that was read; no content if it is not wanted."""

        def small(store: Any) -> tuple[bytes | None, RemoteStat]:
            found = store.get(self.key)
            stat = _stat_of(found.meta)
            if not is_wanted(stat):
                return b"", stat
            return (bytes(found.bytes()) if stat.st_size <= _PART else None), stat

        content, stat = ask(self.uri, small)
        if content is not None:
            return content, stat
        with _ObjectStream(self) as stream:
            return stream.readall(), stream.stat

    def _small(self, most: int) -> bytes | None:
        """Returns the whole content if it has at most so many bytes; a larger one is not transferred."""
        if not self.key:
            raise OSError(errno.EISDIR, "Is a directory", self.uri)

        def small(store: Any) -> bytes | None:
            found = store.get(self.key)
            return bytes(found.bytes()) if found.meta["size"] <= most else None

        return ask(self.uri, small)

    def read_part(self, start: int, stop: int, etag: str | None) -> bytes:
        """Returns the bytes between two offsets; raises OSError (ESTALE) if the object has another etag by now."""
        options: Any = {"range": (start, stop)} | ({"if_match": etag} if etag else {})
        return ask(self.uri, lambda store: bytes(store.get(self.key, options=options).bytes()))

    def write_bytes(self, content: bytes) -> None:
        """Writes an object; readers see the old content or the new one, never a part."""
        ask(self.uri, lambda store: store.put(self.key, content, use_multipart=False))

    def create(self, content: bytes) -> str:
        """Writes an object if there is none, and returns its identity; empty if there was one.

        The content must name its writer: if the answer to an attempt was lost, it decides whether that one succeeded.
        """
        return self._put_if("create", content)

    def replace_if(self, content: bytes, identity: str) -> str:
        """Replaces an object if it still has this identity, and returns the new one; empty if it has another one.

        The content must name its writer, as that of `create`.
        """
        try:
            found = self._head()
        except FileNotFoundError:
            return ""
        if _stat_of(found).identity != identity:
            return ""
        return self._put_if({name: found[name] for name in ("e_tag", "version") if found[name]}, content)

    def _put_if(self, condition: Any, content: bytes) -> str:
        try:
            return ask(self.uri, lambda store: _identity_of(store.put(self.key, content, mode=condition)))
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ESTALE, errno.ENOENT}:
                raise
        # obstore, too, repeats a request: an attempt whose answer was lost may have broken the condition.
        try:
            return ask(self.uri, lambda store: _identity_if(store.get(self.key), content))
        except FileNotFoundError:
            return ""

    def upload(self, local: Path) -> None:
        """Writes a local file as an object; a large one in parts, which become visible together."""
        part = max(_PART, -(-local.stat().st_size // _MOST_PARTS))
        ask(self.uri, lambda store: store.put(self.key, local, chunk_size=part, max_concurrency=_AT_ONCE))

    def download(self, local: Path) -> None:
        """Writes the object to a local file, which is not renamed or synced; a large one by several requests."""
        found = self._head()
        starts = range(0, found["size"], _PART)

        def part(start: int) -> bytes:
            return self.read_part(start, min(start + _PART, found["size"]), found["e_tag"])

        with local.open("wb") as file:
            for first in range(0, len(starts), _AT_ONCE):
                file.writelines(transfers.each(part, starts[first : first + _AT_ONCE], _AT_ONCE))

    def copy_to(self, other: "ObjectPath") -> None:
        """Copies the object; within one bucket on the server, else through this machine."""
        if self.bucket == other.bucket and self.stat().st_size <= _LARGEST_COPY:
            ask(self.uri, lambda store: store.copy(self.key, other.key))
            return
        with tempfile.NamedTemporaryFile() as local:
            self.download(Path(local.name))
            other.upload(Path(local.name))

    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes the object."""
        if not missing_ok:
            self.stat()  # S3 does not say whether there was one
        with contextlib.suppress(FileNotFoundError):
            ask(self.uri, lambda store: store.delete(self.key))

    def remove_tree(self) -> None:
        """Deletes the object and all objects below it, which may be none."""
        keys = [f"{self.key}/{name}" if self.key else name for name in self.files_below()]
        for start in range(0, len(keys), _PAGE):
            page = keys[start : start + _PAGE]
            with contextlib.suppress(FileNotFoundError):
                ask(self.uri, lambda store, page=page: store.delete(page))  # type: ignore[misc]
        if self.key:
            self.unlink(missing_ok=True)


class _ObjectStream(io.RawIOBase):
    """An object that is read by byte ranges."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__()
        found = path._head()  # noqa: SLF001 - same module
        self._path, self._size, self._etag, self._at = path, found["size"], found["e_tag"], 0
        self.stat = _stat_of(found)

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes by one request."""
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Reads the rest; Python's own method would request 8 KB at a time."""
        return b"".join(iter(lambda: self._read(_PART), b""))

    def _read(self, size: int) -> bytes:
        stop = min(self._at + min(size, _PART), self._size)  # a longer request could take longer than its timeout
        if stop <= self._at:
            return b""
        data = self._path.read_part(self._at, stop, self._etag)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "Invalid argument", str(self._path))
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Returns the offset."""
        return self._at

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True


def _plain_names(page: "list[ObjectMeta]", last: str, again: bool) -> list[str]:
    """Returns the names of a page if they are ascending, all objects have content, and nothing was interrupted."""
    names = list(map(itemgetter("path"), page))
    if not again and names[0] > last and all(map(lt, names, names[1:])) and all(map(itemgetter("size"), page)):
        return names
    return []


def _beginnings(name: str, known: set[str]) -> list[str]:
    """Returns the known names that a name begins with, itself included; the shortest first."""
    return [name[:end] for end in range(1, len(name) + 1) if name[:end] in known]


def _relative(key: str, folder: str) -> str:
    return key[len(folder) + 1 if folder else 0 :].rstrip("/")


def _stat_of(found: "ObjectMeta") -> RemoteStat:
    # The same from a listing and from a request for one object: the former has no version, the latter whole seconds.
    return RemoteStat(found["size"], int(found["last_modified"].timestamp()) * 10**9, _identity_of(found))


def _identity_of(found: "ObjectMeta | PutResult") -> str:
    return (found["e_tag"] or found["version"] or "").strip('"')


def _identity_if(found: "GetResult", content: bytes) -> str:
    """Returns the identity of an object if this is its content, else nothing."""
    return _identity_of(found.meta) if bytes(found.bytes()) == content else ""
