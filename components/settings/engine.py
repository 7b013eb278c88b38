"""Settings of the engine: where the data nodes run. None of them can change a result, so no cache key contains them."""

from typing import Literal

import pydantic

from components.settings.section import LocalPath, Section


class Engine(Section):
    """Which Beam runner executes the data nodes, and how it is reached."""

    runner: Literal["direct", "flink", "dataflow"] = pydantic.Field(
        "direct",
        description="where Ingest, StatisticsGen, Transform, Extract and Evaluator run: direct (this machine), flink "
        "or dataflow; the same as --runner",
    )
    parallelism: int = pydantic.Field(
        0,
        ge=0,
        description="parallel subtasks per node; 0: the slots of the Flink cluster, or what the direct runner chooses",
    )
    timeout_minutes: float = pydantic.Field(
        30.0, gt=0, description="minutes without progress after which a job on flink is cancelled"
    )
    endpoint: str = pydantic.Field(
        "",
        description="host:port of Beam's job server for flink; empty: the engine that `penstock engine start flink` "
        "started",
    )
    artifact_endpoint: str = pydantic.Field(
        "", description="host:port of the artifact service of Beam's job server; empty: as the job server answers"
    )
    rest: str = pydantic.Field(
        "",
        description="address of Flink's REST service, such as http://host:8081, for progress and cancel; empty: the "
        "engine that `penstock engine start flink` started",
    )
    boot: LocalPath = pydantic.Field(
        "",
        description="program that a Flink task manager starts as a Python worker, by its path on the task manager's "
        "machine; empty: an environment that Penstock makes for the engine of this machine",
    )
    worker_pool: str = pydantic.Field(
        "",
        description="host:port of a Beam worker pool beside each task manager, as seen from there; empty: worker "
        "processes that the task managers start",
    )
    project: str = pydantic.Field("", description="Google Cloud project of Dataflow jobs")
    region: str = pydantic.Field("", description="Google Cloud region of Dataflow jobs, such as europe-west1")
    temp_location: str = pydantic.Field(
        "", description="folder of temporary files of Dataflow, such as gs://bucket/tmp"
    )
    staging_location: str = pydantic.Field(
        "", description="folder of Dataflow's code packages, such as gs://bucket/staging; empty: as temp_location"
    )
    machine_type: str = pydantic.Field("", description="machine type of Dataflow workers; empty: chosen by Dataflow")
    workers: int = pydantic.Field(0, ge=0, description="maximum number of Dataflow workers; 0: chosen by Dataflow")
    image: str = pydantic.Field(
        "", description="SDK container image with Penstock for workers in containers; empty: the wheel is staged"
    )
    service_account: str = pydantic.Field("", description="e-mail address of the service account of Dataflow workers")
    wheel: LocalPath = pydantic.Field(
        "", description="wheel of Penstock for workers, as `penstock package` builds it; empty: built from this code"
    )
