"""RunConfig → TFX's intermediate representation."""

from tfx.dsl.compiler import compiler
from tfx.proto.orchestration import pipeline_pb2

from pipelines.config import RunConfig
from pipelines.orchestration.build import build


def compile_pipeline(config: RunConfig, schema: bytes) -> pipeline_pb2.Pipeline:
    """Builds and compiles the pipeline."""
    return compiler.Compiler().compile(build(config, schema))
