"""Builds the manifest from the reports of all work units, and stops the run if records are lost or too many are bad.

reports ─► failures ─► near duplicates ─► Manifest ─► max_bad_fraction ─► ledger ─► listing of the shards ─► written
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import BadInput
from components.ingest.close import near_duplicates
from components.ingest.close.near_duplicates import NearDuplicates
from components.ingest.survey.listing import Listing
from components.ingest.survey.survey import Table
from components.ingest.write.report import ShardReport
from components.records import ledger, manifest, shard_files, source_files
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.quarantine import NO_LABEL, Quarantined, printable
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS

if TYPE_CHECKING:
    from components.storage.location import Location

NO_NEAR = NearDuplicates()
_SHOWN = 5  # quarantined records named in a message


@dataclass(frozen=True)
class SpanRecords:
    """The records of a span whose content no earlier ingest has accepted."""

    span: str  # as people write it
    found: int
    quarantined: Sequence[Quarantined]


def close(
    artifact: "Location",
    listing: Listing,
    reports: Sequence[ShardReport],
    settings: Ingest,
    quarantine_list: Path,
    table: Table | None = None,
    warnings: Sequence[str] = (),
    near: NearDuplicates = NO_NEAR,
    new: Sequence[SpanRecords] = (),
) -> Manifest:
    """Builds the manifest, checks it, and writes it into the artifact.

    Args:
        artifact: where the shards are.
        listing: the files that were surveyed.
        reports: what each shard reports.
        settings: of the ingest.
        quarantine_list: a second copy of the quarantine list, which stays if the run stops.
        table: the columns, if a file has many records.
        warnings: of other checks.
        near: images in different splits that look the same.
        new: the new spans: a bad day must not hide in a long window.
    """
    check_failures(reports)
    built, quarantined = build(listing, reports, table, [*warnings, *near.warnings(settings.near_duplicate_bits)])
    manifest.write_quarantine(quarantine_list, quarantined)
    if settings.unlabelled == "stop":
        check_labels(quarantined, quarantine_list)
    check_budget(quarantined, built.found, settings, quarantine_list)
    for each in new:
        if len(each.quarantined) > _explained_by_chance(settings.max_bad_fraction, each.found):
            check_budget(each.quarantined, each.found, settings, quarantine_list, f" of span {each.span}")
    ledger.check(built.entry())
    built = replace(built, splits=settings.split_rule())
    shard_files.finish(artifact, built.shards)
    near_duplicates.write(artifact, near)
    write_sources(artifact, listing)
    manifest.write(artifact, built, quarantined)
    return built


def check_failures(reports: Sequence[ShardReport]) -> None:
    """Stops the run if a work unit says that its input has changed."""
    for report in reports:
        if report.failure:
            raise BadInput(f"{report.failure}; nothing after it was run")


def build(
    listing: Listing,
    reports: Sequence[ShardReport],
    table: Table | None = None,
    warnings: Sequence[str] = (),
) -> tuple[Manifest, tuple[Quarantined, ...]]:
    """Returns the sum of the reports, and all that was quarantined, sorted by path."""
    quarantined = [*listing.quarantined, *(bad for report in reports for bad in report.quarantined)]
    quarantined.sort(key=lambda bad: bad.path)
    # From the listed files too, not only from the records: a class that is quarantined whole must be listed with 0.
    names = sorted(listing.labels.union(*(report.classes for report in reports)))
    classes = {split: _sum(r.classes for r in reports if r.split == split) for split in SPLITS}
    built = Manifest(
        data_digest=listing.digest,
        found=sum(report.read for report in reports) + len(listing.quarantined) if table else listing.records,
        sources=SourceTotals(len(listing.files), listing.size),
        shards=tuple(Shard(r.split, r.name, r.records, r.bytes, r.checksum) for r in reports if r.name),
        classes={split: {name: counts.get(name, 0) for name in names} for split, counts in classes.items()},
        quarantined=len(quarantined),
        changed=dict(sorted(_sum(report.changed for report in reports).items())),
        median_side=_median(_sum(report.sides for report in reports if report.split == "train")),
        warnings=tuple(warnings),
        label=table.label if table else "label",
        label_source=table.label_source if table else "",
        image_source=table.images if table else "",
        notes=table.notes if table else (),
    )
    return built, tuple(quarantined)


def write_sources(artifact: "Location", listing: Listing) -> None:
    """Writes the list of source files."""
    files = listing.files
    source_files.write(artifact, map(printable, files.sources.paths), files.sizes, files.identities())


def check_labels(quarantined: Sequence[Quarantined], listed_in: Path) -> None:
    """Stops the run if a row has no label; names the first one, the same on any number of workers."""
    bad = [each for each in quarantined if each.reason.startswith(NO_LABEL)]
    if bad:
        more = f"; {len(bad):,} rows have none, listed in {listed_in}" if len(bad) > 1 else ""
        raise BadInput(
            f"{printable(bad[0].path)}: {bad[0].position}: {bad[0].reason}; ingest.unlabelled = stop expects a label "
            f"in every row{more}: add it, or set ingest.unlabelled to quarantine or keep_as_class"
        )


def check_budget(
    quarantined: Sequence[Quarantined], records_in: int, settings: Ingest, listed_in: Path, of: str = ""
) -> None:
    """Stops the run if more than `ingest.max_bad_fraction` of the records, or all of them, were quarantined."""
    if not records_in:
        raise BadInput("0 examples in the data")
    fraction = len(quarantined) / records_in
    if fraction <= settings.max_bad_fraction and len(quarantined) < records_in:
        return
    shown = [f"  {': '.join(filter(None, (printable(b.path), b.position, b.reason)))}" for b in quarantined[:_SHOWN]]
    more = [f"  … {len(quarantined) - _SHOWN} more"] if len(quarantined) > _SHOWN else []
    limit = f"more than ingest.max_bad_fraction = {settings.max_bad_fraction:g} allows"
    why = "0 examples are left" if len(quarantined) == records_in else limit
    summary = f"{len(quarantined)} of {records_in} records{of} were quarantined ({fraction:.1%}), {why}:"
    advice = (
        f"all of them are listed in {listed_in}; repair or remove them, "
        "or raise the fraction (--set ingest.max_bad_fraction=…)"
    )
    if any(bad.reason.startswith(NO_LABEL) for bad in quarantined):
        advice += ", or keep rows without a label as a class (--set ingest.unlabelled=keep_as_class)"
    raise BadInput("\n".join([summary, *shown, *more, advice]))


def _explained_by_chance(fraction: float, records: int) -> float:
    """Returns the number of bad records that a small span may have: three standard deviations above the fraction."""
    return fraction * records + 3 * math.sqrt(fraction * records)


def _sum(counts: Iterable[dict[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for count in counts:
        total.update(count)
    return total


def _median(counts: Counter[Any]) -> int:
    """Returns the lower median of values with their counts; 0 if there are none."""
    half, seen = counts.total() / 2, 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= half:
            return int(value)
    return 0
