"""A folder with one folder of images a class: `cats/1.jpg`, `dogs/2.png`. The class is the folder's name."""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from components.ingest.images import CheckedImage, checks
from components.ingest.sources import Found, Record, SourceFile, class_folders
from components.ingest.sources.class_folders import IMAGE_SUFFIXES
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

EXPECTED = "expected a folder with one sub-folder of images a class, such as cats/1.jpg and dogs/2.jpg"
_KIND = class_folders.Kind(EXPECTED, describes=lambda name: PurePosixPath(name).suffix.lower() not in IMAGE_SUFFIXES)


class ImageFolder:
    """Finds and reads class folders of images."""

    def find(self, data: DataPath) -> Found:
        """Lists every file below `data`; nothing that might be an image is left out in silence."""
        return class_folders.find(data, _KIND)

    def read(self, file: SourceFile, content: bytes, settings: "Ingest") -> Record:
        """Checks one image and returns its record."""
        return self.record(file, checks.check(content, settings))

    def record(self, file: SourceFile, image: CheckedImage) -> Record:
        """Returns the record of an image that was checked."""
        columns = {"image": image.content, "label": file.label.encode()}
        return Record(columns, min(image.width, image.height), image.changed, image.perceptual_hash)


SOURCE = ImageFolder()
