"""The betting rule: bets are placed when an interval opens and paid out when it closes.

Reference: `core.betting` has the wealth, its proof, and what the proof asks of whoever uses it.
"""

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from surepick.arms.view import Task
from surepick.core.betting import Wealth
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.stopping.protocol import Rule, RuleState, Verdict


@final
@dataclass(frozen=True, kw_only=True)
class Betting(Rule):
    """Reject a candidate for good when the wealth bet against it reaches 1/delta; stop when one is left.

    Guarantee: proved, for pulls that come in intervals fixed in advance. Its price has neither the dimension nor the
    number of candidates in it. A block of fewer pulls than dimensions tells it little.
    """

    needs_fixed_intervals: ClassVar[bool] = True
    pays_for_determinants: ClassVar[bool] = False
    always_eliminates: ClassVar[bool] = True
    name: str = field(default="betting", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def start(self, task: Task) -> "BettingState":
        """Return a fresh state."""
        return BettingState(task)


@final
class BettingState(RuleState):
    """The betting rule at work on one set of candidates."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._wealth = Wealth(task.rivals, delta=task.delta, noise_std=task.noise_std, epsilon=task.epsilon)
        self._led: tuple[int, Array, int] | None = None

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that leads now: the best estimate among those not rejected."""
        if self._wealth.answer is not None:
            return self._wealth.answer
        # Asked when an interval closes and again when the next one opens: one pass does for both.
        theta, n_blocks = estimate.theta, self._wealth.n_blocks
        if self._led is None or self._led[0] != n_blocks or not np.array_equal(self._led[1], theta):
            self._led = n_blocks, theta.copy(), self._wealth.leading(theta)
        return self._led[2]

    def alive(self, leader: int) -> BoolArray:
        """Return which candidates (K,) the leader has yet to be separated from."""
        return self._wealth.is_alternative(leader)

    def open(self, estimate: LeastSquares, leader: int) -> None:
        """Place the bets of an interval whose arms are fixed and none of whose results is in."""
        self._wealth.place(leader, theta=estimate.theta, A_inv=estimate.A_inv)

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Pay out the bets from the interval's own pulls, and say where things stand."""
        if self._wealth.leader is not None:
            self._wealth.settle(block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last interval."""
        wealth = self._wealth
        if not estimate.has_theta:
            return Verdict(threshold=wealth.log_price)
        leader = self.leader(estimate)
        # The answer has rejected everyone else; a wealth that was never touched is 0.
        others = wealth.log_wealth(leader)
        others[leader] = np.inf
        rival = int(np.argmin(others))
        return Verdict(
            stopped=wealth.stopped,
            leader=leader,
            rival=rival,
            statistic=float(others[rival]),
            threshold=wealth.log_price,
        )
