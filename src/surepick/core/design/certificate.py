"""A design with its proof: weights, the value they reach, and a lower bound that anyone can re-check.

Notation: y_j directions, w weights on the support, A(w) = sum w_i x_i x_i'. With phi_j(w) = y_j'A(w)^-1 y_j,

    lower bound  <=  min over w of max_j phi_j(w)  <=  max_j phi_j(w of this design)  =  value.

The lower bound is a finite mixture of alternative parameters theta_j with weights lam_j: for any theta_j with
theta_j'y_j = 1 and any weights w on the arms, 1/phi_j(w) <= theta_j'A(w)theta_j (Cauchy-Schwarz), so

    min over w of max_j phi_j(w)  >=  sum_j lam_j / max_i sum_j lam_j (x_i'theta_j)^2.

Checking it takes one pass over the arms and no matrix inverse. For directions = arms the bound is d, a theorem of
Kiefer and Wolfowitz. The characteristic time T* is twice the value for the directions of `GapDirections`.

Rounding: x'theta_j cancels as badly as the features are conditioned, so its digits in double precision prove nothing
at a condition of 1e13. The passes only find the rows that matter; these are computed in twice the precision, with a
bound on the error, and of all other rows a bound is known that counts every rounding of the pass.

Efficient rounding turns w (p,) weights into counts N (p,) of n whole pulls in nearly the same proportions. The value of
the rounded design is at most 1 / (1 - p/n) times that of w (Pukelsheim and Rieder, 1992).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any, Self, final

import numpy as np

from surepick._texts import html_table
from surepick.arms.base import ArmSet
from surepick.arms.finite import as_arms
from surepick.core.checks import check_count, check_number, check_vector
from surepick.core.design.directions import Effort
from surepick.core.linalg import one_blas_thread, triangular, upper_inverse
from surepick.errors import InvalidInput, NotCertified, SurepickError
from surepick.types import Array, IntArray


def apportion(weights: Array, n: int) -> IntArray:
    """Return counts of at least one each with sum n, for n >= len(weights) positive weights."""
    counts = np.ceil((n - len(weights) / 2) * weights).astype(np.int64)
    while (excess := int(counts.sum()) - n) != 0:
        step, ratio = (1, -counts / weights) if excess < 0 else (-1, (counts - 1) / weights)
        counts[np.argmax(ratio)] += step
    return counts


MOST_PULLS = 10**15
SLACK = 1e-9
"""Relative error that `verify` grants to the claimed value and to the claimed lower bound."""
N_PRECISE = 1000
"""Rows of a pass that are computed again in twice the precision, the largest first."""
MOST_PRECISE = 64 * N_PRECISE
"""How far that number may grow while a pass leaves open which row is the largest."""
SMALLEST = 1e-280
"""Below this, squares leave the range of double precision."""
N_IN_NOTEBOOK = 10
"""Weights in the table of a notebook."""
EPS = float(np.finfo(float).eps)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Weights on arms, certified: no design has a value below `lower_bound`, this one has `value`."""

    value: float
    """What this design reaches: T* for `characteristic_time`, the worst y'A^-1 y for `optimal_design`."""
    lower_bound: float
    """What no design can be below."""
    support: IntArray
    """Row numbers of the arms with a positive weight, increasing."""
    weights: Array
    """Their weights: positive, sum 1."""
    hardest: IntArray
    """Row numbers of the candidates (or directions) that carry the lower bound."""
    multipliers: Array = field(repr=False)
    """lam_j > 0 of the lower bound, one per `hardest`."""
    alternatives: Array = field(repr=False)
    """theta_j (m, d) of the lower bound, one per `hardest`."""
    theta: Array | None = None
    """The parameter T* belongs to; None for `optimal_design`."""
    candidates: ArmSet | None = field(default=None, repr=False)
    """Candidates other than the arms, or the directions given; None where the arms themselves play that part."""
    effort: Effort = field(default_factory=Effort, repr=False, compare=False)
    promising: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False, compare=False)
    """Arms that came closest to being used, where a warm start looks first."""

    @property
    def gap(self) -> float:
        """Relative distance between value and lower bound: how far from optimal this design can be at most.

        Infinite if the numbers of this design cannot be those of any: nothing is certified then.
        """
        value, bound = self._claims()
        if not (self._is_well_formed() and 0.0 < bound <= value * (1.0 + SLACK)):
            return math.inf
        return max(value / bound - 1.0, 0.0)

    def _claims(self) -> tuple[float, float]:
        """Return value and lower bound, (inf, 0) if they are not two finite numbers: then nothing is claimed."""
        claims: tuple[object, ...] = (self.value, self.lower_bound)
        if not all(isinstance(claim, Real) for claim in claims):  # no arrays, which may be masked
            return math.inf, 0.0
        try:
            value, bound = (check_number("claim", claim, needed="a number") for claim in claims)
        except InvalidInput:
            return math.inf, 0.0
        return value, bound

    def __post_init__(self) -> None:
        # A certificate whose numbers can be changed in place would certify nothing.
        for part in (self.support, self.weights, self.hardest, self.multipliers, self.alternatives):
            if isinstance(part, np.ndarray):  # `verify` refuses everything else
                part.flags.writeable = False

    def __repr__(self) -> str:
        return f"Design(value={self._claims()[0]:.6g}, gap={self.gap:.2g}, {np.size(self.support)} arms)"

    def _repr_html_(self) -> str:
        """Return value, lower bound and the largest weights as a table for a notebook."""
        value, bound = self._claims()
        known = [("value", f"{value:.6g}"), ("lower bound", f"{bound:.6g}"), ("gap", f"{self.gap:.2g}")]
        largest = np.argsort(-self.weights, kind="stable")[:N_IN_NOTEBOOK].tolist()
        known += [(f"weight of arm {self.support[i]}", f"{self.weights[i]:.4f}") for i in largest]
        return html_table(f"A design on {len(self.support)} arms.", known)

    def verify(self, arms: Any) -> bool:
        """Return whether value and lower bound hold for these arms up to `SLACK`, recomputed from what is stored.

        False, never an exception, whatever the fields hold, and for arms that the design cannot belong to. False as
        well if the arms are too ill-conditioned to tell in twice the working precision. The directions are rebuilt
        from the arms and the stored theta. One pass over the arms, one over the directions.
        """
        try:
            return self.gap < math.inf and self.restated(arms) is self
        except SurepickError:  # these are no arms, or theta is no parameter for them
            return False

    def restated(self, arms: Any) -> Self:
        """Return this design if it proves its claims for these arms, else one that claims only as much as it proves.

        Weights and certificate stay. If they prove nothing, the value stays as well and the lower bound is 0.
        """
        value, bound = self._recomputed(as_arms(arms))
        if not value < math.inf:
            return replace(self, lower_bound=0.0)
        claimed_value, claimed_bound = self._claims()
        if value <= claimed_value * (1.0 + SLACK) and bound >= claimed_bound * (1.0 - SLACK):
            return self
        return replace(self, value=value, lower_bound=bound)

    def _is_well_formed(self) -> bool:
        """Return whether the fields have the types, lengths and signs of a design and a certificate on some arms."""
        rows, numbers = (self.support, self.hardest), (self.weights, self.multipliers, self.alternatives)
        return bool(
            # No subclasses: masked arrays and matrices compute differently.
            all(type(part) is np.ndarray and part.dtype.kind == "i" and part.ndim == 1 for part in rows)
            and all(type(part) is np.ndarray and part.dtype == np.float64 for part in numbers)
            and all(np.isfinite(part).all() for part in numbers)
            and self.support.shape == self.weights.shape != (0,)
            and self.hardest.shape == self.multipliers.shape == self.alternatives.shape[:1]
            and self.alternatives.ndim == 2
            and all((part >= 0).all() for part in rows)
            and (np.diff(self.support) > 0).all()
            and (self.weights > 0).all()
            and (self.multipliers > 0).all()
            and abs(self.weights.sum() - 1.0) <= 1e-12
        )

    @one_blas_thread
    def _recomputed(self, arms: ArmSet) -> tuple[float, float]:
        """Return an upper bound on the value and a lower bound on the optimum; (inf, 0) if there are none."""
        rows: object = arms if self.candidates is None else self.candidates
        if not (
            self._is_well_formed()
            and isinstance(rows, ArmSet)
            and rows.dim == arms.dim == self.alternatives.shape[1]
            and self.support[-1] < arms.n_arms
            and (self.hardest < rows.n_arms).all()
            and len(self.support) >= arms.dim
        ):
            return math.inf, 0.0
        theta = None if self.theta is None else check_vector("theta", self.theta, arms.dim)
        scale = 1.0 if theta is None else 2.0
        with np.errstate(all="ignore"):  # what leaves the range becomes inf or NaN, and neither proves anything
            if theta is not None and not _pass_error(rows, theta[:, None]) < math.inf:
                return math.inf, 0.0
            directions = _ExactDirections(rows, theta)
            return scale * self._value(arms, directions), scale * self._bound(arms, directions)

    def _value(self, arms: ArmSet, directions: "_ExactDirections") -> float:
        """Return an upper bound on the largest y'A^-1 y."""
        X, root, (n, d) = arms.gather(self.support), np.sqrt(self.weights)[:, None], (len(self.support), arms.dim)
        # P whitens as far as doubles can, F corrects it: C = root X P F is orthonormal up to a defect that is known,
        # so that y'A^-1 y <= |F'P'y|^2 / (1 - defect) without trusting either factor.
        try:
            P = upper_inverse(triangular(root * X))
            U, error = _dot(X[:, None], P.T)
            U, error = root * U, root * (error + 4 * EPS * np.abs(U))
            F = upper_inverse(triangular(U))
        except np.linalg.LinAlgError:  # the support does not span
            return math.inf
        C, error = U @ F, (error + d * EPS * np.abs(U)) @ np.abs(F)
        size, spread = np.linalg.norm(C), np.linalg.norm(error)
        defect = np.linalg.norm(C.T @ C - np.eye(d)) + n * EPS * size**2 + (2 * size + spread) * spread
        return directions.longest(P, F) / float(1.0 - defect) if defect < 0.5 else math.inf

    def _bound(self, arms: ArmSet, directions: "_ExactDirections") -> float:
        """Return the lower bound on the optimum of Theorem 18 in docs/guarantee.md."""
        if not len(self.hardest):
            return float(arms.dim) if self.theta is None and self.candidates is None else 0.0
        y, rest, gap, gap_error = directions.exact(self.hardest)
        # theta_j'y_j = 1 is not taken on trust: each alternative is scaled to what it claims to be.
        product, product_error = _dot(y, self.alternatives, rest)
        if not ((gap > gap_error) & (product > product_error)).all():
            return 0.0
        lam = self.multipliers / self.multipliers.max()
        scale = np.sqrt(lam) * (gap + gap_error) / (product - product_error)
        F = (scale[:, None] * self.alternatives).T
        error = _pass_error(arms, F)

        def found(n: int) -> tuple[IntArray, float]:
            index, squares = arms.top_quadratic(F, n)
            return index, float(np.square(np.sqrt(squares[-1:]) + error).max(initial=0.0))

        def gains(index: IntArray) -> Array:
            products, errors = _dot(arms.gather(index)[:, None], self.alternatives)
            sums: Array = np.square((np.abs(products) + errors) * scale).sum(axis=1)
            return sums

        most = _at_most(found, gains) if error < math.inf else math.inf
        return float(lam.sum()) / most if most > SMALLEST else 0.0

    def require(self, gap: float = 1e-4) -> Self:
        """Return this design if its gap is at most `gap`.

        Raises:
            NotCertified: the gap is larger.
        """
        gap = check_number("gap", gap, needed="a relative gap of at least 0")
        if gap < 0:
            raise InvalidInput(f"`gap` must be a relative gap of at least 0, got {gap}; 1e-4 is the usual choice.")
        if not self.gap <= gap:
            raise NotCertified(
                f"a design within {gap:.3g} of optimal was required, this one is proved to be within "
                f"{self.gap:.3g}; solve again with a smaller `tol`, or accept the larger gap."
            )
        return self

    def round(self, n: int) -> IntArray:
        """Return whole pulls per arm of the support, sum n, as close to the weights as apportionment allows.

        The efficient rounding of Pukelsheim and Rieder (1992): the value of the rounded design is at most
        1 / (1 - len(support) / n) times that of the weights.
        """
        size = len(self.support)
        n = check_count("n", n, least=1)
        if n > MOST_PULLS:
            raise InvalidInput(f"`n` must be at most {MOST_PULLS:,}, got {n}; doubles count no further.")
        if n < size:
            raise InvalidInput(
                f"`n` must be at least {size} so that each arm of the support is pulled once, got {n}; raise it, "
                "or solve with a larger `tol` for a smaller support."
            )
        return apportion(self.weights, n)


