"""AdaHedge: weights over n choices that do nearly as well as the best choice in hindsight, with no rate to tune.

Notation: L (n,) losses so far; D the mixability gap, i.e. the loss of the weights beyond that of an ideal mixture;
eta = log(n) / D the rate; w_k proportional to exp(-eta L_k).

Reference: de Rooij, van Erven, Grunwald and Koolen (2014).
"""

import math
from typing import final

import numpy as np

from surepick.types import Array


@final
class AdaHedge:
    """Weights over choices; call `feed` with the losses of all after every round."""

    def __init__(self, n: int) -> None:
        self._losses = np.zeros(n)
        self._gap = 0.0
        self._weights: Array | None = None  # computed when asked for, kept until the next round

    @property
    def weights(self) -> Array:
        """The weights in force: positive or zero, sum 1."""
        if self._weights is None:
            behind = self._losses - self._losses.min()
            rate = self._rate()
            # Before the first gap the rate is infinite: the leaders share everything.
            raw = (behind == 0.0).astype(np.float64) if math.isinf(rate) else np.exp(-rate * behind)
            self._weights = raw / raw.sum()
        return self._weights

    def feed(self, losses: Array) -> None:
        """Take in the losses (n,) of a round played with `weights`."""
        weights, rate = self.weights, self._rate()
        least = float(losses[weights > 0.0].min()) if math.isinf(rate) else float(losses.min())
        mix = least
        if not math.isinf(rate):
            total = float(weights @ np.exp(-rate * (losses - least)))
            mix = least - math.log(total) / rate if total > 0.0 else self._mix_loss(losses, rate)
        # The exact difference is never negative.
        self._gap += max(float(weights @ losses) - mix, 0.0)
        self._losses += losses
        self._weights = None

    def _mix_loss(self, losses: Array, rate: float) -> float:
        """Return the mix loss from the losses so far, where the best choice has a weight that underflows."""
        behind = self._losses - self._losses.min()
        after = behind + losses
        least = float(after.min())
        logs = [math.log(float(np.exp(-rate * part).sum())) for part in (after - least, behind)]
        return least - (logs[0] - logs[1]) / rate

    def _rate(self) -> float:
        # One choice has log(1) = 0: any rate gives weight 1.
        return math.log(len(self._losses)) / self._gap if self._gap > 0.0 and len(self._losses) > 1 else math.inf
