"""surepick beside what people would do otherwise, on the data of the examples and on two problems without data.

Run `make bench ARGS=rivals`, or `python -m benchmarks.rivals [runs [runs of Optuna]]`. The data sets are simulators
whose truth is known: measurements are drawn as in the examples, those of SVM settings from a hundred accuracies of each
setting. Methods without a stopping rule get as many pulls as surepick took on average. Optuna, MABWiser and
scikit-learn are left out where they are not installed, and that is said.
"""

import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
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
from surepick.types import Array

RIGHT, WRONG, NONE, WITHDRAWN = range(4)
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
AUDITED = "surepick, linear, with check pulls"


def outcome(job: tuple[str, str, int], run: int) -> tuple[int, ...]:
    """Return the pulls of one run of a method on a case, and what became of them, for each of its answers."""
    name, method, n_pulls = job
    case, rng = case_of(name), np.random.default_rng([SEED, run])
    if method in (OURS, AUDITED):
        return identified(case, rng, run, is_audited=method == AUDITED)
    if method in RIVALS:
        n_pulls, answer = RIVALS[method][0](case, rng)
        return n_pulls, judged(case, answer)
    return n_pulls, *(judged(case, answer) for answer in GUESSES[method][0](case, n_pulls, rng))


def identified(case: Case, rng: np.random.Generator, seed: int, *, is_audited: bool) -> tuple[int, int]:
    """Return pulls and outcome of surepick, told about the rewards as the example does."""
    options: Mapping[str, Any] = {"audit": 4 * len(case.X)} if is_audited else case.options

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


def row(method: str, pulls: Array, outcomes: Array, guarantee: str) -> None:
    """Print a line of the table."""
    n = outcomes.shape[1]
    wrong = "; ".join(str(int((one == WRONG).sum())) for one in outcomes)
    silent = {"no answer": int((outcomes == NONE).sum()), "withdrawn": int((outcomes == WITHDRAWN).sum())}
    said = "".join(f", {word} {count}" for word, count in silent.items() if count)
    spent = cell(pulls) if pulls.std() else f"{pulls[0]:.0f}"
    print(f"| {method} | {spent} | {wrong} of {n}{said} | {guarantee} |", flush=True)


def table(name: str, n_runs: int, n_slow: int) -> None:
    """Print the table of one case."""

    def runs(method: str, n: int, n_pulls: int = 0) -> tuple[Array, Array]:
        pulls, *outcomes = in_parallel(outcome, [(name, method, n_pulls)], n)[name, method, n_pulls]
        return pulls, np.array(outcomes)

    print(f"\n### {name}\n\n| method | pulls | wrong | guarantee |\n|---|---|---|---|")
    case = case_of(name)
    if name == "clicks":
        plan = sp.plan(case.X, theta=clicks.EFFECTS, rewards="binary")
        print(f"| surepick, plan | 0 | says: {plan.pulls:,.0f} pulls, not worth it | |")
        n_pulls = case.limit
    else:
        ours = runs(OURS, n_runs)
        needs_no_model = case.options.get("model") == "unstructured"
        row(OURS, *ours, PROMISE if needs_no_model else f"{PROMISE} if linear, watched")
        n_pulls = round(float(ours[0].mean()))
    if name == "SVM settings":
        row(AUDITED, *runs(AUDITED, n_runs), f"{PROMISE} if linear, tested")
    for method, (_, guarantee) in RIVALS.items():
        row(method, *runs(method, n_runs), guarantee)
    for method, (_, package) in GUESSES.items():
        if package and name == "clicks":
            print(f"| {method} | | left out: a million pulls take hours | |")
        elif package and not importlib.util.find_spec(package):
            print(f"| {method} | | left out: {package} is not installed (surepick[bench]) | |")
        else:
            row(method, *runs(method, n_slow if package == "optuna" else n_runs, n_pulls), "none")


def main(n_runs: int = 100, n_slow: int = 20) -> None:
    """Print a table for each case."""
    print(f"delta = {DELTA:g}, {n_runs} runs, {n_slow} of Optuna, seed {SEED}, mean and standard error of the pulls")
    for name in CASES:
        if name == "SVM settings" and not importlib.util.find_spec("sklearn"):
            print(f"\n{name}: left out, scikit-learn is not installed (surepick[bench])")
        else:
            table(name, n_runs, n_slow)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
