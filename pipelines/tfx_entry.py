"""Entry point of the runner files: lets the `tfx` CLI start the same run as `penstock run`.

    tfx pipeline create --engine local --pipeline_path pipelines/image.py
    tfx run create --engine local --pipeline_name image

Settings are read from penstock.toml; PENSTOCK_DATA, PENSTOCK_ROOT and PENSTOCK_STATE set another data folder, pipeline
root and state folder, PENSTOCK_METADATA another database of the metadata.
`tfx pipeline create` executes the runner file with `LocalDagRunner.run` replaced by a recorder; `tfx run create`
executes it as a script.
"""

import os
import sys
from pathlib import Path

# A script's own folder is first on the Python path; its file names must not hide other packages.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

from pipelines import log  # noqa: E402 - after the path is corrected

log.prepare_environment()

from tfx.orchestration.local import local_dag_runner  # noqa: E402
from tfx.proto.orchestration import pipeline_pb2  # noqa: E402

from components.errors import PenstockError  # noqa: E402
from components.ingest.survey import cached  # noqa: E402
from components.redact import redact  # noqa: E402
from components.storage import tensorflow_s3  # noqa: E402
from pipelines import config as run_config  # noqa: E402
from pipelines import run  # noqa: E402
from pipelines.notify import after_call  # noqa: E402
from pipelines.orchestration import schema  # noqa: E402
from pipelines.orchestration.build import build  # noqa: E402
from pipelines.orchestration.plan import Request  # noqa: E402
from pipelines.watch import metrics  # noqa: E402


class PenstockRunner(local_dag_runner.LocalDagRunner):
    """A LocalDagRunner, which the `tfx` CLI looks for, that starts a run of ours."""

    def __init__(self, config: run_config.RunConfig) -> None:
        """Takes the configuration of the run."""
        super().__init__()
        self._config = config
        self.exit_code = 0

    def run_with_ir(self, pipeline: pipeline_pb2.Pipeline, run_options: object = None, **_: object) -> None:
        """Runs the compiled pipeline."""
        del run_options
        self.exit_code = run.run(self._config, Request(), compiled=pipeline).exit_code


def main(task: str) -> None:
    """Runs the pipeline of a task; the settings file and environment variables are its only input."""
    try:
        data, root, state = (os.environ.get(f"PENSTOCK_{name}") for name in ("DATA", "ROOT", "STATE"))
        config = run_config.make(task, data=data, root=root, state=state)
        runner = PenstockRunner(config)
        compiled = build(config, *schema.current(config))
        cached.forget()  # it was taken without writing to the cache of hashes, which does not exist before the run
        with after_call.sent(config), metrics.updated(config):
            runner.run(compiled)
    except PenstockError as error:
        print(redact(f"penstock: {error}"), file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    tensorflow_s3.end(runner.exit_code)
    if runner.exit_code:
        raise SystemExit(runner.exit_code)
