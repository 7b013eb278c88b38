"""What kind of label a column is, and which settings need classes."""

import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources.conversion import is_list, is_text
from components.ingest.survey.columns import is_tensor
from components.settings.ingest import Ingest


def has_classes(label: pa.Field) -> bool:
    """Whether a label names a class: lists, tensors and floats do not."""
    return not (is_list(label.type) or is_tensor(label) or pa.types.is_floating(label.type))


def check(schema: pa.Schema, label: str, settings: Ingest) -> None:
    """Rejects settings that need classes, if the label is none."""
    if settings.splits.stratify and not (label and has_classes(schema.field(label))):
        what = f"the label {label!r} is {schema.field(label).type}" if label else "the data has no label"
        raise SettingsError(f"setting ingest.splits.stratify: needs a label with classes, but {what}; set it to false")
    if settings.unlabelled == "keep_as_class" and label and not is_name(schema.field(label)):
        raise SettingsError(
            f"setting ingest.unlabelled: keep_as_class needs a label of text, but {label!r} is "
            f"{schema.field(label).type}; use quarantine or stop, or --set ingest.columns.{label}=text"
        )


def is_name(label: pa.Field) -> bool:
    """Whether a label is the name of a class, as text or bytes."""
    return has_classes(label) and bool(is_text(label.type) or pa.types.is_binary(label.type))
