"""Spans are analyzed once, and their merged results are those of all records."""

import gc
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

from components.errors import SettingsError
from components.features.text import tokens
from components.fitting import preprocessing
from components.fitting.analysis import moments, run, shards, trace, vocabulary
from components.fitting.analysis.kept import Kept
from components.fitting.analysis.run import AnalysisJob, Analyzed
from components.fitting.analysis.shards import ShardAnalyzer
from components.records import checksum, manifest
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.roles import Column
from components.records.spans import SpanShards

pytestmark = pytest.mark.slow  # traces graphs

WORDS, SIZE, KIND = (
    Column("words", "text", "string"),
    Column("size", "number", "float32"),
    Column("kind", "category", "int64"),
)
TYPES = {"label": tf.string, "words": tf.string, "size": tf.float32, "kind": tf.int64}
SPEC = {name: tf.io.FixedLenFeature([], dtype) for name, dtype in TYPES.items()}
SCHEMA = text_format.MessageToString(schema_utils.schema_from_feature_spec(SPEC))
PARTS = [
    ["components.fitting.text:fit", [WORDS.to_dict()]],
    ["components.fitting.table:fit", [SIZE.to_dict(), KIND.to_dict()]],
]
CONFIG: dict[str, Any] = {
    "label": "label", "kind": "class", "parts": PARTS,
    "settings": {"numbers": "buckets", "buckets": 4, "min_count": 2, "vocabulary": 30},
}  # fmt: skip
FIT = partial(preprocessing.fit_all, custom_config=CONFIG)
NAMES = ("s00001", "s00002", "s00003")
ROWS = 40


def records(span: int) -> list[dict[str, Any]]:
    """Returns records with capitals, accents, control characters, line breaks and empty strings."""
    return [
        {
            "label": ["yes", "no", "two\nlines"][row * span % 3].encode(),
            "words": f"Word{row % 7} wörd{row % 5}\n猫 {row % span} A\0b {'x' * (row % 3)}".encode() if row else b"",
            "size": row * span / 7,
            "kind": row % (span + 3),
        }
        for row in range(ROWS)
    ]


