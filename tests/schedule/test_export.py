"""Exports of a schedule, read by the programs that they are for, where these exist."""

import ast
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import kubernetes.client
import pytest
import yaml

from components.errors import SettingsError
from components.settings.tree import Settings
from pipelines.schedule import cron
from pipelines.schedule.export import airflow, crontab, exported, systemd
from pipelines.schedule.export import kubernetes as cron_job
from pipelines.schedule.schedule import PipelineSchedule

Nightly = Callable[..., PipelineSchedule]
EXPORTS: tuple[Callable[[PipelineSchedule], Any], ...] = (
    systemd.export,
    crontab.export,
    lambda schedule: cron_job.export(schedule, "image", "", "/data"),
    lambda schedule: airflow.export(schedule, Settings()),
)
NASTY = ("--data", "/d/a b/%Y {{ x }} $HOME $(id) 'q' \"w\" \\n {SPAN}/*.csv", "--root", "/r")


@pytest.fixture
def nasty(nightly: Nightly, tmp_path: Path) -> PipelineSchedule:
    """A schedule whose words have every special character."""
    folder = tmp_path / "100% $x"
    folder.mkdir()
    return nightly(arguments=NASTY, folder=str(folder), overlap="queue")


def words(schedule: PipelineSchedule) -> list[str]:
    """Returns the arguments of the command that every export must start."""
    return exported.command(schedule)[1:]


def test_the_units_are_valid(nasty: PipelineSchedule, tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing, and systemd starts exactly the command."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    files = systemd.export(nasty)
    for file in files:
        (tmp_path / file.name).write_text(file.content)
    paths = [str(tmp_path / file.name) for file in files]

    done = subprocess.run(["systemd-analyze", "verify", *paths], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_words_of_a_unit_are_escaped() -> None:
    """% and $ are doubled, quotes and backslashes have a backslash, as systemd.service(5) says."""
    assert systemd.quoted("a b") == '"a b"'
    assert systemd.quoted('50% of $HOME \\ "x"') == '"50%% of $$HOME \\\\ \\"x\\""'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 3 * * *", ["*-*-* 3:0:00"]),
        ("*/30 1,2 * jan,7 *", ["*-1,7-* 1,2:0,30:00"]),
        ("0 0 * * 1-5", ["Mon,Tue,Wed,Thu,Fri *-*-* 0:0:00"]),
        ("0 0 13 * fri", ["*-*-13 0:0:00", "Fri *-*-* 0:0:00"]),
        ("0 0 */10 * 0", ["Sun *-*-1,11,21,31 0:0:00"]),
    ],
)
def test_a_cron_expression_as_calendar_events(expression: str, expected: list[str]) -> None:
    """Systemd has no cron expressions; it understands the result."""
    assert systemd.calendars(cron.parse(expression)) == expected
    if shutil.which("systemd-analyze"):
        for event in expected:
            subprocess.run(["systemd-analyze", "calendar", f"{event} Europe/Berlin"], check=True, capture_output=True)


def test_a_timer_catches_up_as_the_schedule_does(nightly: Nightly) -> None:
    """Once or not at all; systemd cannot start each tick that was missed."""
    timers = {policy: systemd.export(nightly(catch_up=policy))[1].content for policy in ("last", "none")}

    assert "Persistent=true" in timers["last"]
    assert "Persistent=false" in timers["none"]
    assert "OnUnitActiveSec=21600" in systemd.export(nightly(rule="every 6h"))[1].content
    with pytest.raises(SettingsError, match="systemd cannot catch up all ticks"):
        systemd.export(nightly(catch_up="all"))


def test_a_crontab_line_starts_the_command(nasty: PipelineSchedule, tmp_path: Path) -> None:
    """Cron ends a line at a %, turns an escaped one into %, and gives the rest to a shell, which runs it here."""
    (file,) = crontab.export(nasty)
    program = tmp_path / "penstock"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')
    program.chmod(0o755)
    line = file.content.splitlines()[-1]
    command = line.split(maxsplit=5)[5].replace("\\%", "\0").partition("%")[0].replace("\0", "%")
    command = command.replace(exported.command(nasty)[0], str(program))

    printed = subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, text=True).stdout.splitlines()

    assert line.startswith("0 3 * * * cd ")
    assert printed == [nasty.folder, *words(nasty)]


