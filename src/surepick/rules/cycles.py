"""Fixed designs on sets of vectors: whole rounds, one interval each."""

import math
from collections import deque
from typing import final

from surepick.arms.numbered import NumberedVectors
from surepick.rules.parts import Situation


@final
class RoundSampler:
    """Plays one round of the set's design after the other."""

    def __init__(self, arms: NumberedVectors) -> None:
        self._arms = arms
        self._n_rounds = 0
        self._queue: deque[int] = deque()

    def open(self, situation: Situation) -> int:
        """Plan the next round, or what is left of one that was begun ahead of time."""
        if not self._queue:
            self._plan_round()
        return len(self._queue)

    def next(self) -> int:
        """Return the next arm."""
        if not self._queue:
            self._plan_round()
        return self._queue.popleft()

    def pulls_per_nat(self) -> float:
        """Return infinity: how fast evidence grows is read off the results."""
        return math.inf

    def _plan_round(self) -> None:
        self._queue.extend(self._arms.round(self._n_rounds))
        self._n_rounds += 1
