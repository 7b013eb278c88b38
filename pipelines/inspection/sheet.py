"""A contact sheet: up to 64 images, classes in turn, each with the name of its class below it.

    offer(class, image) ─► wanted? ─► checked and upright, as training sees it ─► thumbnail ─► draw

Images come in any order and any number, so a class that has more than its share gives way to one that has less.
"""

import io
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from components.errors import BadInput
from components.records.quarantine import printable
from components.storage import durable
from pipelines.inspection.text import plain

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

MOST: Final = 64
_ACROSS: Final = 8
_TILE: Final = 112  # pixels a side
_GAP: Final = 10
_LINE: Final = 20  # pixels below a tile, for the name
_LETTER: Final = 13
_PAPER, _FRAME, _INK = "white", (236, 238, 242), (30, 36, 46)

Picture = tuple[str, "Image.Image"]


class Gallery:
    """Keeps thumbnails: at most 64, of as many classes as there are."""

    def __init__(self) -> None:
        self._by_class: dict[str, list[Image.Image]] = {}
        self._kept = 0

    def offer(self, label: str, load: Callable[[], bytes]) -> None:
        """Keeps an image if its class has less than its share; it is loaded only then. A broken one is passed over."""
        if not self._wants(label):
            return
        picture = _thumbnail(load())
        if picture is None:
            return
        if self._kept == MOST:
            max(self._by_class.values(), key=len).pop()
            self._kept -= 1
        self._by_class.setdefault(label, []).append(picture)
        self._kept += 1

    def images(self) -> list[Picture]:
        """Returns what was kept, one of each class in turn."""
        columns = [[(label, picture) for picture in self._by_class[label]] for label in sorted(self._by_class)]
        return [each for each in chain.from_iterable(zip_longest(*columns)) if each is not None]

    def _wants(self, label: str) -> bool:
        if self._kept < MOST:
            return True
        mine = len(self._by_class.get(label, ()))
        return mine + 1 < max(map(len, self._by_class.values()))


def draw(images: list[Picture], target: Path) -> None:
    """Writes the sheet, whole or not at all."""
    from PIL import Image, ImageDraw, ImageFont

    across, down = min(_ACROSS, len(images)), -(-len(images) // _ACROSS)
    size = _GAP + across * (_TILE + _GAP), _GAP + down * (_TILE + _LINE + _GAP)
    paper = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(paper)
    pen.font = ImageFont.load_default(_LETTER)
    for number, (label, picture) in enumerate(images):
        x = _GAP + number % _ACROSS * (_TILE + _GAP)
        y = _GAP + number // _ACROSS * (_TILE + _LINE + _GAP)
        pen.rectangle((x, y, x + _TILE - 1, y + _TILE - 1), fill=_FRAME)
        paper.paste(picture, (x + (_TILE - picture.width) // 2, y + (_TILE - picture.height) // 2))
        pen.text((x + _TILE / 2, y + _TILE + _LINE / 2 + 1), _fitting(label, pen), fill=_INK, anchor="mm")
    try:
        with durable.publish_file(target) as aside:
            paper.save(aside, "PNG")
    except OSError as error:
        raise BadInput(f"--sheet {printable(str(target))}: cannot be written: {error.strerror or error}") from error


def _thumbnail(content: bytes) -> "Image.Image | None":
    """Returns an image as training sees it, in the size of a tile; None if ingest would set it aside."""
    from PIL import Image

    from components.ingest.images import ImageLimits, ImageRejected, check_image
    from components.ingest.images.storage_format import for_people

    try:
        checked = check_image(for_people(content), ImageLimits())
    except ImageRejected:
        return None
    with Image.open(io.BytesIO(checked.content), formats=("JPEG", "PNG")) as image:
        image.draft("RGB", (_TILE, _TILE))
        picture = _in_8_bits(image)
    larger = _TILE // max(picture.size)
    if larger > 1:  # pixel by pixel: a small image is meant to be seen as it is
        return picture.resize((picture.width * larger, picture.height * larger), Image.Resampling.NEAREST)
    picture.thumbnail((_TILE, _TILE), Image.Resampling.LANCZOS)
    return picture


def _in_8_bits(image: "Image.Image") -> "Image.Image":
    """Returns an image in RGB; of 16 bits of gray the upper half, as TensorFlow does, where Pillow would clip."""
    from PIL import Image

    if not image.mode.startswith("I"):
        return image.convert("RGB")
    import numpy as np

    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")


def _fitting(label: str, pen: "ImageDraw.ImageDraw") -> str:
    """Returns as much of a class's name as has room below a tile."""
    room = len(label)
    while room > 1 and pen.textlength(plain(label, room)) > _TILE:
        room -= 1
    return plain(label, max(room, 1))
