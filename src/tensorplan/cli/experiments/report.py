"""``tensorplan report``."""

from __future__ import annotations

import click

from tensorplan.cli.options import as_json, output_file
from tensorplan.cli.terminal import DONE, print_json, say


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--out", default=None, callback=output_file, help="Page.  [default: DIR/report.html]", metavar="FILE")
@as_json
def report(folder: str, out: str | None, as_json: bool) -> int:
    """Write one self-contained HTML page on a sweep: tables, figures and every run."""
    from pathlib import Path

    from tensorplan.core.files import check_output
    from tensorplan.report.page import write_report
    from tensorplan.sweeps.store import Store

    with Store.open(folder) as store:
        page = out or Path(folder) / "report.html"
        check_output(page)
        path = write_report(store, page)
        if as_json:
            from tensorplan.sweeps.standings import comparisons, standings

            rows = store.rows()
            numbers = {"standings": standings(rows), "comparisons": comparisons(rows)}
            print_json({"report": str(path), "runs": len(rows), **numbers})
        else:
            say(str(path))
    return DONE
