"""Every source reads the same from a remote file as from a local one: columns, ranges, rows, bad rows, errors."""

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from apache_beam.testing.util import assert_that, equal_to
from PIL import Image

from components import refs
from components.errors import BadInput
from components.ingest.sources import Found, image_folder, text_folder
from components.ingest.sources.csv import csv_rows
from components.ingest.sources.rows import BadRow, Range, RowSource
from components.ingest.survey import listing
from components.ingest.write.files import UnitReader, write_unit
from components.settings.ingest import Ingest
from components.storage import paths
from components.storage.hashing import HashCache
from components.storage.paths import DataPath, data_path
from components.storage.remote_path import RemotePath

Remote = Callable[[Path], RemotePath]
Rows = list[dict[str, Any]]

TABLE = pd.DataFrame(
    {
        "id": range(3_000),
        "share": [number / 7 for number in range(3_000)],
        "text": [f'line {number}\nof "two", é😀' for number in range(3_000)],
    }
)
DIRTY = "a,b\n1,x\nragged\n2,\xff\n3,y,z\n4,w\n".encode("latin-1")


def write_csv(path: Path) -> None:
    """Writes with pandas."""
    TABLE.to_csv(path, index=False)


def write_dirty(path: Path) -> None:
    """Writes rows that are bad in several ways."""
    path.write_bytes(gzip.compress(DIRTY) if path.suffix == ".gz" else DIRTY)


def write_jsonl(path: Path) -> None:
    """Writes with the json module; one line is not JSON."""
    lines = [json.dumps(row) for row in TABLE.to_dict("records")]
    content = "\n".join([*lines[:7], "no JSON", *lines[7:]]).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_parquet(path: Path) -> None:
    """Writes with pyarrow, in several row groups, with some values that are not finite."""
    table = pa.table({"n": range(5_000), "f": [float("nan") if n % 999 == 1 else n / 3 for n in range(5_000)]})
    pq.write_table(table, path, row_group_size=700)


def write_arrays(path: Path) -> None:
    """Writes with NumPy: stored, compressed or in Fortran order, by the name."""
    arrays = {"x": np.arange(12_000, dtype=np.float32).reshape(1_000, 3, 4), "y": np.arange(1_000) % 7}
    if path.name.startswith("columns"):
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    (np.savez_compressed if path.name.startswith("packed") else np.savez)(path, **arrays)


def write_array(path: Path) -> None:
    """Writes one array, with its labels beside it."""
    np.save(path, np.arange(6_000, dtype=np.uint8).reshape(1_000, 6))
    np.save(path.with_name(f"{path.stem}_labels.npy"), np.arange(1_000) % 3)


def write_by_columns(path: Path) -> None:
    """Writes one array in Fortran order."""
    np.save(path, np.asfortranarray(np.arange(6_000, dtype=">i4").reshape(1_000, 2, 3)))


def write_tfrecords(path: Path) -> None:
    """Writes with TensorFlow; in a plain file, the checksum of one record is damaged afterwards."""
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for number in range(2_000):
            example = tf.train.Example()
            example.features.feature["n"].int64_list.value.append(number)
            example.features.feature["s"].bytes_list.value.append(b"x" * (number % 50))
            writer.write(example.SerializeToString(deterministic=True))
    if path.suffix != ".gz":
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)


SETS = [
    ("table.csv", "csv.csv_rows", write_csv),
    ("table.tsv", "csv.csv_rows", lambda path: TABLE.to_csv(path, index=False, sep="\t")),
    ("table.csv.gz", "csv.csv_rows", write_csv),
    ("dirty.csv", "csv.csv_rows", write_dirty),
    ("dirty.csv.gz", "csv.csv_rows", write_dirty),
    ("rows.jsonl", "jsonl.jsonl_rows", write_jsonl),
    ("rows.jsonl.gz", "jsonl.jsonl_rows", write_jsonl),
    ("rows.parquet", "parquet.parquet_rows", write_parquet),
    ("stored.npz", "arrays.array_rows", write_arrays),
    ("packed.npz", "arrays.array_rows", write_arrays),
    ("columns.npz", "arrays.array_rows", write_arrays),
    ("images.npy", "arrays.array_rows", write_array),
    ("fortran.npy", "arrays.array_rows", write_by_columns),
    ("data.tfrecord", "tfrecord_rows", write_tfrecords),
    ("data.tfrecord.gz", "tfrecord_rows", write_tfrecords),
]
NAMES = [name for name, _, _ in SETS]
ONE_OF_EACH = ("table.csv", "rows.jsonl.gz", "rows.parquet", "stored.npz", "data.tfrecord")


def source_of(module: str) -> RowSource:
    """Returns the source of a module."""
    source: RowSource = refs.load(f"components.ingest.sources.{module}:SOURCE")
    return source


