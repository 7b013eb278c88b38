"""Why a node runs or not, in words: what changed since its last execution."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components import fingerprint
from pipelines.orchestration.graph import Node

OTHER_INPUTS = "its inputs are other artifacts than last time"
_CONTENT = {
    "parts": "task",
    "decoder": "JPEG decoder",
    "base_digest": "model of train.warm_start",
    "extractor_digest": "extract.model",
    "extractor_trusted": "trust in extract.model",
    "schema_digest": "schema",
    "serving": "serving folder",
    "live_span_digest": "data of the live model",
    "accepted": "accepted findings",
}


def unchanged(node: Node) -> str:
    """Says what an up-to-date node was compared by."""
    kinds = [
        *(["data"] if node.id == "Ingest" else ["inputs"] if node.upstream else []),
        *(["schema"] if node.id == "Schema" else []),
        *(["settings"] if node.settings else []),
        *(["code"] if node.code or node.parts else []),
        *(["libraries"] if node.packages else []),
    ]
    return f"same {', '.join(kinds)}; outputs intact"


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Says which part of a fingerprint changed; settings first, upstream nodes last."""
    reasons = [
        *_changed_settings(old.get("settings", {}), new["settings"]),
        *_changed_code(old.get("code", {}), new["code"]),
        *_changed_versions(old.get("packages", {}), new["packages"]),
        *(f"{what} changed" for key, what in _CONTENT.items() if key in new and old.get(key) != new[key]),
        *(f"upstream {up} changed" for up, key in new["upstream"].items() if old.get("upstream", {}).get(up) != key),
    ]
    return reasons[0] if reasons else OTHER_INPUTS


def data_difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Says how two sets of files differ, given their digests by path."""
    gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    moved = _pair_moves(gone, added, old, new)
    kinds = {
        "moved": [f"{source} to {target}" for source, target in moved],
        "altered": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
        "added": sorted(set(added) - {target for _, target in moved}),
        "removed": sorted(set(gone) - {source for source, _ in moved}),
    }
    counts = [f"{len(found):,} {kind} ({found[0]})" for kind, found in kinds.items() if found]
    return f"data changed: {', '.join(counts)}" if counts else "data changed"


def _pair_moves(
    gone: list[str], added: list[str], old: Mapping[str, str], new: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Pairs each removed file with an added one of the same content."""
    candidates: dict[str, list[str]] = {}
    for path in reversed(added):
        candidates.setdefault(new[path], []).append(path)
    return [(path, candidates[old[path]].pop()) for path in gone if candidates.get(old[path])]


def _changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before = _flat(old)
    changed = [(key, value) for key, value in _flat(new).items() if before.get(key) != value]
    for key, value in changed[:1]:
        yield f"setting {key} changed: {before.get(key)!r} to {value!r}{_more(changed)}"


def _changed_code(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    if files := fingerprint.changed(old, new):
        yield f"code changed: {files[0]}{_more(files)}"


def _changed_versions(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name, version in new.items():
        if old.get(name) != version:
            yield f"{name} changed: {old.get(name)} to {version}"


def _more(found: Sequence[Any]) -> str:
    return f" and {len(found) - 1} more" if len(found) > 1 else ""


def _flat(section: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        flat.update(_flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {path + key: value})
    return flat
