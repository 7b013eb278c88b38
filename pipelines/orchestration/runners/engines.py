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
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import progress
from components.errors import SettingsError
from components.settings.engine import Engine
from components.storage import durable
from pipelines.config import RunConfig
from pipelines.engine import boot, cluster, jobs, places, workers
from pipelines.engine.rest import Flink
from pipelines.orchestration.runners import dataflow
from pipelines.package import user_code, wheel

if TYPE_CHECKING:
    from pipelines.orchestration.plan import Plan

DATA_NODES = ("Ingest", "Extract", "StatisticsGen", "Transform", "Evaluator")
_WORKER_BYTES = 1 << 30  # of records, from which on worker processes pay: each takes about 10 s to start
_WORKER_MEMORY = 2 << 30  # bytes per worker process
_MAX_WORKERS = 16
_ONE_PROCESS = ("Ingest", "Extract", "Predict")  # use all cores in one process, by a pool or threads of their own
_LOCAL_RUNNERS = ("directrunner", "bundlebasedirectrunner", "switchingdirectrunner", "inprocess", "fnapirunner")
_RESTART = "run `penstock engine stop flink`, then `penstock engine start flink`"
_SECRET = re.compile(r"--\w*(secret|password|token|access_key)\w*(=|$)")  # --s3_access_key_id and its like


