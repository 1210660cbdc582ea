"""Plans and noise on the command line: how many pulls an experiment needs, and how noisy its measurements are."""

import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from surepick.arms.tables.sources import open_table, parse_number, refusing
from surepick.cli.arm_files import arm_file, level_or_column, read_history
from surepick.cli.hints import in_shell
from surepick.cli.options import PlanOptions, TableOptions
from surepick.cli.output import Code, Format, print_roles, results, write
from surepick.errors import InvalidInput, NoiseWarning
from surepick.planning.explain import two_digits
from surepick.planning.plan import Plan, plan
from surepick.planning.replicates import ReplicateNoise, noise_from_replicates
from surepick.reporting.figures import check_ready
from surepick.simulation.runs import Runs


def plan_experiment(path: Path, options: PlanOptions, table: TableOptions, *, out: Path | None, output: Format) -> int:
    """Print how many pulls an experiment with the arms of a file needs; write a plot to `out`."""
    guesses = {"--gap": options.gap, "--theta": options.theta, "--pilot": options.pilot}
    named = [option for option, value in guesses.items() if value is not None]
    if len(named) != 1:
        raise InvalidInput(
            f"one guess is needed, got {' and '.join(named) or 'none'}: --gap 0.3 (how far the best is ahead of the "
            "next), --pilot results.csv, or --theta with the effect of every feature."
        )
    if out is not None:
        check_ready()  # before the work
    level, of_noise = level_or_column(options.noise_std)
    own = arm_file(path, **table.reading(), noise_column=of_noise, cost_column=options.costs)
    planned = plan(
        own.arms,
        gap=options.gap,
        theta=None if options.theta is None else [_number(part) for part in options.theta.split(",")],
        pilot=None if options.pilot is None else read_history(options.pilot, own.arm),
        **options.settings(noise_std=level if of_noise is None else own.stds, costs=own.costs),
    )
    rehearsed = None if options.simulate is None else planned.simulate(options.simulate, seed=options.seed)
    if out is not None:
        figure = planned.plot()
        with refusing("cannot write", out):
            figure.savefig(out, dpi=150)
    _print_plan(planned, rehearsed, own.describe(), output)
    return Code.OK


def _number(text: str) -> float:
    value = parse_number(text)
    if value is None:
        raise InvalidInput(f"--theta must be numbers with commas between them, such as 1,-0.5,0.8, got {text!r}.")
    return value


def _print_plan(planned: Plan, rehearsed: Runs | None, arms: str, output: Format) -> None:
    console = results()
    others = {(each.delta, each.epsilon): each for each in (*planned.by_risk, *planned.by_slack)}
    rows = [_row(each) for each in others.values()]
    if output is not Format.TABLE:
        simulated = None if rehearsed is None else _summary(rehearsed)
        found = {**_row(planned), "m": planned.m, "is_possible": planned.is_possible}
        found |= {} if planned.by_rounds is None else {"rounds": asdict(planned.by_rounds)}
        write(output, {**found, "simulated": simulated, "others": rows}, rows)
        return
    print_roles(console, arms)
    console.print(in_shell(planned.explain()))
    if rehearsed is not None:
        said = (
            "Simulated: {pulls:,.0f} +- {standard_error:,.0f} pulls in {runs} runs (8 of 10: {low:,.0f} to {high:,.0f};"
            " {not_stopped} without an answer, {wrong} wrong)."
        )
        console.print(said.format(**_summary(rehearsed)))
    table = Table("delta", "epsilon", "pulls", "8 of 10 runs", "lower bound", *(["cost"] if planned.cost else []))
    for row in rows:
        shown = [f"{row['delta']:g}", f"{row['epsilon']:.3g}", _count(row["pulls"])]
        shown += [f"{_count(row['low'])} to {_count(row['high'])}", _count(row["lower_bound"])]
        table.add_row(*shown, *([_count(row["cost"])] if planned.cost else []))
    console.print(table)


def _summary(rehearsed: Runs) -> dict[str, float]:
    low, high = rehearsed.quantiles((0.1, 0.9)).tolist()
    return {
        "runs": rehearsed.n_runs,
        "pulls": rehearsed.mean,
        "standard_error": rehearsed.se,
        "low": low,
        "high": high,
        "not_stopped": rehearsed.n_unfinished,
        "wrong": rehearsed.n_errors,
    }


def _row(planned: Plan) -> dict[str, Any]:
    names = ("delta", "epsilon", "pulls", "low", "high", "lower_bound", "cost", "cost_lower_bound")
    return {name: getattr(planned, name) for name in names}


def _count(value: float) -> str:
    """Return a number as the sentences above the table have it."""
    return two_digits(value) if math.isfinite(value) else "-"


def estimate_noise(
    path: Path, *, option_column: str | None, value_column: str | None, confidence: float, output: Format
) -> int:
    """Print how noisy a measurement is, from a file of replicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # the explanation below says the same
        found = noise_from_replicates(
            open_table(path), option_column=option_column, value_column=value_column, confidence=confidence
        )
    if output is Format.TABLE:
        _print_noise(found)
        return Code.OK
    rows = [{"option": str(name), **asdict(one)} for name, one in found.per_arm.items()]
    names = ("noise_std", "interval", "confidence", "n_spare", "p_value", "differ")
    flat = [{**row, "low": row["interval"][0], "high": row["interval"][1]} for row in rows]
    for row in flat:
        del row["interval"]
    write(output, {**{name: getattr(found, name) for name in names}, "per_option": rows}, flat)
    return Code.OK


def _print_noise(found: ReplicateNoise) -> None:
    console = results()
    console.print(in_shell(found.explain()))
    shown = Table("option", "values", "mean", "noise", "interval")
    for name, one in found.per_arm.items():
        low, high = one.interval
        noise = [f"{one.noise_std:.3g}", f"{low:.3g} to {high:.3g}"] if one.n > 1 else ["-", "-"]
        shown.add_row(str(name), str(one.n), f"{one.mean:.4g}", *noise)
    console.print(shown)
