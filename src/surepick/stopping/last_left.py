"""The answer of a phased method with a fixed budget: after each phase the best go on, and the last one left is it.

Notation: S_r the candidates left in phase r, k_r how many of them go on, theta least squares. The end of phase r orders
S_r by theta'z, keeps the first k_r, and after the last phase the first is the answer. Nothing is tested, so nothing is
proved of the answer; docs/guarantee.md bounds the probability that the best candidate is dropped (Theorem 43).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.stopping.base import Rule, Verdict
from surepick.stopping.phases import EliminationState, Phase
from surepick.types import Guarantee, IntArray


@final
@dataclass(frozen=True, kw_only=True)
class LastLeft(Rule):
    """Keep the best after each phase; stop after the last one with the best of those left. Guarantee: none.

    Args:
        keep: how many go on, from the number of the phase, 1, 2, ..., and the candidates left, the best first.
        n_phases: number of phases; the rule stops earlier if one candidate is left.
        cumulative: whether the estimate is of all results, or of the phase's own.
        name: name of the rule.
    """

    keep: Callable[[int, IntArray], int]
    n_phases: int
    cumulative: bool = False
    name: str = "last-left"
    guarantee: Guarantee = field(default="none", init=False)
    needs_fixed_blocks: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    opens_ahead: ClassVar[bool] = False
    takes_unknown_noise: ClassVar[bool] = True
    plans_budget: ClassVar[bool] = True

    def min_block(self, task: Task) -> int:
        """Return 1: a phase is as long as its method says."""
        return 1

    def start(self, task: Task) -> "LastLeftState":
        """Return a fresh state."""
        return LastLeftState(task, self)


@final
class LastLeftState(EliminationState):
    """The candidates left on one task."""

    def __init__(self, task: Task, rule: LastLeft) -> None:
        super().__init__(task)
        self._rule, self._n_phases = rule, 0

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Drop all but the best by the results of the phase, or of all phases."""
        rule, left = self._rule, self.left
        self._n_phases += 1
        rows = self.task.candidates.gather(left)
        value = rows @ estimate.theta if rule.cumulative else Phase(rows, block).value
        ordered = left[np.argsort(-value, kind="stable")]
        self._alive[ordered[rule.keep(self._n_phases, ordered) :]] = False
        if self._n_phases >= rule.n_phases or self._alive.sum() == 1:
            self._answer = int(ordered[0])
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last phase; there is no evidence."""
        return self.verdict(estimate, 0.0, -float(np.log(self.task.delta)))
