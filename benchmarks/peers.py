"""Environments of the peers that Penstock is compared with: separate from ours, in `.tools`, not in our lock.

    benchmarks/locks/torch.txt ─► uv ─► .tools/peers/torch/bin/python

python -m benchmarks.peers             create all of them (torch includes CUDA libraries: 5.4 GB)
python -m benchmarks.peers grain       create one
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
LOCKS = HOME / "benchmarks" / "locks"
PEERS = HOME / ".tools" / "peers"
_STAMP = "ready"


def names() -> list[str]:
    """Returns the peers that have a lock."""
    return sorted(lock.stem for lock in LOCKS.glob("*.txt"))


def python_of(name: str, peers: Path = PEERS) -> Path | None:
    """Returns the interpreter of a peer's environment, if it is complete and matches the lock."""
    stamp = peers / name / _STAMP
    current = stamp.is_file() and stamp.read_text() == _digest(name)
    return peers / name / "bin" / "python" if current else None


def make(name: str, peers: Path = PEERS) -> Path:
    """Creates a peer's environment if it is missing."""
    found = python_of(name, peers)
    if found:
        return found
    home = peers / name
    # Written last, so that an incomplete environment is created again.
    (home / _STAMP).unlink(missing_ok=True)
    _uv("venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(home))
    _uv("pip", "sync", "--quiet", "--python", str(home / "bin" / "python"), str(LOCKS / f"{name}.txt"))
    (home / _STAMP).write_text(_digest(name))
    return home / "bin" / "python"


def _digest(name: str) -> str:
    return hashlib.sha256((LOCKS / f"{name}.txt").read_bytes()).hexdigest()


def _uv(*arguments: str) -> None:
    found = subprocess.run(["scripts/setup.sh", "--uv"], cwd=HOME, capture_output=True, text=True, check=True)
    subprocess.run([found.stdout.strip(), *arguments], cwd=HOME, check=True)


def main() -> int:
    """Creates the named environments, or all; returns how many failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names())}; none named: all")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names()))
    if unknown:
        parser.error(f"unknown peer {', '.join(unknown)}; known: {', '.join(names())}")
    return sum(not _tried(name) for name in arguments.names or names())


def _tried(name: str) -> bool:
    try:
        print(f"{name}: {make(name)}")
    except subprocess.CalledProcessError as error:
        print(f"{name}: not made, uv ended with code {error.returncode}; the others do without it")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
