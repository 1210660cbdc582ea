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
from functools import partial
from typing import ClassVar, Literal, final

import numpy as np

from surepick.arms.view import Task
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.stopping.phases import Phase, Phases, PhaseState
from surepick.stopping.protocol import Rule, RuleState, Verdict

Stage = Literal["explore", "verify"]


@final
class Course(RuleState):
    """Where the search stands; the sampler shares the state of the rule.

    The sampler reads it when an interval opens, the rule moves it on when the interval is over.
    """

    counts_every_result = False

    def __init__(self, task: Task, *, exploration_risk: float) -> None:
        super().__init__(task)
        self._exploration = Phases(price=partial(exploration_price, task.candidates.n_arms, exploration_risk))
        self.stage: Stage = "explore"
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
        """Number of the phase of exploration that comes next."""
        return self.explored.n_phases + 1

    @property
    def price(self) -> float:
        """log(1/delta_r)."""
        return math.log(2.0 * self.round**2 / self.task.delta)

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
        self.explored = self._exploration.start(self.task)

    def _verified(self, block: Block) -> float:
        assert self.answer is not None
        task, candidates = self.task, self.task.rivals
        rivals = np.setdiff1d(np.arange(candidates.n_arms), candidates.copies(self.answer))
        phase = Phase(candidates.gather(np.append(rivals, self.answer)), block)
        n = len(rivals)
        return min(phase.least_certainty(n, task.epsilon, np.arange(n)) / task.noise_std**2, 1e300)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate under verification, or the one that leads the exploration."""
        return self.explored.leader(estimate) if self.answer is None else self.answer

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates the leader has yet to be separated from; None means all."""
        return self.explored.alive(leader) if self.stage == "explore" else None

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Move on and say where things stand."""
        self.advance(estimate, block)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand after the last interval."""
        has_leader = estimate.has_theta or self.answer is not None
        leader = self.leader(estimate) if has_leader else None
        return Verdict(stopped=self.accepted, leader=leader, statistic=self.certainty, threshold=self.price)


def exploration_price(n_candidates: int, risk: float, t: int) -> float:
    """Return log(pi^2 K t^2/(6 kappa)) for phase t: the best of K is ever rejected with probability at most kappa."""
    return math.log(math.pi**2 / 6.0 * n_candidates) + 2.0 * math.log(t) - math.log(risk)


@final
@dataclass(frozen=True, kw_only=True)
class Verification(Rule):
    """Stop when an answer is accepted; or let another rule decide, while the course goes on beside it."""

    course: Course
    decider: Rule | None = None
    needs_fixed_intervals: ClassVar[bool] = True
    opens_ahead: ClassVar[bool] = False
    takes_corrections: ClassVar[bool] = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the rule."""
        return "explore-verify" if self.decider is None else self.decider.name

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """What is proved about it."""
        return "proved" if self.decider is None else self.decider.guarantee

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """What the other rule says; a verification at its own risk is none."""
        return self.decider is not None and self.decider.has_p_value(is_noise_known=is_noise_known)

    def start(self, task: Task) -> RuleState:
        """Return the course, or the other rule's state beside it."""
        return self.course if self.decider is None else _Beside(self.course, self.decider.start(task))


@final
class _Beside(RuleState):
    """Another rule decides, and the course goes on beside it."""

    def __init__(self, course: Course, decider: RuleState) -> None:
        super().__init__(course.task)
        self._course, self._decider = course, decider
        self.regularizers, self.decides_after_pulls = decider.regularizers, decider.decides_after_pulls
        self.counts_every_result = decider.counts_every_result

    def leader(self, estimate: LeastSquares) -> int:
        """Return who leads by the other rule."""
        return self._decider.leader(estimate)

    def alive(self, leader: int) -> BoolArray | None:
        """Return who is left by the other rule."""
        return self._decider.alive(leader)

    def survivors(self, leader: int) -> BoolArray | None:
        """Return what the other rule says."""
        return self._decider.survivors(leader)

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict | None:
        """Let the other rule take in what was told before."""
        return self._decider.begin(estimate, X, rewards)

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Let the other rule decide."""
        return self._decider.after_pull(estimate)

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Move the course on and let the other rule decide."""
        self._course.advance(estimate, block)
        return self._decider.after_interval(estimate, block)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say what the other rule says."""
        return self._decider.exact(estimate)
