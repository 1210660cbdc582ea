"""Explore, then verify: the state machine of a search whose answer is accepted by fresh results alone.

    explore  --(more than one candidate left)-->  explore       phases of elimination at risk kappa
    explore  --(one left, x^)-->                  verify        one interval, its design fixed before
    verify   --(x^ passes)-->                     accepted
    verify   --(x^ fails)-->                      explore       round r + 1, from scratch

Notation: round r = 1, 2, ...; delta_r = delta/(2 r^2). x^ passes if for every other x, from the interval's results,

    theta'(x^ - x) + epsilon >= noise_std |x^ - x| sqrt(2 log(1/delta_r)),   |.| in the norm of the interval's A^-1.

Why no union over candidates: given everything before the interval, x^ is fixed. If it is wrong, it passes only if it
passes against the best candidate, one fixed direction, with probability at most delta_r; these sum to 0.83 delta. The
exploration may be as careless as it likes.

Reference: Karnin (2016); the test without union is ours.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.rules.parts import Rule, RuleAtWork
from surepick.rules.phase_rule import Phase, PhaseRule, PhaseState
from surepick.rules.verdict import Verdict

Stage = Literal["explore", "verify"]


@final
class Course:
    """Where the search stands. Sampler and rule share one object, and a copy of both shares one copy.

    The sampler reads it when an interval opens, the rule moves it on when the interval is over.
    """

    def __init__(
        self, candidates: ArmSet, *, delta: float, exploration_risk: float, noise_std: float, epsilon: float
    ) -> None:
        self._candidates, self._delta = candidates, delta
        self._noise_std, self._epsilon = noise_std, epsilon
        self._exploration = PhaseRule(
            price=ExplorationPrice(candidates.n_arms, exploration_risk), noise_std=noise_std, epsilon=epsilon
        )
        self.stage: Stage = "explore"
        self.round = 1
        self.explored: PhaseState = self._exploration.work_on(candidates)
        """Elimination in this round."""
        self.answer: int | None = None
        """The candidate to verify."""
        self.accepted = False
        self.certainty = 0.0
        """The least (gap + epsilon)^2 / (2 noise_std^2 |y|^2) of the last verification."""

    @property
    def phase(self) -> int:
        """Number of the phase of exploration that comes next."""
        return self.explored.n_phases + 1

    @property
    def price(self) -> float:
        """log(1/delta_r)."""
        return math.log(2.0 * self.round**2 / self._delta)

    def exploration_price(self) -> float:
        """Return the log of tests over risk of the phase that comes next."""
        return self._exploration.price(self.phase)

    def advance(self, estimate: LeastSquares, block: Block) -> None:
        """Move on after an interval with these pulls."""
        if self.stage == "explore":
            verdict = self.explored.after_interval(estimate, block)
            if verdict.stopped:
                self.stage, self.answer = "verify", verdict.leader
            return
        self.certainty = self._verified(block)
        if self.certainty >= self.price:
            self.accepted = True  # whoever decides by another rule goes on verifying
            return
        self.stage, self.answer, self.round = "explore", None, self.round + 1
        self.explored = self._exploration.work_on(self._candidates)

    def _verified(self, block: Block) -> float:
        assert self.answer is not None
        is_compared = np.ones(self._candidates.n_arms, dtype=bool)
        is_compared[self._candidates.copies(self.answer)] = False
        index = np.append(np.flatnonzero(is_compared), self.answer)
        phase = Phase(self._candidates.gather(index), block)
        return min(phase.least_certainty(len(index) - 1, self._epsilon) / self._noise_std**2, 1e300)


@final
@dataclass(frozen=True, slots=True)
class ExplorationPrice:
    """log(pi^2 K t^2/(6 kappa)): the best of K candidates is ever rejected with probability at most kappa."""

    n_candidates: int
    risk: float

    def __call__(self, t: int) -> float:
        """Return the price of phase t."""
        return math.log(math.pi**2 / 6.0 * self.n_candidates) + 2.0 * math.log(t) - math.log(self.risk)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreVerifyRule:
    """Stop when an answer is accepted; or let another rule decide, while the course goes on beside it."""

    course: Course
    decider: Rule | None = None

    @property
    def name(self) -> str:
        """Name of the rule."""
        return "explore-verify" if self.decider is None else self.decider.name

    @property
    def guarantee(self) -> Guarantee:
        """What is proved about it."""
        return "proved" if self.decider is None else self.decider.guarantee

    @property
    def is_fixed_design(self) -> bool:
        """Return False: what is measured depends on the results."""
        return False

    def regularizers(self, dim: int) -> Array:
        """Return those of the rule that decides."""
        return np.zeros((0, dim, dim)) if self.decider is None else self.decider.regularizers(dim)

    def work_on(self, candidates: ArmSet) -> "ExploreVerifyState":
        """Return a fresh state for these candidates."""
        return ExploreVerifyState(self, None if self.decider is None else self.decider.work_on(candidates))


@final
class ExploreVerifyState:
    """The course at work."""

    def __init__(self, rule: ExploreVerifyRule, decider: RuleAtWork | None) -> None:
        self._rule, self._decider = rule, decider
        # Not through the rule, which is no part of a copy of the state: sampler and state must share one object.
        self._course = rule.course

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate under verification, or the one that leads the exploration."""
        if self._decider is not None:
            return self._decider.leader(estimate)
        answer = self._course.answer
        return self._course.explored.leader(estimate) if answer is None else answer

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates the leader has yet to be separated from; None means all."""
        if self._decider is not None:
            return self._decider.alive(leader)
        return self._course.explored.alive(leader) if self._course.stage == "explore" else None

    def open(self, estimate: LeastSquares, leader: int) -> None:
        """Tell the rule that decides."""
        if self._decider is not None:
            self._decider.open(estimate, leader)

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Ask the rule that decides; intervals are judged as a whole otherwise."""
        return None if self._decider is None else self._decider.after_pull(estimate)

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Move the course on and say where things stand."""
        self._course.advance(estimate, block)
        if self._decider is not None:
            return self._decider.after_interval(estimate, block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last interval."""
        if self._decider is not None:
            return self._decider.exact(estimate)
        course = self._course
        has_leader = estimate.has_theta or course.answer is not None
        return Verdict(
            stopped=course.accepted,
            leader=self.leader(estimate) if has_leader else None,
            rival=None,
            statistic=course.certainty,
            threshold=course.price,
            is_exact=True,
            evidence=None,
            rule=self._rule.name,
            guarantee=self._rule.guarantee,
        )
