"""Warm start: weights are found by name, whatever the order of tokens, values, classes and columns."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components import progress
from components.errors import BadInput
from components.models import heads, joined, names, table, text
from components.models.heads import Classification, Regression
from components.records import roles
from components.records.roles import Column
from components.storage.hashing import HashCache
from components.tasks import NAMES, assign, get
from components.training.base import base_model, exported_weights, warm_start

pytestmark = pytest.mark.slow

HOME = Path(__file__).resolve().parents[2]
TEXT = Column("said", "text", "string")
OLD = ["the", "cat", "sat", "mat", "dog"], ["pets", "rooms"]
NEW = ["dog", "new", "the", "mat", "cat", "sat", "newer"], ["rooms", "fresh", "pets"]
SPLITS = {"train": 0.8, "salt": "", "stratify": False}
TABLE = [Column("kind", "category", "string"), Column("size", "number", "float32"), Column("age", "number", "float32")]


class Vocabularies:
    """What Transform has fitted, for models: the interface of `Fitted` with given vocabularies."""

    def __init__(self, tokens: Sequence[str] = (), **categories: Sequence[str]) -> None:
        """Takes the tokens of each text column, and the values of each category column, in the order of their ids."""
        self._tokens, self._categories = tokens, categories

    def tokens(self, place: int) -> list[Any]:
        """Returns the tokens, and one out-of-vocabulary bucket."""
        del place
        return [*self._tokens, ("out of vocabulary", 0, 1)]

    def categories(self, columns: Sequence[Column]) -> dict[str, list[tuple[Any, ...]]]:
        """Returns the values of each category column."""
        return {
            column.name: [(value,) for value in self._categories[column.name]]
            for column in columns
            if column.role == "category"
        }

    def pretrained_model(self) -> None:
        """Returns that there is none."""

    def moments(self, column: Column) -> None:
        """Returns that there are none."""
        del column


def text_model(tokens: Sequence[str], classes: Sequence[str], seed: int = 1) -> tuple[Any, dict[str, Any]]:
    """Returns a model of one text column with random weights, and the names in its weights."""
    keras.utils.set_random_seed(seed)
    fitted: Any = Vocabularies(tokens)
    ids = {"said": keras.Input([None], dtype="int64", name="said")}
    model = joined.build(ids, text.encodings(ids, [TEXT], fitted), Classification(len(classes)))
    for weight in model.weights:  # no zeros, so that a bias that is not assigned is noticed
        weight.assign(np.random.default_rng(seed).normal(scale=0.1, size=weight.shape))
    return model, {**text.names([TEXT], fitted), **heads.names(classes)}


def table_model(columns: Sequence[Column], kinds: Sequence[str], seed: int = 1) -> tuple[Any, dict[str, Any]]:
    """Returns a regression model of a table with random weights, and the names in its weights."""
    keras.utils.set_random_seed(seed)
    numbers = sum(column.role == "number" for column in columns)
    inputs = {"table_numbers": keras.Input([2 * numbers], name="table_numbers")}
    inputs["table_categories"] = keras.Input([1], dtype="int64", name="table_categories")
    fitted: Any = Vocabularies(kind=kinds)
    model = joined.build(inputs, table.encodings(inputs, columns, fitted), Regression())
    return model, table.names(columns, fitted)


def start(model: Any, names: dict[str, Any], base: Path, pretrained: str = "") -> dict[str, Any]:
    """Starts a model from a base model whose records were split by the same settings."""
    return warm_start.start(model, names, base, pretrained, SPLITS)


def save(model: Any, names: dict[str, Any], folder: Path, pretrained: str = "") -> Path:
    """Writes the weights of a model as an export does."""
    module = tf.Module()
    module.weights = {weight.path: weight for weight in model.weights}
    tf.saved_model.save(module, str(folder))
    exported_weights.write_names(folder, names, pretrained, SPLITS)
    return folder


def indices(tokens: Sequence[str], sentences: Sequence[str]) -> dict[str, Any]:
    """Returns the token ids of sentences of equal length; the last id is out of vocabulary."""
    places = {token: place for place, token in enumerate(tokens, start=1)}
    ids = [[places.get(word, 1 + len(tokens)) for word in sentence.split()] for sentence in sentences]
    return {"said": np.array(ids)}


def test_old_classes_keep_their_odds_on_a_permuted_and_grown_vocabulary(tmp_path: Path) -> None:
    """Before any step, for texts of old, unknown and no tokens; one class and two tokens are new."""
    (old, names), (new, new_names) = text_model(*OLD, seed=1), text_model(*NEW, seed=2)
    sentences = ["the cat sat", "dog mat mat", "the unknown cat", "sat sat sat"]
    before = old.predict(indices(OLD[0], sentences), verbose=0)

    done = start(new, new_names, save(old, names, tmp_path))
    after = new.predict(indices(NEW[0], sentences), verbose=0)

    odds, expected = after[:, 2] / after[:, 0], before[:, 0] / before[:, 1]
    np.testing.assert_allclose(odds, expected, rtol=1e-6)
    assert done == {
        "copied": ["text_said_conv/kernel", "text_said_conv/bias"],
        "mapped": {
            "text_said_embedding/embeddings": [7, 9],  # with padding and out-of-vocabulary bucket
            "probabilities/kernel": [2, 3],
            "probabilities/bias": [2, 3],
        },
        "fresh": [],
        "warning": "",
    }


def test_rows_of_new_names_keep_their_initial_values(tmp_path: Path) -> None:
    """A new token and a new class start as in a model that is not warm-started."""
    (old, names), (new, new_names) = text_model(*OLD, seed=1), text_model(*NEW, seed=2)
    before = {weight.path: np.array(weight) for weight in new.weights}
    start(new, new_names, save(old, names, tmp_path))
    after = {weight.path: np.array(weight) for weight in new.weights}
    rows = "text_said_embedding/embeddings"

    assert [np.array_equal(before[rows][row], after[rows][row]) for row in range(9)] == [
        name in ("new", "newer") for name in new_names[rows].names
    ]
    assert np.array_equal(before["probabilities/kernel"][:, 1], after["probabilities/kernel"][:, 1])


def test_columns_of_a_table_are_found_by_name(tmp_path: Path) -> None:
    """Other order of columns and values, and one column more: the old columns have the same effect."""
    columns = [TABLE[2], Column("new", "number", "float32"), TABLE[0], TABLE[1]]
    (old, names), (new, new_names) = table_model(TABLE, ["a", "b"], 1), table_model(columns, ["c", "b", "a"], 2)
    done = start(new, new_names, save(old, names, tmp_path))
    # size, age, missing size, missing age; kinds a, b and unknown. The new column is 0, its mean.
    given = np.array([[1.0, 2.0, 0, 0], [0.5, -1.0, 1, 0], [3.0, 0.1, 0, 1]], np.float32)
    moved = np.stack([given[:, 1], np.zeros(3), given[:, 0], given[:, 3], np.zeros(3), given[:, 2]], axis=1)
    expected = old.predict({"table_numbers": given, "table_categories": np.array([[0], [1], [-1]])}, verbose=0)
    found = new.predict({"table_numbers": moved, "table_categories": np.array([[2], [1], [-1]])}, verbose=0)

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert done["mapped"] == {"table_embedding/embeddings": [3, 4], "table_linear/kernel": [12, 14]}
    assert done["fresh"] == []


def test_what_does_not_fit_is_fresh(tmp_path: Path) -> None:
    """A model of another width keeps what has the same name and shape."""
    old, names = text_model(*OLD)
    ids = keras.Input([None], dtype="int64", name="said")
    wider = joined.build({"said": ids}, [text.encode(ids, 9, dimension=32, name="text_said")], Classification(3))
    done = start(wider, text_model(*NEW)[1], save(old, names, tmp_path))

    assert (done["copied"], done["mapped"]) == (["text_said_conv/bias"], {"probabilities/bias": [2, 3]})
    assert done["fresh"] == ["text_said_embedding/embeddings", "text_said_conv/kernel", "probabilities/kernel"]


def test_a_model_of_which_nothing_fits_is_an_error(tmp_path: Path) -> None:
    """Its weights have other names."""
    old, names = table_model(TABLE, ["a"])
    with pytest.raises(BadInput, match="none of its weights has the name and shape of a weight of this model"):
        start(*text_model(*NEW), save(old, names, tmp_path))


def test_frozen_weights_are_not_replaced(tmp_path: Path) -> None:
    """A frozen pretrained model is the one that extract.model names, not that of the base model."""
    (old, names), (new, new_names) = text_model(*OLD, seed=1), text_model(*NEW, seed=2)
    new.get_layer("text_said_conv").trainable = False
    kept = np.array(new.get_layer("text_said_conv").kernel)
    done = start(new, new_names, save(old, names, tmp_path))

    assert done["copied"] == []
    assert np.array_equal(new.get_layer("text_said_conv").kernel, kept)


def test_another_pretrained_model_is_an_error(tmp_path: Path) -> None:
    """The same numbers would mean something else."""
    model, names = text_model(*OLD)
    with pytest.raises(BadInput, match=r"trained with another pretrained model \(extract.model\)"):
        start(model, names, save(model, names, tmp_path, pretrained="a"), "b")


def trained(model: Any, records: tuple[Any, Any], steps: int, held_out: tuple[Any, Any]) -> float:
    """Trains for so many steps and returns the accuracy on other records."""
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*records, batch_size=32, epochs=1, steps_per_epoch=steps, shuffle=False, verbose=0)
    return float(model.evaluate(*held_out, verbose=0)[1])


@pytest.mark.all
def test_training_reaches_the_accuracy_of_a_cold_start_in_half_the_steps(tmp_path: Path) -> None:
    """On new data with a permuted, grown vocabulary and a new class, measured on records that were not trained."""
    random, steps = np.random.default_rng(5), 32
    own = {name: [f"{name}{number}" for number in range(60)] for name in ("red", "blue", "green", "pink", "gold")}
    old_classes, new_classes = ["red", "blue", "green", "pink"], ["pink", "gold", "blue", "red", "green"]
    old_tokens = [token for name in old_classes for token in own[name]]
    new_tokens = [str(token) for token in random.permutation([*old_tokens, *own["gold"]])]

    def records(tokens: Sequence[str], classes: Sequence[str]) -> tuple[Any, Any]:
        """Returns texts of four words of their class and six of any class."""
        labels = random.integers(0, len(classes), 32 * steps)
        texts = [[*random.choice(own[classes[label]], 4), *random.choice(tokens, 6)] for label in labels]
        return indices(tokens, [" ".join(each) for each in texts]), labels

    old, names = built(old_tokens, old_classes)
    first, second, held_out = (
        records(*each) for each in ((old_tokens, old_classes), (new_tokens, new_classes), (new_tokens, new_classes))
    )
    trained(old, first, steps, first)
    (cold, _), (warm, new_names) = built(new_tokens, new_classes), built(new_tokens, new_classes)
    start(warm, new_names, save(old, names, tmp_path))

    assert trained(warm, second, steps // 2, held_out) >= trained(cold, second, steps, held_out) > 0.5


def built(tokens: Sequence[str], classes: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Returns a model as the Trainer builds it, and the names in its weights."""
    keras.utils.set_random_seed(3)
    ids = {"said": keras.Input([None], dtype="int64", name="said")}
    fitted: Any = Vocabularies(tokens)
    model = joined.build(ids, text.encodings(ids, [TEXT], fitted), Classification(len(classes)))
    return model, {**text.names([TEXT], fitted), **heads.names(classes)}