def everything(source: RowSource, path: DataPath, target: int) -> tuple[pa.Schema, list[Range], Rows, list[BadRow]]:
    """Returns schema, ranges, rows and bad rows of a file."""
    schema, ranges = source.schema(path), source.divide(path, path.name, target)
    batches = [batch for part in ranges for batch in source.read(path, part, schema)]
    rows = [row for batch in batches for row in batch.columns.to_pylist()]
    return schema, ranges, rows, [bad for batch in batches for bad in batch.bad]


@pytest.mark.parametrize("scheme", ["flat"])
@pytest.mark.parametrize(("name", "module", "write"), SETS, ids=NAMES)
def test_a_remote_file_is_read_as_the_local_one(
    name: str, module: str, write: Callable[[Path], None], ground: Any, remote: Remote
) -> None:
    """In ranges of a few kilobytes, and in one range."""
    path = ground.folder / "set" / name
    write(path)
    source = source_of(module)
    for target in (9_000, 1 << 40):
        here, there = everything(source, path, target), everything(source, remote(path), target)
        assert there == here
        assert here[2], "rows"


@pytest.mark.parametrize("scheme", ["flat"])
def test_ranges_are_read_by_the_workers_of_beam(ground: Any, remote: Remote) -> None:
    """They get a remote path, a range and a schema."""
    tasks, expected = [], []
    for name, module, write in SETS:
        if name in ONE_OF_EACH:
            write(ground.folder / "set" / name)
            path = remote(ground.folder / "set" / name)
            schema, ranges, rows, bad = everything(source_of(module), path, 9_000)
            tasks += [(module, path, part, schema) for part in ranges]
            expected.append((module, (len(rows), len(bad))))

    def count(module: str, path: RemotePath, part: Range, schema: pa.Schema) -> tuple[str, tuple[int, int]]:
        batches = list(source_of(module).read(path, part, schema))
        return module, (sum(batch.columns.num_rows for batch in batches), sum(len(batch.bad) for batch in batches))

    with beam.Pipeline() as pipeline:
        counts = pipeline | beam.Create(tasks) | beam.MapTuple(count)
        totals = counts | beam.CombinePerKey(lambda each: tuple(map(sum, zip(*each, strict=True))) or (0, 0))
        assert_that(totals, equal_to(expected))


