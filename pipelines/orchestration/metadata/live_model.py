"""The live pointer of a root as the plan reads it, and as a run brings it up to date.

live.json ◄─ versions that were published and are not recorded yet: a push was killed
   └ none ◄─ executions of the Pusher: the pipeline pushed before there was a live.json
"""

from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial

from components.pretrained.artifacts import RUN, SPANS, TRAINED_ON
from components.serving import live, publish, versions
from components.serving.live import LiveModel, LivePointer, Move
from components.serving.publish import Home
from components.storage.hashing import HashCache
from components.storage.location import Location, location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Artifact, Execution, Store

_REASON = "recorded from the metadata: it was pushed before there was a live pointer"


def home_of(config: RunConfig) -> Home:
    """Returns where the models of a pipeline are served, and recorded."""
    return Home(config.name, config.root, config.serving, str(config.metadata))


def pointer_of(config: RunConfig, store: Store) -> LivePointer | None:
    """Returns the live pointer as `repair` would write it; writes nothing."""
    known = live.read_of(config.root, config.name)
    missing = publish.missing_moves(known, home_of(config), _derived(config, store))
    return live.follow(known, missing, config.name) if missing else known


def repair(config: RunConfig, store: Store) -> LivePointer | None:
    """Records the versions that are not in the live pointer yet; requires the root's lock."""
    return publish.catch_up(home_of(config), _derived(config, store))


def lineage(model: Artifact, digest: str = "") -> LiveModel:
    """Returns a Model artifact as the live pointer stores it."""
    properties = model.properties
    return LiveModel(
        artifact=model.id,
        uri=str(model.uri),
        digest=digest,
        data_digest=str(properties.get(TRAINED_ON, "")),
        spans=tuple(filter(None, str(properties.get(SPANS, "")).split(","))),
        run=str(properties.get(RUN, "")),
    )


def _derived(config: RunConfig, store: Store) -> Callable[[], tuple[Move, ...]]:
    return partial(_moves_of_metadata, config, store)


def _moves_of_metadata(config: RunConfig, store: Store) -> tuple[Move, ...]:
    found = (_move_of(config, store, execution) for execution in store.finished("Pusher"))
    return tuple(reversed([move for move in found if move is not None]))


def _move_of(config: RunConfig, store: Store, execution: Execution) -> Move | None:
    """Returns the move of an execution of the Pusher; None if it pushed nothing, or its model is not known."""
    outputs = store.outputs(execution.id)
    pushed = [each.properties["pushed_destination"] for each in outputs if "pushed_destination" in each.properties]
    read = store.artifacts(store.input_ids(execution.id), "model")
    numbers = {each.properties["current_model_id"] for each in read if "current_model_id" in each.properties}
    model = next((each for each in read if each.id in numbers), None)
    if not pushed or model is None:
        return None
    made = lineage(model, _digest(config, location(pushed[0])))
    return Move("push", pushed[0], _utc(execution.updated), "", _REASON, made)


def _digest(config: RunConfig, folder: Location) -> str:
    """Returns the digest of a served version, if it is what was pushed."""
    if seals.broken(config, folder, HashCache(config.hash_cache, read_only=True)) is not None:
        return ""
    return versions.digest_of(folder)


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")
