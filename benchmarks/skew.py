"""Input of uneven size: time and peak memory of the submitter's part and of one worker's part, in one process.

    sparse   a .npy file of 50 GB, most of it a hole on the disk      divided; one range read
    long     a CSV file of 2 GB, of rows with quoted line ends        divided; one range read
    row      a CSV file with one row of 1 GB                          rejected
    wide     a CSV file of 10,000 columns and 2,000 rows              ingested
    hot      1 million files, all but 100 of them in one class        work list, lists of the units

python -m benchmarks.skew                  everything; the files take 2 GB in the folder for temporary files
python -m benchmarks.skew sparse row       some of it
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import measure

_ME = "benchmarks.skew"
_MB, _GB = 1 << 20, 1 << 30
_SIDE = 100  # of the arrays
_COLUMNS, _ROWS, _FILES, _RARE = 10_000, 2_000, 1_000_000, 100
_MOST_MB = 2_000


def sparse(home: Path) -> str:
    """Divides an array on the disk, and reads its last range."""
    import numpy as np

    path = home / "x.npy"
    rows = 50 * _GB // (_SIDE * _SIDE * 4)
    with path.open("wb") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": (rows, _SIDE, _SIDE)}
        np.lib.format.write_array_header_1_0(file, head)  # type: ignore[no-untyped-call]
        file.truncate(file.tell() + rows * _SIDE * _SIDE * 4)
    return _divided(path)


def long(home: Path) -> str:
    """Divides a text of records over two lines, and reads its last range."""
    path = home / "x.csv"
    block = "".join(f'{number},{number / 7:.6f},"first line\nsecond {number}"\n' for number in range(100_000)).encode()
    with path.open("wb") as file:
        file.write(b"a,b,text\n")
        while file.tell() < 2 * _GB:
            file.write(block)
    return _divided(path)


def _divided(path: Path) -> str:
    from components import refs
    from components.ingest.survey import detect
    from components.settings.ingest import Ingest

    settings = Ingest()
    source, _ = refs.load(detect.locate(str(path)).source).configure([path], settings)
    schema = source.schema(path)
    ranges = source.divide(path, path.name, settings.shard_mb << 20)
    rows = sum(batch.columns.num_rows for batch in source.read(path, ranges[-1], schema))
    largest = max(part.size for part in ranges) / _MB
    return f"{len(ranges)} ranges of {largest:,.0f} MB at most, {rows:,} rows in the last one"


def row(home: Path) -> str:
    """Ingests a row that is too long."""
    from components.errors import BadInput

    path = home / "x.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(_GB)
    try:
        return _ingested(path, home)
    except BadInput as error:
        return f"rejected: {str(error).removeprefix(str(home))}"


def wide(home: Path) -> str:
    """Ingests many columns."""
    import numpy as np

    path = home / "x.csv"
    values = np.random.default_rng(7).integers(0, 1000, (_ROWS, _COLUMNS))
    np.savetxt(path, values, "%d", ",", header=",".join(f"c{at}" for at in range(_COLUMNS)), comments="")
    return _ingested(path, home)


def _ingested(path: Path, home: Path) -> str:
    import apache_beam as beam

    from components.ingest import run
    from components.ingest.survey import survey
    from components.ingest.units import Output
    from components.settings.ingest import Ingest
    from components.storage.hashing import HashCache

    def take() -> Any:
        return survey.take(str(path), settings, HashCache(None))

    settings, out = Ingest(), home / "out"
    out.mkdir()
    job = run.IngestJob(take(), Output(out, settings), home / "quarantine.jsonl", None)
    made = run.run(job, beam.Pipeline, take)
    return f"{sum(made.records.values()):,} records in {len(made.shards)} shards"


def hot(home: Path) -> str:
    """Divides files most of which are of one class."""
    from components.ingest import units
    from components.ingest.sources import SourceFiles
    from components.ingest.survey import detect, spans, survey
    from components.ingest.survey.listed_files import ListedFiles
    from components.ingest.survey.listing import Listing
    from components.settings.ingest import Ingest
    from components.storage.entries import Entries
    from components.storage.uri_path import RemoteStat

    entries = Entries()
    entries.extend([f"hot/{number:07d}.jpg" for number in range(_FILES)], [RemoteStat(1024, 1, "e")] * _FILES)
    entries.extend([f"rare/{number:07d}.jpg" for number in range(_RARE)], [RemoteStat(1024, 1, "e")] * _RARE)
    sources = SourceFiles(paths=entries.names)
    sources.append_labels("hot", _FILES)
    sources.append_labels("rare", _RARE)
    listing = Listing(ListedFiles.on_store(sources, entries), (), ())
    located = detect.Located(home, (), detect.IMAGE_FOLDER)
    made = units.of_files(survey.SpanFiles(spans.Span(""), located, "", listing), Ingest(), home)
    rare = Counter(number % len(made) for number in range(_FILES, _FILES + _RARE))
    sizes = sorted({len(unit.numbers) for unit in made})
    return f"{len(made)} units of {sizes[0]:,} to {sizes[-1]:,} files, {max(rare.values())} rare ones at most in each"


_CASES = {each.__name__: each for each in (sparse, long, row, wide, hot)}


def main() -> None:
    """Measures each case in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*_CASES, []], help="none named: all")
    parser.add_argument("--only", choices=list(_CASES), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        with tempfile.TemporaryDirectory() as home:
            measure.report(lambda: print(_CASES[asked.only](Path(home)), file=sys.stderr))
        return
    for name in asked.cases or _CASES:
        (measured,) = measure.in_turn({name: ["-m", _ME, "--only", name]}, 1)[name]
        fits = "passed" if measured.peak_mb < _MOST_MB else f"more than {_MOST_MB:,} MB"
        print(f"{name:<8}{measured.cpu:>8.1f} CPU s {measured.peak_mb:>8,.0f} MB  {fits}", flush=True)


if __name__ == "__main__":
    main()
