"""Choosers pick arms one by one: a starting set first, what was asked for so far, exploration, and intervals.

Between results a chooser may be asked any number of times, so the same one serves one pull per interval (for rules that
decide after every pull) and long intervals (for the betting rule, whose bets need several pulls between looks).

Notation: A (d, d) = sum x x' over results, pending asks and arms chosen since the last look, in whitened coordinates.
Choosers need it, or a batch would consist of one arm n times.
"""

import math
from collections.abc import Iterable
from typing import Protocol, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.arms.whitening import WhitenedArms
from surepick.core.linalg import Array, IntArray, cholesky, solve_cholesky
from surepick.errors import NotEnoughData
from surepick.sampling.protocol import Situation
from surepick.sampling.schedules import ScheduleOption, schedule_for
from surepick.sampling.tracking import EigenvalueFloor, Tracker, check_share
from surepick.stopping.protocol import Rule


class Chooser(Protocol):
    """Picks arms once there is an estimate."""

    def look(self, situation: Situation) -> None:
        """Take in the results so far; `situation.theta` exists."""
        ...

    def choose(self) -> int:
        """Return the next arm; may not depend on rewards told since `look`."""
        ...


@final
class StartThenChoose:
    """The sampler made of a starting set, a chooser and a schedule.

    Args:
        start: arms pulled first, in order; they must span. Pulled again if the results still do not span.
        chooser: picks every later arm.
        rule: the stopping rule; one that needs fixed intervals gets them, by the usual schedule if none is given.
        schedule: when to look at results; None looks as often as the rule can use.
        dim: number of features.
    """

    def __init__(
        self, start: Iterable[int], chooser: Chooser, *, rule: Rule, dim: int, schedule: ScheduleOption = None
    ) -> None:
        self._start = [int(arm) for arm in start]
        is_free = schedule is None and not rule.needs_fixed_intervals
        self._chooser, self._schedule = chooser, None if is_free else schedule_for(rule, schedule)
        self._least = rule.min_block(dim)
        self._turn: int | None = 0  # position in the starting set; None once the chooser has taken over

    def open(self, situation: Situation) -> int:
        """Look at the results and return the length of the interval."""
        if situation.theta is None:
            if self._turn is None or not situation.pending:
                self._turn = 0
            return len(self._start)
        self._turn = None
        self._chooser.look(situation)
        if self._schedule is None:
            return self._least
        t = situation.n_asked
        return max(self._schedule.next_after(t) - t, self._least)

    def next(self) -> int:
        """Return the next arm."""
        if self._turn is None:
            return self._chooser.choose()
        arm = self._start[self._turn % len(self._start)]
        self._turn += 1
        return arm

    def pulls_per_nat(self) -> float:
        """Return inf: a chooser has no plan to tell the cost of evidence from."""
        return math.inf


@final
class Asked:
    """Information and counts of everything asked for; `renew` when an interval opens, `add` after each choice.

    In between it looks at nothing: results told while the interval lasts must not change its remaining arms, or the
    rules that need arms fixed in advance would lose their proof.

    Args:
        arms: what may be pulled, in whitened coordinates.
        ridge: a matrix added to A, for algorithms that regularise; None for none.
    """

    def __init__(self, arms: ArmSet, ridge: Array | None = None) -> None:
        self._arms, self._ridge = arms, ridge
        self._rows: dict[int, Array] = {}
        self._counts: dict[int, int] = {}
        self.A = np.zeros((arms.dim, arms.dim)) if ridge is None else ridge.copy()
        self.A_inv = np.zeros((arms.dim, arms.dim))
        self.n = 0

    def renew(self, situation: Situation) -> None:
        """Start again from the results so far and the pending asks; needs an estimate unless there is a ridge."""
        estimate = situation.estimate
        if self._ridge is None and not estimate.has_theta:
            raise NotEnoughData("the pulled arms do not span yet; pull a spanning set first.")
        self._counts = dict(estimate.counts)  # a copy: the estimate's own go on counting
        self.n = estimate.n_pulls
        self.A = estimate.A.copy() if self._ridge is None else estimate.A + self._ridge
        for arm, n in situation.pending.items():
            x = self.row(arm)
            self.A += n * (x[:, None] * x)
            self._note(arm, n)
        if self._ridge is None and not situation.pending:
            self.A_inv = estimate.A_inv.copy()  # kept accurate there already
        else:
            self.A_inv = solve_cholesky(cholesky(self.A), np.eye(len(self.A)))

    def add(self, arm: int) -> None:
        """Take note that this arm was chosen."""
        x = self.row(arm)
        self._note(arm, 1)
        self.A += x[:, None] * x
        u = self.A_inv @ x
        self.A_inv -= u[:, None] * (u / (1.0 + float(u @ x)))

    def _note(self, arm: int, n: int) -> None:
        self._counts[arm] = self.count(arm) + n
        self.n += n

    def count(self, arm: int) -> int:
        """Return how often this arm was asked for, or told without being asked before the interval opened."""
        return self._counts.get(arm, 0)

    def counts(self, n_arms: int) -> Array:
        """Return all counts as an array (K,)."""
        counts = np.zeros(n_arms)
        arms = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
        counts[arms] = np.fromiter(self._counts.values(), dtype=np.float64, count=len(self._counts))
        return counts

    def row(self, arm: int) -> Array:
        """Return the arm's features."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._arms.gather([arm])[0]
        return x


@final
class Exploration:
    """Says which pulls are exploration, and of which arm.

    A rule that reacts to the closest alternative alone can get stuck: a few unlucky rewards make an arm look hopeless,
    no later pull concerns it, and its estimate never recovers. A fixed share of the G-optimal design lets information
    grow linearly in all directions, at a price of about that share; the floor lets it grow like sqrt(t), which costs
    nothing asymptotically.

    Args:
        arms: what may be pulled.
        start: d arms that span.
        floor: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design.
    """

    def __init__(self, arms: WhitenedArms, start: IntArray, *, floor: float, g_mix: float) -> None:
        self._floor = EigenvalueFloor(arms, start, scale=floor)
        self._g_mix, self._owed = check_share(g_mix), 0.0
        self._design = Tracker("averaged")
        self._design.retarget(arms.design.support, arms.design.weights)

    def due(self, asked: Asked) -> int | None:
        """Return the arm that exploration wants now, None if this pull is free; to be asked once per pull."""
        arm = self._floor.due(asked.A, asked.n)
        if arm is not None:
            return arm
        self._owed += self._g_mix
        # Shares such as 0.1 add up to a little less than one.
        if self._owed > 1.0 - 1e-9:
            self._owed -= 1.0
            return self.design_arm()
        return None

    def design_arm(self) -> int:
        """Return the next arm of the G-optimal design, for when there is nothing better to do."""
        return self._design.next()
