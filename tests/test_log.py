"""What libraries print goes to the log, and afterwards the user's streams are as before.

Each test has a process of its own: descriptors 1 and 2 are what it is about, and pytest has its hands on them.
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
SETUP = "import logging, os, subprocess, sys, warnings\nfrom pathlib import Path\nfrom pipelines import log\n"


@dataclass(frozen=True)
class Printed:
    """What a process printed, and where."""

    out: str
    err: str
    log: str


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Path of a log in a folder that does not exist yet."""
    return tmp_path / "logs" / "1.log"


def run(script: str, log: Path, code: int = 0) -> Printed:
    """Runs a script with the path of the log in LOG."""
    done = subprocess.run(
        [sys.executable, "-c", f"{SETUP}LOG = Path({str(log)!r})\n{script}"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return Printed(done.stdout, done.stderr, log.read_text() if log.is_file() else "")


@pytest.mark.parametrize(
    "output",
    [
        "os.write(1, b'output\\n')",
        "os.write(2, b'output\\n')",
        "print('output')",
        "print('output', file=sys.stderr)",
        "sys.stdout.write('output\\n')",
        "subprocess.run(['echo', 'output'])",
        "subprocess.run('echo output >&2', shell=True)",
    ],
    ids=["C, out", "C, error", "print", "print, error", "write", "a child, out", "a child, error"],
)
def test_output_goes_to_the_log(log: Path, output: str) -> None:
    """All of it, and nothing reaches the user."""
    assert run(f"with log.diverted(LOG):\n    {output}\n", log) == Printed("", "", "output\n")


@pytest.mark.parametrize(
    "output",
    ["logging.warning('output')", "warnings.warn('output')", "from absl import logging; logging.info('output')"],
    ids=["logging", "warnings", "absl"],
)
def test_log_messages_go_to_the_log(log: Path, output: str) -> None:
    """In the format of their logger."""
    printed = run(f"with log.diverted(LOG):\n    {output}\n", log)

    assert (printed.out, printed.err) == ("", "")
    assert "output" in printed.log


def test_the_yielded_stream_reaches_the_user(log: Path) -> None:
    """At once and in order, and it does not reach the log."""
    printed = run(
        "with log.diverted(LOG) as user:\n"
        "    print('one ✓', file=user)\n"
        "    print('output')\n"
        "    print('two', file=user)\n",
        log,
    )

    assert printed == Printed("one ✓\ntwo\n", "", "output\n")


def test_output_before_and_after_is_not_redirected(log: Path) -> None:
    """Buffered text goes where it was printed to."""
    printed = run(
        "print('before'); print('before', file=sys.stderr)\n"
        "with log.diverted(LOG):\n"
        "    print('within'); sys.stderr.write('within ')\n"
        "print('after'); os.write(2, b'after\\n')\n",
        log,
    )

    assert (printed.out, printed.err) == ("before\nafter\n", "before\nafter\n")
    assert sorted(printed.log.split()) == ["within", "within"]


def test_both_descriptors_are_restored(log: Path) -> None:
    """They are the same files as before, and no other descriptor stays open."""
    printed = run(
        "def state():\n"
        "    return [os.fstat(1), os.fstat(2), len(os.listdir('/proc/self/fd'))]\n"
        "import absl.logging\n"
        "before = state()\n"
        "for _ in range(3):\n"
        "    with log.diverted(LOG):\n"
        "        print('output')\n"
        "names = ['st_dev', 'st_ino']\n"
        "now = state()\n"
        "print([[getattr(a, n) == getattr(b, n) for n in names] for a, b in zip(before[:2], now[:2])],\n"
        "      now[2] - before[2])\n",
        log,
    )

    assert printed == Printed("[[True, True], [True, True]] 0\n", "", "output\n" * 3)


def test_both_descriptors_are_restored_after_an_exception(log: Path) -> None:
    """The exception is raised to the caller."""
    printed = run(
        "try:\n"
        "    with log.diverted(LOG):\n"
        "        print('output')\n"
        "        raise ValueError('within')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
        "    os.write(2, b'after\\n')\n",
        log,
    )

    assert printed == Printed("within\n", "after\n", "output\n")


def test_a_traceback_after_the_block_reaches_the_user(log: Path) -> None:
    """An error is not hidden."""
    printed = run("with log.diverted(LOG):\n    raise ValueError('crash')\n", log, code=1)

    assert printed.err.endswith("ValueError: crash\n")
    assert printed.log == ""


def test_a_log_that_cannot_be_written_redirects_nothing(log: Path) -> None:
    """The error is raised to the caller, and the streams are as before."""
    log.mkdir(parents=True)
    printed = run(
        "try:\n"
        "    with log.diverted(LOG):\n"
        "        print('never')\n"
        "except IsADirectoryError:\n"
        "    print('refused')\n"
        "    os.write(2, b'after\\n')\n",
        log,
    )

    assert printed == Printed("refused\n", "after\n", "")


def test_a_log_is_appended_to(log: Path) -> None:
    """Two runs within one second share a file; no line is lost."""
    printed = run("for n in range(2):\n    with log.diverted(LOG):\n        os.write(1, b'%d\\n' % n)\n", log)

    assert printed == Printed("", "", "0\n1\n")


def test_environment_variables_of_the_user_are_kept(log: Path) -> None:
    """Only unset variables are set."""
    printed = run(
        "os.environ.pop('KERAS_BACKEND', None)\n"
        "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'\n"
        "log.prepare_environment()\n"
        "print(os.environ['TF_CPP_MIN_LOG_LEVEL'], os.environ['KERAS_BACKEND'])\n",
        log,
    )

    assert printed == Printed("0 tensorflow\n", "", "")


@pytest.mark.parametrize("output", ["print(SECRET)", "subprocess.run(['echo', SECRET])", "raise ValueError(SECRET)"])
def test_secrets_do_not_reach_the_log(log: Path, output: str) -> None:
    """D5: not even those that a child process or a traceback prints."""
    printed = run(
        "import traceback\n"
        "SECRET = os.environ['A_TOKEN'] = 'hidden value'\n"
        "with log.diverted(LOG):\n"
        "    try:\n"
        f"        {output}\n"
        "    except ValueError:\n"
        "        traceback.print_exc()\n",
        log,
    )

    assert ("hidden" in printed.log, "***" in printed.log) == (False, True)


def test_a_log_is_readable_by_its_owner_only(log: Path) -> None:
    """From the beginning, with any umask."""
    run("os.umask(0)\nwith log.diverted(LOG):\n    print(oct(LOG.stat().st_mode & 0o777))\n", log)

    assert (log.read_text(), log.parent.stat().st_mode & 0o777) == ("0o600\n", 0o700)


def test_an_existing_log_is_made_readable_by_its_owner_only(log: Path) -> None:
    """D5: with what it contains."""
    log.parent.mkdir()
    log.write_text("before\n")
    log.chmod(0o644)

    assert run("with log.diverted(LOG):\n    print('after')\n", log) == Printed("", "", "before\nafter\n")
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_killed_filter_process_fails_no_print(log: Path) -> None:
    """The copying process is killed, then the one that starts it again: the run and its children print as before."""
    printed = run(
        "import time\n"
        "def wait(condition):\n"
        "    end = time.monotonic() + 60\n"
        "    while not condition() and time.monotonic() < end: time.sleep(0.01)\n"
        "    return condition()\n"
        "def children(pid):\n"
        "    return [int(each) for each in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]\n"
        "with log.diverted(LOG) as user:\n"
        "    (parent,) = children(os.getpid())\n"
        "    copying = wait(lambda: children(parent))\n"
        "    os.kill(copying[0], 9)\n"
        "    wait(lambda: children(parent) not in ([], copying))\n"
        "    print('one', flush=True)\n"
        "    os.kill(parent, 9)\n"
        "    print('two', flush=True)\n"
        "    subprocess.run(['echo', 'three'], check=True)\n"
        "    print(wait(lambda: LOG.read_text() == 'one\\ntwo\\nthree\\n'), file=user)\n",
        log,
    )

    assert printed == Printed("True\n", "", "one\ntwo\nthree\n")


def test_a_killed_process_leaves_its_whole_log(log: Path) -> None:
    """The last lines before the kill are there when the filter process has ended."""
    run("with log.diverted(LOG):\n    os.write(1, b'last\\n'); os.kill(os.getpid(), 9)\n", log, code=-9)
    for _ in range(600):
        if log.read_text():
            break
        time.sleep(0.05)

    assert log.read_text() == "last\n"


def test_afterwards_only_warnings_of_libraries_reach_the_user(log: Path) -> None:
    """ML Metadata announces each connection, which belongs in the log."""
    announce = "logging.getLogger('absl').info('connected')"
    found = run(f"with log.diverted(LOG):\n    {announce}\n{announce}\nlogging.getLogger('absl').warning('slow')", log)

    assert ("connected" in found.log, "connected" in found.err, "slow" in found.err) == (True, False, True)
