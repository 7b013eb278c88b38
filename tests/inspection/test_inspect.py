"""`penstock inspect` shows what is in a set that another program has written, and what is wrong with it."""

import gc
import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from components.errors import BadInput, SettingsError
from components.records import checksum, manifest
from components.records.manifest import Manifest, Shard
from components.records.quarantine import Quarantined
from data import digits
from pipelines.inspection import Wishes, inspect, raw
from pipelines.inspection.reasons import OTHER, Reasons
from pipelines.inspection.sheet import MOST, Gallery, draw
from pipelines.inspection.show import _blocks
from pipelines.inspection.statistics import Column, Numbers
from pipelines.inspection.text import cell, cell_of_list, disarmed, plain, size
from pipelines.report import formatting

ROOT = Path(__file__).resolve().parents[2]
NO_SHEET = "images can be seen with --sheet FILE.png"


def look(path: Path | str, **wishes: Any) -> str:
    """Returns all that is shown, without the spaces that fill lines up."""
    stream = io.StringIO()
    inspect(str(path), Wishes(**wishes), stream)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def page(text: str) -> str:
    """Returns a text of a test as it stands on the page: without its indent, and without its last line break."""
    lines = text.strip("\n").splitlines()
    return "\n".join(line[4:] for line in lines).rstrip()


def squeezed(text: str) -> str:
    """Returns a page without its alignment, for those whose sizes depend on the version of a library."""
    return re.sub(" +", " ", text)


def picture(colour: tuple[int, int, int], kind: str = "PNG", side: int = 20) -> bytes:
    """Encodes an image of one colour."""
    out = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(out, kind, compress_level=0)  # one size, whatever the colour
    return out.getvalue()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are shown as they are given, so tests give short ones."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table() -> Any:
    """Six people, with what real tables hold: gaps, commas, quotes, line breaks."""
    return importlib.import_module("pandas").DataFrame(
        {
            "id": [1, 2, 3, 4, 5, 6],
            "name": ["Ada", "Grace, H.", None, 'the "K"', "two\nlines", "Žofie"],
            "height": [1.5, 1.75, 2.0, None, 1.25, 1.0],
            "label": ["yes", "no", "yes", "yes", "no", "yes"],
        }
    )


