"""Texts: a string in the record, token indices on the device.

    string ─► truncate ─► clean ─► tokens ─► indices (fitted) ─► ragged [n, length of each] ─► padded to the longest

0 is padding; the vocabulary's indices 0, 1, 2 … become 1, 2, 3 …. Every text is padded to the longest of its batch, and
batches are made of texts of similar length. A text without tokens is all padding, at least one column wide.

| in the text                                 | result                                                    |
|---------------------------------------------|-----------------------------------------------------------|
| NUL, CR, LF and other control characters    | spaces; they do not end the text                          |
| spaces of any script, punctuation           | word boundaries                                           |
| letters, digits, combining marks, emoji     | kept; a mark stays with its letter                        |
| upper case                                  | lower case by Unicode's rules, unless turned off          |
| bytes that are not UTF-8                    | U+FFFD each                                               |
| right-to-left scripts                       | kept in the order of the text, not of the screen          |
| more than `max_tokens` tokens               | truncated at the end, or at the start                     |
| tokens of more than 64 bytes on average     | fewer tokens: only 64 x `max_tokens` bytes are read       |

`words` suits scripts with spaces; use `characters` for others. Transform fits the vocabulary on the tokens that the
model will see, and its graph converts texts to indices in training and in the exported model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import keras
import tensorflow as tf

from components.features import DataShape, FittedGraph, NotAugmented
from components.records.roles import Column, length_column
from components.settings.input import Input

_NUMBER_BYTES = 8
_TOKEN_BYTES = 64  # read per token that may be kept, so that a text of five million words costs no more than a long one
_SPACES = r"\p{Zl}\p{Zp}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}"
_BOUNDARIES = (
    rf"[\p{{Cc}}\pP{_SPACES}]+"  # without the plain space, which is a boundary anyway and the most frequent one
)
_CONTROLS = r"\p{Cc}"

_EDGES = (0, 16, 64, 256)  # tokens
_LENGTHS = ("empty", "1 to 16 tokens", "17 to 64 tokens", "65 to 256 tokens", "more than 256 tokens")

Split = Literal["words", "characters"]
Side = Literal["end", "start"]


@dataclass(frozen=True)
class TextFeature(NotAugmented):
    """A text as token indices."""

    indices: Callable[[tf.Tensor], tf.RaggedTensor]  # texts to token indices 0, 1, 2 …
    max_tokens: int = 512
    truncate: Side = "end"  # the side that is removed
    pad_to: tuple[int, ...] = ()  # increasing; the last one is at least max_tokens

    is_ragged = True

    @property
    def decoded_bytes(self) -> int:
        """Indices of a text of `max_tokens`."""
        return self.max_tokens * _NUMBER_BYTES

    def spec(self) -> tf.io.FixedLenFeature:
        """One string; a missing one is an empty text."""
        return tf.io.FixedLenFeature([], tf.string, "")

    def decode(self, stored: tf.Tensor) -> tf.RaggedTensor:
        """Converts texts to token indices, int64 [n, length of each]."""
        found = truncated(self.indices(bounded(stored, self.max_tokens, self.truncate)), self.max_tokens, self.truncate)
        return found.with_flat_values(found.flat_values + 1)

    def finish(self, decoded: tf.RaggedTensor) -> tf.Tensor:
        """Pads to the longest text of the batch, or to the next larger value of `pad_to`."""
        width = self.widths(tf.reduce_max(decoded.row_lengths(), keepdims=True))
        return decoded.to_tensor(shape=tf.concat([tf.constant([-1], tf.int64), width], axis=0))

    def widths(self, longest: tf.Tensor) -> tf.Tensor:
        """Returns the widths of batches by the lengths of their longest texts [k]."""
        if not self.pad_to:
            return tf.maximum(longest, 1)
        steps = tf.constant(self.pad_to, tf.int64)
        return tf.gather(steps, tf.searchsorted(steps, longest))

    def slices(self, name: str, decoded: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Returns the length class of each text, by which the Evaluator slices metrics."""
        return {
            length_column(name): tf.gather(
                _LENGTHS, tf.searchsorted(tf.constant(_EDGES, tf.int64), decoded.row_lengths())
            )
        }

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input; its width differs from batch to batch."""
        return keras.Input([None], dtype="int64", name=name)


def from_columns(
    columns: Sequence[Column], fitted: FittedGraph, settings: Input, data: DataShape
) -> dict[str, TextFeature]:
    """Returns one feature per column, with the fitted vocabulary."""
    del data
    return {column.name: _of(column.name, fitted, settings) for column in columns}


def _of(name: str, fitted: FittedGraph, settings: Input) -> TextFeature:
    return TextFeature(
        lambda texts: fitted.apply({name: texts})[name], settings.max_tokens, settings.truncate, settings.pad_to
    )


def count_truncated(texts: tf.Tensor, max_tokens: int, split: Split, lower: bool, ngrams: int) -> tf.Tensor:
    """Returns how many of the texts [n] lose a token; only texts that are long enough for that are split."""
    long = tf.boolean_mask(texts, tf.strings.length(texts) > max_tokens // ngrams)
    found = tokens(bounded(long, max_tokens, "end"), split, lower, ngrams)
    is_truncated = (tf.strings.length(long) > max_tokens * _TOKEN_BYTES) | (found.row_lengths() > max_tokens)
    return tf.math.count_nonzero(is_truncated)


def tokens(texts: tf.Tensor, split: Split = "words", lower: bool = True, ngrams: int = 1) -> tf.RaggedTensor:
    """Returns the tokens of each text [n]: words or characters, and n-grams of up to `ngrams` of them."""
    # Before lower(), which stops at a NUL.
    clean = tf.strings.regex_replace(texts, _BOUNDARIES if split == "words" else _CONTROLS, " ")
    # Both replace bytes that are not UTF-8 by U+FFFD.
    clean = tf.strings.lower(clean, "utf-8") if lower else tf.strings.unicode_transcode(clean, "UTF-8", "UTF-8")
    if split == "words":
        found = tf.strings.split(clean)
    else:
        found = tf.strings.unicode_split(tf.strings.strip(clean), "UTF-8", errors="replace")
    if ngrams == 1:
        return found
    glue = " " if split == "words" else ""
    return tf.strings.ngrams(found, tuple(range(1, ngrams + 1)), glue)


def truncated(found: tf.RaggedTensor, max_tokens: int, truncate: Side) -> tf.RaggedTensor:
    """Returns at most `max_tokens` tokens, or indices, of each text."""
    return found[:, :max_tokens] if truncate == "end" else found[:, -max_tokens:]


def bounded(texts: tf.Tensor, max_tokens: int, truncate: Side) -> tf.Tensor:
    """Returns texts with at most the bytes that `max_tokens` may take."""
    most, lengths = max_tokens * _TOKEN_BYTES, tf.strings.length(texts)
    starts = tf.zeros_like(lengths) if truncate == "end" else tf.maximum(lengths - most, 0)
    return tf.cond(
        tf.reduce_any(lengths > most),
        lambda: tf.strings.substr(texts, starts, tf.fill(tf.shape(lengths), most)),
        lambda: texts,
    )
