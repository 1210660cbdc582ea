"""Pairs: plans for groups of measurements that read high or low as a whole.

Notation: x_i, x_j two arms that are measured in the same group; their difference is free of the offset of the group,
with variance 2 sigma^2 for two pulls. So a pull of the pair has the information d d' of the row d = (x_i - x_j)/2.

A group that is filled with whole pairs measures everything that its pairs measure, whatever its size, and a little
more: the differences between pairs. Designs on pairs are therefore designs for groups of unknown, even sizes. With T*
for the rows d in the place of the arms, T*_2, groups of any even size need at most T*_2 (docs/guarantee.md, Theorem
42).
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import final

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task, whiten
from surepick.sampling.base import Apportions, Sampler, SamplerContext
from surepick.sampling.schedules import Schedule
from surepick.types import Array, IntArray

MOST_PAIRS = 20_000
"""Pairs of 200 arms. For more arms pulls follow the plan for single arms, and groups compare what they happen to
hold."""
# Rows that differ by less than this share of the largest difference are the same arm.
SAME = 1e-9
# Numbers of all candidates, which are copied.
COPIED = 10_000_000


@final
@dataclass(frozen=True)
class Pairs:
    """All pairs of different arms, as the arms of a task of their own."""

    task: Task
    """Its arms are pairs; the candidates are the same, in coordinates of the differences of arms."""
    arms: IntArray
    """Numbers (n, 2) of the two arms of each pair."""
    onto: Array
    """Maps theta in whitened coordinates of the arms to that of the pairs."""

    @classmethod
    def of(cls, task: Task) -> "Pairs | None":
        """Return the pairs of the arms of a task; None if there are too many, or arms are not in memory."""
        K, compared = task.rows.n_arms, task.rivals
        if K * (K - 1) // 2 > MOST_PAIRS or not compared.is_local or compared.n_arms * compared.dim > COPIED:
            return None
        X = task.rows.gather(range(K))
        basis = span_of_differences(X)
        listed = np.array(list(combinations(range(K), 2)))
        rows = 0.5 * (X[listed[:, 0]] - X[listed[:, 1]]) @ basis
        size = np.abs(rows).max(axis=1)
        is_pair = size > SAME * size.max()
        pairs, rows = listed[is_pair], rows[is_pair]
        view = whiten(FiniteArms(rows))
        candidates = FiniteArms.rows_only(compared.gather(range(compared.n_arms)) @ basis, argument="candidates")
        costs = None if task.costs is None else task.costs[pairs].mean(axis=1)
        made = replace(task, arms=view, candidates=view.view_of(candidates), costs=costs, reward_range=None)
        return cls(made, pairs, view.back @ basis.T)


def span_of_differences(X: Array) -> Array:
    """Return an orthonormal basis (d, r) of the span of the differences of rows (K, d)."""
    _, singular, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    basis: Array = axes[singular > SAME * singular[0]].T
    return basis


@final
@dataclass(frozen=True, slots=True)
class InPairs:
    """A schedule of pulls, counted in pairs."""

    schedule: Schedule

    def next_after(self, t: int) -> int:
        """Return the first scheduled number of pairs after t."""
        return max(t + 1, math.ceil(self.schedule.next_after(2 * t) / 2))


@final
class PairSampler(Sampler):
    """A sampler that measures arms in pairs, one after the other; blocks are of whole pairs.

    Args:
        sampler: chooses pairs.
        pairs: the pairs.
    """

    def __init__(self, sampler: Sampler, pairs: Pairs) -> None:
        self._sampler, self._pairs = sampler, pairs
        self._left: deque[int] = deque()
        self._is_turned = False

    def open(self, context: SamplerContext) -> int:
        """Plan a block of whole pairs."""
        self._left.clear()
        theta = None if context.theta is None else self._pairs.onto @ context.theta
        seen = replace(context, theta=theta, n_pulls=context.n_pulls // 2, n_asked=context.n_asked // 2)
        return 2 * self._sampler.open(seen)

    def next(self) -> int:
        """Return the other arm of a pair that was begun, or the first one of the next pair."""
        if not self._left:
            pair = self._pairs.arms[self._sampler.next()].tolist()
            # In turn the one and the other first: a drift within a group is then not one between two arms.
            self._left.extend(reversed(pair) if self._is_turned else pair)
            self._is_turned = not self._is_turned
        return self._left.popleft()

    def pulls_per_nat(self) -> float:
        """Return the pulls per nat of evidence, of pairs in groups of two: larger groups need fewer."""
        return self._sampler.pulls_per_nat()

    def planned(self) -> Mapping[int, float]:
        """Return the sum of the designs so far, as pulls per arm."""
        total: dict[int, float] = {}
        for pair, share in (self._sampler.planned() if isinstance(self._sampler, Apportions) else {}).items():
            for arm in self._pairs.arms[pair].tolist():
                total[arm] = total.get(arm, 0.0) + share
        return total
