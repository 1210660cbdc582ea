"""H-RAGE (Weltz et al. 2023): RAGE where the variance of a pull of x is x'Sigma x, with Sigma unknown.

Notation: v_x = x'Sigma x, between low^2 and high^2; phi_x the products x_i x_j, i <= j, in which v_x is linear; K arms;
Z the candidates, L_l = log(8 l^2 |Z|^2/delta); G = pilot d^2 log(K/delta) high^2/low^2.

    block 1         G/2 pulls by the G-optimal design of the arms; theta^ by least squares
    block 2         G/2 pulls by the G-optimal design of phi_x; v^_x by least squares of the squares (r - x'theta^)^2,
                    cut off at low^2 and high^2
    phase l         w_l and rho_l = min over w of max |z - z'|^2 over the pairs left, in the norm of the inverse of
                    sum w_x x x'/v^_x; N_l = 3 4^l rho_l L_l pulls in the proportions w_l
    elimination     least squares of the phase alone, with weights 1/v^_x; z goes if some z' is ahead by 2^-l
    stopping        when one candidate is left

high is `noise_std`, at least the greatest standard deviation of a pull; low is `least_noise_std`, at most the smallest.

Heuristic, for two reasons. The risk of delta/2 that all v^_x are within half of v_x needs G to be large enough, and of
G the order alone is known: `pilot` is ours. And a v_x may then be twice v^_x, while the factor 3 of N_l pays for 3/2.
With 2 a test fails with probability exp(-3 L_l/4). The tests that can hurt are those of the best candidate against the
others, so all of them fail with probability at most 0.22 delta^(3/4), which is below delta/2 if delta >= 0.033.

Departures: designs are certified to one percent instead of exact; counts are rounded up and each arm of a design is
pulled at least once; a candidate must be behind by its width too, which the length of a phase implies up to rounding,
unless pulls failed; phi_x is used on the span of all phi_x, which is smaller where there are fewer than d (d + 1)/2
arms. With `epsilon` it stops once all that are left are within epsilon.

Practical: the designs of RAGE for the arms over their noise, which noise="per-arm" learns arm by arm, without bounds
and without Sigma. Betting decides. Where all arms are told to have the same noise, this is practical RAGE.

Cost of the paper variant: the design of phi_x, with d (d + 1)/2 features; for dozens of features, not for hundreds.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.base import RowSubset
from surepick.arms.views import Task
from surepick.core.betting.block import Block, fit
from surepick.core.checks import check_number
from surepick.core.design.solve import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.sampling.base import SamplerContext
from surepick.sampling.phases import (
    TOL,
    Designs,
    EvenlySpread,
    PhasedSampler,
    PracticalPhases,
    candidates_left,
    proportions_of,
    without_idle_arms,
)
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.phases import Phases
from surepick.types import Array, BoolArray, Guarantee, IntArray

# The factor 3 of N_l is 2 times this share of v_x in v^_x.
EXCESS = 1.5
# As in `algorithms.alba`: singular values below this share of the largest are rounding.
SPAN_TOL = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class HRage(Options):
    """H-RAGE: RAGE for arms that differ in noise, which is learnt.

    Args:
        least_noise_std: at most the standard deviation of a pull of any arm; only for the paper variant, where
            `noise_std` is at least that of every arm.
        pilot: factor of the number of pulls that learn the noise, in the paper variant.

    Examples:
        >>> import surepick as sp
        >>> problem = sp.problems.soare_unequal(3, angle=0.5)
        >>> sp.simulate(problem, "h-rage", noise="per-arm", n_runs=5, seed=0).mean
        37.8

    References:
        Weltz, Fiez, Laber, Volfovsky, Mason, Nassif and Jain (2023), "Experimental designs for heteroskedastic
        variance".
    """

    least_noise_std: float | None = None
    pilot: float = 1.0
    elimination: bool | None = None

    def unsupported(self, task: Task) -> str | None:
        """Refuse the paper variant without bounds on the noise, and with another rule."""
        if not self.is_paper:
            return None
        if task.given_noise_std is None or task.rows.stds is not None or self.least_noise_std is None:
            return (
                'h-rage with variant="paper" needs two bounds on the noise of all arms: `noise_std`, one number, at '
                'least the greatest, and `least_noise_std`, at most the smallest; or use variant="practical" with '
                'noise="per-arm", which needs none.'
            )
        if self.stopping is not None:
            return (
                'h-rage with variant="paper" decides by results weighted by what it learnt of the noise: leave '
                '`stopping` out, or use variant="practical".'
            )
        return None

    def compose(self, task: Task) -> tuple[PhasedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        pilot = check_number("pilot", self.pilot, needed="a factor above 0", allowed=lambda pilot: pilot > 0.0)
        if not self.is_paper or self.unsupported(task):
            rule = self.rule("betting")
            return PhasedSampler(PracticalPhases(task, self.times(rule), WhenNoiseIsClearer(), minds_noise=True)), rule
        low, high = self.least_noise_std, task.noise_std
        needed = f"above 0 and at most noise_std = {high:g}"
        low = check_number("least_noise_std", low, needed=needed, allowed=lambda low: 0.0 < low <= high)
        phases = HRagePhases(task, low, pilot)
        return PhasedSampler(phases), HRageRule(phases=phases)


@final
class WhenNoiseIsClearer:
    """Ends a practical phase when a candidate has gone, or the pulls have doubled: they tell more of the noise."""

    def __init__(self) -> None:
        self._left, self._renew_at = np.empty(0, dtype=np.int64), 0

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether the design is due to be renewed."""
        if n_pulls < self._renew_at and np.array_equal(left, self._left):
            return False
        self._left, self._renew_at = left, 2 * n_pulls
        return True


