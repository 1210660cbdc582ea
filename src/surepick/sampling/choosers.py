"""Choosers: samplers that choose arms one by one after a starting set.

A chooser can choose any number of arms between results. So one chooser serves blocks of one pull (for rules that
decide after every pull) and long blocks (for the betting rule, whose bets need several pulls).

Notation: A (d, d) = sum x x' over results, pending asks and arms chosen since the last look, in whitened coordinates.
If A left out the arms chosen since, a batch would consist of one arm n times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.views import Task
from surepick.core.estimate import RidgeEstimate
from surepick.core.linalg import inverse
from surepick.errors import NotEnoughData
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.schedules import ScheduleOption, schedule_for
from surepick.sampling.tracking import EigenvalueFloor, Tracker, check_share
from surepick.stopping.base import Rule
from surepick.types import Array, BoolArray


@final
class Asked:
    """Information and counts of all asks; `renew` when a block opens, `add` after each choice.

    Results told inside a block must not change its remaining arms: some rules have a proof only for arms fixed in
    advance. So `renew` alone reads results.

    Args:
        arms: the arms, in whitened coordinates.
        ridge: a matrix added to A, for algorithms that regularise; None adds nothing.
    """

    def __init__(self, arms: ArmSet, ridge: Array | None = None) -> None:
        self._arms, self._ridge = arms, ridge
        self._rows: dict[int, Array] = {}
        self.A = np.zeros((arms.dim, arms.dim)) if ridge is None else ridge.copy()
        self.A_inv = np.zeros((arms.dim, arms.dim))
        self.n, self.counts = 0, np.zeros(arms.n_arms)

    def renew(self, context: SamplerContext) -> None:
        """Restart from the results so far and the pending asks; needs an estimate or a ridge."""
        estimate = context.estimate
        if self._ridge is None and not estimate.has_theta:
            raise NotEnoughData("the pulled arms do not span yet; pull a spanning set first.")
        self.n, self.counts = estimate.n_pulls, np.zeros(self._arms.n_arms)
        self.counts[list(estimate.counts)] = list(estimate.counts.values())
        self.A = estimate.A.copy() if self._ridge is None else estimate.A + self._ridge
        for arm, n in context.pending.items():
            self._note(arm, n)
        if self._ridge is None and not context.pending:
            self.A_inv = estimate.A_inv.copy()  # the estimate keeps this inverse accurate
        else:
            self.A_inv = inverse(self.A)

    def add(self, arm: int) -> None:
        """Record that this arm was chosen."""
        x = self._note(arm, 1)
        u = self.A_inv @ x
        self.A_inv -= u[:, None] * (u / (1.0 + float(u @ x)))

    def _note(self, arm: int, n: int) -> Array:
        """Count n pulls of an arm and return its features."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._arms.gather([arm])[0]
        self.A += n * (x[:, None] * x)
        self.counts[arm] += n
        self.n += n
        return x


@final
class Exploration:
    """Decides which pulls explore, and which arm they pull.

    A chooser that reacts to the closest alternative alone can get stuck: a few unlucky rewards make an arm look
    hopeless, no later pull measures this arm, and its estimate never recovers. With a fixed share of the G-optimal
    design, information grows linearly in all directions, at the cost of about this share of the pulls. With the floor,
    information grows like sqrt(t), at no cost asymptotically.

    Args:
        task: the task of the run.
        floor: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design.
    """

    def __init__(self, task: Task, *, floor: float, g_mix: float) -> None:
        self._floor = EigenvalueFloor(task.rows, task.spanning, scale=floor)
        self._g_mix, self._owed = check_share(g_mix), 0.0
        self._design = Tracker.of(task.rows.design)

    def due(self, asked: Asked) -> int | None:
        """Return the arm to explore now, None if no exploration is due; call once per pull."""
        arm = self._floor.due(asked.A, asked.n)
        if arm is not None:
            return arm
        self._owed += self._g_mix
        # Ten shares of 0.1 add up to slightly less than one.
        if self._owed > 1.0 - 1e-9:
            self._owed -= 1.0
            return self.design_arm()
        return None

    def design_arm(self) -> int:
        """Return the next arm of the G-optimal design."""
        return self._design.next()


class Chooser(ABC):
    """Base class of choosers; within a batch the estimate stays fixed and the information grows.

    Args:
        task: the task of the run.
        floor: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design.
        ridge: a matrix added to the information; None adds nothing.
        reads_ridge: whether to read the ridge estimate of the rule's regulariser instead of least squares.
    """

    _theta: Array
    _leader: int
    _alive: BoolArray | None

    def __init__(
        self,
        task: Task,
        *,
        floor: float = 0.0,
        g_mix: float = 0.0,
        ridge: Array | None = None,
        reads_ridge: bool = False,
    ) -> None:
        self._task, self._asked, self._reads_ridge = task, Asked(task.rows, ridge), reads_ridge
        self._exploration = Exploration(task, floor=floor, g_mix=g_mix)

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far; needs an estimate."""
        assert context.theta is not None
        assert context.leader is not None
        self._theta = RidgeEstimate(context.estimate).theta if self._reads_ridge else context.theta
        self._leader, self._alive = context.leader, context.alive
        self._asked.renew(context)

    def choose(self) -> int:
        """Return the next arm, which depends on no reward told since `look`."""
        arm = self._exploration.due(self._asked)
        if arm is None:
            arm = self.pick()
        self._asked.add(arm)
        return arm

    @abstractmethod
    def pick(self) -> int:
        """Return the next arm, if no exploration is due."""


@final
class StartThenChoose(Sampler):
    """The sampler made of a starting set, a chooser and a schedule.

    Args:
        start: arms pulled first, in order; they must span. They are pulled again if the results do not span.
        chooser: chooses every later arm.
        rule: the stopping rule; a rule that needs fixed blocks gets its default schedule if none is given.
        schedule: when to look at results; None looks as often as the rule allows.
        least: fewest pulls of a block.
    """

    def __init__(
        self, start: Iterable[int], chooser: Chooser, *, rule: Rule, least: int, schedule: ScheduleOption = None
    ) -> None:
        self._start = [int(arm) for arm in start]
        is_free = schedule is None and not rule.needs_fixed_blocks
        self._chooser, self._schedule = chooser, None if is_free else schedule_for(rule, schedule)
        self._least = least
        self._turn: int | None = 0  # position in the starting set; None once the chooser has taken over

    def open(self, context: SamplerContext) -> int:
        """Look at the results and return the length of the block."""
        if context.theta is None:
            if self._turn is None or not context.pending:
                self._turn = 0
            return len(self._start)
        self._turn = None
        self._chooser.look(context)
        if self._schedule is None:
            return self._least
        t = context.n_asked
        return max(self._schedule.next_after(t) - t, self._least)

    def next(self) -> int:
        """Return the next arm."""
        if self._turn is None:
            return self._chooser.choose()
        arm = self._start[self._turn % len(self._start)]
        self._turn += 1
        return arm
