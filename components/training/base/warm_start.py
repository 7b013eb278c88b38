"""Starts training from the weights of a base model, compared by name.

| rows or columns of a weight            | the base model has it under the same path | result               |
|----------------------------------------|-------------------------------------------|----------------------|
| have names: tokens, classes, columns … | with names, other dimensions equal        | mapped, name by name |
| have no names                          | without names, in the same shape          | copied               |
| any                                    | not, or otherwise                         | fresh                |

Frozen layers keep their weights: a pretrained model comes from `extract.model`. The optimizer starts fresh.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from components import progress
from components.errors import BadInput
from components.models.names import AxisNames
from components.training.base.exported_weights import ExportedWeights, digest_of_splits


def start(
    model: keras.Model, names: Mapping[str, AxisNames], base: Path, pretrained: str, splits: Mapping[str, Any]
) -> dict[str, Any]:
    """Assigns the weights of a base model, and returns which were copied, mapped (rows of all rows) and fresh.

    Warns if the base model may have been trained on records that are in the test split now.

    Args:
        model: a built model.
        names: of the rows or columns of its weights, by weight path.
        base: folder of the exported base model.
        pretrained: digest of the pretrained model that the model uses, or empty.
        splits: settings that decide the split of each record (`Manifest.splits`).
    """
    found = ExportedWeights(base)
    if found.pretrained != pretrained:
        raise BadInput(
            f"base model {base}: it was trained with another pretrained model (extract.model), so its weights have "
            "another meaning; set train.warm_start=none for this training"
        )
    weights = {weight.path: weight for layer in model.layers if layer.trainable for weight in layer.weights}
    copied, mapped = [], {}
    for path, weight in weights.items():
        if path in names and path in found.names:
            if count := _map(weight, names[path], found):
                mapped[path] = [count, len(names[path].names)]
        elif path not in {*names, *found.names} and found.shapes.get(path) == tuple(weight.shape):
            weight.assign(found.read(path, weight.dtype))
            copied.append(path)
    if not copied and not mapped:
        raise BadInput(
            f"base model {base}: none of its weights has the name and shape of a weight of this model "
            f"({', '.join(weights)}); choose another model for train.warm_start, or none"
        )
    done = {"copied": copied, "mapped": mapped, "fresh": [path for path in weights if path not in {*copied, *mapped}]}
    if warning := _overlap(found, splits):
        progress.warn(f"warm start: {warning}")
    return {**done, "warning": warning}


def _overlap(base: ExportedWeights, splits: Mapping[str, Any]) -> str:
    """Returns why the base model may have been trained on records of the present test split; empty if it was not."""
    if base.splits != digest_of_splits(splits):
        why = "its records were split by other settings (ingest.splits, ingest.split_by, ingest.unused)"
    elif splits.get("stratify"):
        why = "ingest.splits.stratify moves records between splits when there is new data"
    else:
        return ""
    return f"the base model may have been trained on records of the present test split, so metrics look too good: {why}"


def _map(weight: Any, new: AxisNames, base: ExportedWeights) -> int:
    """Assigns the rows (or columns) whose names the base model has, and returns their number."""
    old, shape = base.names[weight.path], base.shapes.get(weight.path, ())
    if old.axis != new.axis or len(shape) != len(weight.shape) or shape[old.axis] != len(old.names):
        return 0
    if _without(shape, new.axis) != _without(weight.shape, new.axis):
        return 0
    places = {name: place for place, name in enumerate(old.names)}
    pairs = [(place, places[name]) for place, name in enumerate(new.names) if name in places]
    values = np.moveaxis(np.array(weight), new.axis, 0)
    stored = np.moveaxis(base.read(weight.path, weight.dtype), new.axis, 0)
    values[[place for place, _ in pairs]] = stored[[place for _, place in pairs]]
    weight.assign(np.moveaxis(values, 0, new.axis))
    return len(pairs)


def _without(shape: Any, axis: int) -> list[int]:
    return [size for place, size in enumerate(shape) if place != axis]
