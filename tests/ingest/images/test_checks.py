"""An image with a cached verdict is not decoded again, and a verdict of other rules or other code is not used."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components import fingerprint
from components.ingest.images import CheckedImage, checks
from components.ingest.images.checks import ImageChecker, code_digest
from components.records.quarantine import Rejected
from components.settings.ingest import Ingest


def jpeg(seed: int, **options: object) -> bytes:
    """Returns a JPEG of its own."""
    blots = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blots).resize((60, 40)).save(out, "JPEG", **options)
    return out.getvalue()


GOOD = jpeg(1)
CUT = GOOD[:-40]


def sha256(content: bytes) -> str:
    """Returns the hash by which a verdict is cached."""
    return hashlib.sha256(content).hexdigest()


def check(file: Path | None, content: bytes, name: str = "", **settings: object) -> CheckedImage | tuple[str, str]:
    """Returns the image that a cache in `file` returns for a hash, or reason and position of its rejection."""
    with ImageChecker(file, Ingest.model_validate(settings)) as checked:
        try:
            return checked.check(content, name or sha256(content))
        except Rejected as error:
            return str(error), error.position


def is_decoded(file: Path, name: str, **settings: object) -> bool:
    """Whether a content must be decoded: text passes as an image under the hash of one with a cached verdict."""
    return check(file, b"text", name, **settings) != CheckedImage(b"text", 60, 40, "JPEG", "")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a cache that does not exist."""
    return tmp_path / "notes" / "checks.db"


class TestHit:
    """What is cached."""

    def test_a_known_image_is_not_decoded(self, file: Path) -> None:
        """Size, format and perceptual hash come from the cache, the bytes from the caller."""
        first = check(file, GOOD)
        again = check(file, b"text", sha256(GOOD))

        assert isinstance(first, CheckedImage)
        assert isinstance(again, CheckedImage)
        assert again == CheckedImage(b"text", 60, 40, "JPEG", "")
        assert again.perceptual_hash == first.perceptual_hash is not None

    def test_a_known_rejection_is_not_decoded(self, file: Path) -> None:
        """Reason and position are the same."""
        expected = ("JPEG is truncated: no end marker, expected one after the image data", f"byte {len(CUT)}")

        assert [check(file, CUT), check(file, GOOD, sha256(CUT))] == [expected, expected]

    def test_many_are_looked_up_at_once(self, file: Path) -> None:
        """With the same result as one by one, for known and unknown images; threads share the cache."""
        images = [jpeg(seed) for seed in range(60)]
        with ImageChecker(file, Ingest()) as checked, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda image: checked.check(image, sha256(image)), images[:50]))
        with ImageChecker(file, Ingest()) as checked:
            checked.expect(map(sha256, images))
            known = [checked.check(b"text", sha256(image)).width for image in images[:50]]
            unknown = [checked.check(image, sha256(image)).width for image in images[50:]]

        assert known + unknown == [60] * 60

    def test_without_a_cache_every_image_is_decoded(self) -> None:
        """With the same verdict."""
        assert check(None, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    def test_a_damaged_cache_changes_no_verdict(self, file: Path) -> None:
        """The image is decoded, and the next run finds its verdict."""
        check(file, GOOD)
        file.write_bytes(b"garbage" * 1_000)

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")
        assert not is_decoded(file, sha256(GOOD))


class TestMiss:
    """What is decoded every time."""

    def test_a_header_is_read_again(self, file: Path) -> None:
        """That is faster than the cache."""
        check(file, GOOD, image_check="header")

        assert is_decoded(file, sha256(GOOD), image_check="header")
        assert not file.exists()

    @pytest.mark.parametrize("settings", [{"max_pixels": 10_000}, {"max_file_mb": 1}, {"image_check": "header"}])
    def test_verdicts_of_other_settings_are_not_used(self, file: Path, settings: dict[str, Any]) -> None:
        """Both are kept."""
        check(file, GOOD)

        assert is_decoded(file, sha256(GOOD), **settings)
        check(file, GOOD, **settings)
        assert not is_decoded(file, sha256(GOOD))

    def test_a_re_encoded_image_is_not_cached(self, file: Path) -> None:
        """Its new bytes would have to be cached, too."""
        turned = Image.Exif()
        turned[0x0112] = 6
        content = jpeg(2, exif=turned)

        assert check(file, content) == check(file, content) == check(None, content)
        assert is_decoded(file, sha256(content))

    def test_a_lack_of_memory_is_not_cached(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It says nothing about the image."""

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as short:
            short.setattr(Image, "frombytes", fail)
            assert check(file, GOOD) == ("JPEG cannot be decoded: MemoryError", "")

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    def test_verdicts_of_other_code_are_dropped(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The digest of the code names the table."""
        check(file, GOOD)
        with monkeypatch.context() as other:
            other.setattr(checks, "code_digest", lambda: "0" * 64)
            assert is_decoded(file, sha256(GOOD))

        assert is_decoded(file, sha256(GOOD))


class TestCode:
    """The digest of the code that decides about an image."""

    def test_it_covers_all_files_that_decide(self) -> None:
        """The checks import nothing else of the project that could change a verdict."""
        found = fingerprint.sources(["components.ingest.images"])
        folders = ("components/ingest/images/", "components/native/")

        others = {name for name in found if not name.startswith(folders) and not name.endswith("/__init__.py")}
        building = {"components/helper_process.py", "components/storage/durable.py"}  # of the native library
        assert others == {"components/records/image_format.py", *building}
        assert not {name for name in found if name.startswith("components/native/decode/")}

    def test_it_changes_with_a_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another Pillow may decide otherwise."""
        before = code_digest()
        monkeypatch.setattr("importlib.metadata.version", lambda name: f"other {name}")

        assert code_digest.__wrapped__() != before
