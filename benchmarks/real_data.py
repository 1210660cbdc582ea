"""Real options: pulls on problems fitted to public data; `surepick.simulation.datasets` has sources and terms.

Run `python -m benchmarks real_data`; it needs surepick[data]. Rewards are simulated from the fit. Writes
benchmarks/results/real_data.json.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from surepick.core.design import lower_bound
from surepick.simulation import datasets
from surepick.simulation.problems import Problem

N_RUNS, SEED, DELTA = 20, 330, 0.05
RESULTS = Path(__file__).parent / "results" / "real_data.json"
PROBLEMS: dict[str, tuple[Callable[[], Problem], float]] = {
    "films (MovieLens)": (datasets.movielens, 0.0),
    "lectures (InstEval)": (datasets.inst_eval, 0.2),
    "mixtures (concrete)": (datasets.concrete, 0.0),
}
"""Problems by name, each with its tolerance epsilon."""
ALGORITHMS = {"surepick": "lazy-track-and-stop", "RAGE": "rage", "uniform": "uniform"}


def measured(n_runs: int = N_RUNS) -> list[dict[str, Any]]:
    """Return a record for each problem and algorithm, all under the betting rule."""
    records = []
    for name, (make, epsilon) in PROBLEMS.items():
        problem = make()
        # With a tolerance the bound counts how many answers are right, and may be 0; it is left out here.
        bound = None if epsilon else float(lower_bound(problem.X, problem.theta, DELTA, problem.noise_std))
        for label, algorithm in ALGORITHMS.items():
            runs = sp.simulate(
                problem, algorithm, n_runs=n_runs, seed=SEED, delta=DELTA, epsilon=epsilon, stopping="betting"
            )
            pulls = runs.n_pulls
            records.append(
                {
                    "problem": name, "n_arms": problem.n_arms, "dim": problem.dim, "noise_std": problem.noise_std,
                    "epsilon": epsilon, "lower_bound": bound, "algorithm": label, "n_runs": n_runs, "seed": SEED,
                    "mean": float(pulls.mean()), "se": float(pulls.std(ddof=1) / np.sqrt(n_runs)),
                    "wrong": int((runs.stopped & ~runs.correct).sum()), "unfinished": int((~runs.stopped).sum()),
                }
            )  # fmt: skip
    return records


def main() -> None:
    """Print a row for each problem and algorithm, and write all of them."""
    records = measured()
    print(f"{N_RUNS} runs, seed {SEED}, delta = {DELTA}, betting rule, mean ± standard error")
    print("| problem | arms | features | epsilon | bound | algorithm | pulls | wrong | unfinished |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in records:
        bound = "-" if one["lower_bound"] is None else f"{one['lower_bound']:.0f}"
        print(
            f"| {one['problem']} | {one['n_arms']} | {one['dim']} | {one['epsilon']:g} | {bound} | {one['algorithm']} "
            f"| {one['mean']:.0f} ± {one['se']:.0f} | {one['wrong']} | {one['unfinished']} |"
        )
    RESULTS.write_text(json.dumps(records, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
