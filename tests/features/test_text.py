"""Every text has a documented result; a NUL does not end it, its length is bounded, and graphs equal eager calls.

| text                  | words                                                         |
|-----------------------|---------------------------------------------------------------|
| NUL                   | a boundary; the rest is read                                  |
| CR, LF, both, tab     | boundaries                                                    |
| emoji                 | kept whole: skin colors, joined families and flags            |
| combining marks       | kept as written: é of one code point is not é of two          |
| invalid UTF-8         | replaced by U+FFFD; the rest is read                          |
| right to left         | in the order of the text; marks of direction are kept         |
| blank, empty          | no words; padding in the model                                |
"""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.features import text
from components.features.text import TextFeature

KNOWN = ["a", "b", "c", "d"]

CASES: dict[str, tuple[bytes | str, list[str]]] = {
    "NUL": ("one\0two", ["one", "two"]),
    "NUL first": ("\0one", ["one"]),
    "CR LF": ("one\r\ntwo", ["one", "two"]),
    "CR and LF": ("one\rtwo\nthree\tfour", ["one", "two", "three", "four"]),
    "emoji": ("good 👍 day", ["good", "👍", "day"]),
    "skin color": ("👍🏽 👍", ["👍🏽", "👍"]),
    "joined emoji": ("the 👩‍👧‍👦!", ["the", "👩‍👧‍👦"]),
    "flag": ("🇫🇷🇩🇪", ["🇫🇷🇩🇪"]),
    "combining marks": ("e\u0301te\u0301 \u00e9t\u00e9", ["e\u0301te\u0301", "\u00e9t\u00e9"]),
    "invalid": (b"on\xffe two", ["on\ufffde", "two"]),
    "invalid, then upper case": (b"\xff ONE", ["\ufffd", "one"]),
    "right to left": ("שלום, עולם", ["שלום", "עולם"]),
    "right to left and numbers": ("غرفة 12", ["غرفة", "12"]),
    "mark of direction": ("\u200fאב", ["\u200fאב"]),
    "blank": (" \t\u3000\u00a0\u2003 ", []),
    "empty": ("", []),
    "spaces of other scripts": ("one\u3000two\u00a0three\u2028four\u0085five", ["one", "two", "three", "four", "five"]),
    "punctuation": ("Don't, stop—«now»。", ["don", "t", "stop", "now"]),
    "upper case": ("ÉTÉ ΣΑΣ Ж", ["été", "σας", "ж"]),
    "symbols": ("1 + 1 = 2 €", ["1", "+", "1", "=", "2", "€"]),
}

CHARACTERS: dict[str, tuple[bytes | str, list[str]]] = {
    "NUL": ("a\0b", ["a", " ", "b"]),
    "CR LF": ("a\r\nb", ["a", " ", " ", "b"]),
    "emoji": ("a👍🏽", ["a", "👍", "🏽"]),
    "combining marks": ("e\u0301", ["e", "\u0301"]),
    "invalid": (b"a\xffb", ["a", "\ufffd", "b"]),
    "right to left": ("אב", ["א", "ב"]),
    "punctuation": ("a.B", ["a", ".", "b"]),
    "blank": ("\t \n", []),
    "empty": ("", []),
    "without spaces": ("東京", ["東", "京"]),
}


def lookup(tokens: tf.Tensor) -> tf.Tensor:
    """Returns the indices of four known tokens; all others share the next index."""
    table = tf.lookup.KeyValueTensorInitializer(KNOWN, tf.range(len(KNOWN), dtype=tf.int64))
    return tf.lookup.StaticHashTable(table, len(KNOWN)).lookup(tokens)


def strings(found: tf.RaggedTensor) -> list[list[str]]:
    """Returns tokens as Python strings."""
    return [[token.decode() for token in row] for row in found.to_list()]


def padded(feature: TextFeature, texts: list[str]) -> list[list[int]]:
    """Returns the model's input of a batch of texts."""
    return feature.finish(feature.decode(tf.constant(texts, tf.string))).numpy().tolist()


