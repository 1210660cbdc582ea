"""First bets later: pulls if there are no bets before 8 results for each dimension, with noise that is learnt.

Early bets rest on a poor estimate of the noise. Without them, long runs end earlier, and short ones much later: this is
why the rule bets at once. `LateBetting` is the rule without these bets; a stake of 0 that is fixed in advance is valid.

Run `python -m benchmarks.first_bets [pairs]`; pairs of runs share their noise. 100 pairs take about half an hour of CPU
time. The table is printed, and written to results/first_bets.json.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from benchmarks.any_noise import MOST, normal, run, written
from surepick import problems
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.simulation.problems import Problem
from surepick.stopping.base import RuleState, Verdict
from surepick.stopping.betting import Betting, BettingState

N_PAIRS, FIRST = 100, 8


@final
@dataclass(frozen=True, kw_only=True)
class LateBetting(Betting):
    """The betting rule without bets before 8 results for each dimension."""

    name: str = field(default="late betting", init=False)

    def start(self, task: Task) -> Any:
        """Return a fresh state."""
        return _LateState(task, self)


class _LateState(RuleState):
    """The state of the betting rule, which does not see the estimate before the first blocks."""

    def __init__(self, task: Task, rule: LateBetting) -> None:
        super().__init__(task)
        self._inner = BettingState(task, rule.sizes)

    def __getattribute__(self, name: str) -> Any:
        if name in ("after_block", "_inner", "task", "regularizers", "decides_after_pulls"):
            return super().__getattribute__(name)
        return getattr(super().__getattribute__("_inner"), name)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle a block, without bets if it is early."""
        dim = len(block.b)
        if block.past is None or block.past.nu + dim < FIRST * dim:
            block = replace(block, A0_inv=None)
        return self._inner.after_block(estimate, block)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last block."""
        return self._inner.exact(estimate)


PROBLEMS: Mapping[str, Callable[[int], Problem]] = {
    "many": lambda _: problems.many_arms(1000),
    "basis5": lambda _: problems.unit_basis([0.5, 0.2, 0.1, 0.0, -0.1]),
    "Soare6": lambda _: problems.soare(6),
    "5x50": lambda seed: problems.sphere(5, 50, seed=seed, times=(20.0, 2000.0)),
    "10x100": lambda seed: problems.sphere(10, 100, seed=seed, times=(20.0, 2000.0)),
    "basis5, lead 1": lambda _: problems.unit_basis([1.0, 0.0, 0.0, 0.0, 0.0]),
    "basis5, lead 3": lambda _: problems.unit_basis([3.0, 0.0, 0.0, 0.0, 0.0]),
}


def main(n_pairs: int = N_PAIRS) -> None:
    """Print a row for each problem: pulls of the default, and how much longer runs are without early bets."""
    print(f"{n_pairs} pairs, seeds 0 to {n_pairs - 1}, ratio of mean pulls ± standard error")
    print("| problem | pulls | ratio |\n|---|---|---|")
    rows = []
    for name, problem_of in PROBLEMS.items():
        pairs = []
        for seed in range(n_pairs):
            problem = problem_of(seed)
            X, theta = np.asarray(problem.X), np.asarray(problem.theta)
            ends = (run(X, theta, normal, seed, MOST, **options) for options in ({}, {"stopping": LateBetting()}))
            pairs.append([end.estimate.n_pulls for end in ends])
        usual, late = np.array(pairs, dtype=float).T
        ratio = late.mean() / usual.mean()
        error = (late - ratio * usual).std(ddof=1) / np.sqrt(n_pairs) / usual.mean()
        rows.append({"problem": name, "pairs": n_pairs, "pulls": usual.mean(), "ratio": ratio, "standard error": error})
        print(f"| {name} | {usual.mean():.0f} | {ratio:.3f} ± {error:.3f} |", flush=True)
    written("first_bets", f"python -m benchmarks.first_bets {n_pairs}", rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
