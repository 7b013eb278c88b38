"""What the ingest node is told: which source, which settings, where it may keep its notes."""

from dataclasses import dataclass

import orjson

from components.settings import Ingest


@dataclass(frozen=True)
class IngestConfig:
    """Travels as JSON in the component's custom_config."""

    sources: tuple[str, ...]  # references of those that the Task can use
    settings: Ingest
    hash_cache: str  # digests of source files, by stat
    checks: str  # verdicts on pictures, by content
    quarantine_list: str  # the newest quarantine list, kept even when the run stops over it

    def to_json(self) -> str:
        """Returns the configuration as text."""
        return orjson.dumps({**vars(self), "settings": self.settings.model_dump(mode="json")}).decode()

    @staticmethod
    def from_json(text: str) -> "IngestConfig":
        """Reads what `to_json` wrote."""
        stored = orjson.loads(text)
        settings, sources = Ingest.model_validate(stored["settings"]), tuple(stored["sources"])
        return IngestConfig(**{**stored, "settings": settings, "sources": sources})
