"""``tensorplan check``: verify a file that ``plan --proof`` has written."""

from __future__ import annotations

import click

from tensorplan.cli.options import as_json
from tensorplan.cli.terminal import DONE, console, print_json, progress


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@as_json
def check(file: str, as_json: bool) -> int:
    """Verify a proof that plan --proof has written: every row is derived again, by code independent of the planner."""
    from tensorplan.proofs import Proof
    from tensorplan.proofs import check as check_proof

    with progress(1) as show:
        show(0, f"reading {file}")
        proof = Proof.load(file)
        show(0, f"checking {proof!r}")
        checked = check_proof(proof)
    from tensorplan.report.certificates import checked_lines, checked_row

    if as_json:
        print_json({"file": file, **checked_row(proof, checked)})
    else:
        for line in checked_lines(proof, checked):
            console().print(line, highlight=False, markup=False, soft_wrap=True)
    return DONE
