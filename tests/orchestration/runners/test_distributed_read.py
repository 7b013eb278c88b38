"""Reads of TFX's nodes on an engine: every file once, each behind a shuffle."""

from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from pipelines.orchestration.runners.distributed_read import DistributeReads


def test_every_record_is_read_once_behind_a_shuffle(tmp_path: Path) -> None:
    """Two files are two elements of the shuffle, and no plain read is left."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    with beam.Pipeline() as pipeline:
        read = pipeline | beam.io.ReadFromText(str(tmp_path / "*.txt"))
        assert_that(read, equal_to(["a1", "a2", "b1", "b2"]))
        pipeline.replace_all([DistributeReads()])
        names = [each.unique_name for each in pipeline.to_runner_api().components.transforms.values()]

    assert any(name.endswith("Read/Distribute") for name in names)
    assert not any("SDFBoundedSourceReader" in name for name in names)
