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
If some pulls of a phase failed, what was drawn no longer follows the design; then least squares of the phase and the
width noise_std |y| sqrt(2 l) in the norm of the phase's own A^-1 take over, which need no design.

Practical: least squares from all data, betting in blocks by schedule, pulls in the design's proportions instead of
drawn, and no `reward_bound`. At the start of each level the design for the candidates left is renewed; it may use
any arm, so its largest z'A(w)^-1 z is at most the dimension of their span. Candidates need not be arms.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.finite import FiniteArms
from surepick.arms.protocol import RowSubset
from surepick.arms.view import Task
from surepick.core.block import Block
from surepick.core.checks import check_number
from surepick.core.design import Design
from surepick.core.design.solve import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, IntArray
from surepick.core.rows import square_norms
from surepick.core.sizes import LARGEST
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.sampling.phases import PlannedBlocks, Proportions, candidates_left, without_idle_arms
from surepick.sampling.protocol import Sampler, Situation
from surepick.stopping.phases import EliminationState, Phase
from surepick.stopping.protocol import Rule, Verdict

# Singular values below this share of the largest are rounding: arms left differ in no such direction.
SPAN_TOL = 1e-9
# Information of the pulls told equals that of the pulls drawn up to this share, or some are missing.
SAME = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class Alba(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        reward_bound: L, a number that no expected reward exceeds in size; only for the paper's own sampling.
    """

    reward_bound: float | None = None
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = self.is_paper
        if not is_paper:
            rule = self.rule("betting")
            return PlannedBlocks(task.spanning, AlbaPlanner(task), self.times(rule)), rule
        if task.rivals is not task.rows:
            raise InvalidInput(
                'alba with variant="paper" draws from the arms left and cannot be used with `candidates`; use '
                'variant="practical".'
            )
        phases = AlbaPhases(task, self._bound())
        sampler = AlbaSampler(task, phases)
        if self.stopping is not None:
            return sampler, self.rule("betting")
        return sampler, AlbaRule(phases=phases)

    def _bound(self) -> float:
        if self.reward_bound is None:
            raise InvalidInput(
                'alba with variant="paper" needs `reward_bound`, at least the size of every expected reward; if none '
                'is known, use variant="practical", which needs none.'
            )
        bound = check_number("reward_bound", self.reward_bound, needed="a bound on the size of expected rewards")
        if not 0.0 < bound <= LARGEST:
            raise InvalidInput(
                f"`reward_bound` must be above 0 and at most {LARGEST:g}, got {bound}; take the largest reward to be "
                "expected."
            )
        return bound


def next_level(level: int, n_left: int, dim: int) -> int:
    """Return the first level from `level` on whose goal of floor(d/2^r) candidates is not reached yet."""
    # Nobody is ever left below 1, and floor(d/2^r) ends at 0, so this ends.
    while n_left <= dim >> level:
        level += 1
    return level


@final
class AlbaPhases:
    """Where the paper's algorithm stands: sampler and rule share it, and a copy of both shares one copy.

    The sampler begins phases and draws, the rule reads what was drawn when the phase is over.
    """

    def __init__(self, task: Task, bound: float) -> None:
        self.bound, self.noise_std = bound, task.noise_std
        self._delta, self._dim = task.delta, task.rows.dim
        self.level, self.phase, self.n_at_level = -1, 0, 0
        self.basis = np.eye(self._dim)
        self.support, self.weights = np.empty(0, dtype=np.int64), np.empty(0)
        self.rows = np.empty((0, self._dim))  # of the support, in the basis
        self.n_drawn = 0
        self.information = np.zeros((self._dim, self._dim))

    def begin(self, left: Array, index: IntArray) -> None:
        """Begin the next phase for the arms left (m, d), whose row numbers are `index`."""
        level = next_level(max(self.level, 0), len(left), self._dim)
        if level != self.level:
            self.level, self.phase, self.n_at_level = level, 0, len(left)
        self.phase += 1
        sizes, axes = np.linalg.svd(left, full_matrices=False)[1:]
        self.basis = axes[sizes > SPAN_TOL * sizes[0]].T
        inside = left @ self.basis
        if self.basis.shape[1] == 1:
            longest = int(np.argmax(np.abs(inside[:, 0])))  # a design in one dimension: the longest arm
            support, self.weights = np.array([longest]), np.ones(1)
        else:
            design = optimal_design(RowSubset(inside), tol=1e-3)
            support, self.weights = design.support, design.weights
        self.support, self.rows = index[support], inside[support]
        self.n_drawn, self.information = 0, np.zeros((self._dim, self._dim))

    def note(self, x: Array) -> None:
        """Take note that an arm with these features was drawn."""
        self.n_drawn += 1
        self.information += x[:, None] * x

    @property
    def risk(self) -> float:
        """delta_s."""
        return 36.0 * self._delta / (math.pi**2 * (self.level + 1) * self.phase) ** 2

    @property
    def price(self) -> float:
        """The l of the widths, log(2 S^2/delta_s)."""
        return math.log(2.0 * self.n_at_level**2 / self.risk)

    @property
    def n_pulls(self) -> int:
        """n_s."""
        accuracy = 4.0 / 1.1**self.phase
        c = max(4.0 * (self.bound / self.noise_std) ** 2, 3.0)
        factor = 4.0 * c * (2.0 + (6.0 + accuracy) * self.basis.shape[1]) / accuracy**2
        return math.ceil(factor * math.log(2.5 * self.n_at_level**2 / self.risk))

    def is_complete(self, information: Array) -> bool:
        """Return whether results with this information are all that was drawn."""
        missing = np.trace(self.information) - np.trace(information)
        return self.n_drawn > 0 and bool(missing <= SAME * np.trace(self.information))

    def reading(self, Z: Array, moments: Array) -> tuple[Array, "AlbaWidths"]:
        """Return theta'z of rows Z (m, d) by the paper's estimate, and the widths of their differences."""
        A_inv: Array = np.linalg.inv(self.rows.T @ (self.weights[:, None] * self.rows)).astype(np.float64, copy=False)
        inside = Z @ self.basis
        theta = A_inv @ (self.basis.T @ moments) / self.n_drawn
        information = self.basis.T @ self.information @ self.basis
        return inside @ theta, AlbaWidths(self, A_inv, information)


@final
class AlbaWidths:
    """Widths of differences y for one phase, see the module."""

    def __init__(self, phases: AlbaPhases, A_inv: Array, information: Array) -> None:
        self._phases, self._A_inv, self._information = phases, A_inv, information

    def of(self, Y: Array) -> Array:
        """Return the widths of the rows of Y (m, d)."""
        phases, price, n = self._phases, self._phases.price, self._phases.n_drawn
        y = Y @ phases.basis
        u = y @ self._A_inv
        largest = np.abs(u @ phases.rows.T).max(axis=1)
        norm = np.sqrt(np.maximum(np.einsum("ij,ij->i", u, y), 0.0))
        noise = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", u, self._information, u), 0.0))
        design = phases.bound * (norm * math.sqrt(2.0 * price / n) + 4.0 * largest * price / (3.0 * n))
        widths: Array = design + phases.noise_std * noise * math.sqrt(2.0 * price) / n
        return widths


@final
class AlbaSampler:
    """The paper's phases: one interval each, of independent draws."""

    def __init__(self, task: Task, phases: AlbaPhases) -> None:
        self._task, self._phases = task, phases
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(5,)))
        self._white = np.empty((0, task.rows.dim))
        self._edges = np.empty(0)

    def open(self, situation: Situation) -> int:
        """Begin the next phase for the arms left."""
        left = candidates_left(situation, self._task.rivals.n_arms)
        self._phases.begin(self._task.rivals.gather(left), left)
        self._white = self._task.rows.gather(self._phases.support)
        self._edges = np.cumsum(self._phases.weights)
        return self._phases.n_pulls

    def next(self) -> int:
        """Draw an arm; beyond the phase's length too."""
        slot = int(np.searchsorted(self._edges, self._rng.random() * self._edges[-1], side="right"))
        slot = min(slot, len(self._edges) - 1)
        self._phases.note(self._white[slot])
        return int(self._phases.support[slot])

    def pulls_per_nat(self) -> float:
        """Return inf: the design is for values, not for what separates them."""
        return math.inf


