"""Images decode to the same pixels eagerly and in tf.data; augmentation follows the settings and is reproducible."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image

from components.features import crops, randomness
from components.features import pixels as images
from components.features.image import ImageFeature
from components.native.decode import loader
from components.records import image_format
from components.settings.input import Augmentation, Input

pytestmark = pytest.mark.slow

Pixels = NDArray[np.uint8]

SIZE = 32
MANY = 400  # augmented images for statistics
# By the definition of YIQ: luma, and the two color axes as one complex number.
LUMA = np.array([0.299, 0.587, 0.114])
CHROMA = np.array([0.595716 + 0.211456j, -0.274453 - 0.522591j, -0.321263 + 0.311135j])
PLAIN = Augmentation(crop="none", brightness=0, contrast=0)


@dataclass(frozen=True)
class Shape:
    """The data's median side."""

    median_side: int


def noise(height: int, width: int, channels: int = 3) -> Pixels:
    """Returns an image of noise."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(height * width).integers(0, 256, shape, dtype=np.uint8)


def waves(height: int, width: int) -> Pixels:
    """Returns an image as smooth as a photograph, another one for every shape."""
    down, across = np.mgrid[:height, :width]
    tints = [np.sin(down / 9) + np.cos(across / 7), np.sin(across / 11 + height), np.cos((down + across) / 13)]
    return np.clip(128 + 55 * np.stack(tints, axis=2), 0, 255).astype(np.uint8)


def encode(pixels: Pixels, kind: str, mode: str = "") -> bytes:
    """Returns an image as an encoded file, or in Penstock's raw format."""
    image, out = Image.fromarray(pixels), io.BytesIO()
    if kind == "raw":
        return image_format.as_ppm(image)
    (image.convert(mode) if mode else image).save(out, kind)
    return out.getvalue()


