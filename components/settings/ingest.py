"""Settings of Ingest."""

from typing import Any, Literal

import pydantic

from components.settings.section import Section, split_names
from components.settings.splits import Splits

ColumnType = Literal["int", "float", "bool", "text", "bytes"]


class Ingest(Section):
    """How raw files become records."""

    splits: Splits = Splits()
    max_bad_fraction: float = pydantic.Field(0.01, ge=0, le=1, description="above it the run stops")
    max_pixels: int = pydantic.Field(50_000_000, gt=0, le=170_000_000, description="larger images are refused unread")
    max_file_mb: int = pydantic.Field(64, gt=0)
    shard_mb: int = pydantic.Field(128, gt=0, description="size that shards aim for")
    min_shards: int = pydantic.Field(8, gt=0, description="so that interleave has something to interleave")
    compression: Literal["none", "gzip"] = pydantic.Field("none", description="of rows; images are packed already")
    spans: str = pydantic.Field("all", description="of a {SPAN} pattern: all, latest, last N, or A to B as in 3-7")
    label: str = pydantic.Field("", description="column of the label; empty: one that is called so")
    columns: dict[str, ColumnType] = pydantic.Field(
        {}, description="types of columns, where the inferred ones are wrong"
    )
    unused: tuple[str, ...] = pydantic.Field((), description="columns that no model is to see, such as ids")
    text: str = pydantic.Field("", description="column of the text; empty: one that is called so, or the only one")
    split_by: str = pydantic.Field("", description="column that decides about the split; empty: all but the label")
    images: str = pydantic.Field("", description="column with paths of images; empty: found by what stands in it")
    image_check: Literal["full", "header"] = pydantic.Field("full", description="how far images are read at ingest")
    store: Literal["original", "jpeg", "raw"] = pydantic.Field("original", description="as what images are stored")
    store_side: int = pydantic.Field(256, ge=8, le=4096, description="shorter side of images stored anew, at most")
    store_quality: int = pydantic.Field(90, ge=1, le=100, description="of images stored anew as JPEG")
    near_bits: int = pydantic.Field(3, ge=-1, le=8, description="bits of 64 by which near duplicates differ; -1: off")

    @pydantic.field_validator("unused", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return split_names(value)
