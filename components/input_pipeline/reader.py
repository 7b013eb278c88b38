"""How the records of one task become batches, read downward, one stage a line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.features import Feature
from components.input_pipeline import budget, held, stream
from components.input_pipeline.beginnings import Beginning, Kept, Stored
from components.input_pipeline.budget import Plan
from components.input_pipeline.recipe import Recipe
from components.input_pipeline.sharding import Position, RecordFile, Worker
from components.input_pipeline.shards import Shards
from components.input_pipeline.source import Source
from components.settings.input import Input

Records = Source | Sequence[RecordFile]
_FIRST, _ALONE = Position(), Worker()


@dataclass(frozen=True)
class Reader:
    """How the records of one task become batches."""

    features: Mapping[str, Feature]
    label: str  # column; empty: batches have no labels
    label_number: Callable[[tf.Tensor], tf.Tensor]  # fitted by Transform
    settings: Input
    seed: int
    classes: int = 0  # needed where labels are blended
    label_type: str = "string"  # in the record
    record_id: str = ""  # column that names a record; empty: a hash of the record does

    def training(
        self, records: Records, start: Position = _FIRST, worker: Worker = _ALONE, epochs: int | None = None
    ) -> tf.data.Dataset:
        """Returns epoch after epoch, each in another order, from `start` on; without end unless `epochs` is given."""
        source = self._source(records, worker)
        steps = self._steps(source)
        start = start.after(0, steps)
        if epochs is None:
            return self._batches(source, tf.data.Dataset.counter(start.epoch), start)
        numbers = tf.data.Dataset.range(start.epoch, start.epoch + epochs)
        return _counted(self._batches(source, numbers, start), epochs * steps - start.step)

    def passes(self, records: Records, worker: Worker = _ALONE) -> tf.data.Dataset:
        """Returns one epoch; who reads the data set again gets the next one."""
        source = self._source(records, worker)
        counter = tf.Variable(-1, dtype=tf.int64, trainable=False)
        numbers = tf.data.Dataset.from_tensors(0).map(lambda _: counter.assign_add(1))
        return _counted(self._batches(source, numbers, _FIRST), self._steps(source))

    def evaluation(self, records: Records, worker: Worker = _ALONE) -> tf.data.Dataset:
        """Returns every record once, in stored order, unaltered."""
        source = self._source(records, worker)
        plan = budget.plan(self.settings.model_copy(update={"cache": "none"}), source.data, self.features.values())
        stored, recipe = self._stored(source, plan), self._recipe
        calls = tf.data.AUTOTUNE if self.settings.autotune else plan.parallel
        data = source.in_order(self.settings.batch_size)
        data = data.map(
            tf.autograph.experimental.do_not_convert(lambda pool: recipe.finish(stored.decode(pool))), calls
        )
        return data.prefetch(plan.prefetch).with_options(self._options(plan))

    def steps(self, records: Records, worker: Worker = _ALONE) -> int:
        """Returns how many batches of training make an epoch."""
        return self._steps(self._source(records, worker))

    def evaluation_steps(self, records: Records, worker: Worker = _ALONE) -> int:
        """Returns how many batches hold every record once."""
        return -(-self._source(records, worker).data.records // self.settings.batch_size)

    def spec(self) -> dict[str, Any]:
        """Returns the columns that are parsed, the label among them."""
        return self._recipe.spec()

    @property
    def is_soft(self) -> bool:
        """Whether labels are shares of every class, because training blends records."""
        return self._recipe.mixes

    def _batches(self, source: Source, epochs: tf.data.Dataset, start: Position) -> tf.data.Dataset:
        plan = budget.plan(self.settings, source.data, self.features.values())
        begin: Beginning = self._stored(held.where_planned(source, plan), plan)
        if self.settings.cache != "none":
            begin = Kept(self._stored(source, plan))
        data = stream.batches(begin, self._recipe, plan, epochs, start, self.seed)
        return data.with_options(self._options(plan))

    def _stored(self, source: Source, plan: Plan) -> Stored:
        return Stored(source, self._recipe, self.record_id, plan)

    def _source(self, records: Records, worker: Worker) -> Source:
        source = Shards.of(records) if isinstance(records, Sequence) else records
        return source.share(worker)

    def _steps(self, source: Source) -> int:
        records, size = source.data.records, self.settings.batch_size
        return records // size if self.settings.last_batch == "drop" else -(-records // size)

    @property
    def _recipe(self) -> Recipe:
        return Recipe(self.features, self.label, self.label_number, self.label_type, self.classes, self.settings)

    def _options(self, plan: Plan) -> tf.data.Options:
        options = tf.data.Options()
        options.autotune.enabled = self.settings.autotune
        options.autotune.ram_budget = plan.left_mb << 20
        options.experimental_optimization.inject_prefetch = self.settings.autotune
        options.threading.private_threadpool_size = plan.parallel
        # A batch is worked on by one thread: sharing one out costs more than it gains while others wait for theirs.
        options.threading.max_intra_op_parallelism = 1
        return options


def _counted(data: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    return data.apply(tf.data.experimental.assert_cardinality(steps))