def task_model(name: str) -> Any:
    """Returns the model of a shipped task, for the columns of its curated schema."""
    schema = text_format.Parse((HOME / get(name).schema).read_bytes(), schema_pb2.Schema())
    parts = assign.assign(get(name).parts, roles.read(schema, "label"))
    columns = [column for each in parts for column in each.columns]
    shapes = {"image": ([16, 16, 3], "uint8"), "text": ([None], "int64")}
    inputs = {
        column.name: keras.Input(shape, dtype=dtype, name=column.name)
        for column in columns
        for shape, dtype in [shapes.get(column.role, (column.shape, column.dtype))]
        if column.role in ("image", "text", "tensor")
    }
    if numbers := [column for column in columns if column.role in ("number", "date")]:
        inputs["table_numbers"] = keras.Input([2 * len(numbers)], name="table_numbers")
    categories = {column.name: ["x"] for column in columns if column.role == "category"}
    if categories:
        inputs["table_categories"] = keras.Input([len(categories)], dtype="int64", name="table_categories")
    return joined.build(inputs, assign.encodings(parts, inputs, Vocabularies(["a"], **categories)), Classification(3))


@pytest.mark.parametrize("name", NAMES)
def test_every_layer_has_a_name_of_its_own(name: str) -> None:
    """A second model in the same process has the same names, which Keras's automatic names have not."""
    first, second = ([layer.name for layer in model.layers] for model in (task_model(name), task_model(name)))

    assert first == second
    assert len({*first}) == len(first)