def halves(left: int, right: int) -> Pixels:
    """Returns an image of two grays, side by side."""
    image = np.full((SIZE, SIZE, 3), left, np.uint8)
    image[:, SIZE // 2 :] = right
    return image


def seeds(count: int, first: int = 0, epoch: int = 1) -> tf.Tensor:
    """Returns seeds as the input pipeline makes them: the record's id and the epoch's seed."""
    return tf.stack([tf.range(first, first + count, dtype=tf.int64), tf.fill([count], np.int64(epoch))], axis=1)


def in_graph(work: Any, *batch: Any) -> Pixels:
    """Calls a function inside tf.data."""
    (result,) = tf.data.Dataset.from_tensors(batch).map(work).as_numpy_iterator()
    found: Pixels = result
    return found


def variations(pixels: Pixels, count: int = MANY, **how: Any) -> NDArray[np.float64]:
    """Returns one image augmented many times; by default with the default settings."""
    feature = ImageFeature(pixels.shape[0], augmentation=Augmentation(**how))
    batch = np.repeat(pixels[np.newaxis], count, axis=0)
    return in_graph(feature.augment, batch, seeds(count)).astype(np.float64)


def only(**how: Any) -> dict[str, Any]:
    """Returns settings with one kind of augmentation only."""
    return {"crop": "none", "brightness": 0, "contrast": 0, **how}


FILES = {
    "JPEG": encode(waves(40, 50), "JPEG"),
    "PNG": encode(noise(40, 40), "PNG"),
    "GIF": encode(waves(40, 30), "GIF"),
    "BMP": encode(noise(20, 41), "BMP"),
    "raw": encode(noise(41, 20), "raw"),
    "gray JPEG": encode(noise(40, 40, 1), "JPEG"),
    "gray PNG": encode(noise(40, 40, 1), "PNG"),
    "CMYK JPEG": encode(waves(40, 41), "JPEG", "CMYK"),
    "large": encode(waves(300, 400), "JPEG"),
    "long": encode(noise(8, 200), "PNG"),
    "one pixel": encode(noise(1, 1), "PNG"),
}
ALL = tf.constant(list(FILES.values()))
NATIVE = ["JPEG", "raw", "gray JPEG", "large"]  # formats that the native op decodes


def reference(content: bytes, fit: str = "stretch", antialias: bool = True) -> Pixels:
    """Decodes and resizes one image with TensorFlow; raw pixels with Pillow."""
    if content.startswith(b"P6"):
        pixels = np.asarray(Image.open(io.BytesIO(content)))
    else:
        pixels = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
    if fit == "center":
        height, width = pixels.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        pixels = pixels[top : top + side, left : left + side]
    exact = tf.image.resize(pixels, [SIZE, SIZE], antialias=antialias).numpy()
    return np.clip(np.rint(exact), 0, 255).astype(np.uint8)


class TestSize:
    """The size of the model's images."""

    @pytest.mark.parametrize(
        ("wanted", "median", "size"),
        [
            (64, 500, 64),
            (8, 500, 8),
            (300, 50, 300),
            (0, 48, 48),
            (0, 8, 32),
            (0, 32, 32),
            (0, 160, 160),
            (0, 900, 160),
        ],
    )
    def test_the_size_is_set_or_the_median_within_bounds(self, wanted: int, median: int, size: int) -> None:
        """Any size can be set; a size from the data is between 32 and 160."""
        assert ImageFeature.of(Input(image_size=wanted), Shape(median)) == ImageFeature(size)

    def test_settings_reach_the_feature(self) -> None:
        """Each setting has its field."""
        how = Augmentation(flip=0.5)
        settings = Input(image_fit="center", antialias=False, dct_shrink=True, normalise="imagenet", augmentation=how)

        assert ImageFeature.of(settings, Shape(40)) == ImageFeature(40, "center", False, True, "imagenet", how)

    @pytest.mark.parametrize(("normalise", "of_a_value"), [("model", 2), ("unit", 6), ("imagenet", 6)])
    def test_the_memory_is_that_of_a_batch_in_work(self, normalise: Any, of_a_value: int) -> None:
        """Bytes, twice while a batch is assembled; and floats if images are scaled here."""
        feature = ImageFeature(40, normalise=normalise)

        assert (feature.decoded_bytes, feature.is_ragged, feature.is_costly) == (40 * 40 * 3 * of_a_value, False, True)


class TestDecode:
    """Evaluation and serving share it."""

    @pytest.mark.parametrize("fit", ["stretch", "center"])
    @pytest.mark.parametrize("antialias", [True, False])
    def test_pixels_are_rounded_from_a_float_resize(self, fit: Any, antialias: bool) -> None:
        """To the nearest, not truncated; files of all formats and sizes in one batch."""
        decoded = ImageFeature(SIZE, fit, antialias).decode(ALL)

        assert (decoded.shape, decoded.dtype) == ((len(FILES), SIZE, SIZE, 3), tf.uint8)
        for kind, found in zip(FILES, decoded.numpy(), strict=True):
            np.testing.assert_array_equal(found, reference(FILES[kind], fit, antialias), err_msg=kind)

    def test_tf_data_gives_the_pixels_of_eager_calls(self) -> None:
        """TensorFlow runs different code for them."""
        feature = ImageFeature(SIZE)

        np.testing.assert_array_equal(in_graph(feature.decode, ALL), feature.decode(ALL).numpy())

    @pytest.mark.parametrize("kind", ["PNG", "BMP", "raw"])
    def test_an_image_of_the_right_size_is_unchanged(self, kind: str) -> None:
        """Every byte is equal."""
        image = noise(SIZE, SIZE)

        np.testing.assert_array_equal(ImageFeature(SIZE).decode(tf.constant([encode(image, kind)])).numpy(), [image])

    def test_gray_becomes_three_equal_channels(self) -> None:
        """The model always gets RGB."""
        image = noise(SIZE, SIZE, 1)
        decoded = ImageFeature(SIZE).decode(tf.constant([encode(image, "PNG")]))

        np.testing.assert_array_equal(decoded.numpy(), [np.stack([image] * 3, axis=-1)])

    def test_the_first_frame_of_an_animation_is_used(self) -> None:
        """A GIF may have many frames."""
        out, frames = io.BytesIO(), [Image.fromarray(np.full((SIZE, SIZE, 3), gray, np.uint8)) for gray in (10, 200)]
        frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])

        assert set(ImageFeature(SIZE).decode(tf.constant([out.getvalue()])).numpy().ravel()) == {10}

    @pytest.mark.parametrize("fit", ["stretch", "center"])
    def test_pixels_are_accepted_instead_of_encoded_bytes(self, fit: Any) -> None:
        """By an exported model too: of any one size, resized like a file."""
        image = noise(40, 60)

        decoded = ImageFeature(SIZE, fit).decode(tf.constant(image[np.newaxis]))

        np.testing.assert_array_equal(decoded.numpy(), [reference(encode(image, "PNG"), fit)])

    def test_pixels_of_the_right_size_are_unchanged(self) -> None:
        """Integers of any type become bytes."""
        image = noise(SIZE, SIZE)[np.newaxis]

        np.testing.assert_array_equal(ImageFeature(SIZE).decode(tf.constant(image, tf.int32)).numpy(), image)

    def test_the_shape_is_static(self) -> None:
        """Keras needs a known shape."""
        data = tf.data.Dataset.from_tensor_slices(ALL).batch(2)
        feature, expected = ImageFeature(SIZE), tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8)

        assert data.map(feature.decode).element_spec == expected
        assert data.map(lambda batch: feature.augmented(batch, seeds(2))).element_spec == expected
        assert data.map(lambda batch: feature.augment(feature.decode(batch), seeds(2))).element_spec == expected

    def test_a_damaged_image_is_an_error(self) -> None:
        """Ingest rejects damaged images; damage after ingest must not go unnoticed."""
        with pytest.raises(tf.errors.InvalidArgumentError):
            ImageFeature(SIZE).decode(tf.constant([FILES["PNG"], b"\x89PNG but no more"]))

    def test_an_empty_batch_stays_empty(self) -> None:
        """A filtered batch may be empty."""
        assert ImageFeature(SIZE).decode(tf.constant([], tf.string)).shape == (0, SIZE, SIZE, 3)


