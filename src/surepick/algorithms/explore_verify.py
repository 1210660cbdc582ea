"""Explore-verify (Karnin 2016) for linear arms: find the likely answer cheaply, then verify it from fresh results.

    round r         r = 1, 2, ... with delta_r = delta/(2 r^2)
    explore         phases of doubling accuracy at a constant risk kappa: the design for all pairs left, elimination at
                    the end of a phase from its own results, until one candidate x^ is left
    verify          the design for the directions (x^ - x)/g_x, its value rho, and
                    N_r = noise_std^2 s rho (sqrt(2 log(1/delta_r)) + sqrt(2 log(K/kappa)))^2 pulls, s = 2^(r - 1)
    stopping        when x^ passes the test of `stopping.verification` on the verification's results; else round r+1

g_x are cautious estimates of the gaps from all results so far: the larger of half the estimate and the estimate less
its width, and at least one standard error, since a gap near 0 would take all pulls. They choose the design, nothing
else: only verification results decide, so what they are does not touch the proof.

Phase t of an exploration lasts until the pairs left are known within 2^-t: N_t = 2 noise_std^2 4^t rho_t l_t pulls,
l_t = log(pi^2 K t^2/(6 kappa)). The paper asks for any routine of constant risk, has a union over K in its test and
leaves constants open; constants, and the test without the union, are ours. log(1/delta) enters through a fixed design
alone, with neither the dimension nor K beside it, which pays for small delta.

Practical: all results count. Blocks by schedule; while the leader may be wrong with more than kappa (by the evidence
mixture), they follow the design for (leader - x)/g_x, renewed in every block, with a tenth of the G-optimal one; after
that, the same design without the tenth, fixed until the pulls have doubled or the leader changes. Betting decides, on
every block of either kind. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.loss import largest_loss_bound
from surepick.arms.protocol import RowSubset
from surepick.arms.view import Task
from surepick.core.checks import check_fraction
from surepick.core.design import Design
from surepick.core.design.solve import optimal_design
from surepick.core.linalg import Array, BoolArray, inverse_factor
from surepick.core.rows import square_norms
from surepick.sampling.phases import TOL, Designs, EvenlySpread, PhasedSampler, Proportions, without_idle_arms
from surepick.sampling.protocol import Sampler, Situation
from surepick.sampling.schedules import Schedule
from surepick.sampling.tracking import Tracker
from surepick.stopping.protocol import Rule
from surepick.stopping.verification import Course, Verification

G_MIX = 0.1
"""Share of the G-optimal design while a practical run explores."""


@final
@dataclass(frozen=True, kw_only=True)
class ExploreVerify(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        exploration_risk: kappa, how often the exploration may be wrong.
    """

    plans_with_noise: ClassVar[bool] = True
    exploration_risk: float = 0.1

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        risk = check_fraction("exploration_risk", self.exploration_risk)
        if not self.is_paper:
            rule = self.rule("betting")
            return PracticalSampler(task, self.times(rule), risk), rule
        course = Course(task, exploration_risk=risk)
        decider = None if self.is_own_rule else self.rule("betting")
        return PhasedSampler(Rounds(task, course, risk)), Verification(course=course, decider=decider)


def scaled_directions(
    task: Task, leader: int, situation: Situation, among: BoolArray | None, caution: float = 0.0
) -> Array:
    """Return the rows (leader - x)/g_x over all rivals of `among`, g_x = max(gap/2, gap - caution s_x, s_x).

    s_x is the standard error of the gap; epsilon is added to gaps, as in the tests. Without an estimate g_x = 1.
    """
    candidates = task.rivals
    is_rival = np.ones(candidates.n_arms, dtype=bool) if among is None else among.copy()
    is_rival[candidates.copies(leader)] = False
    Y = candidates.gather([leader]) - candidates.gather(np.flatnonzero(is_rival))
    Y = Y[Y.any(axis=1)]  # rows that are equal once rounded have no direction to be told apart in
    if situation.theta is None:
        return Y
    gap = Y @ situation.theta + task.epsilon
    factor = inverse_factor(situation.estimate.A)
    error = task.noise_std * np.sqrt(square_norms(Y @ factor))
    scaled: Array = Y / np.maximum(np.maximum(0.5 * gap, gap - caution * error), error)[:, None]
    return scaled


