"""The command line: flags in, one call, rows out.

Data goes to stdout, talk and progress to stderr.  Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage or input.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tensorplan.cli.terminal import (
    DONE,
    FAILED,
    USAGE,
    Talk,
    complain,
    console,
    interrupted,
    print_json,
    print_table,
    progress,
    say,
    shorten,
    speak_any_language,
)

if TYPE_CHECKING:
    from tensorplan.core import Episode, Problem, Run
    from tensorplan.evaluation.row import Row
    from tensorplan.evaluation.verdict import Verdict
    from tensorplan.paper.hardness import Hardness
    from tensorplan.planners.tensorplan.trace import Iteration
    from tensorplan.sweeps.sweep import Progress


def _file(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if it can be written to: said before the work, not after it."""
    from tensorplan.core.files import check_output

    if path is not None:
        check_output(path)
    return path


def _picture(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if a picture can be drawn there."""
    if path is not None:
        from tensorplan.report.figures import check_picture

        check_picture(path)
    return path


def _export(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if rows can be exported to it."""
    if path is not None:
        from tensorplan.sweeps.columns import check_export

        check_export(path)
    return path


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
seed = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed.")
budget = click.option("--budget", default=None, type=click.IntRange(min=0), help="Queries per episode.")
max_steps = click.option(
    "--max-steps",
    default=100_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Cut episodes of problems without a horizon off.",
)

kept = click.option(
    "--out", default=None, type=click.Path(file_okay=False), help="Keep measurements there, to go on later."
)


def engines(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where units of work are done."""
    where = click.Choice(["local", "ray"])
    at_a_time = click.IntRange(min=1)
    for option in (
        click.option("--address", default=None, help="Of a running Ray cluster."),
        click.option("--workers", default=None, type=at_a_time, help="Units at a time.  [default: processors]"),
        click.option("--engine", default="local", show_default=True, type=where, help="Where to run."),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tensorplan")
def app() -> None:
    """Online planning with a simulator and linear features, with a proof attached.

    Problems are named like hanoi/8 or layered/4x10:horizon=20, planners like uct or uct:simulations=500.  Your own are
    mymodule:make_problem, ./mine.py:make_problem:size=5 or ./mine.py:MyPlanner, which imports and runs that code.
    """


@app.command("list")
@as_json
@seed
def list_command(as_json: bool, seed: int) -> None:
    """Problems and planners, one line each."""
    from tensorplan.planners.registry import PLANNERS
    from tensorplan.problems.catalog import CATALOG

    options = {
        name: {f.name: f.default for f in dataclasses.fields(planner) if f.init and f.name != "callback"}
        for name, planner in PLANNERS.items()
    }
    if as_json:
        problems = [{"name": n, "example": e.example, "about": e.about} for n, e in CATALOG.items()]
        planners = [{"name": n, "options": options[n], "about": p.about} for n, p in PLANNERS.items()]
        return print_json({"problems": problems, "planners": planners})
    from tensorplan.report.tables import planners_table, problems_table

    print_table(problems_table(CATALOG))
    print_table(planners_table((n, options[n], p.about) for n, p in PLANNERS.items()))


@app.command()
@click.argument("problem")
@click.option("--planner", default="tensorplan", show_default=True, help="Who plans.")
@click.option("--episodes", default=1, show_default=True, type=click.IntRange(min=1), help="How often.")
@click.option("--delta", default=None, type=float, help="The loss to aim for, and to judge by.")
@click.option("--trace", default=None, callback=_file, help="Write the trace as JSON.", metavar="FILE")
@click.option("--proof", default=None, callback=_file, help="Write the proof of the first episode.", metavar="FILE")
@budget
@max_steps
@seed
@as_json
def plan(
    problem: str,
    planner: str,
    episodes: int,
    delta: float | None,
    trace: str | None,
    proof: str | None,
    budget: int | None,
    max_steps: int,
    seed: int,
    as_json: bool,
) -> int:
    """Run a planner on a problem and show what it did."""
    from tensorplan.core.errors import TensorplanError
    from tensorplan.evaluation.estimates import query_cost
    from tensorplan.loop import run
    from tensorplan.planners.registry import make_planner
    from tensorplan.problems.catalog import instance

    task, config = instance(problem, seed), make_planner(planner)
    if proof is not None and not _proves(config):
        raise click.UsageError(f"{config!r} gives no proofs: TensorPlan does, in the modes exact and certified")
    ended: TensorplanError | None = None
    with progress(episodes) as show:
        config = _configured(config, delta, trace is not None, lambda text: show(0, f"{planner}: {text}"))

        def step(episode: int, steps: int, queries: int) -> None:
            show(episode, f"{planner}: episode {episode}, step {steps:,}, {queries:,} queries")

        try:
            played = run(
                task, config, episodes, seed, budget=budget, learn=delta is None, max_steps=max_steps, progress=step
            )
        except TensorplanError as error:
            if error.run is None or not error.run.episodes:
                raise
            played, ended = error.run, error
    if not played.episodes:
        raise KeyboardInterrupt  # before the first query: there is nothing to show
    optimal = _optimal(task, played, thorough=delta is not None)
    verdict = None if delta is None or None in optimal else _verdict(task, config, played, delta)
    if as_json:
        rows = [_episode_row(episode, best) for episode, best in zip(played.episodes, optimal, strict=True)]
        soundness = None if verdict is None else dataclasses.replace(verdict, run=None)
        data = {"problem": task.name, "planner": played.planner, "seed": seed, "episodes": rows}
        print_json({**data, "query_cost": query_cost(played), "unmetered": task.unmetered, "soundness": soundness})
    else:
        _show_run(task, played, optimal, verdict)
    if trace is not None:
        _write_traces(trace, played)
    written = proof is None or _write_proof(proof, played)
    if ended is not None:
        raise ended
    return interrupted() if played.interrupted else DONE if written else USAGE


@app.command()
@click.argument("file", type=click.Path(dir_okay=False))
@as_json
def check(file: str, as_json: bool) -> int:
    """Verify what plan --proof has written: every row is derived again, by code that is not the planner's."""
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


@app.command()
@click.argument("problem")
@click.option("--planners", default="tensorplan,uct", show_default=True, help="Names separated by commas.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(min=1), help="How many instances.")
@budget
@max_steps
@seed
@as_json
def compare(
    problem: str, planners: str, seeds: int, budget: int | None, max_steps: int, seed: int, as_json: bool
) -> int:
    """Planners side by side on the same instances: regret and queries, with intervals."""
    from tensorplan.evaluation.compare import compare as compare_planners

    names = [name.strip() for name in planners.split(",") if name.strip()]
    if any(name.startswith("tensorplan") for name in names):
        _warm_up()
    with progress(seeds * len(names)) as show:

        def step(rows: Sequence[Row], total: int, name: str) -> None:
            regrets = [r.regret for r in rows if r.planner == name and r.regret is not None]
            so_far = f", regret so far {sum(regrets) / len(regrets):.4g}" if regrets else ""
            show(len(rows), f"{name} on {problem}{so_far}")

        result = compare_planners(problem, names, seeds, seed, budget=budget, max_steps=max_steps, progress=step)
    if as_json:
        print_json(result.as_json())
    elif result.rows:
        from tensorplan.report.tables import comparison_table

        print_table(comparison_table(result))
    _say_why(result.notes)
    if result.error is not None:
        raise result.error
    return interrupted() if result.stopped else DONE


@app.command()
@click.option("--A", "actions", required=True, type=int, help="Actions.")
@click.option("--d", "dimension", required=True, type=int, help="Features.")
@click.option("--H", "horizon", required=True, type=int, help="Horizon.")
@click.option("--delta", required=True, type=float, help="The loss that is allowed.")
@click.option("--B", "bound", required=True, type=float, help="The bound on the norm of theta*.")
@click.option("--measure/--no-measure", default=True, show_default=True, help="Also run the modes that can be run.")
@seed
@as_json
def constants(
    actions: int, dimension: int, horizon: int, delta: float, bound: float, measure: bool, seed: int, as_json: bool
) -> int:
    """The paper's constants and the queries they imply, beside what the other modes ask for."""
    from tensorplan.paper.mode_costs import CASES, case_records, mode_costs
    from tensorplan.planners.printed.constants import constants as paper_constants

    printed = paper_constants(actions, dimension, horizon, delta, bound)
    records: list[dict[str, Any]] = []
    if measure:
        _warm_up()
        with progress(1) as show:
            show(0, "measuring on random layered problems")
            records = case_records(mode_costs(printed, seed))
    missing = [f"{mode} mode, {what}" for mode, what, *_ in CASES[len(records) :]] if measure else []
    if as_json:
        totals = {"init_queries": printed.init_queries, "call_queries": printed.call_queries}
        constants_ = {**dataclasses.asdict(printed), **totals}
        print_json({"constants": constants_, "measured": records, "not_measured": missing})
    else:
        from tensorplan.report.tables import constants_table, mode_costs_table

        print_table(constants_table(printed))
        if records:
            print_table(mode_costs_table(printed, records))
        _show_missing(missing)
    return interrupted() if missing else DONE


@app.command()
@click.argument("problem")
@seed
@as_json
def verify(problem: str, seed: int, as_json: bool) -> int:
    """Check what is claimed of a problem (hard, exponential, constant-gap): realizability, norms, closed forms."""
    from tensorplan.paper.verify.families import verify as check

    with progress(1) as show:
        result = check(problem, seed=seed, progress=lambda done, total: show(0, f"{done:,} of {total:,} states"))
    if as_json:
        print_json({**dataclasses.asdict(result), "passed": result.passed})
    else:
        from tensorplan.report.tables import verification_table

        print_table(verification_table(result))
    return DONE if result.passed else FAILED


@app.command()
@click.option("--p", "sizes", default="16:64", show_default=True, help="Dimensions: 16, 16:96 or 16:96:8.")
@click.option("--K", "rounds", default=None, type=click.IntRange(min=1), help="Rounds of the game.  [default: p]")
@click.option("--strategies", default="uniform,best", show_default=True, help="Names separated by commas.")
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(min=1), help="Games per point.")
@click.option("--plot", default=None, callback=_picture, help="Also draw it, to a file.", metavar="FILE")
@kept
@engines
@seed
@as_json
def hardness(
    sizes: str,
    rounds: int | None,
    strategies: str,
    seeds: int,
    plot: str | None,
    out: str | None,
    seed: int,
    as_json: bool,
    **where: Any,
) -> int:
    """Measured cost of search in the abstract game, against the lower bound; planners on the hard MDPs."""
    from tensorplan.paper.hardness import HardnessExperiment, parse_sizes
    from tensorplan.paper.hardness import hardness as measure

    names = tuple(name.strip() for name in strategies.split(",") if name.strip())
    experiment = HardnessExperiment(tuple(parse_sizes(sizes)), names, rounds, seeds, seed)
    _warm_up()
    with progress(len(experiment.units())) as show:
        result = measure(experiment, out, progress=_teller(show), **where)
    if as_json:
        from tensorplan.report.tables import attempt_record, cost_record

        print_json(
            {
                "costs": [cost_record(cost) for cost in result.costs],
                "growth": result.growth,
                "planners": [attempt_record(row) for row in result.attempts],
                "not_measured": result.missing,
            }
        )
    else:
        _show_hardness(result)
    if plot is not None and result.costs:
        from tensorplan.report.figures import hardness_figure

        hardness_figure(result, plot)
    return _ended(result.stopped)


def _teller(show: Callable[..., None]) -> Callable[[Progress], None]:
    """Shows how far an experiment is, and what it has found so far."""
    from tensorplan.report.tables import so_far_table

    def tell(p: Progress) -> None:
        left = "" if p.remaining is None else f", {p.remaining:,.0f} s left"
        show(p.done, f"{p.rate:.2f} units/s{left}, {p.failures} failed", lambda: so_far_table(p.rows))

    return tell


def _ended(stopped: str | None) -> int:
    """The exit code of an experiment that ran to its end or was stopped, after saying so."""
    if stopped is None:
        return DONE
    return interrupted() if stopped == "interrupted" else complain(stopped, FAILED)


def _show_hardness(result: Hardness) -> None:
    """The tables that have something in them, and what was not measured."""
    from tensorplan.report.tables import attempts_table, costs_table, growth_sentences

    if result.costs:
        print_table(costs_table(result))
    for sentence in growth_sentences(result):
        console().print(sentence, highlight=False, soft_wrap=True)
    if result.attempts:
        print_table(attempts_table(result))
    _show_missing(result.missing)


def _show_missing(missing: Sequence[str]) -> None:
    """What Ctrl-C left unmeasured."""
    if missing:
        console().print(f"not measured: {'; '.join(missing)}", highlight=False, soft_wrap=True)


@app.command()
@click.option("--quick", is_flag=True, help="Small sizes and few seeds: minutes instead of hours.")
@click.option("--rows", default=None, help="Some rows only, like 1,4,6.")
@click.option("--plot", default=None, callback=_picture, help="Also draw it, to a file.", metavar="FILE")
@kept
@engines
@seed
@as_json
def table1(
    quick: bool, rows: str | None, plot: str | None, out: str | None, seed: int, as_json: bool, **where: Any
) -> int:
    """The paper's Table 1, measured: which classes are tractable, which are not.

    Exits with 1 when a verdict is not the paper's.
    """
    from tensorplan.paper.table1 import Table1Experiment, rows_of
    from tensorplan.paper.table1 import table1 as measure

    experiment = Table1Experiment(rows_of(None if rows is None else _whole_numbers("--rows", rows)), quick, seed)
    _warm_up()
    with progress(len(experiment.units())) as show:
        result = measure(experiment, out, progress=_teller(show), **where)
    if as_json:
        print_json(result.as_json())
    else:
        from tensorplan.report.tables import table1_table

        print_table(table1_table(result))
    if plot is not None:
        from tensorplan.report.figures import table1_figure

        table1_figure(result, plot)
    return _ended(result.stopped) or (DONE if result.agrees else FAILED)


@app.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--out", required=True, type=click.Path(file_okay=False), help="The folder of the results.")
@click.option("--resume", is_flag=True, help="Go on with what is in the folder.")
@engines
@click.option("--export", default=None, callback=_export, help="Write the rows to .csv or .parquet.", metavar="FILE")
@as_json
def sweep(file: str, out: str, resume: bool, export: str | None, as_json: bool, **where: Any) -> int:
    """Run problems x planners x seeds from a YAML file; survives anything."""
    from tensorplan.report.tables import standings_table
    from tensorplan.sweeps.suite import Suite
    from tensorplan.sweeps.sweep import sweep as run_sweep

    suite = Suite.read(file)
    with progress(len(suite.units())) as show:
        store = run_sweep(suite, out, resume=resume, progress=_teller(show), **where)
    with store:
        rows = store.rows()
        if as_json:
            print_json({"folder": out, "stopped": store.stopped, "rows": rows})
        else:
            from tensorplan.sweeps.standings import standings

            print_table(standings_table(standings(rows), len(rows)))
        _say_why(list(dict.fromkeys(row.note for row in rows if row.note is not None)))
        if export is not None:
            store.export(export)
        if store.stopped:
            return complain(
                f"interrupted; what is finished is kept: tensorplan sweep {file} --out {out} --resume", FAILED
            )
    return DONE


@app.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--out", default=None, callback=_file, help="The page.  [default: DIR/report.html]", metavar="FILE")
@as_json
def report(folder: str, out: str | None, as_json: bool) -> int:
    """Write one page on a sweep: tables, pictures, every run; it needs no network."""
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


@app.command()
@click.argument("problem")
@click.option("--out", default=None, callback=_file, help="Where to write the page.", metavar="FILE")
@click.option("--delta", default=None, type=float, help="The loss to aim for.")
@seed
@as_json
def trace(problem: str, out: str | None, delta: float | None, seed: int, as_json: bool) -> int:
    """Run TensorPlan and write a page that steps through what it did, for a browser."""
    from tensorplan.core.errors import NotRealizable
    from tensorplan.evaluation.row import traces
    from tensorplan.loop import run
    from tensorplan.planners.tensorplan.planner import TensorPlan
    from tensorplan.problems.catalog import instance
    from tensorplan.report.trace_page import write_trace_page

    if out is None and not as_json:
        raise click.UsageError("say where the page shall go (--out x.html), or ask for the trace itself (--json)")
    task, refuted = instance(problem, seed), None
    with progress(1) as show:
        config = _configured(TensorPlan(), delta, True, lambda text: show(0, text))
        try:
            played = run(task, config, seed=seed)
        except NotRealizable as error:
            if error.run is None or not error.run.episodes:
                raise
            played, refuted = error.run, error
    if not played.episodes:
        raise KeyboardInterrupt  # before the first query: there is nothing to show
    recorded, certificate = played.episodes[0].trace, played.episodes[0].certificate
    if as_json:
        (told,) = traces(played.episodes)
        print_json({"problem": task.name, "planner": played.planner, "seed": seed, "trace": told})
    if out is not None:
        path = write_trace_page(task.name, recorded, out, certificate=certificate)
        n = len(recorded.iterations)
        say(f"{n} step{'' if n == 1 else 's'}: {path.resolve().as_uri()}", err=True)
    if refuted is not None:
        raise refuted
    return interrupted() if played.interrupted else DONE


@app.command()
@click.argument("env")
@click.option("--features", default=None, help="A spec such as poly2.  [default: the problem's own]")
@click.option("--kind", default=None, type=click.Choice(["v", "q"]), help="Of which values.  [default: v, or both]")
@click.option("--horizon", default=None, type=click.IntRange(min=1), help="Of a Gymnasium environment.")
@click.option("--discount", default=None, type=click.FloatRange(0, 1, min_open=True), help="The discount.")
@click.option("--bound", default=None, type=click.FloatRange(0, min_open=True), help="B, to be judged, or to try with.")
@click.option("--budget", default=100_000, show_default=True, type=click.IntRange(min=0), help="Queries of a trial.")
@seed
@as_json
def diagnose(env: str, kind: str | None, budget: int, seed: int, as_json: bool, **options: Any) -> int:
    """How far features are from realizing v* or q*, and what follows; ENV is like hanoi/6 or FrozenLake-v1."""
    from tensorplan.diagnosis.diagnosis import diagnose as examine
    from tensorplan.diagnosis.inputs import named

    with progress(1) as show:
        show(0, f"opening {env}")
        problem = named(env, kind=kind, seed=seed, **options)
        result = examine(problem, kind=kind, budget=budget, seed=seed, progress=lambda text: show(0, text))
    if as_json:
        print_json(result.as_json())
    else:
        from tensorplan.report.tables import diagnosis_table

        print_table(diagnosis_table(result))
    return interrupted() if result.interrupted else DONE


def _whole_numbers(option: str, text: str) -> list[int]:
    from tensorplan.core.errors import BadInput

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{option} must be whole numbers separated by commas, got {text!r}") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    from tensorplan.core.errors import TensorplanError

    speak_any_language()
    with suppress(OSError):
        sys.path.append(os.getcwd())  # where modules of the user's own are looked for, after all others
    log = logging.getLogger("tensorplan")
    log.setLevel(logging.INFO)
    log.handlers = [Talk()]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where: log.warning(f"warning: {' '.join(str(message).split())}")
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


def _configured(config: Any, delta: float | None, trace: bool, show: Callable[[str], None]) -> Any:
    """The planner with δ, a trace and progress, where it knows of them."""
    from tensorplan.core.specs import options

    knows = options(config)
    changes: dict[str, Any] = {}
    if "delta" in knows and delta is not None:
        changes["delta"] = delta
    if trace:
        if "trace" not in knows:
            raise click.UsageError(f"{config!r} keeps no trace")
        changes["trace"] = True
    if "callback" in knows:
        _warm_up()

        def tell(iteration: Iteration) -> None:
            show(
                f"iteration {iteration.number}, upper {iteration.upper:.5g}, lower {iteration.lower:.5g}, "
                f"gap {iteration.gap:.3g}, {iteration.queries:,} queries"
            )

        changes["callback"] = tell
    return dataclasses.replace(config, **changes) if changes else config


def _warm_up() -> None:
    """Load the optimiser; say so where it must be compiled first."""
    from threading import Timer

    from tensorplan.optimism import Program, Search

    note = Timer(3.0, lambda: say("compiling the optimiser, half a minute, this once", err=True))
    note.daemon = True
    note.start()
    try:
        Search(Program([1.0], 1.0)).solve()  # not optimism.solve, which takes Ctrl-C for the end of a search
    finally:
        note.cancel()


def _say_why(notes: Sequence[str]) -> None:
    """Why there is no regret, in one sentence; the instances of one family have the same reason, each with its name."""
    if notes:
        more = f" (and so for {len(notes) - 1:,} more instances)" if len(notes) > 1 else ""
        complain(f"there is no regret: {notes[0]}{more}", DONE)


def _proves(config: Any) -> bool:
    """Whether a planner may give proofs."""
    from tensorplan.planners.tensorplan.planner import TensorPlan

    return isinstance(config, TensorPlan) and config.mode != "paper"


def _optimal(task: Problem, played: Run, *, thorough: bool) -> list[float | None]:
    """v* of each start state, where it is known or can be found, after more or less work."""
    from tensorplan.core.errors import TensorplanError
    from tensorplan.problems.tables.reachable import BRIEF, WHOLE
    from tensorplan.problems.tables.solution import exact_solution

    try:
        solution = exact_solution(task, WHOLE if thorough else BRIEF)
        return [solution.value(episode.start, 0) for episode in played.episodes]
    except TensorplanError as error:
        _say_why([str(error)])
        return [None] * len(played.episodes)


def _verdict(task: Problem, config: Any, played: Run, delta: float) -> Verdict | None:
    """Whether the planner is sound: for certain, or by its episodes where there are several."""
    from tensorplan.evaluation.verdict import exact_loss, exact_verdict, judge_run

    loss = exact_loss(task, config, played.seed)
    if loss is not None:
        return exact_verdict(loss, delta)
    return judge_run(task, played, delta) if len(played.episodes) > 1 else None


def _show_run(task: Problem, played: Run, optimal: Sequence[float | None], verdict: Verdict | None) -> None:
    """The episodes in a table, and below it what was asked, done and proved."""
    from tensorplan.evaluation.estimates import query_cost
    from tensorplan.report.tables import certificate_sentences, run_table, with_interval

    print_table(run_table(task, played, optimal))
    lines = [f"query cost (mean of the worst call): {with_interval(query_cost(played))}"]
    if task.unmetered:
        lines.append(f"steps of the simulator outside of the meter: {task.unmetered:,}")
    if len(played.episodes) == 1 and played.episodes[0].actions:
        lines.append("actions: " + shorten(played.episodes[0].actions))
    sentences = certificate_sentences(played) + ([] if verdict is None else [str(verdict)])
    out = console()
    for line in lines:
        out.print(line, highlight=False, markup=False)
    for sentence in sentences:
        out.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _episode_row(episode: Episode, optimal: float | None) -> dict[str, Any]:
    """One episode as plain data; its trace goes to a file of its own."""
    certificate = episode.certificate
    row = {**vars(episode), "start": repr(episode.start), "steps": episode.steps, "total_reward": episode.total_reward}
    del row["trace"]
    return {
        **row,
        "total_queries": episode.total_queries,
        "gap": None if certificate is None else certificate.gap,
        "optimal": optimal,
        "regret": None if optimal is None else optimal - episode.total_reward,
    }


def _write_traces(path: str, played: Run) -> None:
    from tensorplan.core.files import write_output
    from tensorplan.evaluation.row import traces

    data = {"problem": played.problem, "planner": played.planner, "seed": played.seed}
    write_output(path, json.dumps({**data, "episodes": traces(played.episodes)}, allow_nan=False))


def _write_proof(path: str, played: Run) -> bool:
    """Write the proof of the first episode; where there is none, say why."""
    from tensorplan.core.files import save_output

    certificate = played.episodes[0].certificate
    if certificate is not None and certificate.proof is not None:
        save_output(path, certificate.proof.save)
        return True
    status = "no certificate" if certificate is None else f"status {certificate.status!r}"
    complain(
        f"no proof was written: the first episode has none, since its bounds do not come from rows ({status})", USAGE
    )
    return False
