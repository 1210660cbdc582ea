"""Explore-verify (Karnin 2016) for linear arms: find the likely answer cheaply, then verify it by fresh results.

    explore  --(more than one candidate left)-->  explore       phases of elimination at risk kappa
    explore  --(one left, x^)-->                  verify        one block, its design fixed before
    verify   --(x^ passes)-->                     accepted
    verify   --(x^ fails)-->                      explore       round r + 1, from scratch

Notation: round r = 1, 2, ... with delta_r = delta/(2 r^2); kappa the constant risk of an exploration; rho the value of
a design, the largest y'A(w)^-1 y over its directions.

    explore         phase t = 1, 2, ... lasts until the pairs left are known within 2^-t: N_t = 2 noise_std^2 4^t rho_t
                    l_t pulls by the design for all pairs left, l_t = log(pi^2 K t^2/(6 kappa)); elimination at the end
                    of a phase from its own results
    verify          N_r = noise_std^2 2^(r - 1) rho (sqrt(2 log(1/delta_r)) + sqrt(2 log(K/kappa)))^2 pulls by the
                    design for the directions (x^ - x)/g_x
    stopping        x^ passes if for every other x, from the results of the block,
                    theta'(x^ - x) + epsilon >= noise_std |x^ - x| sqrt(2 log(1/delta_r)), |.| in the norm of its A^-1

g_x are cautious estimates of the gaps from all results so far: the larger of half the estimate and the estimate less
its width, and at least one standard error, since a gap near 0 would take all pulls. They choose the design, nothing
else: only results of the verification decide, so the proof does not depend on them.

Why no union over candidates: x^ is fixed before the block of the verification. A wrong x^ passes only if it passes
against the best candidate, one fixed direction, with probability at most delta_r; these sum to 0.83 delta. The proof
asks nothing of the exploration. So log(1/delta) enters through a fixed design alone, with neither the dimension nor K
beside it, which pays for small delta. The paper asks for any routine of constant risk, has a union over K in its test
and leaves constants open; constants, and the test without the union, are ours.

Practical: all results count. Blocks by schedule; while the leader may be wrong with more than kappa (by the evidence
mixture), they follow the design for (leader - x)/g_x, renewed in every block, with a tenth of the G-optimal design;
after that, the same design without the tenth, fixed until the pulls have doubled or the leader changes. Betting
decides, on every block of either kind. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.base import RowSubset
from surepick.arms.views import Task, largest_loss_bound
from surepick.core.betting.block import Block
from surepick.core.checks import check_fraction
from surepick.core.design import Design
from surepick.core.design.solve import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import inverse_factor, square_norms
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.phases import TOL, Designs, EvenlySpread, PhasedSampler, Proportions, without_idle_arms
from surepick.sampling.schedules import Schedule
from surepick.sampling.tracking import Tracker
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.phases import Phase, Phases, PhaseState
from surepick.types import Array, BoolArray, Guarantee

# Share of the G-optimal design while a practical run explores.
G_MIX = 0.1


@final
@dataclass(frozen=True, kw_only=True)
class ExploreVerify(Options):
    """Explore-verify: a rough guess from few pulls, then a design that verifies it.

    Args:
        exploration_risk: kappa, the probability with which an exploration may be wrong.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "explore-verify", n_runs=5, seed=0).mean
        73.6

    References:
        Karnin (2016), "Verification based solution for structured MAB problems".
    """

    plans_with_noise: ClassVar[bool] = True
    exploration_risk: float = 0.1

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        risk = check_fraction("exploration_risk", self.exploration_risk)
        if not self.is_paper:
            rule = self.rule("betting")
            return PracticalSampler(task, self.times(rule), risk), rule
        search = ExploreVerifyState(task, exploration_risk=risk)
        decider = None if self.is_own_rule else self.rule("betting")
        return PhasedSampler(SearchPlanner(task, search, risk)), Verification(search=search, decider=decider)


@final
class SearchPlanner:
    """Plans the published search: one block per phase of an exploration, one per verification."""

    def __init__(self, task: Task, search: "ExploreVerifyState", risk: float) -> None:
        self._task, self._search = task, search
        self._caution = math.sqrt(2.0 * math.log(task.rivals.n_arms / risk))
        self._n_verified = 0

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Plan the next phase or verification."""
        return self._exploration(context) if self._search.stage == "explore" else self._verification(context)

    def _exploration(self, context: SamplerContext) -> EvenlySpread:
        task, search = self._task, self._search
        # Before there is an estimate the arms pulled must span, even where the differences do not need it.
        chosen = Designs(task).next(search.explored.left, is_whole=context.theta is None)
        n = 2.0 * task.noise_std**2 * 4.0**search.phase * chosen.value * search.exploration_price
        return self._at_least(n, chosen)

    def _verification(self, context: SamplerContext) -> EvenlySpread:
        task, search = self._task, self._search
        assert search.answer is not None
        rows = scaled_directions(task, search.answer, context, None, self._caution)
        design = optimal_design(task.rows, RowSubset(rows), tol=TOL)
        chosen = without_idle_arms(design, task.rows, rows, is_pairs=False)
        # Doubled with every verification: after a failed one the gaps were too optimistic.
        factor = task.noise_std**2 * 2.0**self._n_verified
        self._n_verified += 1
        n = factor * chosen.value * (math.sqrt(2.0 * search.price) + self._caution) ** 2
        return self._at_least(n, chosen, pulls_per_nat=2.0 * chosen.value)

    @staticmethod
    def _at_least(n: float, chosen: Proportions, *, pulls_per_nat: float = math.inf) -> EvenlySpread:
        # Rounding to n whole pulls costs a factor of at most n/(n - arms used).
        return chosen.pulls(math.ceil(n) + len(chosen.arms), pulls_per_nat=pulls_per_nat)


