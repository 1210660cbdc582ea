"""Rare clicks: pulls if rewards are known to lie between 0 and 1, beside noise_std = 1/2, which is all that bounds say.

Run `python -m benchmarks.clicks [runs [runs with noise_std]]`; about a minute of CPU time for each run of all rows,
most of it with noise_std. The lower bound is that for Gaussian noise with the variances p (1 - p) of clicks, which
nobody is told.
"""

import itertools
import math
import sys
from typing import Any

import numpy as np

import surepick as sp
from surepick.types import Array

N_RUNS, DELTA = 10, 0.05


def factorial(k: int) -> Array:
    """Constant and k factors at two levels each, (2^k, 1 + k)."""
    return np.array([[1.0, *levels] for levels in itertools.product([-1.0, 1.0], repeat=k)])


PROBLEMS = {
    "5 arms, p = .02-.04": (np.eye(5), [0.04, 0.03, 0.02, 0.02, 0.02]),
    "2^3 factorial, d=4, p = .02-.10": (factorial(3), [0.06, 0.02, 0.015, 0.005]),
    "2^4 factorial, d=5, p = .01-.045": (factorial(4), [0.0275, 0.005, 0.005, 0.005, 0.0025]),
}
RULES: dict[str, dict[str, Any]] = {"clicks": {"rewards": "binary"}, "noise_std = 1/2": {"noise_std": 0.5}}


def least(X: Array, theta: Array) -> float:
    """T* kl(delta, 1 - delta) where arm a has variance p_a (1 - p_a)."""
    p = X @ theta
    best = int(np.argmax(p))
    Y = X[best] - np.delete(X, best, axis=0)
    design = sp.optimal_design(X / np.sqrt(p * (1.0 - p))[:, None], Y / (Y @ theta)[:, None])
    return 2.0 * design.lower_bound * (1.0 - 2.0 * DELTA) * math.log((1.0 - DELTA) / DELTA)


def pulls(X: Array, theta: Array, seed: int, **options: Any) -> tuple[int, bool]:
    """Return the pulls of one identification, and whether its answer is right."""
    p, rng = X @ theta, np.random.default_rng([seed, 15])
    learner = sp.create_learner("lazy-track-and-stop", X, delta=DELTA, seed=seed, **options)
    while not learner.stopped:
        for arm in learner.next_arms(max(learner.n_planned, 1)):
            learner.tell(arm, float(rng.random() < p[arm]))
    return learner.estimate.n_pulls, learner.decision.best == int(np.argmax(p))


def main(n_runs: int = N_RUNS, n_slow: int | None = None) -> None:
    """Print a row for each problem."""
    numbers = [n_runs, n_slow or n_runs]
    print(f"{numbers[0]} and {numbers[1]} runs, delta = {DELTA}, mean ± standard error")
    print(f"| problem | lower bound | {' | '.join(RULES)} | ratio | wrong |\n|---|---|---|---|---|---|")
    for name, (X, effects) in PROBLEMS.items():
        theta = np.array(effects)
        runs = [
            np.array([pulls(X, theta, seed, **rule) for seed in range(n)])
            for rule, n in zip(RULES.values(), numbers, strict=True)
        ]
        means = [one[:, 0].mean() for one in runs]
        errors = [one[:, 0].std(ddof=1) / math.sqrt(len(one)) for one in runs]
        cells = [f"{mean:,.0f} ± {error:,.0f}" for mean, error in zip(means, errors, strict=True)]
        wrong = [f"{int((one[:, 1] == 0).sum())}" for one in runs]
        ratio, bound = means[1] / means[0], least(X, theta)
        print(f"| {name} | {bound:,.0f} | {' | '.join(cells)} | {ratio:.1f} | {', '.join(wrong)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
