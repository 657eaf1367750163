"""The code blocks of a Markdown page, run in order, and what they print held against what the page says.

``python``    runs, all blocks of a page in one namespace.  A block that prints is followed by a ``text`` block with
              just that, or has what it prints in comments: ``print(x)  # 3``.
``console``   lines that start with ``$ tensorplan`` run, the others are what the command prints, to stdout and stderr,
              or nothing where that is left out.  It exits with 0 unless the last line printed is its complaint.
``title=".."``  behind the name of any language: the block is a file of that name, in the folder where the page runs.
``sh``        is for the reader's shell (pip, make), and does not run.

``...`` stands for anything, as in doctest.  What differs from machine to machine is forgiven: seconds and nodes, in the
columns of tables with such a heading; numbers below 1e-6, which are all the same; and numbers of queries, since which
of two equally good θ comes first is rounding as well, where they differ by less than a half.

    python tests/docs/blocks.py docs/index.md      writes what was really printed into the page
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
SAID = re.compile(r"^(?:print\(.*)?\)\s+# (.*)$", re.MULTILINE)
TINY = re.compile(r"\b\d(?:\.\d+)?e-(?:0[7-9]|[1-9]\d)\b")
PHRASE = re.compile(r"\S+(?: \S+)*")
HEADING = re.compile(r"\b(?:(?P<machine>secs|seconds|nodes)|queries|questions)\b")
QUERIES = re.compile(r"\d[\d,]*(?= (?:distinct )?(?:queries|questions)\b)")
NUMBER = re.compile(r"\d[\d,]*")
SHELL = ("pip install ", "make ", "python ", "git ")


@dataclass(frozen=True)
class Block:
    """One fenced block: what it is, what it says, and where the page has it."""

    language: str
    title: str | None
    text: str
    line: int
    span: tuple[int, int]
    indent: str


@dataclass(frozen=True)
class Output:
    """What was printed where the page says something; ``span`` is where."""

    line: int
    said: str
    printed: str
    span: tuple[int, int]
    indent: str

    @property
    def agrees(self) -> bool:
        return same(self.said, self.printed)


class Page:
    """A page of documentation, and what came of running it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_text(encoding="utf-8")
        self.blocks = list(_blocks(self.source))
        self.outputs: list[Output] = []

    def run(self, folder: Path) -> list[Output]:
        """Everything that the page says is printed, with what is."""
        names: dict[str, object] = {"__name__": "__main__"}
        with _inside(folder):
            for block, following in zip(self.blocks, [*self.blocks[1:], None], strict=False):
                if block.title is not None:
                    Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                    Path(block.title).write_text(block.text, encoding="utf-8")
                elif block.language == "python":
                    self._python(block, following, names)
                elif block.language == "console":
                    self._console(block)
                elif block.language == "sh":
                    strange = [line for line in block.text.splitlines() if not line.startswith(SHELL)]
                    assert not strange, f"{self._at(block)}: not for the shell: {strange[0]}"
        return self.outputs

    def _at(self, block: Block) -> str:
        return f"{self.path.name}:{block.line}"

    def _python(self, block: Block, following: Block | None, names: dict[str, object]) -> None:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, str(self.path), "exec")
        with redirect_stdout(printed):
            exec(code, names)
        text = printed.getvalue()
        if following is not None and self._is_output(block, following):
            self.outputs.append(Output(following.line, following.text, text, following.span, following.indent))
            return
        said = SAID.findall(block.text)
        lines = text.splitlines()
        assert said or not lines, f"{self._at(block)} prints what the page does not show: {lines[0]}"
        if said:
            self.outputs.append(Output(block.line, "\n".join(said), "\n".join(lines[-len(said) :]), (0, 0), ""))

    def _is_output(self, block: Block, following: Block) -> bool:
        between = self.source[block.span[1] : following.span[0]]
        return following.language in ("", "text") and re.fullmatch(r"```\s*```(?:text)?\n", between) is not None

    def _console(self, block: Block) -> None:
        parts = re.split(r"^(\$ (?:.*\\\n)*.*\n)", block.text, flags=re.MULTILINE)
        assert not parts[0], f"{self._at(block)}: a console block starts with a command"
        printed = []
        for command, said in zip(parts[1::2], parts[2::2], strict=True):
            words = shlex.split(command[2:].replace("\\\n", " "))
            assert words[0] == "tensorplan", f"{self._at(block)}: only tensorplan runs here: {command}"
            code, text = _command(words[1:])
            if not said.strip() or not (text.splitlines() or [""])[-1].startswith("tensorplan: "):
                assert code == 0, f"{self._at(block)}: {command.strip()} exits with {code}: {text}"
            blank = said[len(said.rstrip("\n")) :]
            printed.append(command + (text.rstrip("\n") + blank if said.strip() else said))
        self.outputs.append(Output(block.line, block.text, "".join(printed), block.span, block.indent))

    def write(self) -> None:
        """Put what was printed into the page where that is not what it says."""
        text = self.source
        for output in reversed(self.outputs):
            if not output.agrees and output.span != (0, 0):
                body = textwrap.indent(output.printed.rstrip("\n") + "\n", output.indent)
                text = text[: output.span[0]] + body + text[output.span[1] :]
        self.path.write_text(text, encoding="utf-8")


