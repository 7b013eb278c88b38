"""The columns of a table for a model: which column of the user's files is which argument, and how it is read.

    columns of the files ─► arguments of the model, by name ─► types as in training ─► label, if there is one

A type that is inferred from new data may differ from that of the training data: a column of codes may hold digits only.
So the model decides about types. Columns that it does not use cannot make a row bad.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from components import refs
from components.errors import BadInput, SettingsError
from components.ingest.sources.conversion import LABEL, is_list, is_text
from components.ingest.sources.csv import csv_header
from components.ingest.sources.csv.csv_rows import CsvRows
from components.ingest.sources.rows import LimitedRows, Sample
from components.ingest.survey import columns, references, survey, texts
from components.ingest.survey.detect import Located, Place
from components.serving.reading import Argument, Reading
from components.settings.ingest import Ingest
from components.settings.names import nearest

if TYPE_CHECKING:
    from components.ingest.sources.rows import RowSource

_FITS = {
    "int": pa.types.is_integer,
    "float": pa.types.is_floating,
    "bool": pa.types.is_boolean,
    "text": lambda kind: is_text(kind) or pa.types.is_binary(kind),
    "bytes": lambda kind: is_text(kind) or pa.types.is_binary(kind),
}
_CSV = "components.ingest.sources.csv.csv_rows:SOURCE"


@dataclass(frozen=True)
class Columns:
    """How rows become arguments of the model."""

    source: "RowSource" = field(repr=False)
    schema: pa.Schema  # to read by
    arguments: Mapping[str, str]  # column of each argument
    label: str = ""  # column, or empty
    images: str = ""  # column with paths of images, or empty
    notes: tuple[str, ...] = ()  # what was decided about the data


def of_table(located: Sequence[Located], reading: Reading, settings: Ingest, given: Mapping[str, object]) -> Columns:
    """Returns the columns of a table for a model.

    Args:
        located: the files of each span.
        reading: what the model knows.
        settings: of ingest, those of the model included.
        given: settings of ingest that the user has set for this data.
    """
    files = [each.home / name for each in located for name in each.files]
    if located[0].source == _CSV:
        settings = _with_names(files[0], reading, settings, given)
    source, decision = refs.load(located[0].source).configure(files, settings)
    schema = survey.common_schema(source, files)
    unclear = f" ({decision.text})" if decision.text else ""
    images = _image_column(located[0], Sample(source, files[0], schema), reading, given)
    wanted = {argument: _columns_of(argument, reading, settings, given, images) for argument in reading.arguments}
    _check_present(files[0], schema, reading, wanted, unclear)
    label = _label(schema, reading, given, {name for names in wanted.values() for name in names}, unclear)
    schema = _typed(files[0], schema, wanted, images, settings)
    source, schema = _only_used(source, schema, {name for names in wanted.values() for name in names} | {label})
    if label:
        schema = _label_typed(source, schema, label, reading)
    joined = {argument: names for argument, names in wanted.items() if len(names) > 1}
    for argument, names in joined.items():
        source = texts.JoinedTexts(source, tuple(map(schema.field, names)), settings.text_separator)
        schema, wanted[argument] = source.joined(schema), (source.name,)
    notes = (decision.text,) if decision.text else ()
    return Columns(source, schema, {a.name: names[0] for a, names in wanted.items()}, label, images, notes)


def _with_names(file: Place, reading: Reading, settings: Ingest, given: Mapping[str, object]) -> Ingest:
    """Returns the settings with the names of a CSV file without a header that lacks the label column."""
    if "names" in given:
        return settings
    count = len(reading.columns)
    automatic = [f"column_{number}" for number in range(1, count + 1)]
    names = list(settings.names) or (automatic if set(reading.columns) == set(automatic) else [])
    lines = csv_header.first_lines(file, settings.max_row_mb << 20)
    if not names or int(lines.records.widths[lines.first]) != len(names) - 1 or reading.label_source not in names:
        return settings
    return settings.model_copy(update={"names": tuple(name for name in names if name != reading.label_source)})


def _image_column(located: Located, sample: Sample, reading: Reading, given: Mapping[str, object]) -> str:
    """Returns the column of image paths; empty if the model reads no image, or the data has the images themselves."""
    images = [argument for argument in reading.arguments if argument.role == "image"]
    if not images:
        return ""
    names = sample.schema.names
    if images[0].column in names and pa.types.is_binary(sample.schema.field(images[0].column).type):
        return ""
    chosen = str(given.get("images", "")) or (reading.image_source if reading.image_source in names else "")
    folder = located.files[0].rpartition("/")[0]
    return references.image_column(sample, chosen, located.home, folder)


def _columns_of(
    argument: Argument, reading: Reading, settings: Ingest, given: Mapping[str, object], images: str
) -> tuple[str, ...]:
    """Returns the columns of the files that an argument is made from: several for joined texts."""
    if argument.role == "image":
        return (images or argument.column,)
    only_text = [each.role for each in reading.arguments].count("text") == 1
    if argument.role == "text" and settings.text and ("text" in given or "_".join(settings.text) == argument.column):
        return tuple(settings.text) if only_text or "text" not in given else (argument.column,)
    return (argument.column,)


def _check_present(
    file: Place, schema: pa.Schema, reading: Reading, wanted: Mapping[Argument, Sequence[str]], unclear: str
) -> None:
    missing = [(a, name) for a, names in wanted.items() for name in names if name not in schema.names]
    if not missing:
        return
    roles = {argument.role for argument, _ in missing}
    names = ", ".join(f"{name} ({argument.role})" for argument, name in missing)
    advice = ["give the columns the names that they have in the training data"]
    if "image" in roles:
        advice = ["name the column of image paths with --set ingest.images=COLUMN"]
    elif roles == {"text"}:
        advice = ["name the column of the text with --set ingest.text=COLUMN"]
    elif "header" not in unclear and "first line" in unclear:
        advice.append(f"or name the columns of a file without a header: --set ingest.names={','.join(reading.columns)}")
    raise BadInput(
        f"{file}: the model reads {names}, which the data does not have; it has {', '.join(schema.names)}{unclear}; "
        + ", ".join(advice)
    )


def _label(schema: pa.Schema, reading: Reading, given: Mapping[str, object], inputs: set[str], unclear: str) -> str:
    """Returns the label column: the user's, or that of the training data; empty if the data has none."""
    if chosen := str(given.get("label", "")):
        if chosen not in schema.names:
            raise SettingsError(
                f"label {chosen!r}: no such column in the data; {nearest(chosen, schema.names)}{unclear}"
            )
        return chosen
    known = reading.label_source or reading.label
    return known if known in schema.names and known not in inputs else ""


