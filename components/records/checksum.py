"""The checksum of a shard: CRC32C, which finds bytes that were lost or changed by accident.

TFRecord has it for every record, and storage services for every object. A cryptographic digest takes six times as
long, at every ingest and before every training; the seal protects against changes on purpose.
"""

from pathlib import Path

import google_crc32c

from components.storage.paths import DataPath, open_whole

_CHUNK = 1 << 20


def of_bytes(content: bytes) -> str:
    """Returns the checksum of bytes."""
    return formatted(google_crc32c.value(content))


def of_file(path: DataPath) -> str:
    """Returns the checksum of a file."""
    crc = 0
    with path.open("rb", 0) if isinstance(path, Path) else open_whole(path) as stream:
        while chunk := stream.read(_CHUNK):
            crc = google_crc32c.extend(crc, chunk)
    return formatted(crc)


def formatted(crc: int) -> str:
    """Returns a CRC32C as manifests hold it, such as crc32c:0a1b2c3d."""
    return f"crc32c:{crc:08x}"