@dataclass
class Prepared:
    """A runner that was checked, once per run. Makes the pipeline of each node."""

    settings: Engine
    beam_args: Sequence[str]
    state: places.EngineState | None = None  # of the engine on this machine
    boot: str = ""  # program of Flink's workers
    parallelism: int = 0  # of Flink
    own: str = ""  # version of the user's code on workers of Flink
    packages: Sequence[Path] = ()  # wheels for Dataflow's workers
    owner: str = ""  # the root, whose digest is in the names of jobs
    notes: Path | None = None  # folder of the note of a job that runs
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
        if dataflow.names_runner(self.beam_args):
            return beam.Pipeline(options=options)
        if self.settings.runner == "dataflow":
            from pipelines.orchestration.runners.dataflow_runner import CancellingRunner

            return beam.Pipeline(runner=CancellingRunner(), options=options)
        if self.settings.runner == "flink":
            from pipelines.orchestration.runners.flink_runner import FlinkRunner

            runner = FlinkRunner(job, node, self.rest, self.settings.timeout_minutes, self.notes)
            return beam.Pipeline(runner=runner, options=options)
        return beam.Pipeline(options=options)

    @property
    def rest(self) -> str:
        """The address of Flink's REST service; empty if it is not known."""
        return self.settings.rest or (self.state.rest if self.state else "")

    def _flags(self, job: str, name: str, node: str, records: int) -> list[str]:
        if dataflow.names_runner(self.beam_args):
            return []
        if self.settings.runner == "flink":
            return self._flink_flags(job)
        if self.settings.runner == "dataflow":
            return dataflow.flags(self.settings, name, node, self.packages, _digest(self.owner) if self.owner else "")
        return self._direct_flags(node, records)

    def _flink_flags(self, job: str) -> list[str]:
        engine, state = self.settings, self.state
        return [
            f"--job_name={job}",
            f"--job_endpoint={engine.endpoint or (state.endpoint if state else '')}",
            *_flag("artifact_endpoint", engine.artifact_endpoint or (state.artifact_endpoint if state else "")),
            *_environment(engine, self.boot),
            f"--environment_cache_millis={jobs.IDLE_MS}",
            "--default_sdk_harness_log_level=WARN",  # at INFO a worker logs all options, secrets included
            *(f"--experiments={each}" for each in boot.expected(wheel.version(), self.own)),
            f"--parallelism={self.parallelism}",
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
    return settings.runner != "direct" or dataflow.names_runner(beam_args)


def is_needed(planned: "Plan") -> bool:
    """Whether a node that is due runs a Beam pipeline."""
    return any(each.action == "run" and each.node.id in DATA_NODES for each in planned.nodes)


def prepare_run(config: RunConfig, planned: "Plan", owner: str) -> Prepared:
    """Checks the runner of a run, before its first node; `owner` distinguishes its root from all others."""
    engine = config.settings.engine
    modules = user_code.modules(config.task, config.settings) if engine.runner == "flink" else []
    packages = partial(dataflow.packages_of_run, config)
    own = Own(modules, config.notes / "packages")
    return prepare(engine, config.beam_args, is_needed(planned), packages, owner, own, config.notes)


@dataclass(frozen=True)
class Own:
    """The user's modules, and the folder for a wheel of them."""

    modules: Sequence[str] = ()
    folder: Path = Path()

    def build(self) -> Path | None:
        """Builds the wheel, in place of the last one; None if there are no modules."""
        if not self.modules:
            return None
        durable.remove(self.folder)
        return user_code.build(self.folder, self.modules)


_NO_MODULES = Own()


def prepare(
    settings: Engine,
    beam_args: Sequence[str],
    needed: bool = True,
    packages: Callable[[], Sequence[Path]] = tuple,
    owner: str = "",
    own: Own = _NO_MODULES,
    notes: Path | None = None,
    say: Callable[[str], None] = progress.say,
) -> Prepared:
    """Checks that a runner can be used, before the first node; raises SettingsError or PenstockError if not.

    Args:
        settings: which runner.
        beam_args: the user's Beam flags.
        needed: whether a pipeline will run; if not, nothing is checked.
        packages: builds the wheels for workers of Dataflow.
        owner: the root; its lock is held, so a job that still runs for it was left by a run that was killed.
        own: the user's modules, for workers of Flink.
        notes: folder of the note of a job that runs on Flink.
        say: shows a message to the user.
    """
    if settings.runner == "direct" or not needed or dataflow.names_runner(beam_args):
        return Prepared(settings, beam_args)
    if settings.runner == "dataflow":
        return Prepared(settings, beam_args, packages=packages(), owner=owner)
    _refuse_secrets(beam_args)
    state = None if settings.endpoint else _running()
    endpoint = settings.endpoint or (state.endpoint if state else "")
    if not cluster.listens(endpoint):
        raise SettingsError(f"flink: no job server answers at {endpoint}; {places.START}, or correct engine.endpoint")
    parallelism = settings.parallelism or (_slots_here(state, say) if state else _slots_of(settings))
    packed = own.build()
    version = packed.name.split("-")[1] if packed else ""
    program = _boot_program(settings, state, own.modules, packed, say)
    prepared = Prepared(settings, beam_args, state, program, parallelism, version, owner=owner, notes=notes)
    if owner and (rest := prepared.rest):
        flink = Flink(rest)
        for job in flink.jobs():
            if f"-{_digest(owner)}-" in job.name and not job.ended:
                jobs.end(flink, job.name)
                say(f"cancelled the Flink job {job.name}, which a run that was killed had left")
    return prepared


def _refuse_secrets(beam_args: Sequence[str]) -> None:
    """Raises SettingsError if a flag has a secret: Flink's web interface shows the options of every job."""
    if found := [flag.partition("=")[0] for flag in beam_args if _SECRET.match(flag)]:
        raise SettingsError(
            f"flink: {', '.join(found)} would be shown by Flink's web interface, as all options of a job are; leave it "
            "out, and export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN) before "
            "`penstock engine start flink`: workers have the environment of the task managers"
        )


def _slots_here(state: places.EngineState, say: Callable[[str], None]) -> int:
    """Returns the slots of this machine's engine that remain when one more task manager is lost."""
    there = Flink(state.rest).slots().task_managers
    if there == 0:
        raise SettingsError(f"flink: the engine has no task manager any more; {_RESTART}")
    if there < state.task_managers:
        say(f"flink: {state.task_managers - there} of {state.task_managers} task managers have ended; {_RESTART}")
    return state.slots * max(1, there - 1)


def _slots_of(settings: Engine) -> int:
    """Returns all slots of a cluster."""
    total = Flink(settings.rest).slots().total if settings.rest else 0
    if not total:
        reason = f"{settings.rest} says that the cluster has none" if settings.rest else "engine.rest is not set"
        raise SettingsError(f"flink: the number of slots is not known ({reason}); set engine.parallelism")
    return total


def _running() -> places.EngineState:
    state = places.read()
    if state is None:
        raise SettingsError(f"flink: no engine runs on this machine; {places.START}, or name one with engine.endpoint")
    alive = cluster.alive(state)
    ended = [each.name for each in state.processes if each not in alive]
    if "jobmanager" in ended or "jobserver" in ended:
        fix = _RESTART if alive else places.START
        raise SettingsError(f"flink: the engine's {' and '.join(ended)} has ended; {fix}")
    return state


def _boot_program(
    settings: Engine,
    state: places.EngineState | None,
    modules: Sequence[str],
    own: Path | None,
    say: Callable[[str], None],
) -> str:
    """Returns the program of workers, after its self-test if it is on this machine."""
    if settings.worker_pool:
        progress.warn(
            f"engine.worker_pool: the code of its workers was not compared with the code here ({wheel.version()})"
        )
        return ""
    if settings.boot:
        if state is not None or Path(settings.boot).exists():
            workers.check(Path(settings.boot), modules)
        return settings.boot
    if state is None:
        raise SettingsError(
            "flink: engine.endpoint names a cluster whose workers are unknown here; "
            "set engine.boot (a program on the task managers' machines) or engine.worker_pool; docs/engines.md"
        )
    program = workers.ensure(say, own)
    workers.check(program, modules)
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


def _flag(name: str, value: object) -> list[str]:
    return [f"--{name}={value}"] if value else []


def _job_name(name: str, node: str, owner: str = "") -> str:
    """Returns a name that no other job has: pipeline, node, digest of the root, a random number."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{name}-{node}".lower()).strip("-")
    return f"penstock-{plain}-{_digest(owner)}-{secrets.token_hex(4)}"


def _digest(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:10]