@final
class HRagePhases:
    """The paper's blocks: two that learn the noise, then the phases l = 1, 2, ...; the rule learns from their results.

    Sampler and rule share this object, and so do copies of the two.
    """

    def __init__(self, task: Task, low: float, pilot: float) -> None:
        self._task, self._bounds = task, (low**2, task.noise_std**2)
        price = math.log(task.rows.n_arms / task.delta)
        self._n_each = 0.5 * pilot * task.rows.dim**2 * price * (task.noise_std / low) ** 2
        self._n_planned, self._designs = 0, Designs(task)
        rows, (i, j) = task.rows.gather(np.arange(task.rows.n_arms)), np.triu_indices(task.rows.dim)
        products = rows[:, i] * rows[:, j]
        sizes, axes = np.linalg.svd(products, full_matrices=False)[1:]
        self._products: Array = products @ axes[sizes > SPAN_TOL * sizes[0]].T
        """phi_x of every arm (K, p), in orthonormal coordinates of their span."""
        self.variances: Array | None = None
        """v^_x of every arm (K,), once it is learnt."""

    def price(self, l: int) -> float:  # noqa: E741 - the letter of the notation
        """Return L_l."""
        return math.log(8.0 * self._task.rivals.n_arms**2) + 2.0 * math.log(l) - math.log(self._task.delta)

    def accuracy(self, l: int) -> float:  # noqa: E741 - the letter of the notation
        """Return 2^-l, in the unit of the rewards."""
        return 2.0**-l

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Plan the next block."""
        self._n_planned += 1
        if self._n_planned == 1:
            return proportions_of(self._task.rows.design).pulls(self._n_each)
        if self._n_planned == 2:
            arms = RowSubset(self._products)
            design = optimal_design(arms, tol=TOL)
            return without_idle_arms(design, arms, self._products, is_pairs=False).pulls(self._n_each)
        assert self.variances is not None
        phase = self._n_planned - 2
        left = candidates_left(context, self._task.rivals.n_arms)
        chosen = self._designs.next(left, stds=np.sqrt(self.variances))
        return chosen.pulls(2.0 * EXCESS * 4.0**phase * chosen.value * self.price(phase))

    def learn(self, arms: IntArray, squares: Array) -> None:
        """Fit the variances to squares of errors (n,) of pulls of these arms (n,)."""
        fitted = np.linalg.lstsq(self._products[arms], squares, rcond=SPAN_TOL)[0]
        self.variances = np.clip(self._products @ fitted, *self._bounds)


@final
@dataclass(frozen=True, kw_only=True)
class HRageRule(Rule):
    """Elimination at the end of phases, by results weighted by the variances that the first two blocks showed."""

    phases: HRagePhases
    name: str = field(default="h-rage", init=False)
    guarantee: Guarantee = field(default="heuristic", init=False)
    needs_fixed_blocks: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    opens_ahead: ClassVar[bool] = False
    takes_corrections: ClassVar[bool] = False

    def start(self, task: Task) -> "HRageState":
        """Return a fresh state."""
        return HRageState(task, self.phases)


@final
class HRageState(RuleState):
    """The paper's elimination on one task."""

    def __init__(self, task: Task, phases: HRagePhases) -> None:
        super().__init__(task)
        self._phases, self._n_blocks, self._theta = phases, 0, np.empty(0)
        # In units of the estimated noise.
        of_phases = Phases(price=phases.price, accuracy=phases.accuracy, guarantee="heuristic")
        self._elimination = of_phases.start(replace(task, given_noise_std=math.sqrt(EXCESS)))

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate from all results, among those left."""
        return self._elimination.leader(estimate)

    def alive(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates left besides the leader."""
        return self._elimination.alive(leader)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Learn the noise from the first two blocks, and reject candidates after each of the others."""
        self._n_blocks += 1
        assert block.pulls is not None
        assert block.arms is not None
        X, e = block.pulls
        if self._n_blocks == 1:
            self._theta = fit(block).theta
        elif self._n_blocks == 2:
            self._phases.learn(block.arms, np.square(e - X @ (self._theta - block.theta0)))
        else:
            assert self._phases.variances is not None
            weighted = X / self._phases.variances[block.arms, None]
            self._elimination.after_block(estimate, Block(weighted.T @ X, e @ weighted, block.theta0, block.A0_inv))
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last phase."""
        return self._elimination.exact(estimate)
