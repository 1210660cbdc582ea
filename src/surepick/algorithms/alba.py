"""ALBA (Tao, Blanco and Zhou 2018): halve the number of arms left, estimating from random pulls of a G-optimal design.

    level r         r = 0, 1, ... with risk delta_r = 6 delta/(pi^2 (r + 1)^2), until at most floor(d/2^r) arms are left
    phase s         of a level, with risk delta_s = 6 delta_r/(pi^2 s^2) and accuracy e_s = 4/1.1^s
    arms            n_s = ceil(l_s log(5 S^2/(2 delta_s))) independent draws from the G-optimal design w of the arms
                    left in their span, S the arms left when the level began, k the dimension of the span,
                    l_s = 4 c (2 + (6 + e_s) k)/e_s^2, c = max(4 L^2/noise_std^2, 3)
    estimate        theta = A(w)^-1 (1/n) sum r_i x_i, with the information of the design, not of the pulls drawn
    elimination     with x^ the best estimate, x goes if theta'(x^ - x) exceeds the width of y = x^ - x
    stopping        when one arm is left

L is `reward_bound`, at least every |theta'x|: the estimate's error depends on it, because the pulls drawn differ from
the design. The width is derived here (the paper has constants for its analysis): the error of y'theta is the mean of
independent y'A(w)^-1 x x'theta minus its expectation, at most b = 2 L max |y'A(w)^-1 x| with variance at most
L^2 |y|^2 in the norm of A(w)^-1, and the noise, sub-Gaussian given the arms. With l = log(2 S^2/delta_s), by
Bernstein's inequality and the tail bound,

    width = L |y| sqrt(2 l/n) + 2 b l/(3 n) + (noise_std/n) sqrt(2 l sum_i (y'A(w)^-1 x_i)^2)

fails with probability delta_s/S^2 at most; summed over the S - 1 arms that might beat the best one, phases and levels
this is below delta: proved. The schedule e_s = 4/1.1^s is that of the public code, which takes L from the true theta.
If some pulls of a phase failed, its results no longer follow the design. Then the rule uses least squares of the phase
and the width noise_std |y| sqrt(2 l) in the norm of the phase's own A^-1, which need no design.

Practical: least squares from all data, betting in blocks by schedule, pulls in the design's proportions instead of
drawn, and no `reward_bound`. At the start of each level the design for the candidates left is renewed; it may use
any arm, so its largest z'A(w)^-1 z is at most the dimension of their span. Candidates need not be arms.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.base import RowSubset
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.checks import LARGEST, check_number
from surepick.core.design.solve import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import square_norms
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.fixed import Drawn
from surepick.sampling.phases import PhasedSampler, PracticalPhases, candidates_left
from surepick.stopping.base import Rule, Verdict
from surepick.stopping.phases import EliminationState, Phase
from surepick.types import Array, Guarantee, IntArray

# Singular values below this share of the largest are rounding: the arms left do not differ in these directions.
SPAN_TOL = 1e-9
# Relative difference up to which the results have the information of the pulls drawn; above it, some are missing.
SAME = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class Alba(Options):
    """ALBA: halve the number of arms left, level by level, by G-optimal phases.

    Args:
        reward_bound: L, a number that no expected reward exceeds in size; only for the paper's own sampling.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "alba", n_runs=5, seed=0).mean
        117.8

    References:
        Tao, Blanco and Zhou (2018), "Best arm identification in linear bandits with linear dimension dependency".
    """

    plans_with_noise: ClassVar[bool] = True
    reward_bound: float | None = None
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        if not self.is_paper:
            rule = self.rule("betting")
            planner = PracticalPhases(task, self.times(rule), WhenLevelReached(task), is_pairs=False)
            return PhasedSampler(planner), rule
        if task.rivals is not task.rows:
            raise InvalidInput(
                'alba with variant="paper" draws from the arms left and cannot be used with `candidates` or with '
                'noise_std for each arm; use variant="practical".'
            )
        if self.reward_bound is None:
            raise InvalidInput(
                'alba with variant="paper" needs `reward_bound`, at least the size of every expected reward; if none '
                'is known, use variant="practical", which needs none.'
            )
        needed, advice = f"above 0 and at most {LARGEST:g}", "take the largest reward to be expected"
        allowed = lambda bound: 0.0 < bound <= LARGEST  # noqa: E731
        bound = check_number("reward_bound", self.reward_bound, needed=needed, allowed=allowed, advice=advice)
        phases = AlbaPhases(task, bound)
        return phases, AlbaRule(phases=phases) if self.is_own_rule else self.rule("betting")


def next_level(level: int, n_left: int, dim: int) -> int:
    """Return the first level from `level` on whose goal of floor(d/2^r) candidates is not reached yet."""
    # The loop ends: at least 1 candidate is left, and floor(d/2^r) reaches 0.
    while n_left <= dim >> level:
        level += 1
    return level


@final
class WhenLevelReached:
    """Ends a practical phase when the goal of its level is reached."""

    def __init__(self, task: Task) -> None:
        self._level, self._dim = -1, task.rows.dim

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether those left are few enough for another level."""
        before, self._level = self._level, next_level(max(self._level, 0), len(left), self._dim)
        return self._level != before