def write_shard(artifact: Path, span: int) -> Shard:
    """Writes the shard of a span."""
    file = artifact / "Split-train" / f"data_tfrecord-{NAMES[span - 1]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for record in records(span):
            features = {
                "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[record["label"]])),
                "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[record["words"]])),
                "size": tf.train.Feature(float_list=tf.train.FloatList(value=[record["size"]])),
                "kind": tf.train.Feature(int64_list=tf.train.Int64List(value=[record["kind"]])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    name = str(file.relative_to(artifact))
    return Shard("train", name, ROWS, file.stat().st_size, checksum.of_file(file))


def write_examples(artifact: Path, *, with_spans: bool = True) -> Path:
    """Writes an Examples artifact of three spans."""
    shards = [write_shard(artifact, span) for span in (1, 2, 3)]
    for name, shard in zip(NAMES, shards, strict=True) if with_spans else ():
        (artifact / "spans").mkdir(exist_ok=True)
        note = {"key": f"key of {name}", "reports": [{"name": shard.name}, {"name": ""}]}
        (artifact / "spans" / f"{name}.json").write_bytes(orjson.dumps(note))
    classes: dict[str, dict[str, int]] = {"train": {}}
    manifest.write(artifact, Manifest("", 0, SourceTotals(), tuple(shards), classes, 0, {}, 0, ()), [])
    return artifact


@pytest.fixture(scope="module")
def analyzer() -> ShardAnalyzer:
    """The analyses of a label, a text, a number in buckets and a category."""
    return ShardAnalyzer(SCHEMA, FIT)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Three spans."""
    return write_examples(tmp_path / "examples")


@pytest.fixture
def store(tmp_path: Path) -> Kept:
    """What is kept; nothing yet."""
    return Kept(tmp_path / "kept", "fingerprint")


def analyzed(examples: Path, analyzer: ShardAnalyzer, store: Kept | None, *flags: str) -> Analyzed:
    """Analyzes a data set, and keeps what was counted."""
    job = AnalysisJob(examples, examples.parent / "work", SCHEMA, FIT)
    return run.run(job, analyzer, store, lambda: beam.Pipeline(options=PipelineOptions(list(flags))))


def results(found: Analyzed, analyzer: ShardAnalyzer, folder: Path) -> dict[str, bytes]:
    """Returns all fitted values, as files."""
    trace.write(folder, analyzer.analyses, found.total)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_new_span_is_the_only_one_that_is_read(
    examples: Path, analyzer: ShardAnalyzer, store: Kept, tmp_path: Path
) -> None:
    """The files of the old ones may even be gone; the results are those of a full analysis, bit by bit."""
    whole = results(analyzed(examples, analyzer, None), analyzer, tmp_path / "whole")
    first = analyzed(examples, analyzer, store)
    (store.folder / "s00003.bin").unlink()
    for shard in ("s00001", "s00002"):
        (examples / "Split-train" / f"data_tfrecord-{shard}").write_bytes(b"not a record")

    second = analyzed(examples, analyzer, store)

    assert ([*first.new], [*second.new], second.rejected) == ([*NAMES], ["s00003"], {})
    assert results(second, analyzer, tmp_path / "merged") == whole


def test_workers_find_the_same(examples: Path, analyzer: ShardAnalyzer, tmp_path: Path) -> None:
    """One Beam element per shard; data without spans is one span, of which nothing is kept."""
    write_examples(tmp_path / "plain", with_spans=False)
    flags = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")

    found = [analyzed(examples, analyzer, None, *flags), analyzed(tmp_path / "plain", analyzer, None)]

    assert [[*each.new] for each in found] == [[*NAMES], [""]]
    assert results(found[0], analyzer, tmp_path / "a") == results(found[1], analyzer, tmp_path / "b")


def flip(file: Path) -> None:
    """Changes one byte of what was counted."""
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a flipped byte": flip,
    "an empty file": lambda file: file.write_bytes(b""),
    "half a file": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "another program's file": lambda file: file.write_bytes(b'[1, 2]\nPK'),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_its_span_is_read_again(
    examples: Path, analyzer: ShardAnalyzer, store: Kept, tmp_path: Path, damage: str
) -> None:
    """The other spans are not; the results are the same, and the file is whole again."""
    whole = results(analyzed(examples, analyzer, store), analyzer, tmp_path / "whole")
    DAMAGES[damage](store.folder / "s00002.bin")

    found = analyzed(examples, analyzer, store)

    assert ([*found.new], found.rejected) == (["s00002"], {"s00002": "is damaged"})
    assert results(found, analyzer, tmp_path / "again") == whole
    assert not analyzed(examples, analyzer, store).new


def test_a_file_of_another_span_is_not_used(examples: Path, analyzer: ShardAnalyzer, store: Kept) -> None:
    """Its key is another one."""
    analyzed(examples, analyzer, store)
    (store.folder / "s00001.bin").write_bytes((store.folder / "s00002.bin").read_bytes())

    assert [*analyzed(examples, analyzer, store).new] == ["s00001"]


def test_another_fingerprint_reads_every_span(examples: Path, analyzer: ShardAnalyzer, store: Kept) -> None:
    """Code, settings, schema or libraries of Transform have changed."""
    analyzed(examples, analyzer, store)

    assert [*analyzed(examples, analyzer, Kept(store.folder, "other")).new] == [*NAMES]


def test_a_corrected_span_is_read_again(examples: Path, analyzer: ShardAnalyzer, store: Kept) -> None:
    """Its content has another digest."""
    analyzed(examples, analyzer, store)
    note = examples / "spans" / "s00002.json"
    note.write_bytes(note.read_bytes().replace(b"key of", b"new key of"))

    assert [*analyzed(examples, analyzer, store).new] == ["s00002"]


def test_spans_that_have_left_the_data_are_deleted(examples: Path, analyzer: ShardAnalyzer, store: Kept) -> None:
    """And nothing else."""
    (store.folder).mkdir()
    (store.folder / "s00000.bin").write_bytes(b"")

    store.collect(analyzed(examples, analyzer, store).spans)

    assert sorted(file.name for file in store.folder.iterdir()) == [f"{name}.bin" for name in NAMES]


def test_a_span_that_cannot_be_kept_is_named(
    examples: Path, analyzer: ShardAnalyzer, store: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B15: on a full or read-only disk the run goes on, with the same results, and the others are kept."""
    (store.folder / "s00002.bin").mkdir(parents=True)

    found = analyzed(examples, analyzer, store)

    assert [*analyzed(examples, analyzer, store).new] == ["s00002"]
    assert f"span s00002 cannot be kept in {store.folder} (Is a directory); the next Tr" in capsys.readouterr().err
    assert results(found, analyzer, tmp_path / "a") == results(
        analyzed(examples, analyzer, None), analyzer, tmp_path / "b"
    )


def test_one_span_at_a_time_is_in_memory(examples: Path, analyzer: ShardAnalyzer, store: Kept) -> None:
    """What is loaded is merged into the total before the next span is loaded."""
    analyzed(examples, analyzer, store)
    alive: list[weakref.ref[Any]] = []
    most = 0

    class Counting(Kept):
        def load(self, span: SpanShards, accumulators: Sequence[Any]) -> str:
            nonlocal most
            most = max(most, sum(each() is not None for each in alive))
            alive.append(weakref.ref(accumulators[0]))
            return super().load(span, accumulators)

    analyzed(examples, analyzer, Counting(store.folder, store.fingerprint))

    assert (len(alive), most) == (3, 0)


def test_records_of_compressed_shards_are_read_in_smaller_batches() -> None:
    """The manifest has their compressed bytes; 4 MiB of records are a batch."""
    sizes = [shards._batch_size([Shard("train", name, 10_000, 40 << 20, "")]) for name in ("a", "a.gz")]

    assert sizes == [1000, 125]


def test_vocabularies_are_those_of_tensorflow_transform(
    examples: Path, analyzer: ShardAnalyzer, tmp_path: Path
) -> None:
    """Byte for byte: order, ties, limits, counts, and what is no line of a file."""
    found = results(analyzed(examples, analyzer, None), analyzer, tmp_path / "ours")

    def stock(inputs: dict[str, Any]) -> dict[str, Any]:
        label = tf.strings.regex_replace(inputs["label"], "\n", r"\\n")
        tft.vocabulary(label, vocab_filename="label_counts", store_frequency=True)
        tft.vocabulary(label, vocab_filename="labels")
        tft.vocabulary(tokens(inputs["words"]), top_k=30, frequency_threshold=2, vocab_filename="tokens_0")
        tft.vocabulary(tf.strings.as_string(inputs["kind"]), top_k=1000, vocab_filename="category_0")
        return {"label": label}

    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(SPEC))
    with beam.Pipeline() as pipeline, tft_beam.Context(temp_dir=str(tmp_path / "temporary")):
        rows = pipeline | beam.Create([record for span in (1, 2, 3) for record in records(span)])
        fitted = (rows, metadata) | tft_beam.AnalyzeDataset(stock)
        _ = fitted | tft_beam.WriteTransformFn(str(tmp_path / "stock"))

    assets = sorted((tmp_path / "stock" / "transform_fn" / "assets").iterdir())
    assert [file.name for file in assets] == ["category_0", "label_counts", "labels", "tokens_0"]
    assert {file.name: found[file.name] for file in assets} == {file.name: file.read_bytes() for file in assets}


INNER: dict[str, Callable[[Any], Any]] = {
    "ours": lambda inputs: inputs["size"] - moments.fit(inputs["size"][:, tf.newaxis], 1)[0],
    "our vocabulary": lambda inputs: vocabulary.apply(inputs["label"], "w"),
    "TensorFlow Transform's": lambda inputs: inputs["size"] - tft.mean(inputs["size"]),
    "its vocabulary": lambda inputs: tft.compute_and_apply_vocabulary(inputs["label"]),
    "its buckets": lambda inputs: tft.bucketize(inputs["size"], 3),
}


@pytest.mark.parametrize("inner", INNER)
def test_an_analysis_of_a_fitted_result_is_rejected(inner: str) -> None:
    """All are done in one pass, in which TensorFlow Transform's analyzers have no result either."""

    def fit(inputs: Any) -> dict[str, Any]:
        vocabulary.fit(tf.strings.as_string(INNER[inner](inputs)), "v")
        return {}

    with pytest.raises(SettingsError, match=r"depends on the result of another analysis.*Only the outer one"):
        ShardAnalyzer(SCHEMA, fit)


OUTSIDE = tf.constant([b"no"])


def _table() -> Any:
    pairs = tf.lookup.KeyValueTensorInitializer([b"yes"], [b"y"])
    return tf.lookup.StaticHashTable(pairs, b"?")


CAPTURES: dict[str, tuple[Callable[[Any], Any], set[bytes]]] = {
    "a constant of the module": (
        lambda inputs: tf.boolean_mask(inputs["label"], inputs["label"] != OUTSIDE),
        {b"yes", b"two?lines"},
    ),
    "a lookup table": (
        lambda inputs: tft.make_and_track_object(_table, name="pairs").lookup(inputs["label"]),
        {b"y", b"?"},
    ),
    "an analyzer of TensorFlow Transform in the output": (
        lambda inputs: [inputs["label"], tft.compute_and_apply_vocabulary(inputs["label"])][0],
        {b"yes", b"no", b"two?lines"},
    ),
    "an analyzer of TensorFlow Transform of a fitted result": (
        lambda inputs: [inputs["label"], tft.mean(INNER["ours"](inputs))][0],
        {b"yes", b"no", b"two?lines"},
    ),
}


@pytest.mark.parametrize("captured", CAPTURES)
def test_fit_functions_may_use_what_is_outside_of_the_graph(examples: Path, captured: str) -> None:
    """These are no columns of the records; a table lives as long as the analyzer."""
    use, expected = CAPTURES[captured]

    def fit(inputs: Any) -> dict[str, Any]:
        vocabulary.fit(tf.strings.regex_replace(use(inputs), "\n", "?"), "v")
        return {}

    analyzer = ShardAnalyzer(SCHEMA, fit)
    counted = analyzer.start()
    gc.collect()
    analyzer.add(examples, manifest.read(examples).shards_of("train"), counted)

    found: Any = counted[-1]
    assert {token for token, _ in found.ordered()} == expected
