"""What libraries say goes to the log, by whatever channel, and the user's streams come back as they were.

Each test has a process of its own: descriptors 1 and 2 are what it is about, and pytest has its hands on them.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
SETUP = "import logging, os, subprocess, sys, warnings\nfrom pathlib import Path\nfrom pipelines import log\n"


@dataclass(frozen=True)
class Said:
    """What a process said, and where."""

    out: str
    err: str
    log: str


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log, in a folder that is not there yet."""
    return tmp_path / "logs" / "1.log"


def run(script: str, log: Path, code: int = 0) -> Said:
    """Runs a script that finds the log's path in LOG."""
    done = subprocess.run(
        [sys.executable, "-c", f"{SETUP}LOG = Path({str(log)!r})\n{script}"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return Said(done.stdout, done.stderr, log.read_text() if log.is_file() else "")


@pytest.mark.parametrize(
    "chatter",
    [
        "os.write(1, b'chatter\\n')",
        "os.write(2, b'chatter\\n')",
        "print('chatter')",
        "print('chatter', file=sys.stderr)",
        "sys.stdout.write('chatter\\n')",
        "subprocess.run(['echo', 'chatter'])",
        "subprocess.run('echo chatter >&2', shell=True)",
    ],
    ids=["C, out", "C, error", "print", "print, error", "write", "a child, out", "a child, error"],
)
def test_chatter_goes_to_the_log(log: Path, chatter: str) -> None:
    """All of it, and the user sees none."""
    assert run(f"with log.diverted(LOG):\n    {chatter}\n", log) == Said("", "", "chatter\n")


@pytest.mark.parametrize(
    "chatter",
    ["logging.warning('chatter')", "warnings.warn('chatter')", "from absl import logging; logging.info('chatter')"],
    ids=["logging", "warnings", "absl"],
)
def test_logged_chatter_goes_to_the_log(log: Path, chatter: str) -> None:
    """With whatever its logger puts around it."""
    said = run(f"with log.diverted(LOG):\n    {chatter}\n", log)

    assert (said.out, said.err) == ("", "")
    assert "chatter" in said.log


def test_the_stream_that_is_handed_out_reaches_the_user(log: Path) -> None:
    """At once, in order, and not the log."""
    said = run(
        "with log.diverted(LOG) as user:\n"
        "    print('one ✓', file=user)\n"
        "    print('chatter')\n"
        "    print('two', file=user)\n",
        log,
    )

    assert said == Said("one ✓\ntwo\n", "", "chatter\n")


def test_what_was_said_before_and_after_is_not_diverted(log: Path) -> None:
    """Text that waits in a buffer belongs to the side that it was printed on."""
    said = run(
        "print('before'); print('before', file=sys.stderr)\n"
        "with log.diverted(LOG):\n"
        "    print('within'); sys.stderr.write('within ')\n"
        "print('after'); os.write(2, b'after\\n')\n",
        log,
    )

    assert (said.out, said.err) == ("before\nafter\n", "before\nafter\n")
    assert sorted(said.log.split()) == ["within", "within"]


def test_both_descriptors_come_back(log: Path) -> None:
    """They are the same files as before, and no descriptor is left open."""
    said = run(
        "def state():\n"
        "    return [os.fstat(1), os.fstat(2), len(os.listdir('/proc/self/fd'))]\n"
        "import absl.logging\n"
        "before = state()\n"
        "for _ in range(3):\n"
        "    with log.diverted(LOG):\n"
        "        print('chatter')\n"
        "names = ['st_dev', 'st_ino']\n"
        "now = state()\n"
        "print([[getattr(a, n) == getattr(b, n) for n in names] for a, b in zip(before[:2], now[:2])],\n"
        "      now[2] - before[2])\n",
        log,
    )

    assert said == Said("[[True, True], [True, True]] 0\n", "", "chatter\n" * 3)


def test_both_descriptors_come_back_after_an_exception(log: Path) -> None:
    """Which goes on to whoever catches it."""
    said = run(
        "try:\n"
        "    with log.diverted(LOG):\n"
        "        print('chatter')\n"
        "        raise ValueError('within')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
        "    os.write(2, b'after\\n')\n",
        log,
    )

    assert said == Said("within\n", "after\n", "chatter\n")


def test_a_traceback_after_the_block_reaches_the_user(log: Path) -> None:
    """A crash is not hidden."""
    said = run("with log.diverted(LOG):\n    raise ValueError('crash')\n", log, code=1)

    assert said.err.endswith("ValueError: crash\n")
    assert said.log == ""


def test_a_log_that_cannot_be_written_diverts_nothing(log: Path) -> None:
    """The error reaches the caller, and the streams are as they were."""
    log.mkdir(parents=True)
    said = run(
        "try:\n"
        "    with log.diverted(LOG):\n"
        "        print('never')\n"
        "except IsADirectoryError:\n"
        "    print('refused')\n"
        "    os.write(2, b'after\\n')\n",
        log,
    )

    assert said == Said("refused\n", "after\n", "")


def test_a_log_is_continued(log: Path) -> None:
    """Two runs within one second share a file; neither loses a line."""
    said = run("for n in range(2):\n    with log.diverted(LOG):\n        os.write(1, b'%d\\n' % n)\n", log)

    assert said == Said("", "", "0\n1\n")


def test_the_environment_of_the_user_counts(log: Path) -> None:
    """What is set already stays; what is not is set to silence."""
    said = run(
        "os.environ.pop('KERAS_BACKEND', None)\n"
        "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'\n"
        "log.prepare_environment()\n"
        "print(os.environ['TF_CPP_MIN_LOG_LEVEL'], os.environ['KERAS_BACKEND'])\n",
        log,
    )

    assert said == Said("0 tensorflow\n", "", "")
