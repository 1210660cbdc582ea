"""surepick beside what people would do otherwise, on the data of the examples and on two problems without data.

Run `make bench ARGS=rivals` (`ARGS="rivals questionnaire"` for one case), or
`python -m benchmarks.rivals [runs [runs of Optuna [case ...]]]`. The tables are printed and kept in
benchmarks/results/rivals.json, where a case that is run again replaces its earlier figures; methods that are left out,
such as Optuna with 0 runs, keep their earlier row and its number of pulls. The data sets are
simulators whose truth is known: measurements are drawn as in the examples, those of SVM settings from a hundred
accuracies of each setting. Methods without a stopping rule get as many pulls as surepick took on average. Optuna,
MABWiser and scikit-learn are left out where they are not installed, and the table says so.
"""

import importlib.util
import json
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from benchmarks.pulls import cell, in_parallel
from benchmarks.rival_cases import CASES, SEED, Case, case_of
from benchmarks.rival_methods import (
    DELTA,
    by_least_squares,
    by_means,
    halving,
    mabwiser_ucb,
    optuna_tpe,
)
from examples import clicks
from surepick._files import replacing
from surepick.reporting.experiment_summary import estimated
from surepick.types import Array

RESULTS = Path(__file__).parent / "results" / "rivals.json"
PARTS = CASES
"""Cases that `python -m benchmarks rivals` can be asked for by name."""
RIGHT, WRONG, NONE, WITHDRAWN = range(4)
KINDS = {"wrong": WRONG, "no answer": NONE, "withdrawn": WITHDRAWN}
Stopper = Callable[[Case, np.random.Generator], tuple[int, int | None]]
Guesser = Callable[[Case, int, np.random.Generator], tuple[int, ...]]

PROMISE = "wrong at most 5 %"
RIVALS: Mapping[str, tuple[Stopper, str]] = {
    "uniform + Bonferroni": (partial(by_means, drops=False), PROMISE),
    "racing": (partial(by_means, drops=True), PROMISE),
    "uniform + least squares + Bonferroni": (by_least_squares, f"{PROMISE} if linear, not tested"),
}
"""Methods that stop by themselves, and what they guarantee."""
GUESSES: Mapping[str, tuple[Guesser, str]] = {
    "sequential halving": (lambda *given: (halving(*given),), ""),
    "Optuna TPE, best trial; most tried": (optuna_tpe, "optuna"),
    "MABWiser UCB1, most pulled": (lambda *given: (mabwiser_ucb(*given),), "mabwiser"),
}
"""Methods that are told how often to pull and guarantee nothing, with the package they need; answers by one run."""
OURS = "surepick"
CHECKED = "surepick, with the model check"


def outcome(job: tuple[str, str, int], run: int) -> tuple[int, ...]:
    """Return the pulls of one run of a method on a case, and what became of them, for each of its answers."""
    name, method, n_pulls = job
    case, rng = case_of(name), np.random.default_rng([SEED, run])
    if method in (OURS, CHECKED):
        return identified(case, rng, run, is_checked=method == CHECKED)
    if method in RIVALS:
        n_pulls, answer = RIVALS[method][0](case, rng)
        return n_pulls, judged(case, answer)
    return n_pulls, *(judged(case, answer) for answer in GUESSES[method][0](case, n_pulls, rng))


def identified(case: Case, rng: np.random.Generator, seed: int, *, is_checked: bool) -> tuple[int, int]:
    """Return pulls and outcome of surepick, told about the rewards as the example does.

    The check tests the linear model by pulls after the verdict, which count. A case that is run without a model is run
    with it for the check, and with four check pulls of each arm.
    """
    options: Mapping[str, Any] = case.options
    if is_checked:
        options = {"audit": 4 * len(case.X)} if case.needs_no_model else {**options, "audit": "auto"}

    def pull(arm: int) -> float:
        return float(case.draw(np.array([arm]), rng)[0])

    with warnings.catch_warnings(action="ignore", category=sp.ModelWarning):
        result = sp.identify(case.X, pull, delta=DELTA, epsilon=case.epsilon, seed=seed, **options)
    return result.n_pulls, WITHDRAWN if result.guarantee == "withdrawn" else judged(case, result.best)


def judged(case: Case, answer: int | None) -> int:
    """Return what an answer is worth."""
    if answer is None:
        return NONE
    return WRONG if case.is_wrong(answer) else RIGHT


