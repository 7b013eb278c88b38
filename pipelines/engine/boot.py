"""The program that a task manager starts as a Python worker, in the worker's own environment.

    task manager ─► boot --id=… --provision_endpoint=… ─► asks for the job's options ─► Beam's worker, in this process
    submitter    ─► boot --self-test ─► versions as JSON, before a job is submitted

The job's options name the code of the submitter: a worker that has another one ends with an error.
It imports nothing from the working folder: it is started by `python -I`.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

LOGS = "PENSTOCK_WORKER_LOGS"  # environment variable of a task manager: where its workers write their logs
NAME = "PENSTOCK_TASK_MANAGER"  # environment variable of a task manager: its name
PACKAGES = (
    "apache-beam", "tensorflow", "tfx", "tensorflow-transform", "tensorflow-data-validation",
    "tensorflow-model-analysis", "tfx-bsl", "keras", "numpy", "pyarrow", "pillow",
)  # fmt: skip
_CODE = "penstock_code:"
_IMPORTED = ("apache_beam", "components.ingest.units", "components.fitting", "pipelines.log", "schemas")
_FOUND = ("tensorflow", "tfx", "tensorflow_transform", "tensorflow_data_validation", "tensorflow_model_analysis")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a worker until its job ends, or the self-test."""
    parser = argparse.ArgumentParser(prog="boot")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--import", dest="modules", action="append", default=[])  # modules of the user
    parser.add_argument("--id", default="")
    parser.add_argument("--provision_endpoint", default="")
    given, _ = parser.parse_known_args(arguments)
    if given.self_test:
        print(json.dumps(describe(given.modules)))
        return
    _write_log()
    from pipelines import log

    log.prepare_environment()
    _prepare(given.id, given.provision_endpoint)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


def describe(modules: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the versions that decide what a worker computes; raises ImportError if a module is missing."""
    for name in (*_IMPORTED, *modules):
        importlib.import_module(name)
    missing = [name for name in _FOUND if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(f"No module named {', '.join(missing)}")
    return {"penstock": metadata.version("penstock"), **versions()}


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that compute results."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


def expected(penstock: str, own: str) -> list[str]:
    """Returns the experiments, among the options of a job, that name the versions of Penstock's and the user's code."""
    return [f"{_CODE}penstock={penstock}", *([f"{_CODE}penstock-user={own}"] if own else [])]


def compare(experiments: Sequence[str]) -> None:
    """Ends this process with an error unless its code is the one that the options of the job name."""
    for each in experiments:
        if each.startswith(_CODE):
            name, _, version = each.removeprefix(_CODE).partition("=")
            try:
                found = metadata.version(name)
            except metadata.PackageNotFoundError:
                found = "not installed"
            if found != version:
                sys.exit(f"penstock: this worker has other code than the run: {name} {found}, expected {version}")


def _prepare(worker_id: str, endpoint: str) -> None:
    """Asks the task manager for the job's options and endpoints, and sets the variables that Beam's worker reads."""
    import grpc  # type: ignore[import-untyped]
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
    from google.protobuf import json_format, text_format

    with grpc.insecure_channel(endpoint) as channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        info = service.GetProvisionInfo(request, timeout=60, metadata=(("worker_id", worker_id),)).info
    options = json_format.MessageToJson(info.pipeline_options)
    compare(json.loads(options).get("beam:option:experiments:v1") or ())
    os.environ.update(
        WORKER_ID=worker_id,
        PIPELINE_OPTIONS=options,
        LOGGING_API_SERVICE_DESCRIPTOR=text_format.MessageToString(info.logging_endpoint),
        CONTROL_API_SERVICE_DESCRIPTOR=text_format.MessageToString(info.control_endpoint),
        RUNNER_CAPABILITIES=" ".join(info.runner_capabilities),
    )
    if info.HasField("status_endpoint"):
        os.environ["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(info.status_endpoint)
    job = json.loads(options).get("beam:option:job_name:v1", "")
    print(json.dumps({"job": job, "worker": worker_id, "pid": os.getpid()}), flush=True)


def _write_log() -> None:
    """Sends the output of this process to a file of its own, if the engine named a folder; it is kept."""
    if folder := os.environ.get(LOGS):
        with contextlib.suppress(OSError):
            name = f"worker-{os.environ.get(NAME, 'external')}-{os.getpid()}.log"
            log = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, sys.stdout.fileno())
            os.dup2(log, sys.stderr.fileno())


if __name__ == "__main__":
    main()
