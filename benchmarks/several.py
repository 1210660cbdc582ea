"""The m best and costs: wrong answers at a large risk, pulls beside published ones, cost beside ignoring prices.

`make bench ARGS=several`, or `python -m benchmarks.several [gates | classic | costs] [runs]`.
"""

import math
import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import surepick as sp
from surepick.simulation import problems
from surepick.types import Array

Row = tuple[bool, bool, int]
"""Stopped, wrong, pulls."""


def _run(X: Array, theta: Array, noise_std: float, m: int, seed: list[int], **options: Any) -> Row:
    rng, means = np.random.default_rng(seed), X @ theta
    result = sp.identify(
        X, lambda arm: float(means[arm] + noise_std * rng.standard_normal()), m=m, noise_std=noise_std, **options
    )
    found = set(result.best) if m > 1 else {result.best}
    return result.stopped, result.stopped and found != set(np.argsort(-means)[:m].tolist()), result.n_pulls


def gates(n_runs: str = "2000") -> None:
    """Count wrong answers at delta = .3, where the means around the m-th are close."""
    print("four arms with means .8, .1, 0, -.8, noise 1, delta = .3, at most 2,500 pulls; seed 6400")
    X, theta, n = np.eye(4), np.array([0.8, 0.1, 0.0, -0.8]), int(n_runs)
    for m in (1, 2, 3):
        runs = Parallel(n_jobs=-1)(
            delayed(_run)(X, theta, 1.0, m, [6400, m, run], delta=0.3, max_pulls=2500) for run in range(n)
        )
        stopped, wrong, pulls = (np.array(column) for column in zip(*runs, strict=True))
        limit = 0.3 * n + 3.1 * math.sqrt(0.21 * n)  # about 1e-3 above what the guarantee allows
        print(
            f"  m = {m}: {stopped.sum()} of {n} stopped after {pulls.mean():.0f} pulls on average, {wrong.sum()} wrong"
            f" (limit {limit:.0f})",
            flush=True,
        )


CLASSIC = ((math.pi / 3, 4, 2, "85 +- 8"), (math.pi / 6, 4, 2, "853 +- 79"), (0.1, 3, 1, "1243 +- 182"))
"""Angle, arms, m, and pulls of 30 runs of a first version of the rule."""


def classic(n_runs: str = "60") -> None:
    """Print pulls on the instances on which m-LinGapE was published, sigma = .5."""
    print(f"the basis and an arm at an angle to e1, theta = e1 + .. + em, sigma = .5; {n_runs} runs, seed 6500")
    for angle, n_arms, m, reference in CLASSIC:
        X = np.vstack([np.eye(n_arms - 1), np.zeros(n_arms - 1)])
        X[-1, [0, -1]] = math.cos(angle), math.sin(angle)
        theta = (np.arange(n_arms - 1) < m).astype(float)
        seeds = [[6500, n_arms, m, run] for run in range(int(n_runs))]
        runs = Parallel(n_jobs=-1)(delayed(_run)(X, theta, 0.5, m, seed) for seed in seeds)
        _, wrong, pulls = zip(*runs, strict=True)
        error = statistics.stdev(pulls) / math.sqrt(len(pulls))
        said = f"{statistics.mean(pulls):.0f} +- {error:.0f} pulls, {sum(wrong)} wrong; before {reference}"
        print(f"  angle {angle:.3f}, K = {n_arms}, m = {m}: {said}", flush=True)


def _costs(seed: int, spread: float) -> tuple[float, float]:
    problem = problems.sphere(5, 50, seed=seed, times=(30.0, 400.0))
    prices = spread ** np.random.default_rng([6600, seed]).uniform(0.0, 1.0, 50)
    spent = []
    for costs in (prices, None):
        rng, means = np.random.default_rng([6601, seed]), problem.X @ problem.theta
        result = sp.identify(
            problem.X,
            lambda arm: float(means[arm] + rng.standard_normal()),  # noqa: B023 - called at once
            noise_std=1.0,
            costs=costs,
        )
        spent.append(sum(n * float(prices[arm]) for arm, n in result.counts.items()))
    return spent[0], spent[1]


def costs(n_runs: str = "60") -> None:
    """Print the total cost of plans that know the prices as a share of that of plans that do not."""
    print(f"sphere d=5 K=50, prices 1 to c at random (log-uniform), {n_runs} instances, seeds 6600 and 6601")
    for spread in (3.0, 10.0, 100.0):
        pairs = np.array(Parallel(n_jobs=-1)(delayed(_costs)(seed, spread) for seed in range(int(n_runs))))
        ratios = pairs[:, 0] / pairs[:, 1]
        total, error = pairs[:, 0].sum() / pairs[:, 1].sum(), ratios.std(ddof=1) / math.sqrt(len(ratios))
        said = f"{total:.2f} of the cost, mean of ratios {ratios.mean():.2f} +- {error:.2f}"
        print(f"  c = {spread:g}: {said}{' (aim .25)' if spread == 100.0 else ''}", flush=True)


PARTS: Mapping[str, Callable[..., None]] = {"gates": gates, "classic": classic, "costs": costs}


def main() -> None:
    """Print everything."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:2] else main()
