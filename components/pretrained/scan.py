"""Finds what a pretrained model could do besides computing: operations on files and processes, code in a .keras file.

    saved_model.pb ─► every node of every graph and function: stateless operations, and stateful ones on a list
    .keras, preset ─► every class in the JSON files: of Keras or KerasHub, and none that runs code or reads files
                      every link in the weights: none to another file

Operations that are not known to be harmless are refused, so an operation of a newer TensorFlow is refused as well.
Only the functions that save and restore the model itself may read and write files: Penstock never calls them.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from components.errors import BadInput

# Stateful in TensorFlow's registry, and without an effect outside of the model.
_HARMLESS = {
    "Assert", "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Case", "DestroyResourceOp",
    "DisableCopyOnRead", "For", "If", "MutableHashTableV2", "HashTableV2", "LookupTableFindV2", "LookupTableImportV2",
    "LookupTableInsertV2", "LookupTableExportV2", "LookupTableSizeV2", "InitializeTableV2", "AnonymousHashTable",
    "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
    "ReadVariableOp", "ResourceGather", "StatefulPartitionedCall", "TensorArrayCloseV3", "TensorArrayGatherV3",
    "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArraySizeV3", "TensorArrayV3", "TensorArrayWriteV3",
    "TruncatedNormal", "VarHandleOp", "VarIsInitializedOp", "VariableShape", "VariableV2", "While",
}  # fmt: skip
# Stateless in the registry, but they read files, call Python or a device library, or run a graph that is in a tensor.
_HARMFUL = re.compile(r"Dataset|Debug|File|Proto|PyFunc|TPU|Tpu|^Copy|^Reader|^XlaCustomCall|^XlaLaunch")
_OTHER_GRAPHS = ("saved_model.pbtxt", "saved_model.cpb")  # TensorFlow reads them too; only saved_model.pb is scanned
_PARTS = (
    "activations|constraints|dtype_policies|initializers|layers|losses|metrics|models|ops|optimizers|random|"
    "regularizers"
)
_MODULES = re.compile(rf"None|builtins|penstock|keras(?:\.src)?(?:\.(?:{_PARTS})(?:\..+)?)?|keras_hub(?:\..+)?")
_CODE_CLASSES = {"Lambda", "__lambda__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"}
_FILE_CLASSES = {"StringLookup", "IntegerLookup", "TextVectorization"}  # `vocabulary` may name any file
_MEMBERS = {"metadata.json", "config.json", "model.weights.h5"}


def require_harmless(model: Path, name: str) -> None:
    """Raises BadInput if a model does more than compute.

    Args:
        model: its folder or .keras file; the copy that will be loaded.
        name: what the user calls it, for the message.
    """
    for reason in _reasons(model):
        raise BadInput(
            f"extract.model {name}: {reason}; expected a model that only computes. If you trust its author, "
            "pin it with extract.sha256, or set extract.trust=true"
        )


def require_no_links(folder: Path) -> None:
    """Raises BadInput if a folder contains a symbolic link, or anything else that is no file and no folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BadInput(
                f"extract.model {folder}: {path.relative_to(folder)} is a link or a special file; expected regular "
                "files: copy the model with `cp -rL`, after looking at what the links point to"
            )


def _reasons(model: Path) -> Iterator[str]:
    if model.is_file():
        yield from _in_archive(model)
        return
    for path in sorted(path for path in model.rglob("*") if path.is_file()):
        inside = path.relative_to(model)
        if path.name == "saved_model.pb":
            yield from _in_saved_model(path)
        elif path.name in _OTHER_GRAPHS or path.suffix in {".pkl", ".pickle", ".npy", ".npz", ".pt", ".joblib"}:
            yield f"{inside} may contain code, or a graph that is not checked"
        elif path.suffix == ".keras":
            yield from _in_archive(path)
        elif path.suffix == ".h5":
            yield from _in_weights(path.read_bytes(), str(inside))
        elif path.suffix == ".json" and not path.is_relative_to(model / "assets.extra"):
            yield from _in_config(path.read_bytes(), str(inside))


