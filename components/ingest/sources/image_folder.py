"""Class folders of images, `cats/1.jpg` and `dogs/2.png`: the folder name is the class."""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from components.ingest.images import CheckedImage, checks
from components.ingest.sources import FileRecord, Found, SourceFile, class_folders
from components.ingest.sources.class_folders import IMAGE_SUFFIXES
from components.storage.entries import Entries
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

EXPECTED = "expected a folder with one sub-folder of images per class, such as cats/1.jpg and dogs/2.jpg"
_RULES = class_folders.FolderRules(
    EXPECTED, is_description=lambda name: PurePosixPath(name).suffix.lower() not in IMAGE_SUFFIXES
)


class ImageFolder:
    """Lists and reads class folders of images."""

    def find(self, data: DataPath, entries: Entries | None = None) -> Found:
        """Lists every file below `data`."""
        return class_folders.find(data, _RULES, entries)

    def read(self, file: SourceFile, content: bytes, settings: "Ingest") -> FileRecord:
        """Checks one image and returns its record."""
        return self.record(file, checks.check(content, settings))

    def record(self, file: SourceFile, image: CheckedImage) -> FileRecord:
        """Returns the record of an image that was checked."""
        columns = {"image": image.content, "label": file.label.encode()}
        return FileRecord(columns, min(image.width, image.height), image.changed, image.perceptual_hash)


SOURCE = ImageFolder()
