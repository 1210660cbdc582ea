"""Rules that scan pairs (leader, rival): exact lazy scans, and elimination.

A rule is a `ScanRule` with a `PairTest`; `LazyScan` and `EliminatingScan` are the two ways to check it.

Notation: theta, A the estimate now; a the leader, theta0 the estimate and m the lead of a over every arm
outside a small pool around a, all at the last pass; b a rival of a found by an earlier pass; s(y) the statistic of a
pair, y = leader - rival; epsilon the slack.

A rule stops when the smallest s(leader - rival) over all rivals reaches a threshold. "Not yet" is proved in
O(d^2), without looking at the other arms, when both

 (i)  s(a - b) is below the threshold (enough if a still leads), and
 (ii) the statistic that a shift of theta by f (theta - theta0) can explain, f = max(1, epsilon/m), is below
      the threshold (enough if another arm c took the lead).

Proof of (ii): theta0'(c - a) <= -m and g = theta'(c - a) >= 0, so (theta - theta0)'(c - a) >= g + m, and in
any norm W, |theta - theta0|_{W^-1} |c - a|_W >= g + m >= (g + epsilon) / f: the pair (c, a) has at most
that statistic. For epsilon = 0 the pool is a alone (f = 1). For epsilon > 0 many arms can be closer than
epsilon to the leader, so the arms nearest to it are kept in a pool: which of them leads now is computed
each time, and m is the lead over the arms outside. When only (ii) fails, a pass that finds the leader,
cheaper than a full scan, often suffices. The argument uses no probability: every decision is that of a full
scan, up to rounding, for which thresholds are undercut by `MARGIN`.

Elimination: a refuted alternative stays refuted, so a rule may stop although some would not be refuted now.

Notation: for each leader i a set of alternatives j not yet refuted; f_ij(t) the statistic of the pair; beta(t) the
threshold. At time t every j with f_ij(t) at or above beta(t) leaves the set of the leader i of that time; the rule
stops when the set of the current leader is empty.

Why it is valid: the threshold belongs to a confidence set for theta that holds at all times together. A wrong answer i
needs the best arm j refuted for i at some time, when the true theta, which prefers j, was outside the confidence set.
The rule without elimination errs in the same event, so delta does not change.

The value reported for a leader is the smallest statistic over its alternatives; a refuted alternative counts with the
statistic that refuted it. If the statistic is a log e-value, so is this value: whichever alternative is the best arm,
its supermartingale was as large at some time.

Reference: Tirinzoni and Degenne (2022), selective elimination.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.arms.base import PairForms, PairScore
from surepick.arms.views import Task
from surepick.core.checks import check_number
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, BoolArray, IntArray

# Relative room below the threshold when a scan is skipped: far above rounding, far too small to cost pulls.
MARGIN = 1e-6
# Relative to arms of size 1, as in whitened coordinates.
SMALLEST_REGULARIZER = 1e-15
# Arms in the pool around the leader when epsilon > 0.
POOL_SIZE = 64
# With elimination, a pass scans the alternatives left and looks up the leader. A pass is due when the hardest known
# rival is refuted, and when the pulls have grown by this share, at least by the number of features. A late refutation
# costs pulls, never validity.
SPACING = 0.05
# Leaders whose sets are kept, one byte per arm each. Many arms lead briefly; a forgotten set is refuted anew.
KEPT_LEADERS = 64


class PairTest(ABC):
    """A statistic of (leader, rival) pairs in nats, and the threshold for its minimum over rivals.

    Args:
        task: the task of the run.
        regularizers: matrices (J, d, d) whose log-determinants the threshold or the statistic uses.
        is_strict: whether the statistic must exceed the threshold; else reaching the threshold suffices.
    """

    first_threshold = math.inf
    """The threshold reported before there is an estimate."""

    def __init__(self, task: Task, regularizers: Array, *, is_strict: bool) -> None:
        self.epsilon = task.epsilon
        self.regularizers, self.is_strict = regularizers, is_strict
        self._seen: LeastSquares | None = None
        self._slots = slice(0, 0)

    def slots(self, estimate: LeastSquares) -> slice:
        """Return the places of the regularisers in this estimate."""
        if estimate is not self._seen:
            self._slots, self._seen = estimate.slots(self.regularizers), estimate
        return self._slots

    def read(self, estimate: LeastSquares) -> LeastSquares:
        """Return the estimate that the test reads."""
        return estimate

    @abstractmethod
    def threshold(self, estimate: LeastSquares) -> float:
        """Return the threshold now; above 0."""

    @abstractmethod
    def pair(self, estimate: LeastSquares, difference: Array) -> float:
        """Return the statistic of one pair from leader - rival (d,); inf if the difference is 0."""

    @abstractmethod
    def shifted(self, estimate: LeastSquares, shift: Array, factor: float) -> float:
        """Return the largest statistic, over all directions, that a move of theta by factor * `shift` explains."""

    @abstractmethod
    def factors(self, estimate: LeastSquares) -> Sequence[Array]:
        """Return the factors whose quadratic forms `score` takes."""

    @abstractmethod
    def score(self, estimate: LeastSquares) -> PairScore:
        """Return the statistic as a function of arrays gap, quad_1, quad_2, ..."""

    def floor_reached(self, estimate: LeastSquares) -> bool:
        """Return whether the pulls satisfy the rule's further conditions for a stop."""
        return True

    def refuted(self, estimate: LeastSquares, statistics: Array, threshold: float) -> BoolArray:
        """Return which of these statistics (n,) refute a rival now."""
        is_above: BoolArray = statistics > threshold if self.is_strict else statistics >= threshold
        return is_above & self.floor_reached(estimate)


