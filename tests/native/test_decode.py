"""Decoded crop boxes equal those of TensorFlow's ops, to within one rounding."""

import functools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.native.decode.loader import DEFAULT, DecodeOptions, Ops
from tests.native.conftest import decode

Pixels = NDArray[np.uint8]
Box = Sequence[int]
Photo = Callable[[int, int], Pixels]
Encode = Callable[..., bytes]

SMOOTH = DecodeOptions(antialias=True)
KINDS: dict[str, dict[str, Any]] = {
    "4:2:0": {"subsampling": 2},
    "4:2:2": {"subsampling": 1},
    "4:4:4": {"subsampling": 0},
    "best quality": {"quality": 100, "subsampling": 0},
    "low quality": {"quality": 10},
    "own tables": {"optimize": True},
    "progressive": {"progressive": True},
    "restarts by row": {"restart_marker_rows": 1},
    "restarts by block": {"restart_marker_blocks": 5, "optimize": True},
    "gray": {"mode": "L"},
    "gray, restarts": {"mode": "L", "restart_marker_blocks": 7},
}


def plain(content: bytes, box: Box, flip: bool, size: tuple[int, int], options: DecodeOptions = DEFAULT) -> Pixels:
    """Returns the result of TensorFlow's ops: fused decode and crop, resize, round."""
    pixels = tf.io.decode_and_crop_jpeg(content, box, channels=3)
    resized = tf.image.resize(pixels, size, antialias=options.antialias)
    rounded: Pixels = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()
    return rounded[:, ::-1] if flip else rounded


def resized(pixels: Pixels, box: Box, size: tuple[int, int], *, antialias: bool) -> Pixels:
    """Returns a part of decoded pixels at another size."""
    top, left, height, width = box
    part = pixels[top : top + height, left : left + width]
    rounded: Pixels = tf.cast(tf.round(tf.image.resize(part, size, antialias=antialias)), tf.uint8).numpy()
    return rounded


def difference(a: Pixels, b: Pixels) -> NDArray[np.int16]:
    """Returns the absolute differences of two images."""
    return np.abs(a.astype(np.int16) - b.astype(np.int16))


def draw_boxes(count: int, height: int, width: int) -> NDArray[np.int32]:
    """Returns random boxes of all sizes, including the whole image and its corners."""
    random = np.random.default_rng(count)
    heights, widths = random.integers(1, height + 1, count), random.integers(1, width + 1, count)
    tops, lefts = random.integers(0, height - heights + 1), random.integers(0, width - widths + 1)
    boxes = np.stack([tops, lefts, heights, widths], 1)
    boxes[:4] = [[0, 0, height, width], [0, 0, 1, 1], [height - 1, width - 1, 1, 1], [height - 9, 0, 9, width]]
    return boxes.astype(np.int32)


