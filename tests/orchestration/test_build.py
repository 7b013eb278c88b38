"""The table in `graph.py` and the pipeline that TFX runs have the same nodes, wired in the same way."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.orchestration.local import runner_utils

from components import refs, tasks
from components.errors import SettingsError
from components.fingerprint import PACKAGES
from components.pretrained.find import PretrainedModel
from components.records import roles
from components.records.roles import Column, Layout
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.train import Train
from components.settings.transform import Transform
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration import build, graph

IDS = tuple(node.id for node in graph.NODES)
BEAM_FLAGS = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run of the image task with Beam flags and other settings than the defaults."""
    home = tmp_path_factory.mktemp("build")
    (home / "none.toml").touch()  # so that no penstock.toml is read
    return run_config.make(
        "image", data=str(home / "data"), root=str(home / "root"), settings_file=str(home / "none.toml"),
        flags=["input.batch_size=48", "train.epochs=2", "gate.min_per_class=3"], beam_args=BEAM_FLAGS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(config: RunConfig) -> Any:
    """The pipeline in TFX's intermediate representation."""
    schema = run_config.HOME / config.task.schema
    return build.compiled(config, schema.read_bytes(), schema)


@pytest.fixture(scope="module")
def nodes(compiled: Any) -> dict[str, Any]:
    """The nodes by name, in order."""
    return {each.pipeline_node.node_info.id: each.pipeline_node for each in compiled.nodes}


@pytest.fixture(scope="module")
def executors(compiled: Any) -> dict[str, Any]:
    """The executor of each node."""
    return dict(runner_utils.extract_local_deployment_config(compiled).executor_specs)


def parameter(node: Any, name: str) -> Any:
    """Returns a parameter of a node."""
    value = node.parameters.parameters[name].field_value
    return value.int_value if value.HasField("int_value") else value.string_value


class TestNodes:
    """Which nodes there are, and what they wait for."""

    def test_both_have_the_same_nodes_in_the_same_order(self, nodes: dict[str, Any]) -> None:
        """The plan is made from the table and carried out on the pipeline."""
        assert tuple(nodes) == IDS

    @pytest.mark.parametrize("node", graph.NODES, ids=IDS)
    def test_a_node_waits_for_the_same_nodes_in_both(self, nodes: dict[str, Any], node: graph.Node) -> None:
        """For nodes whose outputs it reads, and for nodes that must have passed."""
        assert set(nodes[node.id].upstream_nodes) == {*node.upstream, *node.after}

    @pytest.mark.parametrize("node", graph.NODES, ids=IDS)
    def test_what_a_node_reads_comes_from_upstream(self, nodes: dict[str, Any], node: graph.Node) -> None:
        """A node that must only have passed is no input: no node reads the Gate's verdict."""
        producers = {
            channel.producer_node_query.id
            for spec in nodes[node.id].inputs.inputs.values()
            for channel in spec.channels
            if channel.producer_node_query.id
        }

        assert producers - {"Baseline"} == {*node.upstream} - {"Baseline"}

    def test_nodes_that_run_no_code_are_resolvers(self, executors: dict[str, Any]) -> None:
        """TFX runs no executor for them."""
        assert {node.id for node in graph.NODES if node.resolves} == set(IDS) - set(executors)

    def test_the_baseline_is_the_live_model(self, nodes: dict[str, Any]) -> None:
        """By our own strategy: TFX's strategy would compare a blessed candidate with itself."""
        assert "components.serving.baseline.LiveOther" in str(nodes["Baseline"].inputs)


@pytest.mark.parametrize("extract", [(), ("extract.model=NetLike", "extract.where=beam")], ids=["alone", "extract"])
def test_base_is_wired_as_the_table_says(
    config: RunConfig, extract: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the examples that the Trainer reads, and the Trainer waits for it."""
    flags = ["train.warm_start=live", *extract]
    (tmp_path / "none.toml").touch()
    warm = run_config.make(
        "image", data=config.data, root=str(tmp_path), settings_file=str(tmp_path / "none.toml"), flags=flags
    )
    monkeypatch.setattr(build, "find_model", lambda *_: PretrainedModel("NetLike", "digest"))
    schema = text_format.Parse((run_config.HOME / config.task.schema).read_bytes(), schema_pb2.Schema())
    given = roles.with_embeddings(schema, "label", 8) if extract else schema
    compiled = build.compiled(warm, text_format.MessageToString(given).encode(), tmp_path)
    wired = {each.pipeline_node.node_info.id: {*each.pipeline_node.upstream_nodes} for each in compiled.nodes}

    assert wired == {node.id: {*node.upstream, *node.after} for node in graph.nodes(warm.settings)}
    assert "components.serving.baseline.LiveOfOtherData" in str(compiled)


class TestCache:
    """The plan alone decides what is due."""

    def test_tfx_caches_nothing(self, nodes: dict[str, Any]) -> None:
        """For no node."""
        assert [name for name, node in nodes.items() if node.execution_options.caching_options.enable_cache] == []

    def test_code_that_a_node_enters_is_in_its_key(
        self, config: RunConfig, nodes: dict[str, Any], executors: dict[str, Any]
    ) -> None:
        """Our executors and functions are among the modules that the table lists for the node."""
        entered: dict[str, set[str]] = {node: set() for node in IDS}
        for name, spec in executors.items():
            beam = spec.beam_executable_spec.python_executor_spec.class_path
            entered[name].add((beam or spec.python_class_executable_spec.class_path).rpartition(".")[0])
        entered["Transform"].add(parameter(nodes["Transform"], "preprocessing_fn").rpartition(".")[0])
        entered["Trainer"].add(parameter(nodes["Trainer"], "run_fn").rpartition(".")[0])
        ours = {name: {each for each in found if each.split(".")[0] in PACKAGES} for name, found in entered.items()}

        assert {
            name: found - set(graph.entry_modules(graph.find(name), config.task)) for name, found in ours.items()
        } == {name: set() for name in IDS}
        assert sum(map(len, ours.values())) == 8


class TestWiring:
    """The parameters of the nodes."""

    def test_the_compiled_pipeline_holds_no_beam_flag(self, executors: dict[str, Any]) -> None:
        """`engines.py` makes each node's pipeline with them; TFX would pack its own source at every node."""
        flags = {
            name: tuple(spec.beam_executable_spec.beam_pipeline_args)
            for name, spec in executors.items()
            if spec.HasField("beam_executable_spec")
        }

        assert flags == dict.fromkeys(["Ingest", "StatisticsGen", "Transform", "Evaluator"], ())

    def test_transform_does_not_copy_records(self, nodes: dict[str, Any]) -> None:
        """Its graph is its only output."""
        assert set(nodes["Transform"].outputs.outputs) == {"transform_graph"}

    def test_only_the_trainer_gets_the_batch_size(self, nodes: dict[str, Any]) -> None:
        """Together with the parts of the task and its sections of the settings."""
        config = orjson.loads(parameter(nodes["Trainer"], "custom_config"))

        assert config == {
            "parts": [
                {
                    "roles": ["image"],
                    "fit": "",
                    "feature": "components.features.image:from_columns",
                    "encoder": "components.models.image:encodings",
                    "names": "",
                    "columns": [{"name": "image", "role": "image", "dtype": "string", "shape": []}],
                }
            ],
            "label": "label",
            "kind": "class",
            "model": "components.models.joined:build",
            "transform": Transform().model_dump(mode="json"),
            "extract": {},
            "ingest": Ingest().model_dump(mode="json"),
            "input": Input(batch_size=48).model_dump(mode="json"),
            "train": Train(epochs=2).model_dump(mode="json"),
        }
        assert [name for name, node in nodes.items() if "batch_size" in str(node)] == ["Trainer"]

    @pytest.mark.parametrize("name", tasks.NAMES)
    def test_parts_named_by_a_task_exist(self, name: str) -> None:
        """A misspelt reference is found here and not during a run."""
        task = tasks.get(name)
        named = [*task.sources, *task.fits, *task.features, *task.encoders, task.model]

        assert [ref for ref in named if refs.load(ref) is None] == []

    def test_the_gate_gets_its_settings(self, nodes: dict[str, Any]) -> None:
        """As text, with the columns of the schema; the plan says what is live."""
        assert orjson.loads(parameter(nodes["Gate"], "settings"))["min_per_class"] == 3
        assert [each["name"] for each in orjson.loads(parameter(nodes["Gate"], "columns"))] == ["image"]
        assert parameter(nodes["Gate"], "live") == ""
        assert parameter(nodes["Gate"], "schema_file") == str(run_config.HOME / "schemas" / "image.pbtxt")

    def test_metadata_and_outputs_are_below_the_root(self, config: RunConfig, compiled: Any) -> None:
        """The planner reads the same store."""
        metadata = runner_utils.extract_local_deployment_config(compiled).metadata_connection_config

        assert metadata.database_connection_config.sqlite.filename_uri == str(config.root / "metadata.db")
        assert compiled.runtime_spec.pipeline_root.runtime_parameter.default_value.string_value == str(config.root)

    def test_the_schema_is_the_one_in_force(self, config: RunConfig, nodes: dict[str, Any]) -> None:
        """The run writes it before the first node starts."""
        assert Path(parameter(nodes["Schema"], "schema_file")) == config.schema_input


def test_a_drift_threshold_of_a_column_that_is_not_there_is_rejected() -> None:
    """With the nearest name; the label has one too."""
    columns = Column("age", "number", "float32"), Column("note", "unused", "string"), Column("photo", "image", "string")
    layout = Layout("label", "class", columns)
    build.check_columns(["age", "label", "photo.brightness", "photo.size"], layout)

    with pytest.raises(SettingsError, match=r"^gate\.max_drift_of\.aeg: no such column; did you mean 'age'\?"):
        build.check_columns(["aeg"], layout)
    with pytest.raises(SettingsError, match=r"^gate\.max_drift_of\.photo\.bright: no such column; did you mean 'photo"):
        build.check_columns(["photo.bright"], layout)
