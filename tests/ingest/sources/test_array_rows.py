"""NumPy arrays: every row becomes a record, or a bad row with array and index."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from components.errors import BadInput
from components.ingest.sources.arrays import array_rows
from components.ingest.sources.arrays.array_rows import SOURCE
from components.ingest.sources.rows import BadRow, Range
from components.ingest.write import encode_columns
from components.records.quarantine import RAW_LIMIT

MB = 1 << 20
HOME = Path(__file__).resolve().parents[3]
Array = npt.NDArray[Any]


def read(path: Path, target: int = MB, schema: pa.Schema | None = None) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Reads a file range by range, and encodes its rows."""
    schema = schema or SOURCE.schema(path)
    rows: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    for part in SOURCE.divide(path, path.name, target):
        for batch in SOURCE.read(path, part, schema):
            assert batch.columns.schema == schema
            assert len(encode_columns.encode_columns(batch.columns).records()) == batch.columns.num_rows
            rows += batch.columns.to_pylist()
            bad += batch.bad
    return rows, bad


def reasons(bad: list[BadRow]) -> list[tuple[str, str]]:
    """Returns positions and reasons."""
    return [(row.position, row.reason) for row in bad]


def saved(path: Path, **arrays: Array) -> Path:
    """Writes an .npz."""
    np.savez(path, **arrays)
    return path


def tensor(name: str, dtype: str, shape: str) -> pa.Field:
    """Returns the field of raw bytes."""
    return pa.field(name, pa.binary(), metadata={"dtype": dtype, "shape": shape})


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (np.array([1, -2], np.int8), pa.int64(), [1, -2]),
        (np.array([1, 2], ">u2"), pa.int64(), [1, 2]),
        (np.array([1, 2**63 - 1], np.uint64), pa.int64(), [1, 2**63 - 1]),
        (np.array([True, False]), pa.bool_(), [True, False]),
        (np.array([0.5, -1], np.float16), pa.float32(), [0.5, -1.0]),
        (np.array([0.5, 1e38], np.float32), pa.float32(), [0.5, float(np.float32(1e38))]),
        (np.array([0.1, 2], ">f8"), pa.float64(), [0.1, 2.0]),
        (np.array([0.5, 2], np.longdouble), pa.float64(), [0.5, 2.0]),
        (np.array([[3], [4]]), pa.int64(), [3, 4]),
        (np.array(["naïve 😀", "", "a\0b"]), pa.string(), ["naïve 😀", "", "a\0b"]),
        (np.array(["é", "b"], ">U3"), pa.string(), ["é", "b"]),
        (np.array([b"\xff", b""]), pa.binary(), [b"\xff", b""]),
        (np.array([["a", "bc"], ["", "d"]]), pa.list_(pa.string()), [["a", "bc"], ["", "d"]]),
        (np.array([[[b"a"], [b"b"]]]), pa.list_(pa.binary()), [[b"a", b"b"]]),
        (np.array(["2024-02-29T12:00:00.5", "NaT"], "M8[ns]"), pa.string(), ["2024-02-29T12:00:00.5", None]),
        (np.array(["2024-02"], "M8[M]"), pa.string(), ["2024-02-01"]),
        (np.array(["2024-02-29T12"], "M8[h]"), pa.string(), ["2024-02-29T12:00:00"]),
        (np.array([5, "NaT"], "m8[s]"), pa.int64(), [5, None]),
    ],
    ids=lambda value: f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else "",
)
def test_single_values_and_strings(tmp_path: Path, array: Array, kind: pa.DataType, expected: list[Any]) -> None:
    """Values of any width and byte order are read; a row of shape (1,) is one value."""
    path = saved(tmp_path / "a.npz", x=array)

    assert SOURCE.schema(path) == pa.schema({"x": kind})
    assert read(path) == ([{"x": value} for value in expected], [])


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((dtype, (5, 3)) for dtype in ("u1", "?", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", "M8[s]")),
        *((">f4", shape) for shape in ((5, 2, 2), (5, 0), (5, 1, 1))),
    ],
    ids=str,
)
def test_tensors_are_raw_little_endian_bytes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """Dtype and shape of a tensor are in the schema."""
    array = np.arange(np.prod(shape)).reshape(shape).astype(np.int64).astype(dtype)
    path = saved(tmp_path / "a.npz", x=array)
    little = array.astype("<i8" if array.dtype.kind == "M" else array.dtype.newbyteorder("<"))
    field = SOURCE.schema(path).field("x")

    assert field.equals(tensor("x", little.dtype.str, ",".join(map(str, shape[1:]))), check_metadata=True)
    assert read(path) == ([{"x": row.tobytes()} for row in little], [])


