"""The ops are there or the reason is; asking never raises, and imports TensorFlow only when asked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from components.native import build, loader
from components.native.build import NotBuilt

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def afresh() -> Iterator[None]:
    """Forgets what was loaded, before and after."""
    loader._load.cache_clear()
    yield
    loader._load.cache_clear()


def test_the_ops_are_loaded_once(ops: loader.Ops) -> None:
    """Later calls give the same."""
    assert loader.load() is ops
    assert loader.why_not() == ""


def test_what_decodes_has_a_name(ops: loader.Ops) -> None:
    """It is that of the build, and changes with it."""
    assert loader.identity() == f"native:{build.recipe().key}"
    assert loader.identity() == f"native:{ops.key}"


def test_a_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """For comparison: at any time, and on again."""
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")

    assert loader.load() is None
    assert loader.why_not() == "turned off by PENSTOCK_NATIVE=0"
    assert loader.identity() == "plain: turned off by PENSTOCK_NATIVE=0"


@pytest.mark.usefixtures("afresh")
def test_without_a_compiler_nothing_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There are no ops, and the reason names what is missing."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert loader.load() is None
    assert loader.why_not() == "not built, and there is no g++ on the PATH to build it with"
    assert loader.identity() == f"plain: {loader.why_not()}"


@pytest.mark.usefixtures("afresh")
def test_a_library_that_does_not_load_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file that was cut, say by a full disk."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    library = build.home() / build.recipe().key / build.LIBRARY
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF")

    assert loader.load() is None
    assert loader.why_not().startswith(f"{library} does not load: ")


def test_other_pixels_than_tensorflows_are_refused(ops: loader.Ops) -> None:
    """A decoder that runs and is wrong is worse than none."""

    class Negative:
        penstock_shapes = staticmethod(ops.module.penstock_shapes)

        @staticmethod
        def penstock_decode_crop_resize(*arguments: object, **options: object) -> tuple[tf.Tensor, tf.Tensor]:
            pixels, problems = ops.module.penstock_decode_crop_resize(*arguments, **options)
            return 255 - pixels, problems

    with pytest.raises(NotBuilt, match="its pixels are not those of TensorFlow's own decoder"):
        loader._check(loader.Ops(Negative(), "wrong"))


@pytest.mark.usefixtures("afresh", "ops")
def test_it_may_be_asked_while_a_graph_is_traced() -> None:
    """Inside the function of a map, where nothing runs at once."""
    found: list[loader.Ops | None] = []

    def trace(number: tf.Tensor) -> tf.Tensor:
        found.append(loader.load())
        return number

    tf.data.Dataset.range(1).map(trace)

    assert found[0] is not None


def test_importing_it_does_not_import_tensorflow() -> None:
    """Planning commands may know of it."""
    script = "import sys; import components.native.loader; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "keras", "numpy", "PIL"} & set(done.stdout.split())
