"""Elimination by phases: reject a candidate when another beats it on the results of one phase.

Notation: theta, A (d, d) least squares and information of the phase's own pulls; y = z - z' a difference of two
candidates left; price(j) = log(tests / risk) of phase j = 1, 2, ... The end of phase j rejects candidate z' if

    theta'y >= noise_std |y|_{A^-1} sqrt(2 price(j))   for some z,

and, where a paper rejects by a fixed accuracy instead of by widths, if theta'y is at least that accuracy as well.

Why it is valid: the arms of a phase are fixed before its first result, so each test is one sub-Gaussian tail of
probability exp(-price(j)); if the number of tests times exp(-price(j)), summed over phases, is at most delta, the best
candidate is ever beaten with probability at most delta. Data of earlier phases do not enter: their arms depend on
results, so the tail bounds would not hold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import scipy

from surepick.arms.views import Task
from surepick.core.betting.block import NEGLIGIBLE, Block, fit
from surepick.core.estimate import LeastSquares
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, BoolArray, Guarantee, IntArray

# Numbers per chunk in which pairs are compared.
CHUNK = 2_000_000


@final
@dataclass(frozen=True, kw_only=True)
class Phases(Rule):
    """Reject candidates at the end of phases; stop when one is left, or all left are within epsilon of the leader.

    Args:
        price: log(tests / risk) of a phase, by its number 1, 2, ...
        accuracy: the gap below which a phase rejects nothing, by its number; None rejects by the widths alone.
        name: name of the rule.
        guarantee: guarantee of these prices.
    """

    price: Callable[[int], float]
    accuracy: Callable[[int], float] | None = None
    name: str = "phases"
    guarantee: Guarantee = "proved"
    needs_fixed_blocks: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    opens_ahead: ClassVar[bool] = False

    def start(self, task: Task) -> "PhaseState":
        """Return a fresh state."""
        return PhaseState(task, self)


class EliminationState(RuleState):
    """Base class of rules that reject candidates at the end of blocks and stop when one is left."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._alive = np.ones(task.candidates.n_arms, dtype=bool)
        self._answer: int | None = None

    @property
    def left(self) -> IntArray:
        """Candidates not rejected, in order."""
        return np.flatnonzero(self._alive)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate from all results, among those left."""
        return self.task.rivals.best(estimate.theta, self._alive) if self._answer is None else self._answer

    def alive(self, leader: int) -> BoolArray:
        """Return a mask (K,) of the candidates left besides the leader."""
        alive = self._alive.copy()
        alive[leader] = False
        return alive

    def verdict(self, estimate: LeastSquares, statistic: float, threshold: float) -> Verdict:
        """Return the verdict with this statistic."""
        is_answered = self._answer is not None
        leader = self.leader(estimate) if is_answered or estimate.has_theta else None
        return Verdict(stopped=is_answered, leader=leader, statistic=statistic, threshold=threshold)


@final
class PhaseState(EliminationState):
    """Elimination by phases on one task."""

    def __init__(self, task: Task, rule: Phases) -> None:
        super().__init__(task)
        self.rule = rule
        self.n_phases = 0
        self._evidence, self._price = 0.0, rule.price(1)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Reject candidates by the phase's own results."""
        rule, task = self.rule, self.task
        self.n_phases += 1
        self._price = rule.price(self.n_phases)
        left = self.left
        phase = Phase(task.candidates.gather(left), block)
        accuracy = 0.0 if rule.accuracy is None else rule.accuracy(self.n_phases)
        gone = phase.beaten(task.noise_std * float(np.sqrt(2.0 * self._price)), at_least=accuracy)
        self._alive[left[gone]] = False
        stays = np.flatnonzero(~gone)
        i = int(stays[np.argmax(phase.value[stays])])
        best = int(left[i])
        rivals = np.setdiff1d(left[stays], task.rivals.copies(best))
        worst = phase.least_certainty(i, task.epsilon, stays) if len(rivals) else np.inf
        self._evidence = float(min(worst / task.noise_std**2, 1e300))
        if not len(rivals) or (task.epsilon > 0.0 and self._evidence >= self._price):
            self._answer = best
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict after the last phase."""
        return self.verdict(estimate, self._evidence, self._price)


@final
class Phase:
    """The candidates left, and one phase's estimates of their differences."""

    def __init__(self, rows: Array, block: Block) -> None:
        said = fit(block)
        self.value: Array = rows @ said.theta
        """theta'z by the phase's least squares."""
        self.scaled: Array = rows @ said.root
        """Rows whose distances are |y| in the norm of A^-1."""
        self.missed: Array | None = None if said.missed is None else rows @ said.missed
        """Rows whose distances are the standard errors of the unmeasured part; None if all is measured."""

    def beaten(self, width: float, *, at_least: float = 0.0) -> BoolArray:
        """Return which candidates are behind some other by at least width |y|_{A^-1} and by `at_least`."""
        gone = np.zeros(len(self.value), dtype=bool)
        order = np.argsort(-self.value, kind="stable")  # the best reject most, so later chunks are short
        left = order
        step = max(1, CHUNK // max(1, len(order)))
        for start in range(0, len(order), step):
            winners = order[start : start + step]
            left = left[~gone[left]]
            if not len(left):
                break
            gap = self.value[winners, None] - self.value[None, left]
            error = _squares(self.scaled, winners, left)
            loses = (gap > 0.0) & (gap >= at_least) & (gap * gap >= width * width * error)
            gone[left[(loses & self.comparable(winners, left)).any(axis=0)]] = True
        return gone

    def least_certainty(self, i: int, epsilon: float, others: IntArray) -> float:
        """Return the smallest (gap + epsilon)^2 / (2 |y|^2) of candidate i against others, 0 if it may be behind."""
        own = np.array([i])
        reach = np.maximum(self.value[i] - self.value[others] + epsilon, 0.0)
        distance = _squares(self.scaled, own, others)[0]
        comparable = self.comparable(own, others)[0]
        different = (distance > 0.0) | ~comparable
        certainty = np.where(comparable, reach * reach / (2.0 * np.where(distance > 0.0, distance, 1.0)), 0.0)
        return float(np.min(certainty[different], initial=np.inf))

    def comparable(self, first: IntArray, second: IntArray) -> BoolArray:
        """Return for which pairs (n, m) the phase measured the whole difference, up to a negligible part."""
        if self.missed is None:
            return np.ones((len(first), len(second)), dtype=bool)
        seen, missed = (_squares(points, first, second) for points in (self.scaled, self.missed))
        return missed <= NEGLIGIBLE**2 * seen


def _squares(points: Array, first: IntArray, second: IntArray) -> Array:
    """Return squared distances (n, m), from the differences: an expanded square cancels for nearly equal points."""
    return scipy.spatial.distance.cdist(points[first], points[second], "sqeuclidean")
