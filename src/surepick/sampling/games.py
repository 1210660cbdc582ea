"""Playing against nature: AdaHedge, and optimistic gains of the arms.

AdaHedge: weights over n choices that do nearly as well as the best choice in hindsight, with no rate to tune. L (n,)
losses so far; D the mixability gap, i.e. what the weights lost against an ideal mixture; eta = log(n) / D the rate; w_k
proportional to exp(-eta L_k).

Optimistic gains of the arms in a game against nature: what a pull may be worth, given what is not known yet.

Notation: lambda nature's alternative, a_k an arm, V + eta I the regularised information, L the largest norm of an arm,
M a bound on the norm of theta, beta(t, delta) the ridge threshold.

    U_k = min( (|(theta - lambda)'a_k| + sqrt(2 h(t)) |a_k|_{(V + eta I)^-1})^2, c )

* "paper": h(t) = beta(t, t^-3), c = 4 L^2 M^2 (no gain can be larger); needs M.
* "log-t": h(t) = c = noise_std^2 log t, what published experiments ran.
* "none": h = 0, no limit. Without optimism an arm can be neglected for good, so something else has to explore.

References: de Rooij, van Erven, Grunwald and Koolen (2014) for AdaHedge; Degenne, Menard, Shang and Valko (2020).
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.checks import check_number
from surepick.core.thresholds import RidgeThreshold
from surepick.errors import InvalidInput
from surepick.stopping.glr import GLR
from surepick.types import Array

OptimismKind = Literal["paper", "log-t", "none"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Optimism:
    """The bonus and the limit of gains at a time.

    Args:
        kind: "paper", "log-t" or "none".
        noise_std: sub-Gaussian scale of the noise.
        threshold: the ridge threshold with its norms; for "paper" alone.
    """

    kind: OptimismKind
    noise_std: float
    threshold: RidgeThreshold | None = None

    def gains(self, along: Array, width: Array, t: int, dim: int) -> Array:
        """Return U (K,) from (theta - lambda)'a_k and |a_k| in the norm of (V + eta I)^-1."""
        if self.kind == "none":
            return along * along
        reach = np.abs(along) + math.sqrt(2.0 * self.exploration_rate(t, dim)) * width
        return np.minimum(reach * reach, self.limit(t))

    def exploration_rate(self, t: int, dim: int) -> float:
        """Return h(t), in squared reward units."""
        t = max(t, 2)
        if self.kind == "log-t":
            return self.noise_std**2 * math.log(t)
        assert self.threshold is not None
        return float(self.threshold(n_pulls=t, dim=dim, logdet=0.0, delta=t**-3.0, noise_std=self.noise_std))

    def limit(self, t: int) -> float:
        """Return the largest gain that is credited."""
        if self.kind == "log-t":
            return self.noise_std**2 * math.log(max(t, 2))
        assert self.threshold is not None
        assert self.threshold.largest_norm is not None
        return 4.0 * self.threshold.largest_norm**2 * self.threshold.norm_bound**2


def ridge_threshold(
    name: str, task: Task, ridge: float, norm_bound: float | None, *, n_tests: int | None = None
) -> RidgeThreshold:
    """Return beta(t, delta) = (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2.

    With `n_tests`, delta is divided by it and the determinant itself stands in place of its bound through L.
    """
    if norm_bound is None:
        raise InvalidInput(
            f"{name} needs `norm_bound`, at least the norm of theta, for its own rule and optimism, got None; if none "
            'is known, use variant="practical" without optimism="paper", or name another `stopping` rule.'
        )
    bound = check_number(
        "norm_bound", norm_bound, needed="a bound on the norm of theta, at least 0", allowed=lambda bound: bound >= 0.0
    )
    if n_tests is not None:
        return RidgeThreshold(name=name, ridge=check_ridge(ridge), norm_bound=bound, n_tests=n_tests)
    # The norm that the ridge is spherical in: that of the user's features.
    largest = math.sqrt(float(task.rows.arms.top_quadratic(np.eye(task.rows.dim), 1)[1][0]))
    return RidgeThreshold(name=name, ridge=check_ridge(ridge), norm_bound=bound, largest_norm=largest)


def ridge_rule(threshold: RidgeThreshold, *, elimination: bool | None) -> GLR:
    """Return the likelihood-ratio rule of the ridge estimate under that threshold."""
    return GLR(threshold=threshold, c=threshold.ridge, elimination=bool(elimination), is_ridge=True)


def check_ridge(ridge: float) -> float:
    """Refuse a ridge that is not above 0."""
    return check_number("ridge", ridge, needed="a number above 0", allowed=lambda ridge: ridge > 0.0)


@final
class AdaHedge:
    """Weights over n choices; `feed` losses of all of them after every round."""

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
        """The mix loss from losses so far, where weights are too small for a number: one of those did best by far."""
        behind = self._losses - self._losses.min()
        after = behind + losses
        least = float(after.min())
        logs = [math.log(float(np.exp(-rate * part).sum())) for part in (after - least, behind)]
        return least - (logs[0] - logs[1]) / rate

    def _rate(self) -> float:
        # One choice has log(1) = 0: any rate gives weight 1.
        return math.log(len(self._losses)) / self._gap if self._gap > 0.0 and len(self._losses) > 1 else math.inf
