"""`penstock inspect`: shows what is in a dataset, before or after ingest.

    PATH ─┬─ artifact: manifest.json ──► splits, shards, classes, quarantine ─┐
          ├─ class folders ────────────┐                                      ├─► printer, contact sheet
          └─ tables, arrays, records ──┴─► batches ─► running statistics ─────┘

A file of a class folder is a row too (path, class, format, width, height, bytes), so all raw data is read the same way.
Memory does not grow with the data: only statistics, the first records and up to 64 thumbnails are kept.
"""

from pathlib import Path
from typing import TextIO

from components.errors import BadInput, PenstockError, SettingsError
from components.records.quarantine import printable
from components.storage.location import location
from pipelines.inspection import artifact, raw
from pipelines.inspection.artifact import ArtifactFacts
from pipelines.inspection.cells import one_line
from pipelines.inspection.contact_sheet import ContactSheet
from pipelines.inspection.printer import Printer
from pipelines.inspection.raw import RawFacts

NO_SHEET = "draw the images with --sheet FILE.png"
_MESSAGE = 2000  # characters of an error message


def inspect(path: str, stream: TextIO, *, rows: int = 5, sheet: Path | None = None, verify: bool = False) -> None:
    """Prints what is at `path`; raises if it cannot be read, or if shards do not match their manifest.

    Args:
        path: raw data or an artifact.
        stream: where to print.
        rows: number of records to show.
        sheet: file for a contact sheet of images.
        verify: whether to compare the checksums of an artifact's shards.
    """
    try:
        _inspect(path, Printer(stream), rows, sheet, verify=verify)
    except PenstockError as error:
        # File names may contain control characters that a terminal would obey.
        raise type(error)(one_line(printable(str(error)), _MESSAGE)) from error


def _inspect(path: str, printer: Printer, rows: int, target: Path | None, *, verify: bool) -> None:
    if target is not None:
        _check_sheet(target, Path(path))
    sheet = ContactSheet() if target else None
    with printer.progress() as progress:
        facts: ArtifactFacts | RawFacts
        if artifact.is_artifact(location(path)):
            facts = artifact.study(location(path), rows, sheet, progress, verify=verify)
        else:
            facts = raw.study(path, rows, sheet, progress)
    printer.show(facts, _sheet_line(sheet, target, has_images=facts.has_images))
    if facts.error:
        raise BadInput(facts.error)
    if sheet is not None and not sheet.images():
        raise SettingsError(
            f"--sheet {printable(str(target))}: not written, because {printable(path)} contains no image that "
            "can be drawn; expected class folders of images, or a column that holds image files as bytes"
        )


def _check_sheet(target: Path, data: Path) -> None:
    """Rejects, before anything is read, a sheet that could not be written or would be read as data."""
    flag = f"--sheet {printable(str(target))}:"
    if target.suffix.lower() != ".png":
        raise SettingsError(f"{flag} expected a file name that ends in .png")
    if target.exists():
        raise SettingsError(f"{flag} the file exists already; choose another name, or delete it")
    if not target.absolute().parent.is_dir():
        raise SettingsError(f"{flag} its folder does not exist; create it first")
    if data.is_dir() and data.resolve() in target.resolve().parents:
        raise SettingsError(f"{flag} is inside the data folder and would be read as data; choose another folder")


def _sheet_line(sheet: ContactSheet | None, target: Path | None, *, has_images: bool) -> str:
    """Writes the contact sheet if it has images, and returns a line about it."""
    if sheet is None or target is None:
        return NO_SHEET if has_images else ""
    if not sheet.images():
        return ""
    sheet.write(target)
    return f"{len(sheet.images())} images in {printable(str(target))}"
