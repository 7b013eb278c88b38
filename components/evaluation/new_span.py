"""How the new spans differ from the data of the live model: the part of the Gate that reads files.

statistics of both ──────► drift.compare ──────────────┐
samples of texts, the live model's vocabulary ─► texts ─┤
samples of images ─► image_drift ───────────────────────┼► measures ─► findings, without those that were accepted
manifest ─► number of records ──────────────────────────┘                  └► a few records that show each
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from components.evaluation import drift, image_drift, span_sample
from components.evaluation.drift import Distributions, Measure, Summary
from components.evaluation.span_sample import SampledRecord
from components.records import manifest, spans
from components.records.manifest import Manifest
from components.records.roles import Layout
from components.settings.gate import Gate
from components.storage.local_copy import local_copy
from components.storage.location import Location, location

_STATISTICS = "FeatureStats.pb"
_SPLIT = "train"  # whose statistics are compared: the largest
_TEXTS, _SHOWING = 2000, 3
_LONG = 60  # characters of a value that are shown
_WORDS, _NEW_WORDS = 500, 8  # that are looked up, the most frequent ones; that are shown, of those that are unknown
_WORD = re.compile(r"[^\W_]{1,60}")
_OUTSIDE = 1  # decile from the end, beyond which a number shows a drift


@dataclass(frozen=True)
class Acceptance:
    """A finding that a person accepted, for this data alone."""

    finding: str
    who: str
    because: str
    when: str


@dataclass(frozen=True)
class LiveSpan:
    """What the plan found: the artifacts that the live model was made from."""

    model: str
    statistics: str
    examples: str
    transform: str
    accepted: tuple[Acceptance, ...] = ()

    @staticmethod
    def from_json(text: str) -> "LiveSpan | None":
        """Returns what `to_json` wrote; None if there is no live model to compare with."""
        if not text:
            return None
        stored = orjson.loads(text)
        return LiveSpan(**{**stored, "accepted": tuple(Acceptance(**each) for each in stored["accepted"])})

    def to_json(self) -> str:
        """Returns it as text, a parameter of a node."""
        return orjson.dumps(self).decode()


@dataclass(frozen=True)
class NewSpan:
    """The new spans compared with the data of the live model."""

    spans: tuple[str, ...]
    model: str
    measures: tuple[Measure, ...]
    accepted: tuple[Acceptance, ...]
    notes: tuple[str, ...] = ()

    @property
    def open(self) -> tuple[Measure, ...]:
        """The findings that nobody accepted."""
        known = {each.finding for each in self.accepted}
        return tuple(each for each in self.measures if each.is_finding and each.id not in known)

    def lines(self) -> list[str]:
        """Returns a message about every finding that was not accepted, and what to do about it."""
        if not self.open:
            return []
        shown = [line for each in self.open for line in _lines(each)]
        named, verb = spans.named(self.spans), "differ" if len(self.spans) > 1 else "differs"
        ids = " ".join(f"--accept {shlex.quote(each.id)}" for each in self.open)
        advice = (
            f"  (correct the data of {named}; or accept these findings for this data alone: "
            f'the same command with {ids} --because "why"; or change the settings)'
        )
        return [f"  new {named} {verb} from the data of the live model, {self.model}:", *shown, advice]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, for the verdict and the report."""
        open_ids = {each.id for each in self.open}
        rows = [{**asdict(each), "id": each.id, "open": each.id in open_ids} for each in self.measures]
        found = {each.id for each in self.measures if each.is_finding}
        used = [asdict(each) for each in self.accepted if each.finding in found]
        unused = [f"--accept {each.finding}: no such finding" for each in self.accepted if each.finding not in found]
        return {
            "spans": list(self.spans),
            "model": self.model,
            "measures": rows,
            "accepted": used,
            "notes": [*self.notes, *unused],
        }


def _lines(found: Measure) -> list[str]:
    limit = f"expected at most {found.threshold:.4g} ({found.setting})"
    records = [f"      {each}" for each in found.records]
    return [f"    {found.id} is {found.value:.4g}, {limit}: {found.detail}", *records]


