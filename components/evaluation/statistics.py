"""StatisticsGen for data in spans: the statistics of the newest span, or of all spans.

    shards of the examples ─┬► all               the first model, and data without spans
                            └► s00012-… alone    there is a model whose data had its statistics: only the newest is new

TFX's own executor computes them: a split pattern on the Examples artifact limits what it reads.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from tfx import types
from tfx.components.statistics_gen.executor import Executor
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import artifact_utils, standard_artifacts, standard_component_specs
from tfx.types.component_spec import ExecutionParameter
from tfx.utils import json_utils

from components.records import manifest
from components.records.manifest import Shard
from components.storage.location import location

SPAN = "span"  # parameter of the node, and property of its artifact: prefix of the shards; empty: all of them


class _SpanStatisticsSpec(standard_component_specs.StatisticsGenSpec):
    """TFX's spec, and which span is read."""

    PARAMETERS = {  # noqa: RUF012 - TFX's way
        **standard_component_specs.StatisticsGenSpec.PARAMETERS,
        SPAN: ExecutionParameter(type=str),
    }


class SpanStatisticsExecutor(Executor):
    """TFX's executor of StatisticsGen, on the shards of one span."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Computes the statistics, and notes on them which span they are of."""
        span = exec_properties[SPAN]
        artifact_utils.get_single_instance(output_dict["statistics"]).set_string_custom_property(SPAN, span)
        if span:
            examples = deepcopy(artifact_utils.get_single_instance(input_dict["examples"]))
            patterns = split_patterns(manifest.read(location(examples.uri)).shards, span)
            examples.set_string_custom_property(*examples_utils.get_custom_split_patterns_key_and_property(patterns))
            input_dict = {**input_dict, "examples": [examples]}
        super().Do(input_dict, output_dict, exec_properties)


class SpanStatisticsGen(base_component.BaseComponent):
    """The node StatisticsGen; `span` is set by the plan of each run."""

    SPEC_CLASS = _SpanStatisticsSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(SpanStatisticsExecutor)

    def __init__(self, examples: types.BaseChannel, schema: types.BaseChannel) -> None:
        """Computes statistics of the examples by the schema."""
        super().__init__(
            spec=_SpanStatisticsSpec(
                examples=examples,
                schema=schema,
                exclude_splits=json_utils.dumps([]),
                statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
                span="",
            )
        )


def split_patterns(shards: Iterable[Shard], span: str) -> Mapping[str, str]:
    """Returns a pattern of the shards of a span for each split that has some."""
    found = {shard.split: shard.name for shard in shards if manifest.span_of(shard.name) == span}
    return {split: f"{name.rpartition('/')[0]}/*-{span}-*" for split, name in sorted(found.items())}
