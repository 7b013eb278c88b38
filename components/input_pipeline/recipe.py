"""What is done to a pool of records, whatever order it comes in.

columns ─┬─► decode ───────────────────────────┬─► finish ─► (values, labels)
         └─► vary (decode and augment) ─► mix ─┘
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from components import features, refs
from components.errors import SettingsError
from components.features import Feature
from components.input_pipeline import pools
from components.input_pipeline.pools import Pool
from components.settings.input import Input

Values = dict[str, Any]


@runtime_checkable
class Mixable(Protocol):
    """A feature of which two records can be blended."""

    def mix(self, values: Any, shares: Any, seeds: Any) -> tuple[Any, Any]:
        """Blends neighbours of a batch, and their labels."""


@dataclass(frozen=True)
class Recipe:
    """The features and the label of one task."""

    features: Mapping[str, Feature]
    label: str
    label_number: Callable[[tf.Tensor], tf.Tensor]
    label_type: str
    classes: int
    settings: Input

    def __post_init__(self) -> None:
        if not self.mixes:
            return
        if not self.classes:
            raise SettingsError("mixup and cutmix blend labels: they need the number of classes")
        if len(self.features) != 1 or not isinstance(next(iter(self.features.values())), Mixable):
            raise SettingsError(
                f"mixup and cutmix blend records of one image; these have {', '.join(self.features)}: "
                "set input.augmentation.mixup and cutmix to 0"
            )

    @property
    def mixes(self) -> bool:
        """Whether records are blended, and labels are shares of every class."""
        return self.settings.augment and self.settings.augmentation.mixes

    @property
    def is_batchwise(self) -> bool:
        """Whether something must be done to batches, and cannot be done to pools of them."""
        costly = any(feature.is_costly for feature in self.features.values())
        return bool(costly or self.mixes or self.settings.maps)

    @property
    def ragged(self) -> str:
        """The feature by whose length records are sorted; empty if there is none."""
        return next((key for key, feature in self.features.items() if feature.is_ragged), "")

    def spec(self) -> dict[str, Any]:
        """Returns all columns that are parsed."""
        spec = features.spec(self.features)
        if self.label:
            spec[self.label] = tf.io.FixedLenFeature([], tf.dtypes.as_dtype(self.label_type))
        return spec

    def stored(self, columns: Mapping[str, Any]) -> Values:
        """Returns what each feature has in parsed columns."""
        return {key: features.stored(columns, key, feature) for key, feature in self.features.items()}

    def done(self, values: Values, work: Callable[[Feature, Any], Any], costly: bool | None = None) -> Values:
        """Returns the values after some work on each feature; `costly` has it done on those that are so, or are not."""
        return {
            key: work(feature, values[key]) if costly in {None, feature.is_costly} else values[key]
            for key, feature in self.features.items()
        }

    def padded(self, values: Values) -> Values:
        """Returns a pool's values, records of different lengths padded for the batches that it is cut into."""
        size = self.settings.batch_size
        return {
            key: pools.padded(value, size, self.features[key].widths) if self.features[key].is_ragged else value  # type: ignore[attr-defined]
            for key, value in values.items()
        }

    def numbers(self, columns: Mapping[str, Any]) -> Any:
        """Returns the labels as numbers; nothing where there are none."""
        if not self.label:
            return ()
        numbers = self.label_number(columns[self.label])
        if not numbers.dtype.is_integer:
            return numbers
        # The gate stops classes that Transform has not seen; if one comes this far, it must not become a number.
        known = tf.debugging.assert_non_negative(numbers, message="a label that the vocabulary does not hold")
        with tf.control_dependencies([known] if known is not None else []):
            return tf.identity(numbers)

    def finish(self, decoded: tuple[Values, Any, tf.Tensor]) -> Any:
        """Returns what the model sees in evaluation."""
        values, labels, _ = decoded
        return self._batch(values, self._shares(labels))

    def finish_varied(self, pool: Pool) -> Any:
        """Returns what the model sees in training: blended, and handed through the maps of the user."""
        values, labels = pool.values, self._shares(pool.labels)
        if self.mixes:
            ((key, feature),) = self.features.items()
            values[key], labels = feature.mix(values[key], labels, pool.seeds)  # type: ignore[attr-defined]
        for ref in self.settings.maps:
            values, labels = tf.function(refs.load(ref))(values, labels, pool.seeds)
        return self._batch(values, labels)

    def _shares(self, labels: Any) -> Any:
        return tf.one_hot(labels, self.classes) if self.mixes else labels

    def _batch(self, values: Values, labels: Any) -> Any:
        finished: Values = {}
        for key, value in values.items():
            finished.update(features.named(key, self._finished(key, value)))
        return (finished, labels) if self.label else finished

    def _finished(self, key: str, value: Any) -> Any:
        feature = self.features.get(key)
        # What a map of the user added is the user's; texts of a pool are padded by then.
        if feature is None or (feature.is_ragged and not isinstance(value, tf.RaggedTensor)):
            return value
        return feature.finish(value)
