"""Reduces batches of records to what the metrics read, before TFMA takes the batches apart.

    features                                 ─► those that metrics are sliced by
    labels: strings, or quantities           ─► numbers of classes, or quantities
    predictions: probabilities, all_classes  ─► probabilities
                 value                       ─► value

From there on TFMA handles every value of every record in Python: a table of 20 columns has 26 of them, and the number
of a class would be found by comparing its name with those of all classes.
"""

from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.extractors.unbatch_extractor import UNBATCH_EXTRACTOR_STAGE_NAME

Extracts = dict[str, Any]
_SHOWN = 10  # values of an array that an error shows
_SLICES = "transformed_features"  # what the model computes to slice metrics by; TFMA's name


def custom_extractors(eval_shared_model: Any, eval_config: tfma.EvalConfig, tensor_adapter_config: Any) -> list[Any]:
    """Returns TFMA's extractors and ours; the Evaluator calls it by this name."""
    # TFMA calls a signature by position; TensorFlow writes the whole batch into an error before it tries another way.
    np.set_printoptions(threshold=_SHOWN)
    extractors = tfma.default_extractors(
        eval_shared_model=eval_shared_model, eval_config=eval_config, tensor_adapter_config=tensor_adapter_config
    )
    sliced = frozenset(key for spec in eval_config.slicing_specs for key in spec.feature_keys)
    reducing = tfma.extractors.Extractor("Reduce", "Reduce" >> beam.Map(partial(reduce, sliced=sliced)))
    place = [each.stage_name for each in extractors].index(UNBATCH_EXTRACTOR_STAGE_NAME)
    return [*extractors[:place], reducing, *extractors[place:]]


def reduce(batch: Extracts, sliced: frozenset[str]) -> Extracts:
    """Returns a batch with labels and predictions as plain arrays; of two models, by their names."""
    labels, predictions = batch[tfma.LABELS_KEY], batch[tfma.PREDICTIONS_KEY]
    if isinstance(labels, dict):
        pairs = {name: _arrays(labels[name], predictions[name]) for name in labels}
        label, prediction = ({name: pair[place] for name, pair in pairs.items()} for place in (0, 1))
    else:
        label, prediction = _arrays(labels, predictions)
    kept = {name: values for name, values in batch[tfma.FEATURES_KEY].items() if name in sliced}
    others = {_SLICES: batch[_SLICES]} if _SLICES in batch else {}
    return {tfma.LABELS_KEY: label, tfma.PREDICTIONS_KEY: prediction, tfma.FEATURES_KEY: kept, **others}


def _arrays(labels: Any, predicted: Any) -> tuple[Any, Any]:
    """Returns one number per record, the class or the quantity, and the prediction."""
    if isinstance(predicted, np.ndarray):  # TFMA unpacks a single output: `value`
        return labels.reshape(-1), predicted
    numbers = {name: number for number, name in enumerate(predicted["all_classes"][0])}
    found = np.fromiter((numbers.get(label, -1) for label in labels.reshape(-1)), np.int64, len(labels))
    return found, predicted["probabilities"]
