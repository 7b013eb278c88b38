"""Boxes of images become the pixels that TensorFlow's own ops make of them, to within a rounding."""

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

from components.native.loader import DEFAULT, How, Ops

Pixels = NDArray[np.uint8]
Box = Sequence[int]
Photo = Callable[[int, int], Pixels]
Encode = Callable[..., bytes]

SMOOTH = How(antialias=True)
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


def plain(content: bytes, box: Box, flip: bool, size: tuple[int, int], how: How = DEFAULT) -> Pixels:
    """What the plain path does: TensorFlow's fused decode and crop, its resize, rounded."""
    pixels = tf.io.decode_and_crop_jpeg(content, box, channels=3)
    resized = tf.image.resize(pixels, size, antialias=how.antialias)
    rounded: Pixels = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()
    return rounded[:, ::-1] if flip else rounded


def resized(pixels: Pixels, box: Box, size: tuple[int, int], *, antialias: bool) -> Pixels:
    """A part of decoded pixels at another size."""
    top, left, height, width = box
    part = pixels[top : top + height, left : left + width]
    rounded: Pixels = tf.cast(tf.round(tf.image.resize(part, size, antialias=antialias)), tf.uint8).numpy()
    return rounded


def difference(a: Pixels, b: Pixels) -> NDArray[np.int16]:
    """By how much two images differ, number by number."""
    return np.abs(a.astype(np.int16) - b.astype(np.int16))


def draw_boxes(count: int, height: int, width: int) -> NDArray[np.int32]:
    """Random boxes of all sizes, the whole image and its corners among them."""
    random = np.random.default_rng(count)
    heights, widths = random.integers(1, height + 1, count), random.integers(1, width + 1, count)
    tops, lefts = random.integers(0, height - heights + 1), random.integers(0, width - widths + 1)
    boxes = np.stack([tops, lefts, heights, widths], 1)
    boxes[:4] = [[0, 0, height, width], [0, 0, 1, 1], [height - 1, width - 1, 1, 1], [height - 9, 0, 9, width]]
    return boxes.astype(np.int32)


