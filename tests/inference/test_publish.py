"""Predictions are published whole or not at all, on this machine and on a real S3 server."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, LedgerMismatch, Locked, SettingsError
from components.inference import close, find_model, predict_unit, units
from components.inference.data import Data
from components.inference.read_files import RawFileReader
from components.serving.reading import Argument
from components.storage.objects import ObjectPath
from components.storage.paths import files_below
from pipelines.orchestration.remote import lease
from pipelines.predict import predict

TABLE = (Argument("size", "size", "number", "float"),)
KILLED = """
import os, signal, sys
from pathlib import Path
from components.inference import close
from pipelines.predict import PredictRequest, predict
close.{function} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
predict(PredictRequest(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Three rows."""
    (tmp_path / "rows.csv").write_text("size\n1\n2\n3\n")
    return tmp_path / "rows.csv"


@pytest.mark.slow
def test_a_kill_leaves_nothing_under_the_final_name(
    saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path
) -> None:
    """B1: neither before the files have their names nor before the manifest; the next command removes what is left."""
    model, out = saved(TABLE), tmp_path / "out"
    command = [sys.executable, "-c", KILLED.format(function="write_quarantine"), str(model), str(rows), str(out)]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])

    assert done.returncode == -signal.SIGKILL
    assert not out.exists()
    assert len(list(tmp_path.glob(".aside-*"))) == 1

    predict(request_of(model, rows))

    assert (out / "manifest.json").exists()
    assert not list(tmp_path.glob(".aside-*"))


def test_a_work_unit_without_a_report_stops_it(
    saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A16: records in = predicted + quarantined, or there is no result."""
    monkeypatch.setattr(units, "store", lambda *_: None)

    with pytest.raises(LedgerMismatch, match=r"1 of 1 work units were not predicted"):
        predict(request_of(saved(TABLE), rows))

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [("list", r"predict: 1 records lost"), ("unit", r"work unit 00000-00000: 2 of 3 files were read")],
)
def test_a_lost_file_stops_it(
    place: str,
    message: str,
    saved: Any,
    request_of: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listing says how many files there are, whoever loses one."""
    (tmp_path / "texts").mkdir()
    for name in "abc":
        (tmp_path / "texts" / f"{name}.txt").write_text(name)
    files_of, batches = units.files_of, RawFileReader.batches
    if place == "list":
        monkeypatch.setattr(units, "files_of", lambda *given: files_of(*given)[1:])
    else:
        monkeypatch.setattr(RawFileReader, "batches", lambda self, names: batches(self, names[1:]))

    with pytest.raises(LedgerMismatch, match=message):
        predict(request_of(saved((Argument("text", "text", "text", "text"),), "quantity"), tmp_path / "texts"))

    assert not (tmp_path / "out").exists()


def test_a_lost_row_stops_it(
    saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A16: rows are counted where they are read, apart from what is written and quarantined."""
    complete = predict_unit._complete
    monkeypatch.setattr(predict_unit, "_complete", lambda *given: (complete(*given)[0][1:], []))

    with pytest.raises(LedgerMismatch, match=r"predict, work unit 00000-00000: 1 records lost"):
        predict(request_of(saved(TABLE), rows))

    assert not (tmp_path / "out").exists()


def test_data_that_changes_meanwhile_stops_it(
    saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predictions belong to one state of the data."""
    model, collect = saved(TABLE), units.collect

    def collect_later(*arguments: Any) -> Any:
        rows.write_text("size\n1\n2\n3\n4\n")
        return collect(*arguments)

    monkeypatch.setattr(units, "collect", collect_later)

    with pytest.raises(BadInput, match=r"changed while it was being predicted"):
        predict(request_of(model, rows))

    assert not (tmp_path / "out").exists()


def test_on_an_object_store(
    saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path, s3_bucket: str
) -> None:
    """Model, data and output are on a store: the same files as on this machine, and a second command is rejected."""
    home, model = ObjectPath(f"{s3_bucket}/home"), saved(TABLE)
    for name in files_below(model):
        (home / "model" / name.removeprefix("1/")).write_bytes((model / name).read_bytes())
    (home / "rows.csv").write_bytes(rows.read_bytes())
    (home / "out" / ".unfinished" / "files" / "00000-00007").write_bytes(b"of a prediction that was killed")
    request = request_of(home / "model", f"{home}/rows.csv", out=home / "out", state=tmp_path / "state")

    predict(request)
    predict(request_of(model, rows))

    local = {name: (tmp_path / "out" / name).read_bytes() for name in files_below(tmp_path / "out")}
    remote = {name: (home / "out" / name).read_bytes() for name in home_files(home / "out")}
    assert remote.keys() == local.keys()
    assert {name: remote[name] for name in remote if name != "manifest.json"} == {
        name: local[name] for name in local if name != "manifest.json"
    }
    with pytest.raises(SettingsError, match=r"holds predictions already; choose another folder"):
        predict(request)


class TestOnAStore:
    """What happens to objects in --out on a real S3 server."""

    @pytest.fixture
    def out(self, s3_bucket: str) -> ObjectPath:
        """The folder of the predictions."""
        return ObjectPath(f"{s3_bucket}/out")

    @pytest.fixture
    def request_(self, saved: Any, request_of: Callable[..., Any], rows: Path, tmp_path: Path, out: ObjectPath) -> Any:
        """The request to predict three rows."""
        return request_of(saved(TABLE), rows, out=out, state=tmp_path / "state")

    def test_a_prediction_that_lost_its_lock_publishes_nothing(
        self, request_: Any, out: ObjectPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It removes its own files, and none of the prediction that took the lock over."""
        collect, other = units.collect, out / ".unfinished" / "other" / "files" / "00000-00000"

        with contextlib.ExitStack() as stack:

            def collect_later(*arguments: Any) -> Any:
                stack.enter_context(lease.hold(out, "other", take_over=True))
                other.write_bytes(b"of the other")
                return collect(*arguments)

            monkeypatch.setattr(units, "collect", collect_later)
            with pytest.raises(Locked, match=r"taken over by pid"):
                predict(request_)

            assert home_files(out) == [".unfinished/other/files/00000-00000"]

    def test_one_at_a_time(self, request_: Any, out: ObjectPath) -> None:
        """The message names only flags that there are."""
        with (
            lease.hold(out, "other"),
            pytest.raises(Locked, match=r"; wait for it with --wait, or choose another --out$"),
        ):
            predict(request_)

    def test_objects_of_others(self, request_: Any, out: ObjectPath) -> None:
        """Files with names like ours are not deleted if nothing shows that a prediction left them."""
        (out / "predictions-00000-of-00001.parquet").write_bytes(b"mine")

        with pytest.raises(SettingsError, match=r"is not empty, it holds predictions-00000-of-00001.parquet"):
            predict(request_)

        assert home_files(out) == ["predictions-00000-of-00001.parquet"]

    def test_an_interrupt_after_the_manifest(
        self, request_: Any, out: ObjectPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The result is complete and stays; the interrupt is no other error."""
        finish = close.close

        def interrupted(*arguments: Any) -> None:
            finish(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(close, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            predict(request_)

        assert sorted(home_files(out)) == ["manifest.json", "predictions-00000-of-00001.parquet", "quarantine.jsonl"]


def test_names_sort_as_numbers_do(saved: Any, rows: Path) -> None:
    """Also those of more than 100,000 files."""
    found, data = find_model.find(saved(TABLE)), Data(str(rows), "CSV", ())
    reports = [units.UnitReport("", 0, 0, 0, "")] * 100_001
    names = [file.name for file in close._manifest(data, found, reports, "parquet").files]

    assert names == sorted(names)


def home_files(folder: ObjectPath) -> list[str]:
    """Returns the names of all objects but those of the lock."""
    return [name for name in folder.files_below() if not name.startswith(".penstock/")]
