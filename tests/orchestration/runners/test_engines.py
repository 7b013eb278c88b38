"""From the name of a runner and the settings to Beam options."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components import progress
from components.errors import SettingsError
from components.settings.engine import Engine
from components.settings.tree import Settings
from pipelines import config
from pipelines.engine import cluster, places
from pipelines.orchestration import graph
from pipelines.orchestration.runners import dataflow, engines
from pipelines.package import wheel

GB = 1 << 30


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no engine was started."""
    monkeypatch.setenv(places.VARIABLE, str(tmp_path))


@pytest.mark.parametrize(
    ("records", "cores", "memory", "workers"),
    [(GB - 1, 8, 64 * GB, 1), (GB, 8, 64 * GB, 8), (GB, 8, 5 * GB, 2), (GB, 1, 64 * GB, 1), (GB, 64, 640 * GB, 16)],
)
def test_direct_runner_has_as_many_processes_as_data_cores_and_memory_allow(
    records: int, cores: int, memory: int, workers: int
) -> None:
    """Below 1 GB of records one process; else one per core, with 2 GB of memory each, at most 16."""
    assert engines.direct_workers(records, cores, memory) == workers


def test_direct_runner_says_its_mode_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode and its reason are shown at the first node that runs in it."""
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    prepared = engines.prepare(Engine(parallelism=3), ())
    pipelines = [prepared.pipeline("demo", node, 5_000_000) for node in ("StatisticsGen", "StatisticsGen", "Extract")]

    assert said == ["direct runner: 3 worker processes for StatisticsGen (5 MB of records)"]
    assert [options(each)["direct_num_workers"] for each in pipelines] == [3, 3, 1]


def test_beam_flags_of_the_user_win() -> None:
    """A mode or a runner that the user names is used as it is."""
    prepared = engines.prepare(Engine(runner="flink"), ("--runner=DirectRunner", "--direct_num_workers=2"))
    found = prepared.pipeline("demo", "Transform", 5 * GB)

    assert type(found.runner).__name__ in ("DirectRunner", "SwitchingDirectRunner")
    assert options(found)["direct_num_workers"] == 2


def test_dataflow_options_are_those_of_the_settings() -> None:
    """With the wheels that were built once per run; a runner in the Beam flags wins."""
    engine = Engine(runner="dataflow", project="p", region="r", temp_location="gs://b/t", workers=7)
    prepared = engines.prepare(engine, (), packages=lambda: [Path("penstock.whl")])
    expected = dataflow.flags(engine, "pipe", "Ingest", [Path("penstock.whl")])

    assert prepared._flags("job", "pipe", "Ingest", 0) == expected
    of_root = engines.prepare(engine, (), owner="gs://b/root")._flags("job", "pipe", "Ingest", 0)
    assert f"--job_name=pipe-ingest-{engines._digest('gs://b/root')}" in of_root
    assert "--extra_package=penstock.whl" in expected
    assert engines.prepare(engine, ["--runner=DirectRunner"])._flags("job", "pipe", "Ingest", 0) == []


def test_job_names_differ_and_are_accepted_by_dataflow() -> None:
    """Lower-case letters, digits and hyphens, beginning with a letter; two jobs of a node have different names."""
    first, second = (engines._job_name("My_pipe", "StatisticsGen") for _ in range(2))

    assert first != second
    assert first.startswith("penstock-my-pipe-statisticsgen-")


@pytest.mark.usefixtures("no_engine")
def test_missing_engine_is_an_error_that_says_how_to_start_it() -> None:
    """Without a running engine nothing is submitted."""
    with pytest.raises(SettingsError, match="start it with `penstock engine start flink`"):
        engines.prepare(Engine(runner="flink"), ())


@pytest.mark.usefixtures("no_engine")
def test_endpoint_that_does_not_answer_is_an_error() -> None:
    """Port 1 has no job server."""
    with pytest.raises(SettingsError, match=r"no job server answers at 127\.0\.0\.1:1"):
        engines.prepare(Engine(runner="flink", endpoint="127.0.0.1:1"), ())


@pytest.fixture
def cluster_of(no_engine: None) -> Iterator[Callable[[int, int], str]]:
    """A function that makes a server answer as job server and as REST service; returns host:port."""
    del no_engine
    servers: list[ThreadingHTTPServer] = []

    def serve(task_managers: int, slots: int) -> str:
        overview = {"taskmanagers": task_managers, "slots-total": slots, "slots-available": slots}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(overview).encode())

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        return f"127.0.0.1:{servers[0].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_all_slots_of_a_cluster_are_used(cluster_of: Callable[[int, int], str], capsys: Any) -> None:
    """Flink says how many there are, if its REST service is known; and a pool's code is not known."""
    address = cluster_of(3, 12)
    known = {"runner": "flink", "endpoint": address, "worker_pool": "localhost:50000"}
    prepared = engines.prepare(Engine.model_validate({**known, "rest": f"http://{address}"}), ())
    flags = prepared._flags("job", "pipe", "Ingest", 0)

    assert "--parallelism=12" in flags
    assert f"--experiments=penstock_code:penstock={wheel.version()}" in flags
    assert "engine.worker_pool: the code of its workers was not compared" in capsys.readouterr().err
    with pytest.raises(SettingsError, match=r"engine\.rest is not set\); set engine\.parallelism"):
        engines.prepare(Engine.model_validate(known), ())
    assert engines.prepare(Engine.model_validate({**known, "parallelism": 5}), ()).parallelism == 5