def test_complex_and_wide_numbers_are_what_tensorflow_can_decode(tmp_path: Path) -> None:
    """A single complex number is raw bytes too; 80-bit floats become 64-bit floats."""
    path = saved(tmp_path / "a.npz", c=np.array([1 + 2j]), w=np.ones((1, 2), np.longdouble))

    assert SOURCE.schema(path).equals(
        pa.schema([tensor("c", "<c16", ""), tensor("w", "<f8", "2")]), check_metadata=True
    )
    assert read(path) == ([{"c": np.array(1 + 2j).tobytes(), "w": np.ones(2).tobytes()}], [])


ROWS = 100


def images() -> dict[str, Array]:
    """Returns small images with labels and names; two images hold numbers that are not finite."""
    number = np.arange(ROWS)
    pixels = (number[:, None, None] + np.arange(12).reshape(3, 4)).astype(np.float32)
    pixels[23, 1, 2] = np.nan
    pixels[77, 0, 0] = -np.inf
    return {"image": pixels, "label": number % 10, "name": np.array([f"n{each}" for each in number])}


def write_stored(path: Path) -> None:
    """Writes uncompressed arrays in C order."""
    np.savez(path, **images())


def write_compressed(path: Path) -> None:
    """Writes compressed arrays, which can only be streamed."""
    np.savez_compressed(path, **images())


def write_fortran_order(path: Path) -> None:
    """Writes arrays in Fortran order."""
    np.savez(path, **{name: np.asfortranarray(array) for name, array in images().items()})


@pytest.mark.parametrize("write", [write_stored, write_compressed, write_fortran_order])
@pytest.mark.parametrize("target", [1, 1_000, 1 << 40])
def test_any_layout_and_target_give_the_same_rows(tmp_path: Path, write: Any, target: int) -> None:
    """Rows come in order, none is lost and none comes twice."""
    write(tmp_path / "a.npz")
    rows, bad = read(tmp_path / "a.npz", target)
    expected = images()

    assert rows == [
        {"image": expected["image"][n].tobytes(), "label": n % 10, "name": f"n{n}"}
        for n in range(ROWS)
        if n not in {23, 77}
    ]
    assert reasons(bad) == [
        ("row 24", "array 'image' holds nan at (1, 2)"),
        ("row 78", "array 'image' holds -inf at (0, 0)"),
    ]
    assert bad[0].raw.startswith(b"{'image': [23.0, 24.0, 25.0")


def test_ranges_have_the_target_size_and_are_contiguous(tmp_path: Path) -> None:
    """Uncompressed arrays are divided at any row; compressed ones are one range."""
    write_stored(tmp_path / "a.npz")
    write_compressed(tmp_path / "c.npz")
    row = 48 + 8 + 12

    assert SOURCE.divide(tmp_path / "a.npz", "a.npz", 50 * row) == [
        Range("a.npz", 0, 50, 1, 50 * row),
        Range("a.npz", 50, 100, 51, 50 * row),
    ]
    assert SOURCE.divide(tmp_path / "c.npz", "c.npz", 1) == [Range("c.npz", 0, 100, 1, 100 * row)]


def test_batches_are_bounded_in_rows_and_bytes(tmp_path: Path) -> None:
    """Large rows make small batches."""

    def sizes(array: Array) -> list[int]:
        path = saved(tmp_path / "a.npz", x=array)
        [part] = SOURCE.divide(path, "a.npz", 1 << 40)
        return [batch.columns.num_rows for batch in SOURCE.read(path, part, SOURCE.schema(path))]

    assert sizes(np.zeros(20_000, np.int8)) == [8192, 8192, 3616]
    assert sizes(np.zeros((10, MB), np.uint16)) == [4, 4, 2]


