"""What `penstock engine start | status | stop flink` does."""

from collections.abc import Callable

from components.errors import SettingsError
from pipelines.engine import cluster, places
from pipelines.engine.rest import Flink, Unreachable

_JOBS = 10  # shown by status
Say = Callable[[str], None]


def start(name: str, task_managers: int, slots: int, say: Say) -> None:
    """Installs what is missing, makes the workers' environment and starts the engine."""
    from pipelines.engine import workers

    _check(name)
    workers.check(workers.ensure(say))
    cluster.start(cluster.Size(task_managers, slots), say)


def stop(name: str, say: Say) -> None:
    """Stops the engine."""
    _check(name)
    cluster.stop(say)


def status(name: str, say: Say) -> int:
    """Shows processes, slots and jobs; returns 0 if all processes run, else 1."""
    _check(name)
    state = places.read()
    if state is None:
        say(f"no engine runs; {places.START}")
        return 1
    alive = cluster.alive(state)
    for each in state.processes:
        say(f"{each.name:<16} pid {each.pid:<8} {'runs' if each in alive else 'has ended'}")
    say(f"job server       {state.endpoint}")
    flink = Flink(state.rest)
    try:
        slots, jobs = flink.slots(), flink.jobs()
    except Unreachable as error:
        say(str(error))
        return 1
    say(f"web interface    {state.rest}")
    say(f"slots            {slots.free} of {slots.total} free, {slots.task_managers} task managers")
    for job in jobs[:_JOBS]:
        say(f"job              {job.id}  {job.state:<9} {job.seconds:7.1f} s  {job.name}")
    if not jobs:
        say("job              none since the start")
    say(f"logs             {places.run() / 'logs'}")
    return 0 if len(alive) == len(state.processes) else 1


def _check(name: str) -> None:
    if name != "flink":
        raise SettingsError(f"engine {name!r}: expected flink; the direct runner and Dataflow need no engine here")
