"""RunConfig → TFX pipeline: the only file that wires nodes. `graph.py` lists the same nodes."""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import types
from tfx.components import Evaluator, ExampleValidator, StatisticsGen, Trainer, Transform
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.common import resolver
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2
from tfx.types import standard_artifacts

from components.evaluation import gate, thresholds
from components.ingest.component import Ingest
from components.ingest.config import IngestConfig
from components.pretrained import component, extractor
from components.records import roles
from components.serving.pusher import Pusher
from components.storage.hashing import HashCache
from components.tasks import assign
from pipelines.config import RunConfig


def build(config: RunConfig, schema_in_force: bytes) -> Pipeline:
    """Returns the whole chain for one task, on records as the schema describes them."""
    task, settings = config.task, config.settings
    told = text_format.Parse(schema_in_force, schema_pb2.Schema())
    layout = roles.read(told, task.label)
    assigned = assign.assign(task.parts, layout)
    ingest = Ingest(
        data=config.data,
        config=IngestConfig(
            needs=config.needs,
            settings=settings.ingest,
            hash_cache=str(config.hash_cache),
            checks=str(config.image_checks),
            quarantine_list=str(config.quarantine_list),
        ),
    )
    before = [ingest]
    examples, network, look = ingest.outputs["examples"], None, {}
    if settings.extract.model:
        source = extractor.find(settings.extract, HashCache(config.hash_cache, read_only=True))
        taken = component.Extractor(path=source.path, digest=source.digest)
        network = taken.outputs["model"]
        look = {"where": settings.extract.where, "image": roles.embedded_image(told), "digest": source.digest}
        before = [taken, ingest]
        if settings.extract.where == "beam":
            looks = component.Extract(examples, network, roles.embedded_image(told), settings.extract.batch_size)
            examples, before = looks.outputs["extracted"], [ingest, taken, looks]
    schema = ImportSchemaGen(schema_file=str(config.schema_in_force)).with_id("Schema")
    statistics = StatisticsGen(examples=examples, schema=schema.outputs["schema"])
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    passed = gate.Gate(
        examples=examples, anomalies=validator.outputs["anomalies"], min_per_class=settings.gate.min_per_class
    )
    transform = Transform(
        examples=examples,
        schema=schema.outputs["schema"],
        preprocessing_fn="components.fitting.preprocessing.preprocessing_fn",
        custom_config={
            "label": task.label,
            "kind": layout.kind,
            "parts": [[each.part.fit, [c.to_dict() for c in each.columns]] for each in assigned if each.part.fit],
            "settings": settings.section("transform"),
        },
        materialize=False,  # the trainer reads the shards of ingest: nothing is copied
        disable_statistics=True,
        disable_analyzer_cache=True,
    )
    trainer = Trainer(
        run_fn="components.training.trainer.run_fn",
        examples=examples,
        transform_graph=transform.outputs["transform_graph"],
        base_model=network,
        custom_config={
            "parts": [each.to_dict() for each in assigned],
            "label": task.label,
            "kind": layout.kind,
            "model": task.model,
            "transform": settings.section("transform"),
            "extract": look,
            "input": settings.section("input"),
            "train": settings.section("train"),
        },
    )
    for node in (transform, trainer):
        node.add_upstream_node(passed)
    baseline = resolver.Resolver(
        strategy_class=thresholds.LatestBlessedOther,
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=types.Channel(type=standard_artifacts.ModelBlessing),
        candidate=trainer.outputs["model"],
    ).with_id("Baseline")
    evaluator = Evaluator(
        examples=examples,
        model=trainer.outputs["model"],
        baseline_model=baseline.outputs["model"],
        eval_config=thresholds.eval_config(layout, settings.evaluate),
        example_splits=[thresholds.SPLIT],
    )
    pusher = Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=str(config.serving))
        ),
        # Goes into the pushed folder, so that another pipeline can tell what it builds on.
        custom_config={"pipeline": config.name, "metadata": str(config.metadata)},
    )
    data = [*before, schema, statistics, validator, passed]
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(config.root),
        components=[*data, transform, trainer, baseline, evaluator, pusher],
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(config.metadata)),
        # What is due is decided by pipelines/orchestration/plan.py; TFX's own cache would serve stale results.
        enable_cache=False,
        beam_pipeline_args=list(config.beam_args),
    )
