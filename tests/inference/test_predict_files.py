"""`penstock predict` on folders of files, of which each is a record."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.serving.reading import Argument
from pipelines.predict import predict
from tests.inference.conftest import png
from tests.inference.tables import IMAGE, predictions


class TestFiles:
    """A file is a record."""

    def test_a_flat_folder_of_images(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """No class folder is needed; files that are no images are ignored, damaged ones quarantined."""
        data = tmp_path / "photos"
        data.mkdir()
        for name, content in {"b.png": png(51), "a.png": png(255), "notes.txt": b"x", "c.jpg": b"<html>"}.items():
            (data / name).write_bytes(content)

        made = predict(request_of(saved(IMAGE), data, given={"max_bad_fraction": 0.5}))

        found = predictions(tmp_path / "out")
        assert found["file"].to_pylist() == ["a.png", "b.png"]
        assert (found["row"].null_count, found["label"].null_count) == (2, 2)
        np.testing.assert_allclose(found["probability"].to_numpy(), 1 / (1 + np.exp([-1.0, -1.8])), rtol=1e-5)
        assert (made.records, made.predicted, made.quarantined, made.ignored) == (3, 2, 1, 1)
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["path"] == "c.jpg"
        assert bad["reason"].startswith("not an image: starts with '<html>'")

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            (
                "",
                {
                    "link.png": "symbolic link that leads outside the data folder",
                    "linked": "symbolic link that leads outside the data folder",
                    "pipe.png": "not a regular file",
                },
            ),
            ("*/*.png", {"linked/b.png": "symbolic link that leads outside the data folder"}),
            (
                "*.png",
                {"link.png": "symbolic link that leads outside the data folder", "pipe.png": "not a regular file"},
            ),
        ],
    )
    def test_links_and_pipes(
        self, pattern: str, expected: dict[str, str], saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """None is followed or opened: each is quarantined; hidden files are counted as ignored."""
        data, other = tmp_path / "photos", tmp_path / "other"
        for name in (data / "a.png", data / "in" / "b.png", data / ".hidden" / "c.png", other / "b.png"):
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(png(0))
        (data / "linked").symlink_to(other)
        (data / "link.png").symlink_to(other / "b.png")
        os.mkfifo(data / "pipe.png")

        made = predict(request_of(saved(IMAGE), f"{data}/{pattern}", given={"max_bad_fraction": 0.9}))

        listed = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert {bad["path"]: bad["reason"] for bad in listed} == expected
        assert (made.quarantined, made.ignored) == (len(expected), 0 if pattern else 1)

    def test_class_folders(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A folder is the label if it is one of the model's classes."""
        for name in ("low/a.png", "other/b.png"):
            (tmp_path / "photos" / name).parent.mkdir(parents=True)
            (tmp_path / "photos" / name).write_bytes(png(0))

        made = predict(request_of(saved(IMAGE), tmp_path / "photos"))

        assert predictions(tmp_path / "out")["label"].to_pylist() == ["low", None]
        assert (made.labelled, made.metrics["accuracy"]) == (1, 1.0)

    def test_damaged_images(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """One that TensorFlow decodes without an error, to wrong pixels, is quarantined as ingest does it."""
        (tmp_path / "photos").mkdir()
        whole = png(255)
        at = whole.index(b"IDAT") + 8
        for name, content in {
            "a.png": whole,
            "b.png": whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :],
            "c.png": whole,
        }.items():
            (tmp_path / "photos" / name).write_bytes(content)

        predict(request_of(saved(IMAGE), tmp_path / "photos", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["file"].to_pylist() == ["a.png", "c.png"]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert (bad["path"], "checksum" in bad["reason"].lower()) == ("b.png", True)

    def test_texts(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """Each file is a text."""
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "a.txt").write_text("abcd")

        predict(request_of(saved((Argument("text", "text", "text", "text"),), "quantity"), tmp_path / "texts"))

        assert predictions(tmp_path / "out")["prediction"].to_pylist() == [4.0]

    def test_a_table_with_image_paths(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The model knows the column; a row whose image does not exist is quarantined, the others keep their lines."""
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "1.png").write_bytes(png(255))
        (tmp_path / "data" / "rows.csv").write_text("photo,other\nmissing.png,2.png\n1.png,1.png\n")
        model = saved(IMAGE, image_source="photo")

        made = predict(request_of(model, tmp_path / "data", given={"max_bad_fraction": 0.5}))

        found = predictions(tmp_path / "out")
        assert (found["file"].to_pylist(), found["row"].to_pylist()) == (["rows.csv"], [3])
        assert (made.records, made.quarantined) == (2, 1)
