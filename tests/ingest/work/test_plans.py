"""The plan of a shard reaches a worker as it was made."""

import os
from pathlib import Path

from components.ingest.sources import SourceFile
from components.ingest.survey.listing import ListedFile
from components.ingest.work import plans
from components.ingest.work.shards import ShardPlan

FILES = (
    ListedFile(SourceFile("chat noir/1.png", "chat noir"), 7, "ab" * 32, "7:1:2:3"),
    ListedFile(SourceFile("猫/2.png", "猫"), 8, "cd" * 32),
    ListedFile(SourceFile(os.fsdecode(b"cats/caf\xe9.jpg"), "cats"), 9, "ef" * 32),
)


def test_a_plan_is_read_back_as_it_was_stored(tmp_path: Path) -> None:
    """Names that are not UTF-8 and the stat of files included; what is sent has no files in it."""
    plan = ShardPlan("train", 3, 8, FILES, "s00002")
    sent = plans.store(tmp_path, plan)
    read = plans.read(tmp_path, sent)

    assert sent == ShardPlan("train", 3, 8, (), "s00002")
    assert read == plan
    assert [item.stat for item in read.files] == ["7:1:2:3", "", ""]


def test_a_plan_of_nothing_is_one(tmp_path: Path) -> None:
    """An empty split has a shard, too."""
    assert plans.read(tmp_path, plans.store(tmp_path, ShardPlan("eval", 0, 1, ()))).files == ()


def test_plans_are_cleared_away(tmp_path: Path) -> None:
    """They are no part of the artifact; where there are none, nothing happens."""
    plans.store(tmp_path, ShardPlan("eval", 0, 1, ()))
    plans.clear(tmp_path)
    plans.clear(tmp_path)

    assert list(tmp_path.iterdir()) == []