def row(method: str, pulls: Array, outcomes: Array, guarantee: str) -> dict[str, Any]:
    """Print a line of the table; return its figures, those of wrong answers for each answer of the method."""
    n = outcomes.shape[1]
    counts = {word: [int((one == kind).sum()) for one in outcomes] for word, kind in KINDS.items()}
    wrong = "; ".join(map(str, counts["wrong"]))
    said = "".join(f", {word} {sum(counts[word])}" for word in ("no answer", "withdrawn") if any(counts[word]))
    spent = cell(pulls) if pulls.std() else f"{pulls[0]:.0f}"
    print(f"| {method} | {spent} | {wrong} of {n}{said} | {guarantee} |", flush=True)
    mean, se = estimated(pulls)
    return {"method": method, "guarantee": guarantee, "runs": n, "pulls": mean, "standard error": se, **counts}


def table(name: str, n_runs: int, n_slow: int) -> list[dict[str, Any]]:
    """Print the table of one case; return its rows."""

    def runs(method: str, n: int, n_pulls: int = 0) -> tuple[Array, Array]:
        pulls, *outcomes = in_parallel(outcome, [(name, method, n_pulls)], n)[name, method, n_pulls]
        return pulls, np.array(outcomes)

    print(f"\n### {name}\n\n| method | pulls | wrong | guarantee |\n|---|---|---|---|")
    case, rows = case_of(name), []
    if name == "clicks":
        plan = sp.plan(case.X, theta=clicks.EFFECTS, rewards="binary")
        print(f"| surepick, plan | 0 | says: {plan.pulls:,.0f} pulls, not worth it | |")
        n_pulls = case.limit
    else:
        ours = runs(OURS, n_runs)
        rows.append(row(OURS, *ours, PROMISE if case.needs_no_model else f"{PROMISE} if linear, watched"))
        if len(case.X) > case.X.shape[1]:  # else any means are linear, and there is nothing to test
            rows.append(row(CHECKED, *runs(CHECKED, n_runs), f"{PROMISE} if linear, tested"))
        n_pulls = round(float(ours[0].mean()))
    rows += [row(method, *runs(method, n_runs), guarantee) for method, (_, guarantee) in RIVALS.items()]
    for method, (_, package) in GUESSES.items():
        n = n_slow if package == "optuna" else n_runs
        reason = left_out(name, package, n)
        if reason:
            print(f"| {method} | | left out: {reason} | |")
        else:
            rows.append(row(method, *runs(method, n, n_pulls), "none"))
    return rows


def left_out(name: str, package: str, n_runs: int) -> str:
    """Return why a method that guarantees nothing is not run on a case; empty if it is."""
    if package and name == "clicks":
        return "a million pulls take hours"
    if package and not importlib.util.find_spec(package):
        return f"{package} is not installed (surepick[bench])"
    return "" if n_runs else "no runs were asked for"


def keep(name: str, rows: list[dict[str, Any]], command: str) -> None:
    """Write the figures of a case into the result file; those of other cases, and of methods left out, stay."""
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    today = datetime.now(UTC).date().isoformat()
    kept = {row["method"]: row for row in (*known.get(name, {"rows": []})["rows"], *rows)}
    known[name] = {"date": today, "command": command, "seed": SEED, "delta": DELTA, "rows": [*kept.values()]}
    RESULTS.parent.mkdir(exist_ok=True)
    with replacing(RESULTS) as file:
        file.write_text(json.dumps({case: known[case] for case in CASES if case in known}, indent=1) + "\n", "utf-8")


def main(*names: str, n_runs: int = 100, n_slow: int = 20) -> None:
    """Print a table for each case, or for those named, and keep its figures."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"no case named {', '.join(unknown)}; there are: {', '.join(CASES)}")
    print(f"delta = {DELTA:g}, {n_runs} runs, {n_slow} of Optuna, seed {SEED}, mean and standard error of the pulls")
    for name in names or CASES:
        if name == "SVM settings" and not importlib.util.find_spec("sklearn"):
            print(f"\n{name}: left out, scikit-learn is not installed (surepick[bench])")
        else:
            command = shlex.join(["python", "-m", "benchmarks.rivals", str(n_runs), str(n_slow), name])
            keep(name, table(name, n_runs, n_slow), command)


if __name__ == "__main__":
    main(*sys.argv[3:], **dict(zip(("n_runs", "n_slow"), map(int, sys.argv[1:3]), strict=False)))
