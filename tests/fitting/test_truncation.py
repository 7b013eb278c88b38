"""A11: texts that are longer than the model's maximum are counted, in every split."""

from pathlib import Path

import pytest

from components.fitting import truncation
from components.ingest.write.encode_record import example_parts
from components.records import manifest
from components.records.tfrecord.framing import TFRecordWriter
from components.settings.transform import Fit

pytestmark = pytest.mark.slow

TEXTS = {
    "train": [b"one two three", b"one two, three four", b"", b"word " * 5_000_000],
    "eval": [b"one two three", b"x" * 1000],
    "test": [],
}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Records of two text columns, of which one is always short; the test split is empty."""
    shards = []
    for split, texts in TEXTS.items():
        with TFRecordWriter(tmp_path / split) as file:
            file.write([b"".join(example_parts({"text": text, "title": b"a b"}))] for text in texts)
        shards.append(manifest.Shard(split, split, file.records, file.size, file.checksum))
    stored = manifest.Manifest(
        "", 6, manifest.SourceTotals(), tuple(shards), {split: {} for split in TEXTS}, 0, {}, 0, ()
    )
    manifest.write(tmp_path, stored, ())
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Fit(max_tokens=3), {"train": 2, "eval": 1, "test": 0}),
        (Fit(max_tokens=4), {"train": 1, "eval": 1, "test": 0}),
        (Fit(max_tokens=100), {"train": 1, "eval": 0, "test": 0}),
        (Fit(max_tokens=100, tokens="characters"), {"train": 1, "eval": 1, "test": 0}),
        (Fit(max_tokens=4, ngrams=2), {"train": 3, "eval": 2, "test": 0}),
        (Fit(max_tokens=2), {"train": 3, "eval": 2, "test": 0}),
    ],
    ids=["words", "as many as allowed", "one word of many bytes", "characters", "n-grams", "short ones"],
)
def test_truncated_texts_are_counted_per_split(examples: Path, settings: Fit, expected: dict[str, int]) -> None:
    """Also a text that has more bytes than the tokens may take."""
    assert truncation.count(examples, ["text", "title"], settings) == expected
