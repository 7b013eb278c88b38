"""Entry point of Transform: fits the label and the Task's parts. It never reads images.

columns of the train split ─► label, parts ─► one graph      (components/fitting/, one file per modality)
"""

from typing import Any

from components import refs
from components.fitting import label
from components.records.roles import Column
from components.settings.transform import Fit


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Returns the transformed columns; TFX calls it while it traces the graph."""
    settings = Fit.model_validate(custom_config["settings"])
    key = custom_config["label"]
    outputs = label.fit(inputs[key], key, custom_config["kind"])
    for fit, columns in custom_config["parts"]:
        outputs |= refs.load(fit)(inputs, [Column.from_dict(each) for each in columns], settings)
    return outputs
