"""Later or smaller first bets, with noise that is learnt: pulls beside those of the default, which bets at once.

Early bets rest on a poor estimate of the noise and of the gaps. Each rule here is fixed by the past, so that no proof
is touched (docs/guarantee.md, Theorem 23). With t pulls before a block, d features, nu degrees of freedom of the noise:

    8d              no bets while t < 8d
    8d, 10 %        no bets while t < 8d and t is below 10 % of the lower bound at the estimates of theta and noise
    noise, 4        bets as if the estimated variance of the noise were 1 + 4/nu times as large

Run `python -m benchmarks.first_bets [problem [pairs [first seed [rule]]]]`; the runs of a pair share their noise. All
problems take about ten minutes of CPU time. Tables are printed, and kept in results/first_bets.json.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

import surepick as sp
from benchmarks.any_noise import DELTA, MOST, RESULTS, normal, run
from surepick import problems
from surepick.arms.views import Task
from surepick.core.betting.bets import Residuals
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.simulation.problems import Problem
from surepick.stopping.base import RuleState, Verdict
from surepick.stopping.betting import Betting, BettingState


@final
@dataclass(frozen=True, kw_only=True)
class LateBetting(Betting):
    """The betting rule with later or smaller first bets."""

    latest: float = 0.0
    """No bets before this many results for each feature."""
    share: float = math.inf
    """Bets sooner, once results are this share of the estimated lower bound."""
    doubt: float = 0.0
    """Bets as if the variance of the noise were 1 + doubt/nu times its estimate."""
    name: str = field(default="late betting", init=False)

    def start(self, task: Task) -> Any:
        """Return a fresh state."""
        return _LateState(task, self)

    def changed(self, block: Block, task: Task) -> Block:
        """Return a block as the bets are to see it: without an estimate before it there are none."""
        past, dim = block.past, len(block.b)
        if past is None or not past.has_scale or block.A0_inv is None:
            return block
        t = past.nu + dim
        if t < self.latest * dim and (self.share == math.inf or t < self.share * needed(task, block, past)):
            return replace(block, A0_inv=None)
        return replace(block, past=replace(past, R=past.R * (1.0 + self.doubt / past.nu)))


def needed(task: Task, block: Block, past: Residuals) -> float:
    """Return the lower bound on the pulls at the estimates of theta and noise before a block."""
    X, noise_std = task.rows.gather(range(task.rows.n_arms)), math.sqrt(float(past.variance))
    try:
        return sp.lower_bound(X, block.theta0, DELTA, noise_std=noise_std)
    except InvalidInput:
        return math.inf  # estimates tie


class _LateState(RuleState):
    """The state of the betting rule, which sees the first blocks in another way."""

    def __init__(self, task: Task, rule: LateBetting) -> None:
        super().__init__(task)
        self._inner, self._rule = BettingState(task, rule.sizes), rule

    def __getattribute__(self, name: str) -> Any:
        if name in ("after_block", "_inner", "_rule", "task", "regularizers", "decides_after_pulls"):
            return super().__getattribute__(name)
        return getattr(super().__getattribute__("_inner"), name)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle a block."""
        return self._inner.after_block(estimate, self._rule.changed(block, self.task))

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last block."""
        return self._inner.exact(estimate)


RULES: Mapping[str, LateBetting] = {
    "8d": LateBetting(latest=8),
    "8d, 5 %": LateBetting(latest=8, share=0.05),
    "8d, 10 %": LateBetting(latest=8, share=0.1),
    "8d, 15 %": LateBetting(latest=8, share=0.15),
    "16d, 10 %": LateBetting(latest=16, share=0.1),
    "noise, 2": LateBetting(doubt=2.0),
    "noise, 4": LateBetting(doubt=4.0),
}

PROBLEMS: Mapping[str, Callable[[int], Problem]] = {
    "many": lambda _: problems.many_arms(1000),
    "basis5": lambda _: problems.unit_basis([0.5, 0.2, 0.1, 0.0, -0.1]),
    "Soare6": lambda _: problems.soare(6),
    "5x50": lambda seed: problems.sphere(5, 50, seed=seed, times=(20.0, 2000.0)),
    "10x100": lambda seed: problems.sphere(10, 100, seed=seed, times=(20.0, 2000.0)),
    "basis5, lead 1": lambda _: problems.unit_basis([1.0, 0.0, 0.0, 0.0, 0.0]),
    "basis5, lead 3": lambda _: problems.unit_basis([3.0, 0.0, 0.0, 0.0, 0.0]),
}


def measured(name: str, pairs: str = "60", first: str = "0", *rules: str) -> None:
    """Print pulls, and the ratio of mean pulls over the lower bound for every rule; keep both."""
    n_pairs, start = int(pairs), int(first)
    drawn, multiples, usual = PROBLEMS[name], {rule: list[float]() for rule in ("", *(rules or RULES))}, list[int]()
    for seed in range(start, start + n_pairs):
        problem = drawn(seed)
        X, theta = np.asarray(problem.X), np.asarray(problem.theta)
        bound = sp.lower_bound(X, theta, DELTA)
        for rule, each in multiples.items():
            options = {"stopping": RULES[rule]} if rule else dict[str, Any]()
            each.append(run(X, theta, normal, seed, MOST, **options).estimate.n_pulls / bound)
        usual.append(round(multiples[""][-1] * bound))
    found: dict[str, Any] = {"seeds": f"{start} to {start + n_pairs - 1}", "pulls": float(np.mean(usual)), "rules": {}}
    default = np.array(multiples.pop(""))
    print(f"{name}, seeds {found['seeds']}, {found['pulls']:.0f} pulls")
    for rule, each in multiples.items():
        changed = np.array(each)
        ratio = changed.mean() / default.mean()
        error = (changed - ratio * default).std(ddof=1) / np.sqrt(n_pairs) / default.mean()
        found["rules"][rule] = {"ratio": round(float(ratio), 4), "standard error": round(float(error), 4)}
        print(f"  {rule:10s} {ratio:.3f} ± {error:.3f}", flush=True)
    path = RESULTS / "first_bets.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(
        json.dumps({**before, f"{name}, from {start}" if start else name: found}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    for one in sys.argv[1:2] or PROBLEMS:
        measured(one, *sys.argv[2:])
