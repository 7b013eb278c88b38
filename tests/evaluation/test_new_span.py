"""Promise C5: spans with real statistics of TFDV go through StatisticsGen and the Gate, without training."""

import io
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import schema_utils
from tfx.components.util import examples_utils
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts

from components.errors import GateStopped
from components.evaluation import gate
from components.evaluation.new_span import Acceptance, LiveSpan
from components.evaluation.statistics import SPANS, SpanStatisticsExecutor, categorical, split_patterns
from components.fitting import text
from components.fitting.analysis import trace
from components.fitting.analysis.shards import ShardAnalyzer
from components.records import manifest
from components.records.ledger import Entry
from components.records.roles import Column
from components.records.tfrecord.framing import TFRecordWriter
from components.settings.gate import Gate
from components.settings.transform import Fit
from pipelines.orchestration.audit import audit

pytestmark = pytest.mark.slow

COLUMNS = (
    Column("age", "number", "float32"), Column("plan", "category", "string"), Column("text", "text", "string"),
    Column("photo", "image", "string"),
)  # fmt: skip
WORDS = [f"word{index}" for index in range(50)]
Row = dict[str, Any]


def rows(seed: int, count: int = 300) -> list[Row]:
    """Returns records as on any day."""
    random = np.random.default_rng(seed)
    return [
        {
            "age": float(random.normal(40, 10)),
            "plan": str(random.choice(["basic", "plus"])).encode(),
            "text": " ".join(random.choice(WORDS, 8)).encode(),
            "label": str(random.choice(["no", "yes"])).encode(),
            "photo": photo(random.normal(random.uniform(90, 160), 20, (8, 8))),
        }
        for _ in range(count)
    ]


def photo(luma: Any) -> bytes:
    """Returns a gray PNG."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(luma).clip(0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def pixels(row: Row) -> Any:
    """Returns the luma of the photo of a row."""
    return np.asarray(Image.open(io.BytesIO(row["photo"]))).astype(int)


def darker(row: Row) -> Row:
    """Every pixel is darker by the same amount."""
    return {**row, "photo": photo(pixels(row) - 50)}


def larger(row: Row) -> Row:
    """Each pixel is nine."""
    return {**row, "photo": photo(pixels(row).repeat(3, 0).repeat(3, 1))}


def noisy(row: Row) -> Row:
    """Any luma is as likely as any other."""
    return {**row, "photo": photo(np.random.default_rng(zlib.crc32(row["photo"])).integers(0, 256, (8, 8)))}


def flat(row: Row) -> Row:
    """All pixels are the mean of the photo."""
    return {**row, "photo": photo(np.full((8, 8), pixels(row).mean()))}


def older(row: Row) -> Row:
    """Everybody is 20 years older."""
    return {**row, "age": row["age"] + 20}


def with_new_tokens(row: Row) -> Row:
    """Three of ten tokens are new."""
    words = row["text"].decode().split()
    return {**row, "text": " ".join([*words[:5], "neu", "nouveau", "新しい"]).encode()}


def mostly_yes(row: Row) -> Row:
    """Nine of ten labels are yes."""
    return {**row, "label": b"yes" if hash(row["age"]) % 10 else b"no"}


def without_plan(row: Row) -> Row:
    """A column is missing."""
    return {name: value for name, value in row.items() if name != "plan"}


def encoded(row: Row) -> bytes:
    """Returns a record."""
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        if isinstance(value, float)
        else tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        for name, value in row.items()
    }
    content: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )
    return content


def write(folder: Path, spans: Mapping[str, Iterable[Row]]) -> Any:
    """Writes an Examples artifact as Ingest does; returns it."""
    shards, classes = [], {split: {"no": 0, "yes": 0} for split in ("train", "eval", "test")}
    for span, records in spans.items():
        listed = list(records)
        edge = len(listed) * 7 // 10
        for split, part in (("train", listed[:edge]), ("eval", listed[edge::2]), ("test", listed[edge + 1 :: 2])):
            name = f"Split-{split}/data_tfrecord-{span}-00000-of-00001"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with TFRecordWriter(folder / name) as file:
                file.write([[encoded(row)] for row in part])
            shards.append(manifest.Shard(split, name, len(part), file.size, file.checksum))
            for row in part:
                classes[split][row["label"].decode()] += 1
    total = sum(shard.records for shard in shards)
    made = manifest.Manifest("", total, manifest.SourceTotals(), tuple(shards), classes, 0, {}, 0, ())
    manifest.write(folder, made, ())
    return artifact(standard_artifacts.Examples, folder)


def artifact(kind: Any, folder: Path) -> Any:
    """Returns an artifact in a folder."""
    made = kind()
    made.uri = str(folder)
    if kind is standard_artifacts.Examples:
        made.split_names = artifact_utils.encode_split_names(["train", "eval", "test"])
        examples_utils.set_payload_format(made, example_gen_pb2.FORMAT_TF_EXAMPLE)
    return made


def statistics(examples: Any, live: str, folder: Path) -> Path:
    """Runs StatisticsGen, and its audit."""
    made = artifact(standard_artifacts.ExampleStatistics, folder)
    SpanStatisticsExecutor().Do({"examples": [examples]}, {"statistics": [made]}, {"live": live})
    audited = audit("StatisticsGen", {"examples": Path(examples.uri)}, {"statistics": folder}, {"live": live})
    new = made.get_string_custom_property(SPANS).split(",")  # "": all
    read = sum(sum(manifest.read(Path(examples.uri)).records_of(span).values()) for span in new)
    assert audited.entry == Entry("StatisticsGen", read, read)
    return folder


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, fitted: str) -> LiveSpan:
    """What the live model was made from."""
    home = tmp_path_factory.mktemp("live")
    examples = write(home / "examples", {"s00001": rows(1), "s00002": rows(2)})
    found = statistics(examples, "", home / "statistics")
    return LiveSpan("runs/a/Trainer/model/7", str(found), examples.uri, fitted)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The live model's vocabulary, fitted by Transform's own code."""
    folder = tmp_path_factory.mktemp("graph")
    spec = {"text": tf.io.FixedLenFeature([], tf.string)}
    with TFRecordWriter(folder / "shard") as file:
        file.write([[encoded({"text": row["text"]})] for row in rows(1)])
    shard = manifest.Shard("train", "shard", 300, file.size, file.checksum)

    def preprocess(inputs: Any) -> Any:
        return text.fit(inputs, [COLUMNS[2]], Fit())

    def with_results(inputs: Any) -> Any:
        with trace.applying(folder / "results"):
            return preprocess(inputs)

    schema = text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))
    analyzer = ShardAnalyzer(schema, preprocess)
    counted = analyzer.start()
    analyzer.add(folder, [shard], counted)
    trace.write(folder / "results", analyzer.analyses, counted)
    types = {"text": tf.TensorSpec([None], tf.string)}
    impl_helper.analyze_in_place(with_results, False, spec, types, str(folder / "graph"))
    return str(folder / "graph")


