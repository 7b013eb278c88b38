"""The workers of a training, from TF_CONFIG, as TensorFlow defines it.

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", "index": 0}}

A `chief`, if there is one, comes before the workers. The first of all is the chief: it runs the pipeline.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from components.errors import SettingsError

VARIABLE = "TF_CONFIG"
_TYPES = ("chief", "worker")  # others, such as an evaluator, take no part in training
_ANSWER_SECONDS = 2.0


@dataclass(frozen=True)
class Cluster:
    """The addresses of all workers, and which of them this process is."""

    addresses: tuple[str, ...]
    index: int = 0

    @property
    def is_chief(self) -> bool:
        """Whether this worker runs the pipeline, and writes everything that training writes."""
        return self.index == 0

    def silent(self) -> list[str]:
        """Returns the other workers that do not answer, each with its address."""
        others = [number for number in range(len(self.addresses)) if number != self.index]
        return [f"worker {number} ({self.addresses[number]})" for number in others if not self.answers(number)]

    def answers(self, number: int) -> bool:
        """Whether a worker accepts connections."""
        host, _, port = self.addresses[number].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        except OSError:
            return False
        return True


def read(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Returns the cluster of TF_CONFIG, or None if there is none with several workers."""
    if not (text := environment.get(VARIABLE, "")):
        return None
    try:
        return _parsed(orjson.loads(text))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{VARIABLE} is {text!r}: {error}; expected "
            '{"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": "worker", "index": 0}}'
        ) from None


def expected(workers: int) -> Cluster | None:
    """Returns the cluster of TF_CONFIG; raises SettingsError unless it has that many workers (0: any number)."""
    found = read()
    count = len(found.addresses) if found else 1
    if workers not in (0, count):
        raise SettingsError(
            f"train.workers is {workers}, but {VARIABLE} lists {count if found else 'no'} workers; "
            f"set {VARIABLE} on every worker (docs/distributed.md), or train.workers to {count}"
        )
    return found


def _parsed(config: Any) -> Cluster | None:
    tasks = [(kind, number) for kind in _TYPES for number in range(len(config["cluster"].get(kind, ())))]
    if len(tasks) < 2:  # noqa: PLR2004 - one worker alone needs nobody
        return None
    addresses = tuple(str(config["cluster"][kind][number]) for kind, number in tasks)
    for address in addresses:
        if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdigit():
            raise ValueError(f"{address!r} is not an address")
    return Cluster(addresses, tasks.index((config["task"]["type"], int(config["task"]["index"]))))
