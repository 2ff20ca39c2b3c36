"""Checks that a page is well-formed HTML, stands alone and runs nothing."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr"}
SELF_CLOSED = {"path", "use", "image", "rect", "circle"}
"""Elements of SVG."""


class Page(HTMLParser):
    """A parsed page; elements that are not closed in order, repeated ids and dead links fail."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        """Tag, name and value."""
        self._open: list[str] = []
        self._parts: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        """What is read on the page, white space as one blank."""
        return " ".join(" ".join(self._parts).split())

    def values(self, name: str, tag: str | None = None) -> list[str]:
        return [value for of, key, value in self.attributes if key == name and tag in (None, of)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSED, tag
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open
        assert self._open.pop() == tag, f"{tag} at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self._parts.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def checked_page(text: str) -> Page:
    """Return a page that runs no script, loads nothing, and whose ids and references are right."""
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert "script" not in page.tags
    assert [name for _, name, _ in page.attributes if name.startswith("on")] == []
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    loaded = page.values("src") + [value for name in ("href", "xlink:href") for value in page.values(name)]
    assert {value.partition(":")[0] for value in loaded if not value.startswith("#")} <= {"data"}
    assert {value[1:] for value in loaded if value.startswith("#")} <= set(ids)
    assert "url(" not in text.replace("url(#", "")
    return page