def indices_by(
    lookup: Callable[[tf.Tensor], tf.Tensor], split: text.Split = "words", lower: bool = True, ngrams: int = 1
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns the function from texts to token indices, as Transform's graph computes them."""

    def indices(texts: tf.Tensor) -> tf.RaggedTensor:
        found = text.tokens(texts, split, lower, ngrams)
        return found.with_flat_values(tf.cast(lookup(found.flat_values), tf.int64))

    return indices


class TestTokens:
    """Transform fits the vocabulary on them, and the exported model looks them up."""

    @pytest.mark.parametrize(("given", "words"), CASES.values(), ids=CASES.keys())
    def test_words_of_any_text(self, given: bytes | str, words: list[str]) -> None:
        """One row of the table in the module's docstring."""
        assert strings(text.tokens(tf.constant([given]))) == [words]

    @pytest.mark.parametrize(("given", "characters"), CHARACTERS.values(), ids=CHARACTERS.keys())
    def test_characters_of_any_text(self, given: bytes | str, characters: list[str]) -> None:
        """Code points; control characters become spaces, and spaces at both ends are removed."""
        assert strings(text.tokens(tf.constant([given]), "characters")) == [characters]

    @pytest.mark.parametrize("split", ["words", "characters"])
    def test_a_batch_in_tf_data_has_the_tokens_of_eager_calls(self, split: text.Split) -> None:
        """All texts of the table at once, in their order."""
        texts = tf.constant([given for given, _ in CASES.values()])
        (inside,) = tf.data.Dataset.from_tensors(texts).map(lambda batch: text.tokens(batch, split))

        assert strings(inside) == strings(text.tokens(texts, split))

    @pytest.mark.parametrize("split", ["words", "characters"])
    def test_case_may_be_kept(self, split: text.Split) -> None:
        """Invalid UTF-8 is replaced all the same."""
        found = strings(text.tokens(tf.constant([b"A \xff"]), split, lower=False))

        assert found == [["A", "\ufffd"] if split == "words" else ["A", " ", "\ufffd"]]

    def test_ngrams_follow_the_words(self) -> None:
        """Single words first, then pairs, then triples; a short text has fewer."""
        found = strings(text.tokens(tf.constant(["One two, three", "one", ""]), ngrams=3))

        assert found == [["one", "two", "three", "one two", "two three", "one two three"], ["one"], []]

    def test_ngrams_of_characters_are_joined_without_a_space(self) -> None:
        """They are parts of words."""
        assert strings(text.tokens(tf.constant(["abc"]), "characters", ngrams=2)) == [["a", "b", "c", "ab", "bc"]]


class TestDecode:
    """Texts to token indices."""

    def test_indices_are_those_of_the_lookup_plus_one(self) -> None:
        """0 is padding; unknown tokens have an index too."""
        decoded = TextFeature(indices_by(lookup)).decode(tf.constant(["a b c", "", "D e"]))

        assert (decoded.to_list(), decoded.dtype) == ([[1, 2, 3], [], [4, 5]], tf.int64)

    @pytest.mark.parametrize(("side", "kept"), [("end", [[1, 2], [3], []]), ("start", [[3, 4], [3], []])])
    def test_a_long_text_is_truncated_on_the_set_side(self, side: text.Side, kept: list[list[int]]) -> None:
        """The rest keeps its order; short texts are unchanged."""
        decoded = TextFeature(indices_by(lookup), max_tokens=2, truncate=side).decode(tf.constant(["a b c d", "c", ""]))

        assert decoded.to_list() == kept

    @pytest.mark.parametrize(("side", "kept"), [("end", [[1, 2, 3]]), ("start", [[5, 5, 5]])])
    def test_ngrams_count_as_tokens(self, side: text.Side, kept: list[list[int]]) -> None:
        """max_tokens bounds the model's input."""
        decoded = TextFeature(indices_by(lookup, ngrams=2), max_tokens=3, truncate=side).decode(
            tf.constant(["a b c d"])
        )

        assert decoded.to_list() == kept

    def test_case_and_split_are_those_of_the_feature(self) -> None:
        """`A` is not `a` when case is kept."""
        feature = TextFeature(indices_by(lookup, "characters", lower=False))

        assert feature.decode(tf.constant(["aAb"])).to_list() == [[1, 5, 2]]

    @pytest.mark.parametrize("side", ["end", "start"])
    def test_five_million_tokens_among_short_texts_are_bounded(self, side: text.Side) -> None:
        """Only the bytes that max_tokens may need are read; the batch is as wide as max_tokens."""
        feature = TextFeature(indices_by(lookup), max_tokens=100, truncate=side)
        long = b"a " * 4_999_999 + b"b"
        texts = tf.constant([b"c", long, b""])

        read = tf.strings.length(text.bounded(texts, 100, side))
        batch = feature.finish(feature.decode(texts))

        last = 2 if side == "start" else 1
        assert read.numpy().tolist() == [1, 6400, 0]
        np.testing.assert_array_equal(batch.numpy(), [[3] + [0] * 99, [1] * 99 + [last], [0] * 100])
        assert batch.dtype.size * 100 == feature.decoded_bytes

    @pytest.mark.parametrize("side", ["end", "start"])
    def test_a_long_text_is_truncated_between_characters(self, side: text.Side) -> None:
        """Never within the bytes of a character."""
        feature = TextFeature(indices_by(tf.strings.length, "characters"), max_tokens=5, truncate=side)

        decoded = feature.decode(tf.constant(["a" + "👍" * 1000 + "a"]))

        assert decoded.to_list() == [[2, 5, 5, 5, 5] if side == "end" else [5, 5, 5, 5, 2]]


class TestFinish:
    """The model's input."""

    def test_texts_are_padded_to_the_longest_of_the_batch(self) -> None:
        """With zeros at the end."""
        assert padded(TextFeature(indices_by(lookup)), ["a", "a b c", ""]) == [[1, 0, 0], [1, 2, 3], [0, 0, 0]]

    @pytest.mark.parametrize("blank", ["", " \r\n\0"])
    def test_a_batch_without_tokens_has_width_one(self, blank: str) -> None:
        """A model cannot take width zero."""
        assert padded(TextFeature(indices_by(lookup)), [blank, blank]) == [[0], [0]]

    @pytest.mark.parametrize(("texts", "width"), [(["", "a"], 2), (["a b"], 2), (["a b c"], 4), (["a b c d a"], 4)])
    def test_a_batch_has_the_next_width_of_pad_to(self, texts: list[str], width: int) -> None:
        """So that there are few widths; the last one fits the longest text."""
        batch = padded(TextFeature(indices_by(lookup), max_tokens=4, pad_to=(2, 4)), texts)

        assert {len(row) for row in batch} == {width}

    @pytest.mark.parametrize("pad_to", [(), (1, 8, 512)])
    def test_an_empty_batch_has_the_smallest_width(self, pad_to: tuple[int, ...]) -> None:
        """A filtered batch may be empty."""
        feature = TextFeature(indices_by(lookup), pad_to=pad_to)

        assert feature.finish(feature.decode(tf.constant([], tf.string))).shape == (0, 1)

    @pytest.mark.parametrize(
        ("pad_to", "widths"), [((), [1, 1, 2, 3, 4, 5]), ((2, 5), [2, 2, 2, 5, 5, 5])], ids=["longest", "steps"]
    )
    def test_widths_follow_from_the_longest_texts(self, pad_to: tuple[int, ...], widths: list[int]) -> None:
        """So that a pool is padded before it is cut into batches."""
        longest = tf.range(6, dtype=tf.int64)

        assert TextFeature(indices_by(lookup), max_tokens=5, pad_to=pad_to).widths(longest).numpy().tolist() == widths

    @pytest.mark.parametrize("build", [lambda f: f.decode, lambda f: lambda texts: f.augmented(texts, None)])
    def test_tf_data_gives_the_batch_of_eager_calls(self, build: Callable[..., Callable[..., tf.RaggedTensor]]) -> None:
        """Texts are not augmented: seeds have no effect."""
        feature = TextFeature(indices_by(lambda tokens: tf.strings.to_hash_bucket_fast(tokens, 1000)), max_tokens=4)
        texts = tf.constant([given for given, _ in CASES.values()])
        decode = build(feature)
        data = tf.data.Dataset.from_tensors(texts).map(lambda batch: feature.finish(decode(batch)))

        (inside,) = data.as_numpy_iterator()

        assert data.element_spec == tf.TensorSpec([None, None], tf.int64)
        np.testing.assert_array_equal(inside, feature.finish(feature.decode(texts)).numpy())


class TestDeclared:
    """Spec, model input and properties."""

    def test_a_record_without_the_text_has_an_empty_one(self) -> None:
        """Parsed by the feature's own spec."""
        records = [tf.train.Example().SerializeToString()]

        parsed = tf.io.parse_example(records, {"text": TextFeature(indices_by(lookup)).spec()})

        assert parsed["text"].numpy().tolist() == [b""]

    def test_the_model_input_has_any_width(self) -> None:
        """Its batches differ in width."""
        declared = TextFeature(indices_by(lookup)).keras_input("text")

        assert (declared.shape, declared.dtype, declared.name) == ((None, None), "int64", "text")

    def test_it_is_ragged_and_cheap(self) -> None:
        """Batches are made of similar lengths, after parsing."""
        feature = TextFeature(indices_by(lookup), max_tokens=7)

        assert (feature.is_ragged, feature.is_costly, feature.decoded_bytes) == (True, False, 56)
