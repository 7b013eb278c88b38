"""From the name of a runner and the settings to Beam options."""

from pathlib import Path
from typing import Any

import pytest

from components import progress
from components.errors import SettingsError
from components.settings.engine import Engine
from components.settings.tree import Settings
from pipelines.engine import places
from pipelines.orchestration import dataflow, engines, graph

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
