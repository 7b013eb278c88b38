"""Deletes what a pipeline no longer needs, while no run works on its root.

lock ─► garbage (`garbage.py`) ─► artifacts marked as deleted in the metadata ─► seals ─► files

A process that is killed after the mark leaves files of no live artifact: the next collection finds them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.redact import redact
from components.serving import versions
from components.storage import durable
from components.storage.location import Location
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration import graph
from pipelines.orchestration.metadata import live_model, seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote import mirror, remote_root
from pipelines.orchestration.remote.lease import Lease
from pipelines.orchestration.root import lock
from pipelines.retention import garbage
from pipelines.retention.garbage import Garbage
from pipelines.retention.sizes import DiskUse

_SEALED = (garbage.SUPERSEDED, garbage.LEFTOVER, garbage.VERSION)


@dataclass(frozen=True)
class Deletion:
    """What was deleted, or would be, and how much disk space that is."""

    garbage: tuple[Garbage, ...]
    freed: int  # bytes
    kept: int

    def text(self, *, dry_run: bool) -> str:
        """Returns a line for people."""
        kinds = dict.fromkeys(each.kind for each in self.garbage)
        counts = {kind: sum(each.kind == kind for each in self.garbage) for kind in kinds}
        named = ", ".join(f"{count:,} x {kind}" for kind, count in counts.items())
        verb = "would delete" if dry_run else "deleted"
        done = f"{verb} {named} ({self.freed / 1e6:,.1f} MB)" if named else "nothing to delete"
        return f"{done}; {self.kept / 1e6:,.1f} MB stay"


def collect(config: RunConfig, *, dry_run: bool = False, wait: bool = False, take_over: bool = False) -> Deletion:
    """Deletes what the pipeline no longer needs, and returns it.

    Args:
        config: the pipeline.
        dry_run: only list it.
        wait: whether to wait for a run on the same root; else that run raises Locked.
        take_over: whether to take the lock of a root on an object store from a run that has ended elsewhere.
    """
    remote_root.prepare(config)
    remote_root.check_state(config)
    if not config.state.is_dir():
        return Deletion((), 0, 0)
    with (
        lock.hold(config.notes, wait=wait, flag="--root" if config.store is None else "--state"),
        remote_root.held(config, wait=wait, take_over=take_over) as lease,
    ):
        store = Store(config.metadata, config.name, read_only=dry_run)
        if config.server is not None and not dry_run:
            store.claim(lock.identity_of(config))
        if not dry_run:
            live_model.repair(config, store)
        found = garbage.find(config, store)
        doomed = DiskUse(_places(config, found))
        everything = DiskUse([*_homes(config), *(each.place for each in found)])
        if not dry_run:
            _delete(config, store, found, lease)
        return Deletion(tuple(found), doomed.own_bytes, everything.all_bytes - doomed.own_bytes)


def after_tick(config: RunConfig, say: Callable[[str], None]) -> Deletion | None:
    """Collects after a tick, as `gc.after_tick` asks; whatever goes wrong is said, and changes nothing for the tick."""
    if not config.settings.gc.after_tick:
        return None
    try:
        done = collect(config)
    except Exception as reason:  # noqa: BLE001 - it must not change the verdict on the tick
        say(f"nothing was collected: {redact(str(reason)) or type(reason).__name__}")
        return None
    if any(each.kind != garbage.WORKING for each in done.garbage):
        say(f"collected: {done.text(dry_run=False)}")
    return done


def _delete(config: RunConfig, store: Store, found: Sequence[Garbage], lease: Lease | None) -> None:
    store.mark_deleted(each.artifact for each in found if each.artifact is not None)
    for each in found:
        if lease is not None:
            lease.require()
        if each.kind in _SEALED:
            seals.remove(config, each.place)
        if each.kind == garbage.VERSION:
            versions.remove(each.place)
        for place in _places(config, [each]):
            durable.remove(place)


def _places(config: RunConfig, found: Sequence[Garbage]) -> list[Location]:
    """Returns what is deleted: the garbage, its seals on this machine, and local copies of what is on a store."""
    copies = mirror.Mirror(config) if config.store is not None else None
    places: list[Location] = [each.place for each in found]
    places += [seals.path(config, each.place) for each in found if each.kind in _SEALED]
    remote = [each.place for each in found if isinstance(each.place, ObjectPath)]
    return [*places, *(copies.local(place) for place in remote if copies and copies.holds(str(place)))]


def _homes(config: RunConfig) -> list[Location]:
    """Returns all that belongs to a pipeline; its root may hold files of others, too."""
    nodes = [config.root / node.id for node in graph.nodes(config.settings)]
    local = [config.notes, config.logs, config.checkpoints, config.mirror, config.report, config.quarantine_list]
    metadata = [config.metadata] if isinstance(config.metadata, Path) else []
    return [*nodes, config.serving, *local, *metadata]
