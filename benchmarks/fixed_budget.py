"""A fixed budget: wrong picks after T pulls, by method.

`python -m benchmarks.fixed_budget [runs] [runs of published methods] [problems]`. Writes
benchmarks/results/fixed_budget.json: wrong picks after T = 0.5, 1 and 2 times the lower bound of risk 0.05 on four
problems, and after T = 1010, 2010 and 3010 pulls on Soare's problem with 10 features, where others have published their
results.

Published methods look at the sums of a phase alone, and their runs draw these sums instead of single rewards: the same
law in a fraction of the time. Designs, phases, indices and how many candidates go on are those of the package.
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
from surepick.algorithms.p1_rage import NestedDesigns, WeightedMean
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
Method = PhasedBudget | sp.algorithms.BayesGap | sp.algorithms.P1RAGE
PUBLISHED: Mapping[str, Method] = {
    "OD-LinBAI": sp.algorithms.ODLinBAI(variant="paper"),
    "GSE": sp.algorithms.GSE(variant="paper"),
    "halving": sp.algorithms.LinHalving(variant="paper"),
    "halving cumulative": sp.algorithms.LinHalving(variant="paper", cumulative=True),
    "Peace": sp.algorithms.Peace(variant="paper"),
    "Peace cumulative": sp.algorithms.Peace(variant="paper", cumulative=True),
    "P1-RAGE": sp.algorithms.P1RAGE(variant="paper"),
    "BayesGap": sp.algorithms.BayesGap(variant="paper"),
}
BUDGETS = (1010, 2010, 3010)
SEED = 7400
OTHERS: Mapping[str, tuple[Mapping[str, int], Mapping[str, tuple[float, float, float]]]] = {
    "soare6": (
        {"Peace": 2000, "BayesGap": 2000},
        {
            "OD-LinBAI": (48.7, 48.1, 46.2),
            "GSE": (48.5, 47.8, 46.6),
            "halving": (17.6, 10.2, 2.9),
            "halving cumulative": (13.9, 5.8, 1.0),
            "Peace": (21.8, 11.9, 4.7),
            "BayesGap": (38.3, 36.4, 35.1),
        },
    ),
    "basis5": (
        {"Peace": 2000, "BayesGap": 2000},
        {
            "OD-LinBAI": (17.1, 7.6, 2.1),
            "GSE": (16.1, 8.1, 2.1),
            "halving": (17.4, 7.8, 2.2),
            "halving cumulative": (9.0, 2.3, 0.2),
            "Peace": (24.9, 11.3, 4.4),
            "BayesGap": (7.7, 1.8, 0.15),
        },
    ),
    "sphere5": (
        dict.fromkeys(PUBLISHED, 1000),
        {
            "OD-LinBAI": (47.7, 27.1, 11.5),
            "GSE": (53.8, 38.1, 27.1),
            "halving": (33.5, 17.9, 7.7),
            "halving cumulative": (13.1, 3.0, 0.3),
            "Peace": (34.0, 19.8, 7.4),
            "BayesGap": (42.3, 24.3, 7.6),
        },
    ),
    "equal10": (
        dict.fromkeys(PUBLISHED, 2000),
        {
            "OD-LinBAI": (30.3, 14.0, 2.6),
            "GSE": (26.6, 12.5, 2.9),
            "halving": (30.9, 12.4, 3.3),
            "halving cumulative": (25.0, 9.8, 3.4),
        },
    ),
    "soare10": (
        dict.fromkeys(PUBLISHED, 4000),
        {
            "OD-LinBAI": (46.9, 46.7, 45.4),
            "GSE": (47.2, 44.8, 44.8),
            "halving": (7.35, 1.77, 0.35),
            "Peace": (8.35, 2.72, 1.15),
            "Peace cumulative": (6.28, 1.12, 0.25),
        },
    ),
}
"""Runs (5,000 if none are named) and wrong answers in % of another implementation, written from the papers."""


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


def _normals(rng: np.random.Generator, arms: IntArray) -> Array:
    return rng.standard_normal(len(arms))


def phased_answer(
    phasing: Phasing, rows: Array, means: Array, noise: Callable[[IntArray], Array], *, cumulative: bool = False
) -> tuple[int, int]:
    """Return the answer of a phased method, and the pulls that it made.

    Args:
        phasing: its phases.
        rows: the arms (K, d).
        means: their mean rewards (K,).
        noise: returns one standard normal number for each of the arms that a phase pulls.
        cumulative: whether the estimate is from all phases, or from each alone.
    """
    dim = rows.shape[1]
    left: IntArray = np.arange(len(rows))
    A, b, n = np.zeros((dim, dim)), np.zeros(dim), 0
    for r in range(1, phasing.n_phases + 1):
        pulls = phasing.pulls(r, left)
        X, N = rows[pulls.arms], pulls.counts
        own_A, own_b = (X.T * N) @ X, X.T @ (N * means[pulls.arms] + np.sqrt(N) * noise(pulls.arms))
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


def weighted_answer(designs: NestedDesigns, rows: Array, means: Array, rng: np.random.Generator) -> tuple[int, int]:
    """Return the answer of P1-RAGE as published, and the pulls that it made."""
    mean = WeightedMean(designs)
    for length in designs.lengths:
        arms, N = mean.design.arms, rng.multinomial(length, mean.design.weights)
        mean.add(rows[arms].T @ (N * means[arms] + np.sqrt(N) * rng.standard_normal(len(N))), length)
    return int(np.argmax(rows @ mean.theta)), mean.n


def measured_as_published(problem: Problem, budget: int, method: Method, n_runs: int) -> dict[str, float]:
    """Return the share of wrong answers of a method as published, its runs, and the mean pulls."""
    task = sp.create_learner(method, problem.X, noise_std=1.0, budget=budget, goal="fixed-budget").task
    rows, means = task.rows.gather(np.arange(problem.n_arms)), problem.X @ problem.theta
    rng = np.random.default_rng([SEED, budget])
    answer: Callable[[], tuple[int, int]]
    if isinstance(method, sp.algorithms.BayesGap):
        answer = partial(gap_answer, GapIndex(task, method.prior_std), rows, means, rng)
    elif isinstance(method, sp.algorithms.P1RAGE):
        answer = partial(weighted_answer, NestedDesigns(task), rows, means, rng)
    else:
        draw = partial(_normals, rng)
        answer = partial(phased_answer, method.phasing(task), rows, means, draw, cumulative=method.is_cumulative)
    found = [answer() for _ in range(n_runs)]
    error = sum(best != problem.best for best, _ in found) / n_runs
    pulls = sum(n for _, n in found) / n_runs
    return {"wrong": error, "s.e.": math.sqrt(error * (1.0 - error) / n_runs), "runs": n_runs, "pulls": pulls}


def apart(found: Mapping[str, Any]) -> dict[tuple[str, str, str], float]:
    """Return how many combined standard errors ours are from `OTHERS`, by problem, method and budget.

    A share of k in n has the standard error of (k + 1)/(n + 2), which is not 0.
    """
    distances = {}
    for name, (runs, shares) in OTHERS.items():
        for method, theirs in shares.items():
            ours = found.get(name, {}).get(method, {})
            for (label, row), percent in zip(ours.items(), theirs, strict=False):
                pairs = [(row["wrong"], row["runs"]), (percent / 100.0, runs.get(method, 5000))]
                near = [((p * n + 1.0) / (n + 2.0), n) for p, n in pairs]
                error = math.sqrt(sum(p * (1.0 - p) / n for p, n in near))
                distances[name, method, label] = (pairs[0][0] - pairs[1][0]) / error
    return distances


def _said(rows: list[dict[str, float]]) -> str:
    return " / ".join(f"{100 * row['wrong']:.1f} ({100 * row['s.e.']:.1f})" for row in rows)


def table(found: Mapping[str, Any]) -> str:
    """Return all that was measured as a Markdown table: wrong picks in %, and runs."""
    names = [*CASES, "soare10"]
    methods = dict.fromkeys(method for name in names for method in found.get(name, {}))
    lines = [f"| method | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for method in methods:
        cells = []
        for name in names:
            rows = [*found.get(name, {}).get(method, {}).values()]
            n = f" ({rows[0].get('runs', found['runs'])})" if rows else "-"
            cells.append(" / ".join(f"{100 * row['wrong']:.1f}" for row in rows) + n)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(n_runs: str = "200", n_phased: str = "1000", *names: str) -> None:
    """Measure, print and write all of it, or the problems named; with 0 runs, published methods alone."""
    print(f"wrong picks in % (s.e.), at T = {TIMES} times the lower bound; noise 1, known; seed {SEED}")
    print(f"{n_runs} runs; {n_phased} of published methods, a tenth of that of BayesGap")
    cases = {name: (make(), [math.ceil(times * bound) for times in TIMES]) for name, (make, bound) in CASES.items()}
    cases["soare10"] = problems.soare(10, 0.1), list(BUDGETS)
    found: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    found |= {"seed": SEED, "published runs": int(n_phased)} | ({"runs": int(n_runs)} if int(n_runs) else {})
    for name, (problem, budgets) in cases.items():
        if names and name not in names:
            continue
        labels = [str(one) for one in (BUDGETS if name == "soare10" else TIMES)]
        kept = found.setdefault(name, {})
        for method, options in METHODS.items() if int(n_runs) and name in CASES else ():
            rows = [measured(problem, budget, options, int(n_runs)) for budget in budgets]
            kept[method] = dict(zip(labels, rows, strict=True))
            last = rows[-1]
            said = f"at T = 2: {last['proved']:.0%} proved, {last['pulls']:.0f} pulls"
            print(f"{name:8} {method:28} {_said(rows)}; {said}", flush=True)
        for method, published in PUBLISHED.items():
            n = int(n_phased) // 10 if method == "BayesGap" else int(n_phased)
            rows = [measured_as_published(problem, budget, published, n) for budget in budgets]
            kept[method] = dict(zip(labels, rows, strict=True))
            print(f"{name:8} {method:28} {_said(rows)}; {rows[-1]['pulls']:.0f} pulls at the last T", flush=True)
            OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
