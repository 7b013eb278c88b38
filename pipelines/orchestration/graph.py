"""The nodes of the pipeline as a table: what each node reads, and what its result depends on.

    Ingest ─┬► StatisticsGen ─► ExampleValidator ─► Gate ┄┬► Transform ─┬► Trainer ─┬► Evaluator ─► Pusher
    Schema ─┴─────────┴────────────────┴───────────────────┴────────────┘    Baseline ┘
    (Transform, Trainer and Evaluator read the examples too; the Gate's arrow is an order, not data)

    With a pretrained model: Ingest, Extractor ─► Extract replaces Ingest; or Extractor ─► Trainer.
    With a warm start: Base ─► Trainer; Base looks a model up by the data of Ingest, or copies the one of a folder.

`build.py` wires the same nodes in TFX; a test compares the two. This file imports nothing heavy, so the plan is made
before TensorFlow, Beam or TFX are imported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from components.errors import FlagError
from components.refs import module_of
from components.settings.extract import Extract
from components.settings.names import nearest
from components.settings.tree import Settings
from components.tasks import Task


@dataclass(frozen=True)
class Node:
    """One node, and everything that belongs to its cache key."""

    id: str
    upstream: tuple[str, ...] = ()  # nodes whose outputs it reads
    after: tuple[str, ...] = ()  # nodes that must have passed, whose outputs it does not read
    code: tuple[str, ...] = ()  # modules that it enters
    parts: tuple[str, ...] = ()  # fields of the Task that it uses
    settings: tuple[str, ...] = ()  # sections of the settings that it reads, or single settings
    packages: tuple[str, ...] = ()  # libraries whose version can change its result
    resolves: bool = False  # it runs no code: TFX looks its output up in every run


NODES = (
    Node(
        "Ingest",
        code=("components.ingest.component",),
        settings=("ingest",),
        packages=("numpy", "pillow", "pyarrow", "tensorflow"),
    ),
    Node("Schema"),
    Node(
        "StatisticsGen",
        upstream=("Ingest", "Schema"),
        code=("components.evaluation.statistics",),
        packages=("tensorflow-data-validation", "tfx"),
    ),
    Node("ExampleValidator", upstream=("StatisticsGen", "Schema"), packages=("tensorflow-data-validation", "tfx")),
    Node(
        "Gate",
        upstream=("Ingest", "ExampleValidator", "StatisticsGen"),
        code=("components.evaluation.gate",),
        settings=("gate",),
    ),
    Node(
        "Transform",
        upstream=("Ingest", "Schema"),
        after=("Gate",),
        code=("components.fitting.component", "components.fitting.preprocessing"),
        parts=("fits", "label"),
        settings=("transform", "input.max_tokens", "input.truncate"),
        packages=("tensorflow-transform", "tensorflow", "tfx", "numpy", "pyarrow"),
    ),
    Node(
        "Trainer",
        upstream=("Ingest", "Transform"),
        after=("Gate",),
        code=("components.training.component", "components.training.trainer", "components.training.worker"),
        parts=("features", "encoders", "names", "label", "model"),
        settings=("input", "train"),
        packages=("tensorflow", "keras", "tensorflow-transform"),
    ),
    Node("Baseline", upstream=("Trainer",), resolves=True),
    Node(
        "Evaluator",
        upstream=("Ingest", "Trainer", "Baseline"),
        code=("components.evaluation.thresholds", "components.evaluation.results"),
        parts=("label",),
        settings=("evaluate",),
        packages=("tensorflow-model-analysis", "tensorflow", "tfx"),
    ),
    Node("Pusher", upstream=("Trainer", "Evaluator"), code=("components.serving.pusher",), settings=("push",)),
)


def nodes(settings: Settings) -> tuple[Node, ...]:
    """Returns the nodes in order, with those that a pretrained model and a warm start need if there is one."""
    given = _with_extract(settings.extract) if settings.extract.model else NODES
    return _with_base(given, settings.train.warm_start) if settings.train.warm_start != "none" else given


def _with_extract(extract: Extract) -> tuple[Node, ...]:
    ingest, *rest = (_reading(node, "Extractor", "extract") if node.id == "Trainer" else node for node in NODES)
    extractor = Node("Extractor", code=("components.pretrained.component",))
    if extract.where != "beam":
        return (ingest, extractor, *rest)
    extracting = Node(
        "Extract",
        upstream=("Ingest", "Extractor"),
        code=("components.pretrained.component",),
        settings=("extract",),
        packages=("tensorflow", "keras"),
    )
    return (ingest, extractor, extracting, *(_reading_extracted(node) for node in rest))


def _with_base(given: Sequence[Node], warm_start: str) -> tuple[Node, ...]:
    trainer = find("Trainer", given)
    live = Node("Base", upstream=trainer.upstream[:1], resolves=True)  # by the examples that the Trainer reads
    base = live if warm_start == "live" else Node("Base", code=("components.training.component",))
    place = given.index(find("StatisticsGen", given))
    rest = (_reading(node, "Base") if node is trainer else node for node in given[place:])
    return (*given[:place], base, *rest)


def _reading(node: Node, upstream: str, *settings: str) -> Node:
    return replace(node, upstream=(*node.upstream, upstream), settings=(*node.settings, *settings))


def _reading_extracted(node: Node) -> Node:
    return replace(node, upstream=tuple("Extract" if up == "Ingest" else up for up in node.upstream))


def find(node_id: str, within: Sequence[Node] = NODES) -> Node:
    """Returns the node of that name; upper and lower case are the same."""
    for node in within:
        if node.id.lower() == node_id.lower():
            return node
    raise FlagError(f"unknown node {node_id!r}: {nearest(node_id, [node.id for node in within])}")


def before(node_id: str, within: Sequence[Node] = NODES) -> set[str]:
    """Returns every node that must have run before `node_id`."""
    node = find(node_id, within)
    direct = {*node.upstream, *node.after}
    return direct.union(*(before(other, within) for other in direct))


def entry_modules(node: Node, task: Task) -> tuple[str, ...]:
    """Returns the modules that a node enters, including those that the Task names by reference."""
    return (*node.code, *sorted({module_of(ref) for part in node.parts for ref in _refs(getattr(task, part))}))


def _refs(value: object) -> Iterable[str]:
    if isinstance(value, str):
        if ":" in value:
            yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _refs(item)