@pytest.mark.parametrize(
    ("column", "name"), [("said", "text_said"), ("a b/c", "text_a_b_c_33af026b"), ("é", "text___065ba7d5")]
)
def test_layers_are_named_for_their_column(column: str, name: str) -> None:
    """A column keeps its layers when another one is added before it; TensorFlow allows only some characters."""
    assert names.layer_name("text", column) == name


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"salt": "x"}, "its records were split by other settings (ingest.splits, ingest.split_by, ingest.unused)"),
        ({"stratify": True}, "ingest.splits.stratify moves records between splits when there is new data"),
    ],
)
def test_a_base_model_that_may_know_the_test_split_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], why: str
) -> None:
    """It is shown, and noted in the history; stratified splits move records although the settings are the same."""
    monkeypatch.setitem(SPLITS, "stratify", changed.get("stratify", False))
    base, warnings = save(*text_model(*OLD), tmp_path), list[str]()
    with progress.warnings_to(warnings.append):
        done = warm_start.start(*text_model(*NEW), base, "", {**SPLITS, **changed})

    expected = "the base model may have been trained on records of the present test split, so metrics look too good: "
    assert (done["warning"], warnings) == (expected + why, [f"warm start: {expected}{why}"])


def joined_model(*columns: str) -> tuple[Any, dict[str, Any]]:
    """Returns a model of several text columns, and the names in its weights."""
    texts = [Column(name, "text", "string") for name in columns]
    inputs = {name: keras.Input([None], dtype="int64", name=name) for name in columns}
    fitted: Any = Vocabularies(["x", "y"])
    model = joined.build(inputs, text.encodings(inputs, texts, fitted), Classification(2))
    return model, {**text.names(texts, fitted), **joined.names(model), **heads.names(["p", "q"])}


