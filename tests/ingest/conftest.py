"""Small images, and the listing of a folder of them."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey import listing
from components.ingest.survey.listing import Listing
from components.storage.hashing import HashCache


@pytest.fixture(scope="session")
def image() -> Callable[..., bytes]:
    """Encodes an image of one colour, with different bytes for each number."""

    def encode(number: int, kind: str = "PNG", size: tuple[int, int] = (6, 4)) -> bytes:
        out = io.BytesIO()
        Image.new("RGB", size, (number % 256, number // 256, 7)).save(out, kind)
        return out.getvalue()

    return encode


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def take() -> Callable[[Path], Listing]:
    """Lists and hashes an image folder, without a cache."""

    def of(folder: Path) -> Listing:
        cache = HashCache(None)
        try:
            return listing.take(SOURCE, folder, cache)
        finally:
            cache.close()

    return of
