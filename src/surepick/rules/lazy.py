"""Exact lazy scans: decide as a pass over all arms would, touching the arms only when it could matter.

Notation: theta, A the estimate now; a the leader, theta0 the estimate and m the lead of a over every arm
outside a small pool, all at the last pass; b a rival of a found by an earlier pass; s(y) the statistic of a
pair, y = leader - rival; epsilon the slack.

A rule stops when the smallest s(leader - rival) over all rivals reaches a threshold. "Not yet" is proved in
O(d^2), without looking at the other arms, when both

 (i)  s(a - b) is below the threshold (enough if a still leads), and
 (ii) the statistic that a shift of theta by f (theta - theta0) can explain, f = max(1, epsilon/m), is below
      the threshold (enough if another arm c took the lead).

Proof of (ii): theta0'(c - a) <= -m and g = theta'(c - a) >= 0, so (theta - theta0)'(c - a) >= g + m, and in
any norm W, |theta - theta0|_{W^-1} |c - a|_W >= g + m >= (g + epsilon) / f: the pair (c, a) has at most
that statistic. For epsilon = 0 no pool is needed (f = 1). For epsilon > 0 many arms can be closer than
epsilon to the leader, so the arms nearest to it are kept in a pool: which of them leads now is computed
each time, and m is the lead over the arms outside. When only (ii) fails, a pass that finds the leader,
cheaper than a full scan, often suffices. The argument uses no probability: every decision is that of a full
scan, up to rounding, for which thresholds are undercut by `MARGIN`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from surepick.arms.protocol import ArmSet, PairScore
from surepick.core.estimate import Estimate
from surepick.core.linalg import Array, IntArray

# Relative room left below the threshold when a scan is skipped: far above rounding, far below what matters.
MARGIN = 1e-6
# Arms kept at hand when epsilon > 0.
POOL_SIZE = 64


class PairTest(Protocol):
    """A statistic of (leader, rival) pairs and the threshold its minimum over rivals is compared with."""

    epsilon: float
    """Slack inside the statistic."""
    is_strict: bool
    """Whether the threshold must be exceeded (or only reached)."""

    def threshold(self, estimate: Estimate) -> float:
        """Return what the statistic is compared with now; above 0."""
        ...

    def pair(self, estimate: Estimate, difference: Array) -> float:
        """Return the statistic of one pair from leader - rival (d,)."""
        ...

    def shifted(self, estimate: Estimate, shift: Array, factor: float) -> float:
        """Return the largest statistic of any direction that a move of theta by factor * `shift` explains."""
        ...

    def factors(self, estimate: Estimate) -> Sequence[Array]:
        """Return the factors whose quadratic forms `score` takes."""
        ...

    def score(self, estimate: Estimate) -> PairScore:
        """Return the statistic as a function of arrays gap, quad_1, quad_2, ..."""
        ...

    def floor_reached(self, estimate: Estimate) -> bool:
        """Whether the pulls satisfy whatever else the rule asks before it may stop."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """Outcome of one check.

    Unless `is_exact`, the arms are those of the last pass over the arms and `value` is an upper bound on the statistic
    of that leader, infinite where none was computed.
    """

    is_reached: bool
    leader: int
    rival: int
    value: float
    threshold: float
    is_exact: bool


@final
@dataclass(slots=True)
class _Reference:
    """What the last pass over the arms left behind."""

    leader: int
    leader_row: Array
    theta: Array
    factor: float
    """f of condition (ii); infinite if (ii) can prove nothing, 0 if every arm is in the pool."""
    pool: IntArray
    pool_rows: Array


@final
class LazyScan:
    """The state of one rule's checks on one arm set.

    Args:
        arms: the arm set.
        test: the statistic and its threshold.
        full_scan: scan all arms at every check; for tests and comparisons.
        spacing: after a pass over the arms make the next one only once the number of pulls has grown by this
            fraction. 0 decides exactly as a full scan; above 0 a stop may come late by that fraction, never
            early, which bounds the number of passes when very many arms are within epsilon of the leader.
    """

    def __init__(self, arms: ArmSet, test: PairTest, *, full_scan: bool = False, spacing: float = 0.0) -> None:
        self._arms = arms
        self._test = test
        self._full_scan = full_scan
        self._spacing = spacing
        self._next_pass = 0.0
        self._reference: _Reference | None = None
        self._rival = -1
        self._rival_row = np.empty(0)
        self.n_scans = 0
        """Full scans so far: passes that compute the statistic of every rival."""
        self.n_leader_passes = 0
        """Cheaper passes so far that only looked up the leader."""

    def check(self, estimate: Estimate) -> Reading:
        """Decide; `estimate` must have a theta."""
        threshold = self._test.threshold(estimate)
        below = threshold * (1.0 - MARGIN)
        reference = self._reference
        is_pair_below = False
        if reference is not None and not self._full_scan:
            value = self._leader_statistic(estimate, reference, below)
            is_pair_below = value < below
            if is_pair_below:
                value = max(value, self._takeover_statistic(estimate, reference))
                if value < below:
                    return self._not_yet(reference, value, threshold)
            if estimate.n_pulls < self._next_pass or not self._test.floor_reached(estimate):
                return self._not_yet(reference, math.inf, threshold)
        self._next_pass = (1.0 + self._spacing) * estimate.n_pulls
        previous = reference
        reference = self._reference = self._find_leader(estimate)
        if is_pair_below and previous is not None:
            self.n_leader_passes += 1
            value = self._test.pair(estimate, reference.leader_row - self._rival_row)
            if reference.leader == self._rival or not value < below:
                # The old leader is a rival too, if it is not the leader still.
                moved = reference.leader != previous.leader
                value = self._test.pair(estimate, reference.leader_row - previous.leader_row) if moved else math.inf
                if value < below:
                    self._rival, self._rival_row = previous.leader, previous.leader_row
            if value < below:
                return self._not_yet(reference, value, threshold)
        return self._scan(estimate, reference, threshold)

    def look(self, estimate: Estimate) -> Reading:
        """Scan all arms and report, without changing this state."""
        leader = self._arms.best(estimate.theta)
        test = self._test
        rival = self._arms.most_confusing(leader, estimate.theta, test.factors(estimate), test.score(estimate))
        threshold = test.threshold(estimate)
        is_above = rival.score > threshold if test.is_strict else rival.score >= threshold
        is_reached = is_above and test.floor_reached(estimate)
        return Reading(is_reached, leader, rival.index, rival.score, threshold, is_exact=True)

    def _not_yet(self, reference: _Reference, value: float, threshold: float) -> Reading:
        return Reading(
            is_reached=False,
            leader=reference.leader,
            rival=self._rival,
            value=value,
            threshold=threshold,
            is_exact=False,
        )

    def _leader_statistic(self, estimate: Estimate, reference: _Reference, below: float) -> float:
        """Condition (i): an upper bound on the statistic if the leader is in the pool."""
        if not len(reference.pool):
            return self._test.pair(estimate, reference.leader_row - self._rival_row)
        best = int(np.argmax(reference.pool_rows @ estimate.theta))
        row, arm = reference.pool_rows[best], int(reference.pool[best])
        value = math.inf
        if arm != self._rival:
            value = self._test.pair(estimate, row - self._rival_row)
        if arm != reference.leader and not value < below:
            value = min(value, self._test.pair(estimate, row - reference.leader_row))
        return value

    def _takeover_statistic(self, estimate: Estimate, reference: _Reference) -> float:
        """Condition (ii): an upper bound on the statistic if the leader is some arm outside the pool."""
        if reference.factor == 0.0:
            return -math.inf
        if math.isinf(reference.factor):
            return math.inf
        return self._test.shifted(estimate, estimate.theta - reference.theta, reference.factor)

    def _find_leader(self, estimate: Estimate) -> _Reference:
        theta = estimate.theta
        leader = self._arms.best(theta)
        row = self._arms.gather([leader])[0]
        epsilon = self._test.epsilon
        if epsilon == 0.0 or self._full_scan:
            return _Reference(leader, row, theta, 1.0, np.empty(0, dtype=np.int64), np.empty((0, 0)))
        near = self._arms.rivals(leader, theta, [], _by_gap, POOL_SIZE)
        # Row order, so that of several equal arms the pool names the same one as a scan.
        pool = np.sort(np.append(near.index, leader))
        lead = float(near.score[-1])
        factor = 0.0 if len(near.index) < POOL_SIZE else max(1.0, epsilon / lead) if lead > 0.0 else math.inf
        return _Reference(leader, row, theta, factor, pool, self._arms.gather(pool))

    def _scan(self, estimate: Estimate, reference: _Reference, threshold: float) -> Reading:
        self.n_scans += 1
        test = self._test
        rival = self._arms.most_confusing(
            reference.leader, estimate.theta, test.factors(estimate), test.score(estimate)
        )
        self._rival, self._rival_row = rival.index, self._arms.gather([rival.index])[0]
        is_above = rival.score > threshold if test.is_strict else rival.score >= threshold
        is_reached = is_above and test.floor_reached(estimate)
        return Reading(is_reached, reference.leader, rival.index, rival.score, threshold, is_exact=True)


def _by_gap(gap: Array) -> Array:
    # A copy: the oracle may overwrite the scores it gets.
    return gap.copy()
