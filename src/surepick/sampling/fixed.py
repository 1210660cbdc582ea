"""Pulls that depend on no reward: one fixed design, followed for ever, the rule proved for such pulls, and rounds.

Notation: A (d, d) information of the pulls so far; Y (m, d) the directions an allocation is to resolve; q_y = y'A^-1 y;
h_a = x_a'A^-1 x_a; N_a pulls of arm a.

The sequence of arms is the same whatever the results are and however many arms are asked for at once.
"""

import math
from collections import deque
from collections.abc import Sequence
from itertools import combinations
from typing import Protocol, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.numbered import NumberedVectors
from surepick.arms.views import Task
from surepick.core.linalg import cholesky, solve_cholesky
from surepick.core.thresholds import UnionThreshold
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.schedules import ScheduleOption, schedule_for
from surepick.stopping.base import Rule
from surepick.stopping.glr import GLR
from surepick.types import Array, IntArray

LARGEST_TABLE = 200_000
"""Up to so many pairs (arm, direction) the greedy allocation is used; above, the certified design is tracked."""

# Values closer than this, relatively, are a tie: rounding must not decide between arms.
TIE = 1e-9
# The inverse is computed afresh after so many rank-one updates.
REFRESH = 256


class Source(Protocol):
    """An endless sequence of arms."""

    def note(self, arm: int) -> None:
        """Take in a pull of the starting set."""
        ...

    def next(self) -> int:
        """Return the next arm."""
        ...


@final
class FixedSampler(Sampler):
    """The sampler made of a starting set and a source; intervals by schedule, which change no arm.

    Args:
        start: arms pulled first; pulled again while the results do not span. Empty if the source needs none.
        source: gives every later arm.
        rule: the stopping rule, which may need intervals of some length.
        schedule: when intervals end, for rules that decide then; None for the usual one.
        least: pulls an interval must have.
        pulls_per_nat: what a unit of evidence costs with this design, if known.
    """

    def __init__(
        self,
        start: Sequence[int] | IntArray,
        source: Source,
        *,
        rule: Rule,
        least: int,
        schedule: ScheduleOption = None,
        pulls_per_nat: float = math.inf,
    ) -> None:
        self._start = [int(arm) for arm in start]
        self._source = source
        self._schedule = schedule_for(rule, schedule)
        self._least, self._pulls_per_nat = least, pulls_per_nat
        self._turn = 0

    def open(self, context: SamplerContext) -> int:
        """Return the length of the interval; rewards are not looked at."""
        if context.theta is None and self._start and not context.pending:
            self._turn = 0
            return len(self._start)
        t = context.n_asked
        return max(self._schedule.next_after(t) - t, self._least)

    def next(self) -> int:
        """Return the next arm."""
        if self._turn == len(self._start):
            return self._source.next()
        arm = self._start[self._turn]
        self._turn += 1
        self._source.note(arm)
        return arm

    def pulls_per_nat(self) -> float:
        """Return what the design was said to cost."""
        return self._pulls_per_nat


@final
class Drawn:
    """Independent draws from a design: its support and weights."""

    def __init__(self, support: IntArray, weights: Array, rng: np.random.Generator) -> None:
        self._support, self._rng = support, rng
        self._cumulative = np.cumsum(weights)

    def note(self, arm: int) -> None:
        """Draws remember nothing."""

    def next(self) -> int:
        """Return a draw."""
        place = np.searchsorted(self._cumulative, self._rng.random() * self._cumulative[-1], side="right")
        return int(self._support[min(int(place), len(self._support) - 1)])


@final
class InTurn:
    """Every arm in turn, in the order of row numbers."""

    def __init__(self, n_arms: int) -> None:
        self._n_arms, self._turn = n_arms, 0

    def note(self, arm: int) -> None:
        """The turn does not change."""

    def next(self) -> int:
        """Return the next arm."""
        arm = self._turn
        self._turn = (self._turn + 1) % self._n_arms
        return arm


