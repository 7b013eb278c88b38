"""From the name of a runner and the settings to a Beam pipeline: the only file that knows Beam's options of engines.

    engine.runner, settings ─► flags ◄─ Beam flags after `--` (they win) ─► pipeline of one node

    direct     this machine, in memory or in worker processes
    flink      Beam's job server and a Flink cluster: `penstock engine start flink`, or one that exists
    dataflow   Google's service

The engine is in no cache key: every runner writes the same records.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import progress
from components.errors import SettingsError
from components.settings.engine import Engine
from pipelines.engine import cluster, jobs, places, workers
from pipelines.engine.rest import Flink
from pipelines.orchestration import dataflow
from pipelines.package import user_code

if TYPE_CHECKING:
    from pipelines.orchestration.plan import Plan

DATA_NODES = ("Ingest", "Extract", "StatisticsGen", "Transform", "Evaluator")
_WORKER_BYTES = 1 << 30  # of records, from which on worker processes pay: each takes about 10 s to start
_WORKER_MEMORY = 2 << 30  # bytes per worker process
_MAX_WORKERS = 16
_ONE_PROCESS = ("Ingest", "Extract")  # use all cores in one process: a pool of their own, and TensorFlow's threads
_LOCAL_RUNNERS = ("directrunner", "bundlebasedirectrunner", "switchingdirectrunner", "inprocess", "fnapirunner")
_USER_WHEEL = user_code.NAME.replace("-", "_")
_LOST = re.compile(r"--(runner|job_endpoint)(=|$)")


@dataclass
class Prepared:
    """A runner that was checked, once per run. Makes the pipeline of each node."""

    settings: Engine
    beam_args: Sequence[str]
    state: places.State | None = None  # of the engine on this machine
    boot: str = ""  # program of Flink's workers
    packages: Sequence[Path] = ()  # wheels for Dataflow's workers
    owner: str = ""  # the root, whose digest is in the names of jobs
    _said: set[str] = field(default_factory=set)

    def pipeline(self, name: str, node: str, records: int = 0) -> Any:
        """Returns the Beam pipeline of a node.

        Args:
            name: of the Penstock pipeline, for the name of the job.
            node: ID of the node.
            records: bytes of records that the node reads; 0 if it reads none.
        """
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        job = _job_name(name, node, self.owner)
        options = PipelineOptions([*self._flags(job, name, node, records), *self.beam_args])
        if self._is_flink():
            from pipelines.orchestration.flink_runner import FlinkRunner

            runner = FlinkRunner(job, node, self.rest, self.settings.timeout_minutes)
            return beam.Pipeline(runner=runner, options=options)
        return beam.Pipeline(options=options)

    @property
    def rest(self) -> str:
        """The address of Flink's REST service; empty if it is not known."""
        return self.settings.rest or (self.state.rest if self.state else "")

    def _is_flink(self) -> bool:
        return self.settings.runner == "flink" and not _names_runner(self.beam_args)

    def _flags(self, job: str, name: str, node: str, records: int) -> list[str]:
        if _names_runner(self.beam_args):
            return []
        if self.settings.runner == "flink":
            return self._flink_flags(job)
        if self.settings.runner == "dataflow":
            return dataflow.flags(self.settings, name, node, self.packages)
        return self._direct_flags(node, records)

    def _flink_flags(self, job: str) -> list[str]:
        engine, state = self.settings, self.state
        parallelism = engine.parallelism or (state.parallelism if state else 0)
        return [
            f"--job_name={job}",
            f"--job_endpoint={engine.endpoint or (state.endpoint if state else '')}",
            *_flag("artifact_endpoint", engine.artifact_endpoint or (state.artifact_endpoint if state else "")),
            *_environment(engine, self.boot),
            f"--environment_cache_millis={jobs.IDLE_MS}",
            "--default_sdk_harness_log_level=WARN",  # at INFO a worker logs all options, secrets included
            *_flag("parallelism", parallelism),
        ]

    def _direct_flags(self, node: str, records: int) -> list[str]:
        """Chooses the mode of the direct runner by data size, cores and memory, and says so once per mode."""
        if any(flag.startswith("--direct_") for flag in self.beam_args):
            return []
        count = 1 if node in _ONE_PROCESS else self.settings.parallelism or direct_workers(records)
        if count > 1:
            self._say(f"direct runner: {count} worker processes for {node} ({records / 1e6:,.0f} MB of records)")
            return ["--direct_running_mode=multi_processing", f"--direct_num_workers={count}"]
        if node not in _ONE_PROCESS:
            self._say(f"direct runner: in memory ({records / 1e6:,.1f} MB of records)")
        return []

    def _say(self, message: str) -> None:
        mode = message.partition("(")[0]
        if mode not in self._said:
            self._said.add(mode)
            progress.say(message)