@final
class PracticalSampler:
    """Blocks that follow the design for the leader: renewed in each block while the leader is in doubt, then kept."""

    def __init__(self, task: Task, schedule: Schedule, risk: float) -> None:
        self._task, self._schedule, self._risk = task, schedule, risk
        self._tracker = Tracker.of(task.rows.design)
        self._waiting: list[int] = []
        self._design: Design | None = None
        self._verified: int | None = None
        """The leader under verification, None while exploring."""
        self._renew_at = 0

    def open(self, context: SamplerContext) -> int:
        """Decide between exploration and verification, and plan a block."""
        t = context.n_asked
        self._waiting = self._task.spanning.tolist() if context.theta is None else []
        if self._waiting:
            return len(self._waiting)
        if context.leader != self._verified or t >= self._renew_at:
            self._plan(context)
        return max(self._schedule.next_after(t) - t, self._task.rows.dim)

    def _plan(self, context: SamplerContext) -> None:
        task, leader = self._task, context.leader
        assert leader is not None
        assert context.theta is not None
        rows = scaled_directions(task, leader, context, context.alive)
        if not len(rows):
            return  # no rival is left: the design in force stays
        self._design = optimal_design(task.rows, RowSubset(rows), tol=TOL, warm_start=self._design)
        A, risk = context.estimate.A, {"delta": self._risk, "noise_std": task.noise_std}
        bound = largest_loss_bound(task.rivals, leader, context.theta, A, among=context.alive, **risk)[1]
        self._verified, self._renew_at = (leader, 2 * context.n_pulls) if bound <= task.epsilon else (None, 0)
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
        """Return T* at the cautious gaps over the share of pulls that follow its design."""
        return math.inf if self._design is None else 2.0 * self._design.value / (1.0 - self._g_share)


