"""The nodes of a pretrained model: one copies it into the pipeline, one embeds every image once, on Beam.

    extract.model ─► Extractor ─► Model: a copy, with its digest and where it came from
    examples, Model ─► Extract ─► examples with an embedding instead of each image; all other columns unchanged

A Beam element is a shard: read in batches, embedded, written to a temporary file, then published whole, on this machine
or on an object store. The shards are the same for any number of workers.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base import base_beam_executor, base_component, executor_spec
from tfx.types import artifact_utils, component_spec, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components import beam_workers
from components.pretrained import artifacts
from components.pretrained.copy_model import copy_model
from components.pretrained.find import PretrainedModel
from components.pretrained.load import load
from components.records import manifest, shard_files
from components.records.manifest import Manifest, Shard
from components.records.roles import embedding_column
from components.records.tfrecord.framing import TFRecordWriter
from components.storage import durable
from components.storage.local_copy import local_copy
from components.storage.location import Location, location

_REPORTS = "reports"


@component
def Extractor(  # noqa: N802
    path: Parameter[str],
    digest: Parameter[str],
    trusted: Parameter[bool],
    model: OutputArtifact[standard_artifacts.Model],
) -> None:
    """Copies the pretrained model into the pipeline, with its digest and provenance as properties."""
    copy_model(PretrainedModel(path, digest, trusted=trusted), Path(model.uri) / artifacts.SERVING)
    model.set_string_custom_property("source", path)
    model.set_string_custom_property("sha256", digest)
    for key, value in _provenance(Path(path)).items():
        if not isinstance(value, dict):  # the move is a record of the serving folder
            model.set_string_custom_property(f"source_{key}", str(value))


def _provenance(path: Path) -> dict[str, Any]:
    """Returns the pipeline and the artifact that a pushed model came from; empty for other models."""
    file = path / artifacts.PROVENANCE
    provenance: dict[str, Any] = orjson.loads(file.read_bytes()) if file.exists() else {}
    return provenance


class _ExtractSpec(component_spec.ComponentSpec):
    PARAMETERS = {  # noqa: RUF012 - TFX's way
        "image": ExecutionParameter(type=str),
        "batch_size": ExecutionParameter(type=int),
        "trusted": ExecutionParameter(type=bool),
    }
    INPUTS = {  # noqa: RUF012
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {"extracted": ChannelParameter(type=standard_artifacts.Examples)}  # noqa: RUF012


class ExtractExecutor(base_beam_executor.BaseBeamExecutor):
    """Rewrites every shard with embeddings instead of images."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Runs the Beam pipeline and writes the manifest of the new examples."""
        self._log_startup(input_dict, output_dict, exec_properties)
        examples, model = (artifact_utils.get_single_instance(input_dict[key]) for key in ("examples", "model"))
        extracted = artifact_utils.get_single_instance(output_dict["extracted"])
        source, target = (location(artifact.uri) for artifact in (examples, extracted))
        ingested = manifest.read(source)
        embed = _EmbedShard(
            source,
            target,
            location(model.uri),
            exec_properties["image"],
            exec_properties["batch_size"],
            trusted=bool(exec_properties["trusted"]),
        )
        beam_workers.prepare()
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | "Shards" >> beam.Create(list(ingested.shards), reshuffle=True) | "Embed" >> beam.ParDo(embed)
        _write_manifest(ingested, source, target)
        extracted.split_names = examples.split_names
        digest = examples.get_string_custom_property(artifacts.DATA_DIGEST)
        extracted.set_string_custom_property(artifacts.DATA_DIGEST, digest)
        examples_utils.set_payload_format(extracted, examples_utils.get_payload_format(examples))


class ExtractEmbeddings(base_component.BaseComponent):
    """The node Extract: replaces images by their embeddings.

    Component `outputs` contains:
     - `extracted`: the examples, with a column of embeddings instead of the images.
    """

    SPEC_CLASS = _ExtractSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ExtractExecutor)

    def __init__(
        self, examples: types.BaseChannel, model: types.BaseChannel, image: str, batch_size: int, *, trusted: bool
    ) -> None:
        """Embeds the images of the column `image`, in batches of `batch_size`."""
        spec: ComponentSpec = _ExtractSpec(
            examples=examples, model=model, image=image, batch_size=batch_size, trusted=trusted,
            extracted=types.Channel(type=standard_artifacts.Examples),
        )  # fmt: skip
        super().__init__(spec=spec)
        self.with_id("Extract")


def _write_manifest(ingested: Manifest, source: Location, target: Location) -> None:
    """Writes the manifest of the new shards, with all else as ingest wrote it."""
    shards = [Shard(**orjson.loads((target / _REPORTS / _report_name(each)).read_bytes())) for each in ingested.shards]
    durable.remove(target / _REPORTS)
    shard_files.finish(target, shards)
    manifest.write(target, replace(ingested, shards=tuple(shards)), manifest.read_quarantine(source))


def _report_name(shard: Shard) -> str:
    return f"{shard.name.replace('/', '-')}.json"


class _EmbedShard(beam.DoFn):
    """Writes one shard with embeddings, and a report about it."""

    def __init__(
        self,
        source: Location,
        target: Location,
        model: Location,
        image: str,
        batch_size: int,
        *,
        trusted: bool,
    ) -> None:
        self._source, self._target, self._artifact = source, target, model
        self._image, self._batch_size, self._trusted = image, batch_size, trusted

    def setup(self) -> None:
        self._copies = ExitStack()
        model = self._copies.enter_context(local_copy(self._artifact))
        self._model = load(artifacts.model_path(model / artifacts.SERVING), trusted=self._trusted)

    def teardown(self) -> None:
        self._copies.close()

    def process(self, shard: Shard) -> tuple[()]:
        with (
            local_copy(self._source / shard.name) as source,
            shard_files.publish(self._target, shard.name) as temporary,
            TFRecordWriter(temporary) as file,
        ):
            for records in self._batches(source):
                file.write([record] for record in self._embedded(records))
        report = Shard(shard.split, shard.name, file.records, file.size, file.checksum)
        durable.write_bytes(self._target / _REPORTS / _report_name(shard), orjson.dumps(report))
        return ()

    def _batches(self, shard: Path) -> Iterator[Any]:
        import tensorflow as tf

        compression = "GZIP" if shard.suffix == ".gz" else ""
        return iter(tf.data.TFRecordDataset(str(shard), compression).batch(self._batch_size))

    def _embedded(self, records: Any) -> Iterator[bytes]:
        import tensorflow as tf

        images = tf.io.parse_example(records, {self._image: tf.io.FixedLenFeature([], tf.string)})[self._image]
        embeddings = self._model.embed(images).numpy().astype("<f4")
        # One record at a time is fast enough: the model takes a hundred times as long.
        for record, embedding in zip(records.numpy(), embeddings, strict=True):
            yield _replaced(record, self._image, embedding.tobytes())


def _replaced(record: bytes, image: str, embedding: bytes) -> bytes:
    """Returns the serialized record with the embedding instead of the image."""
    import tensorflow as tf

    example = tf.train.Example.FromString(record)
    columns: Mapping[str, Any] = example.features.feature
    del columns[image]  # type: ignore[attr-defined]
    columns[embedding_column(image)].bytes_list.value.append(embedding)
    changed: bytes = example.SerializeToString(deterministic=True)
    return changed