def test_numbers_that_are_not_finite_or_not_int64_are_bad_rows(tmp_path: Path) -> None:
    """A9: single, half and complex numbers; float64 beyond float32 too, as a single value and in raw bytes."""
    path = saved(
        tmp_path / "a.npz",
        big=np.array([0, 2**63, 0, 0, 0, 0, 0], np.uint64),
        c=np.array([0, 0, complex(0, np.inf), 0, 0, 0, 0]),
        f=np.array([np.nan, 0, 0, 1e300, 0, 0, 0]),
        h=np.array([[0, 0]] * 4 + [[0, np.inf]] + [[0, 0]] * 2, np.float16),
        n=np.arange(7),
        t=np.array([[0, 0]] * 5 + [[0, 1e300], [0, 1e38]]),
    )
    rows, bad = read(path)

    assert [row["n"] for row in rows] == [6]
    assert reasons(bad) == [
        ("row 1", "array 'f' holds nan"),
        ("row 2", f"array 'big' cannot be int64: Integer value {2**63} not in range: 0 to {2**63 - 1}"),
        ("row 3", "array 'c' holds 0+infj at ()"),
        ("row 4", "array 'f' holds 1e+300, beyond the range of float32"),
        ("row 5", "array 'h' holds inf at (1)"),
        ("row 6", "array 't' holds 1e+300, beyond the range of float32 at (1)"),
    ]  # fmt: skip


def test_strings_that_are_not_unicode_are_bad_rows(tmp_path: Path) -> None:
    """An array can hold half a surrogate pair and numbers beyond Unicode."""
    array = np.array(["ok", "\ud800", "xy"])
    array.view(np.uint32)[4] = 0x110000
    rows, bad = read(saved(tmp_path / "a.npz", x=array, n=np.arange(3)))

    assert rows == [{"n": 0, "x": "ok"}]
    assert reasons(bad) == [(f"row {row}", "array 'x' holds a string that is not Unicode") for row in (2, 3)]


def test_no_more_of_a_bad_row_is_kept_than_the_limit(tmp_path: Path) -> None:
    """The raw bytes of a bad row are cut at RAW_LIMIT."""
    _, [bad] = read(saved(tmp_path / "a.npz", x=np.full((1, 100_000), np.nan)))

    assert len(bad.raw) == RAW_LIMIT


def test_an_npy_is_a_column_with_the_name_of_the_file(tmp_path: Path) -> None:
    """An .npy without labels is one column."""
    np.save(tmp_path / "features.npy", np.array([[1, 2], [3, 4]], np.uint8))

    assert SOURCE.schema(tmp_path / "features.npy") == pa.schema([tensor("features", "|u1", "2")])
    assert read(tmp_path / "features.npy") == ([{"features": b"\1\2"}, {"features": b"\3\4"}], [])


@pytest.mark.parametrize("labels", ["labels.npy", "images_labels.npy"])
def test_labels_beside_an_array_are_its_column(tmp_path: Path, labels: str) -> None:
    """A label file has no rows of its own, also if it is listed."""
    np.save(tmp_path / "images.npy", np.array([[1, 2], [3, 4]], np.uint8))
    np.save(tmp_path / labels, np.array([[7], [8]]))
    rows = [{"images": b"\1\2", "label": 7}, {"images": b"\3\4", "label": 8}]

    assert read(tmp_path / "images.npy") == (rows, [])
    assert SOURCE.schema(tmp_path / labels) == SOURCE.schema(tmp_path / "images.npy")
    assert SOURCE.divide(tmp_path / labels, labels, 1) == []


def test_several_arrays_with_labels_in_one_folder(tmp_path: Path) -> None:
    """Each array has the labels with its name."""
    for name in ("train", "test"):
        np.save(tmp_path / f"{name}.npy", np.array([1]))
        np.save(tmp_path / f"{name}_labels.npy", np.array([len(name)]))

    assert read(tmp_path / "train.npy") == ([{"label": 5, "train": 1}], [])
    assert read(tmp_path / "test.npy") == ([{"label": 4, "test": 1}], [])


def test_labels_alone_are_data(tmp_path: Path) -> None:
    """A label file without an array is an array."""
    np.save(tmp_path / "labels.npy", np.array([1]))

    assert read(tmp_path / "labels.npy") == ([{"labels": 1}], [])