class TestRows:
    """Files of rows, whole pages."""

    def test_a_csv_file(self, table: Any) -> None:
        """Written by pandas."""
        table.fillna({"name": "Joan"}).to_csv("people.csv", index=False)

        assert look("people.csv", rows=5) == page(r"""
    path     people.csv
    kind     CSV
    files    1, 130 bytes
    records  6
    bad      0

    column  type    missing  distinct    min   mean    max  length
    id      int64         0         6      1  3.500      6
    name    string        0         6                       3 to 9
    height  double        1         5  1.000  1.500  2.000
    label   string        0         2                       2 to 3

    classes by label  records
    no                      2
    yes                     4

    #  id  name        height  label
    1   1  Ada            1.5  yes
    2   2  Grace, H.     1.75  no
    3   3  Joan             2  yes
    4   4  the "K"          –  yes
    5   5  two\nlines    1.25  no
    """)

    def test_a_jsonl_file(self, table: Any) -> None:
        """Written by pandas."""
        table.to_json("people.jsonl", orient="records", lines=True)

        assert look("people.jsonl", rows=3) == page("""
    path     people.jsonl
    kind     JSON Lines
    files    1, 320 bytes
    records  6
    bad      0

    column  type    missing  distinct    min   mean    max  length
    id      int64         0         6      1  3.500      6
    name    string        1         5                       3 to 9
    height  double        1         5  1.000  1.500  2.000
    label   string        0         2                       2 to 3

    classes by label  records
    no                      2
    yes                     4

    #  id  name       height  label
    1   1  Ada           1.5  yes
    2   2  Grace, H.    1.75  no
    3   3  –               2  yes
    """)

    def test_a_parquet_file(self) -> None:
        """Written by pyarrow; lists have lengths, and the range of their numbers."""
        image = picture((1, 2, 3))
        rows = pa.table(
            {
                "text": pa.array(["a", "bb", None, "dddd"]),
                "vector": pa.array([[0.5, 1.5], [2.5], [], [3.5, 4.5, 5.5]]),
                "ok": pa.array([True, False, None, True]),
                "y": pa.array([7, 7, 8, None]),
                "image": pa.array([image, b"\xff\xfe\xfd\xfc\xfb", b"text", None]),
            }
        )
        pq.write_table(rows, "rows.parquet")

        assert squeezed(look("rows.parquet")) == squeezed(
            page(rf"""
    path     rows.parquet
    kind     Parquet
    files    1, {Path("rows.parquet").stat().st_size:,} bytes
    records  4
    bad      0
    sheet    {NO_SHEET}

    column  type            missing  distinct     min    mean    max   length
    text    string                1         3                          1 to 4
    vector  list of double        0         –  0.5000   3.000  5.500   0 to 3
    ok      bool                  1         2       0  0.6667      1
    y       int64                 1         2       7   7.333      8
    image   binary                1         3                         4 to {len(image):,}

    classes by y  records
    7                   2
    8                   1

    #  text  vector           ok     y  image
    1  a     [0.5, 1.5]       true   7  PNG, {len(image):,} bytes
    2  bb    [2.5]            false  7  \xff\xfe\xfd\xfc… 5 bytes
    3  –     []               –      8  text
    4  dddd  [3.5, 4.5, 5.5]  true   –  –
    """)
        )

    def test_arrays(self) -> None:
        """Written by numpy: pairs of arrays in one file."""
        images = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
        np.savez("arrays.npz", x=images, y=np.array([0, 1, 1, 2]))

        assert look("arrays.npz", rows=2) == page(f"""
    path     arrays.npz
    kind     NumPy arrays
    files    1, {Path("arrays.npz").stat().st_size:,} bytes
    records  4
    bad      0

    column  type          missing  distinct  min   mean  max  length
    x       uint8, 2 × 3        0         –    0  11.50   23       6
    y       int64               0         3    0  1.000    2

    classes by y  records
    0                   1
    1                   2
    2                   1

    #  x                     y
    1  [0, 1, 2, 3, 4, 5]    0
    2  [6, 7, 8, 9, 10, 11]  1
    """)

    def test_one_array(self) -> None:
        """Written by numpy: one array in a file."""
        np.save("one.npy", np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3))

        assert look("one.npy", rows=1) == page(f"""
    path     one.npy
    kind     NumPy arrays
    files    1, {Path("one.npy").stat().st_size:,} bytes
    records  4
    bad      0

    column  type      missing  distinct    min    mean    max  length
    one     float, 3        0         –  0.000  0.5000  1.000       3

    #  one
    1  [0, 0.0909091, 0.181818]
    """)

    def test_tfrecords(self, write_records: Callable[..., None]) -> None:
        """Written by TensorFlow, in the folders of another pipeline's splits."""
        write_records("examples/Split-train/data_tfrecord-00000-of-00001.gz", [("cat", 1), ("dog", 2), ("cat", 3)])
        write_records("examples/Split-eval/data_tfrecord-00000-of-00001.gz", [("dog", 4)])

        shown, image = squeezed(look("examples")), f"{len(picture((1, 0, 0))):,}"

        total = sum(path.stat().st_size for path in Path("examples").glob("*/*"))
        assert shown == squeezed(
            page(f"""
    path     examples
    kind     TFRecords
    files    2, {total:,} bytes
    records  4 (Split-eval 1, Split-train 3)
    bad      0
    sheet    {NO_SHEET}

    column  type    missing  distinct    min   mean    max  length
    image   binary        0         4                           {image}
    label   binary        0         2                            3
    number  int64         0         4      1  2.500      4

    classes by label  records
    cat                     2
    dog                     2

    #  image          label  number
    1  PNG, {image} bytes  dog         4
    2  PNG, {image} bytes  cat         1
    3  PNG, {image} bytes  dog         2
    4  PNG, {image} bytes  cat         3
    """)
        )


@pytest.fixture
def write_records() -> Callable[..., None]:
    """Writes tf.Examples with TensorFlow."""
    import tensorflow as tf

    def write(path: str, rows: list[tuple[str, int]]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(path, "GZIP" if path.endswith(".gz") else "") as writer:
            for label, number in rows:
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[picture((number, 0, 0))])),
                    "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[label.encode()])),
                    "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString(deterministic=True))

    return write


class TestImages:
    """Class folders of images."""

    def test_a_folder(self) -> None:
        """Written by Pillow, with a file that is none and one that stands outside the classes."""
        small, large = picture((200, 0, 0)), picture((200, 0, 0), "JPEG", 40)
        for label in ("cat", "dog"):
            Path("pets", label).mkdir(parents=True)
            Path("pets", label, "1.png").write_bytes(small)
            Path("pets", label, "2.jpg").write_bytes(large)
        Path("pets", "cat", "3.png").write_bytes(b"not at all")
        Path("pets", "cat", "4.png").touch()
        Path("pets", "lost.gif").write_bytes(picture((0, 0, 0), "GIF"))

        shown = squeezed(look("pets", rows=2))

        mean = formatting.number((len(small) + len(large)) / 2)
        assert shown == squeezed(
            page(f"""
    path     pets
    kind     class folders of images
    files    7, {2 * len(small) + 2 * len(large) + 10:,} bytes
    records  4
    bad      3
             1 × not inside a class folder, such as lost.gif
             1 × not an image, such as cat/3.png
             1 × empty file, such as cat/4.png
    sheet    {NO_SHEET}

    column  type    missing  distinct  min   mean  max  length
    path    string        0         4                        9
    class   string        0         2                        3
    format  string        0         2                   3 to 4
    width   int64         0         2   20  30   40
    height  int64         0         2   20  30   40
    bytes   int64         0         2   {len(large):,}  {mean}  {len(small):,}

    classes by class  records
    cat                     2
    dog                     2

    #  path       class  format  width  height  bytes
    1  cat/1.png  cat    PNG        20      20     {len(small)}
    2  cat/2.jpg  cat    JPEG       40      40    {len(large)}
    """)
        )

    def test_pixels_are_not_decoded(self) -> None:
        """A image that would fill the memory is told of by its header, without a warning."""
        Path("big", "one").mkdir(parents=True)
        Image.new("1", (10_000, 9_000)).save("big/one/1.png")
        Image.new("1", (20_000, 10_000)).save("big/one/2.png")

        shown = look("big")

        assert "1  one/1.png  one    PNG     10000    9000" in shown
        assert "1 × more pixels than ingest takes, such as one/2.png" in shown


