"""B7: one run at a time per root on an object store; a run that was killed does not block the next one."""

import socket
import threading
import time
from typing import Any

import orjson
import pytest

from components.errors import Locked
from components.storage import object_stores
from components.storage.objects import ObjectPath
from pipelines.orchestration.remote import lease


@pytest.fixture
def root(s3_bucket: str) -> ObjectPath:
    """An empty root on a real S3 server."""
    return ObjectPath(s3_bucket) / "root"


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat counts as old at once."""
    monkeypatch.setattr(lease, "OLD", -1.0)


def lock_of(root: ObjectPath) -> ObjectPath:
    """Returns the lock object."""
    return root / ".penstock" / "lock.json"


def test_another_machine_is_refused_and_told_who_works(root: ObjectPath) -> None:
    """The message names pid and host; the object is deleted at the end, and nothing else stays."""
    with lease.hold(root, "first") as held:
        with pytest.raises(Locked, match=f"by pid {held.holder['pid']} on {held.holder['host']}.*--take-over"), \
             lease.hold(root, "second"):  # fmt: skip
            pass
        held.require()

    assert root.files_below() == {}


def test_a_killed_run_of_the_same_state_folder_is_taken_over_at_once(root: ObjectPath) -> None:
    """The caller holds the local lock of that folder, so its holder is dead."""
    lock_of(root).write_bytes(orjson.dumps({"id": "x", "state": "mine", "host": socket.gethostname()}))
    with lease.hold(root, "mine") as held:
        assert orjson.loads(lock_of(root).read_bytes())["id"] == held.holder["id"]


@pytest.mark.usefixtures("old")
def test_an_old_heartbeat_of_another_machine_is_taken_over(root: ObjectPath) -> None:
    """Its age is by the clock of the store."""
    lock_of(root).write_bytes(orjson.dumps({"id": "x", "state": "other", "pid": 1, "host": "far", "started": 1.0}))
    with lease.hold(root, "mine"):
        pass

    assert root.files_below() == {}


def test_a_run_that_lost_its_lock_publishes_nothing_more(root: ObjectPath) -> None:
    """It notices at its next heartbeat, and leaves the new holder's lock alone."""
    with lease.hold(root, "first") as first, lease.hold(root, "second", take_over=True) as second:
        first.beat()
        second.beat()
        second.require()
        with pytest.raises(Locked, match="taken over by pid"):
            first.require()

    assert root.files_below() == {}


def test_one_of_several_machines_takes_an_old_lock_over(root: ObjectPath) -> None:
    """The store decides, by the identity of the object that all of them read."""
    lock_of(root).write_bytes(orjson.dumps({"id": "x", "state": "other", "pid": 1, "host": "far", "started": 1.0}))
    barrier, got = threading.Barrier(6), []

    def compete(number: int) -> None:
        holder = {"id": str(number), "state": str(number), "started": 1.0}
        identity = lock_of(root).stat().identity
        barrier.wait()
        if lock_of(root).replace_if(orjson.dumps(holder), identity):
            got.append(number)

    threads = [threading.Thread(target=compete, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [str(number) for number in got] == [orjson.loads(lock_of(root).read_bytes())["id"]]


def test_a_lock_deleted_by_hand_comes_back(root: ObjectPath) -> None:
    """The next heartbeat writes it again."""
    with lease.hold(root, "first") as held:
        lock_of(root).unlink()
        held.beat()
        held.require()
        assert orjson.loads(lock_of(root).read_bytes())["id"] == held.holder["id"]


def test_a_copied_state_folder_on_another_machine_is_not_taken_over(root: ObjectPath) -> None:
    """Its id is the same; the local lock says nothing about a run on another host."""
    lock_of(root).write_bytes(orjson.dumps({"id": "x", "state": "mine", "pid": 1, "host": "far", "started": 1.0}))
    with pytest.raises(Locked, match="by pid 1 on far"), lease.hold(root, "mine"):
        pass


def test_a_run_that_slept_looks_at_its_lock_before_it_goes_on(root: ObjectPath) -> None:
    """Another machine has taken it over meanwhile."""
    with lease.hold(root, "first") as first, lease.hold(root, "second", take_over=True):
        first._last -= 2 * lease.BEAT
        with pytest.raises(Locked, match="taken over by pid"):
            first.require()
        assert first.is_lost


def test_a_run_whose_lock_is_old_stops(root: ObjectPath, s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store cannot be reached, so another machine may hold it by now."""
    monkeypatch.setattr(object_stores, "PATIENCE", 0.1)
    with lease.hold(root, "first") as held:
        s3_server.stop()
        held._last -= 2 * lease.BEAT + 1
        held.require()  # not old yet
        held._last = time.monotonic() - lease.OLD - 1
        with pytest.raises(Locked, match="no heartbeat could be written for 180 s"):
            held.require()


def test_a_beat_that_fails_in_any_way_is_repeated(root: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on, such as after an error of the credentials."""
    with lease.hold(root, "first") as held:
        with monkeypatch.context() as context:
            context.setenv("AWS_ENDPOINT_URL", "no address")
            held.beat()
        last = held._last
        held.beat()
        assert held._last > last


def test_a_run_that_has_ended_writes_no_lock(root: ObjectPath) -> None:
    """A slow heartbeat may come after the end."""
    with lease.hold(root, "first") as held:
        pass
    held.beat()
    assert root.files_below() == {}


def test_the_end_of_a_run_leaves_another_ones_lock(root: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if that takes the lock over after it was read."""
    other = orjson.dumps({"id": "other", "state": "other", "host": "far", "pid": 1, "started": 1.0})
    read = lease._read

    def read_and_lose(path: ObjectPath) -> Any:
        found = read(path)
        path.write_bytes(other)
        return found

    with lease.hold(root, "first"):
        monkeypatch.setattr(lease, "_read", read_and_lose)
    assert lock_of(root).read_bytes() == other
