"""D3, D10: a pretrained model that could do more than compute is refused, unless its user trusts it."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from components.errors import BadInput
from components.pretrained import scan
from components.pretrained.copy_model import copy_model
from components.pretrained.find import PretrainedModel, find_model
from components.pretrained.load import load
from components.settings.extract import Extract
from components.storage.hashing import HashCache


def find(model: Path, **settings: Any) -> PretrainedModel:
    """Returns the model that settings name."""
    return find_model(Extract(model=str(model), **settings), HashCache(None))


def saved_model(folder: Path, compute: Callable[[Any], Any]) -> Path:
    """Saves a function of pixels as a SavedModel."""
    module = tf.Module()
    module.weight = tf.Variable(2.0)
    module.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, "image")])
    def features(image: Any) -> Any:
        return {"features": tf.reduce_mean(compute(image), [1, 2]) * module.weight}

    tf.saved_model.save(module, str(folder), signatures={"features": features})
    return folder


def change_graph(model: Path, change: Callable[[Any], Any]) -> None:
    """Changes the protocol buffer of a SavedModel."""
    saved = saved_model_pb2.SavedModel.FromString((model / "saved_model.pb").read_bytes())
    change(saved)
    (model / "saved_model.pb").write_bytes(saved.SerializeToString())


def keras_file(path: Path, *layers: Any) -> Path:
    """Saves a small Keras model."""
    inputs = keras.Input([8, 8, 3])
    keras.Model(inputs, keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D()])(inputs)).save(path)
    return path


def with_config(path: Path, change: Callable[[Any], Any]) -> Path:
    """Changes the configuration inside a .keras file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = json.dumps(change(json.loads(members["config.json"]))).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def nested(image: Any) -> Any:
    """Writes a file in a loop inside a condition."""

    def body(count: Any, total: Any) -> Any:
        tf.io.write_file("never", "x")
        return count + 1, total

    return tf.cond(
        tf.reduce_sum(image) > 0,
        lambda: tf.while_loop(lambda count, _: count < 1, body, [0, image])[1],
        lambda: image,
    )


def checkpoint(image: Any) -> Any:
    """Writes a file with the operation that saves variables."""
    tf.raw_ops.SaveV2(prefix="never", tensor_names=["x"], shape_and_slices=[""], tensors=[image])
    return image


def vocabulary(image: Any) -> Any:
    """Reads a file with an operation that TensorFlow registers as stateless."""
    files = {"new_vocab_file": "/etc/passwd", "old_vocab_file": "/etc/passwd"}
    found = tf.raw_ops.GenerateVocabRemapping(**files, new_vocab_offset=0, num_new_vocab=1, old_vocab_size=-1)
    return image + tf.cast(found.num_present, tf.float32)


def constant(image: Any) -> Any:
    """Reads a file as a constant."""
    found = tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[1], memory_region_name="/etc/passwd")
    return image + tf.cast(found, tf.float32)


HARMFUL = {
    "GenerateVocabRemapping": vocabulary,
    "ImmutableConst": constant,
    "ReadFile": lambda image: image + tf.cast(tf.strings.length(tf.io.read_file("/etc/passwd")), tf.float32),
    "WriteFile": nested,
    "MatchingFiles": lambda image: image + tf.cast(tf.size(tf.io.matching_files("/*")), tf.float32),
    "EagerPyFunc": lambda image: tf.ensure_shape(tf.py_function(lambda x: x, [image], tf.float32), [None, 8, 8, 3]),
    "PrintV2": lambda image: (tf.print("x", output_stream="file://never"), image)[1],
    "SaveV2": checkpoint,
}


@pytest.mark.parametrize("operation", HARMFUL)
def test_a_saved_model_with_an_operation_on_files_or_processes_is_refused(operation: str, tmp_path: Path) -> None:
    """The operation is found in nested functions as well; trust and a pinned digest allow it."""
    model = saved_model(tmp_path / "model", HARMFUL[operation])
    found = find(model)

    with pytest.raises(BadInput, match=f"it contains the operation {operation}, .* pin it with extract.sha256, or set"):
        copy_model(found, tmp_path / "copy")
    assert copy_model(find(model, trust=True), tmp_path / "trusted") == str(tmp_path / "trusted")
    assert copy_model(find(model, sha256=found.digest), tmp_path / "pinned") == str(tmp_path / "pinned")


