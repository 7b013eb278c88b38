"""What the ingest node is told: which source, which settings, where it may keep its notes."""

from dataclasses import asdict, dataclass

import orjson

from components.settings.ingest import Ingest


@dataclass(frozen=True)
class Needs:
    """What a Task asks of its data; nothing, where records are made without one."""

    sources: tuple[str, ...] = ()  # references of those that can be used; none named: all of them
    label: str = ""  # what the label is called in a record
    roles: tuple[str, ...] = ()  # of columns without which there is nothing to learn from


@dataclass(frozen=True)
class IngestConfig:
    """Travels as JSON in the component's custom_config."""

    needs: Needs
    settings: Ingest
    hash_cache: str  # digests of source files, by stat
    checks: str  # verdicts on images, by content
    quarantine_list: str  # the newest quarantine list, kept even when the run stops over it

    def to_json(self) -> str:
        """Returns the configuration as text."""
        plain = {"needs": asdict(self.needs), "settings": self.settings.model_dump(mode="json")}
        return orjson.dumps({**vars(self), **plain}).decode()

    @staticmethod
    def from_json(text: str) -> "IngestConfig":
        """Reads what `to_json` wrote."""
        stored = orjson.loads(text)
        needs = stored["needs"]
        plain = {
            "needs": Needs(tuple(needs["sources"]), needs["label"], tuple(needs["roles"])),
            "settings": Ingest.model_validate(stored["settings"]),
        }
        return IngestConfig(**{**stored, **plain})
