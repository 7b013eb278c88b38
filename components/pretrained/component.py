"""The two nodes of a pretrained network: one takes it in, one lets it look at every image, once, on Beam.

    extract.model ─► Extractor ─► Model: a copy, its digest, and where it came from, over the border of the pipeline
    examples, Model ─► Extract ─► examples with a vector in the place of each image; all else as it was

A Beam element is a shard: read, looked at a batch at a time, written aside, renamed. The same shards come out, whatever
the number of workers.
"""

import shutil
from collections.abc import Iterator, Mapping
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
from components.errors import BadInput
from components.pretrained import extractor
from components.records import manifest
from components.records.manifest import Manifest, Shard
from components.records.roles import embedding_column
from components.records.tfrecord import TFRecordWriter
from components.storage import durable

MODEL = extractor.SERVING
_REPORTS = "reports"


@component
def Extractor(path: Parameter[str], digest: Parameter[str], model: OutputArtifact[standard_artifacts.Model]) -> None:  # noqa: N802
    """Copies the network into the pipeline, and notes what it is and who made it."""
    target = Path(model.uri) / MODEL
    target.parent.mkdir(parents=True, exist_ok=True)
    if Path(path).is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
    elif Path(path).is_file():
        shutil.copy2(path, target.with_suffix(".keras"))
    else:
        durable.write_bytes(target.with_suffix(".txt"), path.encode())  # a Keras application, by its name
    model.set_string_custom_property("source", path)
    model.set_string_custom_property("sha256", digest)
    for key, value in provenance(Path(path)).items():
        model.set_string_custom_property(f"source_{key}", str(value))


def provenance(path: Path) -> dict[str, Any]:
    """Returns which pipeline's which artifact a pushed model is; nothing if nobody has noted it."""
    note = path / extractor.PROVENANCE
    noted: dict[str, Any] = orjson.loads(note.read_bytes()) if note.exists() else {}
    return noted


class _Spec(component_spec.ComponentSpec):
    PARAMETERS = {  # noqa: RUF012 - TFX's way
        "image": ExecutionParameter(type=str),
        "batch_size": ExecutionParameter(type=int),
    }
    INPUTS = {  # noqa: RUF012
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {"extracted": ChannelParameter(type=standard_artifacts.Examples)}  # noqa: RUF012


class ExtractExecutor(base_beam_executor.BaseBeamExecutor):
    """Rewrites every shard."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Lets the network look at every image of the examples."""
        self._log_startup(input_dict, output_dict, exec_properties)
        examples, model = (artifact_utils.get_single_instance(input_dict[key]) for key in ("examples", "model"))
        extracted = artifact_utils.get_single_instance(output_dict["extracted"])
        source, target = Path(examples.uri), Path(extracted.uri)
        books = manifest.read(source)
        work = _Look(
            source,
            target,
            extractor.path_in(Path(model.uri) / MODEL),
            exec_properties["image"],
            exec_properties["batch_size"],
        )
        beam_workers.watch()
        (target / _REPORTS).mkdir(parents=True, exist_ok=True)
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | "Shards" >> beam.Create(list(books.shards), reshuffle=True) | "Look" >> beam.ParDo(work)
        _close(books, source, target)
        extracted.split_names = examples.split_names
        examples_utils.set_payload_format(extracted, examples_utils.get_payload_format(examples))


class Extract(base_component.BaseComponent):
    """Images to vectors.

    Component `outputs` contains:
     - `extracted`: Examples, as they were, with a column of vectors in the place of the images.
    """

    SPEC_CLASS = _Spec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ExtractExecutor)

    def __init__(self, examples: types.BaseChannel, model: types.BaseChannel, image: str, batch_size: int) -> None:
        """Looks at the images in the column `image`."""
        spec: ComponentSpec = _Spec(
            examples=examples, model=model, image=image, batch_size=batch_size,
            extracted=types.Channel(type=standard_artifacts.Examples),
        )  # fmt: skip
        super().__init__(spec=spec)


def _close(books: Manifest, source: Path, target: Path) -> None:
    """Writes the account of what came out."""
    made = [Shard(**orjson.loads((target / _REPORTS / _note(each)).read_bytes())) for each in books.shards]
    shutil.rmtree(target / _REPORTS)
    manifest.write(target, replace(books, shards=tuple(made)), manifest.read_quarantine(source))


def _note(shard: Shard) -> str:
    return f"{shard.name.replace('/', '-')}.json"


class _Look(beam.DoFn):
    def __init__(self, source: Path, target: Path, model: str, image: str, batch_size: int) -> None:
        self._source, self._target, self._model = source, target, model
        self._image, self._batch_size = image, batch_size

    def setup(self) -> None:
        self._network = extractor.load(self._model)

    def process(self, shard: Shard) -> tuple[()]:
        path = self._target / shard.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.publish_file(path) as aside, TFRecordWriter(aside) as file:
            for records in self._read(shard):
                file.write([record] for record in self._looked_at(records))
        if file.records != shard.records:
            raise BadInput(f"{shard.name}: {file.records} records came out of {shard.records}")
        told = Shard(shard.split, shard.name, file.records, file.size, file.checksum)
        durable.write_bytes(self._target / _REPORTS / _note(shard), orjson.dumps(told))
        return ()

    def _read(self, shard: Shard) -> Iterator[Any]:
        import tensorflow as tf

        packed = "GZIP" if shard.name.endswith(".gz") else ""
        return iter(tf.data.TFRecordDataset(str(self._source / shard.name), packed).batch(self._batch_size))

    def _looked_at(self, records: Any) -> Iterator[bytes]:
        import tensorflow as tf

        images = tf.io.parse_example(records, {self._image: tf.io.FixedLenFeature([], tf.string)})[self._image]
        vectors = self._network.features(images).numpy().astype("<f4")
        # A record at a time: the network takes a hundred times as long.
        for record, vector in zip(records.numpy(), vectors, strict=True):
            yield _replaced(record, self._image, vector.tobytes())


def _replaced(record: bytes, image: str, vector: bytes) -> bytes:
    import tensorflow as tf

    example = tf.train.Example.FromString(record)
    columns: Mapping[str, Any] = example.features.feature
    del columns[image]  # type: ignore[attr-defined]
    columns[embedding_column(image)].bytes_list.value.append(vector)
    changed: bytes = example.SerializeToString(deterministic=True)
    return changed
