"""Brightness, contrast, entropy and size of a sample of the images of some shards.

    shards ─► records spread over them ─► decoded at about 64 pixels per side ─► luma histogram ─► numbers per image

The sample is the same in every run. Records between those of the sample are skipped by their headers, without reading
their data; a JPEG is decoded at a fraction of its size, gray only.
"""

import gzip
import io
import itertools
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from components.evaluation.span_sample import SampledRecord
from components.records.manifest import Shard
from components.records.tfrecord import walk
from components.storage.local_copy import local_copy
from components.storage.location import Location

if TYPE_CHECKING:
    import numpy.typing as npt

MEASURES = ("brightness", "contrast", "entropy", "size")
_MOST, _LEAST = 2000, 200  # images
_BYTES = 200 << 20  # of records of the sample, about: fewer images if they are large
_SHARDS, _SKIPPED = 32, 200_000  # that are read; records that are passed over
_SIDE = 64  # pixels of the shorter side at least, if the image has them
_FORMATS = ("JPEG", "PNG", "PPM")  # those that Ingest writes


@dataclass(frozen=True)
class ImageSample:
    """The numbers of some images, as a record per image, and how many images could not be decoded."""

    records: tuple[SampledRecord, ...]  # values by name, such as image.brightness
    undecoded: int = 0

    def values(self, column: str) -> dict[str, list[float]]:
        """Returns the numbers of all images of a column, by measure."""
        names = zip(MEASURES, measure_names(column), strict=True)
        return {kind: [each.values[name] for each in self.records if name in each.values] for kind, name in names}


def measure_names(column: str) -> tuple[str, ...]:
    """Returns the names of the numbers of an image column."""
    return tuple(f"{column}.{each}" for each in MEASURES)


def take(artifact: Location, shards: Sequence[Shard], columns: Sequence[str]) -> ImageSample:
    """Returns the numbers of a sample of the images in these shards.

    Args:
        artifact: that holds the shards.
        shards: to sample.
        columns: with images.
    """
    from tensorflow.core.example import example_pb2

    chosen = [shard for shard in shards if shard.records]
    chosen = [chosen[at] for at in spread(len(chosen), _SHARDS)]
    found, undecoded = [], 0
    for place, record in _records(artifact, chosen, len(columns)):
        features = example_pb2.Example.FromString(record).features.feature
        values: dict[str, float] = {}
        for column in columns:
            content = features[column].bytes_list.value if column in features else ()
            if not content or not content[0]:
                continue
            numbers = numbers_of(content[0])
            undecoded += numbers is None
            values.update(zip(measure_names(column), numbers or (), strict=False))
        found.append(SampledRecord(place, values))
    return ImageSample(tuple(found), undecoded)


def spread(count: int, most: int) -> list[int]:
    """Returns at most so many of `count` indices, spread over all of them.

    Of each of `most` equal parts, one index by a hash: records that repeat in a fixed order do not bias the sample.
    """
    if count <= most:
        return list(range(count))
    edges = [part * count // most for part in range(most + 1)]
    return [
        low + zlib.crc32(part.to_bytes(4, "big")) % (high - low)
        for part, (low, high) in enumerate(itertools.pairwise(edges))
    ]


def numbers_of(content: bytes) -> tuple[float, ...] | None:
    """Returns brightness, contrast, entropy and size of an encoded image; None if it cannot be decoded.

    Brightness and contrast: mean and standard deviation of the luma (0–255); entropy of its histogram in bits (0–8);
    size: square root of the number of pixels.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            pixels = image.width * image.height
            return (*_of_histogram(np.array(_gray(image).histogram())), math.sqrt(pixels))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _gray(image: Any) -> Any:
    """Returns a small gray copy of an image."""
    from PIL import Image

    image.draft("L", (_SIDE, _SIDE))  # JPEG: decode an eighth of the size, if that is enough
    factor = max(1, min(image.size) // _SIDE)
    if image.mode.startswith("I"):  # 16 bits: the upper 8, as TensorFlow decodes them; Pillow would clip
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    return image.reduce(factor).convert("L")


def _of_histogram(counts: "npt.NDArray[Any]") -> tuple[float, float, float]:
    shares = counts / counts.sum()
    levels = np.arange(len(shares))
    mean = float(shares @ levels)
    deviation = math.sqrt(max(0.0, float(shares @ (levels - mean) ** 2)))
    present = shares[shares > 0]
    return mean, deviation, float(-(present * np.log2(present)).sum()) + 0.0


def _records(artifact: Location, shards: Sequence[Shard], columns: int) -> Iterator[tuple[str, bytes]]:
    """Yields the place and the data of the records of the sample."""
    most = -(-_SKIPPED // max(1, len(shards)))
    counts = [min(shard.records, most) for shard in shards]
    mean = sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))
    size = min(_MOST // max(1, columns), max(_LEAST, int(_BYTES / max(1.0, mean))))
    wanted = spread(sum(counts), size)
    first = 0
    for shard, count in zip(shards, counts, strict=True):
        own = [each - first for each in wanted if first <= each < first + count]
        first += count
        if own:
            yield from _of_shard(artifact, shard, own)


def _of_shard(artifact: Location, shard: Shard, wanted: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    is_gzip = shard.name.endswith(".gz")
    with (
        local_copy(artifact / shard.name) as file,
        walk.explained(file),
        gzip.open(file) if is_gzip else file.open("rb") as stream,
    ):
        for index, record in walk.records_at(stream, wanted):
            yield f"{shard.name} record {index}", record
