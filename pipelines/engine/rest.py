"""Flink's REST service: slots, jobs, how much a job has done, cancel."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from components.errors import PenstockError

_SECONDS = 10
_CANCEL_SECONDS = 60
_POLL_SECONDS = 0.2
_ENDED = {"FINISHED", "CANCELED", "FAILED"}
_METRICS = ("read-records", "write-records", "read-bytes", "write-bytes")


class Unreachable(PenstockError):
    """Flink's REST service does not answer."""


@dataclass(frozen=True)
class Slots:
    """Slots of a cluster."""

    total: int
    free: int
    task_managers: int


@dataclass(frozen=True)
class Job:
    """One job of a cluster."""

    id: str
    name: str
    state: str
    seconds: float

    @property
    def ended(self) -> bool:
        """Whether the job will not run again."""
        return self.state in _ENDED


class Flink:
    """The REST service of one cluster; nothing is kept between calls."""

    def __init__(self, address: str) -> None:
        """Takes the address, such as http://127.0.0.1:8081."""
        self.address = address.rstrip("/")

    def slots(self) -> Slots:
        """Returns the slots of the cluster."""
        found = self._get("/overview")
        return Slots(found["slots-total"], found["slots-available"], found["taskmanagers"])

    def jobs(self) -> list[Job]:
        """Returns all jobs that the cluster remembers, the newest first."""
        found = sorted(self._get("/jobs/overview")["jobs"], key=lambda job: -int(job["start-time"]))
        return [Job(job["jid"], job["name"], job["state"], job["duration"] / 1000) for job in found]

    def job(self, name: str) -> Job | None:
        """Returns the newest job of that name."""
        return next((job for job in self.jobs() if job.name == name), None)

    def done(self, job: str) -> tuple[Any, ...]:
        """Returns what changes while a job makes progress: states, records and bytes of its vertices."""
        vertices = self._get(f"/jobs/{job}")["vertices"]
        return tuple((each["status"], *(each["metrics"].get(name) for name in _METRICS)) for each in vertices)

    def vertices(self, job: str) -> list[dict[str, Any]]:
        """Returns the vertices of a job as Flink describes them."""
        return list(self._get(f"/jobs/{job}")["vertices"])

    def subtasks(self, job: str, vertex: str) -> list[dict[str, Any]]:
        """Returns the subtasks of a vertex as Flink describes them."""
        return list(self._get(f"/jobs/{job}/vertices/{vertex}")["subtasks"])

    def failure(self, job: str) -> str:
        """Returns the first error of a job, with the stack trace of the worker, if there is one."""
        found = self._get(f"/jobs/{job}/exceptions?maxExceptions=1")
        entries = found.get("exceptionHistory", {}).get("entries", [])
        return str(entries[0]["stacktrace"]) if entries else str(found.get("root-exception") or "")

    def cancel(self, part: str) -> list[str]:
        """Cancels the jobs whose name contains a text, waits until they have ended, and returns their names."""
        end, asked = time.monotonic() + _CANCEL_SECONDS, {}
        while jobs := [job for job in self.jobs() if part in job.name and not job.ended]:
            for job in jobs:
                if job.id not in asked:
                    self._send("PATCH", f"/jobs/{job.id}?mode=cancel")
                    asked[job.id] = job.name
            if time.monotonic() > end:
                names = ", ".join(job.name for job in jobs)
                raise Unreachable(f"Flink did not cancel {names} within {_CANCEL_SECONDS} s; see {self.address}")
            time.sleep(_POLL_SECONDS)
        return list(asked.values())

    def _get(self, path: str) -> Any:
        return json.loads(self._send("GET", path) or b"{}")

    def _send(self, method: str, path: str) -> bytes:
        if not self.address.startswith(("http://", "https://")):
            raise Unreachable(f"Flink's REST address {self.address!r}: expected http://HOST:PORT")
        request = urllib.request.Request(self.address + path, method=method)  # noqa: S310 - the scheme was checked
        try:
            with _OPENER.open(request, timeout=_SECONDS) as answer:
                content: bytes = answer.read()
                return content
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise Unreachable(f"Flink's REST service {self.address} does not answer: {error}") from None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy is not asked for the cluster