def test_columns_in_another_order_keep_their_weights(tmp_path: Path) -> None:
    """Encoders are found by their column, and joined in the order of their names."""
    (old, old_names), (new, new_names) = joined_model("said", "asked"), joined_model("asked", "said")
    done = start(new, new_names, save(old, old_names, tmp_path))
    given = {"said": np.array([[1, 2, 2]]), "asked": np.array([[2, 1]])}

    assert done["fresh"] == []
    np.testing.assert_array_equal(new.predict(given, verbose=0), old.predict(given, verbose=0))


@pytest.mark.parametrize(
    ("columns", "rows", "taken"),
    [
        (("answer", "question"), [128, 384], [(128, 0)]),  # the base has: question, title, question * title
        (("answer", "question", "title"), [384, 768], [(128, 0), (256, 128), (640, 256)]),
    ],
    ids=["one column replaced", "one column added"],
)
def test_joined_columns_are_found_by_name(
    tmp_path: Path, columns: tuple[str, ...], rows: list[int], taken: list[tuple[int, int]]
) -> None:
    """The rows of a column, or of a product of two, are never those of another one."""
    (old, old_names), (new, new_names) = joined_model("question", "title"), joined_model(*columns)
    path = "joined_linear/kernel"
    expected, base = (np.array(model.get_layer("joined_linear").kernel) for model in (new, old))
    done = start(new, new_names, save(old, old_names, tmp_path))
    for place, source in taken:
        expected[place : place + 128] = base[source : source + 128]

    assert done["mapped"][path] == rows
    np.testing.assert_array_equal(new.get_layer("joined_linear").kernel, expected)


