"""Pipeline roots that tests write by hand, as the nodes of a run write them."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from components.records import seal
from components.storage.hashing import HashCache
from components.storage.location import Location
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.remote import remote_root


def new_config(home: Path, root: str | None, flags: Sequence[str]) -> RunConfig:
    """Returns the configuration of an empty root: a folder of `home`, or a URI with its state there."""
    place, state = root or str(home / "root"), str(home / "state") if root else None
    config = run_config.make("image", data=".", root=place, state=state, flags=flags)
    config.state.mkdir(parents=True)
    with remote_root.held(config, wait=False, take_over=False):
        pass  # notes whose state the folder is, as the first run does
    return config


def write_artifact(config: RunConfig, local: Path, folder: Location) -> None:
    """Moves or uploads a local folder to the place of an artifact, and seals it."""
    if isinstance(folder, Path):
        folder.parent.mkdir(parents=True, exist_ok=True)
        local.rename(folder)
        with closing(HashCache(None)) as cache:
            seals.write(config, folder, seal.seal(folder, cache))
    else:
        for file in filter(Path.is_file, local.rglob("*")):
            (folder / file.relative_to(local).as_posix()).upload(file)
        seals.write(config, folder, seals.of_listing(folder))
