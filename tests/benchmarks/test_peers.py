"""Peers have their own environments, from pinned lists."""

import re
from pathlib import Path

import pytest

from benchmarks import peers, workloads

HOME = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.all


@pytest.mark.parametrize("name", peers.names())
def test_every_package_is_pinned_without_an_index(name: str) -> None:
    """Packages come from the user's configured index."""
    lines = (peers.LOCKS / f"{name}.txt").read_text().splitlines()

    assert [line for line in lines if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)] == []


def test_peers_are_not_in_the_product_s_lock() -> None:
    """Nobody needs torch or grain to use Penstock."""
    lock = (HOME / "requirements.lock").read_text()

    assert re.findall(r"^(?:torch|grain|webdataset|simplejpeg|opencv[\w-]*)==.*", lock, re.MULTILINE) == []


def test_an_environment_must_match_its_lock(tmp_path: Path) -> None:
    """An incomplete one, or one of an older lock, is not used."""
    (tmp_path / "grain" / "bin").mkdir(parents=True)
    assert peers.python_of("grain", tmp_path) is None

    (tmp_path / "grain" / "ready").write_text("an older lock")
    assert peers.python_of("grain", tmp_path) is None

    (tmp_path / "grain" / "ready").write_text(peers._digest("grain"))
    assert peers.python_of("grain", tmp_path) == tmp_path / "grain" / "bin" / "python"


def test_contenders_name_environments_that_have_a_lock() -> None:
    """And modules that exist."""
    contenders = [each for workload in workloads.WORKLOADS.values() for each in workload.contenders]

    assert {each.environment for each in contenders} - {""} <= set(peers.names())
    files = {each.reference.partition(":")[0].replace(".", "/") + ".py" for each in contenders}
    assert [file for file in sorted(files) if not (HOME / file).is_file()] == []
