"""``tensorplan verify``."""

from __future__ import annotations

import dataclasses

import click

from tensorplan.cli.options import as_json, seed
from tensorplan.cli.terminal import DONE, FAILED, print_json, print_table, progress


@click.command()
@click.argument("problem")
@seed
@as_json
def verify(problem: str, seed: int, as_json: bool) -> int:
    """Check the claims about a problem (hard, exponential, constant-gap): realizability, norms, closed forms."""
    from tensorplan.paper.verify.families import verify as check

    with progress(1) as show:
        result = check(problem, seed=seed, progress=lambda done, total: show(0, f"{done:,} of {total:,} states"))
    if as_json:
        print_json({**dataclasses.asdict(result), "passed": result.passed})
    else:
        from tensorplan.report.tables import verification_table

        print_table(verification_table(result))
    return DONE if result.passed else FAILED
