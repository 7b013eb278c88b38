"""The base model that `train.warm_start` names by its folder: finds it and copies its weights, not its graph.

With `live`, the base model is a Model artifact of this pipeline instead (`evaluation/baseline.py`).
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from components.errors import BadInput
from components.pretrained import scan
from components.pretrained.artifacts import WEIGHTS
from components.records.seal import Seal
from components.storage.hashing import HashCache

VARIABLES = Path("variables") / "variables"  # start of the names of a checkpoint's files in a SavedModel
ADVICE = "expected a model that this version of Penstock exported, such as serving/1; or set train.warm_start=none"


@dataclass(frozen=True)
class FoundModel:
    """A base model in a folder, and the digest of its weights."""

    path: str
    digest: str


def find(path: str, cache: HashCache) -> FoundModel:
    """Returns the model that `train.warm_start` names. Imports no TensorFlow."""
    folder = Path(path).expanduser().absolute()
    needed = [WEIGHTS, VARIABLES.with_suffix(".index")]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise BadInput(f"train.warm_start {folder}: there is no file {missing[0]}; {ADVICE}")
    scan.require_no_links(folder, "train.warm_start")
    return FoundModel(str(folder), _seal(folder, cache).digest)


def copy(model: FoundModel, target: Path) -> None:
    """Copies the weights of a model and their names, and checks that they are the ones that were found."""
    source = Path(model.path)
    for file in _seal(source, HashCache(None)).files:
        (target / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file.path, target / file.path)
    if _seal(target, HashCache(None)).digest != model.digest:
        raise BadInput(f"train.warm_start {source}: changed while it was copied; run again when nothing writes to it")


def _seal(folder: Path, cache: HashCache) -> Seal:
    variables = sorted(path.relative_to(folder) for path in (folder / VARIABLES).parent.iterdir() if path.is_file())
    return Seal(tuple(cache.hash_files(folder, map(str, [WEIGHTS, *variables]))))
