"""Packages that TFX's libraries can do without are absent while they load, and only then."""

import sys

import pytest

from pipelines.orchestration.runners import optional_packages


def test_packages_are_absent_within_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import fails as if the package were not installed; afterwards it works; one that is loaded stays."""
    monkeypatch.setattr(optional_packages, "_OPTIONAL", ("colorsys", "json"))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with optional_packages.absent():
        import json

        with pytest.raises(ImportError):
            import colorsys
    import colorsys

    assert (json.loads("1"), colorsys.rgb_to_hsv(0, 0, 1)[2]) == (1, 1)
