"""Faster translation of a pipeline by Beam: a fourth of the CPU time of StatisticsGen and Transform on few records.

DoFn ─► Beam inspects the signature of every method, several times per transform ─► here: once per class
pickle ─► Beam sets the level of dill's logger, which clears the caches of all loggers ─► here: only if it changes
apply  ─► Beam builds a parser of its options, twice per transform ─► here: once per class of options
"""

import logging
from functools import wraps
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate


def speed_up() -> None:
    """Makes Beam remember what it finds out about a DoFn's class and its options. Can be called repeatedly."""
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
    view_as = PipelineOptions.view_as
    views: WeakKeyDictionary[Any, dict[type, Any]] = WeakKeyDictionary()

    @wraps(view_as)
    def view_once(options: Any, kind: type) -> Any:
        found = views.setdefault(options, {})  # all views of an object share its values
        if kind not in found:
            found[kind] = view_as(options, kind)
        return found[kind]

    PipelineOptions.view_as = view_once
