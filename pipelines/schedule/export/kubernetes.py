"""A CronJob of Kubernetes."""

from pathlib import Path
from typing import Any

import orjson

from components.errors import Locked, NotBlessed, Skipped
from pipelines.schedule.export import crontab
from pipelines.schedule.export.exported import ExportedFile, command, cron_fields, cron_text, require_one_catch_up
from pipelines.schedule.schedule import PipelineSchedule

_GRACE = 60  # seconds
_DAY = 24 * 3600
_PLACES = ("--root", "--state", "--settings")  # that every retraining needs again
_LONGEST_NAME = 52  # characters: a job has 11 more
# A job knows success and failure only: a run that is not better is no failure. And a shell that is process 1 ignores
# SIGTERM, so it must hand it on: else the Trainer is killed without a checkpoint. `wait` ends at each signal.
_SCRIPT = (
    """trap 'kill $!' TERM; penstock "$@" & wait $!; code=$?; """
    "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done; "
    "case $code in {}) exit 0;; esac; exit $code"
)


def export(schedule: PipelineSchedule, image: str, claim: str, mount: str) -> list[ExportedFile]:
    """Returns the manifest of a schedule.

    Args:
        schedule: the schedule; its paths are those in the container.
        image: a container image with `penstock` on the PATH.
        claim: name of the persistent volume claim with root and data; empty: none, for a root on an object store.
        mount: where the claim is mounted.
    """
    require_one_catch_up(schedule, "kubernetes")
    fields = cron_fields(schedule)
    expression = (
        cron_text(schedule, fields, has_star_steps=False) if fields else crontab.expression_of_interval(schedule)
    )
    codes = "|".join(str(error.exit_code) for error in (NotBlessed, Skipped, Locked))
    container: dict[str, Any] = {
        "name": "retrain",
        "image": image,
        "workingDir": schedule.folder,
        "command": ["sh", "-c", _SCRIPT.format(codes), *(_reference(word) for word in command(schedule, "penstock"))],
    }
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if claim:
        container["volumeMounts"] = [{"name": "state", "mountPath": mount}]
        pod["volumes"] = [{"name": "state", "persistentVolumeClaim": {"claimName": claim}}]
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"penstock-{schedule.name.replace('_', '-')}"[:_LONGEST_NAME].rstrip("-")},
        "spec": {
            "schedule": expression,
            "timeZone": schedule.zone,
            "concurrencyPolicy": "Allow" if schedule.overlap == "queue" else "Forbid",  # a queued one waits: --wait
            "startingDeadlineSeconds": _DAY if schedule.catch_up == "last" else _GRACE,
            "jobTemplate": {"spec": {"backoffLimit": 2, "template": {"spec": pod}}},
        },
    }
    return [ExportedFile(f"penstock-{schedule.name}.yaml", _yaml(manifest))]


def warnings(schedule: PipelineSchedule, claim: str, mount: str) -> list[str]:
    """Returns what a pod would not find, or lose at its end: what is not on the volume."""
    if not claim:
        return ["no --claim: the pod has no volume, so it reads and writes only what is in the image or on a store"]
    given = dict(zip(schedule.arguments, schedule.arguments[1:], strict=False))
    places = {flag: place for flag in _PLACES if (place := given.get(flag)) and "://" not in place}
    places["working folder"] = schedule.folder  # of relative paths in the settings
    return [
        f"{flag} {place}: not below --mount {mount}, so not on the volume; add the schedule with the container's paths"
        for flag, place in places.items()
        if not Path(place).is_relative_to(mount)
    ]


def _reference(word: str) -> str:
    """Returns a word of a command; Kubernetes would expand $(NAME)."""
    return word.replace("$", "$$")


def _yaml(value: Any, indent: str = "") -> str:
    """Returns YAML whose scalars are JSON, which YAML contains: nothing in them can be read in another way."""
    if isinstance(value, dict):
        return "".join(f"{indent}{key}:{_below(each, indent)}" for key, each in value.items())
    return "".join(f"{indent}- {_yaml(each, indent + '  ').lstrip()}" for each in value)


def _below(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        return "\n" + _yaml(value, indent + "  ")
    if isinstance(value, list) and not all(isinstance(each, str) for each in value):
        return "\n" + _yaml(value, indent + "  ")
    if isinstance(value, list):
        return "\n" + "".join(f"{indent}  - {orjson.dumps(each).decode()}\n" for each in value)
    return f" {orjson.dumps(value).decode()}\n"
