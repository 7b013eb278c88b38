"""Forks commands from a process that has imported TensorFlow, TFX and Beam, which takes 6 to 8 seconds otherwise.

tests ── code, arguments, environment, folder; output, status ──► server ── fork ──► keeper ── fork ──► command
  ▲                                                                                    │
  └─────────────────────────────── process id, then exit code ─────────────────────────┘

The server only imports: no TensorFlow operation runs before the fork, and none of this project's modules is loaded.
A forked command is what a new `python -c CODE ARGUMENTS` would be: its own process group, default signal handlers,
the given environment and folder, its output in the given file, and its exit code after threads and exit handlers.
It differs in one thing: Python draws its hash seed when it starts, so that all commands of a server have the server's.
test_ingest.py therefore starts new processes with two seeds, and test_image.py reruns a root of another process.
"""

import atexit
import gc
import json
import os
import signal
import socket
import sys
import threading
from types import ModuleType
from typing import Any

IMPORTED = (
    "apache_beam",
    "filelock",
    "jinja2",
    "keras",
    "ml_metadata.metadata_store.metadata_store",
    "rich.live",
    "tensorflow",
    "tensorflow_data_validation",
    "tensorflow_model_analysis",
    "tensorflow_transform.beam",
    "tfx.orchestration.portable.launcher",
    "tfx.v1",
    "typer",
)


def serve(control: socket.socket) -> dict[str, Any]:
    """Forks one command per request until the other side closes; returns the request in each command's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    while True:
        message, (output, status), _, _ = socket.recv_fds(control, 1 << 20, 2)
        if os.fork() == 0:
            control.close()
            keep(socket.socket(fileno=status))
            become_command(output)
            return json.loads(message)
        os.close(output)
        os.close(status)


def keep(status: socket.socket) -> None:
    """Returns in a new process; this one sends that one's id and, when it has ended, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        status.close()
        return
    status.send(str(command).encode())
    _, ended = os.waitpid(command, 0)
    status.send(str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def become_command(output: int) -> None:
    """Gives this process what a shell gives a command: a process group, signal handlers, input and output."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def run(request: dict[str, Any]) -> None:
    """Runs the request's code as Python's main module."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["-c", *request["arguments"]]
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        exec(compile(request["code"], "<string>", "exec"), main.__dict__)  # noqa: S102 - as `python -c` does
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            end(ended.code or 0)
        raise


def end(code: int) -> None:
    """Ends the process as Python does, but without taking every imported module apart, which takes about 2 seconds."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in IMPORTED:
        __import__(name)
    gc.freeze()  # a collection in a command would otherwise visit, and so copy, all that is imported here
    try:
        asked = serve(socket.socket(fileno=int(sys.argv[1])))
    except ValueError:  # no more file descriptors arrive: the tests have ended
        sys.exit()
    run(asked)
