"""`penstock inspect`: what is in a set, before or after an ingest.

    PATH ─┬─ artifact: manifest.json ──► splits, shards, classes, quarantine ─┐
          ├─ class folders of images ──┐                                      ├─► show    sheet.png
          └─ files of rows ────────────┴─► batches ─► running statistics ─────┘

An image is a row too (path, class, format, width, height, bytes), so raw data of any kind takes one way. Nothing is
kept of a record that was seen but its share in the statistics, the first records and up to 64 thumbnails.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from components.errors import BadInput, PenstockError, SettingsError
from components.records.quarantine import printable
from pipelines.inspection import artifact, show
from pipelines.inspection.sheet import Gallery, draw
from pipelines.inspection.text import plain

NO_SHEET = "images can be seen with --sheet FILE.png"
_MESSAGE = 2000  # characters of an error


@dataclass(frozen=True)
class Wishes:
    """What a user wants to see."""

    rows: int = 5
    sheet: Path | None = None
    verify: bool = False


def inspect(path: str, wishes: Wishes, stream: TextIO) -> None:
    """Shows what is at `path`; raises when it cannot be read, or is not what its own manifest says."""
    try:
        _inspect(path, wishes, show.Page(stream))
    except PenstockError as error:
        # Names of files may hold what a terminal obeys.
        raise type(error)(plain(printable(str(error)), _MESSAGE)) from error


def _inspect(path: str, wishes: Wishes, page: show.Page) -> None:
    if wishes.sheet is not None:
        _check_sheet(wishes.sheet, Path(path))
    if artifact.is_one(Path(path)):
        _inspect_artifact(Path(path), wishes, page)
    else:
        _inspect_raw(path, wishes, page)


def _inspect_raw(path: str, wishes: Wishes, page: show.Page) -> None:
    from pipelines.inspection import raw

    gallery = Gallery() if wishes.sheet else None
    with page.waiting() as told:
        facts = raw.study(path, wishes.rows, gallery, told)
    page.raw(facts, NO_SHEET if facts.has_images and gallery is None else _drawn(gallery, wishes.sheet))
    if facts.failures:
        raise BadInput(f"{facts.failures[0]} (of {facts.files:,} files, {len(facts.failures):,} cannot be read whole)")
    _check_drawn(gallery, wishes.sheet, path)


def _inspect_artifact(path: Path, wishes: Wishes, page: show.Page) -> None:
    gallery = Gallery() if wishes.sheet else None
    with page.waiting() as told:
        facts = artifact.study(path, wishes.rows, gallery, told, verify=wishes.verify)
    page.artifact(facts, NO_SHEET if facts.first.image and gallery is None else _drawn(gallery, wishes.sheet))
    if facts.faults:
        raise BadInput(
            f"{printable(str(path))}: {len(facts.faults)} of its shards are not as its manifest says, such as "
            f"{facts.faults[0]}; do not train on it: restore it, or ingest the data again"
        )
    _check_drawn(gallery, wishes.sheet, str(path))


def _check_sheet(sheet: Path, data: Path) -> None:
    """Refuses, before anything is read, a sheet that could not be written or would do harm."""
    said = f"--sheet {printable(str(sheet))}:"
    if sheet.suffix.lower() != ".png":
        raise SettingsError(f"{said} expected a name that ends in .png")
    if sheet.exists():
        raise SettingsError(f"{said} is there already; choose another, or remove it")
    if not sheet.absolute().parent.is_dir():
        raise SettingsError(f"{said} its folder is not there; make it first")
    if data.is_dir() and data.resolve() in sheet.resolve().parents:
        raise SettingsError(f"{said} is inside the data and would be taken for a part of it; choose another folder")


def _drawn(gallery: Gallery | None, sheet: Path | None) -> str:
    """Writes the sheet, if there is anything on it, and returns a line about it."""
    if gallery is None or sheet is None or not gallery.images():
        return ""
    images = gallery.images()
    draw(images, sheet)
    return f"{len(images)} images in {printable(str(sheet))}"


def _check_drawn(gallery: Gallery | None, sheet: Path | None, path: str) -> None:
    if gallery is not None and not gallery.images():
        raise SettingsError(
            f"--sheet {printable(str(sheet))}: not written, no image in {printable(path)} can be drawn; "
            "expected class folders of images, or a column that holds image files as bytes"
        )