@final
class _ExactDirections:
    """The directions of a certificate, each a pair of doubles whose sum is exact, over a gap of known error.

    Args:
        rows: the candidates, or the directions themselves.
        theta: what divides the candidates' differences; None for directions as they are.
    """

    def __init__(self, rows: ArmSet, theta: Array | None) -> None:
        self.rows, self.theta = rows, theta
        self.leader = -1 if theta is None else rows.best(theta)

    def exact(self, index: IntArray) -> tuple[Array, Array, Array, Array]:
        """Return y and rest (n, d) with y + rest the differences, their gaps (n,) and the errors of the gaps."""
        y = self.rows.gather(index)
        if self.theta is None:
            return y, np.zeros_like(y), np.ones(len(y)), np.zeros(len(y))
        y, rest = _two_sum(self.rows.gather([self.leader]), -y)
        return y, rest, *_dot(y, self.theta, rest)

    def longest(self, P: Array, F: Array) -> float:
        """Return what |F'P'y|^2 is at most over all directions y."""
        error = _pass_error(self.rows, np.abs(P) @ np.abs(F))

        def squares(index: IntArray) -> Array:
            y, rest, gap, gap_error = self.exact(index)
            Z, errors = _dot(y[:, None], P.T, rest[:, None])
            sizes = np.abs(Z @ F) + (errors + len(P) * EPS * np.abs(Z)) @ np.abs(F)
            return np.where(gap > gap_error, np.square(sizes).sum(axis=1) / np.square(gap - gap_error), np.inf)

        return _at_most(partial(self._found, P @ F, error), squares) if error < math.inf else math.inf

    def _found(self, F: Array, error: float, n: int) -> tuple[IntArray, float]:
        """Return the n directions with the largest |F'y|^2 and an upper bound on it for all others."""
        if self.theta is None:
            index, squares = self.rows.top_quadratic(F, n)
            return index, float(np.square(np.sqrt(squares[-1:]) + error).max(initial=0.0))
        gap_error = _pass_error(self.rows, self.theta[:, None])

        def score(gap: Array, square: Array) -> Array:
            # A gap without digits may be anything, so its direction is looked at before all others.
            ratio = np.full_like(gap, np.inf)
            np.divide(np.sqrt(square) + error, gap - gap_error, out=ratio, where=gap > gap_error)
            return -ratio

        found = self.rows.rivals(self.leader, self.theta, (F,), score, n)
        return found.index, float(np.square(found.score[-1:]).max(initial=0.0))


