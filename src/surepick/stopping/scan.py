"""Rules that scan pairs (leader, rival): exact lazy scans, and elimination.

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

Elimination: an alternative once refuted stays refuted, so a rule may stop before all are refuted at the same time.

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
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet, PairForms, PairScore
from surepick.arms.view import Task
from surepick.core.checks import check_number
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray, IntArray, one_blas_thread
from surepick.errors import InvalidInput
from surepick.stopping.protocol import RuleState, Verdict

# Relative room left below the threshold when a scan is skipped: far above rounding, far below what matters.
MARGIN = 1e-6
# Beside arms of size 1, as they are in whitened coordinates.
SMALLEST_REGULARIZER = 1e-15
# Arms kept at hand when epsilon > 0.
POOL_SIZE = 64


class PairTest(ABC):
    """A statistic of (leader, rival) pairs in nats, and the threshold its minimum over rivals is compared with.

    Args:
        task: what the rule was started on.
        regularizers: matrices (J, d, d) whose log-determinants the threshold or the statistic uses.
        is_strict: whether the threshold must be exceeded (or only reached).
    """

    def __init__(self, task: Task, regularizers: Array, *, is_strict: bool) -> None:
        self.epsilon, self.noise_std = task.epsilon, task.noise_std
        self.regularizers, self.is_strict = regularizers, is_strict
        self._seen: LeastSquares | None = None
        self._slots = slice(0, 0)

    def slots(self, estimate: LeastSquares) -> slice:
        """Return where the regularisers stand in this estimate."""
        if estimate is not self._seen:
            self._slots, self._seen = estimate.slots(self.regularizers), estimate
        return self._slots

    @abstractmethod
    def threshold(self, estimate: LeastSquares) -> float:
        """Return what the statistic is compared with now; above 0."""

    @abstractmethod
    def pair(self, estimate: LeastSquares, difference: Array) -> float:
        """Return the statistic of one pair from leader - rival (d,)."""

    @abstractmethod
    def shifted(self, estimate: LeastSquares, shift: Array, factor: float) -> float:
        """Return the largest statistic of any direction that a move of theta by factor * `shift` explains."""

    @abstractmethod
    def factors(self, estimate: LeastSquares) -> Sequence[Array]:
        """Return the factors whose quadratic forms `score` takes."""

    @abstractmethod
    def score(self, estimate: LeastSquares) -> PairScore:
        """Return the statistic as a function of arrays gap, quad_1, quad_2, ..."""

    def floor_reached(self, estimate: LeastSquares) -> bool:
        """Whether the pulls satisfy whatever else the rule asks before it may stop."""
        return True


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

    def check(self, estimate: LeastSquares) -> Verdict:
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

    def look(self, estimate: LeastSquares) -> Verdict:
        """Scan all arms and report, without changing this state."""
        leader = self._arms.best(estimate.theta)
        test = self._test
        rival = self._arms.most_confusing(leader, estimate.theta, test.factors(estimate), test.score(estimate))
        threshold = test.threshold(estimate)
        is_above = rival.score > threshold if test.is_strict else rival.score >= threshold
        is_reached = is_above and test.floor_reached(estimate)
        return Verdict(stopped=is_reached, leader=leader, rival=rival.index, statistic=rival.score, threshold=threshold)

    def _not_yet(self, reference: _Reference, value: float, threshold: float) -> Verdict:
        return Verdict(
            leader=reference.leader,
            rival=self._rival,
            statistic=value,
            threshold=threshold,
            is_exact=False,
        )

    def _leader_statistic(self, estimate: LeastSquares, reference: _Reference, below: float) -> float:
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

    def _takeover_statistic(self, estimate: LeastSquares, reference: _Reference) -> float:
        """Condition (ii): an upper bound on the statistic if the leader is some arm outside the pool."""
        if reference.factor == 0.0:
            return -math.inf
        if math.isinf(reference.factor):
            return math.inf
        return self._test.shifted(estimate, estimate.theta - reference.theta, reference.factor)

    def _find_leader(self, estimate: LeastSquares) -> _Reference:
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

    def _scan(self, estimate: LeastSquares, reference: _Reference, threshold: float) -> Verdict:
        self.n_scans += 1
        test = self._test
        rival = self._arms.most_confusing(
            reference.leader, estimate.theta, test.factors(estimate), test.score(estimate)
        )
        self._rival, self._rival_row = rival.index, self._arms.gather([rival.index])[0]
        is_above = rival.score > threshold if test.is_strict else rival.score >= threshold
        is_reached = is_above and test.floor_reached(estimate)
        return Verdict(
            stopped=is_reached, leader=reference.leader, rival=rival.index, statistic=rival.score, threshold=threshold
        )


def _by_gap(gap: Array) -> Array:
    # A copy: the oracle may overwrite the scores it gets.
    return gap.copy()


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

    def check(self, estimate: LeastSquares) -> Verdict:
        """Refute what can be refuted and say whether the leader has alternatives left."""
        test, threshold = self._test, self._test.threshold(estimate)
        if estimate.n_pulls < self._next_pass:
            value = test.pair(estimate, self._leader_row - self._rival_row)
            if value < threshold or not test.floor_reached(estimate):
                return Verdict(
                    leader=self._leader,
                    rival=self._rival,
                    statistic=value,
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
        verdict, self._rival = self._refute(estimate, leader, threshold)
        self._rival_row = self._arms.gather([self._rival])[0]
        return verdict

    def look(self, estimate: LeastSquares) -> Verdict:
        """Say where the current leader stands, deciding nothing: what is refuted, and who leads, `check` says."""
        leader = self._arms.best(estimate.theta)
        alive = None if self._is_refuted(leader) else self.alive(leader)
        hardest = [_smallest(index, scores) for index, scores in self._scores(estimate, leader, alive)]
        return self._verdict(leader, min(hardest), self._test.threshold(estimate), is_reached=self._is_refuted(leader))

    def _is_refuted(self, leader: int) -> bool:
        alive = self.alive(leader)
        return alive is not None and not alive.any()

    @one_blas_thread
    def _refute(self, estimate: LeastSquares, leader: int, threshold: float) -> tuple[Verdict, int]:
        """Refute what can be refuted now; also the hardest of those left, or of all if none is."""
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
        least = min(hardest_left or hardest)
        return self._verdict(leader, least, threshold, is_reached=not hardest_left), least[1]

    def _verdict(self, leader: int, hardest: tuple[float, int], threshold: float, *, is_reached: bool) -> Verdict:
        value, rival = hardest
        if (known := self._refuted.get(leader)) is not None:
            value = min(value, known.weakest * threshold)
        return Verdict(stopped=is_reached, leader=leader, rival=rival, statistic=value, threshold=threshold)

    def _others(self, leader: int) -> BoolArray:
        others = np.ones(self._arms.n_arms, dtype=bool)
        others[self._arms.copies(leader)] = False
        return others

    def _scores(self, estimate: LeastSquares, leader: int, among: BoolArray | None) -> Iterator[tuple[IntArray, Array]]:
        """Yield the statistics of the leader against these alternatives (None: all), piece by piece."""
        score = self._test.score(estimate)

        def scored(forms: PairForms) -> tuple[IntArray, Array]:
            return forms.index, np.asarray(score(forms.products[0], *forms.squares), dtype=np.float64)

        among = self._others(leader) if among is None else among
        return self._arms.pair_forms(leader, [estimate.theta], self._test.factors(estimate), among, scored)


def _smallest(index: IntArray, scores: Array) -> tuple[float, int]:
    first = int(np.argmin(scores))
    return float(scores[first]), int(index[first])


class ScanState(RuleState):
    """A rule that is checked after every pull by scans of the candidates.

    Args:
        task: what the rule was started on.
        test: its statistic and threshold.
        elimination: whether an alternative once refuted stays refuted; None: where a number per candidate can be kept.
        full_scan: look at all candidates at every check.
        spacing: see `LazyScan`.
        first_threshold: what is said of the threshold before there is an estimate.
    """

    decides_after_pulls = True

    def __init__(
        self,
        task: Task,
        test: PairTest,
        *,
        elimination: bool | None,
        full_scan: bool,
        spacing: float,
        first_threshold: float = math.inf,
    ) -> None:
        super().__init__(task)
        if check_number("spacing", spacing, needed="a growth of at least 0") < 0.0:
            raise InvalidInput(f"`spacing` must be a growth of at least 0, got {spacing}; 0.01 means 1 %.")
        if elimination and (full_scan or spacing > 0.0):
            raise InvalidInput("with `elimination` passes have a spacing of their own; drop `full_scan` and `spacing`.")
        if elimination is None:
            elimination = task.candidates.keeps_numbers and not (full_scan or spacing > 0.0)
        self.regularizers = _usable(test.regularizers)
        self._first_threshold = first_threshold
        self._scan = (
            EliminatingScan(task.rivals, test)
            if elimination
            else LazyScan(task.rivals, test, full_scan=full_scan, spacing=spacing)
        )

    @property
    def n_scans(self) -> int:
        """Full scans of the candidates made by checks so far."""
        return self._scan.n_scans

    @property
    def n_leader_passes(self) -> int:
        """Cheaper passes made by checks that only looked up the leader."""
        return self._scan.n_leader_passes

    def read(self, estimate: LeastSquares) -> LeastSquares:
        """Return the estimate that the rule reads."""
        return estimate

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate."""
        return self.task.candidates.best(self.read(estimate).theta)

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates are not refuted as alternatives to this leader, not to be kept; None: all."""
        return self._scan.alive(leader) if isinstance(self._scan, EliminatingScan) else None

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        return self._scan.check(self.read(estimate)) if estimate.has_theta else self._not_yet()

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Scan all candidates."""
        return self._scan.look(self.read(estimate)) if estimate.has_theta else self._not_yet()

    def _not_yet(self) -> Verdict:
        return Verdict(threshold=self._first_threshold)


def _usable(V: Array) -> Array:
    """Return the regularisers, unless A plus one of them is singular to rounding until the pulls span."""
    least = float(np.linalg.eigvalsh(V).min(initial=np.inf)) if np.isfinite(V).all() else np.inf
    if least < SMALLEST_REGULARIZER:
        raise InvalidInput(
            f"the rule needs a regulariser of at least {SMALLEST_REGULARIZER:g} beside arms of size 1, got "
            f"{least:.3g}; use features of similar size, a larger `ridge` or `regularizer`, or a rule without one such "
            'as "betting".'
        )
    return V
