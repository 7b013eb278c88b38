"""RunConfig → TFX pipeline: the only file that wires nodes. `graph.py` lists the same nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import types
from tfx.components import Evaluator, ExampleValidator
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.compiler import compiler
from tfx.dsl.components.common import resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2
from tfx.proto.orchestration import pipeline_pb2
from tfx.types import standard_artifacts

from components.errors import SettingsError
from components.evaluation import gate, thresholds
from components.evaluation.image_sample import measure_names
from components.evaluation.statistics import SpanStatisticsGen
from components.fitting.component import SpanTransform
from components.ingest.component import IngestExamples
from components.ingest.config import IngestConfig
from components.pretrained import component
from components.pretrained.find import find_model
from components.records import roles
from components.serving.baseline import LiveOfOtherData, LiveOther
from components.serving.pusher import Pusher
from components.settings import names
from components.storage.hashing import HashCache
from components.tasks import assign
from components.training.base import base_model
from components.training.component import BaseModel, Trainer
from pipelines.config import RunConfig, metadata_server
from pipelines.config.metadata_server import Server

_TEXT_LIMITS = ("input.max_tokens", "input.truncate")


@dataclass(frozen=True)
class _Examples:
    """The records that later nodes read, and the pretrained model, if there is one."""

    channel: Any
    nodes: tuple[Any, ...]
    model: Any = None
    extract: dict[str, Any] = field(default_factory=dict)  # what the Trainer needs to know about the model


@dataclass(frozen=True)
class _Checks:
    """The nodes between Ingest and Transform."""

    schema: Any
    gate: Any
    nodes: tuple[Any, ...]


def compiled(config: RunConfig, schema_in_force: bytes, schema_file: Path) -> pipeline_pb2.Pipeline:
    """Returns the pipeline in TFX's intermediate representation."""
    return compiler.Compiler().compile(build(config, schema_in_force, schema_file))


def build(config: RunConfig, schema_in_force: bytes, schema_file: Path) -> Pipeline:
    """Returns the TFX pipeline of one task, for records as the schema describes them; messages name its file."""
    schema = text_format.Parse(schema_in_force, schema_pb2.Schema())
    layout = roles.read(schema, config.task.label)
    check_columns(config.settings.gate.max_drift_of, layout)
    examples = _examples(config, schema)
    checks = _checks(config, layout, examples, schema_file, roles.embedded_image(schema))
    training = _training(config, layout, examples, checks)
    release = _release(config, layout, examples, training[-1])
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(config.root),
        components=[*examples.nodes, *checks.nodes, *training, *release],
        metadata_connection_config=metadata_server.connection(_without_password(config.metadata)),
        # plan.py decides which nodes are due; TFX's own cache would return outdated results.
        enable_cache=False,
    )


def _without_password(database: Path | Server) -> Path | Server:
    """Returns the database as the compiled pipeline names it, which the `tfx` CLI stores: the runner has the rest."""
    return replace(database, password="") if isinstance(database, Server) else database


def _examples(config: RunConfig, schema: schema_pb2.Schema) -> _Examples:
    ingest = IngestExamples(
        data=config.data,
        config=IngestConfig(
            needs=config.needs,
            settings=config.settings.ingest,
            hash_cache=str(config.hash_cache),
            checks=str(config.image_checks),
            quarantine_list=str(config.quarantine_list),
        ),
    )
    examples = _Examples(ingest.outputs["examples"], (ingest,))
    return _with_pretrained(config, schema, examples) if config.settings.extract.model else examples


def _with_pretrained(config: RunConfig, schema: schema_pb2.Schema, examples: _Examples) -> _Examples:
    settings, image = config.settings.extract, roles.embedded_image(schema)
    source = find_model(settings, HashCache(config.hash_cache, read_only=True))
    node = component.Extractor(path=source.path, digest=source.digest, trusted=source.trusted)
    model, nodes = node.outputs["model"], (*examples.nodes, node)
    facts = {"where": settings.where, "image": image, "digest": source.digest, "trusted": source.trusted}
    if settings.where != "beam":
        return _Examples(examples.channel, nodes, model, facts)
    extract = component.ExtractEmbeddings(examples.channel, model, image, settings.batch_size, trusted=source.trusted)
    return _Examples(extract.outputs["extracted"], (*nodes, extract), model, facts)


