"""The evidence rule: stop when a log e-value that the leader is right reaches log(1/delta).

Reference: `core.evidence` has the formula and why it is valid, `scan` how it is checked in O(d^2) per pull on rows,
`vector_sets` how on sets of vectors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, final

import numpy as np

from surepick.arms.base import PairScore
from surepick.arms.views import Task
from surepick.core.checks import check_matrix
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, log_evidence
from surepick.core.noise import noise_to_assume
from surepick.errors import InvalidInput
from surepick.stopping.base import RuleState
from surepick.stopping.scan import PairTest, ScanRule
from surepick.stopping.vector_sets import VectorEvidenceState
from surepick.types import Array, Guarantee


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence(ScanRule):
    """Stop when the log e-value that the leader is within epsilon of the best reaches log(1/delta).

    Guarantee: proved. P(stop with an answer that loses more than epsilon) <= delta for any arm set and any way of
    choosing arms from the past. The price grows like (d/2) log t and not with the number of arms. With one regulariser
    u c I it never stops later than the paper's rule.

    Args:
        mixture: kappas and weights.
        regularizer: V (d, d) in the user's coordinates; default: the information of the G-optimal design.
        elimination: an alternative once refuted stays refuted; None: wherever a number per candidate can be kept.
        full_scan: look at all candidates at every check.
        spacing: see `scan.ScanRule`; 0 decides exactly as full scans would.
    """

    mixture: Mixture = field(default_factory=Mixture.default)
    regularizer: Array | None = None
    takes_vectors: ClassVar[bool] = True
    takes_unknown_noise: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    name: str = field(default="evidence", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """The statistic is a log e-value, unless it has a bound on unknown noise in it, which holds at delta alone."""
        return is_noise_known

    def start(self, task: Task) -> RuleState:
        """Return a fresh state."""
        if task.given_noise_std is None and (self.regularizer is not None or self.mixture != Mixture.default()):
            raise InvalidInput("`noise_std` must be given beside a `regularizer` or `mixture`; or leave those out.")
        if not task.candidates.is_enumerable:
            if self.regularizer is not None:
                raise InvalidInput(f"`regularizer` has no meaning on {task.arms.description}; leave it out.")
            return VectorEvidenceState(task)
        return self.scan(task, _EvidenceTest(self, task))


@final
class _EvidenceTest(PairTest):
    """The log e-value as a pair statistic."""

    def __init__(self, rule: Evidence, task: Task) -> None:
        base = np.eye(task.arms.dim)
        self._root: Array | None = None
        if rule.regularizer is not None:
            base = task.rows.from_user(_checked(rule.regularizer, task.arms.dim))
            self._root = np.linalg.cholesky(base).astype(np.float64, copy=False)
        super().__init__(task, rule.mixture.scales[:, None, None] * base, is_strict=False)
        self._mixture = rule.mixture
        self._task = task
        self.first_threshold = math.log((2.0 if task.given_noise_std is None else 1.0) / task.delta)
        self._n_seen, self._noise_std = -1, task.given_noise_std or math.inf

    def threshold(self, estimate: LeastSquares) -> float:
        return self.first_threshold

    def _noise(self, estimate: LeastSquares) -> float:
        """Return the scale of the noise to reckon with now."""
        if self._task.given_noise_std is None and self._n_seen != estimate.n_pulls:
            self._n_seen, self._noise_std = estimate.n_pulls, noise_to_assume(estimate, None, self._task.delta)[0]
        return self._noise_std

    def pair(self, estimate: LeastSquares, difference: Array) -> float:
        u = estimate.A_inv.dot(difference)
        q1 = float(difference.dot(u))
        if not q1 > 0.0:
            return math.inf
        if self._root is not None:
            u = u.dot(self._root)
        q2 = float(u.dot(u))
        reach = max(float(difference.dot(estimate.theta)) + self.epsilon, 0.0)
        top = 0.5 * (reach / self._noise(estimate)) ** 2
        return self._mixed(estimate, [top / (q1 + kappa * q2) for kappa in self._mixture.kappas])

    def shifted(self, estimate: LeastSquares, shift: Array, factor: float) -> float:
        # |shift|^2 in the norm A (A + V_j)^-1 A, all j at once.
        w = estimate.A.dot(shift)
        inverses = estimate.regularized_inverses[self.slots(estimate)]
        return self._mixed(estimate, (inverses.dot(w).dot(w) * (0.5 * (factor / self._noise(estimate)) ** 2)).tolist())

    def _mixed(self, estimate: LeastSquares, exponents: list[float]) -> float:
        # Plain floats: on a handful of terms they are faster than arrays.
        weights = self._mixture.log_weights - 0.5 * estimate.logdets[self.slots(estimate)]
        terms = [weight + exponent for weight, exponent in zip(weights.tolist(), exponents, strict=True)]
        top = max(terms)
        return float(top + math.log(sum([math.exp(term - top) for term in terms])))

    def factors(self, estimate: LeastSquares) -> Sequence[Array]:
        F = estimate.factor()
        A_inv = F @ F.T
        return [F, A_inv if self._root is None else A_inv @ self._root]

    def score(self, estimate: LeastSquares) -> PairScore:
        logdets = estimate.logdets[self.slots(estimate)]
        noise_std = self._noise(estimate)
        return partial(log_evidence, logdets=logdets, mixture=self._mixture, noise_std=noise_std, epsilon=self.epsilon)


def _checked(regularizer: Array, dim: int) -> Array:
    """Return the regulariser, if it is one."""
    V = check_matrix("regularizer", regularizer)
    if V.shape != (dim, dim) or not np.allclose(V, V.T, rtol=1e-12, atol=0.0) or np.linalg.eigvalsh(V)[0] <= 0.0:
        raise InvalidInput(
            f"`regularizer` must be a symmetric positive definite matrix with {dim} rows and columns, got one of shape "
            f"{V.shape}; np.eye({dim}) is one."
        )
    return V
