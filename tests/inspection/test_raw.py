"""Raw data of every format: the whole output, and errors."""

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from rich.filesize import decimal

from components.errors import BadInput
from pipelines.inspection import NO_SHEET, inspect, raw
from pipelines.report import formatting
from tests.inspection.conftest import expected, image_file, inspected, squeezed


@pytest.fixture
def table() -> Any:
    """Six people, with gaps, commas, quotes and line breaks as in real tables."""
    return importlib.import_module("pandas").DataFrame(
        {
            "id": [1, 2, 3, 4, 5, 6],
            "name": ["Ada", "Grace, H.", None, 'the "K"', "two\nlines", "Žofie"],
            "height": [1.5, 1.75, 2.0, None, 1.25, 1.0],
            "label": ["yes", "no", "yes", "yes", "no", "yes"],
        }
    )


def test_csv(table: Any) -> None:
    """Written by pandas."""
    table.fillna({"name": "Joan"}).to_csv("people.csv", index=False)

    assert inspected("people.csv", rows=5) == expected(r"""
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


def test_csv_without_a_header() -> None:
    """A17: the decision of ingest is shown, and the columns are numbered."""
    Path("rows.csv").write_text("1,x\n2,y\n")

    shown = inspected("rows.csv")

    assert "note     first line of rows.csv read as data: '1' is a number like those below it in column 1" in shown
    assert "records  2" in shown
    assert "column_2" in shown


def test_json_lines(table: Any) -> None:
    """Written by pandas."""
    table.to_json("people.jsonl", orient="records", lines=True)

    assert inspected("people.jsonl", rows=3) == expected("""
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


def test_parquet() -> None:
    """Written by pyarrow; lists have lengths and the range of their numbers."""
    image = image_file((1, 2, 3))
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

    assert squeezed(inspected("rows.parquet")) == squeezed(
        expected(rf"""
    path     rows.parquet
    kind     Parquet
    files    1, {decimal(Path("rows.parquet").stat().st_size)}
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
    1  a     [0.5, 1.5]       true   7  PNG, {decimal(len(image))}
    2  bb    [2.5]            false  7  \xff\xfe\xfd\xfc… 5 bytes
    3  –     []               –      8  text
    4  dddd  [3.5, 4.5, 5.5]  true   –  –
    """)
    )


def test_named_arrays() -> None:
    """Written by NumPy: several arrays in one file."""
    images = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
    np.savez("arrays.npz", x=images, y=np.array([0, 1, 1, 2]))

    assert inspected("arrays.npz", rows=2) == expected(f"""
    path     arrays.npz
    kind     NumPy arrays
    files    1, {decimal(Path("arrays.npz").stat().st_size)}
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


def test_one_array() -> None:
    """Written by NumPy: one array in a file."""
    np.save("one.npy", np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3))

    assert inspected("one.npy", rows=1) == expected(f"""
    path     one.npy
    kind     NumPy arrays
    files    1, {decimal(Path("one.npy").stat().st_size)}
    records  4
    bad      0

    column  type      missing  distinct    min    mean    max  length
    one     float, 3        0         –  0.000  0.5000  1.000       3

    #  one
    1  [0, 0.0909091, 0.181818]
    """)


def test_tfrecords(write_records: Callable[..., None]) -> None:
    """Written by TensorFlow, in the split folders of another pipeline."""
    write_records("examples/Split-train/data_tfrecord-00000-of-00001.gz", [("cat", 1), ("dog", 2), ("cat", 3)])
    write_records("examples/Split-eval/data_tfrecord-00000-of-00001.gz", [("dog", 4)])

    shown, image = squeezed(inspected("examples")), len(image_file((1, 0, 0)))

    total = sum(path.stat().st_size for path in Path("examples").glob("*/*"))
    assert shown == squeezed(
        expected(f"""
    path     examples
    kind     TFRecords
    files    2, {decimal(total)}
    records  4 (Split-eval 1, Split-train 3)
    bad      0
    sheet    {NO_SHEET}

    column  type    missing  distinct    min   mean    max  length
    image   binary        0         4                           {image:,}
    label   binary        0         2                            3
    number  int64         0         4      1  2.500      4

    classes by label  records
    cat                     2
    dog                     2

    #  image          label  number
    1  PNG, {decimal(image)}  dog         4
    2  PNG, {decimal(image)}  cat         1
    3  PNG, {decimal(image)}  dog         2
    4  PNG, {decimal(image)}  cat         3
    """)
    )


def test_image_folders() -> None:
    """Written by Pillow, with files that are not images and one outside the class folders."""
    small, large = image_file((200, 0, 0)), image_file((200, 0, 0), "JPEG", 40)
    for label in ("cat", "dog"):
        Path("pets", label).mkdir(parents=True)
        Path("pets", label, "1.png").write_bytes(small)
        Path("pets", label, "2.jpg").write_bytes(large)
    Path("pets", "cat", "3.png").write_bytes(b"not at all")
    Path("pets", "cat", "4.png").touch()
    Path("pets", "lost.gif").write_bytes(image_file((0, 0, 0), "GIF"))

    shown = squeezed(inspected("pets", rows=2))

    mean = formatting.number((len(small) + len(large)) / 2)
    assert shown == squeezed(
        expected(f"""
    path     pets
    kind     class folders of images
    files    7, {decimal(2 * len(small) + 2 * len(large) + 10)}
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


def test_pixels_are_not_decoded() -> None:
    """A huge image is described by its header, without a warning."""
    Path("big", "one").mkdir(parents=True)
    Image.new("1", (10_000, 9_000)).save("big/one/1.png")
    Image.new("1", (20_000, 10_000)).save("big/one/2.png")

    shown = inspected("big")

    assert "1  one/1.png  one    PNG     10000    9000" in shown
    assert "1 × more pixels than ingest accepts, such as one/2.png" in shown


def test_text_folders(tmp_path: Path) -> None:
    """Classes, and files that are not text."""
    for name, content in {"a/1.txt": "red", "a/2.txt": "green", "b/3.txt": "blue", "b/4.txt": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    facts = raw.study(str(tmp_path), 5, None, lambda _: None)

    assert (facts.kind, facts.records, facts.classes) == ("class folders of texts", 3, {"a": 2, "b": 1})
    assert facts.bad.total == 1


def test_a_missing_path() -> None:
    """A path or a pattern that matches nothing."""
    for path in ("nothing", "no/*.csv"):
        with pytest.raises(BadInput, match="0 examples: "):
            inspected(path)


def test_an_unsupported_file() -> None:
    """Its folder is not read instead."""
    Path("cat").mkdir()
    Path("cat/1.jpg").write_bytes(image_file((1, 1, 1)))

    for path in ("cat/1.jpg", "*/1.jpg"):
        with pytest.raises(BadInput, match=r"unsupported file (cat/)?1\.jpg; expected class"):
            inspected(path)


def test_a_damaged_file() -> None:
    """A single damaged file is an error."""
    Path("rows.parquet").write_bytes(b"PAR1 and no more")

    with pytest.raises(BadInput, match=r"^rows\.parquet: cannot be read as Parquet"):
        inspected("rows.parquet")


def test_a_damaged_file_among_others() -> None:
    """The other files are shown, and the command fails."""
    pq.write_table(pa.table({"a": [1, 2]}), "1.parquet")
    Path("2.parquet").write_bytes(b"PAR1 and no more")
    stream = io.StringIO()

    with pytest.raises(BadInput, match=r"2.parquet: cannot be read.*1 of 2 files could not be read completely"):
        inspect("*.parquet", stream)

    assert "records     2\n" in "\n".join(map(str.rstrip, stream.getvalue().splitlines()))
    assert "unreadable  2.parquet: cannot be read" in stream.getvalue()


def test_files_with_different_columns() -> None:
    """Ingest would reject them; `inspect` shows them with a warning."""
    pq.write_table(pa.table({"a": [1, 2], "b": [1.0, 2.0]}), "1.parquet")
    pq.write_table(pa.table({"a": [3], "c": ["x"]}), "2.parquet")

    shown = inspected("*.parquet", rows=3)

    assert "warning  2.parquet: its columns differ from 1.parquet: missing b; extra c" in shown
    assert shown.partition("\n\n")[2] == expected("""
    column  type    missing  distinct    min   mean    max  length
    a       int64         0         3      1  2.000      3
    b       double        0         2  1.000  1.500  2.000
    c       string        0         1                            1

    #  a  b
    1  1  1
    2  2  2
    3  3  –
    """)


def test_a_file_without_permission(
    open_folder: Path, without_rights: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the permission."""
    monkeypatch.chdir(open_folder)
    pq.write_table(pa.table({"a": [1]}), "rows.parquet")
    Path("rows.parquet").chmod(0)

    with without_rights(), pytest.raises(BadInput, match=r"rows\.parquet: cannot be read.*Permission denied"):
        inspected("rows.parquet")
