"""Plans and noise on the command line: what an experiment will take, and how noisy its measurements are."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from surepick.arms.tables.sources import open_table, parse_number, refusing
from surepick.cli.arm_files import arm_file, read_history
from surepick.cli.output import Code, Format, results, to_csv, to_json
from surepick.errors import InvalidInput, NoiseWarning
from surepick.planning.plan import Plan, plan
from surepick.planning.replicates import ReplicateNoise, noise_from_replicates
from surepick.simulation.runs import Runs


class Request(NamedTuple):
    """What a user asks for: a plan for the arms of a file."""

    path: Path
    reading: Mapping[str, Any]
    """How the file is read."""
    settings: Mapping[str, Any]
    """Arguments of `plan` that need no reading."""
    theta: str | None
    pilot: Path | None
    noise_std: str | None
    """A number or a column."""
    costs: str | None
    """A column."""
    simulate: int | None
    """Runs."""
    out: Path | None
    """File of the plot."""
    output: Format


def plan_experiment(request: Request) -> int:
    """Say what an experiment with the arms of a file will take."""
    guesses = {"--gap": request.settings["gap"], "--theta": request.theta, "--pilot": request.pilot}
    named = [option for option, value in guesses.items() if value is not None]
    if len(named) != 1:
        raise InvalidInput(
            f"one guess is needed, got {' and '.join(named) or 'none'}: --gap 0.3 (how far the best is ahead of the "
            "next), --pilot results.csv, or --theta with the effect of every feature."
        )
    level = None if request.noise_std is None else parse_number(request.noise_std)
    of_noise = request.noise_std if level is None else None
    own = arm_file(request.path, **request.reading, noise_column=of_noise, cost_column=request.costs)
    planned = plan(
        own.arms,
        theta=None if request.theta is None else [_number(part) for part in request.theta.split(",")],
        pilot=None if request.pilot is None else read_history(request.pilot, own.arm),
        noise_std=level if of_noise is None else own.stds,
        costs=own.costs,
        **request.settings,
    )
    rehearsed = None if request.simulate is None else planned.simulate(request.simulate, seed=request.settings["seed"])
    if request.out is not None:
        figure = planned.plot()
        with refusing("cannot write", request.out):
            figure.savefig(request.out, dpi=150)
    _print_plan(planned, rehearsed, own.describe(), request.output)
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
    if output is Format.CSV:
        console.file.write(to_csv(rows))
        return
    if output is Format.JSON:
        simulated = None if rehearsed is None else _summary(rehearsed)
        found = {**_row(planned), "m": planned.m, "is_possible": planned.is_possible}
        console.file.write(f"{to_json({**found, 'simulated': simulated, 'others': rows})}\n")
        return
    console.print(arms)
    console.print(planned.explain())
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
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def estimate_noise(
    path: Path, *, option_column: str | None, value_column: str | None, confidence: float, output: Format
) -> int:
    """Say how noisy a measurement is, from a file of replicates."""
    table = open_table(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # said below
        found = noise_from_replicates(
            table,
            option_column=option_column,
            value_column=value_column,
            confidence=confidence,
        )
    _print_noise(found, output)
    return Code.OK


def _print_noise(found: ReplicateNoise, output: Format) -> None:
    console = results()
    rows = [{"option": str(name), **asdict(one)} for name, one in found.per_arm.items()]
    if output is Format.JSON:
        names = ("noise_std", "interval", "confidence", "n_spare", "p_value", "differ")
        console.file.write(f"{to_json({**{name: getattr(found, name) for name in names}, 'per_option': rows})}\n")
        return
    if output is Format.CSV:
        flat = [{key: value for key, value in row.items() if key != "interval"} for row in rows]
        ends = [{"low": row["interval"][0], "high": row["interval"][1]} for row in rows]
        console.file.write(to_csv([{**row, **end} for row, end in zip(flat, ends, strict=True)]))
        return
    console.print(found.explain())
    shown = Table("option", "values", "mean", "noise", "interval")
    for name, one in found.per_arm.items():
        low, high = one.interval
        noise = [f"{one.noise_std:.3g}", f"{low:.3g} to {high:.3g}"] if one.n > 1 else ["-", "-"]
        shown.add_row(str(name), str(one.n), f"{one.mean:.4g}", *noise)
    console.print(shown)