class ScanState(RuleState):
    """A rule that is checked after every pull by scans of the candidates."""

    decides_after_pulls = True

    def __init__(self, task: Task, test: PairTest) -> None:
        super().__init__(task)
        self.regularizers = _usable(test.regularizers)
        self._arms, self._test = task.rivals, test
        self._rival, self._rival_row = -1, np.empty(0)
        self._next_pass = 0.0
        self.n_scans = 0
        """Passes so far that computed the statistic of every rival that is not refuted."""
        self.n_leader_passes = 0
        """Cheaper passes so far that only looked up the leader."""

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate."""
        return self.task.candidates.best(self._test.read(estimate).theta)

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        if not estimate.has_theta:
            return Verdict(threshold=self._test.first_threshold)
        return self._check(self._test.read(estimate))

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the exact verdict, by a scan of all candidates that are not refuted."""
        if not estimate.has_theta:
            return Verdict(threshold=self._test.first_threshold)
        return self._look(self._test.read(estimate))

    @abstractmethod
    def _check(self, estimate: LeastSquares) -> Verdict:
        """Decide."""

    @abstractmethod
    def _look(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict on the current leader, without changing this state."""

    def _not_yet(self, leader: int, value: float, threshold: float) -> Verdict:
        return Verdict(leader=leader, rival=self._rival, statistic=value, threshold=threshold, is_exact=False)

    def _remember(self, scanned: Verdict) -> None:
        """Count a scan, and keep its rival for the comparisons until the next scan."""
        assert scanned.rival is not None
        self.n_scans += 1
        self._rival, self._rival_row = scanned.rival, self._arms.gather([scanned.rival])[0]


@final
@dataclass(slots=True)
class _Reference:
    """Findings of the last pass over the arms."""

    leader: int
    row: Array
    theta: Array
    factor: float
    """f of condition (ii); infinite if (ii) can prove nothing, 0 if every arm is in the pool."""
    pool: Array
    """Rows near the leader, its own among them."""


@final
class LazyScan(ScanState):
    """Passes over the arms only when conditions (i) and (ii) prove nothing; see `ScanRule` for the options."""

    def __init__(self, task: Task, test: PairTest, *, full_scan: bool, spacing: float) -> None:
        super().__init__(task, test)
        self._full_scan, self._spacing = full_scan, spacing
        self._reference: _Reference | None = None

    def _check(self, estimate: LeastSquares) -> Verdict:
        test, previous = self._test, self._reference
        threshold = test.threshold(estimate)
        below = threshold * (1.0 - MARGIN)
        is_pair_below = False
        if previous is not None and not self._full_scan:
            value = self._leader_statistic(estimate, previous, below)
            is_pair_below = value < below
            if is_pair_below:
                value = max(value, self._takeover_statistic(estimate, previous))
                if value < below:
                    return self._not_yet(previous.leader, value, threshold)
            if estimate.n_pulls < self._next_pass or not test.floor_reached(estimate):
                return self._not_yet(previous.leader, math.inf, threshold)
        self._next_pass = (1.0 + self._spacing) * estimate.n_pulls
        reference = self._reference = self._find_leader(estimate)
        if is_pair_below and previous is not None:
            self.n_leader_passes += 1
            value = test.pair(estimate, reference.row - self._rival_row)
            if not value < below:
                # The old leader, if overtaken, is a rival too.
                value = test.pair(estimate, reference.row - previous.row)
                if value < below:
                    self._rival, self._rival_row = previous.leader, previous.row
            if value < below:
                return self._not_yet(reference.leader, value, threshold)
        verdict = self._scanned(estimate, reference.leader, threshold)
        self._remember(verdict)
        return verdict

    def _look(self, estimate: LeastSquares) -> Verdict:
        return self._scanned(estimate, self._arms.best(estimate.theta), self._test.threshold(estimate))

    def _scanned(self, estimate: LeastSquares, leader: int, threshold: float) -> Verdict:
        test = self._test
        rival = self._arms.most_confusing(leader, estimate.theta, test.factors(estimate), test.score(estimate))
        is_reached = bool(test.refuted(estimate, np.array(rival.score), threshold))
        return Verdict(stopped=is_reached, leader=leader, rival=rival.index, statistic=rival.score, threshold=threshold)

    def _leader_statistic(self, estimate: LeastSquares, reference: _Reference, below: float) -> float:
        """Condition (i): an upper bound on the statistic if the leader is in the pool."""
        pool = reference.pool
        row = pool[np.argmax(pool @ estimate.theta)] if len(pool) > 1 else reference.row
        value = self._test.pair(estimate, row - self._rival_row)
        return value if value < below else min(value, self._test.pair(estimate, row - reference.row))

    def _takeover_statistic(self, estimate: LeastSquares, reference: _Reference) -> float:
        """Condition (ii): an upper bound on the statistic if the leader is some arm outside the pool."""
        if reference.factor == 0.0:
            return -math.inf
        if math.isinf(reference.factor):
            return math.inf
        return self._test.shifted(estimate, estimate.theta - reference.theta, reference.factor)

    def _find_leader(self, estimate: LeastSquares) -> _Reference:
        theta, epsilon = estimate.theta, self._test.epsilon
        leader = self._arms.best(theta)
        row = self._arms.gather([leader])[0]
        if epsilon == 0.0 or self._full_scan:
            return _Reference(leader, row, theta, 1.0, row[None])
        # A copy of the gaps: the oracle may overwrite the scores it gets.
        near = self._arms.rivals(leader, theta, [], np.copy, POOL_SIZE)
        # Row order: among equal arms, the pool names the same arm as a scan.
        pool = np.sort(np.append(near.index, leader))
        lead = float(near.score[-1])
        factor = 0.0 if len(near.index) < POOL_SIZE else max(1.0, epsilon / lead) if lead > 0.0 else math.inf
        return _Reference(leader, row, theta, factor, self._arms.gather(pool))


@final
@dataclass(slots=True)
class _Alternatives:
    """The alternatives to one leader."""

    alive: BoolArray
    """Mask (K,) of alternatives not refuted; the leader and its copies are not alternatives."""
    weakest: float = math.inf
    """The smallest statistic that refuted an alternative, as a multiple of the threshold at that time."""


@final
class EliminatingScan(ScanState):
    """Keeps a set of alternatives per leader; passes scan this set alone."""

    def __init__(self, task: Task, test: PairTest) -> None:
        super().__init__(task, test)
        self._refuted: dict[int, _Alternatives] = {}  # leaders with refuted alternatives, latest last
        self._leader, self._leader_row = -1, np.empty(0)

    def alive(self, leader: int) -> BoolArray | None:
        """Return a mask (K,) of the candidates not refuted as alternatives to this leader; None: all. Copy to keep."""
        known = self._refuted.get(leader)
        return None if known is None else known.alive

    def _check(self, estimate: LeastSquares) -> Verdict:
        test, threshold = self._test, self._test.threshold(estimate)
        if estimate.n_pulls < self._next_pass:
            value = test.pair(estimate, self._leader_row - self._rival_row)
            if value < threshold or not test.floor_reached(estimate):
                return self._not_yet(self._leader, value, threshold)
        leader = self._leader = self._arms.best(estimate.theta)
        self._leader_row = self._arms.gather([leader])[0]
        self._next_pass = estimate.n_pulls + max(SPACING * estimate.n_pulls, self._arms.dim)
        if self._is_refuted(leader):  # for good, whatever came later
            return self._look(estimate)
        verdict = self._refute(estimate, leader, threshold)
        self._remember(verdict)
        return verdict

    def _look(self, estimate: LeastSquares) -> Verdict:
        leader = self._arms.best(estimate.theta)
        is_reached = self._is_refuted(leader)
        index, scores = self._scores(estimate, leader, None if is_reached else self.alive(leader))
        return self._verdict(leader, index, scores, self._test.threshold(estimate), is_reached=is_reached)

    def _is_refuted(self, leader: int) -> bool:
        alive = self.alive(leader)
        return alive is not None and not alive.any()

    def _refute(self, estimate: LeastSquares, leader: int, threshold: float) -> Verdict:
        """Refute alternatives; the verdict names the hardest rival left, or the hardest of all if none is left."""
        index, scores = self._scores(estimate, leader, self.alive(leader))
        falls = self._test.refuted(estimate, scores, threshold)
        is_reached = bool(falls.all())
        if falls.any():
            known = self._refuted.pop(leader, None) or _Alternatives(self._arms.is_rival([leader]))
            known.alive[index[falls]] = False
            known.weakest = min(known.weakest, float(scores[falls].min()) / threshold)
            self._refuted[leader] = known
            if len(self._refuted) > KEPT_LEADERS:
                del self._refuted[next(iter(self._refuted))]
        if not is_reached:
            index, scores = index[~falls], scores[~falls]
        return self._verdict(leader, index, scores, threshold, is_reached=is_reached)

    def _verdict(self, leader: int, index: IntArray, scores: Array, threshold: float, *, is_reached: bool) -> Verdict:
        """Return the verdict on the leader against these alternatives and the refuted ones."""
        first = int(np.argmin(scores))
        rival, value = int(index[first]), float(scores[first])
        if (known := self._refuted.get(leader)) is not None:
            value = min(value, known.weakest * threshold)
        return Verdict(stopped=is_reached, leader=leader, rival=rival, statistic=value, threshold=threshold)

    @one_blas_thread
    def _scores(self, estimate: LeastSquares, leader: int, among: BoolArray | None) -> tuple[IntArray, Array]:
        """Return the numbers, increasing, and statistics of these alternatives (None: all) to the leader."""
        score = self._test.score(estimate)

        def scored(forms: PairForms) -> tuple[IntArray, Array]:
            return forms.index, np.asarray(score(forms.products[0], *forms.squares), dtype=np.float64)

        among = self._arms.is_rival([leader]) if among is None else among
        pieces = self._arms.pair_forms(leader, [estimate.theta], self._test.factors(estimate), among, scored)
        index, scores = zip(*pieces, strict=True)
        return np.concatenate(index), np.concatenate(scores)


@final
class TeamScan(ScanState):
    """Compares each of the m best with every other candidate, in passes that are spaced as with elimination.

    Why it is valid: if the answer is wrong, one of its members is more than epsilon behind some candidate outside.
    The pair of these two has reached the threshold, and then the true theta was outside the confidence set of the rule
    for m = 1. So no union over pairs is needed.
    """

    def __init__(self, task: Task, test: PairTest, *, full_scan: bool) -> None:
        super().__init__(task, test)
        self._full_scan = full_scan

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the candidates with the m best estimates."""
        return self._team(self._test.read(estimate).theta)

    def _team(self, theta: Array) -> tuple[int, ...]:
        first = self._arms.best(theta)
        return first, *self._arms.rivals(first, theta, [], np.copy, self.task.m - 1).index.tolist()

    def _check(self, estimate: LeastSquares) -> Verdict:
        if estimate.n_pulls < self._next_pass and not self._full_scan:
            return Verdict(statistic=math.inf, threshold=self._test.threshold(estimate), is_exact=False)
        self._next_pass = estimate.n_pulls + max(SPACING * estimate.n_pulls, self._arms.dim)
        verdict = self._look(estimate)
        self._remember(verdict)
        return verdict

    def _look(self, estimate: LeastSquares) -> Verdict:
        test, team, threshold = self._test, self._team(estimate.theta), self._test.threshold(estimate)
        outside = np.ones(self._arms.n_arms, dtype=bool)
        outside[list(team)] = False
        factors, score = test.factors(estimate), test.score(estimate)
        found = [self._arms.rivals(leader, estimate.theta, factors, score, 1, outside) for leader in team]
        value, rival = min((float(rivals.score[0]), int(rivals.index[0])) for rivals in found)
        is_reached = bool(test.refuted(estimate, np.array(value), threshold))
        first, *others = team
        return Verdict(
            stopped=is_reached, leader=first, others=tuple(others), rival=rival, statistic=value, threshold=threshold
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanRule(Rule):
    """Base class of rules that are checked by scans: their options.

    Args:
        elimination: a refuted alternative stays refuted. None: if surepick can keep a number per candidate.
        full_scan: look at all candidates at every check; for tests and comparisons.
        spacing: growth of the number of pulls between two passes over the arms. 0 decides exactly as a full scan.
            Above 0, a stop may come late by this fraction, never early; the number of passes stays bounded even when
            very many arms are within epsilon of the leader.
    """

    elimination: bool | None = None
    full_scan: bool = False
    spacing: float = 0.0

    def __post_init__(self) -> None:
        needed, advice = "a growth of at least 0", "0.01 means 1 %"
        check_number("spacing", self.spacing, needed=needed, allowed=lambda x: x >= 0.0, advice=advice)
        if self.elimination and (self.full_scan or self.spacing > 0.0):
            raise InvalidInput("`full_scan` and `spacing` are not supported with `elimination`; leave them out.")

    def _limits(self, task: Task) -> Iterator[str]:
        yield from super()._limits(task)
        if task.m > 1 and (self.elimination or self.spacing > 0.0):
            yield "`elimination` and `spacing` are not supported with m > 1; leave them out."

    def scan(self, task: Task, test: PairTest) -> ScanState:
        """Return a fresh state that checks this test."""
        if task.m > 1:
            return TeamScan(task, test, full_scan=self.full_scan)
        is_plain = self.full_scan or self.spacing > 0.0
        if self.elimination or (self.elimination is None and task.candidates.is_local and not is_plain):
            return EliminatingScan(task, test)
        return LazyScan(task, test, full_scan=self.full_scan, spacing=self.spacing)


def _usable(V: Array) -> Array:
    """Return the regularisers; refuse one that is so small that A + V is singular to rounding until the pulls span."""
    least = float(np.linalg.eigvalsh(V).min(initial=np.inf)) if np.isfinite(V).all() else np.inf
    if least < SMALLEST_REGULARIZER:
        raise InvalidInput(
            f"the rule needs a regulariser of at least {SMALLEST_REGULARIZER:g} beside arms of size 1, got "
            f"{least:.3g}; use features of similar size, a larger `ridge` or `regularizer`, or a rule without one such "
            'as "betting".'
        )
    return V