@pytest.mark.parametrize("export", EXPORTS, ids=["systemd", "cron", "kubernetes", "airflow"])
@pytest.mark.parametrize("character", ["\n", "\r", "\x85", "\u2028", "\udcff"], ids=ascii)
def test_a_text_of_two_lines_is_rejected(
    character: str, export: Callable[[PipelineSchedule], Any], nightly: Nightly
) -> None:
    """In an argument, and in the folder: a second line would be a command of its own."""
    text = f"/d/a{character}ExecStartPre=/bin/true"
    for schedule in (nightly(folder=text), nightly(arguments=("--data", text, "--root", "/r"))):
        with pytest.raises(SettingsError, match="has a line break or another control character"):
            export(schedule)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("*/30 1-5 * jan-mar 7", "*/30 1-5 * jan-mar 0"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 13 * 5-7", "0 0 13 * 0,5,6"),
        ("0 0 1-31 * mon", "0 0 * * *"),
        ("0 0 13 * 0-6", "0 0 * * *"),
        ("0 0 13 * */1", "0 0 13 * *"),
        ("0 0 * * */2", "0 0 * * 0,2,4,6"),
        ("0 0 */10 * *", "0 0 */10 * *"),
    ],
)
def test_an_expression_for_other_crons(expression: str, expected: str, nightly: Nightly) -> None:
    """Kubernetes knows no 7 and no range that ends with Sunday, and none of them reads a full range as we do."""
    schedule = nightly(rule=f"cron {expression}")
    (manifest,), (line,) = cron_job.export(schedule, "image", "", "/data"), crontab.export(schedule)
    written, start = cron.parse(expected), datetime(2026, 1, 1)  # noqa: DTZ001 - the clock of the wall

    assert yaml.safe_load(manifest.content)["spec"]["schedule"] == expected
    assert line.content.splitlines()[-1].startswith(f"{expected} cd ")
    assert list(islice(cron.local_times(written, start), 9)) == list(
        islice(cron.local_times(cron.parse(expression), start), 9)
    )


def test_days_that_must_match_both_fields(nightly: Nightly) -> None:
    """A star with a step joins the days in cron, and separates them in Kubernetes and Airflow."""
    schedule = nightly(rule="cron 0 0 */10 * 0")

    assert crontab.export(schedule)[0].content.splitlines()[-1].startswith("0 0 */10 * 0 cd ")
    for export in EXPORTS[2:]:
        with pytest.raises(SettingsError, match=r"the days of '0 0 \*/10 \* 0' must match both fields"):
            export(schedule)


def test_a_name_that_is_cut_is_one(nightly: Nightly) -> None:
    """Kubernetes rejects names that end with a hyphen."""
    (file,) = cron_job.export(nightly(name=f"{'a' * 42}-bcd"), "image", "", "/data")

    assert yaml.safe_load(file.content)["metadata"]["name"] == f"penstock-{'a' * 42}"


@pytest.mark.parametrize(("every", "expected"), [("15m", "*/15 * * * *"), ("6h", "0 */6 * * *"), ("1d", "0 0 * * *")])
def test_an_interval_as_a_cron_expression(every: str, expected: str, nightly: Nightly) -> None:
    """If it divides an hour or a day."""
    assert crontab.expression_of_interval(nightly(rule=f"every {every}")) == expected


@pytest.mark.parametrize("every", ["7m", "5h", "90m", "2d"])
def test_another_interval_is_rejected_by_cron(every: str, nightly: Nightly) -> None:
    """Cron starts again with each hour or day."""
    with pytest.raises(SettingsError, match=f"cron cannot start every {every}"):
        crontab.export(nightly(rule=f"every {every}"))


def test_the_cron_job_is_one(nasty: PipelineSchedule) -> None:
    """Kubernetes' own client reads the manifest, and its words are those of the command."""
    (file,) = cron_job.export(nasty, "registry/penstock:1", "models", "/data")
    response: Any = SimpleNamespace(data=json.dumps(yaml.safe_load(file.content)))

    job = kubernetes.client.ApiClient().deserialize(response, "V1CronJob")

    (container,) = job.spec.job_template.spec.template.spec.containers
    assert (job.spec.schedule, job.spec.time_zone, job.spec.concurrency_policy) == (
        "0 3 * * *",
        "Europe/Berlin",
        "Allow",
    )
    assert container.command[:2] == ["sh", "-c"]
    assert [word.replace("$$", "$") for word in container.command[4:]] == words(nasty)
    assert container.volume_mounts[0].mount_path == "/data"
    assert container.working_dir == nasty.folder