def _at_most(found: Callable[[int], tuple[IntArray, float]], precise: Callable[[IntArray], Array]) -> float:
    """Return an upper bound on a number over all rows.

    Args:
        found: given n, returns n rows (or all there are), the largest first, and an upper bound elsewhere.
        precise: given rows, returns what their numbers are at most.
    """
    n, done, largest = N_PRECISE, 0, 0.0
    while True:
        index, elsewhere = found(n)
        for start in range(done, len(index), N_PRECISE):
            largest = float(np.append(precise(index[start : start + N_PRECISE]), largest).max())  # NaN stays
        if len(index) < n:
            return largest or math.inf  # nothing but zeros: there is nothing to measure
        if elsewhere <= largest * (1.0 + 0.1 * SLACK) or n >= MOST_PRECISE:
            return float(np.maximum(largest, elsewhere))
        n, done = 8 * n, n


def _pass_error(rows: ArmSet, F: Array) -> float:
    """Return what rounding in a pass can change |F'x| by, x a row or the difference of two.

    Infinite if a product might leave the range of doubles: a pass would pass over it.
    """
    # No entry of a column exceeds the column's norm, which the triangle shares. With u = eps / 2, at most d u of what
    # |x|'|F| can be is lost in making F, d u in the product, d u in the norm, u in a difference; a difference can be
    # twice as long as a row.
    largest = np.linalg.norm(rows.triangle(), axis=0)
    return float(5 * rows.dim * EPS * np.linalg.norm(largest @ np.abs(F)))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its rounding error, which is a double too (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(a: Array) -> tuple[Array, Array]:
    """Return a as a sum of two doubles of 26 digits each, whose products are exact (Veltkamp)."""
    shifted = 134_217_729.0 * a  # 2^27 + 1
    high = shifted - (shifted - a)
    return high, a - high


def _dot(a: Array, b: Array, rest: Array | None = None) -> tuple[Array, Array]:
    """Return (a + rest)'b over the last axis in twice the working precision, and a bound on the error.

    Dot2 of Ogita, Rump and Oishi (2005): the error is that of one rounding of the result and, with u = eps / 2, at
    most (3 d u)^2 |a|'|b|; `rest` must be below the rounding of `a`. The other axes are broadcast.
    """
    shape, d = np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), a.shape[-1]
    total, carry, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for k in range(d):
        x, y = a[..., k], b[..., k]
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        product = x * y
        error = x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)
        total, lost = _two_sum(total, product)
        carry += error + lost if rest is None else error + lost + rest[..., k] * y
        size += np.abs(product)
    dot = total + carry
    # The last term covers products that leave the range of normal numbers.
    return dot, EPS * np.abs(dot) + (2 * d * EPS) ** 2 * size + 1e-290
