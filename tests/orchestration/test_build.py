"""The table in `pipelines/orchestration/graph.py` and the pipeline that TFX runs are one and the same chain."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from tfx.orchestration.local import runner_utils

from components import refs, tasks
from components.fingerprint import PACKAGES
from components.settings.input import Input
from components.settings.train import Train
from components.settings.transform import Transform
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration import graph
from pipelines.orchestration.compile import compile_pipeline

BEAM_FLAGS = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run of the image task with flags for Beam, and settings that are not the defaults."""
    home = tmp_path_factory.mktemp("build")
    (home / "none.toml").touch()  # whatever penstock.toml lies about does not matter
    return run_config.make(
        "image", data=str(home / "data"), root=str(home / "root"), settings_file=str(home / "none.toml"),
        flags=["input.batch_size=48", "train.epochs=2", "gate.min_per_class=3"], beam_args=BEAM_FLAGS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(config: RunConfig) -> Any:
    """TFX's intermediate representation of it."""
    return compile_pipeline(config, (run_config.HOME / config.task.schema).read_bytes())


@pytest.fixture(scope="module")
def nodes(compiled: Any) -> dict[str, Any]:
    """Its nodes, in their order."""
    return {each.pipeline_node.node_info.id: each.pipeline_node for each in compiled.nodes}


@pytest.fixture(scope="module")
def executors(compiled: Any) -> dict[str, Any]:
    """What runs each node."""
    return dict(runner_utils.extract_local_deployment_config(compiled).executor_specs)


def parameter(node: Any, name: str) -> Any:
    """Returns a parameter of a node, out of its JSON if it is in some."""
    value = node.parameters.parameters[name].field_value
    return value.int_value if value.HasField("int_value") else value.string_value


class TestChain:
    """Which nodes there are, and what they wait for."""

    def test_both_have_the_same_nodes_in_the_same_order(self, nodes: dict[str, Any]) -> None:
        """A plan is made by one and carried out by the other."""
        assert tuple(nodes) == graph.IDS

    @pytest.mark.parametrize("node", graph.NODES, ids=graph.IDS)
    def test_a_node_waits_for_the_same_nodes_in_both(self, nodes: dict[str, Any], node: graph.Node) -> None:
        """For those whose outputs it reads, and for those that must have passed."""
        assert set(nodes[node.id].upstream_nodes) == {*node.upstream, *node.after}

    @pytest.mark.parametrize("node", graph.NODES, ids=graph.IDS)
    def test_what_a_node_reads_comes_from_upstream(self, nodes: dict[str, Any], node: graph.Node) -> None:
        """An order without data is no input: the gate's verdict is read by nobody."""
        producers = {
            channel.producer_node_query.id
            for spec in nodes[node.id].inputs.inputs.values()
            for channel in spec.channels
            if channel.producer_node_query.id
        }

        assert producers - {"Baseline"} == {*node.upstream} - {"Baseline"}

    def test_nodes_that_only_look_up_are_resolvers(self, executors: dict[str, Any]) -> None:
        """TFX runs no executor for them."""
        assert {node.id for node in graph.NODES if node.resolves} == set(graph.IDS) - set(executors)

    def test_the_baseline_is_the_latest_blessed_other_model(self, nodes: dict[str, Any]) -> None:
        """By our own strategy: TFX's would compare a blessed candidate with itself."""
        assert "components.evaluation.thresholds.LatestBlessedOther" in str(nodes["Baseline"].inputs)


class TestCache:
    """What is due is decided by the plan alone."""

    def test_tfx_caches_nothing(self, nodes: dict[str, Any]) -> None:
        """At no node."""
        assert [name for name, node in nodes.items() if node.execution_options.caching_options.enable_cache] == []

    def test_code_that_a_node_enters_is_in_its_key(
        self, config: RunConfig, nodes: dict[str, Any], executors: dict[str, Any]
    ) -> None:
        """Executors and functions of ours are among the modules that the graph lists for the node."""
        entered: dict[str, set[str]] = {node: set() for node in graph.IDS}
        for name, spec in executors.items():
            beam = spec.beam_executable_spec.python_executor_spec.class_path
            entered[name].add((beam or spec.python_class_executable_spec.class_path).rpartition(".")[0])
        entered["Transform"].add(parameter(nodes["Transform"], "preprocessing_fn").rpartition(".")[0])
        entered["Trainer"].add(parameter(nodes["Trainer"], "run_fn").rpartition(".")[0])
        ours = {name: {each for each in found if each.split(".")[0] in PACKAGES} for name, found in entered.items()}

        assert {
            name: found - set(graph.entry_modules(graph.find(name), config.task)) for name, found in ours.items()
        } == {name: set() for name in graph.IDS}
        assert sum(map(len, ours.values())) == 5


class TestWiring:
    """What the nodes are told."""

    def test_beam_flags_reach_every_beam_node(self, executors: dict[str, Any]) -> None:
        """As they were given."""
        flags = {
            name: tuple(spec.beam_executable_spec.beam_pipeline_args)
            for name, spec in executors.items()
            if spec.HasField("beam_executable_spec")
        }

        assert flags == dict.fromkeys(["Ingest", "StatisticsGen", "Transform", "Evaluator"], BEAM_FLAGS)

    def test_transform_does_not_copy_records(self, nodes: dict[str, Any]) -> None:
        """Its graph is all it writes."""
        assert set(nodes["Transform"].outputs.outputs) == {"transform_graph"}

    def test_the_batch_size_is_told_to_the_trainer_alone(self, nodes: dict[str, Any]) -> None:
        """With all that it needs of the task and the settings."""
        told = orjson.loads(parameter(nodes["Trainer"], "custom_config"))

        assert told == {
            "parts": [
                {
                    "roles": ["image"],
                    "fit": "",
                    "feature": "components.features.image:from_columns",
                    "encoder": "components.models.image:encodings",
                    "columns": [{"name": "image", "role": "image", "dtype": "string", "shape": []}],
                }
            ],
            "label": "label",
            "kind": "class",
            "model": "components.models.joined:build",
            "transform": Transform().model_dump(mode="json"),
            "extract": {},
            "input": Input(batch_size=48).model_dump(mode="json"),
            "train": Train(epochs=2).model_dump(mode="json"),
        }
        assert [name for name, node in nodes.items() if "batch_size" in str(node)] == ["Trainer"]

    @pytest.mark.parametrize("name", tasks.NAMES)
    def test_parts_named_by_a_task_exist(self, name: str) -> None:
        """A typing error in a reference is found here and not in the midst of a run."""
        task = tasks.get(name)
        named = [*task.sources, *task.fits, *task.features, *task.encoders, task.model]

        assert [ref for ref in named if refs.load(ref) is None] == []

    def test_the_gate_is_told_its_setting(self, nodes: dict[str, Any]) -> None:
        """As a number."""
        assert parameter(nodes["Gate"], "min_per_class") == 3

    def test_metadata_and_outputs_are_below_the_root(self, config: RunConfig, compiled: Any) -> None:
        """The same store that plans are made from."""
        metadata = runner_utils.extract_local_deployment_config(compiled).metadata_connection_config

        assert metadata.database_connection_config.sqlite.filename_uri == str(config.root / "metadata.db")
        assert compiled.runtime_spec.pipeline_root.runtime_parameter.default_value.string_value == str(config.root)

    def test_the_schema_is_the_one_in_force(self, config: RunConfig, nodes: dict[str, Any]) -> None:
        """A run puts it there before any node is run."""
        assert Path(parameter(nodes["Schema"], "schema_file")) == config.schema_in_force
