"""A fixed budget: wrong picks after T pulls, by method.

`python -m benchmarks.fixed_budget [runs] [phased runs]`. Writes benchmarks/results/fixed_budget.json: wrong picks after
T = 0.5, 1 and 2 times the lower bound of risk 0.05 on four problems, and after T = 1010, 2010 and 3010 pulls on Soare's
problem with 10 features, where others have published their results.

Phased methods as published look at sums of a phase alone. Their runs draw these sums instead of single rewards, which
has the same law, and takes a thousandth of the time. The methods are those of the package: designs, phases, and how
many candidates go on.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from surepick.algorithms.bayes_gap import GapIndex
from surepick.algorithms.budget import PhasedBudget
from surepick.sampling.budget import Phasing
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.types import Array, IntArray

OUT = Path(__file__).parent / "results" / "fixed_budget.json"
CASES: Mapping[str, tuple[Callable[[], Problem], int]] = {
    "soare6": (lambda: problems.soare(6, 0.1), 589),
    "basis5": (lambda: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]), 379),
    "sphere5": (lambda: problems.sphere(5, 50, seed=4), 268),
    "equal10": (lambda: problems.unit_basis([0.5, *[0.0] * 9]), 339),
}
"""Problem, and its lower bound T* kl(0.05, 0.95)."""
TIMES = (0.5, 1.0, 2.0)
METHODS: Mapping[str, Mapping[str, Any]] = {
    "default, all spent": {"goal": "fixed-budget"},
    "default, stops early": {},
    "top-two thompson, all spent": {
        "algorithm": sp.algorithms.TopTwo(leader="thompson", stopping="betting"),
        "goal": "fixed-budget",
    },
}
PHASED: Mapping[str, PhasedBudget | sp.algorithms.BayesGap] = {
    "OD-LinBAI": sp.algorithms.ODLinBAI(variant="paper"),
    "GSE": sp.algorithms.GSE(variant="paper"),
    "halving": sp.algorithms.LinHalving(variant="paper"),
    "halving cumulative": sp.algorithms.LinHalving(variant="paper", cumulative=True),
    "Peace": sp.algorithms.Peace(variant="paper"),
    "Peace cumulative": sp.algorithms.Peace(variant="paper", cumulative=True),
    "BayesGap": sp.algorithms.BayesGap(variant="paper"),
}
BUDGETS = (1010, 2010, 3010)
SEED = 7400


def _pull(means: Array, noise: Callable[[], float], arm: int) -> float:
    return float(means[arm] + noise())


def measured(problem: Problem, budget: int, options: Mapping[str, Any], n_runs: int) -> dict[str, float]:
    """Return the share of wrong picks, of picks that are proved, and the mean pulls."""
    means, wrong, proved, pulls = problem.X @ problem.theta, 0, 0, 0
    for run in range(n_runs):
        pull = partial(_pull, means, np.random.default_rng([SEED, run]).standard_normal)
        found = sp.identify(problem.X, pull, noise_std=1.0, budget=budget, seed=run, **options)
        wrong += found.best != problem.best
        proved, pulls = proved + found.stopped, pulls + found.n_pulls
    error = wrong / n_runs
    return {
        "wrong": error,
        "s.e.": math.sqrt(error * (1.0 - error) / n_runs),
        "proved": proved / n_runs,
        "pulls": pulls / n_runs,
    }


def phased_answer(
    phasing: Phasing, rows: Array, means: Array, noise: Callable[[int], Array], *, cumulative: bool = False
) -> tuple[int, int]:
    """Return the answer of a phased method, and the pulls that it made.

    Args:
        phasing: its phases.
        rows: the arms (K, d).
        means: their mean rewards (K,).
        noise: returns one standard normal number for each arm that a phase pulls.
        cumulative: whether the estimate is from all phases, or from each alone.
    """
    dim = rows.shape[1]
    left: IntArray = np.arange(len(rows))
    A, b, n = np.zeros((dim, dim)), np.zeros(dim), 0
    for r in range(1, phasing.n_phases + 1):
        pulls = phasing.pulls(r, left)
        X, N = rows[pulls.arms], pulls.counts
        own_A, own_b = (X.T * N) @ X, X.T @ (N * means[pulls.arms] + np.sqrt(N) * noise(len(N)))
        A, b = (A + own_A, b + own_b) if cumulative else (own_A, own_b)
        n += pulls.n
        value = rows[left] @ (np.linalg.pinv(A, rcond=1e-10, hermitian=True) @ b)
        ordered = left[np.argsort(-value, kind="stable")]
        left = np.sort(ordered[: phasing.keep(r, ordered)])
        if len(left) == 1:
            break
    return int(ordered[0]), n


def gap_answer(index: GapIndex, rows: Array, means: Array, normal: np.random.Generator) -> tuple[int, int]:
    """Return the answer of BayesGap as published, and the pulls that it made."""
    A, b, best = np.zeros((rows.shape[1],) * 2), np.zeros(rows.shape[1]), (math.inf, 0)
    for _ in range(index.budget):
        now = index.at(A, b)
        best = min(best, (now.least, now.leader))
        x = rows[now.arm]
        A += np.outer(x, x)
        b += (means[now.arm] + normal.standard_normal()) * x
    return best[1], index.budget


def measured_phases(
    problem: Problem, budget: int, method: PhasedBudget | sp.algorithms.BayesGap, n_runs: int
) -> dict[str, float]:
    """Return the share of wrong answers of a method as published, and the mean pulls."""
    task = sp.create_learner(method, problem.X, noise_std=1.0, budget=budget, goal="fixed-budget").task
    rows, means = task.rows.gather(np.arange(problem.n_arms)), problem.X @ problem.theta
    rng = np.random.default_rng([SEED, budget])
    answer: Callable[[], tuple[int, int]]
    if isinstance(method, sp.algorithms.BayesGap):
        answer = partial(gap_answer, GapIndex(task, method.prior_std), rows, means, rng)
    else:
        is_cumulative = method.is_cumulative
        answer = partial(
            phased_answer, method.phasing(task), rows, means, rng.standard_normal, cumulative=is_cumulative
        )
    found = [answer() for _ in range(n_runs)]
    error = sum(best != problem.best for best, _ in found) / n_runs
    pulls = sum(n for _, n in found) / n_runs
    return {"wrong": error, "s.e.": math.sqrt(error * (1.0 - error) / n_runs), "pulls": pulls}


def _said(rows: list[dict[str, float]]) -> str:
    return " / ".join(f"{100 * row['wrong']:.2f} ({100 * row['s.e.']:.2f})" for row in rows)


def main(n_runs: str = "200", n_phased: str = "4000") -> None:
    """Measure, print and write all of it."""
    print(f"wrong picks in % (s.e.), at T = {TIMES} times the lower bound; noise 1, known; seed {SEED}")
    print(f"{n_runs} runs; {n_phased} of phased methods")
    found: dict[str, Any] = {"runs": int(n_runs), "phased runs": int(n_phased), "seed": SEED}
    cases = {name: (make(), [math.ceil(times * bound) for times in TIMES]) for name, (make, bound) in CASES.items()}
    cases["soare10"] = problems.soare(10, 0.1), list(BUDGETS)
    before = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name, (problem, budgets) in cases.items():
        labels = BUDGETS if name == "soare10" else TIMES
        found[name] = {} if int(n_runs) else before.get(name, {})
        if not int(n_runs):  # phased methods anew, beside the runs of before
            found["runs"] = before.get("runs", 0)
        for method, options in METHODS.items() if int(n_runs) and name in CASES else ():
            rows = [measured(problem, budget, options, int(n_runs)) for budget in budgets]
            found[name][method] = dict(zip(map(str, labels), rows, strict=True))
            last = rows[-1]
            print(
                f"{name:8} {method:28} {_said(rows)}; at T = 2: {last['proved']:.0%} proved, {last['pulls']:.0f} pulls"
            )
            sys.stdout.flush()
        for method, phases in PHASED.items():
            rows = [measured_phases(problem, budget, phases, int(n_phased)) for budget in budgets]
            found[name][method] = dict(zip(map(str, labels), rows, strict=True))
            print(f"{name:8} {method:28} {_said(rows)}; at the last T: {rows[-1]['pulls']:.0f} pulls")
            sys.stdout.flush()
        OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
