"""The account of an ingest, kept inside its artifact: what came in, what each shard holds, what was set aside.

<artifact>/manifest.json          sources, shards with records + bytes + checksum, counts by class
<artifact>/quarantine.jsonl       one line a file or row: path, position, reason, and how it begins
<artifact>/near_duplicates.jsonl  one line a pair of images in different splits that look the same, if there are any
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from components.errors import BadInput
from components.ingest.close import near_duplicates
from components.ingest.sources import Refused, printable
from components.ingest.survey.listing import Listing
from components.records.ledger import Entry, check
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS
from components.storage import durable

MANIFEST = "manifest.json"
QUARANTINE = "quarantine.jsonl"
_SHOWN = 5


@dataclass(frozen=True)
class Shard:
    """A written shard, as later nodes check it."""

    split: str
    name: str
    records: int
    bytes: int
    checksum: str  # as components/records/checksum.py tells it


@dataclass(frozen=True)
class Manifest:
    """Everything later nodes and people want to know of an ingest."""

    data_digest: str
    found: int  # records in: files to read, and files refused before they were opened
    sources: tuple[tuple[str, int, str], ...]  # path, size, sha256
    shards: tuple[Shard, ...]
    classes: dict[str, dict[str, int]]  # split -> class -> records
    quarantined: int
    changed: dict[str, int]  # why bytes were re-encoded -> records
    median_side: int  # shorter side in pixels, over the training split
    warnings: tuple[str, ...]

    @property
    def records(self) -> dict[str, int]:
        """Records by split."""
        return {split: sum(shard.records for shard in self.shards_of(split)) for split in self.classes}

    @property
    def source_bytes(self) -> int:
        """Size of all files that were read."""
        return sum(size for _, size, _ in self.sources)

    @property
    def stored_bytes(self) -> int:
        """Size of all shards: what the data costs on disk once more."""
        return sum(shard.bytes for shard in self.shards)

    def entry(self) -> Entry:
        """Returns the ledger's entry for the ingest itself."""
        return Entry("Ingest", self.found, sum(shard.records for shard in self.shards), self.quarantined)

    def shards_of(self, split: str) -> list[Shard]:
        """Returns the shards of one split, in order."""
        return [shard for shard in self.shards if shard.split == split]


def make(
    manifest: Listing, reports: Sequence[Any], found: int | None = None, warnings: Sequence[str] = ()
) -> tuple[Manifest, tuple[Refused, ...]]:
    """Adds the shards' reports up; `found` are the records in, where a file is not a record."""
    quarantined = [*manifest.refused, *(bad for report in reports for bad in report.quarantined)]
    quarantined.sort(key=lambda bad: bad.path)
    # From the files found too, not only from the records: a class that is quarantined whole must not vanish.
    by_folder = {item.file.label for item in manifest.files if item.file.label}
    names = sorted(by_folder.union(*(report.classes for report in reports)))
    classes = {split: _sum(r.classes for r in reports if r.split == split) for split in SPLITS}
    account = Manifest(
        data_digest=manifest.digest,
        found=manifest.records if found is None else found,
        sources=tuple((printable(item.file.path), item.size, item.sha256) for item in manifest.files),
        shards=tuple(Shard(r.split, r.name, r.records, r.bytes, r.checksum) for r in reports if r.name),
        classes={split: {name: counts.get(name, 0) for name in names} for split, counts in classes.items()},
        quarantined=len(quarantined),
        changed=dict(sorted(_sum(report.changed for report in reports).items())),
        median_side=_median(_sum(report.sides for report in reports if report.split == "train")),
        warnings=(*_warnings(manifest), *warnings),
    )
    return account, tuple(quarantined)