def _blocks(source: str) -> Iterator[Block]:
    for found in FENCE.finditer(source):
        language, _, rest = found["info"].strip().partition(" ")
        title = TITLE.search(rest)
        text = textwrap.dedent(found["body"])
        line = source.count("\n", 0, found.start()) + 1
        yield Block(language, title and title[1], text, line, found.span("body"), found["indent"])


def _command(arguments: list[str]) -> tuple[int, str]:
    """The exit code and what is printed, without blanks at the ends of lines."""
    from tensorplan.cli.main import main

    printed, path = io.StringIO(), list(sys.path)
    sys.path[:] = [entry for entry in path if Path(entry).resolve() != Path.cwd()]  # as the installed command has it
    _forget(Path.cwd())
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    sys.path[:] = path
    _forget(Path.cwd())
    return code, re.sub(r" +$", "", printed.getvalue(), flags=re.MULTILINE)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder whose modules can be imported, at a terminal of 80 columns."""
    before, path, width = Path.cwd(), list(sys.path), os.environ.get("COLUMNS")
    os.chdir(folder)
    os.environ["COLUMNS"] = "80"
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width
        _forget(folder)


def _forget(folder: Path) -> None:
    """Modules that were imported from a folder are imported anew the next time."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


def same(said: str, printed: str) -> bool:
    """Whether that is what was said: exactly, but for ``...`` and what differs from machine to machine."""
    said, there = forgiving(said)
    printed, here = forgiving(printed)
    if not doctest.OutputChecker().check_output(said, printed, doctest.ELLIPSIS):
        return False
    close = [abs(a - b) <= max(2, min(a, b) / 2) for a, b in zip(there, here, strict=False)]
    return len(there) == len(here) and all(close)


def forgiving(text: str) -> tuple[str, list[int]]:
    """The text without what differs from machine to machine, and hence without the widths of columns; its queries."""
    lines, columns, queries = [], [], []

    def taken(found: re.Match[str]) -> str:
        queries.append(int(found[0].replace(",", "")))
        return "?"

    for line in TINY.sub("0", text).strip("\n").splitlines():
        phrases = list(PHRASE.finditer(line))
        headings = [(phrase.span(), found) for phrase in phrases if (found := HEADING.search(phrase[0]))]
        if len(phrases) > 1 and headings and not NUMBER.search(line):
            columns = headings
        elif not phrases:
            columns = []
        cells = []
        for phrase in phrases:
            above = [found for (start, end), found in columns if start < phrase.end() and phrase.start() < end]
            if columns is headings or not above:
                cells.append(QUERIES.sub(taken, phrase[0]))
            elif above[0]["machine"]:
                cells.append("?")
            else:
                cells.append(NUMBER.sub(taken, phrase[0], count=1).partition(" ± ")[0])
        lines.append(re.sub("─+", "─", " ".join(cells)))
    return "\n".join(lines) + "\n", queries


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with TemporaryDirectory() as folder:
            page = Page(Path(name).resolve())
            page.run(Path(folder))
            page.write()
            changed = sum(not output.agrees for output in page.outputs)
            print(f"{name}: {len(page.outputs)} outputs, {changed} written")