def compare(
    examples: Location,
    ingested: Manifest,
    statistics: Path,
    layout: Layout,
    live: LiveSpan,
    settings: Gate,
    embedded: str = "",
) -> NewSpan:
    """Compares the new spans with the data of the live model.

    Args:
        examples: the artifact that holds the new spans, and others.
        ingested: its manifest.
        statistics: of the new spans.
        layout: the columns; its label is empty if there is none.
        live: where the live model's artifacts are.
        settings: the thresholds.
        embedded: column of the images that the records have embeddings of; empty if they have none.
    """
    new = spans.unseen(examples, location(live.examples))
    if not new:
        return NewSpan(new, live.model, (), live.accepted, ("no new spans: nothing was compared",))
    with local_copy(location(live.statistics)) as folder:
        before, after = read(folder), read(statistics)
    classes = _classes(examples, new, live)
    measures = drift.compare(before, after, layout.columns, layout.label, settings, classes)
    notes = drift.not_compared(before, after, layout.columns)
    for side, summaries in (("the new spans", after), ("the live model's statistics", before)):
        if not summaries:
            text = f"{side}: no records in split {_SPLIT}, so no column was compared"
            measures.append(drift.no_records(_SPLIT, text))
    shards = [shard for shard in ingested.shards if manifest.span_of(shard.name) in new]
    texts = [column.name for column in layout.of(["text"])]
    needs_sample = texts or any(each.is_finding for each in measures)
    small = {layout.label, *(each.name for each in layout.columns if each.role not in ("image", "tensor"))}
    sample = span_sample.take(examples, shards, _TEXTS, small) if needs_sample else []
    share_of: dict[str, ShareOf] = {}
    if texts and sample:
        found, share_of, more = _texts(texts, sample, live, settings)
        measures += found
        notes += more
    images = [column.name for column in layout.of(["image"])]
    train = [shard for shard in shards if shard.split == _SPLIT]
    of_images = image_drift.compare(images, examples, train, location(live.examples), settings)
    measures += [each for each in of_images.measures if each.id not in {known.id for known in measures}]
    notes += of_images.notes
    if embedded:
        notes.append(f"{embedded} was not compared: the records have embeddings of the images (extract.where = beam)")
    records = {name: sum(ingested.records_of(name).values()) for name in {*ingested.spans, *new}}
    others = [count for name, count in records.items() if name not in new]
    measures += drift.number_of_records({name: records[name] for name in new}, others, settings)
    before |= of_images.before
    shown = [
        replace(
            each,
            records=_showing(
                each,
                before.get(each.column),
                of_images.records if each.column in of_images.before else sample,
                share_of.get(each.column),
            ),
        )
        if each.is_finding
        else each
        for each in measures
    ]
    return NewSpan(new, live.model, tuple(shown), live.accepted, tuple(notes))


def _classes(examples: Location, new: Sequence[str], live: LiveSpan) -> tuple[Summary, Summary] | None:
    """Returns the classes of the live model's data and of the new spans; TFDV would keep only the frequent ones.

    None if the label is no class, or if the artifacts do not count classes by span, as those with embeddings.
    """
    home = location(live.examples)
    if not (home / manifest.MANIFEST).is_file():
        return None
    known = Counter[str]()
    for counts in manifest.read(home).classes.values():
        known.update(counts)
    found = spans.classes(examples, new)
    if not +known or not +found:
        return None
    before, after = ({name: float(count) for name, count in each.items() if count} for each in (known, found))
    return Summary(known.total(), 0, counts=before), Summary(found.total(), 0, counts=after)