def _typed(
    file: Place, schema: pa.Schema, wanted: Mapping[Argument, Sequence[str]], images: str, settings: Ingest
) -> pa.Schema:
    """Returns the schema with the types that the model needs."""
    for argument, names in wanted.items():
        for name in names:
            field_ = schema.field(name)
            if argument.role == "tensor":
                _check_tensor(file, field_, argument)
            elif is_list(field_.type):
                raise BadInput(
                    f"{file}: column {name!r} has lists ({field_.type}) in its first rows; the model expects one value "
                    f"({argument.kind}) per row: convert the column as for its training data"
                )
            elif name != images and not _FITS[argument.kind](field_.type):
                schema = columns.with_types(schema, {name: argument.kind})  # type: ignore[dict-item]
    own = {name: kind for name, kind in settings.columns.items() if name in schema.names and name != images}
    used = {name for names in wanted.values() for name in names}
    return columns.with_types(schema, {name: kind for name, kind in own.items() if name not in used})


def _check_tensor(file: Place, found: pa.Field, argument: Argument) -> None:
    import numpy as np

    shape = " x ".join(map(str, argument.shape))
    expected = f"{argument.dtype} {shape}".strip()
    if not columns.is_tensor(found):
        if not pa.types.is_binary(found.type):
            raise BadInput(f"{file}: column {found.name!r} is {found.type}; the model expects tensors of {expected}")
        return
    stored = found.metadata.get(b"shape", b"").decode()
    same = tuple(map(int, filter(None, stored.split(",")))) == tuple(argument.shape)
    if not same or np.dtype(found.metadata[b"dtype"].decode()).name != argument.dtype:
        raise BadInput(
            f"{file}: column {found.name!r} has tensors of {columns.shape_of(found)}; the model expects {expected}: "
            "convert the arrays as for its training data"
        )


def _only_used(source: "RowSource", schema: pa.Schema, used: set[str]) -> tuple["RowSource", pa.Schema]:
    """Returns source and schema without columns that nothing reads, or with them as bytes: they make no row bad."""
    if isinstance(source, CsvRows):
        return source, columns.with_types(schema, {name: "bytes" for name in schema.names if name not in used})
    if isinstance(source, LimitedRows):
        source = replace(source, only_schema=True)
    return source, pa.schema([each for each in schema if each.name in used])


def _label_typed(source: "RowSource", schema: pa.Schema, label: str, reading: Reading) -> pa.Schema:
    """Returns the schema with the label as the model has it; rows with a label that is missing are predicted too."""
    if reading.kind == "class":
        schema = columns.with_class_names(schema, label)
        if pa.types.is_floating(schema.field(label).type):
            schema = columns.with_types(schema, {label: "text"})
    elif isinstance(source, CsvRows) or _FITS["text"](schema.field(label).type):
        schema = columns.with_types(schema, {label: "text"})  # one that is no number is no label, and the row is good
    elif not pa.types.is_floating(schema.field(label).type):
        schema = columns.with_types(schema, {label: "float"})
    return columns.mark(schema, label, LABEL)