@pytest.fixture
def run_gate(tmp_path: Path, live: LiveSpan) -> Callable[..., dict[str, Any]]:
    """Runs StatisticsGen and the Gate on a third span; returns the verdict."""

    def run(
        change: Callable[[Row], Row],
        accepted: Iterable[str] = (),
        count: int = 300,
        stopped: Iterable[Row] | None = None,
        embedded: str = "",
        **settings: Any,
    ) -> Any:
        newest = [change(row) for row in rows(3, count)]
        new = {"s00003": newest} if stopped is None else {"s00003": stopped, "s00004": newest}
        examples = write(tmp_path / "examples", {"s00001": rows(1), "s00002": rows(2), **new})
        found = statistics(examples, live.examples, tmp_path / "statistics")
        for split in ("train", "eval", "test"):
            (tmp_path / "anomalies" / f"Split-{split}").mkdir(parents=True)
            (tmp_path / "anomalies" / f"Split-{split}" / "SchemaDiff.pb").write_bytes(
                anomalies_pb2.Anomalies().SerializeToString()
            )
        (tmp_path / "verdict").mkdir()
        against = replace(live, accepted=tuple(Acceptance(each, "me", "why", "now") for each in accepted))
        gate.Gate.test_call(
            examples=examples,
            statistics=artifact(standard_artifacts.ExampleStatistics, found),
            anomalies=artifact(standard_artifacts.ExampleAnomalies, tmp_path / "anomalies"),
            verdict=artifact(gate.GateVerdict, tmp_path / "verdict"),
            settings=Gate(**settings).model_dump_json(),
            columns=orjson.dumps([column.to_dict() for column in COLUMNS]).decode(),
            embedded=embedded,
            schema_file="schema.pbtxt",
            live=against.to_json(),
        )
        return orjson.loads((tmp_path / "verdict" / "verdict.json").read_bytes())["drift"]

    return run


