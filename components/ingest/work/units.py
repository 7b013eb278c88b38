"""Units of work: what one Beam element reads and writes, decided before any byte is moved.

    part of the data ─┬─ a file is a record ─► shards dealt by content hash ─► a unit a shard
                      └─ rows ─► ranges of files, the same on any machine ───► a unit a range, a shard a split

No record crosses a shuffle, and a retried bundle writes the same files again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components import refs
from components.ingest.sources.rows import Range, RowSource
from components.ingest.survey.detect import Place
from components.ingest.survey.renames import Renamed
from components.ingest.survey.survey import Part, Table
from components.ingest.work import shards
from components.ingest.work.files_unit import FilesUnit, Target
from components.ingest.write.files import ShardReport
from components.ingest.write.rows import write_range
from components.settings.ingest import Ingest

_LEAST_RANGE = 256 << 10  # bytes: below this a range costs more to start than to read


@dataclass(frozen=True)
class RowsUnit:
    """One range of rows: a shard for every split that it has records of."""

    part: Range
    shard: str  # end of the shards' names
    source: str
    home: Place
    table: Table

    @property
    def name(self) -> str:
        """The range's number."""
        return f"range-{self.shard}"

    def sent(self, artifact: Path) -> "RowsUnit":
        """A range is small: nothing is sent ahead."""
        del artifact
        return self

    def write(self, target: Target) -> Sequence[ShardReport]:
        """Reads the range and writes its shards."""
        table, settings = self.table, target.settings
        split_by = table.names.get(settings.split_by, settings.split_by)
        return write_range(
            self.part, self.shard, source=Renamed(refs.load(self.source), table.names), schema=table.schema,
            data=self.home, artifact=target.artifact, settings=settings.model_copy(update={"split_by": split_by}),
            label=table.label, images=table.images, checks=target.checks,
        )  # fmt: skip


Unit = FilesUnit | RowsUnit  # with a name that tells it from all others of the same ingest


def of_part(part: Part, table: Table | None, settings: Ingest) -> list[Unit]:
    """Returns the units of one part of the data."""
    source, home, span = part.located.source, part.located.home, part.span.name
    if table is None:
        plans = shards.plan(part.manifest.files, settings, span)
        return [FilesUnit(plan, source, home) for plan in plans]
    ranges = cut(part, settings)
    return [
        RowsUnit(each, shards.numbered(index, len(ranges), span), source, home, table)
        for index, each in enumerate(ranges)
    ]


def cut(part: Part, settings: Ingest) -> list[Range]:
    """Cuts the files of a part into ranges: as many as the bytes want, at least `min_shards` if they can be had."""
    source: RowSource = refs.load(part.located.source)
    sizes = {item.file.path: item.size for item in part.manifest.files}
    rows = sum(sizes[name] for name in part.located.files)
    target = _target(rows, sum(sizes.values()), settings)
    return [each for name in part.located.files for each in source.divide(part.located.home / name, name, target)]


def _target(rows: int, everything: int, settings: Ingest) -> int:
    """Returns the bytes of rows that make a range; images that rows refer to count for its size, too."""
    heavier = max(1.0, everything / max(1, rows))
    by_size = int((settings.shard_mb << 20) / heavier)
    by_count = -(-rows // settings.min_shards)
    return max(int(_LEAST_RANGE / heavier), 1, min(by_size, by_count))
