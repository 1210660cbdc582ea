"""Items of a pool: each block is one item, asked of every arm that is not rejected, in random order."""

from collections import deque
from typing import final

import numpy as np

from surepick.arms.views import Task
from surepick.sampling.base import Sampler, SamplerContext


@final
class PoolSampler(Sampler):
    """One item after the other; the order of arms within an item follows from the seed and the number of the item."""

    def __init__(self, task: Task) -> None:
        assert task.pool is not None
        self._n_arms, self._n_items, self._seed = task.rows.n_arms, task.pool, task.seed
        self._n_opened = 0
        self._left: deque[int] = deque()

    @property
    def is_last(self) -> bool:
        """Whether the newest item is the last."""
        return self._n_opened >= self._n_items

    def open(self, context: SamplerContext) -> int:
        """Plan the next item and return the number of arms that it is asked of."""
        self._n_opened += 1
        arms = np.arange(self._n_arms) if context.alive is None else np.flatnonzero(context.alive)
        order = np.random.default_rng([self._seed, self._n_opened]).permutation(arms)
        self._left = deque(order.tolist())
        return len(self._left)

    def next(self) -> int:
        """Return the next arm of the item; beyond its end, the first again."""
        self._left.rotate(-1)
        return self._left[-1]


def item_order(n_items: int, seed: int) -> list[int]:
    """Return the items of a pool, 0, 1, ..., in the order in which they are asked."""
    order: list[int] = np.random.default_rng([seed, 0]).permutation(n_items).tolist()
    return order