@pytest.mark.parametrize("scheme", ["flat"])
def test_reading_a_range_fetches_its_own_bytes(ground: Any, remote: Remote) -> None:
    """Not the whole file of 24 MB."""
    path = ground.folder / "set" / "large.csv"
    path.write_bytes(b"a,b\n" + b"123456789,abcdefghijkl\n" * ((24 << 20) // 23))
    source, there = csv_rows.SOURCE, remote(path)
    schema, ranges = source.schema(there), source.divide(there, "large.csv", path.stat().st_size // 8)
    ground.served.clear()
    rows = sum(batch.columns.num_rows for batch in source.read(there, ranges[3], schema))

    assert len(ranges) == 9
    assert rows == ranges[3].size // 23
    assert ground.bytes_served() < ranges[3].size + (4 << 20) < path.stat().st_size
    assert max(size for _, _, size in ground.served) <= 8 << 20


@pytest.mark.parametrize("scheme", ["flat"])
@pytest.mark.parametrize(("name", "module"), [(name, module) for name, module, _ in SETS if name in ONE_OF_EACH])
def test_a_missing_file_is_named_by_its_uri(name: str, module: str, ground: Any, remote: Remote) -> None:
    """B9: whatever is read first."""
    path, source = remote(ground.folder / "set" / name), source_of(module)
    for use in (source.schema, lambda path: source.divide(path, name, 1)):
        with pytest.raises(BadInput, match=rf"^{path}: cannot be read.*No such file"):
            use(path)


@pytest.mark.parametrize("scheme", ["flat"])
@pytest.mark.parametrize(("name", "module"), [(name, module) for name, module, _ in SETS if name in ONE_OF_EACH])
def test_a_forbidden_file_is_named_by_its_uri(name: str, module: str, ground: Any, remote: Remote) -> None:
    """B9: with the reason of its filesystem."""
    (ground.folder / "set" / f"denied-{name}").write_bytes(b"x" * 1_000)
    path = remote(ground.folder / "set" / f"denied-{name}")

    with pytest.raises(BadInput, match=rf"^{path}: cannot be read.*Permission denied"):
        source_of(module).schema(path)


def test_a_parquet_file_that_is_cut_while_it_is_read_is_an_error(ground: Any, remote: Remote) -> None:
    """A2: its decoder gets fewer bytes than expected."""
    path = ground.folder / "set" / "cut.parquet"
    write_parquet(path)
    source, there = source_of("parquet.parquet_rows"), remote(path)
    schema, [part] = source.schema(there), source.divide(there, "cut.parquet", 1 << 40)
    path.write_bytes(path.read_bytes()[:10_000])

    with pytest.raises(BadInput, match=r"cut\.parquet: cannot be (read|decoded)"):
        list(source.read(there, part, schema))


def test_a_parquet_file_that_is_deleted_while_it_is_read_is_an_error(ground: Any, remote: Remote) -> None:
    """B9: and the decoder can be used again."""
    path = ground.folder / "set" / "gone.parquet"
    write_parquet(path)
    source, there = source_of("parquet.parquet_rows"), remote(path)
    schema, [part] = source.schema(there), source.divide(there, "gone.parquet", 1 << 40)
    path.unlink()
    with pytest.raises(BadInput, match=r"gone\.parquet: cannot be read: No such file"):
        list(source.read(there, part, schema))
    write_parquet(path)

    assert sum(batch.columns.num_rows for batch in source.read(there, part, schema)) == 4_994


def fill_classes(folder: Path) -> None:
    """Writes class folders of images, and files that do not belong to them."""
    for number, name in enumerate(["cats/1.png", "cats/2019/2.png", "dogs/1.png", "3.png"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), (number, 0, 0)).save(folder / name)
    for name in ("README.md", ".git/config", "cats/.DS_Store", "cats/.thumbs/1.png", "dogs/empty.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    (folder / "none").mkdir()


def fill_texts(folder: Path) -> None:
    """Writes class folders of texts, and files that do not belong to them."""
    for name in ("ham/1.txt", "ham/b/2.md", "spam/1.text", "spam/x.png", "spam/x.pdf", "4.txt", "README.md", "ham/.x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


@pytest.mark.parametrize(("module", "fill"), [("image_folder", fill_classes), ("text_folder", fill_texts)])
def test_class_folders_are_listed_and_hashed_alike(
    module: str, fill: Callable[[Path], None], ground: Any, remote: Remote
) -> None:
    """Files, labels, quarantined and ignored files, sizes and digests."""
    fill(ground.folder / "set")
    source = refs.load(f"components.ingest.sources.{module}:SOURCE")
    here = listing.take(source, ground.folder / "set", HashCache(None))

    assert listing.take(source, remote(ground.folder / "set"), HashCache(None)) == here
    assert here.quarantined
    assert here.ignored


def test_remote_files_become_records(ground: Any, remote: Remote, tmp_path: Path) -> None:
    """A remote stream has no stat, so the content is compared with its digest."""
    fill_classes(ground.folder / "set")
    for path in (ground.folder / "set").rglob("*.png"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    ground.timed = True
    there = remote(ground.folder / "set")
    files = listing.take(image_folder.SOURCE, there, HashCache(None)).files
    reader = UnitReader(files, range(len(files)), image_folder.SOURCE, there, Ingest())
    made = write_unit(reader, "00000-of-00001", tmp_path)

    assert all(item.stat for item in files)
    assert made[0].failure == ""
    assert (sum(report.records for report in made), len(made[0].quarantined)) == (3, 1)


@pytest.mark.parametrize("module", ["image_folder", "text_folder"])
def test_missing_class_folders_are_an_error(module: str, ground: Any, remote: Remote) -> None:
    """A3: a remote folder without files does not exist; a file is not a folder."""
    source = refs.load(f"components.ingest.sources.{module}:SOURCE")
    (ground.folder / "set" / "a.txt").write_bytes(b"x")
    for name, what in (("none", "no such folder"), ("a.txt", "not a folder")):
        path = remote(ground.folder / "set" / name)
        with pytest.raises(BadInput, match=rf"^{path}: {what}; expected a folder with one sub-folder"):
            source.find(path)


def test_a_file_deleted_before_it_is_hashed_is_named(ground: Any, remote: Remote) -> None:
    """B9: by its URI."""
    fill_texts(ground.folder / "set")
    source = refs.load("components.ingest.sources.text_folder:SOURCE")
    home = remote(ground.folder / "set")
    found = source.find(home)
    (ground.folder / "set" / "ham" / "1.txt").unlink()

    with pytest.raises(BadInput) as stopped:
        listing.hash_found(found, home, HashCache(None))
    assert str(stopped.value) == f"{home}/ham/1.txt: cannot be read: No such file or directory; nothing was ingested"


@pytest.mark.parametrize("take", [listing.hash_found, listing.identify_found])
def test_a_folder_is_listed_once_however_many_files_it_has(
    take: Callable[[Found, DataPath, HashCache], listing.Listing],
    ground: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files are hashed in chunks, with the sizes and times of the one listing."""
    monkeypatch.setattr(listing, "_CHUNK", 2)
    monkeypatch.setattr(paths, "_FEW", 0)
    fill_texts(ground.folder / "set")
    home = data_path("flat://set")
    here = listing.take(text_folder.SOURCE, ground.folder / "set", HashCache(None))
    ground.listed.clear()
    found = text_folder.SOURCE.find(home)

    assert len(found.files) > 2
    assert take(found, home, HashCache(None)) == here
    assert take(replace(found, entries=None), home, HashCache(None)) == here
    assert ground.listed == ["flat://set/"] * 2
