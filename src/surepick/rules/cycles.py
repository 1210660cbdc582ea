"""Fixed designs on sets of vectors: whole rounds, one interval each.

An ask that failed is made up for before the next round, so that the information stays that of whole rounds. Which asks
fail may not depend on rewards, hence neither do the arms: the design stays fixed in advance.
"""

import math
from collections import Counter, deque
from typing import final

from surepick.core.numbered import NumberedVectors
from surepick.rules.parts import Situation


@final
class RoundSampler:
    """Plays one round of the set's design after the other."""

    def __init__(self, arms: NumberedVectors) -> None:
        self._arms = arms
        self._n_rounds = 0
        self._planned: Counter[int] = Counter()
        self._queue: deque[int] = deque()

    def open(self, situation: Situation) -> int:
        """Plan what failed, or else the next round."""
        done = Counter(situation.estimate.counts) + Counter(situation.pending)
        lost = self._planned - done - Counter(self._queue)
        if lost:
            # In the order in which they were first planned, not by number: numbers depend on who was named best.
            self._queue.extend(lost.elements())
        elif not self._queue:
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
        arms = self._arms.round(self._n_rounds)
        self._n_rounds += 1
        self._queue.extend(arms)
        self._planned.update(arms)