class TestUntrustedFiles:
    """D3, D10: only the checkpoint and a JSON file are read; a damaged or crafted one is a clear error."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """An exported model."""
        return save(*text_model(*OLD), tmp_path / "model")

    def test_the_graph_is_not_copied_and_not_loaded(self, folder: Path, tmp_path: Path) -> None:
        """A graph that could not even be parsed has no effect."""
        (folder / "saved_model.pb").write_bytes(b"not a graph")
        found = base_model.find(str(folder), HashCache(None))
        base_model.copy(found, tmp_path / "copy")
        copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}

        assert start(*text_model(*NEW), tmp_path / "copy")["fresh"] == []
        assert copied == {
            "assets.extra/weights.json", "variables/variables.data-00000-of-00001", "variables/variables.index",
        }  # fmt: skip

    def test_a_model_that_changes_after_the_plan_is_an_error(self, folder: Path, tmp_path: Path) -> None:
        """What was planned is what is used."""
        found = base_model.find(str(folder), HashCache(None))
        (folder / "assets.extra" / "weights.json").write_text("{}")
        with pytest.raises(BadInput, match="changed while it was copied"):
            base_model.copy(found, tmp_path / "copy")

    def test_a_link_is_an_error(self, folder: Path) -> None:
        """D4: it could point to any file."""
        shutil.move(folder / "variables" / "variables.index", folder / "index")
        (folder / "variables" / "variables.index").symlink_to(folder / "index")
        with pytest.raises(BadInput, match=r"train.warm_start .* is a link or a special file"):
            base_model.find(str(folder), HashCache(None))

    @pytest.mark.parametrize("file", ["variables/variables.index", "variables/variables.data-00000-of-00001"])
    def test_a_damaged_checkpoint_is_an_error(self, folder: Path, file: str) -> None:
        """A1: one flipped bit in the index, or in a weight, is noticed."""
        content = bytearray((folder / file).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / file).write_bytes(content)
        with pytest.raises(BadInput, match=r"base model .* cannot be read"):
            start(*text_model(*NEW), folder)

    def test_nan_is_an_error(self, tmp_path: Path) -> None:
        """A9: it would spoil the first step."""
        model, names = text_model(*OLD)
        model.get_layer("text_said_conv").bias.assign(np.full(128, np.nan))
        with pytest.raises(BadInput, match=r"weight text_said_conv/bias cannot be read: expected finite values"):
            start(*text_model(*NEW), save(model, names, tmp_path))

    @pytest.mark.parametrize(
        "stored",
        [
            b"",
            b"[]",
            b'{"pretrained": "", "names": []}',
            b'{"pretrained": "", "names": {"text_said_embedding/embeddings": [0, [[["nested"]]]]}}',
        ],
    )
    def test_other_names_are_an_error(self, folder: Path, stored: bytes) -> None:
        """Whatever the JSON file contains."""
        (folder / "assets.extra" / "weights.json").write_bytes(stored)
        with pytest.raises(BadInput, match=r"base model .*: its weights cannot be read"):
            start(*text_model(*NEW), folder)

    def test_a_graph_that_claims_to_be_large_is_not_read(self, folder: Path) -> None:
        """D10: it is not needed; TensorFlow would allocate 2^36 strings."""
        claim_strings(folder, "_CHECKPOINTABLE_OBJECT_GRAPH", 2**36)

        assert start(*text_model(*NEW), folder)["fresh"] == []

    def test_strings_in_place_of_a_weight_are_not_read(self, folder: Path) -> None:
        """D10: each of them could claim any length."""
        claim_strings(folder, "weights/text_said_conv.Sbias/.ATTRIBUTES/VARIABLE_VALUE", 128)
        with pytest.raises(BadInput, match="weight text_said_conv/bias cannot be read: expected values of float32"):
            start(*text_model(*NEW), folder)


def claim_strings(folder: Path, key: str, size: int) -> None:
    """Replaces a tensor of an exported model by one that claims to have so many strings."""
    prefix = str(folder / "variables" / "variables")
    reader = tf.train.load_checkpoint(prefix)
    kept = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name != key}
    shapes = [f"{size} 0,1", *[""] * len(kept)]
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=[key, *kept], shape_and_slices=shapes, tensors=[["x"], *kept.values()]
    )
