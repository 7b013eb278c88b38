"""Files inside model artifacts, and properties: the served model, its extractor, where it came from, its weights."""

from pathlib import Path

from components.storage.location import Location

SERVING = "Format-Serving"  # folder of the model inside TFX's Model artifact
LABELS = Path("assets") / "labels"  # in an exported SavedModel: its classes, most frequent first
EXTRACTOR = Path("assets.extra") / "extractor.keras"  # in an exported SavedModel: the model without its head
PROVENANCE = Path("assets.extra") / "provenance.json"  # in a pushed SavedModel: pipeline and artifact it came from
PRETRAINED = Path("assets.extra") / "pretrained.txt"  # in a SavedModel trained on embeddings: digest of their model
WEIGHTS = Path("assets.extra") / "weights.json"  # in an exported SavedModel: names for a warm start
READING = Path("assets.extra") / "reading.json"  # in an exported SavedModel: how raw data becomes its arguments
DATA_DIGEST = "input_fingerprint"  # property of Examples artifacts: digest of the data; the name is TFX's
TRAINED_ON = "trained_on"  # property of Model artifacts: digest of the data that it was trained on
SPANS = "spans"  # property of Model artifacts: names of the spans that it was trained on; empty without spans
RUN = "run"  # property of Model artifacts: id of the run that trained it
_SHOWN = 5  # classes in a message
_PRETRAINED_BEFORE = PRETRAINED.with_name("looked_at_by.txt")  # its name in models of before 0.2


def copy_path(model: str, target: Path) -> Path:
    """Returns where a copy of a model is stored: a folder, a .keras file, or a text file with a name."""
    source = Path(model)
    return target if source.is_dir() else target.with_suffix(".keras" if source.is_file() else ".txt")


def model_path(model: Path) -> str:
    """Returns the pretrained model that the Extractor stored at `model`: a folder, a .keras file, or a name."""
    if (name := model.with_suffix(".txt")).exists():
        return name.read_text()
    single = model.with_suffix(".keras")
    return str(single if single.exists() else model)


def are_comparable(model: Location, other: Location) -> bool:
    """Returns whether two Model artifacts read the same inputs (or embeddings) and predict the same classes."""
    return not difference(model, other)


def difference(baseline: Location, candidate: Location) -> str:
    """Says why two Model artifacts cannot be compared; empty if they can."""
    if _pretrained_digest(baseline) != _pretrained_digest(candidate):
        return "it was trained with another extract.model"
    theirs, ours = _classes(baseline), _classes(candidate)
    lacks = [
        f"{which} lacks {_some(names)}"
        for which, names in (("it", ours - theirs), ("this model", theirs - ours))
        if names
    ]
    return f"it predicts other classes ({'; '.join(lacks)})" if lacks else ""


def _some(names: set[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(sorted(names)[:_SHOWN]) + more


def _classes(model: Location) -> set[str]:
    """Returns the classes of a model; none if it predicts a quantity."""
    labels = model / SERVING / LABELS.as_posix()
    return set(labels.read_bytes().decode(errors="backslashreplace").split("\n")[:-1]) if labels.exists() else set()


def _pretrained_digest(model: Location) -> str:
    files = [model / SERVING / file.as_posix() for file in (PRETRAINED, _PRETRAINED_BEFORE)]
    return next((file.read_bytes().decode() for file in files if file.exists()), "")