@final
class GreedyAllocation:
    """The incremental allocation of Soare, Lazaric and Munos (2014): argmin over a of max over y after a pull of a.

    By the Sherman-Morrison formula q_y becomes q_y - (x_a'A^-1 y)^2 / (1 + h_a), which is at least q_y / (1 + h_a). So
    only directions with q_y >= max q / (1 + max h) can be the largest afterwards; soon they are few, and the others
    cost O(m d) per pull.

    Ties, which the paper breaks at random, go to the arm pulled least so far, then to the lowest row number. Row
    numbers alone would get stuck: on the unit basis no single pull lowers the maximum, so all arms tie for ever.
    """

    def __init__(self, rows: Array, directions: Array) -> None:
        self._rows, self._directions = rows, directions
        self.counts = np.zeros(len(rows))
        self._A = np.zeros((rows.shape[1], rows.shape[1]))
        self._A_inv = self._A
        self._q = self._h = np.empty(0)
        self._age = REFRESH

    def note(self, arm: int) -> None:
        """Take in a pull of the starting set."""
        x = self._rows[arm]
        self._A += x[:, None] * x
        self.counts[arm] += 1.0
        self._age = REFRESH

    def largest(self) -> float:
        """Return max over y of q_y."""
        if self._age >= REFRESH:
            self._refresh()
        return float(self._q.max())

    def next(self) -> int:
        """Return the arm after which the worst direction is known best."""
        worst = self._worst_after()
        ties = np.flatnonzero(worst <= (1.0 + TIE) * worst.min())
        arm = int(ties[np.argmin(self.counts[ties])])
        x = self._rows[arm]
        u = self._A_inv @ x
        scale = 1.0 + self._h[arm]
        self._q -= (self._directions @ u) ** 2 / scale
        self._h -= (self._rows @ u) ** 2 / scale
        self._A_inv -= u[:, None] * (u / scale)
        self._A += x[:, None] * x
        self.counts[arm] += 1.0
        self._age += 1
        return arm

    def _worst_after(self) -> Array:
        """Return max over y of q_y after one more pull of each arm (K,)."""
        largest, q, h = self.largest(), self._q, self._h
        kept = np.flatnonzero(q >= (1.0 - TIE) * largest / (1.0 + h.max()))
        along = self._rows @ (self._A_inv @ self._directions[kept].T)
        worst: Array = (q[kept] - along * along / (1.0 + h)[:, None]).max(axis=1)
        return worst

    def _refresh(self) -> None:
        self._A_inv = solve_cholesky(cholesky(self._A), np.eye(len(self._A)))
        self._q = np.einsum("ij,ij->i", self._directions @ self._A_inv, self._directions)
        self._h = np.einsum("ij,ij->i", self._rows @ self._A_inv, self._rows)
        self._age = 0


def differences(candidates: ArmSet) -> Array:
    """Return all differences of two candidates (m, d), one of y and -y; copies give none. For moderate sets only."""
    rows = candidates.gather([i for i in range(candidates.n_arms) if candidates.copies(i)[0] == i])
    pairs = np.array(list(combinations(range(len(rows)), 2)))
    found: Array = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    return found


def union_rule(task: Task, *, elimination: bool) -> GLR:
    """Return the stopping rule of Soare, Lazaric and Munos (2014): c = 2 sqrt(2) noise_std, c' = 6/pi^2.

    Stop at n when theta'y >= c |y|_{A^-1} sqrt(log(c' n^2 K^2 / delta)) for all y = leader - z, K the number of
    candidates. Since the statistic is (theta'y)^2 / (2 |y|^2), the threshold is c^2/2 = 4 noise_std^2 times the log.

    The union bound asks for c' = pi^2/6, not 6/pi^2; the rule is valid as printed because c is twice what a
    sub-Gaussian tail needs. A pair at time n fails with probability (delta / (c' n^2 K^2))^4, a wrong answer needs one
    of the K - 1 pairs with the best candidate to fail, and these sum to less than 0.03 delta^4.

    Proved for pulls that depend on no reward, hence for the samplers here. Unsolicited results, as in a `history`
    of other origin, may have arms chosen from rewards: from the first of them on the learner says "none".
    """
    threshold = UnionThreshold(
        name="static-union", n_tests=task.candidates.n_arms**2, scale=4.0, factor=6.0 / math.pi**2
    )
    return GLR(threshold=threshold, elimination=elimination, for_fixed_design=True)


@final
class RoundSampler(Sampler):
    """Plays one round of the set's design after the other."""

    def __init__(self, arms: NumberedVectors) -> None:
        self._arms = arms
        self._n_rounds = 0
        self._queue: deque[int] = deque()

    def open(self, context: SamplerContext) -> int:
        """Plan the next round, or what is left of one that was begun ahead of time."""
        if not self._queue:
            self._plan_round()
        return len(self._queue)

    def next(self) -> int:
        """Return the next arm."""
        if not self._queue:
            self._plan_round()
        return self._queue.popleft()

    def _plan_round(self) -> None:
        self._queue.extend(self._arms.round(self._n_rounds))
        self._n_rounds += 1