class TestFinish:
    """The model's input."""

    @pytest.mark.parametrize(("normalise", "dtype"), [("model", "uint8"), ("unit", "float32"), ("imagenet", "float32")])
    def test_the_model_gets_what_it_declares(self, normalise: Any, dtype: str) -> None:
        """A batch of square RGB images."""
        feature = ImageFeature(48, normalise=normalise)
        declared, batch = feature.keras_input("image"), feature.finish(tf.zeros([2, 48, 48, 3], tf.uint8))

        assert (declared.shape, declared.dtype, declared.name) == ((None, 48, 48, 3), dtype, "image")
        assert (batch.shape, batch.dtype) == ((2, 48, 48, 3), dtype)

    @pytest.mark.parametrize(
        ("normalise", "black", "white"),
        [
            ("model", [0, 0, 0], [255, 255, 255]),
            ("unit", [0, 0, 0], [1, 1, 1]),
            ("symmetric", [-1, -1, -1], [1, 1, 1]),
            ("imagenet", [-2.117904, -2.035714, -1.804444], [2.248908, 2.428571, 2.64]),
        ],
    )
    def test_bytes_are_scaled_as_set(self, normalise: Any, black: list[float], white: list[float]) -> None:
        """Per channel."""
        pixels = tf.constant([[[[0, 0, 0], [255, 255, 255]]]], tf.uint8)

        found = ImageFeature(SIZE, normalise=normalise).finish(pixels).numpy()

        np.testing.assert_allclose(found, [[[black, white]]], rtol=1e-5)


class TestSeeds:
    """Augmentation depends on the record and the epoch alone."""

    BUSY = Augmentation(
        crop="resized", flip=0.5, flip_vertical=0.5, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1, erase=0.5
    )

    @pytest.mark.parametrize("how", [Augmentation(), BUSY], ids=["default", "all"])
    def test_one_seed_gives_the_same_pixels(self, how: Augmentation) -> None:
        """There is no state between calls."""
        feature = ImageFeature(SIZE, augmentation=how)
        tf.random.set_seed(1)
        first = feature.augmented(ALL, seeds(len(FILES)))
        tf.random.set_seed(2)

        np.testing.assert_array_equal(feature.augmented(ALL, seeds(len(FILES))).numpy(), first.numpy())

    @pytest.mark.parametrize("other", [(8, 1), (7, 2), (1, 7)])
    def test_another_record_or_epoch_gives_other_pixels(self, other: tuple[int, int]) -> None:
        """Both parts of the seed matter."""
        feature, image = ImageFeature(SIZE), tf.constant(noise(SIZE, SIZE)[np.newaxis])

        varied, others = (feature.augment(image, tf.constant([seed], tf.int64)).numpy() for seed in ((7, 1), other))

        assert (varied != others).any()

    def test_augmentation_does_not_depend_on_the_batch(self) -> None:
        """Neither on its size nor on the position in it."""
        feature, batch = ImageFeature(SIZE, augmentation=self.BUSY), tf.constant([FILES["PNG"]] * 4)

        together = feature.augmented(batch, seeds(4)).numpy()
        alone = [feature.augmented(batch[:1], seeds(1, first=record)).numpy()[0] for record in range(4)]

        np.testing.assert_array_equal(together, np.stack(alone))

    @pytest.mark.parametrize("how", [Augmentation(), BUSY], ids=["default", "all"])
    def test_tf_data_gives_the_pixels_of_eager_calls(self, how: Augmentation) -> None:
        """Up to one rounding."""
        feature = ImageFeature(SIZE, augmentation=how)

        inside = in_graph(feature.augmented, ALL, seeds(len(FILES))).astype(int)

        assert np.abs(inside - feature.augmented(ALL, seeds(len(FILES))).numpy()).max() <= 1

    def test_augmenting_decoded_images_gives_the_same_without_a_crop(self) -> None:
        """So a cache of decoded images does not change training by default."""
        feature, contents = ImageFeature(SIZE), tf.constant([FILES["PNG"], FILES["raw"], FILES["GIF"]])

        at_once = feature.augmented(contents, seeds(3)).numpy().astype(int)

        assert np.abs(feature.augment(feature.decode(contents), seeds(3)).numpy() - at_once).max() <= 1


