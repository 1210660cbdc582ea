"""Elimination: an alternative once refuted stays refuted, so a rule may stop before all are refuted at the same time.

Notation: for each leader i a set of alternatives j not yet refuted; f_ij(t) the statistic of the pair; beta(t) the
threshold. At time t every j with f_ij(t) at or above beta(t) leaves the set of the leader i of that time; the rule
stops when the set of the current leader is empty.

Why it is valid: the threshold belongs to a confidence set for theta that holds at all times together. A wrong answer i
needs the best arm j refuted for i at some time, when the true theta, which prefers j, was outside the confidence set.
That is the same event as for the rule without elimination, so delta stays what it is.

The value reported for a leader is the smallest over its alternatives, those refuted with what refuted them. Where the
statistic is a log e-value, so is this one: whichever of them is the best arm, the supermartingale was as large once.

Reference: Tirinzoni and Degenne (2022), selective elimination.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.arms import ArmSet, PairForms
from surepick.core.estimate import Estimate
from surepick.core.linalg import Array, BoolArray, IntArray, one_blas_thread
from surepick.rules.lazy import PairTest, Reading

# Alternatives are refuted by passes over those left. One is made when the hardest known rival falls, and after the
# pulls have grown by this share, but not by fewer than there are features; who leads is looked up then. Refuting later
# costs pulls only, never validity.
SPACING = 0.05
# Leaders whose sets are kept, a byte per arm each. Many arms lead for a moment; a set forgotten is refuted anew.
KEPT_LEADERS = 64


@dataclass(slots=True)
class _Alternatives:
    """What is known of the alternatives to one leader."""

    alive: BoolArray
    """Which (K,) are not refuted; the leader and its copies are no alternatives."""
    weakest: float = math.inf
    """The smallest statistic that refuted one, as a multiple of the threshold of that time."""


@final
class EliminatingScan:
    """Checks of one rule on one arm set, with a set of alternatives per leader."""

    def __init__(self, arms: ArmSet, test: PairTest) -> None:
        self._arms, self._test = arms, test
        self._refuted: dict[int, _Alternatives] = {}  # of leaders with refuted alternatives, the latest last
        self._leader = self._rival = -1
        self._leader_row = self._rival_row = np.empty(0)
        self._next_pass = 0.0
        self.n_scans = 0
        """Passes over the alternatives so far."""
        self.n_leader_passes = 0
        """None: who leads is looked up with a pass over the alternatives."""

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates (K,) are not refuted as alternatives to this leader, not to be kept; None: all."""
        known = self._refuted.get(leader)
        return None if known is None else known.alive

    def check(self, estimate: Estimate) -> Reading:
        """Refute what can be refuted and say whether the leader has alternatives left."""
        test, threshold = self._test, self._test.threshold(estimate)
        if estimate.n_pulls < self._next_pass:
            value = test.pair(estimate, self._leader_row - self._rival_row)
            if value < threshold or not test.floor_reached(estimate):
                return Reading(
                    is_reached=False,
                    leader=self._leader,
                    rival=self._rival,
                    value=value,
                    threshold=threshold,
                    is_exact=False,
                )
        leader = self._arms.best(estimate.theta)
        if leader != self._leader:
            self._leader, self._leader_row = leader, self._arms.gather([leader])[0]
        self._next_pass = estimate.n_pulls + max(SPACING * estimate.n_pulls, self._arms.dim)
        if self._is_refuted(leader):  # for good, whatever came later
            return self.look(estimate)
        self.n_scans += 1
        reading = self._refute(estimate, leader, threshold)
        self._rival, self._rival_row = reading.rival, self._arms.gather([reading.rival])[0]
        return reading

    def look(self, estimate: Estimate) -> Reading:
        """Say where the current leader stands, deciding nothing: what is refuted, and who leads, `check` says."""
        leader = self._arms.best(estimate.theta)
        alive = None if self._is_refuted(leader) else self.alive(leader)
        hardest = [_smallest(index, scores) for index, scores in self._scores(estimate, leader, alive)]
        return self._reading(leader, min(hardest), self._test.threshold(estimate), is_reached=self._is_refuted(leader))

    def _is_refuted(self, leader: int) -> bool:
        alive = self.alive(leader)
        return alive is not None and not alive.any()

    @one_blas_thread
    def _refute(self, estimate: Estimate, leader: int, threshold: float) -> Reading:
        """Refute what can be refuted now."""
        test, is_allowed = self._test, self._test.floor_reached(estimate)
        refuted, hardest, hardest_left = [], [], []
        weakest = math.inf
        for index, scores in self._scores(estimate, leader, self.alive(leader)):
            is_above = (scores > threshold if test.is_strict else scores >= threshold) & is_allowed
            hardest.append(_smallest(index, scores))
            if is_above.any():
                refuted.append(index[is_above])
                weakest = min(weakest, float(scores[is_above].min()) / threshold)
            if not is_above.all():
                hardest_left.append(_smallest(index[~is_above], scores[~is_above]))
        if refuted:
            known = self._refuted.pop(leader, None) or _Alternatives(self._others(leader))
            known.alive[np.concatenate(refuted)] = False
            known.weakest = min(known.weakest, weakest)
            self._refuted[leader] = known
            if len(self._refuted) > KEPT_LEADERS:
                del self._refuted[next(iter(self._refuted))]
        return self._reading(leader, min(hardest_left or hardest), threshold, is_reached=not hardest_left)

    def _reading(self, leader: int, hardest: tuple[float, int], threshold: float, *, is_reached: bool) -> Reading:
        value, rival = hardest
        if (known := self._refuted.get(leader)) is not None:
            value = min(value, known.weakest * threshold)
        return Reading(
            is_reached=is_reached, leader=leader, rival=rival, value=value, threshold=threshold, is_exact=True
        )

    def _others(self, leader: int) -> BoolArray:
        others = np.ones(self._arms.n_arms, dtype=bool)
        others[self._arms.copies(leader)] = False
        return others

    def _scores(self, estimate: Estimate, leader: int, among: BoolArray | None) -> Iterator[tuple[IntArray, Array]]:
        """Yield the statistics of the leader against these alternatives (None: all), piece by piece."""
        score = self._test.score(estimate)

        def scored(forms: PairForms) -> tuple[IntArray, Array]:
            return forms.index, np.asarray(score(forms.products[0], *forms.squares), dtype=np.float64)

        among = self._others(leader) if among is None else among
        return self._arms.pair_forms(leader, [estimate.theta], self._test.factors(estimate), among, scored)


def _smallest(index: IntArray, scores: Array) -> tuple[float, int]:
    first = int(np.argmin(scores))
    return float(scores[first]), int(index[first])
