"""The main job: Lazy Track-and-Stop on the paper's many-arms problem, live once and then in many seeded runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from surepick.algorithms import create_learner
from surepick.app.console import Code
from surepick.app.live import arm_label, live_view
from surepick.core.finite_arms import FiniteArms
from surepick.simulation import published
from surepick.simulation.one_run import run_seeds
from surepick.simulation.problems import Problem, many_arms
from surepick.simulation.runner import simulate
from surepick.simulation.runs import Runs

ALGORITHM = "lazy-track-and-stop"
N_RUNS = 40
"""Runs for each number of arms: with two cores the whole stays well under a minute."""
PUBLISHED = {
    "table_2": published.TABLE_2,
    "table_1": published.TABLE_1,
    "rage": published.RAGE,
    "oracle": published.ORACLE,
}
"""Pulls printed in the paper, by column and number of arms."""
COMPARED: dict[str, dict[str, Any]] = {
    "rage": {"variant": "paper"},
    "xy-oracle": {"variant": "paper", "theta": lambda problem: problem.theta},
}
"""Algorithms run beside, with the constants behind their published figures."""
LIVE_SECONDS = 5.0
"""How long the live view may last on a terminal; the run itself takes milliseconds."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user may choose."""

    delta: float
    seed: int
    n_runs: int
    n_jobs: int
    n_arms: tuple[int, ...]
    max_pulls: int

    @property
    def last_seed(self) -> int:
        """Seed of the last number of arms: each has its own, so that the rows are independent."""
        return self.seed + len(self.n_arms) - 1


class Row(NamedTuple):
    """Runs at one number of arms, ours and those of the algorithms beside it."""

    n_arms: int
    runs: Runs
    compared: dict[str, Runs]

    @property
    def bound(self) -> float:
        """Mean lower bound of the runs' instances."""
        assert self.runs.lower_bound is not None
        return float(self.runs.lower_bound.mean())


@final
@dataclass(slots=True)
class Report:
    """What has been found so far; filled as the job goes on, so that an interruption keeps it."""

    settings: Settings
    live: dict[str, Any] | None = None
    rows: list[Row] | None = None
    plots: tuple[Path, ...] = ()
    is_complete: bool = False

    @property
    def code(self) -> Code:
        """What to tell the shell."""
        return Code.OK if self.is_complete else Code.NOT_STOPPED


def run_live(console: Console, report: Report) -> None:
    """One run in front of the user's eyes."""
    settings = report.settings
    n_arms = settings.n_arms[0]
    seeds = run_seeds(settings.seed, 0)
    problem = many_arms(n_arms, seed=seeds.instance)
    console.print(
        f"problem: many arms (variant as-run), {n_arms} arms with {problem.dim} features, noise of standard deviation "
        f"{problem.noise_std:g}, delta {settings.delta:g}, seed {settings.seed}",
        soft_wrap=True,
    )
    learner = create_learner(
        ALGORITHM, FiniteArms(problem.X), delta=settings.delta, noise_std=problem.noise_std, seed=seeds.learner
    )
    rng = np.random.default_rng(seeds.noise)
    spent, start = 0.0, time.monotonic()
    title = f"Lazy Track-and-Stop, {problem.n_arms} arms"
    try:
        with live_view(console, title) as show:
            while not learner.stopped and learner.estimate.n_pulls < settings.max_pulls:
                began = time.thread_time()
                arm = learner.next_arms()[0]
                learner.tell(arm, problem.pull(arm, rng))
                spent += time.thread_time() - began
                if console.is_terminal:
                    show(learner.decision, arm=arm, remaining=learner.expected_remaining())
                    if time.monotonic() - start < LIVE_SECONDS:
                        time.sleep(0.03)
    finally:
        report.live = _live_result(problem, learner.decision, len(learner.counts), spent)
        console.print(_live_line(report.live, problem), soft_wrap=True)


