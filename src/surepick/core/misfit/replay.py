"""A verdict replayed: whether it would have been reached if every mean might be off its linear fit by eta.

Notation: that of `margin`; L_b(eta) the log wealth against arm b that the same leaders, blocks and laws of D lead to
with z - eta bias in the place of z; price = log(1/delta).

Bets are placed as the betting rule placed them, whatever eta is, so that L_b(eta) falls as eta grows; against arms that
the rule rejected they go on, as if their wealth were 1 again, because at a larger eta these need more. The verdict
stands at eta if L_b(eta) has ever reached the price, for every rival b of the answer: docs/guarantee.md, Theorem 22.
"""

from collections.abc import Iterable
from typing import final

import numpy as np

from surepick.core.block import Block
from surepick.core.linalg import one_blas_thread
from surepick.core.misfit.margin import largest_margin
from surepick.core.wealth import Placed, Wealth


@final
class Replay:
    """The bets on some blocks, to be paid for any misfit.

    Args:
        wealth: fresh accounts that weigh arms; they go through the blocks.
        blocks: in the order in which they were settled, those after the verdict included.
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
        """Where the rule stopped; None if it did not."""
        return self._wealth.answer

    @one_blas_thread
    def stands(self, misfit: float) -> bool:
        """Return whether the answer has rejected all rivals although means may be off by so much."""
        log_wealth, peak = np.zeros((2, len(self._is_rival)))
        for placed in self._placed:
            log_wealth[placed.index] += placed.log_returns(misfit)
            np.maximum(peak, log_wealth, out=peak)
        is_rival = self._is_rival.copy()
        is_rival[self.answer] = False
        return bool((peak[is_rival] >= self._wealth.log_price).all())

    def margin(self, lead: float) -> float | None:
        """Return how far means may be off for the answer to stand; None if there is no answer, or by other results.

        Args:
            lead: of the answer over the closest rival, as estimated.
        """
        return None if self.answer is None or not lead > 0.0 else largest_margin(self.stands, lead, self._wealth.misfit)