@final
@dataclass(frozen=True, kw_only=True)
class AlbaRule(Rule):
    """Elimination at the end of phases by the paper's estimate; proved if no expected reward exceeds the bound."""

    phases: AlbaPhases
    name: str = field(default="alba", init=False)
    guarantee: Guarantee = field(default="proved", init=False)
    needs_fixed_intervals: ClassVar[bool] = True
    opens_ahead: ClassVar[bool] = False

    def start(self, task: Task) -> "AlbaState":
        """Return a fresh state."""
        return AlbaState(task, self.phases)


@final
class AlbaState(EliminationState):
    """The paper's elimination at work."""

    def __init__(self, task: Task, phases: AlbaPhases) -> None:
        super().__init__(task)
        self._phases, self._lead = phases, 0.0

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Reject what the phase's own results reject."""
        left, epsilon, candidates = self.left, self.task.epsilon, self.task.rivals
        Z = candidates.gather(left)
        best, gap, width = self._compared(Z, block)
        others = ~np.isin(left, candidates.copies(int(left[best])))
        self._alive[left[others & (gap > width)]] = False
        self._lead = float(np.min(((gap + epsilon) / np.maximum(width, 1e-180))[others], initial=1e300))
        is_within_epsilon = epsilon > 0.0 and self._lead > 1.0
        if is_within_epsilon or not (others & self._alive[left]).any():
            self._answer = int(left[best])
        return self.exact(estimate)

    def _compared(self, Z: Array, block: Block) -> tuple[int, Array, Array]:
        """Return the best of the rows Z by the phase, by how much it leads the others (m,), and the widths (m,)."""
        if self._phases.is_complete(block.A):
            value, widths = self._phases.reading(Z, block.moments)
            best = int(np.argmax(value))
            return best, value[best] - value, widths.of(Z[best] - Z)
        phase = Phase(Z, block)
        best = int(np.argmax(phase.value))
        norm = np.sqrt(square_norms(phase.scaled[best] - phase.scaled))
        width = self._phases.noise_std * math.sqrt(2.0 * self._phases.price) * norm
        seen = phase.comparable(np.array([best]), np.arange(len(Z)))[0]
        return best, phase.value[best] - phase.value, np.where(seen, width, np.inf)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last phase: by how many widths the leader leads at least."""
        return replace(self.verdict(estimate, self._lead, 1.0), unit="widths")


@final
class AlbaPlanner:
    """The practical levels: a design for the values of the candidates left, renewed when a level begins."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._level = -1
        self._design: Design | None = None
        self._proportions: Proportions | None = None

    def plan(self, situation: Situation) -> Proportions:
        """Return the design in force."""
        task = self._task
        left = candidates_left(situation, task.rivals.n_arms)
        level = next_level(max(self._level, 0), len(left), task.rows.dim)
        if self._proportions is None or level != self._level:
            self._level = level
            rows = task.rivals.gather(left)
            self._design = optimal_design(
                task.rows, FiniteArms.rows_only(rows, least=1), tol=1e-2, warm_start=self._design
            )
            self._proportions = without_idle_arms(self._design, task.rows, rows, is_pairs=False)
        return self._proportions

    def pulls_per_nat(self) -> float:
        """Return inf: the design is for values, not for what separates them."""
        return math.inf
