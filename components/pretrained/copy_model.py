"""Copies a pretrained model, and checks the copy: what is checked is what is loaded.

original ─► copy ─► no links ─► same digest as planned ─► scanned, unless it is trusted ─► loaded
"""

import shutil
from pathlib import Path

from components.errors import BadInput
from components.pretrained import artifacts, scan
from components.pretrained.find import PretrainedModel
from components.records import seal
from components.storage import durable
from components.storage.hashing import HashCache, sha256_of


def copy_model(model: PretrainedModel, target: Path) -> str:
    """Copies a model to `target`, which gets its suffix, and returns what to load: the copy, or a name."""
    source, target = Path(model.path), artifacts.copy_path(model.path, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        scan.require_no_links(target)
        digest = seal.seal(target, HashCache(None)).digest
    elif source.is_file():
        shutil.copy2(source, target)
        digest = sha256_of(target)
    else:
        durable.write_bytes(target, model.path.encode())
        return model.path
    if digest != model.digest:
        raise BadInput(f"extract.model {source}: changed while it was copied; run again when nothing writes to it")
    if not model.trusted:
        scan.require_harmless(target, model.path)
    return str(target)
