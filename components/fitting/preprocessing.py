"""Entry point of Transform: fits the label and the Task's parts. It never reads images.

columns of the train split ─► label, parts ─► one graph      (components/fitting/, one file per modality)

The executor calls `fit_all` to find what must be analyzed; TFX then calls `preprocessing_fn`, which has the results.
"""

from collections.abc import Mapping
from typing import Any

from components import refs
from components.fitting import label
from components.fitting.analysis import trace
from components.records.roles import Column
from components.settings.transform import Fit
from components.storage.location import location

RESULTS = "results"  # where `trace.write` wrote the results of all analyses, in custom_config


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Returns the transformed columns; TFX calls it while it traces the graph."""
    with trace.applying(location(custom_config[RESULTS])):
        return fit_all(inputs, custom_config)


def fit_all(inputs: Mapping[str, Any], custom_config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the transformed columns of the label and of all parts."""
    settings = Fit.model_validate(custom_config["settings"])
    key = custom_config["label"]
    outputs = label.fit(inputs[key], key, custom_config["kind"])
    for fit, columns in custom_config["parts"]:
        outputs |= refs.load(fit)(inputs, [Column.from_dict(each) for each in columns], settings)
    return outputs
