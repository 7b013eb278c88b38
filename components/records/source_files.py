"""The source files of an Examples artifact, in sharded Parquet beside the manifest, which has their totals alone.

    <artifact>/sources/part-00000.parquet   path, size, identity   one row per file, 250,000 rows per part

A million files take 40 to 60 MB there; as JSON in the manifest, which every node reads, they would take 150 MB.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING

from components.storage import durable
from components.storage.paths import files_below

if TYPE_CHECKING:
    from components.storage.location import Location
    from components.storage.paths import DataPath

FOLDER = "sources"
_ROWS = 250_000  # per part: as Python objects they take 100 MB
_PART = re.compile(r"part-\d+\.parquet")
SourceRow = tuple[str, int, str]  # printable path, bytes, and what identifies the content: SHA-256, or a stat


def write(artifact: "Location", paths: Iterable[str], sizes: Iterable[int], identities: Iterable[str]) -> None:
    """Writes the source files, part by part: at most one part is in memory. Parts of an earlier try are removed.

    Args:
        artifact: the artifact.
        paths: of the files, printable.
        sizes: bytes of each.
        identities: what identifies the content of each.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("path", pa.string()), ("size", pa.int64()), ("identity", pa.string())])
    durable.remove(artifact / FOLDER)
    columns = [iter(each) for each in (paths, sizes, identities)]
    for number in count():
        part = [pa.array(islice(column, _ROWS), field.type) for column, field in zip(columns, schema, strict=True)]
        table = pa.Table.from_arrays(part, schema=schema)
        if not table.num_rows:
            return
        with durable.publish_file(artifact / FOLDER / f"part-{number:05d}.parquet") as temporary:
            pq.write_table(table, str(temporary), use_dictionary=False)  # hardly any value occurs twice


def read(artifact: "DataPath", files: int) -> Iterator[SourceRow]:
    """Yields the source files in the order in which they were listed.

    Args:
        artifact: the artifact.
        files: how many the manifest has.

    Raises:
        OSError: there is no list.
        ValueError: the list has more or fewer files.
    """
    import pyarrow.parquet as pq

    folder = artifact / FOLDER
    parts = sorted(name for name in files_below(folder) if _PART.fullmatch(name))
    if files and not parts:
        raise FileNotFoundError(f"{folder}: no list of source files; the artifact is from an earlier version")
    read = 0
    for part in parts:
        with (folder / part).open("rb") as file:
            table = pq.read_table(file)
        read += table.num_rows
        yield from zip(*(table.column(name).to_pylist() for name in ("path", "size", "identity")), strict=True)
    if read != files:
        raise ValueError(f"{folder}: {read:,} source files, but the manifest has {files:,}; ingest the data again")
