"""Selects earlier models of a pipeline by its live pointer: the baseline of a candidate, and the base of a warm start.

The plan selects the same ones before TFX is imported: `pipelines/orchestration/metadata/live_model.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy

from components.pretrained.artifacts import DATA_DIGEST, are_comparable
from components.serving import live
from components.serving.live import LiveModel
from components.storage.location import location


class LiveOther(ResolverStrategy):
    """Resolves the live model, if it is another one than the candidate and can be compared with it.

    TFX's own strategy resolves the candidate itself as soon as it is blessed: the next run, with nothing changed,
    would compare the model with itself and so miss the cache.
    """

    def __init__(self, root: str) -> None:
        """Takes the root of the pipeline."""
        self._root = location(root)

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns the baseline model, or none, under the input's keys."""
        del store
        pointer = live.read(self._root)
        (candidate,) = input_dict["candidate"]
        wanted = pointer.baselines(candidate.id) if pointer else []
        comparable = (
            model
            for model in _artifacts(wanted, input_dict["model"])
            if are_comparable(location(model.uri), location(candidate.uri))
        )
        return _only(next(comparable, None), input_dict)


class LiveOfOtherData(ResolverStrategy):
    """Resolves the latest live model that was not trained on the very data that training will read.

    A model that was trained on it is left out, so that its own push does not make its Trainer due again.
    """

    def __init__(self, root: str) -> None:
        """Takes the root of the pipeline."""
        self._root = location(root)

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns the base model, or none, under the input's keys."""
        del store
        pointer = live.read(self._root)
        (examples,) = input_dict["examples"]
        wanted = pointer.bases(examples.get_string_custom_property(DATA_DIGEST)) if pointer else []
        return _only(next(iter(_artifacts(wanted, input_dict["model"])), None), input_dict)


def _artifacts(wanted: Sequence[LiveModel], models: Iterable[types.Artifact]) -> list[types.Artifact]:
    """Returns the artifacts of some models, in their order; TFX lists only those that were not deleted."""
    known = {(model.id, str(location(model.uri))): model for model in models}
    return [known[key] for each in wanted if (key := (each.artifact, each.uri)) in known]


def _only(model: types.Artifact | None, input_dict: dict[str, list[types.Artifact]]) -> dict[str, list[types.Artifact]]:
    return {**{key: [] for key in input_dict}, "model": [model] if model else []}
