"""Input of uneven size is bounded on workers and on the submitter; `benchmarks/skew.py` measures more of it."""

import pickle
from pathlib import Path

import numpy as np

from components import refs
from components.ingest import units
from components.ingest.survey import detect, survey
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache

GB = 1 << 30


def test_a_file_of_50_gb_is_read_in_ranges(tmp_path: Path) -> None:
    """Each has `ingest.shard_mb` at most, and is read without what is before it; the file is a hole on the disk."""
    path, rows = tmp_path / "x.npy", 50 * GB // (4 * 1024)
    with path.open("wb") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": (rows, 1024)}
        np.lib.format.write_array_header_1_0(file, head)  # type: ignore[no-untyped-call]
        file.truncate(file.tell() + rows * 4 * 1024)
    settings = Ingest()
    source, _ = refs.load(detect.ARRAYS).configure([path], settings)

    ranges = source.divide(path, path.name, settings.shard_mb << 20)
    assert (len(ranges), max(part.size for part in ranges)) == (400, settings.shard_mb << 20)
    last = source.read(path, ranges[-1], source.schema(path))
    assert sum(batch.columns.num_rows for batch in last) == rows // 400


def test_elements_of_beam_do_not_grow_with_the_columns(tmp_path: Path) -> None:
    """The columns of 10,000 would be 300 KB in each of them."""
    names = ",".join(f"c{number}" for number in range(10_000))
    (tmp_path / "x.csv").write_text(f"{names}\n" + f"{'1,' * 9_999}1\n{'2,' * 9_999}3\n")
    taken = survey.take(str(tmp_path / "x.csv"), Ingest(), HashCache(None))
    (file,) = units.of_rows(taken.spans[0], Ingest())
    output = units.Output(tmp_path / "out", Ingest(), table=taken.table)
    (unit,) = file.units(output)

    assert len(output.columns().schema) == 10_000
    assert max(len(pickle.dumps(each)) for each in (file, unit)) < 1_000
