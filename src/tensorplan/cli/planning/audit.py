"""``tensorplan audit``: how much does a policy lose at most?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorplan.cli.options import as_json, output_file, seed
from tensorplan.cli.terminal import DONE, console, interrupted, print_json, print_table, progress

if TYPE_CHECKING:
    from tensorplan.evaluation.audit import Audit
    from tensorplan.hindsight.bracket import PolicyBounds


@click.command()
@click.argument("problem")
@click.option("--planner", required=True, help="Planner whose policy is audited; greedy: that of the values.")
@click.option("--value", default=None, help="Guess of v*: theta.npy, module:function or ./file.py:function.")
@click.option("--budget", default=None, type=click.IntRange(min=1), help="Queries in all.  [default: 1,000,000]")
@click.option("--time-limit", default=None, type=float, metavar="SECONDS", help="End after so long.")
@click.option("--width", default=None, type=click.FloatRange(min=0), help="End when upper - lower is at most this.")
@click.option("--confidence", default=0.95, show_default=True, type=float, help="That the bracket holds.")
@click.option("--out", default=None, callback=output_file, help="HTML page to write.", metavar="FILE")
@seed
@as_json
def audit(
    problem: str,
    planner: str,
    value: str | None,
    budget: int | None,
    time_limit: float | None,
    width: float | None,
    confidence: float,
    out: str | None,
    seed: int,
    as_json: bool,
) -> int:
    """Bracket what a policy earns and what the best one could: how much does it lose at most?

    The bracket rests on the simulator and its declared range of returns alone, whatever the features.  --value is a
    guess of v*; the better it is, the narrower the bracket.  By default values are fitted first.
    """
    from tensorplan.evaluation.audit import BUDGET, GREEDY
    from tensorplan.evaluation.audit import audit as audit_policy
    from tensorplan.planners.registry import make_planner
    from tensorplan.problems.catalog import instance

    task, guess = instance(problem, seed), None if value is None else _value(value)
    config = planner if planner == GREEDY else make_planner(planner)
    with progress(BUDGET if budget is None else budget) as show:
        show(0, f"{planner}: fitting values")

        def tell(bounds: PolicyBounds, queries: int) -> None:
            show(queries, f"{planner}: lower {bounds.lower:.5g}, upper {bounds.upper:.5g}, gap {bounds.gap:.3g}")

        result = audit_policy(
            task, config, guess, confidence, budget, seed, width=width, time_limit=time_limit, progress=tell
        )
    if as_json:
        print_json({**result.as_json(), "seed": seed})
    else:
        _show(result)
    if out is not None:
        from tensorplan.report.audit_page import write_audit_page

        write_audit_page(result, out)
    return interrupted() if result.status == "interrupted" else DONE


def _value(text: str) -> Any:
    """A value function, or θ from a file."""
    from tensorplan.core.errors import BadInput
    from tensorplan.core.user_code import find, is_user_code

    if text.endswith(".npy"):
        return _theta(text)
    if is_user_code(text):
        return find(text)
    raise BadInput(f"--value must be theta.npy, module:function or ./file.py:function, got {text!r}")


def _theta(path: str) -> Any:
    import numpy as np

    from tensorplan.core.errors import BadInput

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not an array of NumPy"
        raise BadInput(f"cannot read {path!r}: {why}") from None


def _show(result: Audit) -> None:
    """Print the bracket, the sentence, and where the gap comes from."""
    from tensorplan.report.tables import audit_table, blame_table

    print_table(audit_table(result))
    console().print(result.advice or result.sentence, highlight=False, markup=False, soft_wrap=True)
    if result.states or len(result.stages) > 1:
        print_table(blame_table(result))
