"""The betting rule as a stopping rule: bets are placed when an interval opens and paid out when it closes.

Reference: `core.betting` has the wealth, its proof, and what the proof asks of whoever uses it.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.betting import Betting
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.rules.verdict import Verdict


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BettingRule:
    """Reject an arm for good when the wealth bet against it reaches 1/delta; stop when one is left.

    Guarantee: proved, for pulls that come in intervals fixed in advance. Its price has neither the dimension nor
    the number of arms in it.
    """

    delta: float
    noise_std: float = 1.0
    epsilon: float = 0.0
    name: str = field(default="betting", init=False)
    guarantee: Guarantee = field(default="proved", init=False)
    is_fixed_design: bool = field(default=False, init=False)

    def regularizers(self, dim: int) -> Array:
        """Return none: the wealth needs no log-determinant."""
        return np.zeros((0, dim, dim))

    def work_on(self, candidates: ArmSet) -> "BettingState":
        """Return a fresh state for these candidates."""
        return BettingState(self, candidates)


@final
class BettingState:
    """The betting rule at work on one set of candidates."""

    def __init__(self, rule: BettingRule, candidates: ArmSet) -> None:
        self.rule = rule
        self._candidates = candidates
        self._wealth = Betting(delta=rule.delta, noise_std=rule.noise_std, epsilon=rule.epsilon).start(candidates)
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

    def after_pull(self, estimate: LeastSquares) -> None:
        """Nothing: stopping inside an interval is not allowed by the proof."""

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Pay out the bets from the interval's own pulls, and say where things stand."""
        if self._wealth.leader is not None:
            self._wealth.settle(block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last interval."""
        leader = self.leader(estimate) if estimate.has_theta else None
        limit = math.log(1.0 / self.rule.delta)
        evidence, rival = 0.0, None
        if leader is not None:
            # The answer has rejected everyone else; a wealth that was never touched is 0.
            others = self._wealth.log_wealth(leader)
            others[leader] = np.inf
            rival = int(np.argmin(others))
            evidence = float(others[rival])
        return Verdict(
            stopped=self._wealth.stopped,
            leader=leader,
            rival=rival,
            statistic=evidence,
            threshold=limit,
            is_exact=True,
            evidence=evidence,
            rule=self.rule.name,
            guarantee=self.rule.guarantee,
        )
