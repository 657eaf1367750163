"""HTML and SVG from values: all that is not markup is escaped, in text and in attributes."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = {"input", "link", "meta"}
"""HTML elements that have no end tag."""


class Markup(str):
    """Text that is markup."""

    __slots__ = ()


def text(value: object) -> Markup:
    """The value as markup: unchanged if it is markup, else its escaped text."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def join(parts: Iterable[object]) -> Markup:
    """The concatenation of the parts as markup."""
    return Markup("".join(map(text, parts)))


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element: ``tag("th", "queries", scope="col")``.

    An attribute that is None or False is left out, and True stands alone; ``class_`` is class, ``aria_sort`` aria-sort.
    """
    head = name
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            head += f" {key}"
        elif value is not None and value is not False:
            head += f' {key}="{escape(str(value))}"'
    return Markup(f"<{head}>" if name in VOID else f"<{head}>{join(content)}</{name}>")
