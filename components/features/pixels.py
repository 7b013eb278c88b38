"""Encoded images to pixels, a batch at a time: shapes from the headers, boxes by the caller, then only the boxes.

    contents [n] ─► shapes ─► boxes [n, 4] ─┬─► native: JPEG and raw, all at once ─┐
                                            └─► TensorFlow: one after another ─────┴─► uint8 [n, size, size, 3]

Both ways give the same boxes and flips, and pixels within a rounding of each other (at the edge of a box in a JPEG a
little more: colour is interpolated over the edge or not). Without a compiler there is the second way alone; images
that the first one does not know (PNG, GIF, BMP, CMYK) take the second one in the midst of a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.native.decode import loader

CHANNELS = 3
_RAW_HEADER = 19  # bytes of b"P6 %05d %05d 255\n"
_MAX_PIXELS = 170_000_000  # ingest's own limit ends here: what is stored was let through by it

Boxes = Callable[[tf.Tensor], tf.Tensor]  # shapes [n, 2] to boxes [n, 4]


@dataclass(frozen=True)
class How:
    """To what boxes become."""

    size: int
    antialias: bool = True
    dct_shrink: bool = False
    nice: int = 0  # of threads that decode the native way


def read(contents: tf.Tensor, boxes: Boxes, flips: tf.Tensor, how: How) -> tf.Tensor:
    """Decodes a box of each image, the native way as far as it goes."""
    ops = loader.load()
    if ops is None:
        return plainly(contents, boxes(shapes(contents)), flips, how)
    found = ops.shapes(contents)
    known = found[:, 2] != loader.OTHER
    pixels = tf.cond(
        tf.reduce_all(known),
        lambda: _natively(ops, contents, boxes(found[:, :2]), flips, how),
        lambda: _both_ways(ops, contents, found, boxes, flips, how),
    )
    return tf.ensure_shape(pixels, [None, how.size, how.size, CHANNELS])


def plainly(contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, how: How) -> tf.Tensor:
    """Decodes a box of each image by TensorFlow's own ops."""
    return _each(lambda item: _flipped(resize(_part(item[0], item[1]), how), item[2]), (contents, boxes, flips), how)


