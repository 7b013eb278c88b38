"""Records that cannot be predicted are quarantined, with a reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, PenstockError
from components.inference.model import LoadedModel, RejectedByModel
from pipelines.predict import predict
from tests.inference.tables import TABLE, predictions, save_network


class TestQuarantine:
    """Bad rows."""

    def test_a_record_that_the_model_rejects(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It is found among the others of its batch, which are predicted."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,boom\n3,d\n")

        predict(request_of(saved(TABLE), tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["position"] == "row 3"
        assert bad["reason"].startswith("the model cannot predict it: ")

    def test_a_prediction_that_is_not_finite(self, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """It is quarantined, instead of being read as the first class."""
        save_network(tmp_path / "model")
        (tmp_path / "rows.csv").write_text("size,review\n1,a\n,b\n3,d\n")

        made = predict(request_of(tmp_path / "model", tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad["position"] == "row 3"
        assert bad["reason"] == "the model cannot predict it: its prediction is not a finite number"
        assert (made.predicted, made.quarantined) == (2, 1)

    def test_a_rejected_record_is_found_by_halves(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch of 256 takes two calls per halving, the first call, and one for the others."""
        (tmp_path / "rows.csv").write_text("size,name\n" + "1,a\n" * 100 + "1,boom\n" + "1,a\n" * 155)
        sizes, served = list[int](), LoadedModel.predict

        def counted(self: LoadedModel, columns: Any) -> Any:
            sizes.append(len(columns["size"]))
            return served(self, columns)

        monkeypatch.setattr(LoadedModel, "predict", counted)
        made = predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

        assert (made.predicted, made.quarantined) == (255, 1)
        assert sorted(sizes) == sorted([256, 255, *(size for power in range(8) for size in [1 << power] * 2)])

    def test_a_model_that_rejects_every_record(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """It ends with the model's error, not with a list of all records."""
        (tmp_path / "rows.csv").write_text("size,name\n" + "1,boom\n" * 40)

        with pytest.raises(BadInput, match=r"rows.csv: the model cannot predict any of the first 40 records: .*assert"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_a_model_whose_predictions_depend_on_the_batch(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is an error that names the file, not a bug."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b\n3,c\n")
        served = LoadedModel.predict

        def predict_few(self: LoadedModel, columns: Any) -> Any:
            if len(columns["size"]) > 2:
                raise RejectedByModel("too many")
            return served(self, columns)

        monkeypatch.setattr(LoadedModel, "predict", predict_few)

        with pytest.raises(PenstockError, match=r"rows.csv: the model predicts each of 3 records, but not all of them"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

    def test_labels_of_a_quantity_that_are_no_numbers(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """They are null, and their rows are predicted."""
        (tmp_path / "rows.csv").write_text("size,price\n1, 1.5\n2,unknown\n3,-2e1\n4,\n5,nan\n")

        made = predict(request_of(saved(TABLE[:1], "quantity", label_source="price"), tmp_path / "rows.csv"))

        assert predictions(tmp_path / "out")["label"].to_pylist() == [1.5, None, -20.0, None, None]
        assert (made.labelled, made.quarantined) == (2, 0)

    def test_a_bad_row_is_listed_and_the_next_rows_keep_their_numbers(
        self, saved: Any, request_of: Callable[..., Any], tmp_path: Path
    ) -> None:
        """With line, reason and text."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b,c\n3,d\n")

        predict(request_of(saved(TABLE), tmp_path / "rows.csv", given={"max_bad_fraction": 0.5}))

        assert predictions(tmp_path / "out")["row"].to_pylist() == [2, 4]
        (bad,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
        assert bad == {
            "path": "rows.csv", "position": "line 3", "reason": "3 cells, expected 2 as in the header", "raw": "2,b,c",
        }  # fmt: skip

    def test_too_many_bad_rows_stop_it(self, saved: Any, request_of: Callable[..., Any], tmp_path: Path) -> None:
        """There is no --out; the list stays."""
        (tmp_path / "rows.csv").write_text("size,name\n1,a\n2,b,c\n3,d\n")

        with pytest.raises(BadInput, match=r"1 of 3 records were quarantined"):
            predict(request_of(saved(TABLE), tmp_path / "rows.csv"))

        assert not (tmp_path / "out").exists()
        assert (tmp_path / "out.quarantine.jsonl").exists()
        assert not list(tmp_path.glob(".aside-*"))