def close_books(
    artifact: Path,
    manifest: Listing,
    reports: Sequence[Any],
    settings: Ingest,
    quarantine_list: Path,
    found: int | None = None,
    warnings: Sequence[str] = (),
) -> Manifest:
    """Adds up, checks that nothing was lost and not too much is bad, and stores the account in the artifact."""
    for report in reports:
        if report.failure:
            raise BadInput(f"{report.failure}; nothing after it was run")
    near, told = near_duplicates.close_look(manifest, reports, settings)
    account, quarantined = make(manifest, reports, found, [*warnings, *told])
    write_quarantine(quarantine_list, quarantined)
    check_budget(quarantined, account.found, settings, quarantine_list)
    check(account.entry())
    write(artifact, account, quarantined)
    near_duplicates.write(artifact, near)
    return account


def write(artifact: Path, account: Manifest, quarantined: Iterable[Refused]) -> None:
    """Stores the account in the artifact, behind all that it vouches for."""
    durable.fsync_tree(artifact)
    durable.write_bytes(artifact / MANIFEST, orjson.dumps(account, option=orjson.OPT_INDENT_2))
    write_quarantine(artifact / QUARANTINE, quarantined)


def write_quarantine(path: Path, quarantined: Iterable[Refused]) -> None:
    """Stores the list of what was set aside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(path, b"".join(orjson.dumps(_told(bad)) + b"\n" for bad in quarantined))


def read(artifact: Path) -> Manifest:
    """Reads the account of an artifact back."""
    stored = orjson.loads((artifact / MANIFEST).read_bytes())
    stored["shards"] = tuple(Shard(**shard) for shard in stored["shards"])
    stored["sources"] = tuple(tuple(row) for row in stored["sources"])
    stored["warnings"] = tuple(stored["warnings"])
    return Manifest(**stored)


def read_quarantine(artifact: Path) -> list[Refused]:
    """Reads what was set aside back."""
    lines = (artifact / QUARANTINE).read_bytes().splitlines()
    return [Refused(**orjson.loads(line)) for line in lines]


def check_budget(quarantined: Sequence[Refused], records_in: int, settings: Ingest, listed_in: Path) -> None:
    """Stops the run when too much of the data is bad."""
    if not records_in:
        raise BadInput("0 examples in the data")
    fraction = len(quarantined) / records_in
    if fraction <= settings.max_bad_fraction and len(quarantined) < records_in:
        return
    shown = [f"  {': '.join(filter(None, (printable(b.path), b.position, b.reason)))}" for b in quarantined[:_SHOWN]]
    more = [f"  … {len(quarantined) - _SHOWN} more"] if len(quarantined) > _SHOWN else []
    limit = f"more than ingest.max_bad_fraction = {settings.max_bad_fraction:g} allows"
    why = "0 examples are left" if len(quarantined) == records_in else limit
    said = f"{len(quarantined)} of {records_in} files are bad ({fraction:.1%}), {why}:"
    advice = (
        f"all of them are listed in {listed_in}; mend or remove them, "
        "or raise the fraction (--set ingest.max_bad_fraction=…)"
    )
    raise BadInput("\n".join([said, *shown, *more, advice]))


def _told(bad: Refused) -> dict[str, str]:
    """Returns what is known of a bad file or row; a file has no position."""
    told = {**vars(bad), "path": printable(bad.path)}
    return {key: told[key] for key in ("path", "position", "reason", "raw", "raw_base64") if told[key]}


def _sum(counts: Iterable[dict[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for count in counts:
        total.update(count)
    return total


def _median(counts: Counter[Any]) -> int:
    half, seen = counts.total() / 2, 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= half:
            return int(value)
    return 0


def _warnings(manifest: Listing) -> list[str]:
    groups = manifest.duplicates()
    if not groups:
        return []
    extra = sum(len(group) - 1 for group in groups)
    first = " = ".join(printable(item.file.path) for item in groups[0])
    lines = [f"{extra} exact duplicates in {len(groups)} groups, each kept within one split, such as {first}"]
    torn = [group for group in groups if len({item.file.label for item in group}) > 1]
    if torn:
        names = " = ".join(printable(item.file.path) for item in torn[0])
        lines.append(f"{len(torn)} images stand under two labels, such as {names}")
    return lines
