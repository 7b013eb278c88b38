"""Writes the sample data of a task: `python -m data text [--out FOLDER] [--limit N]`."""

import importlib
import sys

MODULES = {
    "image": "digits",
    "text": "docstrings",
    "tensor": "digit_arrays",
    "tabular": "breast_cancer",
    "multimodal": "digit_questions",
}


def main(argv: list[str]) -> int:
    """Hands over to the generator of a task."""
    if not argv or argv[0] not in MODULES:
        print(f"usage: python -m data {{{','.join(MODULES)}}} [--out FOLDER] [--limit N]", file=sys.stderr)
        return 2
    code: int = importlib.import_module(f"data.{MODULES[argv[0]]}").main(argv[1:])
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
