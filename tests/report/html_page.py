"""A reader of the pages that reports and `penstock ui` write."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "wbr", "link", "input", "hr"}


class Page(HTMLParser):
    """The elements and the visible text of a page; fails if an element is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects an element."""
        self.elements.append((tag, dict(attrs)))
        self.text += "" if tag == "wbr" else " "
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects an SVG element that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Checks that elements close in order."""
        assert self._open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        """Collects visible text."""
        if not {"style", "script", "title"} & {*self._open}:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of all elements of one kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self) -> list[str | None]:
        """Returns the anchors of the sections, in order."""
        return [attributes.get("id") for attributes in self.all("section")]