def test_a_saved_model_that_computes_is_loaded(tmp_path: Path) -> None:
    """Its functions for saving and restoring are not called, and may contain operations on checkpoints."""
    model = saved_model(tmp_path / "model", tf.nn.relu)

    assert load(copy_model(find(model), tmp_path / "copy")).resource.weight.numpy() == 2.0


def test_a_saved_model_of_tensorflow_1_is_refused(tmp_path: Path) -> None:
    """D3: loading it would run its restore operation, here one that writes a file."""
    written, model = tmp_path / "written", tmp_path / "model"
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3])
        weight = tf.compat.v1.get_variable("weight", [], use_resource=True)
        features = tf.reduce_mean(image, [1, 2]) * weight
        tf.function(lambda: (tf.io.write_file(str(written), "x"), tf.constant("x"))[1])()
        (harmful,) = [each.name for each in graph.get_operations() if "PartitionedCall" in each.type]
        session.run(weight.initializer)
        tf.compat.v1.saved_model.simple_save(session, str(model), {"image": image}, {"features": features})

    def restore_harmfully(saved: Any) -> None:
        definition = saved.meta_graphs[0].saver_def
        definition.save_tensor_name, definition.restore_op_name = f"{harmful}:0", harmful

    change_graph(model, restore_harmfully)

    with pytest.raises(BadInput, match=r"saved_model\.pb is in the format of TensorFlow 1"):
        copy_model(find(model), tmp_path / "copy")
    tf.saved_model.load(str(model))
    assert written.exists()


def test_two_graphs_in_a_saved_model_are_refused(tmp_path: Path) -> None:
    """D3: TensorFlow loads them like a model of TensorFlow 1."""
    model = saved_model(tmp_path / "model", tf.identity)
    change_graph(model, lambda saved: saved.meta_graphs.append(saved.meta_graphs[0]))

    with pytest.raises(BadInput, match=r"saved_model\.pb is in the format of TensorFlow 1"):
        copy_model(find(model), tmp_path / "copy")


@pytest.mark.parametrize(("operation", "exported"), [("WriteFile", False), ("MergeV2Checkpoints", True)])
def test_a_saver_that_is_no_plain_saver_is_refused(operation: str, exported: bool, tmp_path: Path) -> None:
    """D3: one with an operation on other files, and one that an object names, so that it can be called."""

    def change(saved: Any) -> None:
        (graph,) = saved.meta_graphs
        (saver,) = [each for each in graph.graph_def.library.function if "traced_save" in each.signature.name]
        if exported:
            graph.object_graph_def.nodes.add().bare_concrete_function.concrete_function_name = saver.signature.name
        else:
            saver.node_def.add(name="harmful", op=operation)

    model = saved_model(tmp_path / "model", tf.identity)
    change_graph(model, change)

    with pytest.raises(BadInput, match=f"it contains the operation {operation}"):
        copy_model(find(model), tmp_path / "copy")


@pytest.mark.parametrize(
    ("name", "content"),
    [("saved_model.pbtxt", b""), ("saved_model.cpb", b""), ("assets/x.pkl", b""), ("saved_model.pb", b"\xff")],
)
def test_files_that_are_not_checked_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    """TensorFlow reads other formats of the graph too."""
    model = saved_model(tmp_path / "model", tf.identity)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_bytes(content)

    with pytest.raises(BadInput, match=f"{Path(name).name} (may contain code|cannot be read)"):
        copy_model(find(model), tmp_path / "copy")


