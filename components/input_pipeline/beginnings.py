"""Where an epoch begins: with records as they are stored, or with records that were decoded once and kept.

    stored    epoch's order ─► pools of serialized records ─► parse, decode, augment
    kept      parse, decode ─► one by one ─► cache ─► epoch's order ─► pools of decoded records ─► augment

What is random comes after the cache, so every epoch is varied anew. In memory the shuffle holds all records, as they
are there anyway; from a file it holds as many as shuffle_mb allows.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from components.errors import SettingsError
from components.features import Feature
from components.input_pipeline import budget
from components.input_pipeline.budget import Plan
from components.input_pipeline.pools import Pool
from components.input_pipeline.recipe import Recipe, Values
from components.input_pipeline.source import Source, shuffled

_MB = 1 << 20


class Beginning(Protocol):
    """Pools in the order of an epoch, and what becomes of them."""

    def epoch(self, seed: tf.Tensor) -> tf.data.Dataset:
        """Returns the pools of an epoch."""

    def vary(self, seed: tf.Tensor, pool: Any) -> Pool:
        """Returns the records of a pool, varied by the epoch's seed and their own; the costly part is left out."""

    def vary_late(self, pool: Pool) -> Pool:
        """Does the costly part, to a batch."""


@dataclass(frozen=True)
class Stored:
    """Records as they are stored."""

    source: Source
    recipe: Recipe
    record_id: str
    plan: Plan

    def epoch(self, seed: tf.Tensor) -> tf.data.Dataset:
        """Returns pools of what the source holds."""
        exact = self.recipe.settings.order == "exact"
        return self.source.epoch(seed, self.plan, exact=exact, drop=_drops(self.recipe, self.plan))

    def parse(self, pool: Any) -> tuple[Values, Any, tf.Tensor]:
        """Returns stored values, labels and the records' names."""
        columns, ids = self.source.parse(pool, self.recipe.spec(), self.record_id)
        return self.recipe.stored(columns), self.recipe.numbers(columns), ids

    def decode(self, pool: Any) -> tuple[Values, Any, tf.Tensor]:
        """Returns decoded values, labels and the records' names."""
        values, labels, ids = self.parse(pool)
        return self.recipe.done(values, lambda feature, value: feature.decode(value)), labels, ids

    def vary(self, seed: tf.Tensor, pool: Any) -> Pool:
        """Parses, decodes and augments."""
        values, labels, ids = self.parse(pool)
        seeds = _seeds(ids, seed)
        return Pool(self.recipe.done(values, self._work(seeds), costly=False), labels, seeds)

    def vary_late(self, pool: Pool) -> Pool:
        """Decodes and augments what is costly."""
        return pool._replace(values=self.recipe.done(pool.values, self._work(pool.seeds), costly=True))

    def _work(self, seeds: tf.Tensor) -> Callable[[Feature, Any], Any]:
        if self.recipe.settings.augment:
            return lambda feature, value: feature.augmented(value, seeds)
        return lambda feature, value: feature.decode(value)


class Kept:
    """Records that were decoded once."""

    def __init__(self, stored: Stored) -> None:
        """Takes where they come from."""
        self._recipe, self._plan = stored.recipe, stored.plan
        settings, data = stored.recipe.settings, stored.source.data
        size = budget.cache_bytes(data, stored.recipe.features.values())
        decode = tf.autograph.experimental.do_not_convert(stored.decode)
        records = stored.source.in_order(settings.batch_size).map(decode, stored.plan.parallel).unbatch()
        if settings.cache == "memory":
            self._records, self._held = records.cache(), data.records
            return
        folder = _folder(Path(settings.cache_directory or tempfile.gettempdir()), size)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # with the data set, or with the process
        self._records = records.cache(str(folder / "records"))
        self._held = max(1, min(data.records, settings.shuffle_mb * _MB * data.records // size))

    def epoch(self, seed: tf.Tensor) -> tf.data.Dataset:
        """Returns pools of decoded records."""
        data, drop = shuffled(self._records, self._held, seed), _drops(self._recipe, self._plan)
        if self._recipe.ragged:
            return data.ragged_batch(self._plan.pool, drop)
        return data.batch(self._plan.pool, drop)

    def vary(self, seed: tf.Tensor, pool: Any) -> Pool:
        """Augments."""
        values, labels, ids = pool
        seeds = _seeds(ids, seed)
        return Pool(self._recipe.done(values, self._work(seeds), costly=False), labels, seeds)

    def vary_late(self, pool: Pool) -> Pool:
        """Augments what is costly."""
        return pool._replace(values=self._recipe.done(pool.values, self._work(pool.seeds), costly=True))

    def _work(self, seeds: tf.Tensor) -> Callable[[Feature, Any], Any]:
        if self._recipe.settings.augment:
            return lambda feature, value: feature.augment(value, seeds)
        return lambda _, value: value


def _drops(recipe: Recipe, plan: Plan) -> bool:
    # A pool of several batches is cut later, and loses no more than the last of them.
    return recipe.settings.last_batch == "drop" and plan.pool == recipe.settings.batch_size


def _seeds(ids: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.stack([ids, tf.fill(tf.shape(ids), seed)], axis=1)


def _folder(home: Path, size: int) -> Path:
    if not home.is_dir():
        raise SettingsError(f"input.cache_directory {home}: no such folder; make it, or leave the setting empty")
    free = shutil.disk_usage(home).free
    if size > free:
        raise SettingsError(
            f"input.cache=file: decoded records take {size / _MB:,.0f} MB, {home} has {free / _MB:,.0f} MB left: "
            "name another input.cache_directory, or take input.cache=none"
        )
    return Path(tempfile.mkdtemp(prefix="penstock-cache-", dir=home))
