"""The checksum of a shard: CRC32C, which finds bytes that were lost or changed by accident.

TFRecord has it for every record, and storage services for every object. A cryptographic digest takes six times as
long, at every ingest and before every training. It does not protect against changes on purpose.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from components.storage.paths import DataPath

_PREFIX = "crc32c:"
_CHUNK = 1 << 20
_REQUEST = 8 << 20  # bytes per request of a remote file


def of_bytes(content: bytes) -> str:
    """Returns the checksum of bytes."""
    return formatted(google_crc32c.value(content))


def of_file(path: "DataPath") -> str:
    """Returns the checksum of a file."""
    crc = 0
    with path.open("rb", 0 if isinstance(path, Path) else _REQUEST) as stream:
        while chunk := stream.read(_CHUNK):
            crc = google_crc32c.extend(crc, chunk)
    return formatted(crc)


def is_checksum(digest: str) -> bool:
    """Whether a digest is a checksum of this kind, and not a hash."""
    return digest.startswith(_PREFIX)


def formatted(crc: int) -> str:
    """Returns a CRC32C as manifests hold it, such as crc32c:0a1b2c3d."""
    return f"{_PREFIX}{crc:08x}"