def test_an_asset_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Its name is joined to the folder by TensorFlow."""
    model = saved_model(tmp_path / "model", tf.identity)
    change_graph(model, lambda saved: saved.meta_graphs[0].asset_file_def.add(filename="../../secret.txt"))

    with pytest.raises(BadInput, match=r"its asset \.\./\.\./secret\.txt is outside"):
        copy_model(find(model), tmp_path / "copy")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """D4: not even in a trusted model."""
    model = saved_model(tmp_path / "model", tf.identity)
    (model / "assets" / "passwd").parent.mkdir(exist_ok=True)
    (model / "assets" / "passwd").symlink_to("/etc/passwd")

    with pytest.raises(BadInput, match="assets/passwd is a link"):
        find(model, trust=True)


def test_a_model_that_changes_after_planning_is_refused(tmp_path: Path) -> None:
    """The copy is compared with the digest of the plan."""
    path = keras_file(tmp_path / "net.keras")
    found = find(path)
    keras_file(path, keras.layers.Rescaling(2.0))

    with pytest.raises(BadInput, match="changed while it was copied"):
        copy_model(found, tmp_path / "copy")


def test_a_lambda_layer_is_refused_unless_trusted(tmp_path: Path) -> None:
    """Its code runs only if the user said so."""
    path = keras_file(tmp_path / "net.keras", keras.layers.Lambda(lambda x: x * 3.0))
    trusted = copy_model(find(path, trust=True), tmp_path / "trusted")

    with pytest.raises(BadInput, match=r"config\.json in .*\.keras contains a (Lambda|__lambda__), which runs code"):
        copy_model(find(path), tmp_path / "copy")
    assert load(trusted, trusted=True).resource.output_shape == (None, 3)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            {"module": "os", "class_name": "system", "config": "x"},
            "imports os.system, which is no part of a Keras model",
        ),
        ({"module": "keras.utils", "class_name": "get_file", "config": {}}, "imports keras.utils.get_file"),
        ({"module": "keras.layers", "class_name": "TFSMLayer", "config": {}}, "contains a TFSMLayer"),
        ({"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}}, "any file"),
        ({"module": "keras.src.layers", "class_name": "IndexLookup", "config": {}}, "any file"),
        ({"module": "keras", "class_name": "layers.StringLookup", "config": {}}, "imports keras.layers.StringLookup"),
        ({"module": "keras", "class_name": "layers.TFSMLayer", "config": {}}, "imports keras.layers.TFSMLayer"),
        (
            {"module": "keras.layers", "class_name": "Dense", "registered_name": "keras_hub>BytePairTokenizer"},
            "contains a BytePairTokenizer",
        ),
        (
            {"module": "keras", "class_name": "function", "config": "config.enable_unsafe_deserialization"},
            "imports keras.config.enable_unsafe_deserialization",
        ),
        ({"module": "keras.models", "class_name": "function", "config": "load_model"}, "imports keras.models.load_mod"),
    ],
)
def test_a_configuration_that_names_code_or_files_is_refused(entry: Any, reason: str, tmp_path: Path) -> None:
    """Wherever it is in the configuration."""
    path = with_config(keras_file(tmp_path / "net.keras"), lambda config: {**config, "extra": [{"x": entry}]})

    with pytest.raises(BadInput, match=reason):
        copy_model(find(path), tmp_path / "copy")


@pytest.mark.parametrize("kind", ["link", "dataset"])
def test_weights_in_another_file_are_refused(kind: str, tmp_path: Path) -> None:
    """HDF5 can link to any file."""
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        if kind == "link":
            file["w"] = h5py.ExternalLink("/etc/passwd", "/")
        else:
            file.create_dataset("w", (4,), "u1", external=[("/etc/passwd", 0, 4)])
    path = keras_file(tmp_path / "net.keras")
    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", weights.getvalue())

    with pytest.raises(BadInput, match=r"model\.weights\.h5 in .* links to another file at /w"):
        copy_model(find(path), tmp_path / "copy")


def test_a_keras_file_that_expands_to_a_huge_size_is_refused(tmp_path: Path) -> None:
    """D10: before anything is decompressed."""
    path = tmp_path / "net.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("model.weights.h5", bytes(80 << 20))

    with pytest.raises(BadInput, match=r"net\.keras expands to 83,886,080 bytes, more than its limit of"):
        scan.require_harmless(path, "net.keras")


def test_a_special_file_is_refused(tmp_path: Path) -> None:
    """Reading it would wait forever."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BadInput, match="pipe is a link or a special file"):
        scan.require_no_links(tmp_path)
