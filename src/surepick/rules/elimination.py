"""Elimination: an alternative once refuted stays refuted, so a rule may stop before all are refuted at the same time.

Notation: for each leader i a set of alternatives j not yet refuted; f_ij(t) the statistic of the pair; beta(t) the
threshold. At time t every j with f_ij(t) at or above beta(t) leaves the set of the leader i of that time; the rule
stops when the set of the current leader is empty.

Why it is valid: the threshold belongs to a confidence set for theta that holds at all times together. A wrong answer i
needs the best arm j refuted for i at some time, when the true theta, which prefers j, was outside the confidence set.
That is the same event as for the rule without elimination, so delta stays what it is, and the rule never stops later.

Reference: Tirinzoni and Degenne (2022), selective elimination.
"""

from typing import final

import numpy as np

from surepick.core.arms import ArmSet
from surepick.core.estimate import Estimate
from surepick.core.linalg import Array, BoolArray, IntArray
from surepick.rules.lazy import PairTest, Reading

# Alternatives are refuted by passes over those left. One is made when the hardest known rival falls or the leader
# changes, and after the pulls have grown by this share: refuting later costs pulls only, never validity.
SPACING = 0.01


@final
class EliminatingScan:
    """Checks of one rule on one arm set, with a set of alternatives per leader."""

    def __init__(self, arms: ArmSet, test: PairTest) -> None:
        self._arms, self._test = arms, test
        self._alive: dict[int, BoolArray] = {}
        self._leader = -1
        self._leader_row = self._rival_row = np.empty(0)
        self._rival = -1
        self._next_pass = 0.0
        self.n_scans = 0
        """Passes over the alternatives so far."""
        self.n_leader_passes = 0

    def alive(self, leader: int) -> BoolArray:
        """Return which candidates (K,) are not refuted as alternatives to this leader."""
        alive = self._alive.get(leader)
        if alive is None:
            alive = self._alive[leader] = np.ones(self._arms.n_arms, dtype=bool)
            alive[self._arms.copies(leader)] = False
        return alive

    def check(self, estimate: Estimate) -> Reading:
        """Refute what can be refuted and say whether the leader has alternatives left."""
        test, threshold = self._test, self._test.threshold(estimate)
        leader = self._arms.best(estimate.theta)
        if leader == self._leader and estimate.n_pulls < self._next_pass:
            value = test.pair(estimate, self._leader_row - self._rival_row)
            if value < threshold:
                return Reading(
                    is_reached=False, leader=leader, rival=self._rival, value=value, threshold=threshold, is_exact=False
                )
        if leader != self._leader:
            self._leader, self._leader_row = leader, self._arms.gather([leader])[0]
        self._next_pass = (1.0 + SPACING) * estimate.n_pulls
        alive = self.alive(leader)
        if not alive.any():  # refuted for good, whatever came later
            return self.look(estimate)
        index, score = self._scores(estimate, leader, alive)
        self.n_scans += 1
        is_left = np.ones(len(index), dtype=bool)
        if test.floor_reached(estimate):
            is_left = ~(score > threshold if test.is_strict else score >= threshold)
            alive[:] = False
            alive[index[is_left]] = True
        # What was refuted just now is reported only if nothing is left.
        first = int(np.argmax(is_left))
        self._rival, value = int(index[first]), float(score[first])
        self._rival_row = self._arms.gather([self._rival])[0]
        return Reading(
            is_reached=not is_left.any(),
            leader=leader,
            rival=self._rival,
            value=value,
            threshold=threshold,
            is_exact=True,
        )

    def look(self, estimate: Estimate) -> Reading:
        """Say where the current leader stands against its hardest remaining rival, changing nothing."""
        leader = self._arms.best(estimate.theta)
        threshold = self._test.threshold(estimate)
        alive = self._alive.get(leader)
        index, score = self._scores(estimate, leader, alive)
        is_above = score[0] > threshold if self._test.is_strict else score[0] >= threshold
        is_refuted = alive is not None and not alive.any()
        return Reading(
            is_reached=is_refuted or (bool(is_above) and self._test.floor_reached(estimate)),
            leader=leader,
            rival=int(index[0]),
            value=float(score[0]),
            threshold=threshold,
            is_exact=True,
        )

    def _scores(self, estimate: Estimate, leader: int, alive: BoolArray | None) -> tuple[IntArray, Array]:
        """Statistics of all alternatives left, smallest first; of all there are if none is left."""
        among = alive if alive is not None and alive.any() else None
        found = self._arms.rivals(
            leader,
            estimate.theta,
            self._test.factors(estimate),
            self._test.score(estimate),
            self._arms.n_arms if among is None else int(among.sum()),
            among,
        )
        return found.index, found.score
