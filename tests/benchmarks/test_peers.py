"""Peers live in environments of their own, made from pinned lists."""

import re
from pathlib import Path

import pytest

from benchmarks import peers, workloads

HOME = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.all


@pytest.mark.parametrize("name", peers.names())
def test_every_package_is_pinned_and_no_address_is_named(name: str) -> None:
    """Packages come from the index that a user has configured."""
    lines = (peers.LOCKS / f"{name}.txt").read_text().splitlines()

    assert [line for line in lines if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)] == []


def test_peers_are_not_in_the_product_s_lock() -> None:
    """Nobody needs torch or grain to use Penstock."""
    lock = (HOME / "requirements.lock").read_text()

    assert re.findall(r"^(?:torch|grain|webdataset|simplejpeg|opencv[\w-]*)==.*", lock, re.MULTILINE) == []


def test_an_environment_counts_when_it_was_made_from_this_lock(tmp_path: Path) -> None:
    """One whose making was killed, or that an older lock made, does not."""
    (tmp_path / "grain" / "bin").mkdir(parents=True)
    assert peers.python_of("grain", tmp_path) is None

    (tmp_path / "grain" / "ready").write_text("an older lock")
    assert peers.python_of("grain", tmp_path) is None

    (tmp_path / "grain" / "ready").write_text(peers._digest("grain"))
    assert peers.python_of("grain", tmp_path) == tmp_path / "grain" / "bin" / "python"


def test_contenders_name_environments_that_have_a_lock() -> None:
    """And modules that are there."""
    contenders = [each for workload in workloads.WORKLOADS.values() for each in workload.contenders]

    assert {each.environment for each in contenders} - {""} <= set(peers.names())
    files = {each.reference.partition(":")[0].replace(".", "/") + ".py" for each in contenders}
    assert [file for file in sorted(files) if not (HOME / file).is_file()] == []
