"""D10: small files that decode to gigabytes are rejected by `ingest.max_row_mb`, in little memory."""

import gzip
import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components import refs
from components.errors import BadInput
from components.ingest.sources.rows import WHOLE, RowFormat
from components.settings.ingest import Ingest

ROOT = Path(__file__).parents[3]
MEGA = 1 << 20

READ = """
import json, pathlib, re, resource, sys
from components import refs
from components.errors import BadInput
from components.settings.ingest import Ingest
from components.ingest.sources.rows import WHOLE

path, source = pathlib.Path(sys.argv[1]), refs.load(sys.argv[2])
rows = 0
try:
    source, _ = source.configure([path], Ingest())
    for part in source.divide(path, path.name, WHOLE):
        for batch in source.read(path, part, source.schema(path)):
            rows += batch.columns.num_rows
    outcome = rows
except BadInput as error:
    outcome = str(error)
from components.ingest.sources.parquet import parquet_decoder
parquet_decoder._decoders.close()  # so that the decoder's memory is counted
# Not ru_maxrss for this process: it counts what the parent had before exec.
own = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
print(json.dumps([outcome, own >> 10, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10]))
"""


def read(path: Path, source: str) -> tuple[object, int, int]:
    """Returns the number of rows or the error, and the peak memory of reader and decoder in MB, in a new process."""
    command = [sys.executable, "-c", READ, str(path), f"components.ingest.sources.{source}:SOURCE"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    outcome, reader, decoder = orjson.loads(done.stdout.splitlines()[-1])
    return outcome, reader, decoder


def parquet(path: Path, value: int, rows: int, *, typed: bool = True) -> None:
    """Writes a file with one huge value, repeated by its dictionary; `typed`: Arrow reads it as a dictionary."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * value]))
    pq.write_table(pa.table({"text": column}), path, compression="zstd", write_statistics=False)
    if not typed:
        path.write_bytes(path.read_bytes().replace(b"ARROW:schema", b"other:schema"))


@pytest.mark.slow
@pytest.mark.parametrize("typed", [True, False])
def test_parquet_rows_above_the_limit(tmp_path: Path, typed: bool) -> None:
    """D10: 20 times 100 MB in 4 KB is an error with file and row, far below 2 GB."""
    parquet(tmp_path / "bomb.parquet", 100 * MEGA, 20, typed=typed)
    assert (tmp_path / "bomb.parquet").stat().st_size < 20_000

    outcome, reader, decoder = read(tmp_path / "bomb.parquet", "parquet.parquet_rows")

    assert str(outcome).startswith(f"{tmp_path}/bomb.parquet: row 1 has ")
    assert str(outcome).endswith(
        ", more than ingest.max_row_mb = 64; check the file, or raise the setting if such rows are expected"
    )
    assert reader < 300
    assert decoder < 900


@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_smallest_limit_is_exact_wherever_the_row_is(kind: str, before: int, tmp_path: Path) -> None:
    """D10: a row just below 16 MB is read, one above it stops the run, first or after others."""
    source: RowFormat = refs.load(f"components.ingest.sources.{kind}.{kind}_rows:SOURCE")
    for size, expected in ((16 * MEGA - 100, before + 1), (16 * MEGA + 100, None)):
        path = tmp_path / f"{size}.{kind}"
        _table(path, [*"x" * before, "y" * size])
        if expected:
            assert _rows(source, path) == expected
        else:
            with pytest.raises(BadInput, match=r"ingest\.max_row_mb = 16; "):
                _rows(source, path)


def _table(path: Path, texts: list[str]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path)
    elif path.suffix == ".csv":
        path.write_text("\n".join(["text,n", *(f"{text},1" for text in texts)]))
    else:
        path.write_text("\n".join(f'{{"text": "{text}"}}' for text in texts))


def _rows(source: RowFormat, path: Path) -> int:
    reader, _ = source.configure([path], Ingest(max_row_mb=16))
    parts = reader.divide(path, path.name, WHOLE)
    return sum(batch.columns.num_rows for part in parts for batch in reader.read(path, part, reader.schema(path)))


@pytest.mark.slow
@pytest.mark.parametrize("typed", [True, pytest.param(False, marks=pytest.mark.all)])
def test_parquet_rows_below_the_limit(tmp_path: Path, typed: bool) -> None:
    """D10: 1,200 rows of 1 MB in 1 KB are all read, a few at a time."""
    parquet(tmp_path / "bomb.parquet", MEGA, 1200, typed=typed)
    assert (tmp_path / "bomb.parquet").stat().st_size < 2048

    outcome, reader, decoder = read(tmp_path / "bomb.parquet", "parquet.parquet_rows")

    assert outcome == 1200
    assert reader < 300
    assert decoder < 900


@pytest.mark.slow
def test_a_gzip_record_that_claims_two_gigabytes(tmp_path: Path) -> None:
    """D10: its header is enough to reject it, with its offset."""
    length = struct.pack("<Q", (1 << 31) - 1)
    crc = google_crc32c.value(length)
    header = length + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    with gzip.open(tmp_path / "bomb.tfrecord.gz", "wb") as file:
        file.write(header)
        for _ in range(256):
            file.write(bytes(MEGA))

    outcome, reader, _ = read(tmp_path / "bomb.tfrecord.gz", "tfrecord_rows")

    assert outcome == (
        f"{tmp_path}/bomb.tfrecord.gz: the record at byte offset 0 has 2,147,483,647 bytes; "
        "more than ingest.max_row_mb = 64"
    )
    assert reader < 900  # TensorFlow's libraries alone take 500


@pytest.mark.slow
def test_npz_rows_of_one_gigabyte(tmp_path: Path) -> None:
    """D10: the header of the array is enough to reject them."""
    _npz(tmp_path / "bomb.npz", (1, 1 << 30))

    outcome, reader, _ = read(tmp_path / "bomb.npz", "arrays.array_rows")

    assert outcome == (
        f"{tmp_path}/bomb.npz: each row (array 'x' of shape (1, 1073741824)) has 1,073,741,824 bytes, more than "
        "ingest.max_row_mb = 64; check the file, or raise the setting if such rows are expected"
    )
    assert reader < 300


def _npz(path: Path, shape: tuple[int, int]) -> None:
    """Writes a deflated array of zeros without ever holding it."""
    empty = io.BytesIO()
    np.save(empty, np.broadcast_to(np.zeros(1, np.uint8), (shape[0], 0)))
    header = empty.getvalue().replace(b"(%d, 0)" % shape[0], b"(%d, %d)" % shape)
    header = header[:8] + struct.pack("<H", len(header) - 10) + header[10:]
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as out,
    ):
        out.write(header)
        for _ in range(shape[0] * shape[1] // MEGA):
            out.write(bytes(MEGA))
