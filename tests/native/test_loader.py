"""`load` returns the ops or None with a reason; it never raises, and TensorFlow is imported on the first call."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from components.native import build
from components.native.build import NotBuilt
from components.native.decode import loader

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reload() -> Iterator[None]:
    """Clears the cache of loaded ops before and after a test."""
    loader._load.cache_clear()
    yield
    loader._load.cache_clear()


def test_the_ops_are_loaded_once(ops: loader.Ops) -> None:
    """Later calls return the same object."""
    assert loader.load() is ops
    assert loader.why_not() == ""


def test_the_identity_is_the_key_of_the_build(ops: loader.Ops) -> None:
    """It is stored with the results of a training."""
    assert loader.identity() == f"native:{build.key(build.DECODE)}"
    assert loader.identity() == f"native:{ops.key}"


def test_an_environment_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """For comparisons; it is read at every call."""
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")

    assert loader.load() is None
    assert loader.why_not() == "turned off by PENSTOCK_NATIVE=0"
    assert loader.identity() == "plain: turned off by PENSTOCK_NATIVE=0"


@pytest.mark.usefixtures("reload")
def test_without_a_compiler_there_are_no_ops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reason names what is missing."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert loader.load() is None
    assert loader.why_not() == "not built, and there is no g++ on the PATH; install g++"
    assert loader.identity() == f"plain: {loader.why_not()}"


@pytest.mark.usefixtures("reload")
def test_a_damaged_library_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For example a file that a full disk has truncated."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    library = build.place(build.DECODE)
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF")

    assert loader.load() is None
    assert loader.why_not().startswith(f"{library} does not load: ")


def test_a_library_with_wrong_pixels_is_rejected(ops: loader.Ops) -> None:
    """A decoder that runs and is wrong is worse than none."""

    class Negative:
        penstock_shapes = staticmethod(ops.module.penstock_shapes)

        @staticmethod
        def penstock_decode_crop_resize(*arguments: object, **options: object) -> tuple[tf.Tensor, tf.Tensor]:
            pixels, problems = ops.module.penstock_decode_crop_resize(*arguments, **options)
            return 255 - pixels, problems

    with pytest.raises(NotBuilt, match="its pixels differ from those of TensorFlow's decoder"):
        loader._check(loader.Ops(Negative(), "wrong"))


@pytest.mark.usefixtures("reload", "ops")
def test_it_loads_while_a_graph_is_traced() -> None:
    """Inside the function of a `map`, where ops do not run eagerly."""
    found: list[loader.Ops | None] = []

    def trace(number: tf.Tensor) -> tf.Tensor:
        found.append(loader.load())
        return number

    tf.data.Dataset.range(1).map(trace)

    assert found[0] is not None


def test_importing_it_does_not_import_tensorflow() -> None:
    """Planning commands may import it."""
    script = "import sys; import components.native.decode.loader; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "keras", "numpy", "PIL"} & set(done.stdout.split())
