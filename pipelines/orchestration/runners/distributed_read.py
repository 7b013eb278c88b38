"""Reads of TFX's nodes that an engine distributes.

    Beam  source ─► split ─► read, in the subtask that split it: one worker reads all files, the others wait
    here  source ─► split ─► Reshuffle ─► read

TFX and TFMA read with `beam.io.Read`, whose parts Flink keeps in one subtask. The same records, in another order.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io import iobase
from apache_beam.pipeline import PTransformOverride

_BUNDLE = 64 << 20  # bytes, for sources that can be divided; a TFRecord file is read by one worker


class DistributeReads(PTransformOverride):
    """Replaces every read of a bounded source."""

    def matches(self, applied: Any) -> bool:
        """Whether a transform is such a read."""
        return isinstance(applied.transform, beam.io.Read) and isinstance(
            applied.transform.source, iobase.BoundedSource
        )

    def get_replacement_transform_for_applied_ptransform(self, applied: Any) -> Any:
        """Returns the read that takes its place."""
        return _DistributedRead(applied.transform.source, applied.outputs[None].element_type)


class _DistributedRead(beam.PTransform):
    """Splits a source, distributes its parts and reads them."""

    def __init__(self, source: Any, element_type: Any) -> None:
        super().__init__()
        self._source, self._type = source, element_type

    def expand(self, begin: Any) -> Any:
        return (
            begin
            | "Impulse" >> beam.Impulse()
            | "Split" >> beam.ParDo(_Split(self._source))
            | "Distribute" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadPart()).with_output_types(self._type)
        )


class _Split(beam.DoFn):
    def __init__(self, source: Any) -> None:
        self._source = source

    def process(self, _: bytes) -> Iterator[Any]:
        for part in self._source.split(_BUNDLE):
            yield part.source, part.start_position, part.stop_position


class _ReadPart(beam.DoFn):
    def process(self, part: Any) -> Iterator[Any]:
        source, start, stop = part
        yield from source.read(source.get_range_tracker(start, stop))