class TestPixels:
    """Against TensorFlow, which evaluation and serving use."""

    @pytest.mark.parametrize("how", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    @pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
    def test_boxes_have_the_pixels_of_the_plain_path(
        self, ops: Ops, photo: Photo, jpeg: Encode, kind: dict[str, Any], how: How
    ) -> None:
        """No number differs by more than one, and hardly any differs: 0.0015 of 255 in the mean."""
        content, size = jpeg(photo(187, 250), **kind), (64, 96)
        boxes = draw_boxes(24, 187, 250)
        flips = [index % 2 == 1 for index in range(24)]

        found = ops.decode_crop_resize([content] * 24, boxes, flips, size, how).numpy()

        expected = np.stack([plain(content, box, flip, size, how) for box, flip in zip(boxes, flips, strict=True)])
        differences = difference(found, expected)
        assert differences.max() <= 1
        assert differences.mean() <= 0.005

    @pytest.mark.parametrize("how", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    @pytest.mark.parametrize("size", [(1, 1), (7, 5), (48, 33), (224, 224), (301, 401)])
    @pytest.mark.parametrize("source", [(1, 1), (3, 500), (48, 33), (61, 17), (500, 375)])
    def test_any_size_becomes_any_size(
        self, ops: Ops, photo: Photo, jpeg: Encode, source: tuple[int, int], size: tuple[int, int], how: How
    ) -> None:
        """Smaller, larger and the same; odd, narrow and of a single pixel."""
        content, box = jpeg(photo(*source)), [0, 0, *source]

        found = ops.decode_crop_resize([content], [box], [False], size, how).numpy()[0]

        assert difference(found, plain(content, box, False, size, how)).max() <= 1

    def test_whole_images_have_the_pixels_of_evaluation(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Training and serving see the same, but for a rounding: 0.0015 of 255 in the mean."""
        content = jpeg(photo(375, 500))

        found = ops.decode_crop_resize([content], [[0, 0, 375, 500]], [False], (160, 160), SMOOTH).numpy()[0]

        whole = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
        differences = difference(found, resized(whole, [0, 0, 375, 500], (160, 160), antialias=True))
        assert differences.max() <= 1
        assert differences.mean() <= 0.005

    def test_only_edges_of_boxes_differ_from_a_decode_of_the_whole(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Chroma is made without what lies outside the box: 0.003 of 255 in the mean, single pixels up to 20."""
        content, size = jpeg(photo(375, 500)), (96, 96)
        boxes = draw_boxes(40, 375, 500)
        whole = tf.io.decode_jpeg(content, channels=3).numpy()

        found = ops.decode_crop_resize([content] * 40, boxes, [False] * 40, size).numpy()

        differences = difference(found, np.stack([resized(whole, box, size, antialias=False) for box in boxes]))
        assert differences[:, 4:-4, 4:-4].max() <= 25
        assert differences.mean() <= 0.05

    def test_a_shrink_in_the_dct_stays_close(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Images of many times the size lose 1.5 of 255 in the mean, where bilinear alone is off by far more."""
        content, box, size = jpeg(photo(427, 640)), [3, 5, 420, 630], (64, 64)
        smooth = plain(content, box, False, size, SMOOTH)

        found = ops.decode_crop_resize([content], [box], [False], size, How(antialias=True, shrink_in_dct=True)).numpy()

        mean = difference(found[0], smooth).mean()
        assert 0 < mean <= 1.5
        assert mean < difference(plain(content, box, False, size), smooth).mean() / 4

    def test_a_mirrored_image_is_the_same_image_mirrored(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Number by number."""
        contents, boxes = [jpeg(photo(80, 90))] * 2, [[3, 10, 60, 71]] * 2

        left, right = ops.decode_crop_resize(contents, boxes, [False, True], (37, 41)).numpy()

        np.testing.assert_array_equal(left, right[:, ::-1])


class TestRaw:
    """Images stored as pixels."""

    def test_a_box_at_its_own_size_is_cut_out(self, ops: Ops, photo: Photo, raw: Callable[[Pixels], bytes]) -> None:
        """Bytes come through unchanged."""
        pixels = photo(61, 83)

        found = ops.decode_crop_resize([raw(pixels)], [[7, 11, 50, 64]], [False], (50, 64)).numpy()[0]

        np.testing.assert_array_equal(found, pixels[7:57, 11:75])

    @pytest.mark.parametrize("how", [DEFAULT, SMOOTH], ids=["bilinear", "antialias"])
    def test_it_is_resized_as_tensorflow_does(
        self, ops: Ops, photo: Photo, raw: Callable[[Pixels], bytes], how: How
    ) -> None:
        """To within a rounding."""
        pixels, boxes = photo(61, 83), draw_boxes(30, 61, 83)

        found = ops.decode_crop_resize([raw(pixels)] * 30, boxes, [False] * 30, (32, 48), how).numpy()

        expected = np.stack([resized(pixels, box, (32, 48), antialias=how.antialias) for box in boxes])
        assert difference(found, expected).max() <= 1

    def test_halves_go_to_even(self, ops: Ops, raw: Callable[[Pixels], bytes]) -> None:
        """As tf.round has it: 0.5 is 0 and 1.5 is 2."""
        pixels = np.zeros((2, 4, 3), np.uint8)
        pixels[:, :, 0] = [[0, 1, 1, 2], [0, 1, 1, 2]]

        found = ops.decode_crop_resize([raw(pixels)], [[0, 0, 2, 4]], [False], (1, 2)).numpy()[0]

        np.testing.assert_array_equal(found[0, :, 0], [0, 2])

    def test_an_even_surface_stays_even(self, ops: Ops, raw: Callable[[Pixels], bytes]) -> None:
        """No weights add up to less than one, however many there are."""
        contents = [raw(np.full((400, 300, 3), gray, np.uint8)) for gray in (1, 127, 255)]
        boxes = [[0, 0, 400, 300]] * 3

        found = ops.decode_crop_resize(contents, boxes, [False] * 3, (3, 7), SMOOTH).numpy()

        np.testing.assert_array_equal(found, np.stack([np.full((3, 7, 3), gray) for gray in (1, 127, 255)]))


class TestInTfData:
    """Where it is used."""

    def test_batches_are_those_of_eager_calls(
        self, ops: Ops, photo: Photo, jpeg: Encode, raw: Callable[[Pixels], bytes]
    ) -> None:
        """Several batches at a time, of JPEGs and raw images, on shared and on single threads."""
        contents = [raw(photo(40, 50)) if index % 5 == 0 else jpeg(photo(60 + index, 80)) for index in range(32)]
        boxes = np.stack([draw_boxes(32, 40, 50)[index] for index in range(32)])
        flips = np.arange(32) % 3 == 0
        eager = ops.decode_crop_resize(contents, boxes, flips, (24, 24)).numpy()

        for parallel in (False, True):
            data = tf.data.Dataset.from_tensor_slices((contents, boxes, flips)).batch(8)
            decode = functools.partial(ops.decode_crop_resize, size=(24, 24), how=How(parallel=parallel))
            data = data.map(decode, num_parallel_calls=2)

            assert data.element_spec == tf.TensorSpec([None, 24, 24, 3], tf.uint8)
            np.testing.assert_array_equal(np.concatenate(list(data.as_numpy_iterator())), eager)

    def test_sizes_come_from_headers(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """Boxes may be drawn in the graph."""
        contents = [jpeg(photo(60 + index, 80)) for index in range(4)]

        data = tf.data.Dataset.from_tensor_slices(contents).batch(4, drop_remainder=True).map(ops.shapes)

        assert data.element_spec == tf.TensorSpec([4, 3], tf.int32)
        np.testing.assert_array_equal(next(data.as_numpy_iterator()), [[60 + index, 80, 1] for index in range(4)])

    def test_the_thread_that_decodes_steps_back(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """So far as it is told, and no nearer again; no other thread does."""
        content, box = [jpeg(photo(32, 32))], [[0, 0, 32, 32]]

        def decode_twice() -> list[int]:
            found = []
            for nice in (7, 3):
                ops.decode_crop_resize(content, box, [False], (8, 8), How(nice=nice))
                found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return found

        before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(decode_twice).result() == [max(before, 7)] * 2  # the tests may be nice themselves
        ops.decode_crop_resize(content, box, [False], (8, 8))
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before

    def test_an_empty_batch_is_an_empty_batch(self, ops: Ops) -> None:
        """The last one of a filtered set may be."""
        boxes, flips = tf.zeros([0, 4], tf.int32), tf.zeros([0], tf.bool)

        found = ops.decode_crop_resize(tf.zeros([0], tf.string), boxes, flips, (8, 8))

        assert found.shape == (0, 8, 8, 3)
