"""Settings of the engine → Beam's options for Google Cloud Dataflow, after all of them were checked.

    engine.project, region, temp_location, … ─► problems? ─┬─ any ─► ONE error that lists all of them
    root and data                                          └─ none ─► --runner=DataflowRunner --project=… …

Nothing is asked of Google here: whether a bucket exists, or a role is granted, only Google knows.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from components import progress
from components.errors import SettingsError
from components.settings.engine import Engine
from components.settings.tree import Settings
from components.storage import durable
from components.tasks import Task
from pipelines.config import RunConfig
from pipelines.package import bundle, user_code, wheel

_LONGEST_NAME = 63  # characters of a label's value; a job's name may be longer
_RUNNER = re.compile(r"--(runner|job_endpoint)(=|$)")
_BUCKET = r"gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]"


@dataclass(frozen=True)
class _Form:
    """What a setting must look like."""

    setting: str
    pattern: str
    example: str
    is_required: bool = False
    advice: str = ""


_FORMS = (
    _Form(
        "project",
        r"([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "my-project-123456",
        is_required=True,
        advice="the project's id, not its name or number",
    ),
    _Form("region", r"[a-z]+-[a-z]+[0-9]{1,2}", "europe-west1", is_required=True, advice="a region, not a zone"),
    _Form("temp_location", rf"{_BUCKET}/.+", "gs://my-bucket/tmp", is_required=True, advice="a folder in a bucket"),
    _Form("staging_location", rf"{_BUCKET}/.+", "gs://my-bucket/staging", advice="a folder in a bucket"),
    _Form("machine_type", r"[a-z][a-z0-9]*(-[a-z0-9]+)+", "n2-standard-4"),
    _Form(
        "image",
        r"[a-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+(:[\w.-]+|@sha256:[0-9a-f]{64})",
        "europe-west1-docker.pkg.dev/my-project-123456/penstock/worker:0.1.0-src0123456789ab",
        advice="with its registry, and a tag or a digest",
    ),
    _Form(
        "service_account",
        r"[a-z0-9][a-z0-9-]*@[a-z0-9.-]+\.gserviceaccount\.com",
        "penstock-worker@my-project-123456.iam.gserviceaccount.com",
    ),
)


def check(engine: Engine, root: str, data: str, own: str = "") -> None:
    """Raises SettingsError with all that is missing or malformed in the settings for Dataflow.

    Args:
        engine: the settings of the engine.
        root: of the pipeline; workers read and write artifacts below it.
        data: raw data; workers read it.
        own: version of the user's code (`user_code.version`).
    """
    problems = [*_of_settings(engine), *_of_code(engine, own), *_of_places(root, data)]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise SettingsError(f"runner dataflow: {len(problems)} settings are missing or wrong:\n{lines}")


def check_run(config: RunConfig) -> None:
    """Raises SettingsError, before anything is locked or read, if a run on Dataflow cannot work with its settings."""
    engine = config.settings.engine
    if engine.runner != "dataflow" or names_runner(config.beam_args):
        return
    own = user_code.version(user_code.modules(config.task, config.settings))
    check(engine, str(config.root), config.data, own)
    if engine.image and not bundle.code_of(engine.image):
        progress.warn(
            f"engine.image is {engine.image!r}: the tag does not name its code, so that was not compared with the code "
            f"here ({bundle.image_tag(wheel.version(), own)})"
        )


def names_runner(beam_args: Sequence[str]) -> bool:
    """Whether the user's own Beam flags say where the pipeline runs."""
    return any(_RUNNER.match(flag) for flag in beam_args)


def packages_of_run(config: RunConfig) -> list[Path]:
    """Builds the wheels for the workers of a run, in place of those of the last one."""
    folder = config.notes / "packages"
    durable.remove(folder)
    return packages(config.task, config.settings, folder)