@final
class AlbaPhases(Sampler):
    """The paper's phases, one block each, of independent draws.

    The rule reads the draws when a phase is over, so rule and sampler share this object, and so do
    copies of the two.
    """

    def __init__(self, task: Task, bound: float) -> None:
        self._task, self._bound = task, bound
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(5,)))
        self.level, self.phase, self.n_at_level = -1, 0, 0

    def open(self, context: SamplerContext) -> int:
        """Begin the next phase for the arms left."""
        self.begin(candidates_left(context, self._task.rows.n_arms))
        return self.n_pulls

    def begin(self, left: IntArray) -> None:
        """Begin the next phase for the arms with these row numbers."""
        arms = self._task.rows
        level = next_level(max(self.level, 0), len(left), arms.dim)
        if level != self.level:
            self.level, self.phase, self.n_at_level = level, 0, len(left)
        self.phase += 1
        rows = arms.gather(left)
        sizes, axes = np.linalg.svd(rows, full_matrices=False)[1:]
        self.basis = axes[sizes > SPAN_TOL * sizes[0]].T
        inside = rows @ self.basis
        if self.basis.shape[1] == 1:
            longest = int(np.argmax(np.abs(inside[:, 0])))  # a design in one dimension: the longest arm
            support, self.weights = np.array([longest]), np.ones(1)
        else:
            design = optimal_design(RowSubset(inside), tol=1e-3)
            support, self.weights = design.support, design.weights
        self.support, self._inside = left[support], inside[support]
        self._rows = dict(zip(self.support.tolist(), arms.gather(self.support), strict=True))
        self._draws = Drawn(self.support, self.weights, self._rng)
        self._n_drawn, self._information = 0, np.zeros((arms.dim, arms.dim))

    def next(self) -> int:
        """Draw an arm; beyond the phase's length too."""
        arm = self._draws.next()
        x = self._rows[arm]
        self._n_drawn += 1
        self._information += x[:, None] * x
        return arm

    @property
    def risk(self) -> float:
        """delta_s."""
        return 36.0 * self._task.delta / (math.pi**2 * (self.level + 1) * self.phase) ** 2

    @property
    def price(self) -> float:
        """The l of the widths, log(2 S^2/delta_s)."""
        return math.log(2.0 * self.n_at_level**2 / self.risk)

    @property
    def n_pulls(self) -> int:
        """n_s."""
        accuracy, dim = 4.0 / 1.1**self.phase, len(self.basis.T)
        c = max(4.0 * (self._bound / self._task.noise_std) ** 2, 3.0)
        factor = 4.0 * c * (2.0 + (6.0 + accuracy) * dim) / accuracy**2
        return math.ceil(factor * math.log(2.5 * self.n_at_level**2 / self.risk))

    def is_complete(self, information: Array) -> bool:
        """Return whether results with this information are complete: no draw is missing."""
        missing = np.trace(self._information) - np.trace(information)
        return self._n_drawn > 0 and bool(missing <= SAME * np.trace(self._information))

    def compared(self, Z: Array, moments: Array) -> tuple[int, Array, Array]:
        """Return the best of the rows Z (m, d) by the paper's estimate, its lead over all (m,), and the widths (m,)."""
        A_inv = np.linalg.inv(self._inside.T @ (self.weights[:, None] * self._inside))
        n, price = self._n_drawn, self.price
        value = Z @ self.basis @ (A_inv @ (self.basis.T @ moments) / n)
        best = int(np.argmax(value))
        y = (Z[best] - Z) @ self.basis
        u = y @ A_inv
        largest = np.abs(u @ self._inside.T).max(axis=1)
        norm = np.sqrt(np.maximum(np.einsum("ij,ij->i", u, y), 0.0))
        information = self.basis.T @ self._information @ self.basis
        noise = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", u, information, u), 0.0))
        design = self._bound * (norm * math.sqrt(2.0 * price / n) + 4.0 * largest * price / (3.0 * n))
        return best, value[best] - value, design + self._task.noise_std * noise * math.sqrt(2.0 * price) / n


@final
@dataclass(frozen=True, kw_only=True)
class AlbaRule(Rule):
    """Elimination at the end of phases by the paper's estimate; proved if no expected reward exceeds the bound."""

    phases: AlbaPhases
    name: str = field(default="alba", init=False)
    guarantee: Guarantee = field(default="proved", init=False)
    needs_fixed_blocks: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    opens_ahead: ClassVar[bool] = False
    takes_corrections: ClassVar[bool] = False

    def start(self, task: Task) -> "AlbaState":
        """Return a fresh state."""
        return AlbaState(task, self.phases)


@final
class AlbaState(EliminationState):
    """The paper's elimination on one task."""

    def __init__(self, task: Task, phases: AlbaPhases) -> None:
        super().__init__(task)
        self._phases, self._lead = phases, 0.0

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Reject candidates by the phase's own results."""
        left, epsilon, candidates = self.left, self.task.epsilon, self.task.rivals
        Z = candidates.gather(left)
        is_complete = self._phases.is_complete(block.A)
        best, gap, width = self._phases.compared(Z, block.moments) if is_complete else self._by_least_squares(Z, block)
        others = ~np.isin(left, candidates.copies(int(left[best])))
        self._alive[left[others & (gap > width)]] = False
        self._lead = float(np.min(((gap + epsilon) / np.maximum(width, 1e-180))[others], initial=1e300))
        is_within_epsilon = epsilon > 0.0 and self._lead > 1.0
        if is_within_epsilon or not (others & self._alive[left]).any():
            self._answer = int(left[best])
        return self.exact(estimate)

    def _by_least_squares(self, Z: Array, block: Block) -> tuple[int, Array, Array]:
        """Return the same as `AlbaPhases.compared`, from the phase's own information, if pulls failed."""
        phase = Phase(Z, block)
        best = int(np.argmax(phase.value))
        norm = np.sqrt(square_norms(phase.scaled[best] - phase.scaled))
        width = self.task.noise_std * math.sqrt(2.0 * self._phases.price) * norm
        seen = phase.comparable(np.array([best]), np.arange(len(Z)))[0]
        return best, phase.value[best] - phase.value, np.where(seen, width, np.inf)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict of the last phase: by how many widths the leader leads at least."""
        return replace(self.verdict(estimate, self._lead, 1.0), unit="widths")