@final
class ExploreVerifyState(RuleState):
    """The state of the search, which sampler and rule share.

    The sampler reads the state when a block opens; the rule advances it when the block is over.
    """

    def __init__(self, task: Task, *, exploration_risk: float) -> None:
        super().__init__(task)
        self._exploration = Phases(price=partial(exploration_price, task.candidates.n_arms, exploration_risk))
        self.stage: Literal["explore", "verify"] = "explore"
        self.round = 1
        self.explored: PhaseState = self._exploration.start(task)
        """Elimination in this round."""
        self.answer: int | None = None
        """The candidate to verify."""
        self.accepted = False
        self.certainty = 0.0
        """The least (gap + epsilon)^2 / (2 noise_std^2 |y|^2) of the last verification."""

    @property
    def phase(self) -> int:
        """t, the number of the next phase of exploration."""
        return self.explored.n_phases + 1

    @property
    def price(self) -> float:
        """log(1/delta_r)."""
        return math.log(2.0 * self.round**2 / self.task.delta)

    @property
    def exploration_price(self) -> float:
        """l_t of the next phase: the log of tests over risk."""
        return self._exploration.price(self.phase)

    def advance(self, estimate: LeastSquares, block: Block) -> None:
        """Advance the search after a block."""
        if self.stage == "explore":
            verdict = self.explored.after_block(estimate, block)
            if verdict.stopped:
                self.stage, self.answer = "verify", verdict.leader
            return
        self.certainty = self._verified(block)
        if self.certainty >= self.price:
            self.accepted = True  # if another rule decides, verification goes on
            return
        self.stage, self.answer, self.round = "explore", None, self.round + 1
        self.explored = self._exploration.start(self.task)

    def _verified(self, block: Block) -> float:
        assert self.answer is not None
        task, candidates = self.task, self.task.rivals
        rivals = np.flatnonzero(candidates.is_rival([self.answer]))
        phase = Phase(candidates.gather(np.append(rivals, self.answer)), block)
        n = len(rivals)
        return min(phase.least_certainty(n, task.epsilon, np.arange(n)) / task.noise_std**2, 1e300)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate under verification, or the one that leads the exploration."""
        return self.explored.leader(estimate) if self.answer is None else self.answer

    def alive(self, leader: int) -> BoolArray | None:
        """Return a mask (K,) of the candidates not separated from the leader yet; None means all."""
        return self.explored.alive(leader) if self.stage == "explore" else None

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Advance the search and return the verdict."""
        self.advance(estimate, block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last block."""
        leader = self.leader(estimate) if estimate.has_theta or self.answer is not None else None
        return Verdict(stopped=self.accepted, leader=leader, statistic=self.certainty, threshold=self.price)


@final
@dataclass(frozen=True, kw_only=True)
class Verification(Rule):
    """Stop when the search accepts an answer, or when another rule decides while the search goes on."""

    search: ExploreVerifyState
    decider: Rule | None = None
    needs_fixed_blocks: ClassVar[bool] = True
    opens_ahead: ClassVar[bool] = False
    takes_corrections: ClassVar[bool] = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the rule."""
        return "explore-verify" if self.decider is None else self.decider.name

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """Guarantee of the rule."""
        return "proved" if self.decider is None else self.decider.guarantee

    @property
    def counts_every_result(self) -> bool:  # type: ignore[override]
        """Whether the rule decides by all results; a verification reads its own block alone."""
        return self.decider is not None and self.decider.counts_every_result

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """Return the other rule's own value; the certainty of a verification is no p-value."""
        return self.decider is not None and self.decider.has_p_value(is_noise_known=is_noise_known)

    def start(self, task: Task) -> RuleState:
        """Return the state of the search, or of the other rule beside it."""
        return self.search if self.decider is None else DeciderBeside(self.search, self.decider.start(task))


@final
class DeciderBeside(RuleState):
    """The state of another rule that decides while the search goes on: every question goes to the other rule."""

    def __init__(self, search: ExploreVerifyState, decider: RuleState) -> None:
        super().__init__(search.task)
        self._search, self._decider = search, decider
        self.regularizers, self.decides_after_pulls = decider.regularizers, decider.decides_after_pulls

    def leader(self, estimate: LeastSquares) -> int:
        """Return the leader."""
        return self._decider.leader(estimate)

    def alive(self, leader: int) -> BoolArray | None:
        """Return the candidates not separated from the leader yet."""
        return self._decider.alive(leader)

    def survivors(self, leader: int) -> BoolArray | None:
        """Return the confidence set."""
        return self._decider.survivors(leader)

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict | None:
        """Take in the results told before."""
        return self._decider.begin(estimate, X, rewards)

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Decide after a result."""
        return self._decider.after_pull(estimate)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Advance the search and decide after a block."""
        self._search.advance(estimate, block)
        return self._decider.after_block(estimate, block)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict as of now."""
        return self._decider.exact(estimate)


def exploration_price(n_candidates: int, risk: float, t: int) -> float:
    """Return l_t = log(pi^2 K t^2/(6 kappa)): the best of K is ever rejected with probability at most kappa."""
    return math.log(math.pi**2 / 6.0 * n_candidates) + 2.0 * math.log(t) - math.log(risk)


def scaled_directions(
    task: Task, leader: int, context: SamplerContext, among: BoolArray | None, caution: float = 0.0
) -> Array:
    """Return the rows (leader - x)/g_x over all rivals of `among`, g_x = max(gap/2, gap - caution s_x, s_x).

    s_x is the standard error of the gap; epsilon is added to gaps, as in the tests. Without an estimate g_x = 1.
    """
    candidates = task.rivals
    Y = candidates.gather([leader]) - candidates.gather(np.flatnonzero(candidates.is_rival([leader], among)))
    Y = Y[Y.any(axis=1)]  # rows that are equal once rounded have no direction to be told apart in
    if context.theta is None:
        return Y
    gap = Y @ context.theta + task.epsilon
    factor = inverse_factor(context.estimate.A)
    error = task.noise_std * np.sqrt(square_norms(Y @ factor))
    scaled: Array = Y / np.maximum(np.maximum(0.5 * gap, gap - caution * error), error)[:, None]
    return scaled
