"""Compares the images of the new spans with those of the live model: samples of both, number by number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.evaluation import drift, image_sample
from components.evaluation.drift import Measure, Summary
from components.evaluation.span_sample import SampledRecord
from components.records import manifest
from components.records.manifest import Shard
from components.settings.gate import Gate
from components.storage.location import Location


@dataclass(frozen=True)
class ImageDrift:
    """How the images differ."""

    measures: tuple[Measure, ...] = ()
    before: Mapping[str, Summary] = field(default_factory=dict)  # of the live model's images, by the name of a number
    records: tuple[SampledRecord, ...] = ()  # of the new spans
    notes: tuple[str, ...] = ()  # what was not compared


def compare(
    columns: Sequence[str], examples: Location, shards: Sequence[Shard], live: Location, settings: Gate
) -> ImageDrift:
    """Compares the images of some columns.

    Args:
        columns: with images.
        examples: the artifact that holds the new spans.
        shards: of the new spans, of the split that is compared.
        live: the live model's examples.
        settings: the thresholds.
    """
    if not columns or not shards:
        return ImageDrift()
    if not (live / manifest.MANIFEST).is_file():
        gone = drift.no_records("live", "the live model's records are gone: images were not compared")
        return ImageDrift((gone,))
    known = manifest.read(live).shards_of(shards[0].split)
    before, after = image_sample.take(live, known, columns), image_sample.take(examples, shards, columns)
    measures: list[Measure] = []
    summaries: dict[str, Summary] = {}
    notes: list[str] = []
    for column in columns:
        sides = before.values(column), after.values(column)
        found = drift.images(column, *sides, settings)
        measures += found
        summaries |= {each.column: drift.of_values(sides[0][each.column.rpartition(".")[2]]) for each in found}
        if not found:
            notes.append(f"{column} was not compared: no images in one of the samples")
    for name, side in (("the live model's data", before), ("the new spans", after)):
        if side.undecoded:
            notes.append(f"{side.undecoded} images of {name} could not be decoded, and were not compared")
    return ImageDrift(tuple(measures), summaries, after.records, tuple(notes))
