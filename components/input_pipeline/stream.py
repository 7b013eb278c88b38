"""The stream of training batches: three shapes of one pipeline, each read downward, one stage a line.

    large records              epochs ─► pools ─► vary, finish
    small records              epochs ─► pools of many batches ─► vary, mix, finish ─► slice
    records of many lengths    epochs ─► pools of many batches ─► vary, sort, pad ─► cut ─► vary what is costly, finish

Parallel stages keep the order of what they are given, in the mode `fastest` too: there only reading is a race, so that
an epoch never takes a record of the next one.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from components.input_pipeline import heap, pools
from components.input_pipeline.beginnings import Beginning
from components.input_pipeline.budget import Plan
from components.input_pipeline.pools import Pool
from components.input_pipeline.recipe import Recipe
from components.input_pipeline.sharding import Position

_EPOCHS = 1_000_003  # more than anyone trains: epochs of one seed are never those of its neighbour
# Our functions are graphs as they stand: converting them would only take time.
_as_is: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert


def batches(
    begin: Beginning, recipe: Recipe, plan: Plan, epochs: tf.data.Dataset, start: Position, seed: int
) -> tf.data.Dataset:
    """Returns the batches of these epochs; the first one is entered at its step, and nothing before it is parsed."""
    settings, size = recipe.settings, recipe.settings.batch_size
    calls = tf.data.AUTOTUNE if settings.autotune else plan.parallel
    skipped, within = divmod(start.step, plan.pool // size)
    keep = settings.last_batch == "keep"

    def finish(pool: Pool) -> Any:
        return recipe.finish_varied(begin.vary_late(pool))

    data = heap.relieved(epochs)
    data = data.flat_map(_as_is(lambda epoch: _epoch(begin, epoch, seed, Position(start.epoch, skipped))))
    data = data.prefetch(1)
    if plan.pool == size:
        data = data.map(_as_is(lambda place, pool: finish(begin.vary(place[0], pool))), calls)
    elif not recipe.ragged and not recipe.is_batchwise:
        data = data.map(_as_is(lambda place, pool: _mixed(begin, recipe, plan, place, pool)), calls)
        data = data.flat_map(_as_is(lambda *batch: pools.sliced(batch[0] if len(batch) == 1 else batch, size, keep)))
        data = data.skip(within)
    else:
        late = recipe.is_batchwise
        data = data.map(_as_is(lambda place, pool: _sorted(begin, recipe, place, pool)), calls)
        data = data.flat_map(_as_is(lambda pool, order: pools.cut(pool, order, size, keep, _same if late else finish)))
        data = data.skip(within)
        data = data.map(_as_is(finish), calls) if late else data
    return data.prefetch(tf.data.AUTOTUNE if settings.autotune else plan.prefetch)


def _epoch(begin: Beginning, epoch: tf.Tensor, seed: int, start: Position) -> tf.data.Dataset:
    """Returns the pools of an epoch, each with its place: the epoch's seed and the pool's number."""
    own = seed * _EPOCHS + epoch
    data = begin.epoch(own).enumerate()
    data = data.skip(tf.where(epoch == start.epoch, tf.constant(start.step, tf.int64), 0))
    return data.map(_as_is(lambda number, pool: (tf.stack([own, number]), pool)))


def _mixed(begin: Beginning, recipe: Recipe, plan: Plan, place: tf.Tensor, pool: Any) -> Any:
    varied = begin.vary(place[0], pool)
    return recipe.finish_varied(varied if plan.held else pools.mixed(varied, place))  # no blocks, nothing to mix


def _sorted(begin: Beginning, recipe: Recipe, place: tf.Tensor, pool: Any) -> tuple[Pool, tf.Tensor]:
    """Returns a pool as it is cut into batches, and the order that they come in."""
    varied, size = begin.vary(place[0], pool), recipe.settings.batch_size
    count = pools.rows(varied) // size
    if recipe.settings.last_batch == "keep":
        count = -(-pools.rows(varied) // size)
    if not recipe.ragged:
        return pools.mixed(varied, place), tf.range(count)
    lengths = varied.values[recipe.ragged].row_lengths()
    ordered = pools.sorted_by_length(varied, lengths, place)
    order = tf.random.experimental.stateless_shuffle(tf.range(count), place)
    return ordered._replace(values=recipe.padded(ordered.values)), order


def _same(pool: Pool) -> Pool:
    return pool
