"""Rows at an address refer to images there, and the records are those that the same files make on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from components.ingest.sources import Rejected
from components.ingest.sources.csv_rows import SOURCE
from components.ingest.survey import references
from components.ingest.write.rows import write_range
from components.settings.ingest import Ingest
from components.storage.paths import DataPath
from components.storage.remote_path import RemotePath

Address = Callable[[Path], RemotePath]


@pytest.fixture
def gallery(ground: Any) -> Path:
    """A list of images in a folder beside it; one is missing, one would lead outside."""
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
    images = references.image_column(SOURCE, data / "list.csv", schema, "")
    [part] = SOURCE.divide(data / "list.csv", "list.csv", 1 << 30)
    told = write_range(
        part, "00000-of-00001", source=SOURCE, schema=schema, data=data, artifact=artifact, settings=Ingest(),
        label="label", images=images,
    )  # fmt: skip
    return told, {path.name: path.read_bytes() for path in artifact.rglob("*") if path.is_file()}


def test_shards_are_those_of_the_same_files_here(gallery: Path, address: Address, tmp_path: Path) -> None:
    """Byte for byte; a image that is missing is told in the filesystem's words."""
    here, files = ingest(gallery, tmp_path / "here")
    there, same = ingest(address(gallery), tmp_path / "there")
    here[0], there[0] = ({**vars(told[0]), "quarantined": len(told[0].quarantined)} for told in (here, there))

    assert (there, same) == (here, files)
    assert there[0]["quarantined"] == 2


def test_all_images_are_told_by_one_listing(gallery: Path, address: Address, ground: Any) -> None:
    """Not by a request for each of them."""
    home = address(gallery)
    schema = SOURCE.schema(home / "list.csv")
    ground.listed.clear()

    assert references.paths(SOURCE, home, ["list.csv"], schema, "file") == [f"img/{number}.png" for number in range(30)]
    assert [each for each in ground.listed if each.endswith(".png")] == []


@pytest.mark.parametrize("value", ["../secret.png", "/etc/passwd", "flat://other/1.png", "a\0b"])
def test_nothing_outside_is_asked_for(gallery: Path, address: Address, ground: Any, value: str) -> None:
    """Promise D4: refused by its spelling, before any request."""
    below = references.finder(address(gallery))
    ground.listed.clear()

    with pytest.raises(Rejected):
        below.find("", value)

    assert (ground.listed, ground.served) == ([], [])


@pytest.mark.parametrize(("most", "expected"), [(4, b"01234"), (10, b"0123456789"), (99, b"0123456789")])
def test_no_more_is_read_than_is_allowed(
    ground: Any, address: Address, monkeypatch: pytest.MonkeyPatch, most: int, expected: bytes
) -> None:
    """One byte more shows that it is too large, however many requests it takes."""
    monkeypatch.setattr(references, "_READ_BYTES", 3)
    (ground.folder / "set" / "1.png").write_bytes(b"0123456789")
    found = references.finder(address(ground.folder / "set")).find("", "1.png")

    assert references.read(found, most) == expected
