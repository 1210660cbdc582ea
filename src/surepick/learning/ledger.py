"""The ledger: asks and their answers, and the intervals they belong to.

An interval is a number of asks planned together. Several may be open at once: one that is fully asked but not fully
told does not keep the next from opening. They are settled in the order of their opening, each when all of its asks are
told. An ask that failed is made again under its own number, so an interval always ends with the arms it was planned
with: whoever gives up measurements because of other results gains nothing by it (docs/guarantee.md, "Failures").
Asks made while no interval could open, and unsolicited results, belong to none.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, final

from surepick.errors import InvalidInput


@final
@dataclass(slots=True, eq=False)
class Interval:
    """Asks that belong together; results by their place in it."""

    number: int
    """1, 2, ... in the order of opening."""
    length: int
    arms: list[int] = field(default_factory=list)
    rewards: dict[int, float | None] = field(default_factory=dict)
    """None: void."""
    is_check: bool = False
    """Whether it tests the model after the verdict."""
    is_cut: bool = False
    """Whether it ended before the end that was planned: then its length may depend on its own results, and no bet rests
    on it."""
    n_parts: int = 1
    """Its places are so many repetitions of one plan, one after the other."""

    @property
    def left(self) -> int:
        """Planned asks not yet made."""
        return self.length - len(self.arms)

    @property
    def pulls(self) -> tuple[list[int], list[float]]:
        """Arms and results of a complete interval in the order of its asks, without those that are void."""
        told = ((arm, self.rewards[place]) for place, arm in enumerate(self.arms))
        kept = [(arm, reward) for arm, reward in told if reward is not None]
        return [arm for arm, _ in kept], [reward for _, reward in kept]

    @property
    def repetitions(self) -> tuple[list[int], list[list[float]]]:
        """Arms of the plan of a complete interval, and the results of every repetition of which none is void."""
        n = self.length // self.n_parts
        told = ([self.rewards[start + place] for place in range(n)] for start in range(0, self.length, n))
        whole = [[reward for reward in part if reward is not None] for part in told]
        return self.arms[:n], [part for part in whole if len(part) == n]


@final
@dataclass(slots=True, eq=False)
class _Ask:
    number: int
    arm: int
    interval: Interval | None
    place: int = 0
    has_failed: bool = False


def _first(asks: Iterable[_Ask]) -> _Ask | None:
    """Return the oldest ask of an interval, else the oldest, None if there is none; asks come in order."""
    left = None
    for ask in asks:
        if ask.interval is not None:
            return ask
        left = left or ask
    return left


@final
class Ledger:
    """Keeps the books of asks and answers; arms are numbers.

    Args:
        opens_ahead: whether an interval may open before the results of earlier ones are all in.
    """

    def __init__(self, *, opens_ahead: bool) -> None:
        self.n_asked = 0
        """Asks so far, those made again counted once: the number of the next one."""
        self.n_opened = 0
        """Intervals opened so far."""
        self._opens_ahead = opens_ahead
        self._unsettled: deque[Interval] = deque()
        self._newest: Interval | None = None
        self._asks: dict[int, _Ask] = {}  # not told: pending, or failed
        self._of_arm: dict[int, list[_Ask]] = {}
        self._failed: deque[_Ask] = deque()

    @property
    def outstanding(self) -> Counter[int]:
        """Asks per arm that are not told: pending, or failed and to be made again."""
        return Counter({arm: len(asks) for arm, asks in self._of_arm.items()})

    @property
    def pending(self) -> Counter[int]:
        """Asks per arm that are neither told nor failed."""
        return self.outstanding - Counter(ask.arm for ask in self._failed)

    @property
    def is_settled(self) -> bool:
        """Whether every ask so far has been told."""
        return not self._asks

    @property
    def n_complete(self) -> int:
        """Asks before the first that is not told: all results up to there are in."""
        return next(iter(self._asks), self.n_asked)

    def arm_of(self, number: int) -> int | None:
        """Return the arm of an ask that is not told."""
        ask = self._asks.get(number)
        return None if ask is None else ask.arm

    def awaits(self, number: int) -> bool:
        """Whether an ask was made and is not told."""
        return number in self._asks

    @property
    def n_planned(self) -> int:
        """Asks left in the newest interval, failed ones included."""
        newest = self._newest
        return len(self._failed) + (0 if newest is None else newest.length - len(newest.arms))

    @property
    def needs_interval(self) -> bool:
        """Whether the next ask would be the first of a new interval."""
        return self.n_planned == 0 and (self._opens_ahead or not self._unsettled)

    @property
    def is_checking(self) -> bool:
        """Whether the newest interval is one of check pulls."""
        return self._newest is not None and self._newest.is_check

    def open(self, length: int, *, is_check: bool = False, n_parts: int = 1) -> None:
        """Begin an interval of so many asks, which are `n_parts` repetitions of one plan."""
        self.n_opened += 1
        self._newest = Interval(self.n_opened, length, is_check=is_check, n_parts=n_parts)
        self._unsettled.append(self._newest)

    def ask(self, draw: Callable[[], int]) -> tuple[int, int]:
        """Note an ask and return its number and arm: one that failed, once the planned ones are made, or `draw`'s."""
        newest, number = self._newest, self.n_asked
        if newest is not None and not newest.left:
            newest = None
        if newest is None and self._failed:
            ask = self._failed.popleft()
            ask.has_failed = False
            return ask.number, ask.arm
        arm = draw()
        if newest is None:
            ask = _Ask(number, arm, None)
        else:
            ask = _Ask(number, arm, newest, len(newest.arms))
            newest.arms.append(arm)
        self.n_asked += 1
        self._asks[number] = ask
        self._of_arm.setdefault(arm, []).append(ask)
        return number, arm

    def cut(self) -> None:
        """End the newest interval with the asks that were made of it."""
        if self._newest is not None and self._newest.left:
            self._newest.length, self._newest.is_cut = len(self._newest.arms), True

    def find(self, arm: int, number: int | Literal["none"] | None) -> int | None:
        """Return the number of the ask that a result of the arm answers; None if it is unsolicited.

        Args:
            arm: what was measured.
            number: of the ask, if it was named; "none" if it answers none.
        """
        if number == "none":
            return None
        if number is None:
            # Failed or not: else giving asks up would decide, after a look at a result, whether the result gets bets.
            oldest = _first(self._of_arm.get(arm, ()))
            return None if oldest is None else oldest.number
        ask = self._asks.get(number)
        if ask is None:
            has_been = "has its result already" if 0 <= number < self.n_asked else "was never made"
            raise InvalidInput(f"ask {number} {has_been}; tell a further measurement of an arm without naming an ask.")
        if ask.arm != arm:
            raise InvalidInput(f"ask {number} was of another arm; name the ask that this result belongs to.")
        return number

    def tell(self, number: int, reward: float | None, *, is_named: bool) -> bool:
        """Take in the result of an ask; whether it belongs to an interval.

        Args:
            number: of the ask.
            reward: the result; None if it is void.
            is_named: whether the caller named the ask. If not, and the ask had failed, the result came of an attempt
                that was still going on; the ask of that attempt is the one to be made again.
        """
        ask = self._asks.pop(number)
        asks = self._of_arm[ask.arm]
        asks.remove(ask)
        if not asks:
            del self._of_arm[ask.arm]
        if ask.has_failed:
            place = self._failed.index(ask)
            del self._failed[place]
            going_on = None if is_named else _first(other for other in asks if not other.has_failed)
            if going_on is not None:
                going_on.has_failed = True
                self._failed.insert(place, going_on)
        if ask.interval is None:
            return False
        ask.interval.rewards[ask.place] = reward
        return True

    @property
    def has_settled(self) -> bool:
        """Whether the oldest interval that is not settled is complete."""
        if not self._unsettled:
            return False
        oldest = self._unsettled[0]
        return len(oldest.rewards) == oldest.length

    def settled(self) -> Iterator[Interval]:
        """Yield intervals that are complete and were opened before all that are not, oldest first; each once."""
        while self.has_settled:
            yield self._unsettled.popleft()

    def fail(self, arm: int, number: int | None) -> bool:
        """Give up a pending ask, the oldest of the arm unless its number is named; it will be made again.

        Returns:
            Whether there was such an ask.
        """
        asks = self._of_arm.get(arm, ())
        given_up = _first(ask for ask in asks if not ask.has_failed and number in (None, ask.number))
        if given_up is None:
            return False
        given_up.has_failed = True
        self._failed.append(given_up)
        return True
