"""The nodes of training: TFX's Trainer with a second model as input, and Base, which copies a model to start from.

base_model        the weights that training starts from (warm start)
pretrained_model  a part of the trained model, or of what is served with it (`extract.model`)
"""

from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.trainer.executor import GenericExecutor
from tfx.components.trainer.fn_args_utils import FnArgs
from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base import base_component, executor_spec
from tfx.proto import trainer_pb2
from tfx.types import artifact_utils, standard_artifacts, standard_component_specs
from tfx.types.component_spec import ChannelParameter
from tfx.utils import json_utils

from components.pretrained.artifacts import DATA_DIGEST, RUN, SERVING, SPANS, TRAINED_ON
from components.records import spans
from components.storage import paths
from components.storage.location import Location, location
from components.training.base import base_model as base_models

_PRETRAINED = "pretrained_model"


@component
def BaseModel(  # noqa: N802 - TFX's way
    path: Parameter[str],
    digest: Parameter[str],
    model: OutputArtifact[standard_artifacts.Model],
) -> None:
    """Copies the weights of the model that `train.warm_start` names into the pipeline."""
    base_models.copy(base_models.FoundModel(path, digest), Path(model.uri) / SERVING)
    model.set_string_custom_property("source", path)
    model.set_string_custom_property("sha256", digest)


def spans_of(examples: Location) -> list[str]:
    """Returns the names of the spans of an Examples artifact; none for data without spans."""
    return sorted(name.removesuffix(".json") for name in paths.files_below(examples / spans.FOLDER))


class _TrainerSpec(standard_component_specs.TrainerSpec):
    INPUTS = {  # noqa: RUF012 - TFX's way
        **standard_component_specs.TrainerSpec.INPUTS,
        _PRETRAINED: ChannelParameter(type=standard_artifacts.Model, optional=True),
    }


class TrainerExecutor(GenericExecutor):
    """TFX's executor of run_fn; passes the pretrained model, and notes on the model which data it was trained on."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Trains and exports the model."""
        super().Do(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        model = artifact_utils.get_single_instance(output_dict["model"])
        model.set_string_custom_property(TRAINED_ON, examples.get_string_custom_property(DATA_DIGEST))
        model.set_string_custom_property(SPANS, ",".join(spans_of(location(examples.uri))))
        model.set_string_custom_property(RUN, self._context.pipeline_run_id or "")

    def _GetFnArgs(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> FnArgs:
        args = super()._GetFnArgs(input_dict, output_dict, exec_properties)
        if found := input_dict.get(_PRETRAINED):
            args.custom_config[_PRETRAINED] = str(Path(artifact_utils.get_single_uri(found)) / SERVING)
        return args


class Trainer(base_component.BaseComponent):
    """The node Trainer.

    Component `outputs` contains:
     - `model`: the exported model.
     - `model_run`: TensorBoard logs and history.json.
    """

    SPEC_CLASS = _TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(TrainerExecutor)

    def __init__(
        self,
        examples: types.BaseChannel,
        transform_graph: types.BaseChannel,
        custom_config: dict[str, Any],
        base_model: types.BaseChannel | None = None,
        pretrained_model: types.BaseChannel | None = None,
    ) -> None:
        """Trains on the examples as the fitted graph transforms them; `custom_config` reaches run_fn."""
        super().__init__(
            spec=_TrainerSpec(
                examples=examples,
                transform_graph=transform_graph,
                base_model=base_model,
                pretrained_model=pretrained_model,
                run_fn="components.training.trainer.run_fn",
                train_args=trainer_pb2.TrainArgs(),
                eval_args=trainer_pb2.EvalArgs(),
                custom_config=json_utils.dumps(custom_config),
                model=types.Channel(type=standard_artifacts.Model),
                model_run=types.Channel(type=standard_artifacts.ModelRun),
            )
        )
