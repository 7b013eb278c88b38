"""Builds the Dataflow job of a Beam pipeline and writes all that would be uploaded into a local folder.

    pipeline.run() ─► DataflowRunner, dry run ─► job ─► what Beam would send and upload ─┬─ job.json
                                                                                         ├─ pipeline.pb
                                                                                         └─ staged/ wheels, requirements
    then `JobWritten` is raised: the executor around the pipeline must not go on to read results that do not exist

Beam's own code builds the job; only the upload is replaced. Beam 2.62 has no option for that.
"""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.dataflow.internal import apiclient

from components.storage import durable

JOB, GRAPH, STAGED = "job.json", "pipeline.pb", "staged"
# A dry run validates nothing on Google's side. --no_auth takes no value, --dry_run needs one.
_OFFLINE = ("--dry_run=True", "--no_auth")


class JobWritten(BaseException):
    """The job is written. Not an `Exception`, because executors and libraries catch those."""


def pipeline(flags: Sequence[str], folder: Path) -> beam.Pipeline:
    """Returns a pipeline whose run writes its job into a folder and raises JobWritten."""
    return beam.Pipeline(runner=_WritingRunner(folder), options=PipelineOptions([*flags, *_OFFLINE]))


def count_transforms(graph: bytes) -> int:
    """Returns the number of transforms in a serialized pipeline, composite ones included."""
    return len(beam_runner_api_pb2.Pipeline.FromString(graph).components.transforms)


class _WritingRunner(DataflowRunner):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def run_pipeline(self, pipeline: Any, options: Any, pipeline_proto: Any = None) -> Any:
        job = super().run_pipeline(pipeline, options, pipeline_proto).job
        _WritingClient(options, job.root_staging_location, self._folder).create_job_description(job)
        durable.write_bytes(self._folder / JOB, json.dumps(json.loads(job.json()), indent=1).encode())
        raise JobWritten


class _WritingClient(apiclient.DataflowApplicationClient):
    """Beam's client of Dataflow, which writes to a folder what it would upload."""

    def __init__(self, options: Any, root_staging_location: str, folder: Path) -> None:
        # Of an upload, a cache on the object store would be asked first.
        options.view_as(beam.options.pipeline_options.GoogleCloudOptions).enable_artifact_caching = False
        super().__init__(options, root_staging_location)
        self._folder = folder

    def stage_file(
        self,
        gcs_or_local_path: str,
        file_name: str,
        stream: io.BufferedIOBase,
        mime_type: str = "",
        total_size: int | None = None,
    ) -> None:
        """Writes one file."""
        del gcs_or_local_path, mime_type, total_size
        name = os.path.basename(file_name)  # noqa: PTH119 - a name on the object store
        target = self._folder / GRAPH if name == GRAPH else self._folder / STAGED / name
        durable.write_bytes(target, stream.read())
