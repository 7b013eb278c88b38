"""What a person does with the models of a pipeline: list them, promote one, roll back.

target ─► intact files: of the Model artifact, or of the served version itself ─► published as the next version
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from components.errors import BadInput, NotBlessed, SettingsError
from components.pretrained.artifacts import PROVENANCE, SERVING
from components.serving import disk_push, live, publish, store_push, versions
from components.serving.live import LiveModel, LivePointer, Move
from components.storage import durable
from components.storage.hashing import HashCache
from components.storage.location import Location, location
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import live_model, seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote import remote_root
from pipelines.orchestration.root import lock
from pipelines.report import model_card


@dataclass(frozen=True)
class Wish:
    """Who moves the live pointer, why, and how."""

    reason: str = ""
    actor: str = ""  # empty: PENSTOCK_ACTOR, or user@host
    force: bool = False  # also a model that was not blessed
    wait: bool = False  # for a run on the same root
    take_over: bool = False  # the lock of a root on an object store

    def __post_init__(self) -> None:
        """Rejects a reason that would not be one line of the list."""
        live.one_line("--reason", self.reason)


@dataclass(frozen=True)
class _Target:
    """A model to publish, and where its files may be."""

    name: str  # for messages
    model: LiveModel
    folder: str = ""  # of the version that it was served as


def pointer_of(config: RunConfig) -> LivePointer:
    """Returns the live pointer of a pipeline; raises SettingsError if it never pushed a model. Writes nothing."""
    remote_root.prepare(config)
    remote_root.check_state(config)
    return _required(live_model.pointer_of(config, Store(config.metadata, config.name)), config)


def rows(pointer: LivePointer) -> list[dict[str, Any]]:
    """Returns all versions, newest first, each with its state, its move and the lineage of its model."""
    served = {home: set(versions.complete(location(home))) for home in {move.serving for move in pointer.moves}}
    newest = {move.model.artifact: move.folder for move in pointer.moves}
    states = {
        **{move.folder: "replaced" for move in pointer.moves},
        **{move.folder: "earlier" for move in pointer.earlier},
        **{move.folder: "previous" for move in pointer.earlier[:1]},
        **{move.folder: "rolled back" for move in pointer.rolled_back if newest[move.model.artifact] == move.folder},
        pointer.live.folder: "live",
    }
    return [
        {
            "version": move.version,
            "state": states[move.folder],
            "files": "complete" if move.version in served[move.serving] else "missing",
            "card": str(card) if (card := _card(move.folder)).is_file() else "",
            **asdict(move),
        }
        for move in reversed(pointer.moves)
    ]


def rollback(config: RunConfig, to: int | None, wish: Wish) -> Move:
    """Publishes an earlier version again as the next one; by default the one before the live version."""
    with _opened(config, wish) as (store, pointer):
        target = _earlier(pointer, to)
        _require_other(pointer, f"version {target.version}", target.model)
        if target.model.artifact not in store.blessed():
            raise NotBlessed(
                f"version {target.version}: its model was not blessed; expected a blessed model: promote it with "
                f"--force and a reason (penstock models promote {config.task.name} {target.version} --force --reason …)"
            )
        found = _Target(f"version {target.version}", target.model, target.folder)
        return _publish(config, store, found, "rollback", wish)


def promote(config: RunConfig, model: str, wish: Wish) -> Move:
    """Publishes a version, or a model that the pipeline trained, as the next version."""
    with _opened(config, wish) as (store, pointer):
        target = _named(config, store, pointer, model)
        _require_other(pointer, target.name, target.model)
        if target.model.artifact not in store.blessed() and not (wish.force and wish.reason):
            raise NotBlessed(
                f"{target.name}: not blessed by the Evaluator; expected a blessed model: choose another one, or "
                "promote it all the same with --force and a --reason"
            )
        return _publish(config, store, target, "promote", wish)


@contextmanager
def _opened(config: RunConfig, wish: Wish) -> Iterator[tuple[Store, LivePointer]]:
    """Holds the root as a run does; yields its metadata, and its live pointer, up to date."""
    remote_root.prepare(config)
    flag = "--root" if config.store is None else "--state"
    if isinstance(config.metadata, Path) and not config.metadata.exists():
        raise SettingsError(f"{config.root}: no pipeline has run there; expected the root of one: name it with --root")
    with (
        lock.hold(config.notes, wait=wish.wait, flag=flag),
        remote_root.held(config, wait=wish.wait, take_over=wish.take_over) as lease,
    ):
        store = Store(config.metadata, config.name, read_only=config.server is None)
        if config.server is not None:
            _required(live_model.pointer_of(config, store), config)  # else a wrong name would be claimed for good
            store.claim(lock.identity_of(config))
        pointer = _required(live_model.repair(config, store), config)
        if lease is not None:
            lease.require()
        yield store, pointer


def _required(pointer: LivePointer | None, config: RunConfig) -> LivePointer:
    if pointer is None:
        raise SettingsError(
            f"{config.root}: pipeline {config.name} has pushed no model; expected at least one: penstock run "
            f"{config.task.name}, or name its root with --root"
        )
    return pointer


def _earlier(pointer: LivePointer, to: int | None) -> Move:
    """Returns the version that a rollback leads to."""
    if to is None and pointer.previous is not None:
        return pointer.previous
    found = next((move for move in pointer.earlier if move.version == to), None)
    if found is None:
        what = "rollback" if to is None else f"--to {to}"
        known = f"expected {_numbers(pointer.earlier)}" if pointer.earlier else "there is no earlier version left"
        raise SettingsError(
            f"{what}: no version that a rollback from version {pointer.live.version} leads to; {known}. A version that "
            "was rolled back comes back with penstock models promote"
        )
    return found


def _require_other(pointer: LivePointer, name: str, model: LiveModel) -> None:
    if model.artifact == pointer.live.model.artifact:
        raise SettingsError(f"{name}: its model is live already, as version {pointer.live.version}")


def _named(config: RunConfig, store: Store, pointer: LivePointer, model: str) -> _Target:
    """Returns what a user names: a version, or the folder of a Model artifact."""
    if model.isdecimal():
        found = [move for move in pointer.moves if move.version == int(model) and move.serving == str(config.serving)]
        if not found:
            raise SettingsError(f"version {model}: no such version; expected {_numbers(pointer.moves)}")
        return _Target(f"version {model}", found[-1].model, found[-1].folder)
    place = run_config.place("MODEL", model)
    artifact = store.trained_model(place.parent if place.name == SERVING else place)
    if artifact is None:
        raise SettingsError(
            f"model {place}: the Trainer of {config.name} has written no such model; expected the number of a version, "
            f"or a folder of {config.root}/Trainer/model"
        )
    return _Target(f"model {place}", live_model.lineage(artifact))


def _numbers(moves: Sequence[Move]) -> str:
    return " or ".join(str(move.version) for move in moves) or "none"


def _publish(config: RunConfig, store: Store, target: _Target, kind: live.Kind, wish: Wish) -> Move:
    files, digest = _intact(config, store, target)
    if str(files) == target.folder:
        _restore(config, store, target.model, files)
    move = Move(
        kind, "", live.now(), live.actor(wish.actor), wish.reason, replace(target.model, digest=digest),
        source=target.folder,
    )  # fmt: skip
    published = publish.publish(files, live_model.home_of(config), move)
    card = _card(target.folder) if target.folder else None
    if card and card.is_file():
        model_card.write_again(card, _card(published.folder), published.version)
    return published


def _intact(config: RunConfig, store: Store, target: _Target) -> tuple[Location, str]:
    """Returns where the files of a model are as they were pushed, and their digest; raises BadInput if nowhere."""
    model, damage = target.model, []
    folder = location(model.uri)
    cache = HashCache(config.hash_cache, read_only=True)
    known = store.artifacts({model.artifact}, "model")
    if not known or not known[0].live or str(known[0].uri) != model.uri:
        damage.append(f"{folder}: not in the metadata")
    elif reason := seals.broken(config, folder, cache):
        damage.append(f"{folder}: {reason}")
    else:
        digest = versions.digest_of(folder / SERVING)
        if model.digest in ("", digest):
            return folder / SERVING, digest
        damage.append(f"{folder}: another model than was pushed")
    if target.folder and (served := location(target.folder)).is_dir():
        digest = versions.digest_of(served)
        if model.digest == digest or (not model.digest and seals.broken(config, served, cache) is None):
            return served, digest
        damage.append(f"{served}: other files than were pushed")
    elif target.folder:
        damage.append(f"{target.folder}: no such folder")
    raise BadInput(
        f"{target.name}: damaged or gone, so the live version stays ({'; '.join(damage)}); expected the files as they "
        "were pushed: restore them, or choose another version (penstock models list)"
    )


def _restore(config: RunConfig, store: Store, model: LiveModel, served: Location) -> None:
    """Writes the files of a Model artifact that is gone again: the next run compares with it, or starts from it."""
    folder, known = location(model.uri), store.artifacts({model.artifact}, "model")
    if not known or not known[0].live or str(known[0].uri) != model.uri:
        return
    sealed = seals.read(config, folder)
    durable.remove(folder)
    if isinstance(folder, Path):
        with durable.publish_folder(folder) as temporary:
            disk_push.copy(served, temporary / SERVING)
            (temporary / SERVING / PROVENANCE).unlink()
        return
    store_push.copy(served, folder / SERVING)
    seals.write(config, folder, seals.of_listing(folder, sealed))


def _card(folder: str) -> Location:
    """Returns the model card of a version, which is beside its folder."""
    serving, _, version = folder.rpartition("/")
    return location(serving) / model_card.name_of(version)
