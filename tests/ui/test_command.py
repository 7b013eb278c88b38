"""The command `penstock ui`, as a user starts it."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

PENSTOCK = Path(sys.executable).with_name("penstock")


@pytest.mark.slow
def test_it_serves_until_ctrl_c(root: Path) -> None:
    """The address is printed when it answers; Ctrl-C ends it with exit code 0."""
    heard = ["env", "--default-signal=INT"]  # a shell's background job ignores Ctrl-C
    command = [*heard, str(PENSTOCK), "ui", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        assert started.stdout is not None
        url = started.stdout.readline().split()[0]
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
            content = answer.read().decode()
        started.send_signal(signal.SIGINT)
        left = started.stdout.read()
        code = started.wait(30)

    assert "2 pipelines" in content
    assert (code, left) == (0, "\n")


def test_it_starts_without_tensorflow() -> None:
    """Page and server import none of the large libraries."""
    script = (
        "import sys, pipelines.cli.ui, pipelines.ui.server\n"
        "print(sorted({'tensorflow', 'tfx', 'apache_beam', 'keras', 'pyarrow'} & {*sys.modules}))"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_wrong_flags(tmp_path: Path) -> None:
    """A folder that is not there, and an address that is not of this machine, are errors of the settings."""
    for arguments, expected in (
        ([str(tmp_path / "none")], "no such folder"),
        ([str(tmp_path), "--host", "0.0.0.0"], "expected 127.0.0.1"),  # noqa: S104
    ):
        done = subprocess.run([str(PENSTOCK), "ui", *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr
