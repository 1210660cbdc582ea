"""What was tried to save pulls: blocks that are longer, shorter or made to span, and bets that begin later.

Run `make bench ARGS=tried`, or some instances: `python -m benchmarks.tried NAME,NAME [runs]`. Comparisons are paired:
run i of every variant has the same instance and, as far as pulls correspond, the same noise.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pulls import DELTA, cell, in_parallel, many_arms, sphere, times
from surepick.algorithms.lazy_track_and_stop import LazyTrackAndStop
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.sampling.base import Sampler, SamplerContext
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.simulation.run import Job, run_once
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.betting import Betting
from surepick.types import BoolArray, Guarantee

SEED = 5200


class Blocks(Sampler):
    """The default's pulls in other blocks: at least so long, in several parts, or made to span while pulls are few."""

    def __init__(
        self,
        task: Task,
        inner: Sampler,
        *,
        least: int = 1,
        until: float = math.inf,
        parts: int = 1,
        spans: bool = False,
    ) -> None:
        self._inner, self._d, self._X = inner, task.rows.dim, task.rows.gather(np.arange(task.rows.n_arms))
        self._least, self._until, self._parts = least, until * self._d, parts
        self._spanning: list[int] = task.spanning.tolist() if spans else []
        self._lengths: list[int] = []
        self._arms: list[int] = []

    def open(self, context: SamplerContext) -> int:
        """Plan a block, unless this is a further part of one."""
        if not self._lengths:
            length, is_early = self._inner.open(context), context.n_asked < self._until
            if context.theta is None:
                return length
            length = max(length, self._least * self._d if is_early else 1)
            arms = [self._inner.next() for _ in range(length)]
            self._arms = (self._made_to_span(arms) if is_early else arms)[::-1]
            n = max(1, min(self._parts, length // self._d))
            self._lengths = [length * (i + 1) // n - length * i // n for i in range(n)]
        return self._lengths.pop()

    def next(self) -> int:
        """Return the next arm."""
        return self._arms.pop() if self._arms else self._inner.next()

    def _made_to_span(self, arms: list[int]) -> list[int]:
        """Put arms that add a dimension in the place of others that can be spared."""
        for arm in self._spanning:
            trials = [arms, *([*arms[:i], *arms[i + 1 :], arm] for i in range(len(arms)))]
            arms = trials[int(np.argmax([np.linalg.matrix_rank(self._X[trial], tol=1e-9) for trial in trials]))]
        return arms


class LateBetting(Rule):
    """The betting rule without the bets that come before so many pulls per feature."""

    name = "betting-late"
    guarantee: Guarantee = "proved"
    needs_fixed_blocks = True
    has_determinant_price = False
    always_eliminates = True

    def __init__(self, first: int) -> None:
        self.first = first

    def start(self, task: Task) -> RuleState:
        """Return a fresh state."""
        return LateState(task, self.first)


class LateState(RuleState):
    """Its state."""

    def __init__(self, task: Task, first: int) -> None:
        super().__init__(task)
        self._inner, self._first, self._n_before = Betting().start(task), first * task.arms.dim, 0

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that leads."""
        return self._inner.leader(estimate)

    def alive(self, leader: int) -> BoolArray:
        """Return which candidates are not rejected."""
        return self._inner.alive(leader)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle a block; one before which nothing is known is not bet on."""
        is_late = self._n_before > self._first
        self._n_before = estimate.n_pulls
        return self._inner.after_block(estimate, block if is_late else replace(block, A0_inv=None))

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand."""
        return self._inner.exact(estimate)


class Tried(NamedTuple):
    """The default with other blocks or later bets."""

    blocks: Mapping[str, Any] = {}
    first: int = 0

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts."""
        sampler, rule = LazyTrackAndStop().compose(task)
        return Blocks(task, sampler, **self.blocks), LateBetting(self.first) if self.first else rule


VARIANTS: Mapping[str, Tried] = {
    "default": Tried(),
    "blocks span, t < 8d": Tried({"spans": True, "until": 8}),
    "blocks of 2d, t < 8d": Tried({"least": 2, "until": 8}),
    "blocks of 2d": Tried({"least": 2}),
    "blocks in two parts": Tried({"parts": 2}),
    "bets from 4d": Tried(first=4),
    "bets from 8d": Tried(first=8),
}
INSTANCES: Mapping[str, Callable[[int], Problem]] = {
    "many": many_arms,
    "basis": lambda _: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
    "soare": lambda _: problems.soare(6, angle=0.1, scale=2.0),
    "sphere": sphere,
    "sphere10": lambda seed: problems.sphere(10, 100, seed=seed, times=(30.0, 400.0)),
}


def pulled(case: tuple[str, str], run: int) -> tuple[float, bool]:
    """Return the pulls of a run as a multiple of the lower bound, and whether its answer is wrong."""
    job = Job(
        problem=INSTANCES[case[0]],
        algorithm=partial(Tried, *VARIANTS[case[1]]),
        delta=DELTA,
        epsilon=0.0,
        seed=SEED,
        max_pulls=10**6,
        bounds=True,
        options={},
    )
    outcome = run_once(job, run)
    return outcome.n_pulls / outcome.lower_bound, not outcome.correct


def main(names: Sequence[str] = tuple(INSTANCES), n_runs: int = 200) -> None:
    """Print multiples of the lower bound by variant, and the change against the default."""
    print(f"delta = {DELTA:g}, {n_runs} runs, seed {SEED}: pulls / lower bound, change, wrong answers")
    for name in names:
        found = in_parallel(pulled, [(name, variant) for variant in VARIANTS], n_runs)
        usual = found[name, "default"][0]
        for (_, variant), (pulls, wrong) in found.items():
            ratio, se = times(pulls, usual)
            change = f"{100.0 * (ratio - 1.0):+.1f} +-{100.0 * se:.1f} %"
            print(f"{name:10s}{variant:24s}{cell(pulls, 2):>16s}{change:>18s}{wrong.sum():4.0f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1].split(","), *map(int, sys.argv[2:3]))
    else:
        main()