def check_columns(thresholds_of: Iterable[str], layout: roles.Layout) -> None:
    """Raises SettingsError if a column with its own drift threshold is not in the data."""
    plain = (column.name for column in layout.columns if column.role not in ("unused", "image"))
    known = {layout.label, *plain}
    known.update(name for column in layout.of(["image"]) for name in measure_names(column.name))
    for name in thresholds_of:
        if name not in known:
            raise SettingsError(f"gate.max_drift_of.{name}: no such column; {names.nearest(name, known)}")


def _checks(config: RunConfig, layout: roles.Layout, examples: _Examples, schema_file: Path, embedded: str) -> _Checks:
    schema = ImportSchemaGen(schema_file=str(config.schema_input)).with_id("Schema")
    statistics = SpanStatisticsGen(examples.channel, schema.outputs["schema"]).with_id("StatisticsGen")
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    passed = gate.Gate(
        examples=examples.channel,
        statistics=statistics.outputs["statistics"],
        anomalies=validator.outputs["anomalies"],
        settings=config.settings.gate.model_dump_json(),
        columns=orjson.dumps([column.to_dict() for column in layout.columns]).decode(),
        embedded=embedded,
        schema_file=str(schema_file),
        live="",
    )
    return _Checks(schema.outputs["schema"], passed, (schema, statistics, validator, passed))


def _training(config: RunConfig, layout: roles.Layout, examples: _Examples, checks: _Checks) -> tuple[Any, ...]:
    """Returns the nodes that lead to a trained model; the Trainer is the last one."""
    task, settings = config.task, config.settings
    assigned = assign.assign(task.parts, layout)
    common = {"label": task.label, "kind": layout.kind}
    fit_settings: dict[str, Any] = {**settings.section("transform"), **settings.select(_TEXT_LIMITS)["input"]}
    transform = SpanTransform(
        examples=examples.channel,
        schema=checks.schema,
        preprocessing_fn="components.fitting.preprocessing.preprocessing_fn",
        custom_config={
            **common,
            "parts": [[each.part.fit, [c.to_dict() for c in each.columns]] for each in assigned if each.part.fit],
            "settings": fit_settings,
        },
        materialize=False,  # the Trainer reads Ingest's shards, so no copy is needed
        disable_statistics=True,
        disable_analyzer_cache=True,  # our executor keeps what was counted in each span
    ).with_id("Transform")
    base = _base(config, examples)
    trainer = Trainer(
        examples=examples.channel,
        transform_graph=transform.outputs["transform_graph"],
        base_model=base[0].outputs["model"] if base else None,
        pretrained_model=examples.model,
        custom_config={
            **common,
            "parts": [each.to_dict() for each in assigned],
            "model": task.model,
            "extract": examples.extract,
            "ingest": settings.section("ingest"),  # exported with the model: batch inference reads raw data by it
            **{name: settings.section(name) for name in ("transform", "input", "train")},
        },
    )
    for node in (transform, trainer):
        node.add_upstream_node(checks.gate)
    return (*base, transform, trainer)


def _base(config: RunConfig, examples: _Examples) -> tuple[Any, ...]:
    """Returns the node that provides the base model of a warm start, if there is one."""
    warm_start = config.settings.train.warm_start
    if warm_start == "none":
        return ()
    if warm_start != "live":
        found = base_model.find(warm_start, HashCache(config.hash_cache, read_only=True))
        return (BaseModel(path=found.path, digest=found.digest).with_id("Base"),)
    node = resolver.Resolver(
        strategy_class=LiveOfOtherData,
        config={"root": str(config.root)},
        model=types.Channel(type=standard_artifacts.Model),
        examples=examples.channel,
    )
    return (node.with_id("Base"),)


def _release(config: RunConfig, layout: roles.Layout, examples: _Examples, trainer: Any) -> tuple[Any, ...]:
    """Returns the nodes that compare the trained model with thresholds and baseline, and push it."""
    model = trainer.outputs["model"]
    baseline = resolver.Resolver(
        strategy_class=LiveOther,
        config={"root": str(config.root)},
        model=types.Channel(type=standard_artifacts.Model),
        candidate=model,
    ).with_id("Baseline")
    evaluator = Evaluator(
        examples=examples.channel,
        model=model,
        baseline_model=baseline.outputs["model"],
        eval_config=thresholds.eval_config(layout, config.settings.evaluate),
        example_splits=[thresholds.SPLIT],
        module_path=thresholds.EXTRACTORS,
    )
    pusher = Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=str(config.serving))
        ),
        # Written into the pushed folder, so that another pipeline can find out what it builds on.
        custom_config={"pipeline": config.name, "metadata": str(config.metadata), "root": str(config.root)},
    )
    return baseline, evaluator, pusher