def test_a_span_like_the_one_before_passes(run_gate: Callable[..., Any]) -> None:
    """Every column is measured, and nothing is above its threshold."""
    found = run_gate(dict)

    assert {each["id"] for each in found["measures"]} == {
        *(f"missing:{name}" for name in ("age", "plan", "text", "label")),
        *(f"drift:{name}" for name in ("age", "plan", "text", "label")), "classes:label", "records:span",
        "missing:photo", *(f"drift:photo.{name}" for name in ("brightness", "contrast", "entropy", "size")),
    }  # fmt: skip
    assert [each["id"] for each in found["measures"] if each["open"]] == []


@pytest.mark.parametrize(
    ("change", "finding", "shown"),
    [
        (older, "drift:age", r"\n      span 3, Split-train/data_tfrecord-s00003-00000-of-00001 record \d+: \d\d"),
        (with_new_tokens, "drift:text", r"(?s)\d% of the tokens are not in the live.* record \d+: 'word"),
        (mostly_yes, "drift:label", r"'(yes|no)' in \d+\.\d% of the records, was \d+\.\d%"),
        (darker, "drift:photo.brightness", r"median \d\d\.\d+, was 1\d\d.*\n      span 3, \S+ record \d+: \d\d"),
        (larger, "drift:photo.size", r"is 1, .* median 24, was 8\n      span 3, \S+ record \d+: 24\n"),
        (without_plan, "missing:plan", r"missing in 100\.0% of the records.*\n      span 3, \S+ record \d+: missing"),
    ],
)  # fmt: skip
def test_drift_stops_the_run(
    run_gate: Callable[..., Any], change: Callable[[Row], Row], finding: str, shown: str
) -> None:
    """C5: finding, value, threshold, records that show it, and how to accept it; nothing else is found."""
    with pytest.raises(GateStopped) as stopped:
        run_gate(change)
    message = str(stopped.value)

    assert re.findall(r"(?m)^    (\S+:\S+) is [\d.]+, expected at most [\d.]+ \(gate\.", message) == [finding]
    assert re.search(shown, message), message
    assert f'the same command with --accept {finding} --because "why"' in message
    assert stopped.value.drift is not None
    assert [each["id"] for each in stopped.value.drift["measures"] if each["open"]] == [finding]


@pytest.mark.parametrize("change", [noisy, flat])
def test_other_images_stop_the_run(run_gate: Callable[..., Any], change: Callable[[Row], Row]) -> None:
    """C5: noise, and images without content."""
    with pytest.raises(GateStopped) as stopped:
        run_gate(change)

    assert stopped.value.drift is not None
    open_ids = [each["id"] for each in stopped.value.drift["measures"] if each["open"]]
    assert open_ids == ["drift:photo.contrast", "drift:photo.entropy"]


def test_the_new_words_are_kept_for_a_chart(run_gate: Callable[..., Any]) -> None:
    """Words with tokens that the live model does not know, and the share of the texts that have them."""
    found = run_gate(with_new_tokens, drift="warn")
    (words,) = [each["distributions"] for each in found["measures"] if each["id"] == "drift:text"]

    assert sorted(words["names"][:3]) == ["neu", "nouveau", "新しい"]
    assert (words["live"][:3], words["new"][:3]) == ([0, 0, 0], [1, 1, 1])


def test_an_accepted_change_of_images_passes(run_gate: Callable[..., Any]) -> None:
    """By the number that changed, once; its deciles are kept for a chart."""
    found = run_gate(darker, accepted=["drift:photo.brightness"])
    (row,) = [each for each in found["measures"] if each["id"] == "drift:photo.brightness"]

    assert (row["open"], row["value"] > row["threshold"]) == (False, True)
    assert len(row["distributions"]["live"]) == len(row["distributions"]["new"]) == 9


def test_a_threshold_of_one_number_of_images(run_gate: Callable[..., Any]) -> None:
    """For good, and of the images of one column alone."""
    found = run_gate(larger, max_drift_of={"photo.size": 1.0})

    assert {each["setting"] for each in found["measures"] if each["column"].startswith("photo.")} == {
        "gate.max_drift_of.photo.size",
        *(f"gate.max_image_drift, or gate.max_drift_of.photo.{name}" for name in ("brightness", "contrast", "entropy")),
    }


