"""The survey is taken once per run: planner, driver and executor share it as long as no file has changed.

    take ─► surveyed in this process before? ─► listed again: same files, same stats? ─┬─ yes ─► the same survey
                                                                                       └─ no ──► a new one

A table that lists images is always surveyed again. Listing and stat are cheap; what is not repeated: opening files,
inferring columns, and looking up a hash for every file.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from components import refs
from components.ingest.config import Needs
from components.ingest.sources import SourceFile
from components.ingest.survey import detect, spans, survey
from components.ingest.survey.listing import ListedFiles
from components.ingest.survey.survey import NOTHING, SpanFiles, Survey
from components.settings.ingest import Ingest
from components.storage import paths
from components.storage.entries import Entries
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
    now = detect.locate(part.span.data, needs.sources)
    if now != located:
        return False
    if located.is_folder:
        found = refs.load(located.source).find(located.home, now.entries)
        if (found.files, found.quarantined, found.ignored) != (_sources(part), listing.quarantined, listing.ignored):
            return False
    # The stat of a file that was written just before it was hashed is empty: it might change without a new one.
    files = listing.files
    stats = list(files.stats) if isinstance(files, ListedFiles) else [item.stat for item in files]
    return all(stats) and stats == _stats(part, now.entries)


def _sources(part: SpanFiles) -> Sequence[SourceFile]:
    files = part.listing.files
    return files.sources if isinstance(files, ListedFiles) else [item.file for item in files]


def _stats(part: SpanFiles, entries: Entries | None) -> list[str]:
    """Returns the stats of the files as they are now; none if one of them was deleted.

    Args:
        part: the files of one span.
        entries: what a listing of the folder has just shown, if it is remote.
    """
    home, names = part.located.home, [path for path, _, _ in part.listing.identities()]
    try:
        if isinstance(home, Path):
            return [stat_key(os.stat(f"{home}/{name}")) for name in names]  # noqa: PTH116 - a Path takes longer
        if entries is not None:
            return list(map(stat_key, entries.of(names, home).stats()))
        return [stat_key(stat) for stat in paths.stats(home, names)]
    except OSError:
        return []
