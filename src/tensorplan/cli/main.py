"""The command line.

Data go to stdout, messages and progress to stderr.  Exit codes: 0 done, 1 failed or interrupted, 2 bad usage or input.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

import click

from tensorplan.cli.experiments.constants import constants
from tensorplan.cli.experiments.hardness import hardness
from tensorplan.cli.experiments.report import report
from tensorplan.cli.experiments.sweep import sweep
from tensorplan.cli.experiments.table1 import table1
from tensorplan.cli.experiments.verify import verify
from tensorplan.cli.planning.audit import audit
from tensorplan.cli.planning.check import check
from tensorplan.cli.planning.compare import compare
from tensorplan.cli.planning.diagnose import diagnose
from tensorplan.cli.planning.list import list_command
from tensorplan.cli.planning.plan import plan
from tensorplan.cli.planning.trace import trace
from tensorplan.cli.terminal import (
    DONE,
    FAILED,
    USAGE,
    MessageHandler,
    complain,
    interrupted,
    replace_unknown_characters,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tensorplan")
def app() -> None:
    """Online planning with a simulator and linear features, with certificates.

    Problems are named like hanoi/8 or layered/4x10:horizon=20, planners like uct or uct:simulations=500.  Gymnasium's
    environments are FrozenLake-v1:features=poly2 or minigrid:MiniGrid-Empty-8x8-v0:features=poly2.  Your own are
    mymodule:make_problem, ./mine.py:make_problem:size=5 or ./mine.py:MyPlanner, which imports and runs that code.
    """


for planning in (list_command, plan, check, audit, compare, trace, diagnose):
    app.add_command(planning)
for experiment in (constants, verify, hardness, table1, sweep, report):
    app.add_command(experiment)


def _warn_once(log: logging.Logger) -> Callable[..., None]:
    """Print each warning once: a comparison makes its problem for every seed."""
    said: set[str] = set()

    def show(message: object, *where: object) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            log.warning(f"warning: {text}")

    return show


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    from tensorplan.core.errors import TensorplanError

    replace_unknown_characters()
    with suppress(OSError):
        sys.path.append(os.getcwd())  # the user's own modules, after all others
    log = logging.getLogger("tensorplan")
    log.setLevel(logging.INFO)
    log.handlers = [MessageHandler()]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn_once(log)
            code = app.main(arguments, prog_name="tensorplan", standalone_mode=False) or DONE
    except TensorplanError as error:
        code = complain(str(error), USAGE)
    except click.UsageError as error:
        command = f" {error.ctx.info_name}" if error.ctx is not None and error.ctx.parent is not None else ""
        code = complain(f"{error.format_message().rstrip('.')} (see tensorplan{command} --help)", USAGE)
    except (click.Abort, KeyboardInterrupt):
        code = interrupted()
    except BrokenPipeError:
        sys.stderr.close()
        code = FAILED
    sys.exit(code)
