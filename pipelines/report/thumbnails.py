"""Sample images as `data:` URLs that a browser can show."""

import base64
import warnings
from dataclasses import dataclass
from io import BytesIO

from markupsafe import Markup
from PIL import Image, ImageOps

from pipelines.report.facts import SampleImage

MAX_BYTES = 30_000  # a larger image is shown as a smaller JPEG
MAX_PIXELS = 50_000_000  # a larger image is not decoded at all
THUMBNAIL_SIDE = 256
SMALL_SIDE = 64  # images up to this size are enlarged without smoothing

# Everything else is JPEG, which Pillow also calls MPO if a file holds several images.
_MIME = {"PNG": "png", "GIF": "gif", "WEBP": "webp"}


@dataclass(frozen=True)
class Thumbnail:
    """A sample image for the page; `url` is None if a browser could not show it."""

    label: str
    url: Markup | None
    small: bool
    note: str


def thumbnail(sample: SampleImage) -> Thumbnail:
    """Returns a sample as a `data:` URL, made smaller if it is large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # MAX_PIXELS is the stricter limit
            return _decoded(sample)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for broken images
        return Thumbnail(sample.label, None, small=False, note="cannot be shown")


def _decoded(sample: SampleImage) -> Thumbnail:
    with Image.open(BytesIO(sample.content), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
        width, height = image.size
        note = f"{width} × {height}"
        if width * height > MAX_PIXELS:
            return Thumbnail(sample.label, None, small=False, note=f"{note}, too large to show")
        kind, content = _MIME.get(image.format or "", "jpeg"), sample.content
        if len(content) > MAX_BYTES:
            kind, content = "jpeg", _smaller(image)
    url = Markup("data:image/{};base64,{}").format(kind, base64.b64encode(content).decode("ascii"))
    return Thumbnail(sample.label, url, small=max(width, height) <= SMALL_SIDE, note=note)


def _smaller(image: Image.Image) -> bytes:
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = BytesIO()
    ImageOps.exif_transpose(image).convert("RGB").save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
