"""Texts: a string in the record, numbers of tokens on the device, as many as the text has.

    string ─► cut ─► clean ─► tokens ─► numbers (fitted) ─► [n, each its own length] ─► padded to the longest

0 is padding; what the vocabulary numbers 0, 1, 2 … is 1, 2, 3 … here. Every text is padded to the longest of its batch,
and batches are made of texts of like length. A text without a token is all padding, one place wide at least.

| in the text                                | what becomes of it                                      |
|--------------------------------------------|---------------------------------------------------------|
| NUL, CR, LF and other control characters   | spaces: nothing is cut off at them                      |
| spaces of any script, punctuation          | borders of words                                        |
| letters, digits, combining marks, emoji    | kept; a mark stays with its letter as it was written    |
| upper case                                 | lower case by Unicode's rules, unless told otherwise    |
| bytes that are not UTF-8                   | U+FFFD each                                             |
| right-to-left scripts                      | kept in the order of the text, not of the screen        |
| a text longer than `max_tokens`            | cut at its end, or at its start                         |
| tokens of more than 64 bytes in the mean   | fewer are kept: 64 x `max_tokens` bytes are looked at   |

`words` suits scripts with spaces; for others take `characters`. Transform fits the vocabulary on `tokens`, and its
graph is what numbers them in training and in the exported model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import keras
import tensorflow as tf

from components.features import DataShape, Fitted, Unvaried
from components.records.roles import Column, length_column
from components.settings.input import Input

_NUMBER_BYTES = 8
_TOKEN_BYTES = 64  # of a text are read for each token that may be kept: one of five million words costs no more
_SPACES = r"\p{Zl}\p{Zp}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}"
_BORDERS = rf"[\p{{Cc}}\pP{_SPACES}]+"  # without the plain space: it is a border already, and the most frequent one
_CONTROLS = r"\p{Cc}"

_EDGES = (0, 16, 64, 256)  # tokens
_LENGTHS = ("empty", "1 to 16 tokens", "17 to 64 tokens", "65 to 256 tokens", "more than 256 tokens")

Split = Literal["words", "characters"]
Side = Literal["end", "start"]


@dataclass(frozen=True)
class TextFeature(Unvaried):
    """A text as numbers of its tokens."""

    numbers: Callable[[tf.Tensor], tf.RaggedTensor]  # texts to numbers of their tokens, 0, 1, 2 …
    max_tokens: int = 512
    truncate: Side = "end"  # the end that is cut off
    pad_to: tuple[int, ...] = ()  # rising; the last one is max_tokens or more

    is_ragged = True

    @property
    def decoded_bytes(self) -> int:
        """Those of the longest."""
        return self.max_tokens * _NUMBER_BYTES

    def spec(self) -> tf.io.FixedLenFeature:
        """One string; a record without it has an empty text."""
        return tf.io.FixedLenFeature([], tf.string, "")

    def decode(self, stored: tf.Tensor) -> tf.RaggedTensor:
        """Turns texts into numbers, int64 [n, each its own length]."""
        found = self._cut(self.numbers(_bounded(stored, self.max_tokens, self.truncate)))
        return found.with_flat_values(found.flat_values + 1)

    def finish(self, decoded: tf.RaggedTensor) -> tf.Tensor:
        """Pads to the longest of the batch, or to the next of `pad_to`."""
        width = self.widths(tf.reduce_max(decoded.row_lengths(), keepdims=True))
        return decoded.to_tensor(shape=tf.concat([tf.constant([-1], tf.int64), width], axis=0))

    def widths(self, longest: tf.Tensor) -> tf.Tensor:
        """Returns the widths of batches, by the lengths of their longest texts [k]."""
        if not self.pad_to:
            return tf.maximum(longest, 1)
        steps = tf.constant(self.pad_to, tf.int64)
        return tf.gather(steps, tf.searchsorted(steps, longest))

    def slices(self, name: str, decoded: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Returns how long each text is, in words: what an evaluation looks at apart."""
        return {
            length_column(name): tf.gather(
                _LENGTHS, tf.searchsorted(tf.constant(_EDGES, tf.int64), decoded.row_lengths())
            )
        }

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input; its width is that of the batch."""
        return keras.Input([None], dtype="int64", name=name)

    def _cut(self, found: tf.RaggedTensor) -> tf.RaggedTensor:
        return found[:, : self.max_tokens] if self.truncate == "end" else found[:, -self.max_tokens :]


def from_columns(columns: Sequence[Column], fitted: Fitted, settings: Input, data: DataShape) -> dict[str, TextFeature]:
    """Returns a feature for every text, numbered by what was fitted."""
    del data
    return {column.name: _of(column.name, fitted, settings) for column in columns}


def _of(name: str, fitted: Fitted, settings: Input) -> TextFeature:
    return TextFeature(
        lambda texts: fitted.apply({name: texts})[name], settings.max_tokens, settings.truncate, settings.pad_to
    )


def looked_up(
    lookup: Callable[[tf.Tensor], tf.Tensor], split: Split = "words", lower: bool = True, ngrams: int = 1
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns what numbers texts by a lookup of one's own; what it does not know must have a number as well."""

    def numbers(texts: tf.Tensor) -> tf.RaggedTensor:
        found = tokens(texts, split, lower, ngrams)
        return found.with_flat_values(tf.cast(lookup(found.flat_values), tf.int64))

    return numbers


def tokens(texts: tf.Tensor, split: Split = "words", lower: bool = True, ngrams: int = 1) -> tf.RaggedTensor:
    """Returns the tokens of each text [n]: words, or characters, or what up to `ngrams` of them are together."""
    # Before lower(), which ends at a NUL.
    clean = tf.strings.regex_replace(texts, _BORDERS if split == "words" else _CONTROLS, " ")
    # Both put U+FFFD in the place of what is not UTF-8.
    clean = tf.strings.lower(clean, "utf-8") if lower else tf.strings.unicode_transcode(clean, "UTF-8", "UTF-8")
    if split == "words":
        found = tf.strings.split(clean)
    else:
        found = tf.strings.unicode_split(tf.strings.strip(clean), "UTF-8", errors="replace")
    if ngrams == 1:
        return found
    glue = " " if split == "words" else ""
    return tf.strings.ngrams(found, tuple(range(1, ngrams + 1)), glue)


def _bounded(texts: tf.Tensor, max_tokens: int, truncate: Side) -> tf.Tensor:
    """Keeps so much of a text as can hold `max_tokens`, from the end that is kept."""
    most, lengths = max_tokens * _TOKEN_BYTES, tf.strings.length(texts)
    starts = tf.zeros_like(lengths) if truncate == "end" else tf.maximum(lengths - most, 0)
    return tf.cond(
        tf.reduce_any(lengths > most),
        lambda: tf.strings.substr(texts, starts, tf.fill(tf.shape(lengths), most)),
        lambda: texts,
    )