def cut(pixels: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, how: How) -> tf.Tensor:
    """Cuts a box out of each image of a decoded batch."""

    def one(item: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        picture, (top, left, height, width), flip = item[0], tf.unstack(item[1]), item[2]
        return _flipped(resize(picture[top : top + height, left : left + width], how), flip)

    return _each(one, (pixels, boxes, flips), how)


def whole(contents: tf.Tensor, fit: str, how: How) -> tf.Tensor:
    """Decodes whole images, or the largest square of each; what evaluation and serving do."""

    def one(content: tf.Tensor) -> tf.Tensor:
        pixels = decode(content)
        if fit == "center":
            height, width = tf.unstack(tf.shape(pixels)[:2])
            side = tf.minimum(height, width)
            top, left = (height - side) // 2, (width - side) // 2
            pixels = pixels[top : top + side, left : left + side]
        return resize(pixels, how)

    return _each(one, contents, how)


def decode(content: tf.Tensor) -> tf.Tensor:
    """Decodes one image of any kind that may stand in a record, to uint8 [height, width, 3]."""
    pixels = tf.cond(
        _starts(content, b"P6 "),
        lambda: _decode_raw(content),
        lambda: tf.io.decode_image(content, channels=CHANNELS, expand_animations=False),
    )
    return tf.ensure_shape(pixels, [None, None, CHANNELS])


def resize(pixels: tf.Tensor, how: How) -> tf.Tensor:
    """Resizes one image, or a batch of one shape, and rounds to bytes."""

    def resized() -> tf.Tensor:
        smooth = tf.image.resize(pixels, [how.size, how.size], antialias=how.antialias)
        # uint8 to the device: a quarter of the transfer, and the cast costs nothing in the model's first layer.
        return tf.cast(tf.round(smooth), tf.uint8)

    # It would change nothing, and still take as long.
    same = tf.reduce_all(tf.shape(pixels)[-3:-1] == how.size)
    sized = tf.cond(same, lambda: tf.cast(pixels, tf.uint8), resized)
    return tf.ensure_shape(sized, [*pixels.shape[:-3], how.size, how.size, CHANNELS])


def shapes(contents: tf.Tensor) -> tf.Tensor:
    """Reads height and width [n, 2] from the headers; images of unusual kinds are decoded for it."""
    signature = tf.TensorSpec([2], tf.int32)
    return tf.map_fn(_shape, contents, fn_output_signature=signature)


def _natively(ops: loader.Ops, contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, how: How) -> tf.Tensor:
    chosen = loader.DecodeOptions(how.antialias, how.antialias and how.dct_shrink, _MAX_PIXELS, nice=how.nice)
    pixels, problems = ops.try_decode_crop_resize(contents, boxes, flips, (how.size, how.size), chosen)
    problems = tf.ensure_shape(problems, [None])

    def mended() -> tf.Tensor:
        places = tf.cast(tf.where(problems != "")[:, 0], tf.int32)
        plain = plainly(*_at(places, contents, boxes, flips), how)
        return tf.tensor_scatter_nd_update(pixels, places[:, tf.newaxis], plain)

    # TensorFlow and Pillow forgive damage that the operation does not: what ingest let through must not end a training.
    return tf.cond(tf.reduce_any(problems != ""), mended, lambda: pixels)


def _both_ways(
    ops: loader.Ops, contents: tf.Tensor, found: tf.Tensor, boxes: Boxes, flips: tf.Tensor, how: How
) -> tf.Tensor:
    # Of a PNG the header was read as well; what is left is rare, and costs a look at each.
    drawn = boxes(tf.cond(tf.reduce_all(found[:, 0] > 0), lambda: found[:, :2], lambda: shapes(contents)))
    known = found[:, 2] != loader.OTHER
    ours, others = (tf.cast(tf.where(mark)[:, 0], tf.int32) for mark in (known, ~known))
    mine = _natively(ops, *_at(ours, contents, drawn, flips), how)
    theirs = plainly(*_at(others, contents, drawn, flips), how)
    return tf.dynamic_stitch([ours, others], [mine, theirs])


def _at(places: tf.Tensor, contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor) -> tuple[Any, Any, Any]:
    return tf.gather(contents, places), tf.gather(boxes, places), tf.gather(flips, places)


def _each(work: Callable[..., tf.Tensor], items: tf.Tensor | tuple[tf.Tensor, ...], how: How) -> tf.Tensor:
    signature = tf.TensorSpec([how.size, how.size, CHANNELS], tf.uint8)
    return tf.map_fn(work, items, fn_output_signature=signature)


def _part(content: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    """Decodes the box of a image; of a JPEG nothing else is decoded."""

    def sliced() -> tf.Tensor:
        top, left, height, width = tf.unstack(box)
        return decode(content)[top : top + height, left : left + width]

    cropped = tf.cond(
        tf.io.is_jpeg(content), lambda: tf.io.decode_and_crop_jpeg(content, box, channels=CHANNELS), sliced
    )
    return tf.ensure_shape(cropped, [None, None, CHANNELS])


def _flipped(pixels: tf.Tensor, flip: tf.Tensor) -> tf.Tensor:
    return tf.cond(flip, lambda: tf.reverse(pixels, [1]), lambda: pixels)


def _shape(content: tf.Tensor) -> tf.Tensor:
    kinds = [
        (tf.io.is_jpeg(content), lambda: tf.io.extract_jpeg_shape(content)[:2]),
        (_starts(content, b"\x89PNG"), lambda: _sides(content, 16, tf.int32, little_endian=False)[::-1]),
        (_starts(content, b"P6 "), lambda: _raw_shape(content)),
        (_starts(content, b"GIF8"), lambda: tf.cast(_sides(content, 6, tf.uint16)[::-1], tf.int32)),
    ]
    found = tf.case(kinds, default=lambda: tf.shape(decode(content))[:2])
    return tf.ensure_shape(found, [2])


def _sides(content: tf.Tensor, at: int, kind: tf.DType, little_endian: bool = True) -> tf.Tensor:
    return tf.io.decode_raw(tf.strings.substr(content, at, 2 * kind.size), kind, little_endian)


def _raw_shape(content: tf.Tensor) -> tf.Tensor:
    digits = [tf.strings.substr(content, at, 5) for at in (9, 3)]
    return tf.strings.to_number(tf.stack(digits), tf.int32)


def _decode_raw(content: tf.Tensor) -> tf.Tensor:
    data = tf.io.decode_raw(content, tf.uint8)[_RAW_HEADER:]
    return tf.reshape(data, tf.concat([_raw_shape(content), [CHANNELS]], axis=0))


def _starts(content: tf.Tensor, magic: bytes) -> tf.Tensor:
    return tf.strings.substr(content, 0, len(magic)) == magic