def read(statistics: Path) -> dict[str, Summary]:
    """Returns the columns in the statistics of the train split; none if it is not there."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    file = statistics / f"Split-{_SPLIT}" / _STATISTICS
    if not file.exists():
        return {}
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes()).datasets
    return drift.summarize(dataset)


ShareOf = Callable[[bytes], float]  # a text -> the share of its tokens that the live model does not know


def _texts(
    columns: Sequence[str], sample: Sequence[SampledRecord], live: LiveSpan, settings: Gate
) -> tuple[list[Measure], dict[str, ShareOf], list[str]]:
    """Returns a measure per text column, how each text is judged, and what was not compared."""
    home = location(live.examples)
    if not (home / manifest.MANIFEST).is_file() or not location(live.transform).is_dir():
        gone = drift.no_records("live", "the live model's records or vocabulary are gone: texts were not compared")
        return [gone], {}, []
    known = manifest.read(home)
    # The vocabulary was fitted on the train split: only other texts say how many tokens are usually unknown.
    held_out = span_sample.take(home, [each for each in known.shards if each.split != _SPLIT], _TEXTS, columns)
    measures: list[Measure] = []
    notes: list[str] = []
    share_of: dict[str, ShareOf] = {}
    with local_copy(location(live.transform)) as graph:
        for place, name in enumerate(columns):
            count = _unknown_tokens(str(graph), name, place)
            if count is None:
                notes.append(f"{name} was not compared: the live model has no vocabulary of it")
                continue
            sides = [_texts_of(records, name) for records in (held_out, sample)]
            sums = [count(each) for each in sides]
            (unknown, tokens), (new_unknown, new_tokens) = [(sum(a), sum(b)) for a, b in sums]
            if tokens and new_tokens:
                shares = unknown / tokens, new_unknown / new_tokens
                # Tokens of one text are not independent: the number of texts decides what chance explains.
                words = _new_words(sides[0], sides[1], count)
                measures.append(drift.texts(name, shares, (len(held_out), len(sample)), settings, words))
                by_text = {text: part / max(1, whole) for text, part, whole in zip(sides[1], *sums[1], strict=True)}
                share_of[name] = by_text.__getitem__
            else:
                notes.append(
                    f"{name} was not compared: no texts in {'the new spans' if tokens else 'held-out records'}"
                )
    return measures, share_of, notes


def _texts_of(records: Sequence[SampledRecord], column: str) -> list[bytes]:
    return [each.values[column] for each in records if isinstance(each.values.get(column), bytes)]


def _new_words(
    held_out: Sequence[bytes], new: Sequence[bytes], count: "Callable[[Sequence[bytes]], tuple[list[int], list[int]]]"
) -> Distributions:
    """Returns the most frequent words of the new texts that have unknown tokens, and the share of texts with them.

    Args:
        held_out: texts of the live model's data.
        new: texts of the new spans.
        count: returns the numbers of unknown tokens, and of all tokens, per text.
    """
    before, after = (Counter(word for text in texts for word in _words(text)) for texts in (held_out, new))
    frequent = [word for word, _ in sorted(after.items(), key=lambda pair: (-pair[1], pair[0]))[:_WORDS]]
    unknown, _ = count([word.encode() for word in frequent])
    names = tuple(word for word, tokens in zip(frequent, unknown, strict=True) if tokens)[:_NEW_WORDS]
    shares = (
        tuple(has[word] / max(1, len(texts)) for word in names) for has, texts in ((before, held_out), (after, new))
    )
    return Distributions(names, *shares)


def _words(text: bytes) -> set[str]:
    return set(_WORD.findall(text.decode("utf-8", "replace").lower()))


def _unknown_tokens(
    graph: str, column: str, place: int
) -> "Callable[[Sequence[bytes]], tuple[list[int], list[int]]] | None":
    """Returns a function: texts to numbers of unknown tokens and of all tokens; None if no vocabulary was fitted."""
    import tensorflow as tf
    import tensorflow_transform as tft

    from components.fitting import names
    from components.fitting.fitted import Fitted
    from components.settings.transform import Transform

    try:
        size = tft.TFTransformOutput(graph).vocabulary_size_by_name(names.token_vocabulary(place))
    except ValueError:
        return None
    fitted = Fitted(graph, Transform())

    def count(texts: Sequence[bytes]) -> tuple[list[int], list[int]]:
        if not texts:
            return [], []
        ids = fitted.apply({column: tf.constant(list(texts))})[column]
        is_unknown = tf.cast((ids.flat_values < 0) | (ids.flat_values >= size), tf.int64)
        unknown = tf.reduce_sum(ids.with_flat_values(is_unknown), axis=1)
        return unknown.numpy().tolist(), ids.row_lengths().numpy().tolist()

    return count


def _showing(
    found: Measure, before: Summary | None, sample: Sequence[SampledRecord], share_of: ShareOf | None
) -> tuple[str, ...]:
    """Returns a few records of the new spans that show a finding: those that the live model's data explains least."""
    if found.kind == "records":
        return ()
    ranked = sorted(
        ((_strangeness(found, each.values.get(found.column), before, share_of), each) for each in sample),
        key=lambda pair: -pair[0],
    )
    return tuple(
        f"{_place(each)}: {_shown(each.values.get(found.column))}" for strange, each in ranked[:_SHOWING] if strange > 0
    )


def _place(record: SampledRecord) -> str:
    return f"span {spans.text(manifest.span_of(record.place))}, {record.place}"


def _strangeness(found: Measure, value: Any, before: Summary | None, share_of: ShareOf | None) -> float:
    """Returns how unusual a value is; 0 if it is not."""
    is_missing = value is None or (isinstance(value, float) and math.isnan(value))
    if found.kind == "missing" or is_missing:
        return float(found.kind == "missing" and is_missing)
    if share_of is not None:
        return share_of(value)
    if before is None:
        return 0.0
    if before.counts:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return 1 - before.counts.get(text, 0.0) / max(1, before.present)
    if not before.deciles or isinstance(value, bytes):
        return 0.0
    low, high = before.deciles[_OUTSIDE], before.deciles[-1 - _OUTSIDE]
    return max(low - value, value - high, 0.0)


def _shown(value: Any) -> str:
    """Returns a value as short text."""
    if value is None:
        return "missing"
    if not isinstance(value, bytes):
        return f"{value:.6g}"
    text = value.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _LONG else f"{text[:_LONG]}…")
