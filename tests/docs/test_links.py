"""Links in the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "data/README.md"]
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")


def headings(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    lines = _BLOCK.sub("", page.read_text(encoding="utf-8")).splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """Relative links name a file of the repository, and their anchors a heading of it."""
    broken = []
    prose = _INLINE.sub("", _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8")))
    for link in _LINK.findall(prose):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in headings(target)):
            broken.append(link)

    assert broken == []
