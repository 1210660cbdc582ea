"""Readings that drift: answers, withdrawn claims and pulls with and without `drift`.

Three arms with means .5, .2 and 0, normal noise of standard deviation 1, and a drift that rises by .05 at every pull,
adds 1 to every third reading, or rises by 3 after every 60 pulls. Run `python -m benchmarks.drift [runs]`; 200 runs
take about ten minutes of CPU time. The table is printed, and written to results/drift.json row by row: rows of as many
runs that are there already are not measured again, so that a run that was stopped goes on. Delete the file for a new
version of the rules.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.any_noise import RESULTS, Noise, normal, run, written
from surepick.types import Array

N_RUNS, MOST = 200, 5_000
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
    path = RESULTS / "drift.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    kept = {(row["drift"], str(row["options"])): row for row in before if row["runs"] == n_runs}
    rows: list[dict[str, Any]] = []
    for shape in SHAPES:
        for options in OPTIONS:
            if (row := kept.get((shape.__name__, str(dict(options))))) is None:
                row = _measured(shape, options, n_runs)
            rows.append(row)
            size = f"{row['pulls']:.0f} ± {row['standard error']:.0f}"
            counts = " | ".join(str(row[kind]) for kind in ("right", "wrong", "withdrawn", "open"))
            print(f"| {shape.__name__} | {dict(options)} | {size} | {counts} |", flush=True)
            written("drift", f"python -m benchmarks.drift {n_runs}", rows)


def _measured(shape: Noise, options: Mapping[str, Any], n_runs: int) -> dict[str, Any]:
    ends = [run(np.eye(3), MEANS, shape, seed, MOST, **options) for seed in range(n_runs)]
    pulls = np.array([end.estimate.n_pulls for end in ends])
    said = Counter(_said(end) for end in ends)
    row: dict[str, Any] = {"drift": shape.__name__, "options": dict(options), "runs": n_runs}
    row |= {"pulls": float(pulls.mean()), "standard error": float(pulls.std(ddof=1) / np.sqrt(n_runs))}
    return row | {kind: said[kind] for kind in ("right", "wrong", "withdrawn", "open")}


def _said(end: Any) -> str:
    decision = end.decision
    if decision.guarantee == "withdrawn":
        return "withdrawn"
    if not decision.stopped:
        return "open"
    return "right" if decision.best == 0 else "wrong"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
