"""The GLR rule: the paper's presets, the heuristic, and any other threshold on the same statistic.

Reference: Jedra and Proutiere (2020), section 3.4; `core.thresholds` has the formulas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.arms import ArmSet, PairScore
from surepick.core.checks import check_number
from surepick.core.estimate import Estimate
from surepick.core.evidence import glr
from surepick.core.linalg import Array
from surepick.core.thresholds import THRESHOLDS, Guarantee, Threshold
from surepick.errors import InvalidInput
from surepick.rules.scan_state import ScanState
from surepick.rules.verdict import check_options, square_matrix

# The floor c is often exactly the smallest eigenvalue after the first pulls; rounding must not hide that.
FLOOR_ROUNDING = 1e-10


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GLRRule:
    """Stop when the GLR statistic exceeds a threshold and, if the threshold asks for it, A >= c M.

    Guarantee: that of the threshold. `proved` for the paper's presets, for any way of choosing arms from
    the past (`verdict` says what that asks of delays); `heuristic` for "heuristic".

    Args:
        threshold: a preset's name ("paper-main", "paper-appendix", "paper-remark", "heuristic") or an object.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.
        c: the paper's constant, in the original features: the smallest eigenvalue of the initial arms'
            information for "paper-main" and "paper-appendix", the largest squared norm of an arm for
            "paper-remark".
        metric: M (d, d), what the identity of the original features is in the coordinates at hand: T T' if
            arms are x = T x_raw. Default: the identity.
        full_scan: look at all arms at every check.
        spacing: see `LazyScan`; 0 decides exactly as full scans would.
        elimination: an alternative once refuted stays refuted, see `elimination`.
    """

    threshold: Threshold | str
    delta: float
    noise_std: float = 1.0
    epsilon: float = 0.0
    c: float | None = None
    metric: Array | None = None
    full_scan: bool = False
    spacing: float = 0.0
    elimination: bool = False

    def __post_init__(self) -> None:
        check_options(self.delta, self.noise_std, self.epsilon, self.spacing)
        if isinstance(self.threshold, str):
            if self.threshold not in THRESHOLDS:
                raise InvalidInput(
                    f"`threshold` must be one of {', '.join(THRESHOLDS)} or a threshold object, got {self.threshold!r}."
                )
            object.__setattr__(self, "threshold", THRESHOLDS[self.threshold])
        if self.preset.needs_floor or self.preset.u is not None:
            c = check_number("c", self.c, needed=f'a number above 0 for the rule "{self.name}"')
            if not c > 0.0:
                raise InvalidInput(
                    f'`c` must be above 0 for the rule "{self.name}", got {c}; use the smallest '
                    "eigenvalue of the information of the initial arms."
                )

    @property
    def preset(self) -> Threshold:
        """The threshold as an object."""
        assert not isinstance(self.threshold, str)
        return self.threshold

    @property
    def name(self) -> str:
        """Name of the rule: that of its threshold."""
        return self.preset.name

    @property
    def guarantee(self) -> Guarantee:
        """What is proved about the rule."""
        return self.preset.guarantee

    def regularizers(self, dim: int) -> Array:
        """Return u c M (1, d, d), or none if the threshold has no log-determinant."""
        if self.preset.u is None or self.c is None:
            return np.zeros((0, dim, dim))
        return self.preset.u * self.c * square_matrix("metric", self.metric, dim)[None]

    def start(self, arms: ArmSet) -> ScanState:
        """Return a fresh state for these arms."""
        return ScanState(self, arms, _GLRTest(self, arms.dim), first_threshold=math.inf, is_evidence=False)


@final
class _GLRTest:
    """The GLR statistic, the threshold and the floor on A."""

    is_strict = True

    def __init__(self, rule: GLRRule, dim: int) -> None:
        self.epsilon = rule.epsilon
        self._rule = rule
        self._regularizers = rule.regularizers(dim)
        self._seen: Estimate | None = None
        self._slots = slice(0, 0)
        self._is_floor_reached = not rule.preset.needs_floor
        # A >= c M if and only if the smallest eigenvalue of R^-1 A R^-T is at least c, where M = R R'.
        self._metric_root = _root(square_matrix("metric", rule.metric, dim)) if rule.preset.needs_floor else np.eye(dim)

    def threshold(self, estimate: Estimate) -> float:
        if estimate is not self._seen:
            self._slots, self._seen = estimate.slots(self._regularizers), estimate
        rule = self._rule
        logdets = estimate.logdets[self._slots]
        logdet = float(logdets[0]) if len(logdets) else 0.0
        return float(
            rule.preset(
                n_pulls=estimate.n_pulls,
                dim=estimate.dim,
                logdet=logdet,
                delta=rule.delta,
                noise_std=rule.noise_std,
            )
        )

    def pair(self, estimate: Estimate, difference: Array) -> float:
        q = float(difference @ (estimate.A_inv @ difference))
        if not q > 0.0:
            return math.inf
        reach = max(float(difference @ estimate.theta) + self.epsilon, 0.0)
        return reach * reach / (2.0 * q)

    def shifted(self, estimate: Estimate, shift: Array, factor: float) -> float:
        return 0.5 * factor * factor * float(shift @ (estimate.A @ shift))

    def factors(self, estimate: Estimate) -> Sequence[Array]:
        return [estimate.factor()]

    def score(self, estimate: Estimate) -> PairScore:
        return lambda gap, q: glr(gap, q, self.epsilon)

    def floor_reached(self, estimate: Estimate) -> bool:
        # A only grows, so once reached the floor stays reached.
        if not self._is_floor_reached and self._rule.c is not None:
            half = np.linalg.solve(self._metric_root, estimate.A)
            whitened = np.linalg.solve(self._metric_root, half.T)
            smallest = float(np.linalg.eigvalsh(0.5 * (whitened + whitened.T))[0])
            self._is_floor_reached = smallest >= self._rule.c * (1.0 - FLOOR_ROUNDING)
        return self._is_floor_reached


def _root(metric: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(metric), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise InvalidInput(
            "`metric` must be positive definite, got one that is not, to rounding; use features of similar size."
        ) from error
