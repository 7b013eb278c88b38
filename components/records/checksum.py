"""The checksum of a shard: CRC32C, which tells bytes lost or altered by accident from those that were written.

It is what TFRecord has for every record, and storage services for every object. A cryptographic digest takes six times
as long, at every ingest and before every training; against who alters a shard on purpose there is the seal.
"""

from pathlib import Path

import google_crc32c

_CHUNK = 1 << 20


def of_bytes(content: bytes) -> str:
    """Returns the checksum of a content."""
    return told(google_crc32c.value(content))


def of_file(path: Path) -> str:
    """Returns the checksum of a file's content."""
    checksum = 0
    with path.open("rb", 0) as stream:
        while chunk := stream.read(_CHUNK):
            checksum = google_crc32c.extend(checksum, chunk)
    return told(checksum)


def told(checksum: int) -> str:
    """Returns a checksum as manifests hold it, with the name of its kind."""
    return f"crc32c:{checksum:08x}"
