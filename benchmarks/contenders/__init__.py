"""Contenders: one file each, with the same signature.

    make(stored, batch) -> endless batches

Timing starts at that call, so libraries are imported with the module. All contenders read the same data, do the same
work and return NumPy arrays or their own tensors on the CPU, images first, padding as 0; `benchmarks/workloads.py`
notes differences.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BenchData:
    """The same records in the formats of all contenders."""

    raw: Path  # files, tar archives, JSON Lines
    artifact: Path  # as ingested by Penstock

    @property
    def shards(self) -> list[str]:
        """The training split's TFRecord files."""
        return sorted(str(path) for path in (self.artifact / "Split-train").iterdir())
