"""A design with its proof: weights, the value they reach, and a lower bound that anyone can re-check.

Notation: y_j directions, w weights on the support, A(w) = sum w_i x_i x_i'. With phi_j(w) = y_j'A(w)^-1 y_j,

    lower bound  <=  min over w of max_j phi_j(w)  <=  max_j phi_j(w of this design)  =  value.

The lower bound is a finite mixture of alternative parameters theta_j with weights lam_j: for any theta_j with
theta_j'y_j = 1 and any weights w on the arms, 1/phi_j(w) <= theta_j'A(w)theta_j (Cauchy-Schwarz), so

    min over w of max_j phi_j(w)  >=  sum_j lam_j / max_i sum_j lam_j (x_i'theta_j)^2.

Checking it takes one pass over the arms and no matrix inverse. For directions = arms the bound is d, a theorem of
Kiefer and Wolfowitz. The characteristic time T* is twice the value for the directions of `GapDirections`.
"""

from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np

from surepick.arms.finite import as_arms
from surepick.arms.protocol import ArmSet
from surepick.core.checks import check_count, check_number
from surepick.core.design.directions import Directions, GapDirections, RowDirections
from surepick.core.design.goals import Effort
from surepick.core.design.rounding import apportion
from surepick.core.linalg import Array, IntArray, triangular, upper_inverse
from surepick.errors import InvalidInput, NotCertified, SurepickError

MOST_PULLS = 10**15


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
        """Relative distance between value and lower bound: how far from optimal this design can be at most."""
        return self.value / self.lower_bound - 1.0

    def __post_init__(self) -> None:
        # A certificate whose numbers can be changed in place would certify nothing.
        for part in (self.support, self.weights, self.hardest, self.multipliers, self.alternatives):
            part.flags.writeable = False

    def verify(self, arms: Any) -> bool:
        """Return whether value and lower bound hold for these arms, recomputed from what is stored.

        The directions are rebuilt from the arms and the stored theta. One pass over the arms, one over the
        directions; the slack is the rounding that the features' conditioning explains.
        """
        arms = as_arms(arms)
        if not self._is_well_formed(arms):
            return False
        try:
            value, bound = self._recomputed(arms)
        except (SurepickError, np.linalg.LinAlgError):
            return False
        R = arms.triangle()
        slack = 1e-12 + 32 * np.finfo(float).eps * np.linalg.cond(R / np.abs(R).max(axis=0))
        return bool(value <= self.value * (1.0 + slack) and bound >= self.lower_bound * (1.0 - slack))

    def _is_well_formed(self, arms: ArmSet) -> bool:
        parts = (self.weights, self.multipliers, self.alternatives)
        candidates = arms if self.candidates is None else self.candidates
        return bool(
            all(np.isfinite(part).all() for part in parts)
            and len(self.support) == len(self.weights) > 0
            and self.alternatives.shape == (len(self.hardest), arms.dim)
            and len(self.multipliers) == len(self.hardest)
            and (self.weights > 0).all()
            and (self.multipliers >= 0).all()
            and abs(self.weights.sum() - 1.0) <= 1e-12
            and (np.diff(self.support) > 0).all()
            and 0 <= self.support[0]
            and self.support[-1] < arms.n_arms
            and ((self.hardest >= 0) & (self.hardest < candidates.n_arms)).all()
            and candidates.dim == arms.dim
        )

    def _recomputed(self, arms: ArmSet) -> tuple[float, float]:
        directions, scale = self._directions(arms)
        rows = np.sqrt(self.weights)[:, None] * arms.gather(self.support)
        factor = upper_inverse(triangular(rows))
        value = scale * float(directions.top(factor, 1)[1][0])
        if not len(self.hardest):
            return value, scale * arms.dim if self._is_g_optimal else 0.0
        # theta_j'y_j = 1 is not taken on trust: each alternative is scaled to what it claims to be.
        products = np.einsum("ij,ij->i", self.alternatives, directions.vectors(self.hardest))
        if not (products > 0).all():
            return value, 0.0
        scaled = np.sqrt(self.multipliers)[:, None] * self.alternatives / products[:, None]
        largest = float(arms.top_quadratic(triangular(scaled).T, 1)[1][0])
        return value, scale * float(self.multipliers.sum()) / largest

    @property
    def _is_g_optimal(self) -> bool:
        return self.theta is None and self.candidates is None

    def _directions(self, arms: ArmSet) -> tuple[Directions, float]:
        candidates = arms if self.candidates is None else self.candidates
        if self.theta is None:
            return RowDirections(candidates), 1.0
        return GapDirections(candidates, self.theta), 2.0

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
