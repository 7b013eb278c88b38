"""Images checked as the settings want it, each content once: what was found out is remembered by its hash.

content, sha256 ─► remembered? ─┬─ yes ─► the verdict, nothing decoded
                                └─ no ──► images.check_image ─► verdict, to be remembered
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from components import native
from components.ingest import images
from components.ingest.images import CheckedImage, Handling, ImageLimits, ImageRejected, check_image
from components.ingest.images.verdicts import Memory, Verdict
from components.ingest.sources import Rejected
from components.native import check as native_check
from components.storage.hashing import digest_of

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

# What makes pixels of bytes, and perceptual hashes of pixels.
_LIBRARIES = ("numpy", "pillow")
_SOURCES = {".py", ".h", ".cc"}


def check(content: bytes, settings: "Ingest") -> CheckedImage:
    """Checks one image; raises Rejected with the reason, and with the position of damage if it is known."""
    return _check(content, _limits(settings), _handling(settings))


def _check(content: bytes, limits: ImageLimits, handling: Handling) -> CheckedImage:
    try:
        return check_image(content, limits, handling)
    except ImageRejected as error:
        raise Rejected(str(error), "" if error.at is None else f"byte {error.at}") from error


class Checks:
    """Checks images and remembers what came of it; many threads may use it at once."""

    def __init__(self, file: Path | None, settings: "Ingest") -> None:
        """Uses the memory in `file`, if there is to be one; what is read of a header alone is read again sooner."""
        self._rules = _limits(settings), _handling(settings)
        self._memory = _memory(file, *self._rules) if file and self._rules[1].decodes else None

    def __enter__(self) -> "Checks":
        return self

    def __exit__(self, *_: object) -> None:
        if self._memory:
            self._memory.close()

    def expect(self, hashes: Iterable[str]) -> None:
        """Looks up what is known of images that will be checked: all at once, that is cheaper."""
        if self._memory:
            self._memory.ask(hashes)

    def check(self, content: bytes, sha256: str) -> CheckedImage:
        """Checks an image unless its content is known; raises Rejected with the reason."""
        if self._memory is None:
            return _check(content, *self._rules)
        if (known := self._memory.recall(sha256)) is None:
            return self._check_anew(content, sha256, self._memory)
        if known.reason:
            raise Rejected(known.reason, known.position)
        return CheckedImage(content, known.width, known.height, known.source_format, "", known.perceptual_hash)

    def _check_anew(self, content: bytes, sha256: str, memory: Memory) -> CheckedImage:
        try:
            image = _check(content, *self._rules)
        except Rejected as error:
            # A lack of memory says nothing of the image.
            if not (error.__cause__ and isinstance(error.__cause__.__cause__, MemoryError)):
                memory.note(sha256, Verdict(reason=str(error), position=error.position))
            raise
        if not image.changed:  # else its new bytes would have to be remembered, too
            memory.note(sha256, Verdict(image.width, image.height, image.source_format, image.perceptual_hash))
        return image


def _limits(settings: "Ingest") -> ImageLimits:
    return ImageLimits(max_pixels=settings.max_pixels, max_bytes=settings.max_file_mb << 20)


def _handling(settings: "Ingest") -> Handling:
    return Handling(settings.image_check == "full", settings.store, settings.store_side, settings.store_quality)


def _memory(file: Path, limits: ImageLimits, handling: Handling) -> Memory:
    code = _code()
    return Memory(file, code, rules=digest_of([code, repr(limits), repr(handling)]))


@lru_cache(maxsize=1)
def _code() -> str:
    """Returns a digest of what makes a verdict of a content."""
    from importlib import metadata

    # Not by `fingerprint`, which would parse them all: 0.1 s of every process that checks.
    files = [
        file for door in (images, native, native_check) for file in sorted(Path(str(door.__file__)).parent.iterdir())
    ]
    texts = [f"{file.name}\0{file.read_text()}" for file in files if file.suffix in _SOURCES]
    return digest_of([*texts, *map(metadata.version, _LIBRARIES)])