def test_embeddings_instead_of_images_are_noted(run_gate: Callable[..., Any]) -> None:
    """Of extract.where = beam, the records have no images that could be compared."""
    found = run_gate(dict, embedded="photo")

    assert found["notes"] == [
        "photo was not compared: the records have embeddings of the images (extract.where = beam)"
    ]


def test_an_accepted_finding_passes(run_gate: Callable[..., Any]) -> None:
    """The verdict says who accepted it, and why; one that was not found is only noted."""
    found = run_gate(older, accepted=["drift:age", "drift:plan"])

    assert [(each["finding"], each["who"], each["because"]) for each in found["accepted"]] == [
        ("drift:age", "me", "why"),
    ]
    assert found["notes"] == ["--accept drift:plan: no such finding"]


def test_another_finding_than_the_accepted_one_stops_the_run(run_gate: Callable[..., Any]) -> None:
    """Accepting is by finding."""
    with pytest.raises(GateStopped, match="drift:age is"):
        run_gate(older, accepted=["missing:age"])


def test_drift_may_be_a_warning_or_not_compared(run_gate: Callable[..., Any]) -> None:
    """gate.drift = warn passes, and the verdict has the finding."""
    found = run_gate(older, drift="warn")

    assert [each["id"] for each in found["measures"] if each["open"]] == ["drift:age"]


def test_too_few_records_are_a_finding(run_gate: Callable[..., Any]) -> None:
    """Chance explains the columns of 50 records, not their number."""
    with pytest.raises(
        GateStopped, match=r"records:span is 6, expected at most 5 \(gate.max_record_ratio\): span 3: 50 "
    ):
        run_gate(dict, count=50)


def test_only_the_shards_of_the_new_spans_are_read() -> None:
    """By the names of shards; a split without a shard of these spans is left out."""
    ends = (
        ("train", "s00001-00000"),
        ("train", "s00012-f00001-00000"),
        ("eval", "s00012-00000"),
        ("test", "s00001-0000"),
    )
    shards = [manifest.Shard(split, f"Split-{split}/data_tfrecord-{end}-of-00001", 1, 1, "") for split, end in ends]

    assert split_patterns(shards, ["s00012"]) == {
        "eval": ["Split-eval/*-s00012-*"], "train": ["Split-train/*-s00012-*"],
    }  # fmt: skip
    assert split_patterns(shards, ["s00001", "s00012"])["train"] == ["Split-train/*-s00001-*", "Split-train/*-s00012-*"]
    assert split_patterns(shards, ["s00002"]) == {}


def test_a_span_that_was_stopped_is_compared_the_next_day(run_gate: Callable[..., Any]) -> None:
    """Both spans are new: the one of today does not hide the one of yesterday, not even a corrected older one."""
    with pytest.raises(GateStopped) as stopped:
        run_gate(dict, stopped=[older(row) for row in rows(4)])

    assert "new spans 3, 4 differ from the data of the live model" in str(stopped.value)
    assert "drift:age is" in str(stopped.value)


def test_new_spans_without_records_stop_the_run(tmp_path: Path) -> None:
    """Ingest has read the span, and all of its rows were bad: its name, and what to do."""
    examples = write(tmp_path / "examples", {"s00001": rows(1, 20)})
    (tmp_path / "examples" / "spans").mkdir()
    for name in ("s00001", "s00002"):
        (tmp_path / "examples" / "spans" / f"{name}.json").write_bytes(orjson.dumps({"key": name, "reports": []}))
    live = write(tmp_path / "live", {"s00001": rows(1, 20)})
    (tmp_path / "live" / "spans").mkdir()
    (tmp_path / "live" / "spans" / "s00001.json").write_bytes(orjson.dumps({"key": "s00001", "reports": []}))

    with pytest.raises(GateStopped, match=r"^new span 2: no records, expected at least one; correct the data"):
        statistics(examples, live.uri, tmp_path / "statistics")


def test_values_of_whole_numbers_that_are_categories_are_counted() -> None:
    """TFDV counts those that the schema marks; numbers, and the schema itself, stay as they are."""
    schema = text_format.Parse(
        'feature { name: "code" type: INT annotation { tag: "category" } } feature { name: "age" type: INT }',
        schema_pb2.Schema(),
    )

    assert [each.int_domain.is_categorical for each in categorical(schema).feature] == [True, False]
    assert not schema.feature[0].HasField("int_domain")
