"""The ExampleGen of Penstock: a TFX component around the survey, the work units and the manifest."""

from contextlib import closing
from pathlib import Path
from typing import Any

from google.protobuf import any_pb2, json_format, wrappers_pb2
from tfx import types
from tfx.components.example_gen import component as example_gen
from tfx.components.example_gen import driver as example_gen_driver
from tfx.components.example_gen import input_processor
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_component_specs

from components.errors import BadInput
from components.ingest import run
from components.ingest.config import IngestConfig
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.ingest.units import Output
from components.storage.hashing import HashCache
from components.storage.location import location

FINGERPRINT = "input_fingerprint"


class SurveyDriver(example_gen_driver.FileBasedDriver):
    """Resolves spans, and identifies the input by its content instead of by size and time in whole seconds."""

    def resolve_exec_properties(
        self, exec_properties: dict[str, Any], pipeline_info: Any, component_info: Any
    ) -> dict[str, Any]:
        """Keeps the configuration for the input processor, which does not get it from TFX."""
        self._config = config_of(exec_properties)
        resolved: dict[str, Any] = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        return resolved

    def get_input_processor(self, splits: Any, range_config: Any = None, input_base_uri: Any = None) -> Any:
        """Returns TFX's processor with the spans and the digest of our survey."""
        return _SurveyProcessor(input_base_uri, splits, range_config, self._config)


class _SurveyProcessor(input_processor.FileBasedInputProcessor):
    def __init__(self, input_base_uri: str, splits: Any, range_config: Any, config: IngestConfig) -> None:
        super().__init__(input_base_uri, splits, range_config)
        self._found = _survey(input_base_uri, config)

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        newest = self._found.spans[-1].span
        return newest.number or 0, newest.version

    def get_input_fingerprint(self, span: int | None = None, version: int | None = None) -> str:
        del span, version  # the digest covers all spans that will be read
        return self._found.digest


class IngestExecutor(base_beam_executor.BaseBeamExecutor):
    """Writes the shards and their manifest."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Ingests the data folder into the examples artifact."""
        self._log_startup(input_dict, output_dict, exec_properties)
        config = config_of(exec_properties)
        data = exec_properties[standard_component_specs.INPUT_BASE_KEY]
        examples = artifact_utils.get_single_instance(output_dict[standard_component_specs.EXAMPLES_KEY])
        found = _survey(data, config)
        if found.digest != exec_properties[FINGERPRINT]:
            raise BadInput(f"{data}: changed while the run started; run again when nothing writes to it")
        artifact = location(examples.uri)
        output = Output(artifact, config.settings, Path(config.checks))
        # The artifacts of earlier runs are in the folder above.
        job = run.IngestJob(found, output, Path(config.quarantine_list), earlier=artifact.parent)
        run.run(job, self._make_beam_pipeline, lambda: _survey(data, config))
        cached.forget()  # no later node needs it
        examples.split_names = artifact_utils.encode_split_names([n for n, _ in config.settings.splits.fractions()])
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)


class IngestExamples(example_gen.FileBasedExampleGen):
    """Raw files to sharded TFRecords.

    Component `outputs` contains:
     - `examples`: Examples with splits train, eval and test, their manifest and the quarantine list.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(IngestExecutor)
    DRIVER_CLASS = SurveyDriver

    def __init__(self, data: str, config: IngestConfig) -> None:
        """Sets up the component.

        Args:
            data: path, pattern or address of the raw data.
            config: what is expected of the data, and the settings of the ingest.
        """
        packed = any_pb2.Any()
        packed.Pack(wrappers_pb2.StringValue(value=config.model_dump_json()))
        super().__init__(
            input_base=data,
            input_config=example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern="*")]),
            output_config=_output_config(config),
            custom_config=example_gen_pb2.CustomConfig(custom_config=packed),
        )
        self.with_id("Ingest")


def config_of(exec_properties: dict[str, Any]) -> IngestConfig:
    """Returns the configuration that `IngestExamples` packed."""
    custom = json_format.Parse(exec_properties["custom_config"], example_gen_pb2.CustomConfig())
    text = wrappers_pb2.StringValue()
    custom.custom_config.Unpack(text)
    return IngestConfig.model_validate_json(text.value)


def survey_digest(exec_properties: dict[str, Any]) -> str:
    """Returns the digest of the survey that the driver would add to the execution's properties."""
    return _survey(exec_properties[standard_component_specs.INPUT_BASE_KEY], config_of(exec_properties)).digest


def _output_config(config: IngestConfig) -> example_gen_pb2.Output:
    # Only recorded in the metadata: the split is decided by our own content hash.
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=max(1, round(fraction * 1000)))
        for name, fraction in config.settings.splits.fractions()
    ]
    return example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits))


def _survey(data: str, config: IngestConfig) -> Survey:
    """Returns the survey that the planner took, unless the data has changed since."""
    with closing(HashCache(Path(config.hash_cache))) as cache:
        return cached.take(data, config.settings, cache, config.needs)
