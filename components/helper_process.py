"""Commands of helper processes: Python that imports no file of the working folder or of the data folder.

`python -c` and `python -m` search the working folder first, so that a user's `json.py` would run instead of Python's.
"""

import os
import sys
from pathlib import Path

_CODE = str(Path(__file__).resolve().parents[1])  # what `components` and `pipelines` are imported from


def command(program: str, *arguments: str) -> list[str]:
    """Returns the command that runs a program in a new Python process, which finds modules where this one does."""
    # -I and -S: Python starts with its own library alone. Where else to search is appended, so it never hides Python's.
    # Without -S, Python itself would set the prefix of a virtual environment.
    start = f"import sys; sys.path += {_search_path()!r}; sys.prefix = sys.exec_prefix = {sys.prefix!r}; {program}"
    return [sys.executable, "-I", "-S", "-X", f"utf8={sys.flags.utf8_mode}", "-c", start, *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module as `python -m` does."""
    return command(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)", *arguments)


def script(path: str) -> list[str]:
    """Returns the command that runs a file as `python PATH` does, without its folder in the search path."""
    return command(f"import runpy; runpy.run_path({path!r}, run_name='__main__')")


def _search_path() -> list[str]:
    """Returns where this process finds modules, without the working folder, unless PYTHONPATH names it."""
    here = os.path.realpath(os.curdir)  # an entry may name it by a link, or as "."
    named = {os.path.realpath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    return [_CODE, *(entry for entry in sys.path if entry and (os.path.realpath(entry) != here or here in named))]
