"""``tensorplan sweep``."""

from __future__ import annotations

from typing import Any

import click

from tensorplan.cli.options import as_json, engines, export_file
from tensorplan.cli.shared import say_why, teller
from tensorplan.cli.terminal import DONE, FAILED, complain, print_json, print_table, progress


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--out", required=True, type=click.Path(file_okay=False), help="Folder for the results.")
@click.option("--resume", is_flag=True, help="Continue the sweep in the folder.")
@engines
@click.option("--export", default=None, callback=export_file, help="Write rows to .csv or .parquet.", metavar="FILE")
@as_json
def sweep(file: str, out: str, resume: bool, export: str | None, as_json: bool, **where: Any) -> int:
    """Run problems x planners x seeds from a YAML file; resumable."""
    from tensorplan.report.tables import standings_table
    from tensorplan.sweeps.suite import Suite
    from tensorplan.sweeps.sweep import sweep as run_sweep

    suite = Suite.read(file)
    with progress(len(suite.units())) as show:
        store = run_sweep(suite, out, resume=resume, progress=teller(show), **where)
    with store:
        rows = store.rows()
        if as_json:
            print_json({"folder": out, "stopped": store.stopped, "rows": rows})
        else:
            from tensorplan.sweeps.standings import standings

            print_table(standings_table(standings(rows), len(rows)))
        say_why(list(dict.fromkeys(row.note for row in rows if row.note is not None)))
        if export is not None:
            store.export(export)
        if store.stopped:
            return complain(f"interrupted; continue with: tensorplan sweep {file} --out {out} --resume", FAILED)
    return DONE