class TestAugment:
    """Each setting has its effect; details are in the tests of crops, colors and patches."""

    @pytest.mark.parametrize("size", [8, 9, SIZE, 100])
    def test_shape_and_type_are_kept(self, size: int) -> None:
        """For any size of the model."""
        varied = ImageFeature(size).augment(tf.constant(noise(size, size)[np.newaxis]), seeds(1))

        assert (varied.shape, varied.dtype) == ((1, size, size, 3), tf.uint8)

    @pytest.mark.parametrize(
        "how",
        [
            only(crop="shift"),
            only(flip_vertical=0.5),
            only(crop="shift", flip_vertical=0.5),
            only(brightness=0.4, contrast=0.6),
            only(saturation=0.5, hue=0.2, contrast=0.3),
            only(erase=0.7, erase_area=0.9),
        ],
        ids=["shift", "upside down", "both", "light", "colour", "erase"],
    )
    def test_a_whole_batch_gives_the_result_of_one_by_one(
        self, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
    ) -> None:
        """Up to one rounding; the size decides which way is taken."""
        feature = ImageFeature(24, augmentation=Augmentation(**how))
        pixels = tf.stack([noise(24, 24) for _ in range(40)])
        at_once = feature.augment(pixels, seeds(40)).numpy().astype(int)
        monkeypatch.setattr("components.features.image._WHOLE_BATCH", 0)
        one_by_one = feature.augment(pixels, seeds(40)).numpy().astype(int)

        difference = np.abs(at_once - one_by_one)
        assert difference.max() <= bool(how["contrast"] or "hue" in how)
        assert difference.mean() < 1e-3
        assert (at_once != pixels.numpy()).any()

    def test_without_settings_images_are_unchanged(self) -> None:
        """Training sees what evaluation sees."""
        feature = ImageFeature(SIZE, augmentation=PLAIN)
        contents = tf.constant([FILES["PNG"], FILES["BMP"]])

        np.testing.assert_array_equal(feature.augmented(contents, seeds(2)).numpy(), feature.decode(contents).numpy())

    def test_images_are_not_flipped_by_default(self) -> None:
        """Writing has another meaning in a mirror."""
        varied = variations(halves(64, 192))
        upright = variations(np.swapaxes(halves(64, 192), 0, 1))

        assert (varied[:, :, 0].mean(axis=(1, 2)) < varied[:, :, -1].mean(axis=(1, 2))).all()
        assert (upright[:, 0].mean(axis=(1, 2)) < upright[:, -1].mean(axis=(1, 2))).all()

    @pytest.mark.parametrize(("setting", "axis"), [("flip", 2), ("flip_vertical", 1)])
    def test_images_are_flipped_as_often_as_set(self, setting: str, axis: int) -> None:
        """Each is unchanged or flipped; a quarter of them, within four standard deviations."""
        image = noise(SIZE, SIZE)
        varied = variations(image, **only(**{setting: 0.25}))

        mirrored = (varied == np.flip(image, axis - 1)).all(axis=(1, 2, 3))
        assert ((varied == image).all(axis=(1, 2, 3)) ^ mirrored).all()
        assert mirrored.mean() == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / MANY) ** 0.5)

    def test_both_flips_are_independent(self) -> None:
        """Four results, equally often."""
        image = noise(SIZE, SIZE)
        varied = variations(image, **only(flip=0.5, flip_vertical=0.5))

        counts = [(varied == np.flip(image, axes)).all(axis=(1, 2, 3)).sum() for axes in ((), (0,), (1,), (0, 1))]
        assert sum(counts) == MANY
        assert min(counts) > MANY / 4 - 4 * (MANY * 3 / 16) ** 0.5

    def test_the_shift_is_up_to_an_eighth_in_every_direction(self) -> None:
        """A dot in the middle moves by up to four pixels, independently in both directions."""
        image = np.zeros((SIZE, SIZE, 3), np.uint8)
        image[16, 16] = 255
        place = variations(image)[..., 0].reshape(MANY, -1).argmax(axis=1)
        down, across = place // SIZE - 16, place % SIZE - 16

        assert (set(down), set(across)) == (set(range(-4, 5)), set(range(-4, 5)))
        assert abs(np.corrcoef(down, across)[0, 1]) < 0.2

    def test_a_random_crop_is_not_resized(self) -> None:
        """Its pixels are those of the file, and its position varies."""
        image = noise(SIZE + 4, SIZE + 4)
        feature = ImageFeature(SIZE, augmentation=Augmentation(**only(crop="random")))
        parts = {
            image[top : top + SIZE, left : left + SIZE].tobytes(): (top, left) for top in range(5) for left in range(5)
        }

        varied = in_graph(feature.augmented, tf.constant([encode(image, "PNG")] * 200), seeds(200))

        assert {parts[part.tobytes()] for part in varied} == set(parts.values())

    def test_a_resized_crop_is_the_box_resized(self) -> None:
        """Taken from the pixels of the file, not of a smaller image."""
        image, how = noise(90, 120), Augmentation(**only(crop="resized"))
        drawn = randomness.uniform(seeds(6), crops.NUMBERS, 0)
        boxes = crops.boxes(tf.constant([[90, 120]] * 6), drawn, SIZE, "stretch", how).numpy()

        varied = ImageFeature(SIZE, augmentation=how).augmented(tf.constant([encode(image, "PNG")] * 6), seeds(6))

        parts = [image[top : top + height, left : left + width] for top, left, height, width in boxes]
        np.testing.assert_array_equal(varied.numpy(), [reference(encode(part, "PNG")) for part in parts])

    def test_brightness_changes_by_up_to_a_tenth(self) -> None:
        """Uniformly between a tenth darker and a tenth lighter; a uniform image shows nothing else."""
        change = variations(np.full((SIZE, SIZE, 3), 128, np.uint8)).mean(axis=(1, 2, 3)) - 128

        assert -26 <= change.min() < -22
        assert 22 < change.max() <= 26
        assert abs(change.mean()) < 3
        assert change.std() == pytest.approx(25.5 / 3**0.5, rel=0.1)

    def test_contrast_changes_by_up_to_a_tenth(self) -> None:
        """The difference of two grays is scaled uniformly between 0.9 and 1.1, independently of brightness."""
        varied = variations(halves(64, 192))
        ratio = (varied.max(axis=(1, 2, 3)) - varied.min(axis=(1, 2, 3))) / 128
        lightness = (varied.max(axis=(1, 2, 3)) + varied.min(axis=(1, 2, 3))) / 2

        assert 0.88 < ratio.min() < 0.92
        assert 1.08 < ratio.max() < 1.12
        assert ratio.mean() == pytest.approx(1, abs=0.02)
        assert abs(np.corrcoef(lightness, ratio)[0, 1]) < 0.2

    def test_saturation_and_hue_do_not_change_luma(self) -> None:
        """For a reddish image: the distance from gray varies by half, the hue by a twentieth in both directions."""
        colour = np.array([150, 120, 110])
        varied = variations(np.full((SIZE, SIZE, 3), colour, np.uint8), **only(saturation=0.5, hue=0.05))[:, 0, 0]

        chroma = (varied @ CHROMA) / (colour @ CHROMA)
        assert np.ptp(varied @ LUMA) < 1.1
        assert (np.abs(chroma).min(), np.abs(chroma).max()) == pytest.approx((0.5, 1.5), abs=0.08)
        assert np.abs(chroma).mean() == pytest.approx(1, abs=0.06)
        assert np.abs(np.angle(chroma)).max() == pytest.approx(0.1 * np.pi, abs=0.06)
        assert np.angle(chroma).mean() == pytest.approx(0, abs=0.03)

    def test_images_are_erased_as_often_as_set(self) -> None:
        """And no larger area than set."""
        area = variations(np.zeros((SIZE, SIZE, 3), np.uint8), **only(erase=0.5, erase_area=0.2)).any(axis=3)
        share = area.mean(axis=(1, 2))

        assert (share > 0).mean() == pytest.approx(0.5, abs=4 * 0.5 / MANY**0.5)
        assert 0.15 < share.max() < 0.22

    def test_images_are_mixed_with_their_labels(self) -> None:
        """By the settings of the feature."""
        pixels, shares = tf.constant(np.stack([halves(0, 0), halves(200, 200)])), tf.eye(2)
        feature = ImageFeature(SIZE, augmentation=Augmentation(mixup=1))

        found, labels = feature.mix(pixels, shares, seeds(2))

        expected = labels.numpy() @ np.array([0, 200])
        np.testing.assert_allclose(found.numpy()[:, 0, 0, 0], expected, atol=0.51)
        assert (feature.augmentation.mixes, ImageFeature(SIZE).augmentation.mixes) == (True, False)


