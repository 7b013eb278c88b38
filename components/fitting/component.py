"""The node Transform: our exact analysis of the train split, then the graph, with the results in it.

    examples ─► analysis, span by span ─► results ─► preprocessing_fn ─► transform_graph

An analyzer of TensorFlow Transform in a fit function of a user's own Task is still run by TFX's executor, on Beam.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import types
from tfx.components import Transform
from tfx.components.transform import executor
from tfx.dsl.components.base import executor_spec
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import io_utils

from components import progress
from components.fitting import preprocessing
from components.fitting.analysis import run, trace, transform_graph
from components.fitting.analysis.kept import Kept
from components.fitting.analysis.run import AnalysisJob
from components.fitting.analysis.shards import ShardAnalyzer
from components.storage import durable
from components.storage.hashing import digest_of
from components.storage.location import location

KEPT, FINGERPRINT = "kept", "kept_fingerprint"  # in custom_config: folder and fingerprint of what is kept per span
SPANS_ANALYZED, SPANS_REUSED, SPANS_REJECTED = "spans_analyzed", "spans_reused", "spans_rejected"
_WORK = ".analysis"  # folder in the output while the node works
_NOT_COUNTED = (KEPT, FINGERPRINT, preprocessing.RESULTS)  # values of custom_config that no count depends on


class SpanTransformExecutor(executor.Executor):
    """Analyzes the spans that were not analyzed before, then writes the graph."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the Transform graph; the number of spans that were read and reused are its properties."""
        examples, schema = (artifact_utils.get_single_instance(input_dict[key]) for key in ("examples", "schema"))
        graph = artifact_utils.get_single_instance(output_dict[standard_component_specs.TRANSFORM_GRAPH_KEY])
        config = orjson.loads(exec_properties[standard_component_specs.CUSTOM_CONFIG_KEY])
        work = location(graph.uri) / _WORK
        fit = partial(preprocessing.fit_all, custom_config=config)
        job = AnalysisJob(location(examples.uri), work, _schema_text(schema.uri), fit)
        analyzer = ShardAnalyzer(job.schema, fit)
        store = _kept(config, job.schema)
        found = run.run(job, analyzer, store, self._make_beam_pipeline)
        for span, reason in found.rejected.items():
            progress.warn(f"Transform: what was kept of span {span} {reason}; the span was analyzed again")
        trace.write(work, analyzer.analyses, found.total)
        with_results = {**config, preprocessing.RESULTS: str(work)}
        if analyzer.uses_tft:
            custom = {standard_component_specs.CUSTOM_CONFIG_KEY: json.dumps(with_results)}
            super().Do(input_dict, output_dict, {**exec_properties, **custom})
        else:
            apply = partial(preprocessing.preprocessing_fn, custom_config=with_results)
            transform_graph.write(job.schema, apply, graph.uri)
        durable.remove(work)
        if store is not None:
            store.collect(found.spans)
        if any(span.key for span in found.spans):
            graph.set_int_custom_property(SPANS_ANALYZED, len(found.new))
            graph.set_int_custom_property(SPANS_REUSED, len(found.spans) - len(found.new))
            graph.set_string_custom_property(SPANS_REJECTED, ", ".join(found.rejected))


class SpanTransform(Transform):
    """TFX's Transform with our executor; inputs, outputs and parameters are the same."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(SpanTransformExecutor)


def _schema_text(uri: str) -> str:
    schema: schema_pb2.Schema = io_utils.SchemaReader().read(io_utils.get_only_uri_in_dir(uri))
    return text_format.MessageToString(schema)


def _kept(config: Mapping[str, Any], schema: str) -> Kept | None:
    """Returns what is kept per span; None if the run keeps nothing."""
    if KEPT not in config:
        return None
    counted = {name: value for name, value in config.items() if name not in _NOT_COUNTED}
    settings = orjson.dumps(counted, option=orjson.OPT_SORT_KEYS).decode()
    return Kept(Path(config[KEPT]), digest_of([config[FINGERPRINT], settings, schema]))
