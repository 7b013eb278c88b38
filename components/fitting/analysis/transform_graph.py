"""Writes the Transform graph, with the metadata files that `tft.TFTransformOutput` reads, without a Beam pipeline.

TFX's executor reads all records as soon as a graph has a lookup table, which it takes for an input of an analyzer: on
160,000 records that takes longer than all the rest of Transform.
"""

from collections.abc import Callable
from typing import Any

import tensorflow_transform as tft
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io

from components.fitting.analysis import shards


def write(schema: str, preprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]], folder: str) -> None:
    """Writes the graph of a `preprocessing_fn` that has no analyzers of TensorFlow Transform."""
    parsed = shards.parsed(schema)
    specs = shards.specs_of(parsed)
    raw = f"{folder}/{tft.TFTransformOutput.RAW_METADATA_DIR}"
    metadata_io.write_metadata(dataset_metadata.DatasetMetadata(parsed), raw)
    impl_helper.analyze_in_place(
        preprocessing_fn,
        force_tf_compat_v1=False,
        feature_specs=specs,
        type_specs=shards.types_of(specs),
        transform_output_path=folder,
    )
