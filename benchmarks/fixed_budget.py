"""A fixed budget: wrong picks after T = 0.5, 1 and 2 times the lower bound of risk 0.05, by sampler.

`python -m benchmarks.fixed_budget [runs]`. Writes benchmarks/results/fixed_budget.json.
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
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.types import Array

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


def main(n_runs: str = "200") -> None:
    """Measure, print and write all of it."""
    print(f"wrong picks in % (s.e.), at T = {TIMES} times the lower bound; noise 1, known; {n_runs} runs, seed {SEED}")
    found: dict[str, Any] = {"runs": int(n_runs), "seed": SEED}
    for name, (make, bound) in CASES.items():
        problem, found[name] = make(), {}
        for method, options in METHODS.items():
            rows = [measured(problem, math.ceil(times * bound), options, int(n_runs)) for times in TIMES]
            found[name][method] = dict(zip(map(str, TIMES), rows, strict=True))
            said = " / ".join(f"{100 * row['wrong']:.1f} ({100 * row['s.e.']:.1f})" for row in rows)
            last = rows[-1]
            print(f"{name:8} {method:28} {said}; at T = 2: {last['proved']:.0%} proved, {last['pulls']:.0f} pulls")
            sys.stdout.flush()
            OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
