"""A unit of files: one shard.

Beam, TensorFlow, Arrow, pydantic and, until a image is decoded, NumPy are not imported here: so a helper starts soon.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from components import refs
from components.ingest.survey.detect import Place
from components.ingest.work import plans
from components.ingest.work.shards import ShardPlan
from components.ingest.write.files import ShardReport, write_shard

if TYPE_CHECKING:
    from components.settings.ingest import Ingest


@dataclass(frozen=True)
class Target:
    """Where units write, and what they may remember."""

    artifact: Path
    settings: "Ingest"
    checks: Path | None = None  # verdicts on images, by content

    def plain(self) -> "Target":
        """Returns the same for a helper: with the values of the settings, and without the class that checked them."""
        return replace(self, settings=cast("Ingest", SimpleNamespace(**self.settings.model_dump())))


@dataclass(frozen=True)
class FilesUnit:
    """One shard of records that are files; its plan is sent ahead."""

    shard: ShardPlan
    source: str
    home: Place

    @property
    def name(self) -> str:
        """The shard's."""
        return self.shard.name

    def sent(self, artifact: Path) -> "FilesUnit":
        """Leaves the list of files where workers find it, and returns the unit without it."""
        return replace(self, shard=plans.store(artifact, self.shard))

    def write(self, target: Target) -> Sequence[ShardReport]:
        """Reads, checks and writes the files of the shard."""
        source, shard = refs.load(self.source), plans.read(target.artifact, self.shard)
        return [write_shard(shard, source, self.home, target.artifact, target.settings, target.checks)]
