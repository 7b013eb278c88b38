"""Checks images as the settings require; the verdict on a content is cached by its hash.

content, sha256 ─► in the cache? ─┬─ yes ─► the verdict, nothing is decoded
                                  └─ no ──► images.check_image ─► verdict, stored when the shard is finished
"""

from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from components import native
from components.ingest import images
from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.native import check as native_check
from components.records import image_format
from components.records.quarantine import Rejected
from components.storage.cache import Cache
from components.storage.hashing import digest_of

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

_LIBRARIES = ("numpy", "pillow")  # which decode images and compute perceptual hashes
_SOURCES = {".py", ".h", ".cc"}
_SETTINGS = ("max_pixels", "max_file_mb", "image_check", "store", "store_side", "store_quality")


class Verdict(NamedTuple):
    """Size, format and perceptual hash of an image, or why it was rejected."""

    width: int = 0
    height: int = 0
    source_format: str = ""
    perceptual_hash: int | None = None
    reason: str = ""
    position: str = ""


def check(content: bytes, settings: "Ingest", *, hashed: bool = True) -> CheckedImage:
    """Checks one image; raises Rejected with the reason, and with the position of damage if it is known."""
    try:
        return check_image(content, settings, hashed=hashed)
    except ImageRejected as error:
        raise Rejected(str(error), "" if error.at is None else f"byte {error.at}") from error


class ImageChecker:
    """Checks images and caches the verdicts; threads may share it."""

    def __init__(self, file: Path | None, settings: "Ingest") -> None:
        """Opens the cache in `file`, if there is one; a check of headers alone is faster than the cache."""
        decodes = settings.image_check == "full" or settings.store != "original"
        self._settings = settings
        self._cache = Cache(file, f"verdicts_{code_digest()[:16]}") if file and decodes else None
        self._prefix = bytes.fromhex(digest_of(repr(getattr(settings, name)) for name in _SETTINGS))
        self._known: dict[bytes, bytes | None] = {}  # None: not in the cache
        self._new: dict[bytes, bytes] = {}

    def __enter__(self) -> "ImageChecker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._cache:
            self._cache.put(self._new)
            self._cache.close()

    def expect(self, hashes: Iterable[str]) -> None:
        """Looks up images that will be checked next, which is faster than one by one."""
        self._known = self._look_up([self._key(sha256) for sha256 in hashes])

    def check(self, content: bytes, sha256: str) -> CheckedImage:
        """Checks an image unless its verdict is cached; raises Rejected with the reason."""
        if self._cache is None:
            return check(content, self._settings)
        key = self._key(sha256)
        stored = self._known[key] if key in self._known else self._look_up([key])[key]
        if stored is None:
            return self._decode(content, key)
        known = Verdict(*orjson.loads(stored))
        if known.reason:
            raise Rejected(known.reason, known.position)
        return CheckedImage(content, known.width, known.height, known.source_format, "", known.perceptual_hash)

    def _key(self, sha256: str) -> bytes:
        return self._prefix + bytes.fromhex(sha256)

    def _look_up(self, keys: list[bytes]) -> dict[bytes, bytes | None]:
        return {**dict.fromkeys(keys), **self._cache.get(keys)} if self._cache else {}

    def _decode(self, content: bytes, key: bytes) -> CheckedImage:
        try:
            image = check(content, self._settings)
        except Rejected as error:
            # A lack of memory says nothing about the image.
            if not (error.__cause__ and isinstance(error.__cause__.__cause__, MemoryError)):
                self._new[key] = _stored(Verdict(reason=str(error), position=error.position))
            raise
        if not image.changed:  # else its new bytes would have to be cached, too
            size = image.width, image.height
            self._new[key] = _stored(Verdict(*size, image.source_format, image.perceptual_hash))
        return image


def _stored(verdict: Verdict) -> bytes:
    return orjson.dumps(tuple(verdict))


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Returns a digest of the code and the libraries that check an image: verdicts of other code are dropped."""
    # Not by `fingerprint`, which parses all files: 0.1 s in every process that checks images.
    folders = [Path(str(package.__file__)).parent for package in (images, native, native_check)]
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in _SOURCES]
    texts = [f"{file.name}\0{file.read_text()}" for file in (*files, Path(image_format.__file__))]
    return digest_of([*texts, *map(metadata.version, _LIBRARIES)])
