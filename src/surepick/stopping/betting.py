"""The betting rule, which settles the bets of a block when the block closes, and the replay of its bets.

Reference: `core.betting.wealth` has the wealth, its proof and its assumptions, `core.betting.bets` the bets.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.bets import SHRUNK, Sizes
from surepick.core.betting.block import Block
from surepick.core.betting.sets import SetWealth, has_room
from surepick.core.betting.top_m import TopMWealth
from surepick.core.betting.wealth import EpsilonWealth, Placed, Wealth
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, BoolArray, Guarantee, IntArray

# Relative precision of the margin; the multiple of the lead beyond which the margin is called infinite.
MARGIN_TOL, MOST_TIMES = 1e-3, 2.0**20


def has_sets(task: Task) -> bool:
    """Return whether the m best are found by accounts of sets: since edition 2, where these fit into memory."""
    is_exact = task.epsilon == task.misfit == 0.0
    is_new = task.edition > 1 and not task.needs_order
    return is_new and task.m > 1 and is_exact and has_room(task.rivals.n_arms, task.m)


@dataclass(frozen=True, kw_only=True)
class Betting(Rule):
    """Reject a candidate for good when the wealth bet against it reaches 1/delta; stop when one is left.

    Guarantee: proved, for pulls in blocks whose arms are fixed in advance. The threshold depends neither on the
    dimension nor on the number of candidates. A block of fewer pulls than dimensions adds little evidence.
    """

    needs_fixed_blocks: ClassVar[bool] = True
    takes_unknown_noise: ClassVar[bool] = True
    takes_misfit: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    takes_drift: ClassVar[bool] = True
    takes_unequal_noise: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    has_determinant_price: ClassVar[bool] = False
    always_eliminates: ClassVar[bool] = True
    pays_real_variances: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    begins_eras: ClassVar[bool] = True
    sizes: Sizes = field(default=SHRUNK, init=False)
    name: str = field(default="betting", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """Return True: the smallest wealth is an e-value, see `core.betting.wealth`."""
        return True

    @property
    def default_ratio(self) -> float:
        """Factor by which the pulls grow from one block to the next; smaller bets suit shorter blocks."""
        return 1.08

    @property
    def usual_g_mix(self) -> float:
        """Share of the G-optimal design; a shrunk estimate needs less exploration."""
        return 0.05

    def margin(self, task: Task, blocks: Iterable[Block], lead: float) -> float | None:
        """Return the largest misfit at which a replay of the bets still has the answer, see `Replay`."""
        return self.start(task).replay(blocks).margin(lead)

    def start(self, task: Task) -> "BettingState":
        """Return a fresh state."""
        return BettingState(task, self.sizes)


@final
class BettingState(RuleState):
    """The betting rule on one task."""

    def __init__(self, task: Task, sizes: Sizes) -> None:
        super().__init__(task)
        self._options: dict[str, Any] = {
            "delta": task.delta,
            "noise_std": task.given_noise_std,
            "bounds": task.reward_range,
            "epsilon": task.epsilon,
            "misfit": task.misfit,
            "sizes": sizes,
            "level": task.rows.level,
        }
        self._wealth: SetWealth | TopMWealth | EpsilonWealth | Wealth
        if task.m > 1:
            self._wealth = (SetWealth if has_sets(task) else TopMWealth)(task.rivals, m=task.m, **self._options)
        else:
            self._wealth = (EpsilonWealth if task.epsilon > 0.0 else Wealth)(task.rivals, **self._options)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate among those not rejected."""
        return self._wealth.leading(estimate.theta)

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the leader, or the m best estimates: of all with accounts of sets, else among those not rejected."""
        wealth = self._wealth
        if isinstance(wealth, SetWealth | TopMWealth):
            return tuple(wealth.members(estimate.theta))
        return (self.leader(estimate),)

    def pairs(self, estimate: LeastSquares) -> tuple[IntArray, Array] | None:
        """Return the pairs that accounts of sets need, and the evidence that each of them misses."""
        wealth = self._wealth
        return wealth.directions(estimate.theta, estimate.A_inv) if isinstance(wealth, SetWealth) else None

    def alive(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates not separated from the leader yet."""
        return self._wealth.alternatives(leader)

    def survivors(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates that are not rejected."""
        return self._wealth.survivors(leader)

    def missing(self, leaders: Sequence[int]) -> Array:
        """Return the log wealth (K,) that is missing until these leaders reject every candidate."""
        missing: Array = self._wealth.log_price - self._wealth.log_wealth_of(leaders)
        return missing

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict:
        """Start the bets from the results told before."""
        self._wealth.begin(X, rewards)
        return self.exact(estimate)

    def go_on(self, before: RuleState, rows: IntArray) -> None:
        """Start the bets where those of an earlier state ended; `rows` has the number (K,) of each candidate there."""
        assert isinstance(before, BettingState)
        self._wealth.go_on(before._wealth, rows)  # noqa: SLF001 (of the same class)

    def conclude(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict by the wealth that the bets start with."""
        self._wealth.conclude()
        return self.exact(estimate)

    @property
    def counts_earlier(self) -> bool:
        """Whether `begin` makes evidence of results told before the first block; else they guide alone."""
        return self.task.m == 1 and self.task.misfit == 0.0 and not self.task.needs_bets

    def log_rejection(self) -> Array:
        """Return the log wealth (K,) by which candidates are rejected; not with slack."""
        return self._wealth.log_rejection()

    @property
    def log_price(self) -> float:
        """Log wealth at which a candidate is rejected."""
        return self._wealth.log_price

    @property
    def n_blocks(self) -> int:
        """Blocks settled so far."""
        return self._wealth.n_blocks

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Settle the bets by the pulls of the block and return the verdict."""
        self._wealth.settle(block)
        return self.exact(estimate)

    def n_undecidable(self, estimate: LeastSquares) -> int:
        """Return the number of candidates that blocks like the last one cannot reject."""
        return self._wealth.n_undecidable(estimate.theta) if estimate.has_theta else 0

    def replay(self, blocks: Iterable[Block]) -> "Replay":
        """Return the bets on these blocks, to be settled for any misfit; needs epsilon = 0 and m = 1."""
        if self.task.epsilon > 0.0 or self.task.m > 1:
            raise InvalidInput("a replay needs epsilon = 0 and m = 1; there is no proof for other settings.")
        return Replay(Wealth(self.task.rivals, weighs_arms=True, **self._options), blocks)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last block."""
        wealth = self._wealth
        if not estimate.has_theta:
            return Verdict(threshold=wealth.log_price)
        leader, *next_best = leaders = self.leaders(estimate)
        # The answer has rejected all others; a log wealth that was never touched is 0.
        others = wealth.log_wealth_of(leaders)
        rival = int(np.argmin(others))
        return Verdict(
            stopped=wealth.answer is not None,
            leader=leader,
            others=tuple(next_best),
            rival=rival,
            statistic=float(others[rival]),
            threshold=wealth.log_price,
        )


@final
class Replay:
    """The bets on some blocks, settled for any misfit: would the verdict stand if means were off by eta?

    Notation: that of `core.betting.block`; L_b(eta) the log wealth against arm b that the same leaders, blocks and
    laws of D lead to with z - eta bias in the place of z; price = log(1/delta).

    Bets are placed as the betting rule placed them, for every eta, so L_b(eta) falls as eta grows. Bets against
    rejected arms go on as if their wealth were 1 again, because a larger eta needs more. The verdict stands at eta if
    L_b(eta) has ever reached the price, for every rival b of the answer: docs/guarantee.md, Theorem 37.

    Args:
        wealth: fresh accounts, which settle the blocks.
        blocks: all blocks in the order of settling, those after the verdict included.
    """

    def __init__(self, wealth: Wealth, blocks: Iterable[Block]) -> None:
        self._wealth, self._placed = wealth, list[Placed]()
        self._is_rival = np.ones(wealth.n_candidates, dtype=bool)
        for block in blocks:
            self._placed += wealth.placed_on(block)
            if block.A0_inv is not None:
                self._is_rival[wealth.copies_of_leader(block.theta0)] = False
            if wealth.answer is None:
                wealth.settle(block)

    @property
    def answer(self) -> int | None:
        """The answer of the rule; None if it did not stop."""
        return self._wealth.answer

    @one_blas_thread
    def stands(self, misfit: float) -> bool:
        """Return whether the answer still rejects all rivals if means may be off by `misfit`."""
        log_wealth, peak = np.zeros((2, len(self._is_rival)))
        for placed in self._placed:
            log_wealth[placed.index] += placed.log_returns(misfit)
            np.maximum(peak, log_wealth, out=peak)
        is_rival = self._is_rival.copy()
        is_rival[self.answer] = False
        return bool((peak[is_rival] >= self._wealth.log_price).all())

    def margin(self, lead: float) -> float | None:
        """Return the largest misfit at which the answer stands; None if there is no answer or no lead.

        Args:
            lead: estimated lead of the answer over the closest rival.
        """
        return None if self.answer is None or not lead > 0.0 else largest_margin(self.stands, lead, self._wealth.misfit)


def largest_margin(replay: Callable[[float], bool], lead: float, least: float = 0.0) -> float | None:
    """Return an eta at which the replay still holds, next to the largest such; None if there is none.

    Wealth falls as eta grows, so a verdict that holds at eta holds at all smaller ones, and the search costs no risk:
    "right, if no mean is off by more than the margin" is true of all eta together. A verdict that bears a million times
    the lead rests on no model, and has an infinite margin.

    Args:
        replay: whether the verdict stands if every z loses eta times its bias.
        lead: where to begin to look, such as the estimated lead over the closest rival; above 0.
        least: an eta that is to hold, such as the one the rule allowed for.
    """
    if not replay(least):
        return None
    low, high = least, least + lead
    while replay(high):
        low, high = high, 2.0 * high
        if high > MOST_TIMES * lead:
            return np.inf
    tolerance = MARGIN_TOL * high
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replay(middle) else (low, middle)
    return low
