"""The ExampleGen of Penstock: a TFX component around survey, units of work and their writers."""

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
from components.ingest.survey import survey
from components.ingest.survey.survey import Survey
from components.ingest.work.units import Output
from components.storage.hashing import HashCache

FINGERPRINT = "input_fingerprint"


class ManifestDriver(example_gen_driver.FileBasedDriver):
    """Resolves spans, and fingerprints the input by content instead of by size and whole seconds."""

    def resolve_exec_properties(
        self, exec_properties: dict[str, Any], pipeline_info: Any, component_info: Any
    ) -> dict[str, Any]:
        """Keeps the configuration for the input processor, which TFX does not hand it."""
        self._config = config_of(exec_properties)
        resolved: dict[str, Any] = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        return resolved

    def get_input_processor(self, splits: Any, range_config: Any = None, input_base_uri: Any = None) -> Any:
        """Returns TFX's processor with our fingerprint."""
        return _ManifestProcessor(input_base_uri, splits, range_config, self._config)


class _ManifestProcessor(input_processor.FileBasedInputProcessor):
    def __init__(self, input_base_uri: str, splits: Any, range_config: Any, config: IngestConfig) -> None:
        super().__init__(input_base_uri, splits, range_config)
        self._found = _look(input_base_uri, config)

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        newest = self._found.parts[-1].span
        return newest.number or 0, newest.version

    def get_input_fingerprint(self, span: int | None = None, version: int | None = None) -> str:
        del span, version  # the digest is of all spans that will be read
        return self._found.digest


class IngestExecutor(base_beam_executor.BaseBeamExecutor):
    """Writes the shards and their account."""

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
        found = _look(data, config)
        if found.digest != exec_properties[FINGERPRINT]:
            raise BadInput(f"{data}: changed while the run started; run again when nothing writes to it")
        artifact = Path(examples.uri)
        # The folder beside it holds the outputs of earlier runs: what has not changed since is taken over from there.
        output = Output(artifact, config.settings, Path(config.checks))
        job = run.Job(found, output, Path(config.quarantine_list), earlier=artifact.parent)
        run.run(job, self._make_beam_pipeline, lambda: _look(data, config))
        examples.split_names = artifact_utils.encode_split_names([n for n, _ in config.settings.splits.fractions()])
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)


class Ingest(example_gen.FileBasedExampleGen):
    """Raw files to sharded TFRecords.

    Component `outputs` contains:
     - `examples`: Examples with splits train, eval and test, a content manifest and the quarantine list.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(IngestExecutor)
    DRIVER_CLASS = ManifestDriver

    def __init__(self, data: str, config: IngestConfig) -> None:
        """Reads `data` as `config` says."""
        packed = any_pb2.Any()
        packed.Pack(wrappers_pb2.StringValue(value=config.to_json()))
        super().__init__(
            input_base=data,
            input_config=example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern="*")]),
            output_config=_output_config(config),
            custom_config=example_gen_pb2.CustomConfig(custom_config=packed),
        )


def config_of(exec_properties: dict[str, Any]) -> IngestConfig:
    """Unpacks the configuration that `Ingest` packed."""
    custom = json_format.Parse(exec_properties["custom_config"], example_gen_pb2.CustomConfig())
    text = wrappers_pb2.StringValue()
    custom.custom_config.Unpack(text)
    return IngestConfig.from_json(text.value)


def _output_config(config: IngestConfig) -> example_gen_pb2.Output:
    # For the record in MLMD only: the split is ours, by content hash.
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=max(1, round(fraction * 1000)))
        for name, fraction in config.settings.splits.fractions()
    ]
    return example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits))


def _look(data: str, config: IngestConfig) -> Survey:
    cache = HashCache(Path(config.hash_cache))
    try:
        return survey.take(data, config.settings, cache, config.needs)
    finally:
        cache.close()