class TestSheet:
    """The contact sheet."""

    def test_it_shows_the_digits(self) -> None:
        """64 images, all classes in turn, and nothing of the tiles is empty."""
        digits.write_image_folder(Path("digits"), limit=120)

        assert "sheet    64 images in sheet.png" in look("digits", sheet=Path("sheet.png"))
        with Image.open("sheet.png") as sheet:
            pixels = np.asarray(sheet.convert("L"))
        assert pixels.shape == (1146, 986)
        tiles = [pixels[y : y + 112, x : x + 112] for y in range(10, 1146, 142) for x in range(10, 986, 122)]
        assert len(tiles) == MOST
        assert min(tile.std() for tile in tiles) > 60  # black and white, both in plenty

    def test_images_stand_in_turn_with_their_names(self) -> None:
        """A colour a class: what is on the sheet where, and ink below each."""
        colours = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}
        for label, colour in colours.items():
            Path("set", label).mkdir(parents=True)
            for number in range(2):
                Path("set", label, f"{number}.png").write_bytes(picture(colour))

        look("set", sheet=Path("sheet.png"))

        with Image.open("sheet.png") as sheet:
            seen = [sheet.getpixel((10 + 122 * place + 56, 10 + 56)) for place in range(6)]
            ink = [sheet.crop((10 + 122 * place, 124, 122 + 122 * place, 142)).convert("L") for place in range(6)]
            assert sheet.size == (742, 152)
        assert seen == [*colours.values()] * 2
        assert all(line.getextrema()[0] < 100 for line in ink)  # type: ignore[operator]
        assert ink[0].tobytes() == ink[3].tobytes() != ink[1].tobytes()

    def test_images_come_from_rows_too(self) -> None:
        """A Parquet column of image files, one of them broken, one missing."""
        images = [picture((9, 9, 9)), b"broken", None, picture((99, 99, 99))]
        pq.write_table(pa.table({"image": images, "label": ["a", "a", "b", "b"]}), "rows.parquet")

        assert "2 images in sheet.png" in look("rows.parquet", sheet=Path("sheet.png"))
        with Image.open("sheet.png") as sheet:
            assert [sheet.getpixel((66 + 122 * place, 66)) for place in range(2)] == [(9, 9, 9), (99, 99, 99)]

    def test_arrays_of_pixels_are_images(self) -> None:
        """In gray, with a channel, in colours; not what is too small or has other numbers."""
        gray = np.full((2, 9, 9), 50, np.uint8)
        cases: dict[str, tuple[Any, tuple[int, ...] | None]] = {
            "gray": (gray, (50, 50, 50)),
            "channel": (gray[..., np.newaxis], (50, 50, 50)),
            "colours": (np.full((2, 9, 9, 3), (10, 20, 30), np.uint8), (10, 20, 30)),
            "small": (gray[:, :7], None),
            "float": (gray.astype(np.float32), None),
        }
        for name, (pixels, colour) in cases.items():
            np.savez(f"{name}.npz", x=pixels, y=np.array([3, 4]))
            assert (NO_SHEET in look(f"{name}.npz")) == (colour is not None), name
            if colour:
                assert "2 images in" in look(f"{name}.npz", sheet=Path(f"{name}.png"))
                with Image.open(f"{name}.png") as sheet:
                    assert [sheet.getpixel((66 + 122 * place, 66)) for place in range(2)] == [colour] * 2

    def test_a_large_class_gives_way(self) -> None:
        """Whatever comes first, classes have the same share; what is not wanted is not even loaded."""
        gallery, loaded = Gallery(), []

        def load(label: str) -> bytes:
            loaded.append(label)
            return picture((1, 2, 3))

        for label, count in (("many", 1000), ("few", 3), ("some", 100)):
            for _ in range(count):
                gallery.offer(label, lambda label=label: load(label))  # type: ignore[misc]

        labels = [label for label, _ in gallery.images()]
        assert {label: labels.count(label) for label in set(labels)} == {"many": 31, "few": 3, "some": 30}
        assert labels[:7] == ["few", "many", "some", "few", "many", "some", "few"]
        assert len(loaded) == 64 + 3 + 30

    def test_images_are_upright_and_whole(self) -> None:
        """Wide, deep and transparent ones are shown as training sees them."""
        deep, clear = io.BytesIO(), io.BytesIO()
        Image.fromarray(np.full((300, 100), 0x8000, np.uint16)).save(deep, "PNG")
        Image.new("RGBA", (300, 100), (0, 0, 0, 0)).save(clear, "PNG")
        gallery = Gallery()
        gallery.offer("clear", clear.getvalue)
        gallery.offer("deep", deep.getvalue)

        assert [(image.size, image.getpixel((5, 5))) for _, image in gallery.images()] == [
            ((112, 37), (255, 255, 255)),
            ((37, 112), (128, 128, 128)),
        ]

    def test_a_long_name_is_cut(self) -> None:
        """It does not run into its neighbour."""
        gallery = Gallery()
        for label in ("a", "W" * 300):
            gallery.offer(label, lambda: picture((0, 0, 0)))
        draw(gallery.images(), Path("sheet.png"))

        with Image.open("sheet.png") as sheet:
            between, after = sheet.crop((122, 0, 132, 152)), sheet.crop((244, 0, 254, 152))
            assert between.getcolors() == after.getcolors() == [(1520, (255, 255, 255))]

    @pytest.mark.parametrize(
        ("sheet", "said"),
        [
            ("sheet.jpg", "expected a name that ends in .png"),
            ("there.png", "is there already; choose another, or remove it"),
            ("nowhere/sheet.png", "its folder is not there; make it first"),
            ("pets/sheet.png", "is inside the data and would be taken for a part of it; choose another folder"),
        ],
    )
    def test_a_sheet_that_would_do_harm_is_refused(self, sheet: str, said: str) -> None:
        """Before anything is read, and what is there stays as it is."""
        Path("pets").mkdir()
        Path("there.png").write_bytes(b"mine")

        with pytest.raises(SettingsError) as caught:
            look("pets", sheet=Path(sheet))

        assert str(caught.value) == f"--sheet {sheet}: {said}"
        assert Path("there.png").read_bytes() == b"mine"

    def test_data_without_images_has_none(self) -> None:
        """The page is shown all the same."""
        pq.write_table(pa.table({"a": [1]}), "rows.parquet")
        stream = io.StringIO()

        with pytest.raises(SettingsError, match=r"not written, no image in rows\.parquet can be drawn; expected class"):
            inspect("rows.parquet", Wishes(sheet=Path("sheet.png")), stream)

        assert "records  1" in stream.getvalue()
        assert not Path("sheet.png").exists()


