"""The checksum of a file is the CRC32C of its content."""

from pathlib import Path

import pytest

from components.records import checksum


@pytest.mark.parametrize("content", [b"", b"a", bytes(3_000_000)])
def test_a_file_has_the_checksum_of_its_content(tmp_path: Path, content: bytes) -> None:
    """In however many chunks it is read."""
    (tmp_path / "file").write_bytes(content)

    assert checksum.of_file(tmp_path / "file") == checksum.of_bytes(content)


def test_it_is_crc32c() -> None:
    """With the published check value, after the name of the algorithm."""
    assert checksum.of_bytes(b"123456789") == "crc32c:e3069283"
