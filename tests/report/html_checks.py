"""Checks of every page of chronode: well-formed, self-contained, safe whatever the names in the data are."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}
ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


class _Checker(HTMLParser):
    """Every element is closed in order; names and attributes are collected."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)


def check_html(text: str) -> str:
    """Checks a page or a piece of one; gives the text that a reader sees."""
    checker = _Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open, checker.open
    # Nothing is loaded: links lead to places of the page itself or to nothing.
    for name, value in checker.attributes:
        assert not name.startswith("on"), (name, value)
        if name in ("src", "href", "srcset", "data", "action", "xlink:href"):
            assert value.startswith(("#", "data:")), (name, value)
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    assert "url(" not in styles
    assert "@import" not in styles
    assert not {"img", "iframe", "object", "embed", "form", "base"} & set(checker.tags)
    seen = "".join(checker.text)
    for number in re.findall(r'\b(?:d|x|y|cx|cy|width|height|points)="([^"]*)"', text):
        assert "nan" not in number and "inf" not in number, number
    return seen
