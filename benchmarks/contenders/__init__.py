"""Who is measured: one file a contender, one call shape.

    make(source, batch) -> batches without end

What is timed begins at that call, so libraries are imported with the module. All of them read the same bytes, do the
same work and hand over NumPy arrays or their own tensors on the CPU, images first, padding as 0; where one differs,
its line in `benchmarks/workloads.py` says so.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """The same records in every form that contenders know."""

    raw: Path  # files, tar archives, lines of JSON
    artifact: Path  # what Penstock's ingest made of them

    @property
    def shards(self) -> list[str]:
        """The training split's TFRecord files."""
        return sorted(str(path) for path in (self.artifact / "Split-train").iterdir())
