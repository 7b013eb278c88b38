"""`python -m data TASK` writes the sample of a task."""

from pathlib import Path

import pytest

from data.__main__ import main

FILES = {
    "image": "*/digit-*",
    "text": "docstrings.jsonl",
    "tensor": "digits.npz",
    "tabular": "tumours.csv",
    "multimodal": "questions.jsonl",
}


@pytest.mark.parametrize("task", FILES)
def test_the_sample_of_a_task_is_written(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To --out, with --limit records."""
    assert main([task, "--out", str(tmp_path / task), "--limit", "12"]) == 0

    assert capsys.readouterr().out == f"12 records in {tmp_path / task}\n"
    assert list((tmp_path / task).glob(FILES[task]))


@pytest.mark.parametrize("arguments", [[], ["audio"]])
def test_an_unknown_task_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the tasks."""
    assert main(arguments) == 2
    assert f"usage: python -m data {{{','.join(sorted(FILES))}}} " in capsys.readouterr().err


@pytest.mark.parametrize("task", FILES)
def test_a_limit_below_one_is_a_usage_error(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    with pytest.raises(SystemExit) as stopped:
        main([task, "--out", str(tmp_path / task), "--limit", "0"])

    assert stopped.value.code == 2
    assert "limit is 0; expected 1 or more, or no limit for all records" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
