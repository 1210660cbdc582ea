"""The evidence rule: stop when a log e-value that the leader is right reaches log(1/delta).

Reference: `core.evidence` has the formula and why it is valid; `lazy` has how it is checked in O(d^2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet, PairScore
from surepick.core.estimate import Estimate
from surepick.core.evidence import Mixture, log_evidence
from surepick.core.linalg import Array
from surepick.core.thresholds import Guarantee
from surepick.rules.scan_state import ScanState
from surepick.rules.verdict import check_options, square_matrix


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvidenceRule:
    """Stop when the log e-value that the leader is within epsilon of the best reaches log(1/delta).

    Guarantee: proved. P(stop with an answer that loses more than epsilon) <= delta for any arm set and any
    way of choosing arms from the past; `verdict` says what that asks of delays. The price grows like (d/2)
    log t and not with the number of arms. With one regulariser u c I it never stops later than the paper's
    rule.

    Args:
        delta: risk.
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.
        mixture: kappas and weights.
        regularizer: V (d, d); default: the identity of the coordinates at hand, which in whitened coordinates
            is the information of the G-optimal design.
        full_scan: look at all arms at every check.
        spacing: see `LazyScan`; 0 decides exactly as full scans would.
        elimination: an alternative once refuted stays refuted, see `elimination`.
    """

    delta: float
    noise_std: float = 1.0
    epsilon: float = 0.0
    mixture: Mixture = field(default_factory=Mixture.default)
    regularizer: Array | None = None
    full_scan: bool = False
    spacing: float = 0.0
    elimination: bool = False
    name: str = field(default="evidence", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def __post_init__(self) -> None:
        check_options(self.delta, self.noise_std, self.epsilon, self.spacing)

    def regularizers(self, dim: int) -> Array:
        """Return kappa_j V, (J, d, d)."""
        base = square_matrix("regularizer", self.regularizer, dim)
        return self.mixture.scales[:, None, None] * base

    def start(self, arms: ArmSet) -> ScanState:
        """Return a fresh state for these arms."""
        limit = math.log(1.0 / self.delta)
        return ScanState(self, arms, _EvidenceTest(self, arms.dim), first_threshold=limit, is_evidence=True)


@final
class _EvidenceTest:
    """The log e-value as a pair statistic."""

    is_strict = False

    def __init__(self, rule: EvidenceRule, dim: int) -> None:
        self.epsilon = rule.epsilon
        self._rule = rule
        self._limit = math.log(1.0 / rule.delta)
        self._scale = 0.5 / rule.noise_std**2
        self._log_weights = rule.mixture.log_weights
        self._regularizers = rule.regularizers(dim)
        base = square_matrix("regularizer", rule.regularizer, dim)
        self._root: Array | None = None
        if rule.regularizer is not None:
            self._root = np.linalg.cholesky(base).astype(np.float64, copy=False)
        self._seen: Estimate | None = None
        self._slots = slice(0, 0)

    def logdets(self, estimate: Estimate) -> Array:
        """Log-determinants of this rule's regularisers."""
        return estimate.logdets[self._find_slots(estimate)]

    def _find_slots(self, estimate: Estimate) -> slice:
        if estimate is not self._seen:
            self._slots, self._seen = estimate.slots(self._regularizers), estimate
        return self._slots

    def threshold(self, estimate: Estimate) -> float:
        return self._limit

    def pair(self, estimate: Estimate, difference: Array) -> float:
        u = estimate.A_inv.dot(difference)
        q1 = float(difference.dot(u))
        if not q1 > 0.0:
            return math.inf
        if self._root is not None:
            u = u.dot(self._root)
        q2 = float(u.dot(u))
        reach = max(float(difference.dot(estimate.theta)) + self.epsilon, 0.0)
        top = self._scale * reach * reach
        return self._mixed(estimate, [top / (q1 + kappa * q2) for kappa in self._rule.mixture.kappas])

    def shifted(self, estimate: Estimate, shift: Array, factor: float) -> float:
        # |shift|^2 in the norm A (A + V_j)^-1 A, all j at once.
        w = estimate.A.dot(shift)
        inverses = estimate.regularized_inverses[self._find_slots(estimate)]
        return self._mixed(estimate, (inverses.dot(w).dot(w) * (factor * factor * self._scale)).tolist())

    def _mixed(self, estimate: Estimate, exponents: list[float]) -> float:
        # Plain floats: on a handful of terms they are faster than arrays.
        weights = self._log_weights - 0.5 * self.logdets(estimate)
        terms = [weight + exponent for weight, exponent in zip(weights.tolist(), exponents, strict=True)]
        top = max(terms)
        return float(top + math.log(sum([math.exp(term - top) for term in terms])))

    def factors(self, estimate: Estimate) -> Sequence[Array]:
        F = estimate.factor()
        A_inv = F @ F.T
        return [F, A_inv if self._root is None else A_inv @ self._root]

    def score(self, estimate: Estimate) -> PairScore:
        rule, logdets = self._rule, self.logdets(estimate)

        def evidence(gap: Array, q1: Array, q2: Array) -> Array:
            return log_evidence(
                gap, q1, q2, logdets, mixture=rule.mixture, noise_std=rule.noise_std, epsilon=rule.epsilon
            )

        return evidence

    def floor_reached(self, estimate: Estimate) -> bool:
        return True
