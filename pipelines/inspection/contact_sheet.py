"""A contact sheet: up to 64 images, the classes in turn, each image with its class name below.

    offer(class, image) ─► wanted? ─► checked and upright, as training sees it ─► thumbnail ─► write

Images come in any order and number, so a class with more than its share loses images to a class with fewer.
"""

import io
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from components.errors import BadInput
from components.records.quarantine import printable
from components.storage import durable
from pipelines.inspection.cells import one_line

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

MAX_IMAGES: Final = 64
_ACROSS: Final = 8
_TILE: Final = 112  # pixels per side
_GAP: Final = 10
_CAPTION: Final = 20  # pixels below a tile, for the class name
_FONT_SIZE: Final = 13
_BACKGROUND, _FRAME, _INK = "white", (236, 238, 242), (30, 36, 46)


class ContactSheet:
    """Thumbnails of as many classes as possible."""

    def __init__(self) -> None:
        self._by_class: dict[str, list[Image.Image]] = {}
        self._count = 0

    def offer(self, label: str, load: Callable[[], bytes]) -> None:
        """Adds an image if its class has less than its share; loads it only then, and ignores a broken one."""
        full = self._count == MAX_IMAGES
        largest = max(self._by_class.values(), key=len, default=[])
        if full and len(self._by_class.get(label, ())) + 1 >= len(largest):
            return
        image = _thumbnail(load())
        if image is None:
            return
        if full:
            largest.pop()
            self._count -= 1
        self._by_class.setdefault(label, []).append(image)
        self._count += 1

    def images(self) -> "list[tuple[str, Image.Image]]":
        """Returns the thumbnails with their labels, one of each class in turn."""
        columns = [[(label, image) for image in self._by_class[label]] for label in sorted(self._by_class)]
        return [each for each in chain.from_iterable(zip_longest(*columns)) if each is not None]

    def write(self, target: Path) -> None:
        """Writes the sheet as PNG, whole or not at all."""
        from PIL import Image, ImageDraw, ImageFont

        images = self.images()
        across, down = min(_ACROSS, len(images)), -(-len(images) // _ACROSS)
        size = _GAP + across * (_TILE + _GAP), _GAP + down * (_TILE + _CAPTION + _GAP)
        sheet = Image.new("RGB", size, _BACKGROUND)
        pen = ImageDraw.Draw(sheet)
        pen.font = ImageFont.load_default(_FONT_SIZE)
        for number, (label, image) in enumerate(images):
            x = _GAP + number % _ACROSS * (_TILE + _GAP)
            y = _GAP + number // _ACROSS * (_TILE + _CAPTION + _GAP)
            pen.rectangle((x, y, x + _TILE - 1, y + _TILE - 1), fill=_FRAME)
            sheet.paste(image, (x + (_TILE - image.width) // 2, y + (_TILE - image.height) // 2))
            pen.text((x + _TILE / 2, y + _TILE + _CAPTION / 2 + 1), _fitting(label, pen), fill=_INK, anchor="mm")
        try:
            with durable.publish_file(target) as temporary:
                sheet.save(temporary, "PNG")
        except OSError as error:
            raise BadInput(f"--sheet {printable(str(target))}: cannot be written: {error.strerror or error}") from error


def _thumbnail(content: bytes) -> "Image.Image | None":
    """Returns an image as training sees it, at the size of a tile; None if ingest would quarantine it."""
    from PIL import Image

    from components.ingest.images import ImageRejected, check_image
    from components.ingest.images.reencode import gray_or_rgb
    from components.records.image_format import for_people
    from components.settings.ingest import Ingest

    try:
        checked = check_image(for_people(content), Ingest())
    except ImageRejected:
        return None
    with Image.open(io.BytesIO(checked.content), formats=("JPEG", "PNG")) as stored:
        stored.draft("RGB", (_TILE, _TILE))
        image = gray_or_rgb(stored).convert("RGB")
    factor = _TILE // max(image.size)
    if factor > 1:  # without smoothing, so that a small image is shown as it is
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    image.thumbnail((_TILE, _TILE), Image.Resampling.LANCZOS)
    return image


def _fitting(label: str, pen: "ImageDraw.ImageDraw") -> str:
    """Returns as much of a class name as fits below a tile."""
    length = len(label)
    while length > 1 and pen.textlength(one_line(label, length)) > _TILE:
        length -= 1
    return one_line(label, max(length, 1))