@pytest.fixture
def native() -> None:
    """Skips without the native op."""
    if loader.load() is None:
        pytest.skip(f"no native op: {loader.why_not()}")


@pytest.mark.usefixtures("native")
class TestNative:
    """Training decodes with the native op where possible, with the same result."""

    @staticmethod
    def both(monkeypatch: pytest.MonkeyPatch, feature: ImageFeature, contents: tf.Tensor) -> list[NDArray[np.int64]]:
        """Returns an augmented batch by the native op and by TensorFlow."""
        found = [feature.augmented(contents, seeds(len(contents))).numpy().astype(int)]
        monkeypatch.setenv("PENSTOCK_NATIVE", "0")
        return [*found, feature.augmented(contents, seeds(len(contents))).numpy().astype(int)]

    def test_the_decoder_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is stored with the results of a training."""
        assert ImageFeature(SIZE).decoder.startswith("native:")
        monkeypatch.setenv("PENSTOCK_NATIVE", "0")
        assert ImageFeature(SIZE).decoder == "plain: turned off by PENSTOCK_NATIVE=0"

    @pytest.mark.parametrize("kind", NATIVE)
    def test_both_read_the_same_sizes_from_headers(self, kind: str) -> None:
        """So the crop boxes are equal too."""
        ops, content = loader.load(), tf.constant([FILES[kind]])
        assert ops is not None

        np.testing.assert_array_equal(ops.shapes(content)[:, :2].numpy(), images.shapes(content).numpy())

    @pytest.mark.parametrize("crop", ["none", "random", "resized"])
    @pytest.mark.parametrize(("fit", "antialias"), [("stretch", True), ("center", False)])
    def test_pixels_are_within_one_rounding(
        self, monkeypatch: pytest.MonkeyPatch, fit: Any, crop: str, antialias: bool
    ) -> None:
        """With equal boxes and flips, for files of all formats; another box would differ by far more."""
        how = Augmentation(**only(crop=crop, flip=0.5))
        feature = ImageFeature(SIZE, fit, antialias, augmentation=how)

        native, plain = self.both(monkeypatch, feature, ALL)

        assert np.abs(native - plain).max() <= 1

    def test_dct_shrink_stays_close(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Faster and less exact: a mean difference of less than two of 255."""
        feature = ImageFeature(SIZE, dct_shrink=True, augmentation=PLAIN)

        native, plain = self.both(monkeypatch, feature, tf.constant([FILES["large"], FILES["JPEG"]]))

        assert np.abs(native - plain)[0].mean() < 2
        assert np.abs(native - plain)[1].max() <= 1

    def test_evaluation_never_uses_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An exported model needs no library of ours."""
        traced = tf.function(ImageFeature(SIZE).decode).get_concrete_function(tf.TensorSpec([None], tf.string))
        names = {node.op for function in traced.graph.as_graph_def().library.function for node in function.node_def}

        assert not [name for name in names if name.startswith("Penstock")]
        monkeypatch.setenv("PENSTOCK_NATIVE", "0")
        np.testing.assert_array_equal(traced(ALL).numpy(), ImageFeature(SIZE).decode(ALL).numpy())


def test_sizes_of_all_formats_are_read_without_the_native_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """Height and width."""
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")
    expected = [Image.open(io.BytesIO(content)).size[::-1] for content in FILES.values()]

    assert [tuple(shape) for shape in images.shapes(ALL).numpy()] == expected
    assert [tuple(shape) for shape in in_graph(images.shapes, ALL)] == expected
