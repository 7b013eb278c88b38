"""Deletes what killed and failed runs left in a root on an object store. Call it only under the locks of the root.

| left behind                              | recognised by                                       |
|------------------------------------------|-----------------------------------------------------|
| outputs of an execution, and their seals | node and number: failed or cancelled in the metadata |
| TFX's working folders, `<node>/.system`  | their place: no later run uses them                 |
| a node's local folders                   | their place in the state folder                     |

Failed executions stay in the metadata. Those that were cleaned up once are noted, so that a later run lists nothing.
"""

from typing import Any

import orjson

from components.storage import durable
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration import graph
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote.mirror import Mirror
from pipelines.orchestration.remote.staging import work_folder

_FILE = "collected.json"


def collect(config: RunConfig, root: ObjectPath, store: Store) -> None:
    """Deletes the leftovers of a root on an object store."""
    durable.remove(work_folder(config))
    known, mirror = _read(config), Mirror(config)
    found = {node.id: store.unfinished(node.id) for node in graph.nodes(config.settings)}
    new = {node: numbers - set(known.get(node, ())) for node, numbers in found.items()}
    for node, numbers in new.items():
        if numbers:
            _collect(config, root / node, numbers, store, mirror)
    if any(new.values()):
        (root / ".penstock" / "clock").remove_tree()
        noted = {**known, **{node: sorted({*known.get(node, ()), *numbers}) for node, numbers in found.items()}}
        durable.write_bytes(config.notes / _FILE, orjson.dumps(noted))


def _collect(config: RunConfig, home: ObjectPath, numbers: set[str], store: Store, mirror: Mirror) -> None:
    (home / ".system").remove_tree()
    keys = {each.name for each in home.iterdir()} | {path.name for path in mirror.local(home).glob("*")}
    for output in (home / key / number for key in sorted(keys) for number in sorted(numbers)):
        if not store.is_live(output):
            seals.remove(config, output)
            output.remove_tree()
            durable.remove(mirror.local(output))


def _read(config: RunConfig) -> dict[str, Any]:
    try:
        return dict(orjson.loads((config.notes / _FILE).read_bytes()))
    except (OSError, ValueError):
        return {}
