"""The rule of a pool: bets on one item after the other, and the table itself once all items are asked.

Reference: `core.betting.pool` has the wealth, its proof and its assumptions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.betting.pool import PoolWealth
from surepick.core.estimate import LeastSquares
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, BoolArray, Guarantee


@final
@dataclass(frozen=True, kw_only=True)
class PoolBetting(Rule):
    """Reject an arm for good when the wealth bet against it reaches 1/delta; stop when one is left.

    Guarantee: proved, for scores that are fixed, between their bounds, and asked item by item in random order. A block
    is one item asked of all arms that are not rejected.
    """

    needs_fixed_blocks: ClassVar[bool] = True
    has_determinant_price: ClassVar[bool] = False
    always_eliminates: ClassVar[bool] = True
    pays_real_variances: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    name: str = field(default="pool", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def _limits(self, task: Task) -> Iterator[str]:
        if task.reward_range is None:
            yield (
                "`pool` needs scores with bounds, got none; give "
                'rewards="binary" for pass and fail, or reward_range=(lo, hi).'
            )
        said = {
            "m": task.m > 1,
            "epsilon": task.epsilon > 0.0,
            "threshold": task.target is not None and task.target.control is None,
            "control": task.target is not None and task.target.control is not None,
            "groups": task.has_offsets,
            "drift": task.drift > 0.0,
        }
        for option in [name for name, is_given in said.items() if is_given]:
            yield f"`{option}` must be left out beside `pool`, which finds the one best arm of a table."
        yield from super()._limits(task)

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """Return True: the smallest wealth is an e-value, see `core.betting.pool`."""
        return True

    def min_block(self, task: Task) -> int:
        """Return 1: a block is one item."""
        return 1

    def start(self, task: Task) -> "PoolState":
        """Return a fresh state."""
        return PoolState(task)


@final
class PoolState(RuleState):
    """The rule of a pool on one task."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert task.pool is not None
        assert task.reward_range is not None
        self._wealth = PoolWealth(task.rivals.n_arms, task.pool, task.reward_range, task.delta)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the arm with the largest sum of scores among those not rejected."""
        return self._wealth.leader

    def alive(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the arms that the next item is asked of: the leader and all not rejected."""
        return self._wealth.is_alive

    def survivors(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the arms that are not rejected."""
        return self._wealth.is_alive

    def missing(self, leaders: Sequence[int]) -> Array:
        """Return the log wealth (K,) that is missing until every arm but the leader is rejected."""
        return np.asarray(self._wealth.log_price - self._log_wealth(leaders[0]))

    def _log_wealth(self, leader: int) -> Array:
        log_wealth: Array = self._wealth.log_wealth.copy()
        log_wealth[leader] = np.inf
        return log_wealth

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle the bets on an item and return the verdict."""
        assert block.arms is not None
        assert block.rewards is not None
        self._wealth.settle(block.number, block.arms, block.rewards)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last item."""
        wealth = self._wealth
        if not estimate.has_theta:
            return Verdict(threshold=wealth.log_price)
        leader = wealth.leader
        others = self._log_wealth(leader)
        rival = int(np.argmin(others))
        return Verdict(
            stopped=wealth.answer is not None,
            leader=leader,
            rival=rival,
            statistic=float(others[rival]),
            threshold=wealth.log_price,
        )
