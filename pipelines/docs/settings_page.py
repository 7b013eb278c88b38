"""Writes docs/settings.md from the settings' own descriptions: `python -m pipelines.docs.settings_page`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from components.settings.section import Section
from components.settings.tree import Settings
from pipelines.orchestration import graph

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
_HEAD = """# Settings

This page is generated from the code: `python -m pipelines.docs.settings_page`.

Set a value with `--set train.epochs=30`, or in `penstock.toml`; [the guide](guide.md#settings) shows both.
A change reruns the nodes that read the section, and every node that reads their outputs.
"""


def page() -> str:
    """Returns the whole page as Markdown."""
    return "\n".join([_HEAD, *(_section(name, type(getattr(Settings(), name))) for name in Settings.model_fields)])


def _section(name: str, section: type[Section]) -> str:
    rows = [f"| `{path}` | {default} | {text} |" for path, default, text in _rows(name, section)]
    return "\n".join(
        [
            f"## {name}",
            "",
            f"{_sentence(section.__doc__)} {_read_by(name)}",
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _rows(prefix: str, section: type[Section]) -> Iterator[tuple[str, str, str]]:
    """Yields path, default and description of every setting, those of inner sections last."""
    fields = section.model_fields.items()
    for name, field in fields:
        if _section_type(field) is None:
            yield f"{prefix}.{name}", _default(field), _description(field)
    for name, field in fields:
        inner = _section_type(field)
        if inner is not None:
            yield from _rows(f"{prefix}.{name}", inner)


def _section_type(field: FieldInfo) -> type[Section] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _read_by(section: str) -> str:
    readers = _readers(section)
    return f"Read by: {', '.join(readers)}." if readers else "In no cache key: a change reruns nothing."


def _readers(section: str) -> list[str]:
    with_extract = Settings.model_validate({"extract": {"model": "model.keras"}})
    return [node.id for node in graph.nodes(with_extract) if section in node.settings]


def _description(field: FieldInfo) -> str:
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    named = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
    return f"{field.description or ''}{named}".replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value is None:
        return "not set"
    if value in ("", (), {}):
        return "empty"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value.isprintable() else f"`{value!r}`"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
