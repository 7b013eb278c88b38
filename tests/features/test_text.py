"""Every text has a documented result: nothing is cut at a NUL, nothing is too long, and graphs agree with eager calls.

| text                  | words                                                         |
|-----------------------|---------------------------------------------------------------|
| NUL                   | a border, and what follows is read                            |
| CR, LF, both, tab     | borders                                                       |
| emoji                 | kept whole: skin colours, joined families and flags           |
| combining marks       | kept as written: é of one code point is not é of two          |
| invalid UTF-8         | U+FFFD in its place, the rest is read                         |
| right to left         | in the order of the text; marks of direction are kept         |
| blank, empty          | no words; padding in the model                                |
"""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.features import text
from components.features.text import TextFeature, looked_up

KNOWN = ["a", "b", "c", "d"]

CASES: dict[str, tuple[bytes | str, list[str]]] = {
    "NUL": ("one\0two", ["one", "two"]),
    "NUL first": ("\0one", ["one"]),
    "CR LF": ("one\r\ntwo", ["one", "two"]),
    "CR and LF": ("one\rtwo\nthree\tfour", ["one", "two", "three", "four"]),
    "emoji": ("good 👍 day", ["good", "👍", "day"]),
    "skin colour": ("👍🏽 👍", ["👍🏽", "👍"]),
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
    """Numbers the four tokens that are known, and all others alike behind them."""
    table = tf.lookup.KeyValueTensorInitializer(KNOWN, tf.range(len(KNOWN), dtype=tf.int64))
    return tf.lookup.StaticHashTable(table, len(KNOWN)).lookup(tokens)


def strings(found: tf.RaggedTensor) -> list[list[str]]:
    """Returns tokens as Python's own strings."""
    return [[token.decode() for token in row] for row in found.to_list()]


def padded(feature: TextFeature, texts: list[str]) -> list[list[int]]:
    """Returns what a model sees of a batch of texts."""
    return feature.finish(feature.decode(tf.constant(texts, tf.string))).numpy().tolist()


class TestTokens:
    """What Transform fits a vocabulary on and the exported model looks up."""

    @pytest.mark.parametrize(("given", "words"), CASES.values(), ids=CASES.keys())
    def test_words_of_any_text(self, given: bytes | str, words: list[str]) -> None:
        """One row of the table in the module's docstring."""
        assert strings(text.tokens(tf.constant([given]))) == [words]

    @pytest.mark.parametrize(("given", "characters"), CHARACTERS.values(), ids=CHARACTERS.keys())
    def test_characters_of_any_text(self, given: bytes | str, characters: list[str]) -> None:
        """Code points; control characters are spaces, and spaces at both ends are none."""
        assert strings(text.tokens(tf.constant([given]), "characters")) == [characters]

    @pytest.mark.parametrize("split", ["words", "characters"])
    def test_a_batch_in_tf_data_has_the_tokens_of_eager_calls(self, split: text.Split) -> None:
        """All texts of the table at once, in their order."""
        texts = tf.constant([given for given, _ in CASES.values()])
        (inside,) = tf.data.Dataset.from_tensors(texts).map(lambda batch: text.tokens(batch, split))

        assert strings(inside) == strings(text.tokens(texts, split))

    @pytest.mark.parametrize("split", ["words", "characters"])
    def test_case_may_be_kept(self, split: text.Split) -> None:
        """What is not UTF-8 is replaced all the same."""
        found = strings(text.tokens(tf.constant([b"A \xff"]), split, lower=False))

        assert found == [["A", "\ufffd"] if split == "words" else ["A", " ", "\ufffd"]]

    def test_ngrams_follow_the_words(self) -> None:
        """Single ones first, then pairs, then threes; a short text has as many as it can."""
        found = strings(text.tokens(tf.constant(["One two, three", "one", ""]), ngrams=3))

        assert found == [["one", "two", "three", "one two", "two three", "one two three"], ["one"], []]

    def test_ngrams_of_characters_are_joined_without_a_space(self) -> None:
        """They are pieces of words."""
        assert strings(text.tokens(tf.constant(["abc"]), "characters", ngrams=2)) == [["a", "b", "c", "ab", "bc"]]


class TestDecode:
    """Numbers of tokens, as many as a text has."""

    def test_numbers_are_those_of_the_lookup_and_one_more(self) -> None:
        """0 is left to padding; what is not known has a number as well."""
        decoded = TextFeature(looked_up(lookup)).decode(tf.constant(["a b c", "", "D e"]))

        assert (decoded.to_list(), decoded.dtype) == ([[1, 2, 3], [], [4, 5]], tf.int64)

    @pytest.mark.parametrize(("side", "kept"), [("end", [[1, 2], [3], []]), ("start", [[3, 4], [3], []])])
    def test_a_long_text_is_cut_at_the_end_that_is_set(self, side: text.Side, kept: list[list[int]]) -> None:
        """The rest keeps its order; short ones are left as they are."""
        decoded = TextFeature(looked_up(lookup), max_tokens=2, truncate=side).decode(tf.constant(["a b c d", "c", ""]))

        assert decoded.to_list() == kept

    @pytest.mark.parametrize(("side", "kept"), [("end", [[1, 2, 3]]), ("start", [[5, 5, 5]])])
    def test_ngrams_count_as_tokens(self, side: text.Side, kept: list[list[int]]) -> None:
        """max_tokens bounds what the model sees, whatever it is made of."""
        decoded = TextFeature(looked_up(lookup, ngrams=2), max_tokens=3, truncate=side).decode(tf.constant(["a b c d"]))

        assert decoded.to_list() == kept

    def test_case_and_split_are_those_of_the_feature(self) -> None:
        """`A` is not `a` when case is kept."""
        feature = TextFeature(looked_up(lookup, "characters", lower=False))

        assert feature.decode(tf.constant(["aAb"])).to_list() == [[1, 5, 2]]

    @pytest.mark.parametrize("side", ["end", "start"])
    def test_five_million_tokens_among_short_texts_are_bounded(self, side: text.Side) -> None:
        """Of the long one no more is read than max_tokens can need; the batch is as wide as max_tokens."""
        feature = TextFeature(looked_up(lookup), max_tokens=100, truncate=side)
        long = b"a " * 4_999_999 + b"b"
        texts = tf.constant([b"c", long, b""])

        read = tf.strings.length(text._bounded(texts, 100, side))
        batch = feature.finish(feature.decode(texts))

        last = 2 if side == "start" else 1
        assert read.numpy().tolist() == [1, 6400, 0]
        np.testing.assert_array_equal(batch.numpy(), [[3] + [0] * 99, [1] * 99 + [last], [0] * 100])
        assert batch.dtype.size * 100 == feature.decoded_bytes

    @pytest.mark.parametrize("side", ["end", "start"])
    def test_a_long_text_of_wide_characters_is_cut_between_them(self, side: text.Side) -> None:
        """Where bytes are cut, no half of a character comes into the batch."""
        feature = TextFeature(looked_up(tf.strings.length, "characters"), max_tokens=5, truncate=side)

        decoded = feature.decode(tf.constant(["a" + "👍" * 1000 + "a"]))

        assert decoded.to_list() == [[2, 5, 5, 5, 5] if side == "end" else [5, 5, 5, 5, 2]]


class TestFinish:
    """What the model sees."""

    def test_texts_are_padded_to_the_longest_of_the_batch(self) -> None:
        """With noughts behind."""
        assert padded(TextFeature(looked_up(lookup)), ["a", "a b c", ""]) == [[1, 0, 0], [1, 2, 3], [0, 0, 0]]

    @pytest.mark.parametrize("blank", ["", " \r\n\0"])
    def test_a_batch_without_a_token_is_one_place_wide(self, blank: str) -> None:
        """A model cannot take a width of nought."""
        assert padded(TextFeature(looked_up(lookup)), [blank, blank]) == [[0], [0]]

    @pytest.mark.parametrize(("texts", "width"), [(["", "a"], 2), (["a b"], 2), (["a b c"], 4), (["a b c d a"], 4)])
    def test_a_batch_is_as_wide_as_the_next_of_pad_to(self, texts: list[str], width: int) -> None:
        """So that few widths occur; the last one holds the longest text."""
        batch = padded(TextFeature(looked_up(lookup), max_tokens=4, pad_to=(2, 4)), texts)

        assert {len(row) for row in batch} == {width}

    @pytest.mark.parametrize("pad_to", [(), (1, 8, 512)])
    def test_a_batch_without_a_record_is_one_place_wide(self, pad_to: tuple[int, ...]) -> None:
        """What a filter leaves over may be nothing."""
        feature = TextFeature(looked_up(lookup), pad_to=pad_to)

        assert feature.finish(feature.decode(tf.constant([], tf.string))).shape == (0, 1)

    @pytest.mark.parametrize(
        ("pad_to", "widths"), [((), [1, 1, 2, 3, 4, 5]), ((2, 5), [2, 2, 2, 5, 5, 5])], ids=["longest", "steps"]
    )
    def test_widths_are_told_without_a_batch(self, pad_to: tuple[int, ...], widths: list[int]) -> None:
        """By the lengths of the longest alone, so that batches are planned before they are made."""
        longest = tf.range(6, dtype=tf.int64)

        assert TextFeature(looked_up(lookup), max_tokens=5, pad_to=pad_to).widths(longest).numpy().tolist() == widths

    @pytest.mark.parametrize("build", [lambda f: f.decode, lambda f: lambda texts: f.augmented(texts, None)])
    def test_tf_data_gives_the_batch_of_eager_calls(self, build: Callable[..., Callable[..., tf.RaggedTensor]]) -> None:
        """Training varies no text: with seeds and without it is the same."""
        feature = TextFeature(looked_up(lambda tokens: tf.strings.to_hash_bucket_fast(tokens, 1000)), max_tokens=4)
        texts = tf.constant([given for given, _ in CASES.values()])
        decode = build(feature)
        data = tf.data.Dataset.from_tensors(texts).map(lambda batch: feature.finish(decode(batch)))

        (inside,) = data.as_numpy_iterator()

        assert data.element_spec == tf.TensorSpec([None, None], tf.int64)
        np.testing.assert_array_equal(inside, feature.finish(feature.decode(texts)).numpy())


class TestDeclared:
    """What others learn of the feature without a text."""

    def test_a_record_without_the_text_has_an_empty_one(self) -> None:
        """Parsed by the feature's own spec."""
        records = [tf.train.Example().SerializeToString()]

        parsed = tf.io.parse_example(records, {"text": TextFeature(looked_up(lookup)).spec()})

        assert parsed["text"].numpy().tolist() == [b""]

    def test_the_model_receives_numbers_of_any_width(self) -> None:
        """Its batches differ in width."""
        declared = TextFeature(looked_up(lookup)).keras_input("text")

        assert (declared.shape, declared.dtype, declared.name) == ((None, None), "int64", "text")

    def test_it_is_ragged_and_cheap(self) -> None:
        """Texts of like length belong together, and are parsed before they are batched."""
        feature = TextFeature(looked_up(lookup), max_tokens=7)

        assert (feature.is_ragged, feature.is_costly, feature.decoded_bytes) == (True, False, 56)
