"""What goes to the terminal: one sentence, JSON, tables, and a progress bar on stderr."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, USAGE = 0, 1, 2
"""Exit codes."""


class Talk(logging.Handler):
    """What the library has to say goes to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        complain(record.getMessage(), DONE)


def complain(sentence: str, code: int) -> int:
    """The exit code, after the sentence was said."""
    click.echo(f"tensorplan: {sentence}", err=True)
    return code


def interrupted() -> int:
    """The exit code after Ctrl-C, after saying so."""
    return complain("interrupted; what was finished is above", FAILED)


def print_json(data: Any) -> None:
    """Print plain data as JSON."""
    from tensorplan.lab.plain import plain

    click.echo(json.dumps(plain(data), indent=2, allow_nan=False))


def shorten(actions: Sequence[int], most: int = 60) -> str:
    """The first actions, and how many there are."""
    shown = " ".join(map(str, actions[:most]))
    return shown + (f" ... ({len(actions):,} in all)" if len(actions) > most else "")


def console(stderr: bool = False) -> Console:
    """Where tables are printed."""
    from rich.console import Console

    return Console(stderr=stderr)


@contextmanager
def progress(total: int) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr where that is a terminal; yields show(done, text).

    A third argument makes something to show below, and is called once a second at most.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda done, text, below=None: None
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=screen)
    task = bar.add_task("", total=total)
    with Live(bar, console=screen, transient=True) as live:
        drawn = -1.0

        def show(done: int, text: str, below: Callable[[], Any] | None = None) -> None:
            nonlocal drawn
            bar.update(task, completed=done, description=text)
            if below is not None and time.monotonic() - drawn >= 1:
                live.update(Group(bar, below()))
                drawn = time.monotonic()

        yield show