@pytest.fixture
def artifact(write_records: Callable[..., None]) -> Path:
    """An artifact of two splits and three shards, with its books in order."""
    folder = Path("examples")
    shards = {
        "Split-train/data_tfrecord-00000-of-00002": [("cat", 1), ("dog", 2)],
        "Split-train/data_tfrecord-00001-of-00002": [("cat", 3)],
        "Split-eval/data_tfrecord-00000-of-00001": [("dog", 4)],
    }
    written = []
    for name, rows in shards.items():
        write_records(str(folder / name), rows)
        content = (folder / name).read_bytes()
        split = name.partition("/")[0].removeprefix("Split-")
        written.append(Shard(split, name, len(rows), len(content), checksum.of_bytes(content)))
    reasons = ["too large", "not an image", "not an image"]
    bad = [Quarantined(f"cat/{number}.jpg", reason) for number, reason in enumerate(reasons)]
    counts = {"train": {"cat": 2, "dog": 1}, "eval": {"cat": 0, "dog": 1}}
    made = Manifest(
        data_digest="0" * 64,
        found=7,
        sources=(("cat/9.jpg", 12_000, "0" * 64), ("dog/9.jpg", 345, "0" * 64)),
        shards=tuple(written),
        classes=counts,
        quarantined=3,
        changed={"EXIF rotation": 1},
        median_side=20,
        warnings=("1 exact duplicates in 1 groups",),
    )
    manifest.write(folder, made, bad)
    return folder