def test_ambiguous_labels_are_rejected(tmp_path: Path) -> None:
    """The message says how to name the file."""
    for name in ("images", "masks", "labels"):
        np.save(tmp_path / f"{name}.npy", np.array([1]))

    with pytest.raises(BadInput, match=r"labels\.npy: may belong to images\.npy or masks\.npy; name it"):
        SOURCE.schema(tmp_path / "images.npy")


def test_labels_of_another_length_are_rejected(tmp_path: Path) -> None:
    """The message has both lengths."""
    np.save(tmp_path / "images.npy", np.zeros((3, 2)))
    np.save(tmp_path / "labels.npy", np.zeros(2))

    with pytest.raises(BadInput, match=r"images\.npy: arrays of different lengths: 'images' 3, 'label' 2"):
        SOURCE.schema(tmp_path / "images.npy")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3), "y": np.zeros(4)}, "arrays of different lengths: 'x' 3, 'y' 4"),
        ({"x": np.array([{}, None])}, "array 'x' holds Python objects, which are not unpickled"),
        ({"x": np.zeros(2, [("a", "i4"), ("b", "f4")])}, r"array 'x' has a structured dtype .* array of its own"),
        ({"x": np.array(5)}, "array 'x' is a single value"),
        ({"x": np.zeros((0, 28))}, r"0 examples in it: array 'x' has the shape \(0, 28\)"),
        ({}, "0 examples in it: no array"),
    ],
    ids=["lengths", "objects", "structure", "single", "empty", "none"],
)
def test_arrays_without_rows_are_rejected(tmp_path: Path, arrays: dict[str, Array], message: str) -> None:
    """A3, A9: the message has file, array and what to do."""
    with pytest.raises(BadInput, match=rf"a\.npz: {message}"):
        SOURCE.schema(saved(tmp_path / "a.npz", **arrays))


def test_rows_too_large_for_a_record_are_rejected(tmp_path: Path) -> None:
    """The header is enough to reject them."""
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.uint8, (1, (1 << 30) + 1))  # type: ignore[no-untyped-call]

    with pytest.raises(BadInput, match=r"a\.npy: each row \(array 'a' of shape .*\) has 1,073,741,825 bytes"):
        SOURCE.schema(tmp_path / "a.npy")


def test_a_compressed_array_in_fortran_order_is_rejected(tmp_path: Path) -> None:
    """Its first row would end near the end of the stream."""
    np.savez_compressed(tmp_path / "a.npz", x=np.asfortranarray(np.zeros((2, 3))))

    with pytest.raises(BadInput, match=r"a\.npz: array 'x' is compressed in Fortran order; save it in C order"):
        SOURCE.schema(tmp_path / "a.npz")


def test_an_archive_with_other_files_is_rejected(tmp_path: Path) -> None:
    """No entry is ignored."""
    path = saved(tmp_path / "a.npz", x=np.zeros(2))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "hello")

    with pytest.raises(BadInput, match=r"a\.npz: unexpected entry 'README\.txt'; expected only arrays"):
        SOURCE.schema(path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """D8, D10: a pickle in an array is not executed."""

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object))

    with pytest.raises(BadInput, match="not unpickled"):
        SOURCE.schema(tmp_path / "a.npy")
    assert not (tmp_path / "pwned").exists()


def test_tensors_with_another_shape_or_dtype_than_in_the_schema_are_rejected(tmp_path: Path) -> None:
    """A9: the bytes in a record would not show the difference."""
    schema = SOURCE.schema(saved(tmp_path / "a.npz", x=np.zeros((2, 4), np.float32)))
    for other in (np.zeros((2, 2, 2), np.float32), np.zeros((2, 4), np.int32), np.zeros(2)):
        path = saved(tmp_path / "b.npz", x=other)
        with pytest.raises(BadInput, match=r"b\.npz: array 'x' has rows of .* expected <f4 of shape 4"):
            read(path, schema=schema)


