"""Settings of Ingest."""

import re
from typing import Any, Literal

import pydantic

from components.settings.section import NOT_IN_KEY, Names, Section
from components.settings.splits import Splits

ColumnType = Literal["int", "float", "bool", "text", "bytes"]


class Ingest(Section):
    """How raw files become records."""

    splits: Splits = Splits()
    max_bad_fraction: float = pydantic.Field(
        0.01,
        ge=0,
        le=1,
        description="fraction of quarantined records above which the run stops (0–1), of all records and, with "
        "a margin for chance, of those of each new span",
    )
    max_pixels: int = pydantic.Field(
        50_000_000, gt=0, le=170_000_000, description="maximum pixels per image; larger images are quarantined"
    )
    max_file_mb: int = pydantic.Field(
        64, gt=0, description="maximum size of an image or text file in MB; larger files are quarantined"
    )
    max_row_mb: int = pydantic.Field(
        64,
        ge=16,  # what is read at once: a smaller limit would depend on the position of the row
        le=1024,
        description="maximum size of one row of a table, array or TFRecord in MB (16–1024), decompressed; a larger one "
        "stops the run",
    )
    shard_mb: int = pydantic.Field(128, gt=0, description="target size of a shard in MB")
    min_shards: int = pydantic.Field(8, gt=0, description="minimum number of shards, if there are as many records")
    compression: Literal["none", "gzip"] = pydantic.Field(
        "none", description="compression of shards of rows; shards with images are never compressed"
    )
    spans: str = pydantic.Field(
        "all",
        description="which spans of a {SPAN} or {YYYY}-{MM}-{DD} pattern to read: all, latest, last N, a range such as "
        "3-7 or 2026-11-01..2026-11-14 (those of them that are there), or a list, separated by commas (all of them)",
        json_schema_extra=NOT_IN_KEY,  # the digest of the data has the spans that were read
    )
    window: str = pydantic.Field(
        "growing",
        description="spans that `penstock retrain` trains on, counted on the calendar: last N up to its own span, "
        "growing: from the first one on, or a range such as 3-9 or 2026-11-01..2026-11-14",
        json_schema_extra=NOT_IN_KEY,
    )
    late: Literal["wait", "skip", "fail"] = pydantic.Field(
        "fail",
        description="what `penstock retrain` does if its own span is missing: wait for it (--timeout), skip the "
        "retraining (exit code 10), or fail (exit code 9)",
        json_schema_extra=NOT_IN_KEY,
    )
    gaps: str = pydantic.Field(
        "fail",
        description="what `penstock retrain` does if older spans of its window are missing: fail (exit code 9), or "
        "'allow N': train without at most N of them",
        json_schema_extra=NOT_IN_KEY,
    )
    header: Literal["auto", "yes", "no"] = pydantic.Field(
        "auto",
        description="whether the first line of CSV files holds the column names; auto: decide from its cells and the "
        "lines below it",
    )
    names: Names = pydantic.Field(
        (),
        description="names of all columns of CSV files, separated by commas; empty: those in the header, or column_1, "
        "column_2 … without one",
    )
    label: str = pydantic.Field(
        "", description="label column; empty: a column with a usual name such as label or class"
    )
    unlabelled: Literal["quarantine", "keep_as_class", "stop"] = pydantic.Field(
        "quarantine",
        description="what to do with rows without a label (missing, blank, NaN or infinite): quarantine them, keep "
        "them as the class (none), or stop the run",
    )
    columns: dict[str, ColumnType] = pydantic.Field(
        {}, description="types of columns whose inferred type is wrong: int, float, bool, text or bytes"
    )
    unused: Names = pydantic.Field(
        (), description="columns that no model reads and that do not decide the split, such as ids, separated by commas"
    )
    text: Names = pydantic.Field(
        (),
        description="text column, or several separated by commas, which are joined into one; empty: a column with a "
        "usual name such as text, or the only string column",
    )
    text_separator: str = pydantic.Field(
        "\n", description="text between the columns of ingest.text, if it names several; default: a line end"
    )
    split_by: str = pydantic.Field(
        "", description="column whose value decides the split of a row; empty: all columns except label and ids"
    )
    images: str = pydantic.Field(
        "", description="column of image paths; empty: detect it from its values; none: keep paths as text"
    )
    image_check: Literal["full", "header"] = pydantic.Field(
        "full", description="full: decode every image to find damage; header: read its header only"
    )
    store: Literal["original", "jpeg", "raw"] = pydantic.Field(
        "original", description="format of stored images: the file's own bytes, re-encoded as JPEG, or decoded pixels"
    )
    store_side: int = pydantic.Field(
        256, ge=8, le=4096, description="maximum shorter side in pixels (8–4096) of images stored as jpeg or raw"
    )
    store_quality: int = pydantic.Field(90, ge=1, le=100, description="JPEG quality (1–100) of images stored as jpeg")
    near_duplicate_bits: int = pydantic.Field(
        3,
        ge=-1,
        le=8,
        description="maximum difference of two near duplicates, in bits of the 64-bit perceptual hash (0–8); -1: off",
    )

    @pydantic.field_validator("gaps")
    @classmethod
    def _is_number_of_gaps(cls, gaps: str) -> str:
        if not re.fullmatch(r"fail|allow [1-9][0-9]{0,8}", gaps):
            raise ValueError("expected fail or 'allow N'")
        return gaps

    def split_rule(self) -> dict[str, Any]:
        """Returns the settings that decide the split of a record, as plain values."""
        return {**self.splits.model_dump(mode="json"), "split_by": self.split_by, "unused": list(self.unused)}