class TestPixels:
    """Compared with TensorFlow, which evaluation and serving use."""

    @pytest.mark.parametrize("options", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    @pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
    def test_boxes_have_the_pixels_of_tensorflow(
        self, ops: Ops, photo: Photo, jpeg: Encode, kind: dict[str, Any], options: DecodeOptions
    ) -> None:
        """No value differs by more than one; the mean difference is 0.0015 of 255."""
        content, size = jpeg(photo(187, 250), **kind), (64, 96)
        boxes = draw_boxes(24, 187, 250)
        flips = [index % 2 == 1 for index in range(24)]

        found = decode(ops, [content] * 24, boxes, flips, size, options)

        expected = np.stack([plain(content, box, flip, size, options) for box, flip in zip(boxes, flips, strict=True)])
        differences = difference(found, expected)
        assert differences.max() <= 1
        assert differences.mean() <= 0.005

    @pytest.mark.parametrize("options", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    @pytest.mark.parametrize(
        ("source", "size"),
        [
            ((1, 1), (1, 1)), ((1, 1), (224, 224)), ((3, 500), (7, 5)), ((3, 500), (301, 401)),
            ((48, 33), (48, 33)), ((61, 17), (48, 33)), ((500, 375), (1, 1)), ((500, 375), (224, 224)),
        ],
    )  # fmt: skip
    def test_any_size_becomes_any_size(
        self,
        ops: Ops,
        photo: Photo,
        jpeg: Encode,
        source: tuple[int, int],
        size: tuple[int, int],
        options: DecodeOptions,
    ) -> None:
        """Smaller, larger and equal; odd, narrow and of one pixel."""
        content, box = jpeg(photo(*source)), [0, 0, *source]

        found = decode(ops, [content], [box], [False], size, options)[0]

        assert difference(found, plain(content, box, False, size, options)).max() <= 1

    def test_whole_images_have_the_pixels_of_evaluation(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Training and serving see the same up to one rounding; the mean difference is 0.0015 of 255."""
        content = jpeg(photo(375, 500))

        found = decode(ops, [content], [[0, 0, 375, 500]], [False], (160, 160), SMOOTH)[0]

        whole = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
        differences = difference(found, resized(whole, [0, 0, 375, 500], (160, 160), antialias=True))
        assert differences.max() <= 1
        assert differences.mean() <= 0.005

    def test_only_edges_of_boxes_differ_from_a_decode_of_the_whole(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Chroma is interpolated without pixels outside the box: 0.003 of 255 in the mean, single pixels up to 20."""
        content, size = jpeg(photo(375, 500)), (96, 96)
        boxes = draw_boxes(40, 375, 500)
        whole = tf.io.decode_jpeg(content, channels=3).numpy()

        found = decode(ops, [content] * 40, boxes, [False] * 40, size)

        differences = difference(found, np.stack([resized(whole, box, size, antialias=False) for box in boxes]))
        assert differences[:, 4:-4, 4:-4].max() <= 25
        assert differences.mean() <= 0.05

    def test_a_shrink_in_the_dct_stays_close(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Much larger images differ by 1.5 of 255 in the mean; bilinear alone differs by far more."""
        content, box, size = jpeg(photo(427, 640)), [3, 5, 420, 630], (64, 64)
        smooth = plain(content, box, False, size, SMOOTH)

        found = decode(ops, [content], [box], [False], size, DecodeOptions(antialias=True, shrink_in_dct=True))

        mean = difference(found[0], smooth).mean()
        assert 0 < mean <= 1.5
        assert mean < difference(plain(content, box, False, size), smooth).mean() / 4

    def test_a_mirrored_image_is_the_same_image_mirrored(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Every value is equal."""
        contents, boxes = [jpeg(photo(80, 90))] * 2, [[3, 10, 60, 71]] * 2

        left, right = decode(ops, contents, boxes, [False, True], (37, 41))

        np.testing.assert_array_equal(left, right[:, ::-1])


class TestRaw:
    """Images stored as uncompressed pixels."""

    def test_a_box_at_its_own_size_is_cut_out(self, ops: Ops, photo: Photo, raw: Callable[[Pixels], bytes]) -> None:
        """Bytes are unchanged."""
        pixels = photo(61, 83)

        found = decode(ops, [raw(pixels)], [[7, 11, 50, 64]], [False], (50, 64))[0]

        np.testing.assert_array_equal(found, pixels[7:57, 11:75])

    @pytest.mark.parametrize("options", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    def test_it_is_resized_as_tensorflow_does(
        self, ops: Ops, photo: Photo, raw: Callable[[Pixels], bytes], options: DecodeOptions
    ) -> None:
        """To within one rounding."""
        pixels, boxes = photo(61, 83), draw_boxes(30, 61, 83)

        found = decode(ops, [raw(pixels)] * 30, boxes, [False] * 30, (32, 48), options)

        expected = np.stack([resized(pixels, box, (32, 48), antialias=options.antialias) for box in boxes])
        assert difference(found, expected).max() <= 1

    def test_halves_are_rounded_to_even(self, ops: Ops, raw: Callable[[Pixels], bytes]) -> None:
        """As tf.round does: 0.5 to 0 and 1.5 to 2."""
        pixels = np.zeros((2, 4, 3), np.uint8)
        pixels[:, :, 0] = [[0, 1, 1, 2], [0, 1, 1, 2]]

        found = decode(ops, [raw(pixels)], [[0, 0, 2, 4]], [False], (1, 2))[0]

        np.testing.assert_array_equal(found[0, :, 0], [0, 2])

    def test_a_uniform_area_stays_uniform(self, ops: Ops, raw: Callable[[Pixels], bytes]) -> None:
        """Weights sum to one, however many there are."""
        contents = [raw(np.full((400, 300, 3), gray, np.uint8)) for gray in (1, 127, 255)]
        boxes = [[0, 0, 400, 300]] * 3

        found = decode(ops, contents, boxes, [False] * 3, (3, 7), SMOOTH)

        np.testing.assert_array_equal(found, np.stack([np.full((3, 7, 3), gray) for gray in (1, 127, 255)]))


class TestInTfData:
    """Inside a tf.data pipeline."""

    def test_batches_equal_those_of_eager_calls(
        self, ops: Ops, photo: Photo, jpeg: Encode, raw: Callable[[Pixels], bytes]
    ) -> None:
        """Several batches in parallel, of JPEGs and raw images."""
        contents = [raw(photo(40, 50)) if index % 5 == 0 else jpeg(photo(60 + index, 80)) for index in range(32)]
        boxes = np.stack([draw_boxes(32, 40, 50)[index] for index in range(32)])
        flips = np.arange(32) % 3 == 0
        eager = decode(ops, contents, boxes, flips, (24, 24))

        data = tf.data.Dataset.from_tensor_slices((contents, boxes, flips)).batch(8)
        data = data.map(functools.partial(ops.decode_crop_resize, size=(24, 24)), num_parallel_calls=2)

        assert data.element_spec == (tf.TensorSpec([None, 24, 24, 3], tf.uint8), tf.TensorSpec([None], tf.string))
        np.testing.assert_array_equal(np.concatenate([pixels for pixels, _ in data.as_numpy_iterator()]), eager)

    def test_sizes_come_from_headers(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """So boxes can be drawn inside the graph."""
        contents = [jpeg(photo(60 + index, 80)) for index in range(4)]

        data = tf.data.Dataset.from_tensor_slices(contents).batch(4, drop_remainder=True).map(ops.shapes)

        assert data.element_spec == tf.TensorSpec([4, 3], tf.int32)
        np.testing.assert_array_equal(next(data.as_numpy_iterator()), [[60 + index, 80, 1] for index in range(4)])

    def test_only_the_thread_that_decodes_gets_the_niceness(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """A thread's niceness is raised and never lowered."""
        content, box = [jpeg(photo(32, 32))], [[0, 0, 32, 32]]

        def decode_twice() -> list[int]:
            found = []
            for nice in (7, 3):
                decode(ops, content, box, [False], (8, 8), DecodeOptions(nice=nice))
                found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return found

        before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        with ThreadPoolExecutor(1) as pool:
            assert (
                pool.submit(decode_twice).result() == [max(before, 7)] * 2
            )  # the tests themselves may run with a niceness
        decode(ops, content, box, [False], (8, 8))
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before

    def test_an_empty_batch_stays_empty(self, ops: Ops) -> None:
        """The last batch of a filtered dataset may be empty."""
        boxes, flips = tf.zeros([0, 4], tf.int32), tf.zeros([0], tf.bool)

        found = decode(ops, tf.zeros([0], tf.string), boxes, flips, (8, 8))

        assert found.shape == (0, 8, 8, 3)
