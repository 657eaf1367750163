"""Terminal output: messages, JSON, tables, and a progress bar on stderr."""

from __future__ import annotations

import codecs
import io
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DONE, FAILED, USAGE = 0, 1, 2
"""Exit codes."""

SPELLED = {
    **{"±": "+-", "✓": "yes", "✗": "no", "–": "-", "−": "-", "…": "...", "·": "*", "×": "x", "‖": "|", "√": "sqrt "},
    **{"≤": "<=", "≥": ">=", "∞": "inf", "∩": "and", "∧": "min", "∈": "in", "²": "^2", "³": "^3", "₀": "0", "ᵀ": "^T"},
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta"},
    **{"λ": "lambda", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi"},
    **{"Δ": "Delta", "Π": "prod", "Σ": "sum", "Φ": "Phi", "Ω": "Omega"},
}
"""The ASCII spelling of characters that a terminal cannot encode."""

SPELLING = "tensorplan.spelled"
"""The name of the codec error handler that uses it."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(SPELLED.get(c) or c.encode("ascii", "backslashreplace").decode() for c in unknown), error.end


codecs.register_error(SPELLING, _spell)


def replace_unknown_characters() -> None:
    """Make stdout and stderr spell out characters that they cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SPELLING)


def say(text: str, *, err: bool = False) -> None:
    """Print a line and flush."""
    print(text, file=sys.stderr if err else sys.stdout, flush=True)


class MessageHandler(logging.Handler):
    """Prints the library's log messages to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        complain(record.getMessage(), DONE)


def complain(sentence: str, code: int) -> int:
    """The exit code, after printing the sentence to stderr."""
    say(f"tensorplan: {sentence}", err=True)
    return code


def interrupted() -> int:
    """The exit code after Ctrl-C, after a message."""
    return complain("interrupted; finished results are above", FAILED)


def print_json(data: Any) -> None:
    """Print plain data as JSON."""
    from tensorplan.core.jsonable import plain

    say(json.dumps(plain(data), indent=2, allow_nan=False))


def shorten(actions: Sequence[int], most: int = 60) -> str:
    """The first actions, and their number."""
    shown = " ".join(map(str, actions[:most]))
    return shown + (f" ... ({len(actions):,} in all)" if len(actions) > most else "")


def console(stderr: bool = False) -> Console:
    """The console for tables; characters it cannot encode are spelled out before columns get their widths."""
    from rich.console import Console
    from rich.text import Text

    class Spelling(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(text.encode(self.encoding, SPELLING).decode(self.encoding), **options)

    return Spelling(stderr=stderr)


def print_table(table: Table) -> None:
    """Print a table that fits the terminal."""
    from tensorplan.report.tables import fitted

    out = console()
    out.print(fitted(table, out.width))


@contextmanager
def progress(total: int) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr, if that is a terminal; yields show(done, text, below=None).

    ``below()`` returns something to show below the bar, and is called at most once a second.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda done, text, below=None: None
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from tensorplan.report.tables import fitted

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=screen)
    task = bar.add_task("", total=total)
    with Live(bar, console=screen, transient=True) as live:
        drawn = -1.0

        def show(done: int, text: str, below: Callable[[], Any] | None = None) -> None:
            nonlocal drawn
            bar.update(task, completed=done, description=text)
            if below is not None and time.monotonic() - drawn >= 1:
                live.update(Group(bar, fitted(below(), screen.width)))
                drawn = time.monotonic()

        yield show
