"""Decode images to pixels, a batch at a time: sizes from headers, crop boxes from the caller, then only the boxes.

    contents [n] ─► shapes ─► boxes [n, 4] ─┬─► native: JPEG and raw, all at once ─┐
                                            └─► TensorFlow: one by one ────────────┴─► uint8 [n, size, size, 3]

Both ways give the same boxes and flips, and pixels within one rounding of each other (slightly more at the edge of a
JPEG box, where chroma is interpolated across the edge or not). Without the native library there is only TensorFlow;
formats that the library does not decode (PNG, GIF, BMP, CMYK) take TensorFlow's way inside a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.native.decode import loader

CHANNELS = 3
_RAW_HEADER = 19  # bytes of b"P6 %05d %05d 255\n"
_MAX_PIXELS = 170_000_000  # the upper limit of ingest's own limit, so stored images are never larger

Boxes = Callable[[tf.Tensor], tf.Tensor]  # shapes [n, 2] to boxes [n, 4]


@dataclass(frozen=True)
class Resizing:
    """How crop boxes become pixels of one size."""

    size: int
    antialias: bool = True
    dct_shrink: bool = False
    nice: int = 0  # niceness of threads that decode with the native library


def read(contents: tf.Tensor, boxes: Boxes, flips: tf.Tensor, resizing: Resizing) -> tf.Tensor:
    """Decodes a box of each image, with the native library where possible."""
    ops = loader.load()
    if ops is None:
        return by_tensorflow(contents, boxes(shapes(contents)), flips, resizing)
    found = ops.shapes(contents)
    known = found[:, 2] != loader.OTHER
    pixels = tf.cond(
        tf.reduce_all(known),
        lambda: _by_native(ops, contents, boxes(found[:, :2]), flips, resizing),
        lambda: _by_both(ops, contents, found, boxes, flips, resizing),
    )
    return tf.ensure_shape(pixels, [None, resizing.size, resizing.size, CHANNELS])


def by_tensorflow(contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, resizing: Resizing) -> tf.Tensor:
    """Decodes a box of each image with TensorFlow's ops."""
    return _each(
        lambda item: _flipped(resize(_part(item[0], item[1]), resizing), item[2]), (contents, boxes, flips), resizing
    )


def cut(pixels: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, resizing: Resizing) -> tf.Tensor:
    """Cuts a box out of each image of a decoded batch."""

    def one(item: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        image, (top, left, height, width), flip = item[0], tf.unstack(item[1]), item[2]
        return _flipped(resize(image[top : top + height, left : left + width], resizing), flip)

    return _each(one, (pixels, boxes, flips), resizing)


def whole(contents: tf.Tensor, fit: str, resizing: Resizing) -> tf.Tensor:
    """Decodes whole images, or the largest centered square of each, as evaluation and serving do."""

    def one(content: tf.Tensor) -> tf.Tensor:
        pixels = decode(content)
        if fit == "center":
            height, width = tf.unstack(tf.shape(pixels)[:2])
            side = tf.minimum(height, width)
            top, left = (height - side) // 2, (width - side) // 2
            pixels = pixels[top : top + side, left : left + side]
        return resize(pixels, resizing)

    return _each(one, contents, resizing)


def decode(content: tf.Tensor) -> tf.Tensor:
    """Decodes one image of any stored format to uint8 [height, width, 3]."""
    pixels = tf.cond(
        _starts(content, b"P6 "),
        lambda: _decode_raw(content),
        lambda: tf.io.decode_image(content, channels=CHANNELS, expand_animations=False),
    )
    return tf.ensure_shape(pixels, [None, None, CHANNELS])


def resize(pixels: tf.Tensor, resizing: Resizing) -> tf.Tensor:
    """Resizes one image, or a batch of equal size, and rounds to bytes."""

    def resized() -> tf.Tensor:
        smooth = tf.image.resize(pixels, [resizing.size, resizing.size], antialias=resizing.antialias)
        # uint8 to the device is a quarter of the transfer, and the cast is free in the model's first layer.
        return tf.cast(tf.round(smooth), tf.uint8)

    # Resizing to the same size changes nothing, but takes as long.
    same = tf.reduce_all(tf.shape(pixels)[-3:-1] == resizing.size)
    sized = tf.cond(same, lambda: tf.cast(pixels, tf.uint8), resized)
    return tf.ensure_shape(sized, [*pixels.shape[:-3], resizing.size, resizing.size, CHANNELS])


def shapes(contents: tf.Tensor) -> tf.Tensor:
    """Reads height and width [n, 2] from headers; images of rare formats are decoded for it."""
    signature = tf.TensorSpec([2], tf.int32)
    return tf.map_fn(_shape, contents, fn_output_signature=signature)


def _by_native(
    ops: loader.Ops, contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor, resizing: Resizing
) -> tf.Tensor:
    options = loader.DecodeOptions(
        resizing.antialias, resizing.antialias and resizing.dct_shrink, _MAX_PIXELS, nice=resizing.nice
    )
    pixels, problems = ops.decode_crop_resize(contents, boxes, flips, (resizing.size, resizing.size), options)
    problems = tf.ensure_shape(problems, [None])

    def repaired() -> tf.Tensor:
        places = tf.cast(tf.where(problems != "")[:, 0], tf.int32)
        plain = by_tensorflow(*_at(places, contents, boxes, flips), resizing)
        return tf.tensor_scatter_nd_update(pixels, places[:, tf.newaxis], plain)

    # TensorFlow and Pillow accept damage that the op rejects: an image that ingest accepted must not stop a training.
    return tf.cond(tf.reduce_any(problems != ""), repaired, lambda: pixels)


def _by_both(
    ops: loader.Ops, contents: tf.Tensor, found: tf.Tensor, boxes: Boxes, flips: tf.Tensor, resizing: Resizing
) -> tf.Tensor:
    # The op reads the size of a PNG too; other formats are rare, and their headers are read one by one.
    drawn = boxes(tf.cond(tf.reduce_all(found[:, 0] > 0), lambda: found[:, :2], lambda: shapes(contents)))
    known = found[:, 2] != loader.OTHER
    ours, others = (tf.cast(tf.where(mark)[:, 0], tf.int32) for mark in (known, ~known))
    mine = _by_native(ops, *_at(ours, contents, drawn, flips), resizing)
    theirs = by_tensorflow(*_at(others, contents, drawn, flips), resizing)
    return tf.dynamic_stitch([ours, others], [mine, theirs])


def _at(places: tf.Tensor, contents: tf.Tensor, boxes: tf.Tensor, flips: tf.Tensor) -> tuple[Any, Any, Any]:
    return tf.gather(contents, places), tf.gather(boxes, places), tf.gather(flips, places)


def _each(work: Callable[..., tf.Tensor], items: tf.Tensor | tuple[tf.Tensor, ...], resizing: Resizing) -> tf.Tensor:
    signature = tf.TensorSpec([resizing.size, resizing.size, CHANNELS], tf.uint8)
    return tf.map_fn(work, items, fn_output_signature=signature)


def _part(content: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    """Decodes the box of an image; of a JPEG only the box is decoded."""

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
