"""Data and models with which `penstock predict` cannot work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, PenstockError, SettingsError
from pipelines.predict import predict
from tests.inference.conftest import png
from tests.inference.tables import IMAGE, TABLE, write_csv


class TestErrors:
    """Each says what happened, what was expected and what to do."""

    def test_missing_columns(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """They are named, with those that there are."""
        (tmp_path / "rows.csv").write_text("size,other\n1,2\n")

        with pytest.raises(BadInput, match=r"the model reads name \(category\), which the data does not have; it has"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_lists_instead_of_values(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """File, column and what is expected are named."""
        (tmp_path / "rows.jsonl").write_text('{"size": [1.0, 2.0], "name": "a"}\n')

        with pytest.raises(
            BadInput, match=r"rows.jsonl: column 'size' has lists \(list.*the model expects one value \(fl"
        ):
            predict(request_of(saved(TABLE), tmp_path / "rows.jsonl"))

    def test_a_column_named_as_the_label_of_records(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """It is no label if the training data had its label in a column of another name."""
        (tmp_path / "rows.csv").write_text("size,name,label\n1,a,high\n")

        assert predict(request_of(saved(TABLE, label_source="kind"), tmp_path / "rows.csv")).labelled == 0

    def test_settings_of_a_model(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A wrong one names the model; limits are the user's."""
        file = write_csv(tmp_path, labelled=False)
        predict(request_of(saved(TABLE, settings={"max_bad_fraction": 2, "max_pixels": "all"}), file))

        with pytest.raises(SettingsError, match=r"model .*serving/1: assets.extra/reading.json: setting ingest.header"):
            predict(request_of(saved(TABLE, settings={"header": "perhaps"}), file, out=tmp_path / "other"))

    def test_a_model_that_changes_meanwhile(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The process that loads it compares its digest."""
        serving = saved(TABLE)

        def change(*_: Any) -> None:
            (serving / "1" / "assets.extra" / "other").write_bytes(b"new")

        with pytest.raises(PenstockError, match=r"model .*serving/1: its files changed after it was found; run again"):
            predict(request_of(serving, write_csv(tmp_path, labelled=False)), change)

    def test_a_model_of_another_kind(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """A folder of images is no table."""
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "a.png").write_bytes(png(0))

        with pytest.raises(BadInput, match=r"holds class folders of images, but the model reads size \(number\)"):
            predict(request_of(saved(TABLE), tmp_path / "photos"))

    def test_no_model(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """The folder is named."""
        with pytest.raises(SettingsError, match=r"model .*nowhere: no such folder; expected a model that Penstock"):
            predict(request_of(tmp_path / "nowhere", tmp_path))

    def test_a_model_of_another_program(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It does not say how raw data becomes its arguments."""
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "saved_model.pb").write_bytes(b"")

        with pytest.raises(SettingsError, match=r"it has no assets.extra/reading.json"):
            predict(request_of(tmp_path / "model", tmp_path))

    def test_no_data(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """Zero examples are an error."""
        (tmp_path / "photos").mkdir()

        with pytest.raises(BadInput, match=r"0 examples"):
            predict(request_of(saved(IMAGE), tmp_path / "photos"))