def test_the_schema_decides_what_is_read(tmp_path: Path) -> None:
    """A column without an array is missing, and an array that is not in the schema is not read."""
    path = saved(tmp_path / "a.npz", x=np.arange(2), y=np.full((2, 2), np.nan))

    assert read(path, schema=pa.schema({"x": pa.float32(), "z": pa.string()})) == (
        [{"x": 0.0, "z": None}, {"x": 1.0, "z": None}],
        [],
    )
    assert len(read(path, schema=pa.schema({"z": pa.string()}))[0]) == 2


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\3\4", b"<html>not found</html>", bytes(500)])
def test_a_file_that_is_no_array_is_rejected(tmp_path: Path, content: bytes) -> None:
    """A3: the message has the file."""
    for name in ("a.npy", "a.npz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=rf"{name}: cannot be read: .*it may be damaged"):
            SOURCE.schema(tmp_path / name)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    """B9: the message has the file."""
    with pytest.raises(BadInput, match=r"gone\.npy: cannot be read: .*No such file"):
        SOURCE.schema(tmp_path / "gone.npy")


def outcome(path: Path) -> list[dict[str, Any]] | BadInput:
    """Returns the rows, or the error; any other exception fails the test."""
    try:
        return read(path, 20)[0]
    except BadInput as error:
        return error


def npy(array: Array) -> bytes:
    """Returns an .npy."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_a_truncated_or_lengthened_npy_is_rejected(tmp_path: Path) -> None:
    """A2: the header has the number of bytes, and a second array in the file is an error."""
    path = tmp_path / "cut.npy"
    whole = npy(np.arange(20, dtype=np.int32).reshape(5, 4))

    for content in [*(whole[:length] for length in range(len(whole))), whole + b"x", whole + whole]:
        path.write_bytes(content)
        assert "cut.npy: cannot be read" in str(outcome(path))


def test_a_flipped_bit_in_the_header_of_an_npy_raises_only_bad_input(tmp_path: Path) -> None:
    """A1: the format has no checksum, but no array of a wrong size is read."""
    path = tmp_path / "flip.npy"
    whole = npy(np.arange(20, dtype=np.int32).reshape(5, 4))
    rejected = 0
    for bit in range((len(whole) - 80) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        found = outcome(path)
        rejected += isinstance(found, BadInput) and "flip.npy" in str(found)

    assert rejected > 500


@pytest.mark.slow
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_in_an_npz_is_found_or_harmless(tmp_path: Path, save: Any) -> None:
    """A1: a flipped bit never changes a row."""
    path = tmp_path / "flip.npz"
    save(path, x=np.arange(20, dtype=np.int32).reshape(5, 4), y=np.arange(5))
    whole, rows = path.read_bytes(), outcome(path)
    found_bits = 0
    for bit in range(0, len(whole) * 8, 3):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        found = outcome(path)
        assert found == rows or "flip.npz" in str(found)
        found_bits += found != rows

    assert found_bits > 500


def test_a_truncated_npz_is_rejected(tmp_path: Path) -> None:
    """A2: its directory is at its end."""
    path = saved(tmp_path / "cut.npz", x=np.arange(100))
    whole = path.read_bytes()

    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert "cut.npz: cannot be read" in str(outcome(path))


def test_a_file_that_shrinks_while_it_is_read_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing rows are an error."""
    path = tmp_path / "shrinks.npy"
    path.write_bytes(npy(np.zeros((100, 2_000))))
    monkeypatch.setattr(array_rows, "_BATCH_ROWS", 10)
    batches = SOURCE.read(path, Range("s", 0, 100, 1, 0), SOURCE.schema(path))
    next(batches)
    path.write_bytes(npy(np.zeros((15, 2_000))))

    with pytest.raises(BadInput, match=r"shrinks\.npy: cannot be read: array 'shrinks' ends within rows 11 to 20"):
        list(batches)


_MEASURE = """
import resource, sys
from pathlib import Path
from components.ingest.sources.arrays.array_rows import SOURCE
path, rows = Path(sys.argv[1]), 0
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
schema, before = SOURCE.schema(path), peak()
for part in SOURCE.divide(path, path.name, 64 << 20):
    rows += sum(batch.columns.num_rows for batch in SOURCE.read(path, part, schema))
print(rows, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_memory_stays_flat(tmp_path: Path, kind: str) -> None:
    """B12: 200 MB are read in a few batches' room."""
    array = np.zeros((50_000, 1_000), np.float32)
    path = tmp_path / ("a.npy" if kind == "npy" else "a.npz")
    if kind == "npy":
        np.save(path, array)
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(path, a=array)
    del array
    command = [sys.executable, "-c", _MEASURE, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows, growth = map(int, done.stdout.split())

    assert rows == 50_000
    assert growth < 60, "MB"
