"""`penstock ingest` on a real Flink cluster: the same bytes as on the direct runner, for any number of workers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inference.conftest import png

pytestmark = pytest.mark.engine


def content(out: Path) -> dict[str, bytes]:
    """Returns all files of an artifact."""
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def compare(engine: Any, data: Path, home: Path, *flags: str) -> dict[str, bytes]:
    """Ingests in memory, and on Flink with 1, 2 and 4 workers; returns the files, which are equal."""
    runs = {"direct": ["--runner", "direct"]}
    runs |= {f"flink {count}": ["--runner", "flink", "--", f"--parallelism={count}"] for count in (1, 2, 4)}
    for name, own in runs.items():
        code, output = engine.run("ingest", str(data), "--out", str(home / name), *flags, *own)
        assert code == 0, output
    made = {name: content(home / name) for name in runs}
    assert [name for name in made if made[name] != made["direct"]] == []
    return made["direct"]


def test_a_table_with_stratified_splits(healthy: Any, tmp_path: Path) -> None:
    """Two passes over ranges of several files, one row of which is bad: each file is divided once."""
    random = np.random.default_rng(3)
    data = tmp_path / "rows"
    data.mkdir()
    for part in range(3):
        values = random.normal(size=(8_000, 3))
        rows = [f'{a:.6f},{b:.6f},"{c:.6f}\n{n}",{"yes" if n % 9 else "no"}\n' for n, (a, b, c) in enumerate(values)]
        (data / f"{part}.csv").write_text("a,b,text,kind\n" + "".join(rows) + ("" if part else "bad\n"))

    found = compare(healthy, data, tmp_path, "--label", "kind", "--set", "ingest.splits.stratify=true")

    assert len([name for name in found if "Split-train" in name]) > len(list(data.iterdir()))


def test_images_with_stratified_splits(healthy: Any, tmp_path: Path) -> None:
    """Files of several work units, with copies and one that is no image."""
    data = tmp_path / "photos"
    for number in range(300):
        place = data / ("few" if number % 7 == 0 else "many") / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(png(number % 200))
    (data / "many" / "1.png").write_bytes(b"<html>")

    found = compare(healthy, data, tmp_path, "--set", "ingest.splits.stratify=true")

    assert len([name for name in found if "Split-train" in name]) > 1