def run_many(console: Console, report: Report) -> None:
    """Many runs for each number of arms; finished rows stay in the report if the user interrupts."""
    settings = report.settings
    report.rows = []
    with _progress(console) as progress:
        for place, n_arms in enumerate(settings.n_arms):
            start = time.monotonic()
            everyone: dict[str, dict[str, Any]] = {ALGORITHM: {"bounds": True}, **COMPARED}
            task = progress.add_task(f"K = {n_arms}", total=settings.n_runs * len(everyone))
            all_runs: dict[str, Runs] = {}
            for name, options in everyone.items():

                def advance(done: int, _total: int, before: int = settings.n_runs * len(all_runs)) -> None:
                    progress.update(task, completed=before + done)  # noqa: B023 - used before the next row's task exists

                all_runs[name] = simulate(
                    _drawn(n_arms),
                    name,
                    delta=settings.delta,
                    n_runs=settings.n_runs,
                    seed=settings.seed + place,
                    n_jobs=settings.n_jobs,
                    max_pulls=settings.max_pulls,
                    progress=advance,
                    **options,
                )
            runs = all_runs.pop(ALGORITHM)
            report.rows.append(Row(n_arms, runs, all_runs))
            if not console.is_terminal:
                console.print(_runs_line(n_arms, runs, time.monotonic() - start), soft_wrap=True)


def _drawn(n_arms: int) -> Callable[[int], Problem]:
    return lambda seed: many_arms(n_arms, seed=seed)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _live_result(problem: Problem, decision: Any, n_used: int, seconds: float) -> dict[str, Any]:
    return {
        "n_arms": problem.n_arms,
        "n_pulls": decision.n_pulls,
        "stopped": bool(decision.stopped),
        "best": decision.best,
        "is_right": decision.best == problem.best,
        "evidence": float(decision.evidence),
        "target": float(decision.target),
        "rule": decision.rule,
        "guarantee": decision.guarantee,
        "arms_pulled": n_used,
        "seconds": seconds,
    }


def _live_line(live: dict[str, Any], problem: Problem) -> str:
    truth = "which is right" if live["is_right"] else f"the truth is {problem.best}"
    state = "stopped" if live["stopped"] else "not stopped yet"
    return (
        f"one run: {state} after {live['n_pulls']} pulls of {live['arms_pulled']} different arms, best arm "
        f"{arm_label(live['best'])} ({truth}), evidence {live['evidence']:.2f} of {live['target']:.2f} by the "
        f"{live['rule']} rule ({live['guarantee']}), {1e3 * live['seconds']:.0f} ms CPU"
    )


def _runs_line(n_arms: int, runs: Runs, seconds: float) -> str:
    return (
        f"K = {n_arms}: {runs.n_runs} runs, {runs.mean:.1f} ± {runs.se:.1f} pulls, {runs.n_errors} wrong, "
        f"{runs.n_unfinished} not stopped, {1e3 * runs.seconds.mean():.0f} ms CPU a run, {seconds:.1f} s in all"
    )


def as_records(report: Report) -> list[dict[str, Any]]:
    """One flat record per number of arms, with the published figures beside ours."""
    records = []
    for row in report.rows or []:
        record: dict[str, Any] = {
            "n_arms": row.n_arms,
            "n_runs": row.runs.n_runs,
            "seed": row.runs.seed,
            "mean": row.runs.mean,
            "se": row.runs.se,
            "median": row.runs.median,
            "lower_bound": row.bound,
            "ratio": float(row.runs.ratio.mean()),
            "n_errors": row.runs.n_errors,
            "n_unfinished": row.runs.n_unfinished,
            "arms_pulled": float(row.runs.support.mean()),
            "seconds_per_run": float(row.runs.seconds.mean()),
        }
        for name, runs in row.compared.items():
            record[f"{name}_mean"], record[f"{name}_se"] = runs.mean, runs.se
        if report.settings.delta == published.DELTA:
            for name, table in PUBLISHED.items():
                value = table.get(row.n_arms)
                record[f"published_{name}_mean"] = value.mean if value else None
                record[f"published_{name}_se"] = value.se if value else None
        records.append(record)
    return records
