"""The stages from stored records to batches, read downward, one stage per line.

    epoch order ─► pools ─► parse ─► decode, augment ─► batches ─► mixup, own maps ─► finish ─► prefetch

A pool becomes batches in one of three ways:

    large records               a pool is a batch
    small records               a pool of many batches: permute, finish, slice
    records of many lengths     a pool of many batches: sort by length, pad, cut; costly features per batch

With a cache, records are decoded once and stored one by one; augmentation comes after the cache, so it differs in every
epoch. Parallel stages keep the order of their input. With `order = "fastest"` only reading is a race, so that an epoch
never contains a record of the next one.
"""

import ctypes
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from components import features as modalities
from components import refs
from components.errors import SettingsError
from components.features import Feature
from components.input_pipeline import batching, budget
from components.input_pipeline.batching import PooledRecords
from components.input_pipeline.budget import Budget, DataSize
from components.input_pipeline.sharding import Position, RecordFile, Worker
from components.input_pipeline.stores import DecodedCache, InputStore, MemoryShards, RecordStore, Rows, Shards
from components.settings.input import Input

Records = InputStore | Sequence[RecordFile]
Values = dict[str, Any]
_MB = 1 << 20
_EPOCHS = 1_000_003  # more than anyone trains, so that no two seeds share the seed of an epoch
_START, _ALONE = Position(), Worker()
# Our functions are valid graph code: converting them by AutoGraph would only take time.
_graph: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert


