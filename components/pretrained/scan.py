"""Finds what a pretrained model could do besides computing: operations on files and processes, code in a .keras file.

    saved_model.pb ─► every node of its graph and functions: stateless operations, and stateful ones on a list
    .keras, preset ─► every class in the JSON files: of Keras or KerasHub, and none that runs code or reads files
                      every link in the weights: none to another file

Operations that are not known to be harmless are refused, so an operation of a newer TensorFlow is refused as well.
Only the functions that save and restore the model itself may contain operations on checkpoints: nothing calls them
when a SavedModel of TensorFlow 2 is loaded. TensorFlow 1 runs its restore operation, so its SavedModels are refused.
"""

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

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
_HARMFUL = re.compile(
    r"Dataset|Debug|File|Mlir|Proto|PyFunc|TfLite|TPU|Tpu|TRT|^Copy|^LoadAndRemap|^Reader|^XlaCustomCall|^XlaLaunch"
)
_READS_FILES = re.compile(r"file|path|directory|memory_region")  # in the name of an attribute or an input
_SAVER = {"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"}
_OTHER_GRAPHS = ("saved_model.pbtxt", "saved_model.cpb")  # TensorFlow reads them too; only saved_model.pb is scanned
_PARTS = (
    "activations|constraints|dtype_policies|initializers|layers|losses|metrics|models|ops|optimizers|random|"
    "regularizers"
)
_MODULES = re.compile(rf"None|builtins|penstock|keras(?:\.src)?(?:\.(?:{_PARTS})(?:\..+)?)?|keras_hub(?:\..+)?")
# Keras finds every public function by its module and name; the other modules have some that load files.
_FUNCTIONS = re.compile(
    r"builtins|keras\.(?:activations|constraints|initializers|losses|metrics|ops|random|regularizers)(?:\..+)?|"
    r"keras_hub(?:\..+)?"
)
_CODE_CLASSES = re.compile(r"_*(?:lambda|tfsm_?layer|torch_?module_?wrapper|jax_?layer|flax_?layer)_*", re.IGNORECASE)
# Their vocabulary may be the name of any file.
_FILE_CLASSES = re.compile(r"(?:string|integer|index)_?lookup|text_?vectorization|.*tokenizer", re.IGNORECASE)
_MEMBERS = {"metadata.json", "config.json", "model.weights.h5"}
# Keras does not compress weights. A file that expands to more than this could fill the disk or the memory.
_EXPANSION = 10  # times the size of the .keras file
_SMALL = 64 << 20  # bytes that any .keras file may expand to


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


def require_no_links(folder: Path, setting: str = "extract.model") -> None:
    """Raises BadInput if a folder contains a symbolic link, or anything else that is no file and no folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BadInput(
                f"{setting} {folder}: {path.relative_to(folder)} is a link or a special file; expected regular "
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
            yield from _in_weights(path, str(inside))
        elif path.suffix == ".json" and not path.is_relative_to(model / "assets.extra"):
            yield from _in_config(path.read_bytes(), str(inside))


def _in_archive(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryFile(dir=path.parent) as weights:
            size, limit = sum(each.file_size for each in archive.infolist()), _EXPANSION * path.stat().st_size + _SMALL
            if size > limit:
                yield f"{path.name} expands to {size:,} bytes, more than its limit of {limit:,}"
                return
            if others := sorted(set(archive.namelist()) - _MEMBERS):
                yield f"{path.name} contains {others[0]}; a .keras file that only computes has {sorted(_MEMBERS)}"
            yield from _in_config(archive.read("config.json"), f"config.json in {path.name}")
            with archive.open("model.weights.h5") as member:
                shutil.copyfileobj(member, weights)
            yield from _in_weights(weights, f"model.weights.h5 in {path.name}")
    except (zipfile.BadZipFile, zlib.error, KeyError, RuntimeError) as error:
        yield f"{path.name} is not a .keras file: {error}"


def _in_config(content: bytes, name: str) -> Iterator[str]:
    try:
        found = list(_classes(json.loads(content)))
    except (ValueError, RecursionError) as error:
        yield f"{name} cannot be read: {error}"
        return
    for module, class_name, modules in found:
        if _CODE_CLASSES.fullmatch(class_name):
            yield f"{name} contains a {class_name}, which runs code of its own"
        elif _FILE_CLASSES.fullmatch(class_name):
            yield f"{name} contains a {class_name}, which may read any file as its vocabulary"
        elif not modules.fullmatch(module) or "." in class_name:
            yield f"{name} imports {module}.{class_name}, which is no part of a Keras model"


def _classes(config: Any) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yields module and name of every class and function in a Keras configuration, and the modules it may be in."""
    if isinstance(config, dict):
        if "class_name" in config:
            module, class_name = str(config.get("module")), str(config["class_name"])
            registered = str(config.get("registered_name") or class_name).rpartition(">")[2]
            if class_name == "function":
                yield from ((module, name, _FUNCTIONS) for name in (str(config.get("config")), registered))
            else:
                yield from ((module, name, _MODULES) for name in (class_name, registered))
        for value in config.values():
            yield from _classes(value)
    elif isinstance(config, list):
        for value in config:
            yield from _classes(value)


def _in_weights(file: Path | IO[bytes], name: str) -> Iterator[str]:
    import h5py  # type: ignore[import-untyped]

    try:
        with h5py.File(file, "r") as weights:
            yield from (f"{name} links to another file at {at}" for at in _links_out(weights, h5py))
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
    if len(saved.meta_graphs) != 1 or not saved.meta_graphs[0].object_graph_def.nodes:
        yield f"{path.name} is in the format of TensorFlow 1, which runs operations of the model while it is loaded"
    for graph in saved.meta_graphs:
        for asset in graph.asset_file_def:
            parts = PurePosixPath(asset.filename).parts
            if len(parts) != 1 or parts[0] == "..":
                yield f"its asset {asset.filename} is outside of its folder"
        yield from (f"it contains the operation {name}, which is not known to be harmless" for name in _harmful(graph))


def _harmful(graph: Any) -> list[str]:
    functions = {each.signature.name: list(each.node_def) for each in graph.graph_def.library.function}
    nodes, savers = graph.graph_def.node, _savers(graph, functions)
    used = {node.op for node in nodes} | {n.op for name in functions.keys() - savers for n in functions[name]}
    saving = {node.op for name in savers for node in functions[name]} - _SAVER
    return sorted(name for name in (used | saving) - functions.keys() if _is_harmful(name))


def _is_harmful(operation: str) -> bool:
    from tensorflow.python.framework import op_def_registry

    known = op_def_registry.get(operation)
    if known is None or _HARMFUL.search(operation) or (known.is_stateful and operation not in _HARMLESS):
        return True
    return any(_READS_FILES.search(each.name) for each in [*known.attr, *known.input_arg])


def _savers(graph: Any, functions: dict[str, list[Any]]) -> set[str]:
    """Returns the functions that only the model's saver calls: no other function does, and no object names them."""
    saver = {graph.saver_def.save_tensor_name.partition(":")[0], graph.saver_def.restore_op_name}
    called = _called((node for node in graph.graph_def.node if node.name in saver), functions)
    objects = graph.object_graph_def.SerializeToString()
    called -= {name for name in called if name.encode() in objects}
    others = [node for node in graph.graph_def.node if node.name not in saver]
    return called - _called([*others, *(n for name in functions.keys() - called for n in functions[name])], functions)


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