def _in_archive(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            if others := sorted(set(archive.namelist()) - _MEMBERS):
                yield f"{path.name} contains {others[0]}; a .keras file that only computes has {sorted(_MEMBERS)}"
            yield from _in_config(archive.read("config.json"), f"config.json in {path.name}")
            yield from _in_weights(archive.read("model.weights.h5"), f"model.weights.h5 in {path.name}")
    except (zipfile.BadZipFile, KeyError) as error:
        yield f"{path.name} is not a .keras file: {error}"


def _in_config(content: bytes, name: str) -> Iterator[str]:
    try:
        found = list(_classes(json.loads(content)))
    except (ValueError, RecursionError) as error:
        yield f"{name} cannot be read: {error}"
        return
    for module, class_name in found:
        if class_name in _CODE_CLASSES:
            yield f"{name} contains a {class_name}, which runs code of its own"
        elif class_name in _FILE_CLASSES:
            yield f"{name} contains a {class_name}, which may read any file as its vocabulary"
        elif not _MODULES.fullmatch(module):
            yield f"{name} imports {module}.{class_name}, which is no part of a Keras model"


def _classes(config: Any) -> Iterator[tuple[str, str]]:
    """Yields module and name of every class and function in a Keras configuration."""
    if isinstance(config, dict):
        if "class_name" in config:
            yield str(config.get("module")), str(config["class_name"])
        for value in config.values():
            yield from _classes(value)
    elif isinstance(config, list):
        for value in config:
            yield from _classes(value)


def _in_weights(content: bytes, name: str) -> Iterator[str]:
    import h5py  # type: ignore[import-untyped]

    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            yield from (f"{name} links to another file at {at}" for at in _links_out(file, h5py))
    except (OSError, RecursionError) as error:
        yield f"{name} cannot be read: {error}"


def _links_out(group: Any, h5py: Any) -> Iterator[str]:
    for key in group:
        link = group.get(key, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            yield f"{group.name.rstrip('/')}/{key}"
        elif isinstance(link, h5py.HardLink):
            item = group[key]
            if isinstance(item, h5py.Group):
                yield from _links_out(item, h5py)
            elif item.external or item.is_virtual:
                yield item.name


def _in_saved_model(path: Path) -> Iterator[str]:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except DecodeError as error:
        yield f"{path.name} cannot be read: {error}"
        return
    for graph in saved.meta_graphs:
        for asset in graph.asset_file_def:
            parts = PurePosixPath(asset.filename).parts
            if len(parts) != 1 or parts[0] == "..":
                yield f"its asset {asset.filename} is outside of its folder"
        yield from (f"it contains the operation {name}, which is not known to be harmless" for name in _harmful(graph))


def _harmful(graph: Any) -> list[str]:
    from tensorflow.python.framework import op_def_registry

    library = graph.graph_def.library
    functions = {each.signature.name: list(each.node_def) for each in library.function}
    saver = {graph.saver_def.save_tensor_name.partition(":")[0], graph.saver_def.restore_op_name}
    savers = [node for node in graph.graph_def.node if node.name in saver]
    others = [node for node in graph.graph_def.node if node.name not in saver]
    called = _called(others, functions) | {
        name
        for exported in graph.object_graph_def.concrete_functions
        for name in {exported, *_called(functions.get(exported, ()), functions)}
    }
    only_savers = _called(savers, functions) - called
    nodes = [*graph.graph_def.node, *(n for name, body in functions.items() if name not in only_savers for n in body)]

    def is_harmful(name: str) -> bool:
        known = op_def_registry.get(name)
        return known is None or _HARMFUL.search(name) is not None or (known.is_stateful and name not in _HARMLESS)

    return sorted({node.op for node in nodes if node.op not in functions and is_harmful(node.op)})


def _called(nodes: Any, functions: dict[str, list[Any]]) -> set[str]:
    """Returns the names of all functions that nodes call, and that those call."""
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        values = node.attr.values()
        names = {node.op, *(v.func.name for v in values), *(f.name for v in values for f in v.list.func)}
        new = (names & functions.keys()) - found
        found |= new
        waiting += [inner for name in new for inner in functions[name]]
    return found
