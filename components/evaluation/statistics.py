"""StatisticsGen for data in spans: the statistics of the spans that the live model's data lacks, or of all spans.

    shards of the examples ─┬► all                    the first model, data without spans, and data without new spans
                            └► s00011-…, s00012-…     new or changed since the live model was trained

TFX's own executor takes one file pattern per split, and a set of spans has none: so this one calls TFDV itself.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx import types
from tfx.components.util import examples_utils, tfxio_utils
from tfx.dsl.components.base import base_beam_executor, base_component, executor_spec
from tfx.types import artifact_utils, standard_artifacts, standard_component_specs
from tfx.types.component_spec import ExecutionParameter
from tfx.utils import io_utils, json_utils

from components import beam_workers
from components.errors import GateStopped
from components.evaluation import few_statistics
from components.records import manifest, spans
from components.records.manifest import Shard
from components.records.schema import CATEGORY
from components.storage import durable
from components.storage.location import Location, location

LIVE = "live"  # parameter of the node: the live model's examples; empty: there are none
SPANS = "spans"  # property of its artifact: the spans that it is of; empty: all of them
_FILE = "FeatureStats.pb"


class _SpanStatisticsSpec(standard_component_specs.StatisticsGenSpec):
    """TFX's spec, and what the live model was trained on."""

    PARAMETERS = {  # noqa: RUF012 - TFX's way
        **standard_component_specs.StatisticsGenSpec.PARAMETERS,
        LIVE: ExecutionParameter(type=str),
    }


class SpanStatisticsExecutor(base_beam_executor.BaseBeamExecutor):
    """TFDV's statistics of all shards, or of those of the new spans."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Computes the statistics, and notes on them which spans they are of."""
        self._log_startup(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        made = artifact_utils.get_single_instance(output_dict["statistics"])
        new = new_spans(location(examples.uri), exec_properties[LIVE])
        made.set_string_custom_property(SPANS, ",".join(new))
        read = _of_spans(examples, new) if new else _of_all(examples)
        made.split_names = artifact_utils.encode_split_names(list(read))
        schema = _read_schema(input_dict.get("schema"))
        shards = _shards(location(examples.uri), list(read), new)
        pipeline = self._make_beam_pipeline()
        few = _of_few(location(examples.uri), shards, schema) if beam_workers.runs_here(pipeline) else {}
        for split, found in few.items():
            target = location(artifact_utils.get_split_uri([made], split)) / _FILE
            durable.write_bytes(target, found.SerializeToString(deterministic=True))
        if few:
            return
        with pipeline:
            for split, artifacts in read.items():
                source = tfxio_utils.get_split_tfxio(artifacts, split, ["StatisticsGen"])
                file = os.path.join(artifact_utils.get_split_uri([made], split), _FILE)  # noqa: PTH118 - perhaps a URL
                _ = (
                    pipeline
                    | f"Read[{split}]" >> source.BeamSource()
                    | f"Statistics[{split}]" >> tfdv.GenerateStatistics(tfdv.StatsOptions(schema=schema))
                    | f"Write[{split}]" >> tfdv.WriteStatisticsToBinaryFile(file)
                )


class SpanStatisticsGen(base_component.BaseComponent):
    """The node StatisticsGen; `live` is set by the plan of each run."""

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
                live="",
            )
        )


def new_spans(examples: Location | Path, live: str) -> tuple[str, ...]:
    """Returns the spans whose statistics are computed; none if all records are read."""
    return spans.unseen(examples, location(live)) if live else ()


def split_patterns(shards: Iterable[Shard], new: Sequence[str]) -> dict[str, list[str]]:
    """Returns a pattern per span for each split that has records of these spans."""
    filled = {(shard.split, manifest.span_of(shard.name), shard.name.rpartition("/")[0])
              for shard in shards if shard.records}  # fmt: skip
    found: dict[str, list[str]] = {}
    for split, span, folder in sorted(filled):
        if span in new:
            found.setdefault(split, []).append(f"{folder}/*-{span}-*")
    return found


def categorical(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    """Returns the schema with whole numbers that are categories marked: TFDV then counts their values."""
    changed = schema_pb2.Schema()
    changed.CopyFrom(schema)
    for feature in changed.feature:
        if feature.type == schema_pb2.INT and CATEGORY in feature.annotation.tag:
            feature.int_domain.is_categorical = True
    return changed


def _shards(examples: Location, splits: Iterable[str], new: Sequence[str]) -> dict[str, list[Shard]]:
    """Returns the shards that are read of each split."""
    shards = manifest.read(examples).shards
    return {
        split: [each for each in shards if each.split == split and (not new or manifest.span_of(each.name) in new)]
        for split in splits
    }


def _of_few(
    examples: Location, shards: Mapping[str, list[Shard]], schema: schema_pb2.Schema | None
) -> dict[str, statistics_pb2.DatasetFeatureStatisticsList]:
    """Returns the statistics of splits that all have few records; none if Beam has to compute those of one."""
    if not all(map(few_statistics.are_few, shards.values())):
        return {}
    found = {}
    for split, each in shards.items():
        if (computed := few_statistics.statistics(examples, each, schema)) is None:
            return {}
        found[split] = computed
    return found


def _of_all(examples: types.Artifact) -> dict[str, list[types.Artifact]]:
    return {split: [examples] for split in artifact_utils.decode_split_names(examples.split_names)}


def _of_spans(examples: types.Artifact, new: Sequence[str]) -> dict[str, list[types.Artifact]]:
    """Returns the artifact for each span of a split, limited to its shards."""
    patterns = split_patterns(manifest.read(location(examples.uri)).shards, new)
    if not patterns:
        raise GateStopped(
            f"new {spans.named(new)}: no records, expected at least one; correct the data, or wait until it is there"
        )
    return {split: [_limited(examples, split, each) for each in found] for split, found in patterns.items()}


def _limited(examples: types.Artifact, split: str, pattern: str) -> types.Artifact:
    limited = deepcopy(examples)
    limited.set_string_custom_property(*examples_utils.get_custom_split_patterns_key_and_property({split: pattern}))
    return limited


def _read_schema(found: list[types.Artifact] | None) -> schema_pb2.Schema | None:
    if not found:
        return None
    return categorical(io_utils.SchemaReader().read(io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(found))))
