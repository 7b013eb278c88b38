"""Selects models of earlier runs: the baseline that a candidate is compared with, and the base of a warm start."""

from typing import Any

from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy

from components.pretrained.artifacts import DATA_DIGEST, TRAINED_ON, are_comparable
from components.storage.location import location


class LatestBlessedOther(ResolverStrategy):
    """Resolves the latest blessed model other than the candidate that can be compared with it.

    TFX's own strategy resolves the candidate itself as soon as it is blessed: the next run, with nothing changed,
    would compare the model with itself and so miss the cache.
    """

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns the baseline model, or none, under the input's keys."""
        del store
        candidates = {artifact.id for artifact in input_dict["candidate"]}
        blessed = _blessed_model_ids(artifact.mlmd_artifact for artifact in input_dict["model_blessing"])
        others = [
            other
            for other in input_dict["model"]
            if other.id in blessed - candidates
            and all(are_comparable(location(other.uri), location(each.uri)) for each in input_dict["candidate"])
        ]
        latest = max(others, key=lambda artifact: artifact.id, default=None)
        return {**{key: [] for key in input_dict}, "model": [latest] if latest else []}


class LatestBlessedOfOtherData(ResolverStrategy):
    """Resolves the latest blessed model that was not trained on the very data that training will read.

    A model that was trained on it is left out, so that its own blessing does not make its Trainer due again.
    """

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns the base model, or none, under the input's keys."""
        del store
        blessed = _blessed_model_ids(artifact.mlmd_artifact for artifact in input_dict["model_blessing"])
        data = {"", *(each.get_string_custom_property(DATA_DIGEST) for each in input_dict["examples"])}
        others = [
            model
            for model in input_dict["model"]
            if model.id in blessed and model.get_string_custom_property(TRAINED_ON) not in data
        ]
        latest = max(others, key=lambda artifact: artifact.id, default=None)
        return {**{key: [] for key in input_dict}, "model": [latest] if latest else []}


def _blessed_model_ids(blessings: Any) -> set[int]:
    """Returns the ids of the models that the given blessing artifacts bless."""
    return {
        blessing.custom_properties["current_model_id"].int_value
        for blessing in blessings
        if blessing.custom_properties["blessed"].int_value == 1
    }
