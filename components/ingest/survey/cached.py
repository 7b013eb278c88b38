"""The survey is taken once per run: planner, driver and executor share it as long as no file has changed.

    take ─► surveyed in this process before? ─► listed again: same files, same stats? ─┬─ yes ─► the same survey
                                                                                       └─ no ──► a new one

A table that lists images is always surveyed again. Listing and stat are cheap; what is not repeated: opening files,
inferring columns, and looking up a hash for every file.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from components import refs
from components.ingest.config import Needs
from components.ingest.survey import detect, spans, survey
from components.ingest.survey.survey import NOTHING, SpanFiles, Survey
from components.settings.ingest import Ingest
from components.storage import paths
from components.storage.hashing import HashCache, stat_key

_Key = tuple[str, str, Needs]
_latest: dict[_Key, Survey] = {}


def take(data: str, settings: Ingest, cache: HashCache, needs: Needs = NOTHING) -> Survey:
    """Returns the survey of this process if its files are unchanged, else a new one; see `survey.take`."""
    key = data, settings.model_dump_json(), needs
    known = _latest.get(key)
    # A row may refer to an image that was not there before: no listing shows that.
    refers_to_images = known is not None and known.table is not None and bool(known.table.images)
    if known is None or refers_to_images or not _is_current(known, settings, needs):
        _latest.clear()
        _latest[key] = survey.take(data, settings, cache, needs)
    return _latest[key]


def forget() -> None:
    """Frees the memory of the survey: for a million files that is half a gigabyte."""
    _latest.clear()


def _is_current(known: Survey, settings: Ingest, needs: Needs) -> bool:
    """Whether the data has the same files as in the survey, each with the stat of the bytes that were hashed."""
    listed = spans.find(known.data, settings.spans, paths.matches)
    same_spans = listed == tuple(part.span for part in known.spans)
    return same_spans and all(_is_unchanged(part, needs) for part in known.spans)


def _is_unchanged(part: SpanFiles, needs: Needs) -> bool:
    located, listing = part.located, part.listing
    # The stat of a file that was written just before it was hashed is empty: it might change without a new one.
    if not all(listing.files.stats):
        return False
    if located.entries is not None and not isinstance(located.home, Path):
        return located.entries.is_current(located.home)  # one object after another: no second listing in memory
    now = detect.locate(part.span.data, needs.sources)
    if now != located:
        return False
    if located.is_folder:
        found = refs.load(located.source).find(located.home, now.entries)
        if (found.files, found.quarantined, found.ignored) != (
            listing.files.sources,
            listing.quarantined,
            listing.ignored,
        ):
            return False
    try:
        return all(before == now for before, now in zip(listing.files.stats, _stats(part), strict=True))
    except OSError:  # a file was deleted
        return False


def _stats(part: SpanFiles) -> Iterable[str]:
    """Returns the stats of the files as they are now, of local ones never all at once."""
    home, names = part.located.home, part.listing.files.sources.paths
    if isinstance(home, Path):
        return (stat_key(os.stat(f"{home}/{name}")) for name in names)  # noqa: PTH116 - a Path takes longer
    return map(stat_key, paths.stats(home, names))