def flags(engine: Engine, pipeline: str, node: str, packages: Sequence[Path] = (), suffix: str = "") -> list[str]:
    """Returns Beam's flags for one node; `check` has accepted the settings.

    Args:
        engine: the settings of the engine.
        pipeline: name of the pipeline, for the job's name and its labels.
        node: id of the node.
        packages: wheels for the workers, Penstock's and the user's; not needed with `engine.image`.
        suffix: of the job's name, which distinguishes it from jobs of other roots.
    """
    staging = engine.staging_location or f"{engine.temp_location.rstrip('/')}/staging"
    made = {
        "runner": "DataflowRunner",
        "project": engine.project,
        "region": engine.region,
        "job_name": job_name(pipeline, node) + (f"-{suffix}" if suffix else ""),
        "temp_location": engine.temp_location.rstrip("/"),
        "staging_location": staging.rstrip("/"),
        "machine_type": engine.machine_type,
        "max_num_workers": str(engine.workers or ""),
        "service_account_email": engine.service_account,
        **_environment(engine),
    }
    labels = {"penstock-pipeline": _label(pipeline), "penstock-node": _label(node)}
    staged = [] if engine.image else packages
    return [
        *(f"--{name}={value}" for name, value in made.items() if value),
        *(f"--labels={name}={value}" for name, value in labels.items()),
        *(f"--extra_package={package}" for package in staged),
    ]


def packages(task: Task, settings: Settings, folder: Path, include: Sequence[Path] = ()) -> list[Path]:
    """Returns the wheels for workers, Penstock's and the user's, built into a folder; none with `engine.image`."""
    engine = settings.engine
    if engine.image:
        return []
    ours = Path(engine.wheel) if engine.wheel else wheel.build(folder)
    own = user_code.build(folder, user_code.modules(task, settings), include)
    return [ours, own] if own else [ours]


def job_name(pipeline: str, node: str) -> str:
    """Returns the job's name. Dataflow refuses a second job of the same name while the first is running."""
    text = re.sub(r"[^a-z0-9]+", "-", f"{pipeline}-{node}".lower()).strip("-")
    return text if text[:1].isalpha() else f"penstock-{text}"


def _environment(engine: Engine) -> dict[str, str]:
    # Either option keeps TFX from building an archive of itself at every node.
    if engine.image:
        return {"sdk_container_image": engine.image, "sdk_location": "container"}
    # skip: workers fetch the packages. Without it, Beam would download all of them here, at every node.
    return {"requirements_file": str(wheel.WORKER_LOCK), "requirements_cache": "skip"}


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:_LONGEST_NAME]


def _of_settings(engine: Engine) -> Iterator[str]:
    for form in _FORMS:
        value: str = getattr(engine, form.setting)
        such_as = f"such as --set engine.{form.setting}={form.example}"
        advice = f" ({form.advice})" if form.advice else ""
        if not value and form.is_required:
            yield f"engine.{form.setting} is missing: {such_as}{advice}"
        elif value and not re.fullmatch(form.pattern, value):
            yield f"engine.{form.setting} is {value!r}: expected one {such_as}{advice}"


def _of_code(engine: Engine, own: str) -> Iterator[str]:
    """Yields what is wrong with the code that workers get."""
    code, ours = bundle.code_of(engine.image), bundle.image_tag(wheel.version(), own)
    if code and code != ours:
        yield (
            f"engine.image is {engine.image!r}, but the code here is {ours}: build the image again (`penstock "
            "package`), or run the code that it was built from; name an image with files of --include by its digest"
        )
    if not engine.wheel:
        return
    if not Path(engine.wheel).is_file() or not engine.wheel.endswith(".whl"):
        yield f"engine.wheel is {engine.wheel!r}: expected a file that `penstock package` built, or nothing"
    elif engine.image:
        yield "engine.wheel and engine.image are both given: the image contains the wheel, so keep one of them"
    elif not _is_ours(Path(engine.wheel)):
        yield (
            f"engine.wheel is {engine.wheel!r}, which is not the code here ({wheel.version()}): build it again "
            "(`penstock package`), or leave it out"
        )


def _is_ours(file: Path) -> bool:
    """Whether a file has name and content of the wheel that this code builds: the same code gives the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        built = wheel.build(Path(folder))
        return built.name == file.name and built.read_bytes() == file.read_bytes()


def _of_places(root: str, data: str) -> Iterator[str]:
    for name, value in (("root", root), ("data", data)):
        if not re.fullmatch(rf"{_BUCKET}/.+", value):
            yield (
                f"{name} is {value!r}: workers do not see this machine's disk, so expected a folder in a bucket such "
                f"as --{name} gs://my-bucket/{name}"
            )
