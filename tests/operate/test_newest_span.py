"""How the scores of the newest span are said."""

from pipelines.operate import newest_span


def test_scores_are_one_sentence() -> None:
    """The live model only if there was one; what is not defined has no figure."""
    newest: dict[str, float | None] = {"records": 20, "accuracy": 0.9, "live": 0.85}

    assert newest_span.text({"newest span": newest, "window": {"records": 1200, "accuracy": 0.95}}) == (
        "newest span: accuracy 0.9000 (live 0.8500) on 20 test records; window: accuracy 0.9500 on 1,200 test records"
    )
    assert newest_span.text({"newest span": {"records": 0, "r2": None, "live": None}}) == (
        "newest span: r2 not defined on 0 test records"
    )
