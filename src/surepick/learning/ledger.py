"""The ledger: which asks are pending, which failed and are owed again, and what the open interval adds up to.

What belongs to an interval: its planned asks, and further asks made before any of its results is in (a batch larger
than planned). An ask that failed is made again, so an interval always ends with the arms it was planned with: whoever
gives up measurements because of other results gains nothing by it (docs/guarantee.md, "Failures"). Asks beyond the
interval, and unsolicited results, belong to nothing.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import final

from surepick.core.block import Block
from surepick.core.linalg import Array


@final
class _Interval:
    """Asks that belong together, and what their results add up to."""

    def __init__(self, block: Block, length: int) -> None:
        self.block = block
        self.left = length
        """Planned asks not yet made."""
        self.open = 0
        """Asks made and not told; a failed one is to be made again."""
        self.n_told = 0


@final
class Ledger:
    """Keeps the books of asks and answers; arms are numbers."""

    def __init__(self) -> None:
        self._interval: _Interval | None = None
        self._pending: dict[int, deque[_Interval | None]] = {}
        self._owed: deque[tuple[int, _Interval | None]] = deque()

    @property
    def pending(self) -> Counter[int]:
        """Asks per arm that are neither told nor failed."""
        return Counter({arm: len(asks) for arm, asks in self._pending.items()})

    @property
    def outstanding(self) -> Counter[int]:
        """The same, and the asks that failed and will be made again."""
        return self.pending + Counter(arm for arm, _ in self._owed)

    @property
    def is_settled(self) -> bool:
        """Whether every ask so far has been told."""
        return not (self._pending or self._owed)

    @property
    def n_planned(self) -> int:
        """Asks left in the open interval, failed ones included."""
        return len(self._owed) + (0 if self._interval is None else self._interval.left)

    @property
    def needs_interval(self) -> bool:
        """Whether the next ask would be the first of a new interval."""
        return self._interval is None and not self._owed

    def open(self, block: Block, length: int) -> None:
        """Begin an interval of so many asks."""
        self._interval = _Interval(block, length)

    def ask(self, draw: Callable[[], int]) -> int:
        """Note an ask and return its arm: one that failed, once the planned ones are made, or what `draw` gives."""
        interval = self._interval
        if self._owed and (interval is None or interval.left == 0):
            arm, belongs = self._owed.popleft()
        else:
            arm, belongs = draw(), None
            if interval is not None and interval.left > 0:
                interval.left -= 1
                belongs = interval
            elif interval is not None and interval.n_told == 0:
                belongs = interval  # no result is in yet, so the interval may still grow
            if belongs is not None:
                belongs.open += 1
        self._pending.setdefault(arm, deque()).append(belongs)
        return arm

    def is_pending(self, arm: int) -> bool:
        """Return whether the arm has an ask that could fail."""
        return arm in self._pending

    def is_wanted(self, arm: int) -> bool:
        """Return whether the arm has an ask that could be told: pending, or failed and not made again yet."""
        return arm in self._pending or any(owed == arm for owed, _ in self._owed)

    def tell(self, arm: int, x: Array, reward: float) -> Block | None:
        """Take in a result of an ask of the arm, if there is one; the block, if that completes it.

        Asks of the interval come first, those that failed and are not made again yet included: else giving asks up
        would decide, after a look at a result, whether the result gets bets.
        """
        asks, interval = self._pending.get(arm), None
        failed = next((ask for ask in self._owed if ask[0] == arm), None) if self._owed else None
        if failed is not None and not (asks and any(asks)):
            self._owed.remove(failed)
            interval = failed[1]
        elif asks is not None:
            interval = self._answered(arm)
        if interval is None:
            return None
        interval.n_told += 1
        interval.open -= 1
        interval.block.add(x, reward)
        if interval.left or interval.open:
            return None
        self._interval = None
        return interval.block

    def fail(self, arm: int) -> None:
        """Give up the oldest pending ask of an arm; it will be made again."""
        self._owed.append((arm, self._answered(arm)))

    def _answered(self, arm: int) -> _Interval | None:
        asks = self._pending[arm]
        place = next((place for place, ask in enumerate(asks) if ask is not None), 0)
        interval = asks[place]
        del asks[place]
        if not asks:
            del self._pending[arm]
        return interval
