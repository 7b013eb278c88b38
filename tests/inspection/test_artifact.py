"""Examples artifacts: the whole output, and shards that do not match the manifest."""

import io
import json
import os
from pathlib import Path

import pytest
from PIL import Image
from rich.filesize import decimal

from components.errors import BadInput
from pipelines.inspection import NO_SHEET, inspect
from tests.inspection.conftest import expected, image_file, inspected, squeezed


def test_output(artifact: Path) -> None:
    """Splits, shards, classes, quarantine, first records."""
    sizes = [path.stat().st_size for path in sorted(artifact.glob("Split-*/*"))]
    image = decimal(len(image_file((1, 0, 0))))
    assert squeezed(inspected(artifact, rows=3)) == squeezed(
        expected(f"""
    path         examples
    kind         Examples artifact
    sources      2, 12.3 kB
    records      4 of 7
    quarantined  3
                 2 × not an image, such as cat/1.jpg
                 1 × too large, such as cat/0.jpg
    changed      EXIF rotation: 1
    warning      1 exact duplicates in 1 groups
    manifest     matches the shards by size; compare checksums with --verify
    sheet        {NO_SHEET}

    split  records  shards      bytes
    train        3       2  {decimal(sizes[1] + sizes[2])}
    eval         1       1  {decimal(sizes[0])}

    classes  train  eval  all
    cat          2     0    2
    dog          1     1    2

    #  image          label  number
    1  PNG, {image}  cat         1
    2  PNG, {image}  dog         2
    3  PNG, {image}  cat         3
    """)
    )


def test_verify(artifact: Path) -> None:
    """A flipped bit has the right size, but not the right checksum."""
    assert "matches the shards by size and checksum" in inspected(artifact, verify=True)
    shard = artifact / "Split-eval/data_tfrecord-00000-of-00001"
    content = bytearray(shard.read_bytes())
    content[-20] ^= 1
    shard.write_bytes(content)

    assert "matches the shards by size" in inspected(artifact)
    with pytest.raises(BadInput) as caught:
        inspected(artifact, verify=True)

    assert str(caught.value) == (
        "examples: 1 shards do not match the manifest, such as Split-eval/data_tfrecord-00000-of-00001: "
        "its checksum differs from the manifest's; do not train on this artifact: restore it, or ingest the data again"
    )


def test_faults(artifact: Path) -> None:
    """A truncated shard, a missing one, one outside the artifact, and files that the manifest does not list."""
    first, second = sorted(artifact.glob("Split-train/*"))
    length = first.stat().st_size
    os.truncate(first, 10)
    second.unlink()
    (artifact / "Split-train" / "more").touch()
    stored = json.loads((artifact / "manifest.json").read_text())
    stored["shards"][2]["name"] = "../../outside"
    (artifact / "manifest.json").write_text(json.dumps(stored))
    stream = io.StringIO()

    with pytest.raises(BadInput, match="5 shards do not match the manifest"):
        inspect(str(artifact), stream, verify=True)

    shown = [line.split(None, 1)[1].rstrip() for line in stream.getvalue().splitlines() if line.startswith("fault")]
    assert shown == [
        f"Split-train/data_tfrecord-00000-of-00002: 10 bytes, {length:,} in the manifest",
        "Split-train/data_tfrecord-00001-of-00002: missing",
        "../../outside: outside the artifact, not read",
        "Split-eval/data_tfrecord-00000-of-00001: not in the manifest",
        "Split-train/more: not in the manifest",
    ]


def test_contact_sheet(artifact: Path) -> None:
    """Images of the records, one class after the other in turn."""
    assert "sheet        4 images in sheet.png" in inspected(artifact, sheet=Path("sheet.png"))

    with Image.open("sheet.png") as sheet:
        seen = [sheet.getpixel((66 + 122 * place, 66)) for place in range(4)]
    assert seen == [(number, 0, 0) for number in (1, 2, 3, 4)]


def test_a_damaged_manifest(artifact: Path) -> None:
    """The folder is still an artifact, by its split folders."""
    (artifact / "manifest.json").write_text('{"found": 7')

    with pytest.raises(BadInput, match=r"^examples/manifest.json: not a manifest of this version \(JSONDecodeError"):
        inspected(artifact)


def test_a_manifest_of_another_program() -> None:
    """The folder is read as raw data."""
    Path("pets/cat").mkdir(parents=True)
    Path("pets/cat/1.png").write_bytes(image_file((1, 1, 1)))
    Path("pets/manifest.json").write_text('{"name": "app"}')

    assert "kind     class folders of images" in inspected("pets")


def test_a_missing_quarantine(artifact: Path) -> None:
    """The manifest still has the number of records."""
    (artifact / "quarantine.jsonl").unlink()

    shown = inspected(artifact)

    assert "quarantined  3\n" in shown
    assert "warning      quarantine.jsonl: cannot be read: No such file or directory" in shown
    assert "warning      quarantine.jsonl lists 0 records, the manifest counts 3" in shown