@pytest.mark.parametrize(("there", "parallelism", "lost"), [(3, 4, ""), (2, 2, "1 of 3"), (1, 2, "2 of 3")])
def test_a_lost_task_manager_is_said_and_its_slots_are_not_used(
    there: int, parallelism: int, lost: str, cluster_of: Callable[[int, int], str]
) -> None:
    """One more may be lost during the run."""
    said: list[str] = []
    state = places.EngineState(f"http://{cluster_of(there, 2 * there)}", "", "", 3, 2, ())

    assert engines._slots_here(state, said.append) == parallelism
    assert [line.partition(" task")[0] for line in said] == ([f"flink: {lost}"] if lost else [])


def test_an_engine_without_task_managers_is_an_error(cluster_of: Callable[[int, int], str]) -> None:
    """It says how to get one."""
    state = places.EngineState(f"http://{cluster_of(0, 0)}", "", "", 2, 2, ())
    with pytest.raises(SettingsError, match="stop flink`, then `penstock engine start flink`"):
        engines._slots_here(state, print)


@pytest.mark.parametrize(
    "flag", ["--s3_secret_access_key=x", "--s3_access_key_id=x", "--s3_session_token", "--password"]
)
def test_secrets_in_flags_are_refused_for_flink(flag: str) -> None:
    """Flink's web interface shows all options of a job."""
    with pytest.raises(SettingsError, match=r"--\w+ would be shown by .* export AWS_ACCESS_KEY_ID") as error:
        engines.prepare(Engine(runner="flink"), ("--s3_region_name=x", flag))
    assert "=x" not in str(error.value)


@pytest.mark.usefixtures("no_engine")
def test_half_an_engine_is_an_error_that_says_stop_then_start() -> None:
    """A start alone would be refused while a task manager runs."""
    places.run().mkdir(exist_ok=True)
    ended = places.Process("jobserver", os.getpid(), "another boot")
    places.write(places.EngineState("", "", "", 1, 1, (cluster.identified("taskmanager-1", os.getpid()), ended)))
    with pytest.raises(SettingsError, match="jobserver has ended; run `penstock engine stop flink`, then"):
        engines.prepare(Engine(runner="flink"), ())


def test_the_users_wheel_is_built_for_flink_even_with_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """engine.image is for Dataflow; the wheel of the last run is replaced."""
    plan: Any = None
    (tmp_path / "own_step.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    built: list[engines.Own] = []
    monkeypatch.setattr(engines, "prepare", lambda *args: built.append(args[-2]))
    monkeypatch.setattr(engines, "is_needed", lambda _: True)
    flags = ["engine.runner=flink", "engine.image=registry.example/worker:1", "train.step=own_step:step"]
    chosen = config.make("tabular", data=str(tmp_path), root=str(tmp_path / "root"), flags=flags)
    engines.prepare_run(chosen, plan, "owner")
    wheels = [built[0].build() for _ in range(2)]

    assert wheels[0] == wheels[1]
    assert str(wheels[0]).startswith(f"{chosen.notes}/packages/penstock_user-0+src")


@pytest.mark.usefixtures("no_engine")
def test_engine_is_not_needed_by_a_run_without_data_nodes() -> None:
    """A run that only trains does not ask for the cluster."""
    assert engines.prepare(Engine(runner="flink"), (), needed=False).state is None


def test_no_cache_key_contains_the_engine() -> None:
    """No node reads a setting of the section."""
    with_all = Settings.model_validate({"extract": {"model": "m.keras"}, "train": {"warm_start": "live"}})

    assert not [node.id for node in graph.nodes(with_all) if any("engine" in each for each in node.settings)]


def options(pipeline: Any) -> dict[str, Any]:
    """Returns the options of a Beam pipeline."""
    found: dict[str, Any] = pipeline.options.get_all_options()
    return found


@pytest.mark.parametrize(
    ("runner", "flags", "expected"),
    [
        ("direct", (), False),
        ("flink", (), True),
        ("dataflow", (), True),
        ("flink", ("--runner=DirectRunner",), False),
        ("direct", ("--direct_num_workers=2",), False),
        ("direct", ("--runner=PortableRunner", "--job_endpoint=x"), True),
        ("direct", ("--job_endpoint=x",), True),
        ("direct", ("--runner", "FlinkRunner"), True),
        ("direct", ("--runner=DataflowRunner", "--runner=DirectRunner"), False),
    ],
)
def test_whether_workers_see_this_disk(runner: str, flags: tuple[str, ...], expected: bool) -> None:
    """The last --runner of Beam's flags decides, else the setting."""
    assert engines.is_distributed(Engine(runner=runner), flags) is expected
