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

from surepick.core.arms import ArmSet, PairForms
from surepick.core.estimate import Estimate
from surepick.core.linalg import Array, BoolArray, IntArray, one_blas_thread
from surepick.rules.lazy import PairTest, Reading

# Alternatives are refuted by passes over those left. One is made when the hardest known rival falls, and after the
# pulls have grown by this share; who leads is looked up then. Refuting later costs pulls only, never validity.
SPACING = 0.05


@final
class EliminatingScan:
    """Checks of one rule on one arm set, with a set of alternatives per leader."""

    def __init__(self, arms: ArmSet, test: PairTest) -> None:
        self._arms, self._test = arms, test
        self._alive: dict[int, BoolArray] = {}  # of leaders with refuted alternatives alone: many lead for a moment
        self._leader = -1
        self._leader_row = self._rival_row = np.empty(0)
        self._rival = -1
        self._next_pass = 0.0
        self.n_scans = 0
        """Passes over the alternatives so far."""
        self.n_leader_passes = 0

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates (K,) are not refuted as alternatives to this leader; None means all others."""
        return self._alive.get(leader)

    def check(self, estimate: Estimate) -> Reading:
        """Refute what can be refuted and say whether the leader has alternatives left."""
        test, threshold = self._test, self._test.threshold(estimate)
        if estimate.n_pulls < self._next_pass:
            value = test.pair(estimate, self._leader_row - self._rival_row)
            if value < threshold:
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
        self._next_pass = (1.0 + SPACING) * estimate.n_pulls
        alive = self._alive.get(leader)
        if alive is not None and not alive.any():  # refuted for good, whatever came later
            return self.look(estimate)
        self.n_scans += 1
        is_reached, self._rival, value = self._refute(estimate, leader, threshold)
        self._rival_row = self._arms.gather([self._rival])[0]
        return Reading(
            is_reached=is_reached, leader=leader, rival=self._rival, value=value, threshold=threshold, is_exact=True
        )

    @one_blas_thread
    def _refute(self, estimate: Estimate, leader: int, threshold: float) -> tuple[bool, int, float]:
        """Say whether no alternative is left; return the hardest one left, or the hardest of all if none is."""
        test, alive = self._test, self._alive.get(leader)
        if alive is None:
            alive = np.ones(self._arms.n_arms, dtype=bool)
            alive[self._arms.copies(leader)] = False
        score, is_allowed = test.score(estimate), test.floor_reached(estimate)

        def scored(forms: PairForms) -> tuple[IntArray, Array]:
            return forms.index, np.asarray(score(forms.products[0], *forms.squares), dtype=np.float64)

        refuted, all_seen, left = [], [], []
        for index, scores in self._arms.pair_forms(leader, [estimate.theta], test.factors(estimate), alive, scored):
            is_above = (scores > threshold if test.is_strict else scores >= threshold) & is_allowed
            refuted.append(index[is_above])
            all_seen.append(_smallest(index, scores))
            if not is_above.all():
                left.append(_smallest(index[~is_above], scores[~is_above]))
        if any(len(index) for index in refuted):
            alive[np.concatenate(refuted)] = False
            self._alive[leader] = alive
        value, rival = min(left or all_seen)
        return not left, rival, value

    def look(self, estimate: Estimate) -> Reading:
        """Say where the current leader stands against its hardest remaining rival, changing nothing."""
        leader = self._arms.best(estimate.theta)
        test, threshold = self._test, self._test.threshold(estimate)
        alive = self._alive.get(leader)
        is_refuted = alive is not None and not alive.any()
        found = self._arms.rivals(
            leader, estimate.theta, test.factors(estimate), test.score(estimate), 1, None if is_refuted else alive
        )
        value = float(found.score[0])
        is_above = value > threshold if test.is_strict else value >= threshold
        return Reading(
            is_reached=is_refuted or (is_above and test.floor_reached(estimate)),
            leader=leader,
            rival=int(found.index[0]),
            value=value,
            threshold=threshold,
            is_exact=True,
        )


def _smallest(index: IntArray, scores: Array) -> tuple[float, int]:
    first = int(np.argmin(scores))
    return float(scores[first]), int(index[first])
