"""Transform's entry point: the label, and what the Task's parts fit. Images are never read here.

columns of the train split ─► label, parts ─► one graph      (components/fitting/, one modality a file)
"""

from typing import Any

from components import refs
from components.fitting import label
from components.records.roles import Column
from components.settings.transform import Transform


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Entry point of the Transform component."""
    settings = Transform.model_validate(custom_config["settings"])
    key = custom_config["label"]
    outputs = label.fit(inputs[key], key, custom_config["kind"])
    for fit, columns in custom_config["parts"]:
        outputs |= refs.load(fit)(inputs, [Column.from_dict(each) for each in columns], settings)
    return outputs