class TestArtifact:
    """Examples artifacts with a manifest."""

    def test_the_whole_page(self, artifact: Path) -> None:
        """Splits, shards, classes, quarantine, first records."""
        sizes = [path.stat().st_size for path in sorted(artifact.glob("Split-*/*"))]
        image = f"{len(picture((1, 0, 0))):,}"
        assert squeezed(look(artifact, rows=3)) == squeezed(
            page(f"""
    path         examples
    kind         Examples artifact
    sources      2, 12.3 kB
    records      4 of 7
    quarantined  3
                 2 × not an image, such as cat/1.jpg
                 1 × too large, such as cat/0.jpg
    changed      EXIF rotation: 1
    warning      1 exact duplicates in 1 groups
    manifest     agrees with the shards by size; --verify compares checksums too
    sheet        {NO_SHEET}

    split  records  shards      bytes
    train        3       2  {sizes[1] + sizes[2]:,} bytes
    eval         1       1  {sizes[0]:,} bytes

    classes  train  eval  all
    cat          2     0    2
    dog          1     1    2

    #  image          label  number
    1  PNG, {image} bytes  cat         1
    2  PNG, {image} bytes  dog         2
    3  PNG, {image} bytes  cat         3
    """)
        )

    def test_the_checksum_is_compared_when_asked(self, artifact: Path) -> None:
        """A flipped bit passes by size, and does not by content."""
        assert "agrees with the shards, by size and checksum" in look(artifact, verify=True)
        shard = artifact / "Split-eval/data_tfrecord-00000-of-00001"
        content = bytearray(shard.read_bytes())
        content[-20] ^= 1
        shard.write_bytes(content)

        assert "agrees with the shards by size" in look(artifact)
        with pytest.raises(BadInput) as caught:
            look(artifact, verify=True)

        assert str(caught.value) == (
            "examples: 1 of its shards are not as its manifest says, such as Split-eval/data_tfrecord-00000-of-00001: "
            "another checksum than in the manifest; do not train on it: restore it, or ingest the data again"
        )

    def test_every_fault_is_told(self, artifact: Path) -> None:
        """A shard cut short, one missing, one too many, and one that leads outside."""
        first, second = sorted(artifact.glob("Split-train/*"))
        length = first.stat().st_size
        os.truncate(first, 10)
        second.unlink()
        (artifact / "Split-train" / "more").touch()
        stored = json.loads((artifact / "manifest.json").read_text())
        stored["shards"][2]["name"] = "../../outside"
        (artifact / "manifest.json").write_text(json.dumps(stored))
        stream = io.StringIO()

        with pytest.raises(BadInput, match="5 of its shards are not as its manifest says"):
            inspect(str(artifact), Wishes(verify=True), stream)

        shown = [line.split(None, 1)[1].rstrip() for line in stream.getvalue().splitlines() if line.startswith("fault")]
        assert shown == [
            f"Split-train/data_tfrecord-00000-of-00002: 10 bytes, {length:,} in the manifest",
            "Split-train/data_tfrecord-00001-of-00002: missing",
            "../../outside: outside the artifact, not looked at",
            "Split-eval/data_tfrecord-00000-of-00001: not in the manifest",
            "Split-train/more: not in the manifest",
        ]

    def test_its_images_make_a_sheet(self, artifact: Path) -> None:
        """From the records, classes in turn."""
        assert "sheet        4 images in sheet.png" in look(artifact, sheet=Path("sheet.png"))

        with Image.open("sheet.png") as sheet:
            seen = [sheet.getpixel((66 + 122 * place, 66)) for place in range(4)]
        assert seen == [(number, 0, 0) for number in (1, 2, 3, 4)]

    def test_a_damaged_manifest_is_named(self, artifact: Path) -> None:
        """It is an artifact still, by its splits."""
        (artifact / "manifest.json").write_text('{"found": 7')

        with pytest.raises(BadInput, match=r"^examples/manifest.json: not as this version writes it \(JSONDecodeError"):
            look(artifact)

    def test_the_manifest_of_another_program_is_data(self) -> None:
        """A folder is taken for an artifact by what the manifest says."""
        Path("pets/cat").mkdir(parents=True)
        Path("pets/cat/1.png").write_bytes(picture((1, 1, 1)))
        Path("pets/manifest.json").write_text('{"name": "app"}')

        assert "kind     class folders of images" in look("pets")

    def test_a_quarantine_that_was_lost_is_told(self, artifact: Path) -> None:
        """The manifest knows how many there were."""
        (artifact / "quarantine.jsonl").unlink()

        shown = look(artifact)

        assert "quarantined  3\n" in shown
        assert "warning      quarantine.jsonl: cannot be read: No such file or directory" in shown
        assert "warning      quarantine.jsonl lists 0 records, the manifest counts 3" in shown


