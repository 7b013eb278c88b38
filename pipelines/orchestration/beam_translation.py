"""Faster translation of a pipeline by Beam: a fourth of the CPU time of StatisticsGen and Transform on few records.

DoFn ─► Beam inspects the signature of every method, several times per transform ─► here: once per class
pickle ─► Beam sets the level of dill's logger, which clears the caches of all loggers ─► here: only if it changes
"""

import logging
from functools import wraps
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.transforms import userstate


def speed_up() -> None:
    """Makes Beam remember what it finds out about a DoFn's class. Can be called repeatedly."""
    inspect = userstate.get_dofn_specs
    if hasattr(inspect, "__wrapped__"):
        return
    known: WeakKeyDictionary[type, Any] = WeakKeyDictionary()

    @wraps(inspect)
    def specs(dofn: Any) -> Any:
        if any(isinstance(value, MethodType) for value in vars(dofn).values()):
            return inspect(dofn)  # has methods of its own beside those of its class
        if type(dofn) not in known:
            known[type(dofn)] = inspect(dofn)
        return known[type(dofn)]

    userstate.get_dofn_specs = specs
    log = logging.getLogger("dill")
    set_level = log.setLevel

    def set_other_level(level: int) -> None:
        if level != log.level:
            set_level(level)

    log.setLevel = set_other_level  # type: ignore[method-assign,assignment]