@final
class Rounds:
    """The rounds of exploration and verification: one interval per phase, one per verification."""

    def __init__(self, task: Task, course: Course, risk: float) -> None:
        self._task, self._course = task, course
        self._caution = math.sqrt(2.0 * math.log(task.rivals.n_arms / risk))
        self._n_verified = 0

    def plan(self, situation: Situation) -> EvenlySpread:
        """Plan what the course says comes next."""
        return self._exploration(situation) if self._course.stage == "explore" else self._verification(situation)

    def _exploration(self, situation: Situation) -> EvenlySpread:
        task, course = self._task, self._course
        # Before there is an estimate the arms pulled must span, needed for the differences or not.
        chosen = Designs(task).next(course.explored.left, is_whole=situation.theta is None)
        n = 2.0 * task.noise_std**2 * 4.0**course.phase * chosen.value * course.exploration_price()
        return chosen.pulls(_rounded_up(n, chosen))

    def _verification(self, situation: Situation) -> EvenlySpread:
        task, course = self._task, self._course
        assert course.answer is not None
        rows = scaled_directions(task, course.answer, situation, None, self._caution)
        design = optimal_design(task.rows, RowSubset(rows), tol=TOL)
        chosen = without_idle_arms(design, task.rows, rows, is_pairs=False)
        # Doubled with every verification: after a failed one the gaps were too optimistic.
        factor = task.noise_std**2 * 2.0**self._n_verified
        self._n_verified += 1
        n = factor * chosen.value * (math.sqrt(2.0 * course.price) + self._caution) ** 2
        return chosen.pulls(_rounded_up(n, chosen), pulls_per_nat=2.0 * chosen.value)


def _rounded_up(n: float, chosen: Proportions) -> int:
    # Rounding to n whole pulls costs a factor of at most n/(n - arms used).
    return math.ceil(n) + len(chosen.arms)


@final
class PracticalSampler:
    """Blocks that follow the design for the leader: renewed each time while it is in doubt, then kept."""

    def __init__(self, task: Task, schedule: Schedule, risk: float) -> None:
        self._task, self._schedule, self._risk = task, schedule, risk
        self._tracker = Tracker.of(task.rows.design)
        self._waiting: list[int] = []
        self._design: Design | None = None
        self._verified: int | None = None
        """The leader under verification, None while exploring."""
        self._renew_at = 0

    def open(self, situation: Situation) -> int:
        """Decide between exploration and verification, and plan a block."""
        t = situation.n_asked
        self._waiting = self._task.spanning.tolist() if situation.theta is None else []
        if self._waiting:
            return len(self._waiting)
        if situation.leader != self._verified or t >= self._renew_at:
            self._plan(situation)
        return max(self._schedule.next_after(t) - t, self._task.rows.dim)

    def _plan(self, situation: Situation) -> None:
        task, leader = self._task, situation.leader
        assert leader is not None
        assert situation.theta is not None
        rows = scaled_directions(task, leader, situation, situation.alive)
        if not len(rows):
            return  # nobody is left to be separated from: the design in force stays
        self._design = optimal_design(task.rows, RowSubset(rows), tol=TOL, warm_start=self._design)
        bound = largest_loss_bound(
            task.rivals,
            leader,
            situation.theta,
            situation.estimate.A,
            delta=self._risk,
            noise_std=task.noise_std,
            among=situation.alive,
        )[1]
        self._verified, self._renew_at = (leader, 2 * situation.n_pulls) if bound <= task.epsilon else (None, 0)
        share, parts = self._g_share, (self._design, task.rows.design)
        self._tracker.retarget(
            np.concatenate([design.support for design in parts]),
            np.concatenate([(1.0 - share) * parts[0].weights, share * parts[1].weights]),
        )

    @property
    def _g_share(self) -> float:
        """Share of the G-optimal design."""
        return G_MIX if self._verified is None else 0.0

    def next(self) -> int:
        """Return the next arm."""
        if not self._waiting:
            return self._tracker.next()
        arm = self._waiting.pop(0)
        self._tracker.excuse(arm)
        return arm

    def pulls_per_nat(self) -> float:
        """Return T* at the cautious gaps, over the share of pulls that follows its design."""
        return math.inf if self._design is None else 2.0 * self._design.value / (1.0 - self._g_share)
