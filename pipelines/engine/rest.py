"""Flink's REST service: slots, jobs, how much a job has done, cancel."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from components.errors import PenstockError

_SECONDS = 10
_GONE = (404, 409)  # answers to a cancel: the job is not known any more, or has ended
_ENDED = {"FINISHED", "CANCELED", "FAILED"}


class Unreachable(PenstockError):
    """Flink's REST service does not answer, or not as expected."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Takes the message, and the HTTP status if there was an answer."""
        super().__init__(message)
        self.status = status


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

    def cancel(self, job: str) -> None:
        """Asks Flink to cancel a job, and does not wait for it; one that has ended is left as it is."""
        try:
            self._send("PATCH", f"/jobs/{job}?mode=cancel")
        except Unreachable as error:
            if error.status not in _GONE:
                raise

    def _get(self, path: str) -> Any:
        content = self._send("GET", path)
        try:
            return json.loads(content)
        except ValueError as error:
            raise Unreachable(f"Flink's REST service {self.address} answers no JSON to {path}: {error}") from None

    def _send(self, method: str, path: str) -> bytes:
        if not self.address.startswith(("http://", "https://")):
            raise Unreachable(f"Flink's REST address {self.address!r}: expected http://HOST:PORT")
        request = urllib.request.Request(self.address + path, method=method)  # noqa: S310 - the scheme was checked
        try:
            with _OPENER.open(request, timeout=_SECONDS) as answer:
                content: bytes = answer.read()
                return content
        except (OSError, ValueError, http.client.HTTPException) as error:  # URLError is an OSError
            status = error.code if isinstance(error, urllib.error.HTTPError) else 0
            raise Unreachable(f"Flink's REST service {self.address} does not answer: {error}", status) from None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy is not asked for the cluster
