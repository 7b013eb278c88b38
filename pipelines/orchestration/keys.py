"""The fingerprint of a node: everything that its result depends on, and one key over all of it."""

import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any

import orjson

from components import fingerprint, refs
from components.native import build as native
from components.storage.hashing import digest_of, sha256_of
from pipelines.config import HOME, RunConfig
from pipelines.orchestration import graph
from pipelines.orchestration.graph import Node

WIRING = "pipelines/orchestration/build.py"  # sets the nodes up; what it imports is the nodes' own code
_IMAGES = "components.features.image"
version = lru_cache(maxsize=64)(metadata.version)  # of an installed package


def make(node: Node, config: RunConfig, upstream: Mapping[str, str], source: str, content: Mapping[str, Any]) -> Any:
    """Returns the fingerprint of a node.

    Args:
        node: the node.
        config: the run.
        upstream: keys of the nodes that it reads.
        source: reference of the source that reads the data; only Ingest depends on its code.
        content: what the node reads that no other node wrote.
    """
    code = fingerprint.sources(_modules(node, config, source))
    parts = {
        "settings": config.settings.select(node.settings),
        "parts": {name: _plain(getattr(config.task, name)) for name in node.parts},
        "code": {**code, WIRING: sha256_of(HOME / WIRING)[:16]},
        "packages": versions(node.packages),
        "upstream": dict(upstream),
        **({"decoder": _decoder()} if node.id == "Trainer" and _reads_images(config) else {}),
        **content,
    }
    made_with = {"python": platform.python_version(), "penstock": version("penstock")}  # for people: not in the key
    key = digest_of([node.id, orjson.dumps(parts, option=orjson.OPT_SORT_KEYS).decode()])
    return {**parts, "made_with": made_with, "key": key}


def without_data(fingerprint: Mapping[str, Any]) -> str:
    """Returns a digest of a node's own code, settings and libraries: of all that its data does not decide."""
    own = {name: fingerprint[name] for name in ("settings", "parts", "code", "packages")}
    return digest_of([orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode()])


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Returns the installed version of each package."""
    return {name: version(name) for name in packages}


def _modules(node: Node, config: RunConfig, source: str) -> list[str]:
    sources = [refs.module_of(source)] if node.id == "Ingest" else []
    maps = config.settings.input.maps if "input" in node.settings else ()
    step = config.settings.train.step if "train" in node.settings else ""
    own = [refs.module_of(ref) for ref in (*maps, step) if ref]
    return [*graph.entry_modules(node, config.task), *sources, *own]


def _reads_images(config: RunConfig) -> bool:
    return any(refs.module_of(ref) == _IMAGES for ref in config.task.features)


def _decoder() -> str:
    """Returns what will decode JPEGs in training: the native library if it is built or can be, else TensorFlow."""
    if os.environ.get(native.SWITCH) == "0":
        return "TensorFlow"
    try:
        usable = native.has_compiler() or native.find(native.DECODE)
        return f"native {native.key(native.DECODE)}" if usable else "TensorFlow"
    except native.NotBuilt:
        return "TensorFlow"


def _plain(value: object) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
