"""Finds what the new spans are compared with: the artifacts that the live model was made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from components.serving.live import LivePointer
from components.storage.hashing import digest_of
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store


@dataclass(frozen=True)
class LiveArtifacts:
    """What the live model was made from."""

    model: Location
    statistics: Location
    examples: Location
    transform: Location
    digest: str  # of all that the comparison reads of them

    def to_json(self, accepted: Iterable[Mapping[str, str]]) -> str:
        """Returns the parameter of the Gate; `new_span.LiveSpan` reads it."""
        places = {name: str(getattr(self, name)) for name in ("model", "statistics", "examples", "transform")}
        return orjson.dumps({**places, "accepted": list(accepted)}).decode()


def find_live(
    config: RunConfig, store: Store, pointer: LivePointer | None, data_digest: str, *, has_spans: bool
) -> LiveArtifacts | None:
    """Returns what the new spans are compared with; None for the first model, and for data without spans.

    Args:
        config: the run.
        store: its metadata.
        pointer: to the live model.
        data_digest: of the data of this run: a model that was trained on it is not compared with itself.
        has_spans: whether the data is in spans.
    """
    model = store.base_model(pointer.bases(data_digest)) if has_spans and pointer else None
    made = store.made_from(model.id) if model else {}
    if model is None or not {"statistics", "examples", "transform_graph"} <= {n for n, a in made.items() if a.live}:
        return None
    statistics, examples, graph = (made[name].uri for name in ("statistics", "examples", "transform_graph"))
    sealed = [seals.read(config, each) for each in (statistics, examples, graph)]
    digest = digest_of([each.digest if each else "" for each in sealed])
    return LiveArtifacts(model.uri, statistics, examples, graph, digest)