@pytest.mark.parametrize(
    ("arguments", "claim", "expected"),
    [
        (("--root", "/data/runs/a", "--settings", "/data/penstock.toml"), "models", []),
        (("--root", "/home/ann/runs/a", "--settings", "/data/penstock.toml"), "models", ["--root /home/ann/runs/a"]),
        (("--root", "s3://bucket/a", "--state", "/state"), "models", ["--state /state"]),
        (("--root", "/data/runs/a"), "", ["no --claim"]),
    ],
)  # fmt: skip
def test_what_is_not_on_the_volume(
    arguments: tuple[str, ...], claim: str, expected: list[str], nightly: Nightly
) -> None:
    """A pod would not find it, or would lose it at its end."""
    found = cron_job.warnings(nightly(arguments=arguments, folder="/data"), claim, "/data")

    assert [each.partition(":")[0] for each in found] == expected


def test_a_working_folder_that_is_not_on_the_volume(nightly: Nightly) -> None:
    """Relative paths of the settings would be in the pod alone."""
    (found,) = cron_job.warnings(nightly(arguments=(), folder="/home/ann/shop"), "models", "/data")

    assert found.startswith("working folder /home/ann/shop: not below --mount /data")


@pytest.fixture
def job(nightly: Nightly, tmp_path: Path) -> Callable[[str], "subprocess.Popen[str]"]:
    """Returns the function that starts the command of a container with a script in place of `penstock`."""

    def start(script: str) -> "subprocess.Popen[str]":
        (tmp_path / "penstock").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "penstock").chmod(0o755)
        (file,) = cron_job.export(nightly(), "image", "", "/data")
        pod = yaml.safe_load(file.content)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.Popen(pod["containers"][0]["command"], env=environment, stdout=subprocess.PIPE, text=True)

    return start


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 0), (10, 0), (75, 0), (5, 5), (9, 9)])
def test_a_job_is_no_failure_if_the_model_is_not_better(code: int, expected: int, job: Any) -> None:
    """The script of the container ends with 0 for what needs no person."""
    with job(f"exit {code}") as started:
        assert started.wait(60) == expected


def test_a_job_that_is_stopped_ends_after_its_checkpoint(job: Any, tmp_path: Path) -> None:
    """SIGTERM to the shell of the container stops the retraining, and its exit code is that of the job."""
    saves = 'echo stopping; while ! [ -e "$0.go" ]; do sleep 0.01; done; echo saved; exit 143'
    with job(f"trap '{saves}' TERM; echo started; while :; do sleep 0.01; done") as started:
        lines = [started.stdout.readline()]
        started.terminate()
        lines.append(started.stdout.readline())
        (tmp_path / "penstock.go").touch()
        lines += started.stdout.readlines()

    assert (lines, started.returncode) == (["started\n", "stopping\n", "saved\n"], 143)


@pytest.mark.parametrize("rule", ["cron 0 3 * * *", "every 6h"])
def test_the_dag_file_starts_the_command(rule: str, nightly: Nightly) -> None:
    """Of each node, with time and run id of the DAG run; a real Airflow runs it in tests/airflow."""
    (file,) = airflow.export(nightly(rule=rule, arguments=NASTY), Settings())
    tree = ast.parse(file.content)
    parts: list[ast.stmt] = [each for each in tree.body if isinstance(each, ast.Assign | ast.FunctionDef)]
    names: dict[str, Any] = {"shlex": shlex, "ZoneInfo": ZoneInfo}
    exec(compile(ast.Module(parts, []), file.name, "exec"), names)  # noqa: S102 - the file itself
    dag_run = SimpleNamespace(logical_date=datetime.fromisoformat("2026-03-29T01:00:00+00:00"))

    first, last = (shlex.split(names["command"](dag_run, "manual__1", node)) for node in ("Ingest", "Pusher"))

    assert (names["NODES"][0], names["NODES"][-1]) == ("Ingest", "Pusher")
    assert first[1:8] == ["retrain", "--at", "2026-03-29T03:00:00", "--run-id", "manual__1", "--to", "Ingest"]
    assert "--to" not in last
    assert last[-len(NASTY) :] == list(NASTY)


def test_the_dag_file_is_indented_as_a_person_would(nightly: Nightly) -> None:
    """Lists that are longer than a line go on below their first word."""
    (file,) = airflow.export(nightly(arguments=("tabular", "--root", "/srv/" + "r" * 90)), Settings())

    assert not [line for line in file.content.splitlines() if line.startswith(" " * 20)]
