"""Remote rows refer to remote images; the records are those of the same local files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from components.ingest.sources.csv.csv_rows import SOURCE
from components.ingest.sources.rows import Sample
from components.ingest.survey import references
from components.ingest.write.rows import RangeReader, write_range
from components.records.quarantine import Rejected
from components.settings.ingest import Ingest
from components.storage.paths import DataPath
from components.storage.remote_path import RemotePath

Remote = Callable[[Path], RemotePath]


@pytest.fixture
def gallery(ground: Any) -> Path:
    """A table of images in a folder beside it; one is missing, one is outside."""
    home: Path = ground.folder / "set"
    (home / "img").mkdir()
    for number in range(30):
        Image.new("RGB", (6, 4), (number, 0, 7)).save(home / "img" / f"{number}.png")
    (ground.folder / "secret.png").write_bytes((home / "img" / "1.png").read_bytes())
    names = [*(f"img/{number}.png" for number in range(30)), "img/gone.png", "../secret.png"]
    (home / "list.csv").write_text("file,label\n" + "".join(f"{name},x\n" for name in names))
    return home


def ingest(data: DataPath, artifact: Path) -> tuple[list[Any], dict[str, bytes]]:
    """Returns the reports and the files of an ingest."""
    schema = SOURCE.schema(data / "list.csv")
    images = references.image_column(Sample(SOURCE, data / "list.csv", schema), "", data)
    [part] = SOURCE.divide(data / "list.csv", "list.csv", 1 << 30)
    reader = RangeReader(part, SOURCE, schema, data, Ingest(), "label", images)
    reports = write_range(reader, "00000-of-00001", artifact)
    return reports, {path.name: path.read_bytes() for path in artifact.rglob("*") if path.is_file()}


def test_shards_are_those_of_the_local_files(gallery: Path, remote: Remote, tmp_path: Path) -> None:
    """Byte for byte, except for the reason why an image is missing."""
    here, files = ingest(gallery, tmp_path / "here")
    there, same = ingest(remote(gallery), tmp_path / "there")
    here[0], there[0] = ({**vars(found[0]), "quarantined": len(found[0].quarantined)} for found in (here, there))

    assert (there, same) == (here, files)
    assert there[0]["quarantined"] == 2


def test_all_images_are_found_by_one_listing(gallery: Path, remote: Remote, ground: Any) -> None:
    """Not by one request per image."""
    home = remote(gallery)
    schema = SOURCE.schema(home / "list.csv")
    ground.listed.clear()

    assert references.paths(SOURCE, home, ["list.csv"], schema, "file") == [f"img/{number}.png" for number in range(30)]
    assert [each for each in ground.listed if each.endswith(".png")] == []


@pytest.mark.parametrize("value", ["../secret.png", "/etc/passwd", "flat://other/1.png", "a\0b"])
def test_nothing_outside_is_requested(gallery: Path, remote: Remote, ground: Any, value: str) -> None:
    """Promise D4: rejected before any request."""
    below = references.ImageFinder(remote(gallery))
    ground.listed.clear()

    with pytest.raises(Rejected):
        below.find("", value)

    assert (ground.listed, ground.served) == ([], [])


@pytest.mark.parametrize(("most", "expected"), [(4, b"01234"), (10, b"0123456789"), (99, b"0123456789")])
def test_reading_stops_one_byte_above_the_limit(
    ground: Any, remote: Remote, monkeypatch: pytest.MonkeyPatch, most: int, expected: bytes
) -> None:
    """Which shows that the file is too large, in however many requests."""
    monkeypatch.setattr(references, "_READ_BYTES", 3)
    (ground.folder / "set" / "1.png").write_bytes(b"0123456789")
    found = references.ImageFinder(remote(ground.folder / "set")).find("", "1.png")

    assert references.read(found, most) == expected
