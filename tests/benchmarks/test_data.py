"""Benchmark data is seeded, costs as much as real data, and is generated once."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks import data, images, rows

pytestmark = pytest.mark.all


@pytest.fixture(scope="module")
def drawn() -> list[images.EncodedImage]:
    """The first images."""
    return list(images.images(range(12)))


class TestImages:
    """JPEGs that cost a decoder as much as photos."""

    def test_an_image_depends_on_its_number_alone(self, drawn: list[images.EncodedImage]) -> None:
        """So that several processes can generate parts."""
        assert list(images.images(range(5, 7))) == drawn[5:7]

    def test_images_have_the_bits_per_pixel_of_photos(self, drawn: list[images.EncodedImage]) -> None:
        """Two to five, in both orientations, with chroma at half the size."""
        opened: list[Any] = [Image.open(io.BytesIO(image.content)) for image in drawn]
        bits = [8 * len(image.content) / (500 * 375) for image in drawn]

        assert {image.size for image in opened} == {(500, 375), (375, 500)}
        assert all(2 < each < 5 for each in bits)
        assert {tuple(layer[1:3] for layer in image.layer) for image in opened} == {((2, 2), (1, 1), (1, 1))}

    def test_files_and_archives_hold_the_same(self, tmp_path: Path) -> None:
        """Webdataset reads the same data as the others."""
        images.write(tmp_path, 20)
        files = {path.stem: (path.read_bytes(), path.parent.name) for path in tmp_path.glob("files/*/*.jpg")}
        packed: dict[str, dict[str, bytes]] = {}
        for path in (tmp_path / "tars").iterdir():
            with tarfile.open(path) as tar:
                for member in tar:
                    stem, _, suffix = member.name.partition(".")
                    packed.setdefault(stem, {})[suffix] = tar.extractfile(member).read()  # type: ignore[union-attr]

        assert packed == {stem: {"jpg": content, "cls": label[-1].encode()} for stem, (content, label) in files.items()}
        assert len(files) == 20


class TestRows:
    """Texts, arrays and tables."""

    def test_words_are_distinct(self) -> None:
        """The index of a word is its rank."""
        words = rows.vocabulary()

        assert len(set(words)) == len(words) == 50_000
        assert words[:3] == ["e", "t", "a"]

    def test_texts_have_the_documented_lengths(self, tmp_path: Path) -> None:
        """Sixty words on average, from 3 to 400, with Zipf frequencies."""
        rows.write_texts(tmp_path, 3000)
        texts = [json.loads(line)["text"].split() for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
        lengths = [len(text) for text in texts]

        assert len(texts) == 3000
        assert np.mean(lengths) == pytest.approx(60, abs=2.5)
        assert (min(lengths) >= 3, max(lengths) <= 400) == (True, True)
        assert 0.04 < np.mean([word == "e" for text in texts for word in text]) < 0.09


class TestCache:
    """Generated data is reused."""

    def test_raw_data_is_generated_once(self, tmp_path: Path) -> None:
        """The second call returns the folder of the first."""
        made = data.raw("tensor", 10, tmp_path)
        stamp = (made / "arrays.npz").stat().st_mtime_ns

        assert data.raw("tensor", 10, tmp_path) == made
        assert (made / "arrays.npz").stat().st_mtime_ns == stamp
        assert [path.name for path in tmp_path.iterdir()] == [made.name]

    def test_data_of_an_older_generator_is_removed(self, tmp_path: Path) -> None:
        """Folders of another digest are removed, those of another size are kept."""
        for name in ("tensor-10-00000000", "tensor-100-00000000"):
            (tmp_path / name).mkdir()
        made = data.raw("tensor", 10, tmp_path)

        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([made.name, "tensor-100-00000000"])