class TestHostile:
    """What names and values do to a terminal and to a spreadsheet."""

    def test_control_characters_are_spelled_out(self) -> None:
        """In values, names of columns, classes; and rich's own marks mean nothing."""
        bell, red, turned = "ring\a", "\x1b[31mred\x1b[0m", "txt\u202egnp"
        pq.write_table(
            pa.table({f"a{red}": [bell, "two\r\nlines\t", "[bold]x[/]"], "label": [red, turned, "nul\0"]}),
            "rows.parquet",
        )

        assert look("rows.parquet") == page(r"""
    path     rows.parquet
    kind     Parquet
    files    1, SIZE bytes
    records  3
    bad      0

    column               type    missing  distinct   length
    a\x1b[31mred\x1b[0m  string        0         3  5 to 11
    label                string        0         3  4 to 12

    classes by label    records
    \x1b[31mred\x1b[0m        1
    nul\x00                   1
    txt\u202egnp              1

    #  a\x1b[31mred\x1b[0m  label
    1  ring\x07             \x1b[31mred\x1b[0m
    2  two\r\nlines\t       txt\u202egnp
    3  [bold]x[/]           nul\x00
    """).replace("SIZE", f"{Path('rows.parquet').stat().st_size:,}")

    def test_names_that_are_not_utf_8_are_shown(self) -> None:
        """On a strict stream too, and in errors."""
        folder = os.fsdecode(b"set\xff\x1b[31m")
        Path(folder, "cat").mkdir(parents=True)
        Path(folder, "cat", os.fsdecode(b"a\nb\xfe.png")).write_bytes(picture((1, 1, 1)))
        Path(folder, "cat", os.fsdecode(b"c\xfe.png")).write_bytes(b"no")

        shown = look(folder)

        assert shown.isprintable() or set(shown) - {"\n"} == {each for each in shown if each.isprintable()}
        assert shown.splitlines()[0] == r"path     set\xff\x1b[31m"
        assert r"1 × not an image, such as cat/c\xfe.png" in shown
        assert r"1  cat/a\nb\xfe.png" in shown
        with pytest.raises(BadInput, match=r"^none\\xff\\x1b\[31m: 0 examples: no such file or folder"):
            look(os.fsdecode(b"none\xff\x1b[31m"))

    def test_formulas_are_disarmed_in_a_file_only(self) -> None:
        """A spreadsheet might open the file; on a screen the data is shown as it is."""
        cells = ["=cmd|'/c calc'!A0", "+1", "-x", "@sum", "plain"]
        pq.write_table(pa.table({"=1+1": cells, "label": ["=a", "-5", "b", "c", "d"]}), "rows.parquet")

        with Path("out.txt").open("w") as stream:
            inspect("rows.parquet", Wishes(), stream)
        written = [line.split() for line in Path("out.txt").read_text().splitlines()]

        assert written[-6:] == [
            ["#", "'=1+1", "label"],
            ["1", "'=cmd|'/c", "calc'!A0", "'=a"],
            ["2", "+1", "-5"],
            ["3", "'-x", "b"],
            ["4", "'@sum", "c"],
            ["5", "plain", "d"],
        ]
        assert ["'=a", "1"] in written
        assert "'=" not in look("rows.parquet")

    def test_a_long_value_is_short_on_the_page(self) -> None:
        """A label and a text of 10 MB, and a thousand columns."""
        long = "x" * 10_000_000
        many = {f"c{number}": [number] for number in range(1000)}
        pq.write_table(pa.table({"text": [long], **many, "label": [long]}), "rows.parquet")

        shown = look("rows.parquet")

        assert len(shown) < 30_000
        assert "10,000,000" in shown
        assert "… 801 more columns" in shown
        assert "… 962 more columns" in shown