def is_distributed(settings: Engine, beam_args: Sequence[str]) -> bool:
    """Whether data nodes run on an engine, whose workers do not see this machine's disk."""
    flags = list(beam_args)
    given = [flag.partition("=")[2] for flag in flags if flag.startswith("--runner=")]
    given += [after for flag, after in pairwise(flags) if flag == "--runner"]
    if given:
        return given[-1].rpartition(".")[2].lower() not in _LOCAL_RUNNERS
    return settings.runner != "direct" or _names_runner(beam_args)


def is_needed(planned: "Plan") -> bool:
    """Whether a node that is due runs a Beam pipeline."""
    return any(each.action == "run" and each.node.id in DATA_NODES for each in planned.nodes)


def prepare(
    settings: Engine,
    beam_args: Sequence[str],
    needed: bool = True,
    packages: Callable[[], Sequence[Path]] = tuple,
    owner: str = "",
    say: Callable[[str], None] = progress.say,
) -> Prepared:
    """Checks that a runner can be used, before the first node; raises SettingsError or PenstockError if not.

    Args:
        settings: which runner.
        beam_args: the user's Beam flags.
        needed: whether a pipeline will run; if not, nothing is checked.
        packages: builds the wheels for workers.
        owner: the root; its lock is held, so a job that still runs for it was left by a run that was killed.
        say: shows a message to the user.
    """
    if settings.runner == "direct" or not needed or _names_runner(beam_args):
        return Prepared(settings, beam_args)
    if settings.runner == "dataflow":
        return Prepared(settings, beam_args, packages=packages())
    state = None if settings.endpoint else _running()
    endpoint = settings.endpoint or (state.endpoint if state else "")
    if not cluster.listens(endpoint):
        raise SettingsError(f"flink: no job server answers at {endpoint}; {places.START}, or correct engine.endpoint")
    prepared = Prepared(settings, beam_args, state, _boot_program(settings, state, packages, say), owner=owner)
    if owner and (rest := prepared.rest):
        flink = Flink(rest)
        for job in flink.jobs():
            if f"-{_digest(owner)}-" in job.name and not job.ended:
                jobs.end(flink, job.name)
                say(f"cancelled the Flink job {job.name}, which a run that was killed had left")
    return prepared


def _running() -> places.State:
    state = places.read()
    if state is None:
        raise SettingsError(f"flink: no engine runs on this machine; {places.START}, or name one with engine.endpoint")
    ended = [each.name for each in state.processes if each not in cluster.alive(state)]
    if "jobmanager" in ended or "jobserver" in ended:
        raise SettingsError(f"flink: the engine's {' and '.join(ended)} has ended; {places.START}")
    return state


def _boot_program(
    settings: Engine,
    state: places.State | None,
    packages: Callable[[], Sequence[Path]],
    say: Callable[[str], None],
) -> str:
    """Returns the program of workers, after its self-test if it is on this machine."""
    if settings.worker_pool:
        return ""
    if settings.boot:
        if state is not None or Path(settings.boot).exists():
            workers.check(Path(settings.boot))
        return settings.boot
    if state is None:
        raise SettingsError(
            "flink: engine.endpoint names a cluster whose workers are unknown here; "
            "set engine.boot (a program on the task managers' machines) or engine.worker_pool; docs/engines.md"
        )
    own = next((each for each in packages() if each.name.startswith(_USER_WHEEL)), None)
    program = workers.ensure(say, own)
    workers.check(program)
    return str(program)


def _environment(engine: Engine, boot: str) -> list[str]:
    if engine.worker_pool:
        return ["--environment_type=EXTERNAL", f"--environment_config={engine.worker_pool}"]
    return ["--environment_type=PROCESS", f"--environment_config={json.dumps({'command': boot})}"]


def direct_workers(records: int, cores: int | None = None, memory: int | None = None) -> int:
    """Returns the worker processes of the direct runner; 1: in memory.

    Args:
        records: bytes of records that the node reads.
        cores: of this machine; default: asked.
        memory: bytes that are free; default: asked.
    """
    if records < _WORKER_BYTES:
        return 1
    import psutil

    free = psutil.virtual_memory().available if memory is None else memory
    return max(1, min(cores or os.cpu_count() or 1, free // _WORKER_MEMORY, _MAX_WORKERS))


def _names_runner(beam_args: Sequence[str]) -> bool:
    """Whether the user's own Beam flags say where the pipeline runs."""
    return any(_LOST.match(flag) for flag in beam_args)


def _flag(name: str, value: object) -> list[str]:
    return [f"--{name}={value}"] if value else []


def _job_name(name: str, node: str, owner: str = "") -> str:
    """Returns a name that no other job has: pipeline, node, digest of the root, a random number."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{name}-{node}".lower()).strip("-")
    return f"penstock-{plain}-{_digest(owner)}-{secrets.token_hex(4)}"


def _digest(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:10]
