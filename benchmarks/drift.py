"""Readings that drift: answers, withdrawn claims and pulls with and without `drift`.

Three arms with means .5, .2 and 0, normal noise of standard deviation 1, and a drift that rises by .05 at every pull,
adds 1 to every third reading, or rises by 3 after every 60 pulls. Run `python -m benchmarks.drift [runs]`; 100 runs
take about ten minutes of CPU time. The table is printed, and written to results/drift.json.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.any_noise import Noise, normal, run, written
from surepick.types import Array

N_RUNS, MOST = 100, 5_000
MEANS = np.array([0.5, 0.2, 0.0])


def slope(rng: np.random.Generator, n: int) -> Array:
    """A twentieth of the noise more at every pull."""
    return normal(rng, n) + 0.05 * np.arange(n)


def period(rng: np.random.Generator, n: int) -> Array:
    """Every third reading is higher by one."""
    high: Array = (np.arange(n) % 3 == 0).astype(np.float64)
    return normal(rng, n) + high


def steps(rng: np.random.Generator, n: int) -> Array:
    """Readings rise by three after every 60."""
    return normal(rng, n) + 3.0 * (np.arange(n) // 60)


SHAPES: tuple[Noise, ...] = (normal, slope, period, steps)
OPTIONS: tuple[Mapping[str, Any], ...] = ({"noise_std": 1.0}, {"noise_std": 1.0, "drift": 1.0}, {"noise": "any"})


def main(n_runs: int = N_RUNS) -> None:
    """Print a row for each drift and each set of options."""
    print(f"{n_runs} runs, seeds 0 to {n_runs - 1}, at most {MOST:,} pulls, mean ± standard error")
    print("| drift | options | pulls | right | wrong | withdrawn | open |\n|---|---|---|---|---|---|---|")
    rows = []
    for shape in SHAPES:
        for options in OPTIONS:
            ends = [run(np.eye(3), MEANS, shape, seed, MOST, **options) for seed in range(n_runs)]
            pulls = np.array([end.estimate.n_pulls for end in ends])
            said = Counter(_said(end) for end in ends)
            row: dict[str, Any] = {"drift": shape.__name__, "options": dict(options), "runs": n_runs}
            row |= {"pulls": float(pulls.mean()), "standard error": float(pulls.std(ddof=1) / np.sqrt(n_runs))}
            row |= {kind: said[kind] for kind in ("right", "wrong", "withdrawn", "open")}
            rows.append(row)
            size = f"{row['pulls']:.0f} ± {row['standard error']:.0f}"
            counts = " | ".join(str(said[kind]) for kind in ("right", "wrong", "withdrawn", "open"))
            print(f"| {shape.__name__} | {dict(options)} | {size} | {counts} |", flush=True)
    written("drift", f"python -m benchmarks.drift {n_runs}", rows)


def _said(end: Any) -> str:
    decision = end.decision
    if decision.guarantee == "withdrawn":
        return "withdrawn"
    if not decision.stopped:
        return "open"
    return "right" if decision.best == 0 else "wrong"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
