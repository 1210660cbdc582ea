"""Plans of calls against a target: the forecast beside simulated runs.

Run `python -m benchmarks.target_plans`; about half a minute of CPU time. Noise 1, delta = 0.05, seed 0. The table is
also written to benchmarks/results/target_plans.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from benchmarks.clicks import factorial
from surepick.types import Array

RESULTS = Path(__file__).parent / "results" / "target_plans.json"
SPHERE = sp.problems.sphere(5, 50, seed=4)
PLANE = np.column_stack([np.ones(40), np.random.default_rng(1).uniform(0.0, 10.0, (40, 2))])
FACTORIAL = factorial(4), np.array([1.0, 0.35, 0.25, 0.2, 0.12])
CASES: tuple[tuple[str, tuple[Array, Array], dict[str, Any], int], ...] = (
    ("factorial", FACTORIAL, {"threshold": 0.9}, 4),
    ("factorial", FACTORIAL, {"threshold": 0.9, "calls": "fdr"}, 4),
    ("factorial", FACTORIAL, {"control": 4}, 4),
    ("basis", (np.eye(5), np.array([1.0, 0.75, 0.5, 0.25, 0.0])), {"threshold": 0.6}, 8),
    ("sphere", (SPHERE.X, SPHERE.theta), {"threshold": 0.5, "epsilon": 0.3}, 6),
    ("plane", (PLANE, np.array([50.0, 1.5, 1.2])), {"threshold": 65.0, "epsilon": 0.5}, 8),
    ("sphere", (SPHERE.X, SPHERE.theta), {"control": 3, "epsilon": 0.3, "calls": "fdr"}, 6),
)


def main() -> None:
    """Print the table, and write it to a file."""
    rows = []
    print("| problem | task | forecast | runs | pulls | ratio | wrong |\n|---|---|---|---|---|---|---|")
    for name, (X, theta), task, n_runs in CASES:
        planned = sp.plan(X, theta=theta, noise_std=1.0, **task)
        runs = planned.simulate(n_runs)
        row = {"problem": name, "task": task, "forecast": planned.pulls, "runs": n_runs, "pulls": runs.mean}
        row |= {"se": runs.se, "ratio": runs.mean / planned.pulls, "wrong": runs.n_errors}
        rows.append(row)
        print(
            f"| {name} | {task} | {planned.pulls:.0f} | {n_runs} | {runs.mean:.0f} ± {runs.se:.0f} | "
            f"{row['ratio']:.2f} | {runs.n_errors} |",
            flush=True,
        )
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
