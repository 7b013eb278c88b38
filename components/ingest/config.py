"""Configuration of the Ingest node: what the Task expects of its data, settings, and paths of caches."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from components.settings.ingest import Ingest


@dataclass(frozen=True)
class Needs:
    """What a Task expects of its data; empty if records are written without a Task."""

    sources: tuple[str, ...] = ()  # references of the sources that the Task can use; empty: all of them
    label: str = ""  # name of the label in a record
    roles: tuple[str, ...] = ()  # roles for each of which there must be a column
    inputs: tuple[str, ...] = ()  # roles whose columns are inputs of the model


class IngestConfig(BaseModel):
    """Configuration of the node, passed as JSON in the component's custom_config."""

    model_config = ConfigDict(frozen=True)

    needs: Needs
    settings: Ingest
    hash_cache: str  # file: SHA-256 of source files, by path and stat
    checks: str  # file: results of image checks, by content
    quarantine_list: str  # file: copy of the newest quarantine list, which stays if the run stops