@dataclass(frozen=True)
class Reader:
    """How the records of one task become batches."""

    features: Mapping[str, Feature]
    label: str  # column; empty: batches have no labels
    label_number: Callable[[tf.Tensor], tf.Tensor]  # fitted by Transform
    settings: Input  # with a batch size: see `sized`
    seed: int
    classes: int = 0  # required by mixup and cutmix
    label_type: str = "string"  # in the record
    record_id: str = ""  # column that identifies a record; empty: a hash of the record

    def sized(self, data: DataSize) -> "Reader":
        """Returns a reader whose batch size is known: the setting, or one that suits these training records."""
        size = budget.batch_size(self.settings, data, self.features.values())
        return replace(self, settings=self.settings.model_copy(update={"batch_size": size}))

    def training(
        self, records: Records, start: Position = _START, worker: Worker = _ALONE, epochs: int | None = None
    ) -> tf.data.Dataset:
        """Returns the batches of epoch after epoch from `start` on, each in another order; endless without `epochs`."""
        store = _store(records, worker)
        steps = self._steps(store)
        start = start.after(0, steps)
        if epochs is None:
            return self._batches(store, tf.data.Dataset.counter(start.epoch), start)
        numbers = tf.data.Dataset.range(start.epoch, start.epoch + epochs)
        return _counted(self._batches(store, numbers, start), epochs * steps - start.step)

    def passes(self, records: Records, worker: Worker = _ALONE) -> tf.data.Dataset:
        """Returns the batches of one epoch; every iteration over the dataset is the next epoch."""
        store = _store(records, worker)
        counter = tf.Variable(-1, dtype=tf.int64, trainable=False)
        numbers = tf.data.Dataset.from_tensors(0).map(lambda _: counter.assign_add(1))
        return _counted(self._batches(store, numbers, _START), self._steps(store))

    def evaluation(self, records: Records, worker: Worker = _ALONE) -> tf.data.Dataset:
        """Returns every record once, in stored order, without augmentation."""
        self._check_mixing()
        store = _store(records, worker)
        uncached = self.settings.model_copy(update={"cache": "none"})
        sizes = budget.allocate(uncached, store.size, self.features.values())
        data = store.in_order(self.settings.batch_size)
        data = data.map(_graph(lambda pool: self._finish(self._decode(store, pool))), self._calls(sizes))
        return data.prefetch(sizes.prefetch).with_options(options(self.settings, sizes))

    def steps(self, records: Records, worker: Worker = _ALONE) -> int:
        """Returns the number of training batches per epoch."""
        return self._steps(_store(records, worker))

    def evaluation_steps(self, records: Records, worker: Worker = _ALONE) -> int:
        """Returns the number of evaluation batches."""
        return -(-_store(records, worker).size.records // self.settings.batch_size)

    def spec(self) -> dict[str, Any]:
        """Returns the tf.io features of all columns that are parsed, the label included."""
        spec = modalities.spec(self.features)
        if self.label:
            spec[self.label] = tf.io.FixedLenFeature([], tf.dtypes.as_dtype(self.label_type))
        return spec

    @property
    def is_soft(self) -> bool:
        """Whether labels are class probabilities, because training mixes records."""
        return self.settings.augment and self.settings.augmentation.mixes

    # ---- training, read downward

    def _batches(self, store: InputStore, epochs: tf.data.Dataset, start: Position) -> tf.data.Dataset:
        self._check_mixing()
        sizes = budget.allocate(self.settings, store.size, self.features.values())
        if self.settings.cache != "none":
            data = self._stream(self._cache(store, sizes), sizes, epochs, start)
        else:
            data = self._stream(in_memory(store, sizes), sizes, epochs, start)
        return data.with_options(options(self.settings, sizes))

    def _stream(self, store: RecordStore, sizes: Budget, epochs: tf.data.Dataset, start: Position) -> tf.data.Dataset:
        size, keep = self.settings.batch_size, self.settings.last_batch == "keep"
        skipped, within = divmod(start.step, sizes.pool // size)  # pools before the start, then batches
        calls = self._calls(sizes)

        def finish(batch: PooledRecords) -> Any:
            return self._finish_training(store, batch)

        data = epochs.map(_graph(_trim_heap))
        data = data.flat_map(_graph(lambda epoch: self._pools(store, sizes, epoch, Position(start.epoch, skipped))))
        data = data.prefetch(1)
        if sizes.pool == size:
            data = data.map(_graph(lambda seed, pool: finish(self._augment(store, seed, pool))), calls)
        elif not self._ragged and not self._is_batchwise:
            data = data.map(_graph(lambda seed, pool: finish(self._permuted(store, sizes, seed, pool))), calls)
            data = data.flat_map(_graph(lambda *pool: batching.sliced(pool if self.label else pool[0], size, keep)))
            data = data.skip(within)
        else:
            last = (lambda batch: batch) if self._is_batchwise else finish
            data = data.map(_graph(lambda seed, pool: self._sorted(store, seed, pool)), calls)
            data = data.flat_map(_graph(lambda pool, order: batching.cut(pool, order, size, keep, last)))
            data = data.skip(within)
            data = data.map(_graph(finish), calls) if self._is_batchwise else data
        return data.prefetch(tf.data.AUTOTUNE if self.settings.autotune else sizes.prefetch)

    def _pools(self, store: RecordStore, sizes: Budget, epoch: tf.Tensor, start: Position) -> tf.data.Dataset:
        """Returns the pools of an epoch, each with its seed: the seed of the epoch and the number of the pool."""
        seed = self.seed * _EPOCHS + epoch
        # A pool of several batches is cut later, and loses only a partial batch.
        drop = self.settings.last_batch == "drop" and sizes.pool == self.settings.batch_size
        data = store.epoch(seed, sizes, exact=self.settings.order == "exact", drop=drop)
        data = data.enumerate()
        data = data.skip(tf.where(epoch == start.epoch, tf.constant(start.step, tf.int64), 0))
        return data.map(_graph(lambda number, pool: (tf.stack([seed, number]), pool)))

    def _parse(self, store: RecordStore, pool: Any) -> tuple[Values, Any, tf.Tensor]:
        """Returns stored values (of a cache: decoded values), labels and ids."""
        if isinstance(store, DecodedCache):
            return pool
        columns, ids = store.parse(pool, self.spec(), self.record_id)
        values = {key: modalities.stored(columns, key, feature) for key, feature in self.features.items()}
        return values, self._labels(columns), ids

    def _decode(self, store: InputStore, pool: Any) -> tuple[Values, Any, tf.Tensor]:
        """Parses and decodes, without augmentation."""
        values, labels, ids = self._parse(store, pool)
        return {key: feature.decode(values[key]) for key, feature in self.features.items()}, labels, ids

    def _augment(self, store: RecordStore, seed: tf.Tensor, pool: Any) -> PooledRecords:
        """Parses, then decodes and augments all features that are not costly."""
        values, labels, ids = self._parse(store, pool)
        seeds = tf.stack([ids, tf.fill(tf.shape(ids), seed[0])], axis=1)
        return PooledRecords(self._augmented(store, values, seeds, costly=False), labels, seeds)

    def _augmented(self, store: RecordStore, values: Values, seeds: tf.Tensor, *, costly: bool) -> Values:
        def work(feature: Feature, value: Any) -> Any:
            if isinstance(store, DecodedCache):
                return feature.augment(value, seeds) if self.settings.augment else value
            return feature.augmented(value, seeds) if self.settings.augment else feature.decode(value)

        return {
            key: work(feature, values[key]) if feature.is_costly == costly else values[key]
            for key, feature in self.features.items()
        }

    def _permuted(self, store: RecordStore, sizes: Budget, seed: tf.Tensor, pool: Any) -> PooledRecords:
        augmented = self._augment(store, seed, pool)
        # Records in memory are shuffled one by one; others in blocks, which are broken up here.
        return augmented if sizes.in_memory else batching.permuted(augmented, seed)

    def _sorted(self, store: RecordStore, seed: tf.Tensor, pool: Any) -> tuple[PooledRecords, tf.Tensor]:
        """Returns a pool in the order in which it is cut into batches, and the order of the batches."""
        augmented, size = self._augment(store, seed, pool), self.settings.batch_size
        rows = batching.count(augmented)
        batches = -(-rows // size) if self.settings.last_batch == "keep" else rows // size
        if not self._ragged:
            return batching.permuted(augmented, seed), tf.range(batches)
        lengths = augmented.values[self._ragged].row_lengths()
        ordered = batching.sorted_by_length(augmented, lengths, seed)
        values = {
            key: batching.padded(value, size, self.features[key].widths) if self.features[key].is_ragged else value  # type: ignore[attr-defined]
            for key, value in ordered.values.items()
        }
        order = tf.random.experimental.stateless_shuffle(tf.range(batches), seed)
        return ordered._replace(values=values), order

    def _finish_training(self, store: RecordStore, batch: PooledRecords) -> Any:
        """Decodes and augments costly features, mixes records, and applies the user's maps."""
        values = self._augmented(store, batch.values, batch.seeds, costly=True)
        labels = self._soft(batch.labels)
        if self.is_soft:
            ((key, feature),) = self.features.items()
            values[key], labels = feature.mix(values[key], labels, batch.seeds)  # type: ignore[attr-defined]
        for ref in self.settings.maps:
            values, labels = tf.function(refs.load(ref))(values, labels, batch.seeds)
        return self._finished(values, labels)

    def _finish(self, decoded: tuple[Values, Any, tf.Tensor]) -> Any:
        values, labels, _ = decoded
        return self._finished(values, self._soft(labels))

    # ---- what the stages share

    def _finished(self, values: Values, labels: Any) -> Any:
        """Returns what the model sees."""
        finished: Values = {}
        for key, value in values.items():
            feature = self.features.get(key)
            # A map of the user may add values; texts of a pool are padded already.
            if feature is not None and (not feature.is_ragged or isinstance(value, tf.RaggedTensor)):
                value = feature.finish(value)  # noqa: PLW2901
            finished.update(modalities.named(key, value))
        return (finished, labels) if self.label else finished

    def _labels(self, columns: Mapping[str, Any]) -> Any:
        """Returns class indices or quantities; an empty tuple without a label."""
        if not self.label:
            return ()
        numbers = self.label_number(columns[self.label])
        if not numbers.dtype.is_integer:
            return numbers
        # The Gate stops unknown classes; one that gets through must not become a class index.
        message = f"column {self.label!r}: a class that is not in the label vocabulary"
        known = tf.debugging.assert_non_negative(numbers, message=message)
        with tf.control_dependencies([known] if known is not None else []):
            return tf.identity(numbers)

    def _soft(self, labels: Any) -> Any:
        return tf.one_hot(labels, self.classes) if self.is_soft else labels

    def _check_mixing(self) -> None:
        if self.is_soft and not self.classes:
            raise SettingsError("mixup and cutmix mix labels: pass the number of classes, or set both to 0")
        if self.is_soft and (len(self.features) != 1 or not hasattr(next(iter(self.features.values())), "mix")):
            raise SettingsError(
                f"mixup and cutmix need records with one image and no more; these have {', '.join(self.features)}: "
                "set input.augmentation.mixup and input.augmentation.cutmix to 0"
            )

    @property
    def _ragged(self) -> str:
        """The feature by whose length records are sorted; empty if there is none."""
        return next((key for key, feature in self.features.items() if feature.is_ragged), "")

    @property
    def _is_batchwise(self) -> bool:
        """Whether some work must be done per batch and not per pool."""
        costly = any(feature.is_costly for feature in self.features.values())
        return bool(costly or self.is_soft or self.settings.maps)

    def _steps(self, store: InputStore) -> int:
        records, size = store.size.records, self.settings.batch_size
        return records // size if self.settings.last_batch == "drop" else -(-records // size)

    def _calls(self, sizes: Budget) -> int:
        return tf.data.AUTOTUNE if self.settings.autotune else sizes.parallel

    def _cache(self, store: InputStore, sizes: Budget) -> DecodedCache:
        """Returns the records decoded, kept in memory or in a file."""
        settings, data = self.settings, store.size
        decoded = store.in_order(settings.batch_size)
        decoded = decoded.map(_graph(lambda pool: self._decode(store, pool)), sizes.parallel).unbatch()
        if settings.cache == "memory":
            return DecodedCache(decoded.cache(), data.records, bool(self._ragged))
        size = budget.cache_bytes(data, self.features.values())
        folder = _cache_folder(Path(settings.cache_directory or tempfile.gettempdir()), size)
        shuffle = max(1, min(data.records, settings.shuffle_mb * _MB * data.records // size))
        cache = DecodedCache(decoded.cache(str(folder / "records")), shuffle, bool(self._ragged))
        weakref.finalize(cache, shutil.rmtree, folder, ignore_errors=True)  # with the dataset, or with the process
        return cache


def options(settings: Input, sizes: Budget) -> tf.data.Options:
    """Returns the tf.data options of a budget."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = settings.autotune
    chosen.autotune.ram_budget = sizes.left_mb << 20
    chosen.experimental_optimization.inject_prefetch = settings.autotune
    chosen.threading.private_threadpool_size = sizes.parallel
    # One thread per batch: splitting a batch costs more than it gains while other batches wait.
    chosen.threading.max_intra_op_parallelism = 1
    return chosen


def in_memory(store: InputStore, sizes: Budget) -> Shards | MemoryShards | Rows:
    """Returns a store that keeps its records in memory if the budget allows it."""
    return MemoryShards.of(store) if sizes.in_memory and isinstance(store, Shards) else store


def _store(records: Records, worker: Worker) -> InputStore:
    store = Shards.of(records) if isinstance(records, Sequence) else records
    return store.share(worker)


def _counted(data: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    return data.apply(tf.data.experimental.assert_cardinality(steps))


def _cache_folder(home: Path, size: int) -> Path:
    if not home.is_dir():
        raise SettingsError(f"input.cache_directory {home}: no such folder; create it, or leave the setting empty")
    free = shutil.disk_usage(home).free
    if size > free:
        raise SettingsError(
            f"input.cache=file: decoded records need {size / _MB:,.0f} MB, {home} has {free / _MB:,.0f} MB free: "
            "set another input.cache_directory, or input.cache=none"
        )
    return Path(tempfile.mkdtemp(prefix="penstock-cache-", dir=home))


# Each epoch is read by new threads, and glibc keeps the memory that each thread freed for that thread: after some
# epochs a process had three times the memory in use. Trimming the heap keeps ram_mb (`python -m benchmarks.memory`).
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
_TRIM_SECONDS = 1.0  # at most once in this time: trimming takes up to 50 ms
_last_trim = [0.0]


def _trim_heap(epoch: tf.Tensor) -> tf.Tensor:
    """Returns the number of the epoch; free memory goes back to the system when it is read."""

    def trim(number: Any) -> Any:
        if _malloc_trim and time.monotonic() >= _last_trim[0] + _TRIM_SECONDS:
            _malloc_trim(0)
            _last_trim[0] = time.monotonic()
        return number

    return tf.ensure_shape(tf.numpy_function(trim, [epoch], tf.int64), [])
