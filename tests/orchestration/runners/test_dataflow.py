"""Settings for Dataflow: the error that lists all problems, and Beam's flags."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.settings import tree
from components.settings.engine import Engine
from components.settings.ingest import Ingest
from components.tasks import get
from pipelines import config
from pipelines.ingest import IngestRequest, ingest
from pipelines.orchestration.runners import dataflow
from pipelines.package import bundle, wheel

CLOUD = {
    "project": "my-project-123456",
    "region": "europe-west1",
    "temp_location": "gs://my-bucket/tmp",
    "staging_location": "gs://my-bucket/staging",
    "machine_type": "n2-standard-4",
    "workers": 8,
    "service_account": "worker@my-project-123456.iam.gserviceaccount.com",
}
IMAGE = "europe-west1-docker.pkg.dev/my-project-123456/penstock/worker"
PLACES = ("gs://my-bucket/root", "gs://my-bucket/data/*.csv")


def engine(**values: Any) -> Engine:
    """Returns complete settings, with some of them changed."""
    return Engine.model_validate({**CLOUD, **values})


def problems(engine: Engine, root: str = PLACES[0], data: str = PLACES[1]) -> list[str]:
    """Returns the lines of the error, without its first."""
    with pytest.raises(SettingsError) as caught:
        dataflow.check(engine, root, data)
    return str(caught.value).splitlines()[1:]


def test_one_error_lists_all_that_is_missing() -> None:
    """Each line names the setting, an example and, for places, the reason."""
    found = problems(Engine(), "/home/me/runs/image", "photos")

    assert found == [
        (
            "  - engine.project is missing: such as --set engine.project=my-project-123456 "
            "(the project's id, not its name or number)"
        ),
        "  - engine.region is missing: such as --set engine.region=europe-west1 (a region, not a zone)",
        (
            "  - engine.temp_location is missing: such as --set engine.temp_location=gs://my-bucket/tmp "
            "(a folder in a bucket)"
        ),
        (
            "  - root is '/home/me/runs/image': workers do not see this machine's disk, so expected a folder in a "
            "bucket such as --root gs://my-bucket/root"
        ),
        (
            "  - data is 'photos': workers do not see this machine's disk, so expected a folder in a bucket such as "
            "--data gs://my-bucket/data"
        ),
    ]


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("project", ["My Project", "abc", "123456789012", "ends-with-", "x" * 31]),
        ("region", ["europe-west1-b", "Europe-West1", "europe", "eu_west1"]),
        ("temp_location", ["my-bucket/tmp", "s3://my-bucket/tmp", "gs://my-bucket", "gs://My_Bucket/tmp", "gs:///tmp"]),
        ("staging_location", ["/staging", "gs://b/x", "gs://my-bucket/"]),
        ("machine_type", ["n2", "n2 standard 4", "N2-STANDARD-4"]),
        ("image", ["worker", "penstock/worker", f"{IMAGE}", f"{IMAGE}:", f"{IMAGE}@sha256:12"]),
        ("service_account", ["me", "me@example.com", "worker@project"]),
    ],
)
def test_a_malformed_setting_is_named_with_an_example(setting: str, values: list[str]) -> None:
    """And nothing else is reported."""
    for value in values:
        (line,) = problems(engine(**{setting: value}))
        assert line.startswith(f"  - engine.{setting} is {value!r}: expected one such as --set engine.{setting}=")


@pytest.mark.parametrize("values", [{}, {"image": f"{IMAGE}:latest"}, {"image": f"{IMAGE}@sha256:{'0' * 64}"}])
def test_complete_settings_are_accepted(values: dict[str, Any]) -> None:
    """With a wheel or with an image; optional settings may be empty."""
    dataflow.check(engine(**values), *PLACES)
    required = {key: CLOUD[key] for key in ("project", "region", "temp_location")}
    dataflow.check(Engine.model_validate(required), *PLACES)
    dataflow.check(engine(project="example.com:my-project"), *PLACES)


def test_an_image_of_other_code_is_rejected() -> None:
    """The tag that `penstock package` proposes names the code."""
    ours = f"{IMAGE}:{bundle.image_tag(wheel.version())}"
    dataflow.check(engine(image=ours), *PLACES)
    (line,) = problems(engine(image=f"{IMAGE}:0.1.0-src000000000000"))

    assert f"but the code here is {bundle.image_tag(wheel.version())}:" in line


def test_an_image_of_other_modules_of_the_user_is_rejected() -> None:
    """Both parts of the tag are compared; without modules there is no second part."""
    ours, own = wheel.version(), "0+src0123456789ab"
    image = f"{IMAGE}:{bundle.image_tag(ours, own)}"
    dataflow.check(engine(image=image), *PLACES, own)

    for other in ("0+srcba9876543210", ""):
        with pytest.raises(SettingsError, match=f"but the code here is {bundle.image_tag(ours, other)}:"):
            dataflow.check(engine(image=image), *PLACES, other)


def test_an_image_whose_code_is_not_known_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """A tag such as latest cannot be compared."""
    flags = [f"engine.{key}={value}" for key, value in {**CLOUD, "runner": "dataflow", "image": f"{IMAGE}:x"}.items()]
    chosen = config.make("tabular", data=PLACES[1], root=PLACES[0], flags=flags)
    dataflow.check_run(chosen)

    assert "the tag does not name its code" in capsys.readouterr().err


def test_a_runner_in_the_beam_flags_wins_over_the_checks(tmp_path: Path) -> None:
    """`-- --runner=DirectRunner` needs no settings of the cloud."""
    made: dict[str, Any] = {"data": str(tmp_path), "root": str(tmp_path / "root"), "flags": ["engine.runner=dataflow"]}
    dataflow.check_run(config.make("tabular", **made, beam_args=["--runner=DirectRunner"]))
    with pytest.raises(SettingsError, match="settings are missing"):
        dataflow.check_run(config.make("tabular", **made))


def test_a_wheel_must_exist_and_excludes_an_image(tmp_path: Path) -> None:
    """Both would leave open which code runs. Its name and its content are those of the code here."""
    file = wheel.build(tmp_path)
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_bytes(file.read_bytes() + b"changed")
    old = tmp_path / "penstock-1-py3-none-any.whl"
    old.write_bytes(file.read_bytes())
    for each in (other, old):
        (line,) = problems(engine(wheel=str(each)))
        assert f"which is not the code here ({wheel.version()})" in line
    (missing,) = problems(engine(wheel=str(tmp_path / "missing.whl")))
    (both,) = problems(engine(wheel=str(file), image=f"{IMAGE}:latest"))

    assert "missing.whl': expected a file that `penstock package` built" in missing
    assert "both given" in both
    dataflow.check(engine(wheel=str(file)), *PLACES)


def test_flags_with_a_wheel() -> None:
    """The wheels are staged; requirements are those of the worker lock, and are not downloaded here."""
    packages = [Path("penstock.whl"), Path("own.whl")]

    assert dataflow.flags(engine(), "Sales 2026", "StatisticsGen", packages) == [
        "--runner=DataflowRunner",
        "--project=my-project-123456",
        "--region=europe-west1",
        "--job_name=sales-2026-statisticsgen",
        "--temp_location=gs://my-bucket/tmp",
        "--staging_location=gs://my-bucket/staging",
        "--machine_type=n2-standard-4",
        "--max_num_workers=8",
        "--service_account_email=worker@my-project-123456.iam.gserviceaccount.com",
        f"--requirements_file={wheel.WORKER_LOCK}",
        "--requirements_cache=skip",
        "--labels=penstock-pipeline=sales-2026",
        "--labels=penstock-node=statisticsgen",
        "--extra_package=penstock.whl",
        "--extra_package=own.whl",
    ]


def test_packages_are_wheels_of_penstock_and_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built here, unless one is given; with an image there are none."""
    (tmp_path / "own_step.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    given = tmp_path / "penstock-1-py3-none-any.whl"

    def found(**values: Any) -> list[str]:
        settings = tree.load([{"train": {"step": "own_step:step"}, "engine": values}])
        return [each.name.split("-")[0] for each in dataflow.packages(get("tabular"), settings, tmp_path / "out")]

    assert found() == found(wheel=str(given)) == ["penstock", "penstock_user"]
    assert found(image=f"{IMAGE}:latest") == []


def test_flags_with_an_image() -> None:
    """Nothing is staged; what is not set is left to Dataflow."""
    required = {key: CLOUD[key] for key in ("project", "region", "temp_location")}
    chosen = Engine.model_validate({**required, "image": f"{IMAGE}:latest"})

    assert dataflow.flags(chosen, "image", "Ingest", [Path("penstock.whl")])[5:] == [
        "--staging_location=gs://my-bucket/tmp/staging",
        f"--sdk_container_image={IMAGE}:latest",
        "--sdk_location=container",
        "--labels=penstock-pipeline=image",
        "--labels=penstock-node=ingest",
    ]


@pytest.mark.parametrize(
    ("pipeline", "name"), [("image", "image-ingest"), ("7_days", "penstock-7-days-ingest"), ("Ä", "ingest")]
)
def test_job_names_begin_with_a_letter(pipeline: str, name: str) -> None:
    """Dataflow allows lower case letters, digits and hyphens."""
    assert dataflow.job_name(pipeline, "Ingest") == name


def test_a_run_is_stopped_before_anything_is_written(tmp_path: Path) -> None:
    """Exit code 2, and no root."""
    flags = ["--runner", "dataflow", "--data", str(tmp_path), "--root", str(tmp_path / "root")]
    command = [str(Path(sys.executable).with_name("penstock")), "run", "tabular", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "runner dataflow: 5 settings are missing or wrong:" in done.stderr
    assert not (tmp_path / "root").exists()


def test_ingest_alone_is_refused(tmp_path: Path) -> None:
    """Its output is on this machine."""
    request = IngestRequest("gs://my-bucket/data", tmp_path / "out", Ingest(), engine=engine(runner="dataflow"))

    with pytest.raises(SettingsError, match="writes to this machine's disk"):
        ingest(request)
