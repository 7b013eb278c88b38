"""The memory benchmark, and that the input pipeline stays within its budget."""

import pytest

from benchmarks import memory
from benchmarks.memory import Case

pytestmark = pytest.mark.all


class TestTable:
    """The printed table."""

    def test_a_budget_that_is_exceeded_is_marked(self) -> None:
        """By the peak minus the memory before."""
        lines = memory.table(
            [(Case("tensor", 100, 64, 512), {"peak_mb": 100}), (Case("image", 5_000_000, 8, 256), {"peak_mb": 300})]
        )

        assert lines[2:] == [
            "| tensor, 100 B | 64 | 512 | 64 | 100 | 0.20 |",
            "| image, 5 MB | 8 | 256 | 64 | 300 | 1.17 **missed** |",
        ]

    def test_sizes_from_a_hundred_bytes_to_five_megabytes_are_measured(self) -> None:
        """With the default shuffle and with the largest one."""
        measured = memory.cases()

        assert {case.size for case in measured} == {100, 10_000, 1_000_000, 5_000_000}
        assert {(case.ram_mb, case.shuffle_mb) for case in measured} == {(1024, 64), (512, 512)}


@pytest.mark.parametrize(
    "case", [Case("tensor", 10_000, 64, 256, 256), Case("image", 500_000, 8, 256, 256)], ids=["10 KB", "500 KB"]
)
def test_the_pipeline_stays_within_its_budget(case: Case) -> None:
    """Over several epochs, with the largest shuffle; TensorFlow's own memory does not count."""
    measured = memory.run(case, seconds=4)

    assert 0.3 * case.ram_mb < measured["peak_mb"] <= case.ram_mb
