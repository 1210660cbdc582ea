"""Likelihood-ratio rules: the paper's presets, heuristics, and thresholds of your own on one statistic.

The statistic min over rivals of gap^2 / (2 noise_std^2 y'A^-1 y) and its thresholds are in nats.

Reference: Jedra and Proutiere (2020), section 3.4; `core.thresholds` has the formulas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.arms.base import PairScore
from surepick.arms.views import Task
from surepick.core.checks import check_number
from surepick.core.estimate import LeastSquares, RidgeEstimate
from surepick.core.evidence import glr
from surepick.core.thresholds import THRESHOLDS, RidgeThreshold, Threshold
from surepick.errors import InvalidInput
from surepick.stopping.scan import PairTest, ScanRule, ScanState
from surepick.types import Array, Guarantee, IntArray

# After the first pulls the smallest eigenvalue often equals the floor c; rounding must not hide the equality.
FLOOR_ROUNDING = 1e-10


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GLR(ScanRule):
    """Stop when the likelihood ratio exceeds a threshold and, if the threshold asks for it, A >= c I.

    Guarantee: that of the threshold.

    Args:
        threshold: an object, or the name of a preset: "paper-main", "paper-appendix", "paper-remark", "heuristic" or
            "log-t".
        c: the paper's constant in the user's features; default: the smallest eigenvalue of the information of
            `start_arms` for "paper-main" and "paper-appendix", the largest squared norm of an arm for "paper-remark".
        start_arms: the arms pulled first; default: those of `Task.spanning`.
        elimination: a refuted alternative stays refuted. None: if surepick can keep a number per candidate.
        full_scan: look at all candidates at every check.
        spacing: see `scan.ScanRule`; 0 decides exactly as full scans would.
        is_ridge: read the ridge estimate of the threshold's regulariser instead of least squares.
        for_fixed_design: whether the proof of the threshold needs pulls that depend on no reward.
    """

    threshold: Threshold | str
    c: float | None = None
    start_arms: IntArray | None = None
    is_ridge: bool = False
    for_fixed_design: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.threshold, str) and self.threshold not in THRESHOLDS:
            raise InvalidInput(
                f"`threshold` must be one of {', '.join(THRESHOLDS)} or a threshold object, got {self.threshold!r}."
            )
        if self.c is not None:
            needed = f'above 0 for the rule "{self.name}"'
            advice = "use the smallest eigenvalue of the information of the initial arms"
            check_number("c", self.c, needed=needed, allowed=lambda x: x > 0.0, advice=advice)

    @property
    def preset(self) -> Threshold:
        """The threshold as an object."""
        return THRESHOLDS[self.threshold] if isinstance(self.threshold, str) else self.threshold

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the rule: that of its threshold."""
        return self.preset.name

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """Guarantee of the rule: that of its threshold."""
        return self.preset.guarantee

    @property
    def supports_top_m(self) -> bool:  # type: ignore[override]
        """Whether the threshold holds for all pairs of candidates together."""
        return self.preset.holds_for_all_pairs

    @property
    def is_fixed_design(self) -> bool:
        """Whether the proof of the threshold needs pulls that depend on no reward."""
        return self.for_fixed_design

    def start(self, task: Task) -> ScanState:
        """Return a fresh state."""
        return self.scan(task, _GLRTest(self, task))

    def constant(self, task: Task) -> float | None:
        """Return the paper's c; None if the threshold does not use c."""
        if self.c is not None or not (self.preset.needs_floor or self.preset.u is not None):
            return self.c
        arms = task.rows.arms
        if self.preset.u is None:
            return float(arms.top_quadratic(np.eye(arms.dim), 1)[1][0])
        rows = arms.gather(task.spanning if self.start_arms is None else self.start_arms)
        return float(np.linalg.eigvalsh(rows.T @ rows)[0])


@final
class _GLRTest(PairTest):
    """The likelihood ratio, the threshold and the floor on A."""

    def __init__(self, rule: GLR, task: Task) -> None:
        self._c, metric = rule.constant(task), task.rows.metric()
        u, dim = rule.preset.u, task.arms.dim
        regularizers = np.zeros((0, dim, dim)) if u is None or self._c is None else u * self._c * metric[None]
        super().__init__(task, regularizers, is_strict=True)
        self.noise_std = task.noise_std
        self._preset, self._delta, self._is_ridge = rule.preset, task.delta, rule.is_ridge
        self._is_floor_reached = not rule.preset.needs_floor
        # A >= c M if and only if the smallest eigenvalue of R^-1 A R^-T is at least c, where M = R R'.
        self._metric_root = _root(metric) if rule.preset.needs_floor else np.eye(dim)

    def read(self, estimate: LeastSquares) -> LeastSquares:
        return RidgeEstimate(estimate) if self._is_ridge else estimate

    def threshold(self, estimate: LeastSquares) -> float:
        t, dim = estimate.n_pulls, estimate.dim
        logdet = estimate.logdets[self.slots(estimate)].sum()  # at most one; a threshold without one ignores it
        price = self._preset(n_pulls=t, dim=dim, logdet=logdet, delta=self._delta, noise_std=self.noise_std)
        return float(price) / self.noise_std**2

    def pair(self, estimate: LeastSquares, difference: Array) -> float:
        q = float(difference @ (estimate.A_inv @ difference))
        if not q > 0.0:
            return math.inf
        reach = max(float(difference @ estimate.theta) + self.epsilon, 0.0) / self.noise_std
        return reach * reach / (2.0 * q)

    def shifted(self, estimate: LeastSquares, shift: Array, factor: float) -> float:
        moved = factor / self.noise_std
        return 0.5 * moved * moved * float(shift @ (estimate.A @ shift))

    def factors(self, estimate: LeastSquares) -> Sequence[Array]:
        return [estimate.factor()]

    def score(self, estimate: LeastSquares) -> PairScore:
        return lambda gap, q: glr(gap, q, self.epsilon) / self.noise_std**2

    def floor_reached(self, estimate: LeastSquares) -> bool:
        # A only grows, so once reached the floor stays reached.
        if not self._is_floor_reached and self._c is not None:
            half = np.linalg.solve(self._metric_root, estimate.A)
            whitened = np.linalg.solve(self._metric_root, half.T)
            smallest = float(np.linalg.eigvalsh(0.5 * (whitened + whitened.T))[0])
            self._is_floor_reached = smallest >= self._c * (1.0 - FLOOR_ROUNDING)
        return self._is_floor_reached


def ridge_threshold(
    name: str, task: Task, ridge: float, norm_bound: float | None, *, n_tests: int | None = None
) -> RidgeThreshold:
    """Return the threshold of the ridge estimate that LinGame and LinGapE publish.

    beta(t, delta) = (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2, eta = `ridge`,
    M = `norm_bound` at least the norm of theta, L the largest norm of an arm.

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
    """Return the likelihood-ratio rule of the ridge estimate under this threshold."""
    return GLR(threshold=threshold, c=threshold.ridge, elimination=bool(elimination), is_ridge=True)


def check_ridge(ridge: float) -> float:
    """Return the ridge; refuse one that is not above 0."""
    return check_number("ridge", ridge, needed="a number above 0", allowed=lambda ridge: ridge > 0.0)


def _root(metric: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(metric), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise InvalidInput(
            "this rule needs features of similar size: their metric is not positive definite to rounding."
        ) from error
