"""The rule of `threshold` and `control`: call every arm met or failed; stop when none is open.

Reference: `core.betting.targets` has the accounts and their proof.
"""

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.betting.targets import FAILED, MET, TargetWealth
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import BoolArray, Guarantee, IntArray


@final
@dataclass(frozen=True, kw_only=True)
class Targets(Rule):
    """Call an arm met or failed when the bets on that reach the price; stop when every arm has a call.

    Guarantee: proved, under the assumptions of the betting rule. The default algorithm has this rule where a task has a
    `threshold` or a `control`.
    """

    needs_fixed_blocks: ClassVar[bool] = True
    takes_unknown_noise: ClassVar[bool] = True
    takes_unequal_noise: ClassVar[bool] = True
    takes_target: ClassVar[bool] = True
    has_determinant_price: ClassVar[bool] = False
    always_eliminates: ClassVar[bool] = True
    pays_real_variances: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    begins_eras: ClassVar[bool] = True
    name: str = field(default="targets", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    @property
    def default_ratio(self) -> float:
        """Factor by which the pulls grow from one block to the next, as for the betting rule."""
        return 1.08

    @property
    def usual_g_mix(self) -> float:
        """Share of the G-optimal design, as for the betting rule."""
        return 0.05

    def start(self, task: Task) -> "TargetsState":
        """Return a fresh state."""
        return TargetsState(task)


@final
class TargetsState(RuleState):
    """The calls on one task."""

    counts_earlier: ClassVar[bool] = False
    """Results told before the first block guide plans and bets, and are no evidence."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        if task.target is None:
            raise InvalidInput("stopping='targets' needs `threshold` or `control`, got neither; give one of them.")
        self._wealth = TargetWealth(
            task.rivals,
            target=task.target,
            delta=task.delta,
            noise_std=task.given_noise_std,
            bounds=task.reward_range,
            epsilon=task.epsilon,
            level=task.rows.level,
        )

    @property
    def n_blocks(self) -> int:
        """Blocks settled so far."""
        return self._wealth.n_blocks

    def alive(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates without a call."""
        return self._wealth.is_open

    def survivors(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates that are not called failed."""
        left: BoolArray = self._wealth.calls != FAILED
        return left

    def go_on(self, before: RuleState, rows: IntArray) -> None:
        """Start with the accounts of an earlier state for the same candidates and target."""
        assert isinstance(before, TargetsState)
        self._wealth.go_on(before._wealth, rows)  # noqa: SLF001 (of the same class)

    def conclude(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict by the accounts that the rule starts with."""
        self._wealth.conclude()
        return self.exact(estimate)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle the bets by the pulls of the block and return the verdict."""
        self._wealth.settle(block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last block."""
        wealth = self._wealth
        if not estimate.has_theta:
            return Verdict(threshold=wealth.log_price)
        theta, evidence = estimate.theta, wealth.log_wealth(0)
        hardest = int(np.argmin(evidence))
        met = np.flatnonzero(wealth.calls == MET)
        met = met[np.argsort(-(self.task.rivals.gather(met) @ theta), kind="stable")]
        return Verdict(
            stopped=wealth.answer is not None,
            leader=self.leader(estimate),
            met=tuple(met.tolist()),
            failed=tuple(np.flatnonzero(wealth.calls == FAILED).tolist()),
            rival=hardest,
            statistic=float(evidence[hardest]),
            threshold=wealth.log_price,
        )