class TestErrors:
    """Each names the file and the way out."""

    def test_a_path_that_is_not_there(self) -> None:
        """Nor anything below a pattern."""
        for path in ("nothing", "no/*.csv"):
            with pytest.raises(BadInput, match="0 examples: "):
                look(path)

    def test_a_file_that_nothing_reads(self) -> None:
        """The folder around it is not taken instead."""
        Path("cat").mkdir()
        Path("cat/1.jpg").write_bytes(picture((1, 1, 1)))

        for path in ("cat/1.jpg", "*/1.jpg"):
            with pytest.raises(BadInput, match=r"unsupported file (cat/)?1\.jpg; expected class"):
                look(path)

    def test_a_damaged_file(self) -> None:
        """By itself it is the error."""
        Path("rows.parquet").write_bytes(b"PAR1 and no more")

        with pytest.raises(BadInput, match=r"^rows\.parquet: cannot be read as Parquet"):
            look("rows.parquet")

    def test_a_damaged_file_among_others(self) -> None:
        """The rest is shown, and the command fails."""
        pq.write_table(pa.table({"a": [1, 2]}), "1.parquet")
        Path("2.parquet").write_bytes(b"PAR1 and no more")
        stream = io.StringIO()

        with pytest.raises(BadInput, match=r"2.parquet: cannot be read.*of 2 files, 1 cannot be read whole"):
            inspect("*.parquet", Wishes(), stream)

        assert "records  2\n" in "\n".join(map(str.rstrip, stream.getvalue().splitlines()))
        assert "unread   2.parquet: cannot be read" in stream.getvalue()

    def test_files_of_other_columns_are_told(self) -> None:
        """Ingest would refuse them; here they are shown."""
        pq.write_table(pa.table({"a": [1, 2], "b": [1.0, 2.0]}), "1.parquet")
        pq.write_table(pa.table({"a": [3], "c": ["x"]}), "2.parquet")

        shown = look("*.parquet", rows=3)

        assert "warning  2.parquet: its columns are not those of 1.parquet: missing b; extra c" in shown
        assert shown.partition("\n\n")[2] == page("""
    column  type    missing  distinct    min   mean    max  length
    a       int64         0         3      1  2.000      3
    b       double        0         2  1.000  1.500  2.000
    c       string        0         1                            1

    #  a  b
    1  1  1
    2  2  2
    3  3  –
    """)

    def test_a_folder_that_must_not_be_read(
        self, open_folder: Path, without_rights: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Permissions are named."""
        monkeypatch.chdir(open_folder)
        pq.write_table(pa.table({"a": [1]}), "rows.parquet")
        Path("rows.parquet").chmod(0)

        with without_rights(), pytest.raises(BadInput, match=r"rows\.parquet: cannot be read.*Permission denied"):
            look("rows.parquet")


class TestBounds:
    """Memory does not grow with the data."""

    def test_distinct_values_are_counted_up_to_a_thousand(self) -> None:
        """Then they are let go."""
        column = Column(pa.field("a", pa.int64()), is_label=True)
        column.add(pa.array(range(1000)))
        assert (column.facts().distinct, column.facts().over) == (1000, False)

        column.add(pa.array([1000]))

        assert column.facts().over
        assert column.classes is None
        assert column._seen == set()

    def test_long_values_are_remembered_by_digest(self) -> None:
        """A thousand of 1 MB would be a gigabyte."""
        column = Column(pa.field("a", pa.string()), is_label=True)
        for number in range(20):
            column.add(pa.array([f"{number:05d}" + "x" * 1_000_000] * 2))
        gc.collect()

        assert column.facts().distinct == 20
        assert list((column.classes or {}).values()) == [2] * 20
        assert sum(map(len, column._seen or ())) < 1000
        assert sum(map(len, column.classes or ())) < 5000

    def test_reasons_that_are_all_different_are_put_together(self) -> None:
        """Their number is kept."""
        reasons = Reasons()
        for number in range(5000):
            reasons.add(f"reason {number}", f"line {number}")

        assert reasons.total == 5000
        assert reasons.most_common(2) == [(OTHER, 4000, "line 1000"), ("reason 0", 1, "line 0")]

    @pytest.mark.slow
    def test_ten_times_the_rows_take_no_more_memory(self) -> None:
        """Measured in fresh processes."""
        for rows in (100_000, 1_000_000):
            numbers = np.random.default_rng(1).integers(0, 1 << 60, (rows, 4))
            table = pa.table({f"c{index}": numbers[:, index] for index in range(4)})
            table = table.append_column("text", pa.array(numbers[:, 0].astype(str)))
            pq.write_table(table, f"{rows}.parquet", row_group_size=50_000)

        small, large = (peak_kb(f"{rows}.parquet") for rows in (100_000, 1_000_000))

        assert large < 1.2 * small


def peak_kb(path: str) -> int:
    """Returns the most memory that inspecting a file took."""
    script = (
        "import resource, sys; from pipelines.inspection import Wishes, inspect; "
        f"inspect({path!r}, Wishes(), sys.stdout); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return int(run_python("-c", script).stdout.split()[-1])


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a fresh interpreter that sees this tree."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


class TestNumbers:
    """Statistics are right at the edges of number types."""

    @pytest.mark.parametrize(
        ("values", "kind", "expected"),
        [
            ([2**63 - 1, 2**63 - 3], pa.int64(), Numbers(2**63 - 3, 2.0**63, 2**63 - 1)),
            ([1e308, 1.5e308, 1.7e308], pa.float64(), Numbers(1e308, 1.4e308, 1.7e308)),
            ([-1.0, float("nan"), None, 3.0], pa.float64(), Numbers(-1.0, 1.0, 3.0)),
            ([True, False, True, True], pa.bool_(), Numbers(0, 0.75, 1)),
            ([np.float16(0.5), np.float16(1.5)], pa.float16(), Numbers(0.5, 1.0, 1.5)),
            ([[1, 2], [], None, [6]], pa.list_(pa.int64()), Numbers(1, 3.0, 6)),
            ([float("nan")], pa.float32(), None),
            ([None], pa.null(), None),
        ],
    )
    def test_they_hold(self, values: list[Any], kind: pa.DataType, expected: Numbers | None) -> None:
        """A value a batch, so that batches are added up too."""
        column = Column(pa.field("a", kind))
        for value in values:
            column.add(pa.array([value], kind))

        found = column.facts().numbers
        assert (found is None) == (expected is None)
        if found and expected:
            assert (found.least, found.most) == (expected.least, expected.most)
            assert found.mean == pytest.approx(expected.mean)

    def test_nan_and_missing_are_told_apart(self) -> None:
        """Neither is a distinct value."""
        column = Column(pa.field("a", pa.float64()))
        column.add(pa.array([1.0, float("nan"), None, 1.0, float("nan")]))

        facts = column.facts()
        assert (facts.missing, facts.nan, facts.distinct) == (1, 2, 1)

    def test_a_measure_is_no_class(self) -> None:
        """A target of floats is not counted by value; one of text, bytes, integers or booleans is."""
        counted = {}
        for values in ([0.5, 1.5], ["a", "b"], [b"a", b"\xff"], [1, 1], [True, False]):
            column = Column(pa.field("y", pa.array(values).type), is_label=True)
            column.add(pa.array(values))
            counted[str(values)] = column.classes

        assert list(counted.values()) == [
            None,
            {"a": 1, "b": 1},
            {"a": 1, "\\xff": 1},
            {"1": 2},
            {"False": 1, "True": 1},
        ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "true"),
        (0.1, "0.1"),
        (1234567, "1234567"),
        (b"caf\xc3\xa9", "café"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 2000, "PNG, 2,008 bytes"),
        (b"\xff\x00\x01\x02\x03", "\\xff\\x00\\x01\\x02… 5 bytes"),
        ("a" * 100, "a" * 21 + "…" + "a" * 10),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_a_cell_is_short_and_harmless(value: object, shown: str) -> None:
    """Whatever the value."""
    assert cell(value) == shown


def test_small_things() -> None:
    """Lists, sizes, names, formulas, and columns that have no room in a line."""
    assert cell_of_list([1, 2], 2) == "[1, 2]"
    assert cell_of_list([0.5] * 8, 784) == "[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, … 784]"
    assert [size(count) for count in (0, 9999, 10_000, 2_500_000, 3 * 10**15)] == [
        "0 bytes", "9,999 bytes", "10.0 kB", "2.5 MB", "3,000.0 TB",
    ]  # fmt: skip
    assert plain("abc", 3) == "abc"
    assert [disarmed(text) for text in ("=1", " =1", "-1", "-1e5", "- x", "a=1", "–")] == [
        "'=1", "' =1", "-1", "-1e5", "'- x", "a=1", "–",
    ]  # fmt: skip
    assert _blocks([3, 3, 3, 100, 3], 12) == [[0, 1], [2], [3], [4]]


class TestCommand:
    """`penstock inspect` itself."""

    def test_errors_are_one_line_and_an_exit_code(self) -> None:
        """As for every other command."""
        done = penstock("inspect", "nothing.csv")

        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith("penstock: nothing.csv: 0 examples")

    def test_no_tensorflow_for_raw_data(self) -> None:
        """Nor Beam, TFX or pandas' machinery: a page is there in a second."""
        pq.write_table(pa.table({"a": [1]}), "rows.parquet")
        Path("rows.csv").write_text("a,b\n1,2\n")
        Path("pets/cat").mkdir(parents=True)
        Path("pets/cat/1.png").write_bytes(picture((1, 1, 1)))
        for path in ("rows.parquet", "rows.csv", "pets"):
            script = (
                "import sys; from pipelines.inspection import Wishes, inspect; "
                f"inspect({path!r}, Wishes(), sys.stderr); print(*sys.modules)"
            )
            loaded = set(run_python("-c", script).stdout.split())

            assert "pyarrow" in loaded, path
            assert loaded & {"tensorflow", "tfx", "apache_beam", "keras", "tfx_bsl"} == set()
            assert ("PIL" in loaded) == (path == "pets")

    @pytest.mark.slow
    def test_what_ingest_has_made_agrees_with_its_manifest(self) -> None:
        """From the command that makes an artifact to the command that shows it."""
        digits.write_image_folder(Path("digits"), limit=60)
        made = penstock("ingest", "digits", "--out", "examples", "--set", "ingest.min_shards=2")
        assert made.returncode == 0, made.stderr

        done = penstock("inspect", "examples", "--verify", "--rows", "2", "--sheet", "sheet.png")

        assert done.returncode == 0, done.stderr
        assert "records      60 of 60" in done.stdout
        assert "agrees with the shards, by size and checksum" in done.stdout
        assert "60 images in sheet.png" in done.stdout


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    script = f"import sys; sys.argv = {['penstock', *arguments]}; from pipelines.cli import main; main()"
    return run_python("-c", script)


def test_class_folders_of_texts_are_shown(tmp_path: Path) -> None:
    """Classes, the first texts, and what is no text."""
    for name, content in {"a/1.txt": "red", "a/2.txt": "green", "b/3.txt": "blue", "b/4.txt": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    facts = raw.study(str(tmp_path), 5, None, lambda _: None)

    assert (facts.kind, facts.records, facts.classes) == ("class folders of texts", 3, {"a": 2, "b": 1})
    assert facts.bad.total == 1
