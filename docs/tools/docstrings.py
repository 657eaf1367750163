"""Docstrings as Markdown: roles become links, doctests become code, and formulas stay as they are written.

The docstrings say v*(s) = <φ(s), θ*>, in which Markdown would see emphasis and an element of HTML.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Alias, Extension, Object

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(~?)([\w.]+)`")
CODE = re.compile(r"(``.+?``|`[^`]+`|<autoref .*?</autoref>)", re.DOTALL)
EMPHASIS = re.compile(r"(?<!\S)(\*{1,2})(?=\w)([^*]+?)(?<=[\w.])\1(?![\w*])")


class Docstrings(Extension):
    """Rewrites every docstring once the package is loaded."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """The package with docstrings that are Markdown."""
        _visit(pkg, pkg.path)


def _visit(item: Object, module: str) -> None:
    if item.docstring is not None:
        item.docstring.value = markdown(item.docstring.value, module)
    for member in item.members.values():
        if not isinstance(member, Alias):
            _visit(member, member.path if member.is_module else module)


def markdown(text: str, module: str) -> str:
    """A docstring of that module as Markdown."""
    text = re.sub(r"^(>>> .*(?:\n(?!\n).*)*)", r"```pycon\n\1\n```", text, flags=re.MULTILINE)
    parts, fenced = [], False
    for paragraph in re.split(r"(\n\s*\n)", text):
        fenced = fenced or paragraph.startswith("```")
        parts.append(paragraph if fenced or paragraph.startswith("    ") else _prose(paragraph, module))
        fenced = fenced and not paragraph.endswith("```")
    return "".join(parts)


def _prose(text: str, module: str) -> str:
    text = ROLE.sub(lambda role: _link(role[2], bool(role[1]), module), text)
    parts = CODE.split(text)
    parts[::2] = [_escape(part) for part in parts[::2]]
    return "".join(parts)


def _link(name: str, short: bool, module: str) -> str:
    target = name if name.startswith("tensorplan.") else f"{module}.{name}"
    shown = name.rpartition(".")[2] if short else name
    return f'<autoref optional identifier="{target}"><code>{shown}</code></autoref>'


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("[", r"\[")
    text = EMPHASIS.sub(lambda found: found[0].replace("*", "\0"), text)
    text = re.sub(r"^(\s*)\* ", "\\1\0 ", text, flags=re.MULTILINE)
    return text.replace("*", r"\*").replace("\0", "*")
