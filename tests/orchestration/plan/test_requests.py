"""What --force, --from and --to ask for."""

import pytest

from components.errors import SettingsError
from pipelines.orchestration.plan import (
    KEPT,
    LOOK_UP,
    RUN,
    SKIP,
    Request,
)
from tests.orchestration.plan.conftest import EPOCHS, IDS, Root, after


class TestRequests:
    """--from, --to and --force."""

    def test_a_forced_node_runs_with_all_after_it(self, finished: Root) -> None:
        """Upper and lower case are the same."""
        assert finished.due(request=Request(force=frozenset({"transform"}))) == after(
            {"Transform": "forced by --force"}
        )

    def test_nodes_after_the_last_are_skipped(self, new: Root) -> None:
        """Only the nodes that the last one needs run."""
        planned = new.planned(request=Request(last="StatisticsGen"))

        assert [(each.node.id, each.action, each.reason) for each in planned.nodes] == [
            ("Ingest", RUN, "first run"),
            ("Schema", RUN, "first run"),
            ("StatisticsGen", RUN, "after Ingest, which runs"),
            *((name, SKIP, "after --to StatisticsGen") for name in IDS[3:]),
        ]

    def test_nodes_before_the_first_are_kept(self, root: Root) -> None:
        """Even if the data has changed since."""
        (root.data / "cats" / "1.png").unlink()
        planned = root.planned("train.epochs=3", request=Request(first="Trainer"))
        live_now = root.newest("Trainer", "model")

        assert [(each.node.id, each.action, each.reason) for each in planned.nodes] == [
            *((name, KEPT, "before --from Trainer") for name in IDS[:6]),
            ("Trainer", RUN, f"setting train.epochs changed: {EPOCHS} to 3"),
            ("Baseline", LOOK_UP, f"baseline model {live_now}"),
            ("Evaluator", RUN, "after Trainer, which runs"),
            ("Pusher", RUN, "after Trainer, which runs"),
        ]

    def test_the_first_node_is_not_forced(self, finished: Root) -> None:
        """It runs only if something it depends on has changed."""
        assert finished.due(request=Request(first="Trainer")) == {}

    def test_first_and_last_may_be_the_same(self, finished: Root) -> None:
        """One node alone."""
        request = Request(first="Trainer", last="Trainer")

        assert finished.due("train.epochs=3", request=request) == {
            "Trainer": f"setting train.epochs changed: {EPOCHS} to 3"
        }

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            (Request(first="Trainr"), "unknown node 'Trainr': did you mean 'Trainer'?"),
            (Request(last="gates"), "unknown node 'gates': did you mean 'Gate'?"),
            (Request(force=frozenset({"zzz"})), f"unknown node 'zzz': known: {', '.join(sorted(IDS))}"),
            (
                Request(first="Pusher", last="Trainer"),
                "--from Pusher --to Trainer: Pusher does not come before Trainer",
            ),
        ],
    )
    def test_an_impossible_request_is_rejected(self, request_: Request, message: str, new: Root) -> None:
        """The message has the nearest name, or the order."""
        with pytest.raises(SettingsError) as refused:
            new.planned(request=request_)

        assert str(refused.value) == message

    def test_from_without_earlier_outputs_is_rejected(self, new: Root) -> None:
        """The message names the node without output and what to do."""
        with pytest.raises(SettingsError) as refused:
            new.planned(request=Request(first="Trainer"))

        assert str(refused.value) == "--from Trainer: Ingest has no output yet; run without --from first"

    def test_from_with_a_broken_output_is_rejected(self, root: Root) -> None:
        """Promise A14 holds for kept outputs as well."""
        (root.newest("Transform", "transform_graph") / "content").unlink()

        with pytest.raises(SettingsError) as refused:
            root.planned(request=Request(first="Trainer"))

        assert str(refused.value) == (
            "--from Trainer: the output of Transform is broken (transform_graph: content deleted); run without --from"
        )
