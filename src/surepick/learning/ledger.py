"""The books of asks and answers: blocks of asks that are planned together, and the results at their places.

Several blocks may be open at once: one that is fully asked but not fully told does not keep the next from opening.
Blocks are settled in the order of their opening, each when all of its asks are told. An ask that failed is made again
under its own number, so a block always ends with the arms it was planned with: giving up measurements because of other
results gains nothing (docs/guarantee.md, "Failures"). Asks made while no block could open, and unsolicited results,
belong to no block.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, final

from surepick.errors import InvalidInput
from surepick.learning.groups import ITEM, GroupLabel, check_fixed, label_text
from surepick.types import AskNumber, ResultNumber


@final
@dataclass(slots=True, eq=False)
class PlannedBlock:
    """Asks that belong together; results by their place in it."""

    number: int
    """1, 2, ... in the order of opening."""
    length: int
    arms: list[int] = field(default_factory=list)
    results: dict[int, ResultNumber] = field(default_factory=dict)
    """Number of the result at every place that has one."""
    is_check: bool = False
    """Whether it tests the model after the verdict."""
    is_cut: bool = False
    """Whether it ended before the end that was planned: then its length may depend on its own results, and no bet rests
    on it."""
    n_parts: int = 1
    """Repetitions of one plan that its places are, one after the other."""

    @property
    def left(self) -> int:
        """Planned asks not yet made."""
        return self.length - len(self.arms)

    def pulls(self, values: Sequence[float | None]) -> tuple[list[int], list[float]]:
        """Return arms and rewards of a complete block in the order of its asks, without those that are void."""
        told = ((arm, values[self.results[place]]) for place, arm in enumerate(self.arms))
        kept = [(arm, reward) for arm, reward in told if reward is not None]
        return [arm for arm, _ in kept], [reward for _, reward in kept]

    def labels(self, values: Sequence[float | None], labels: Mapping[ResultNumber, GroupLabel]) -> list[GroupLabel]:
        """Return the label of every result that `pulls` returns; `labels` has those that are not empty."""
        numbers = (self.results[place] for place in range(self.length))
        return [labels.get(number, ()) for number in numbers if values[number] is not None]

    def repetitions(self, values: Sequence[float | None]) -> tuple[list[int], list[list[float]]]:
        """Return the arms of a complete block's plan, and the rewards of every repetition of which none is void.

        Every repetition has the arms of the plan, each in an order of its own; rewards are in the order of the arms.
        """
        n, arms = self.length // self.n_parts, self.arms
        parts: list[Sequence[int]] = [range(start, start + n) for start in range(0, self.length, n)]
        if arms != arms[:n] * self.n_parts:
            parts = [sorted(places, key=arms.__getitem__) for places in parts]
        told = ([values[self.results[place]] for place in places] for places in parts)
        whole = [[reward for reward in part if reward is not None] for part in told]
        return [arms[place] for place in parts[0]], [part for part in whole if len(part) == n]


@final
@dataclass(slots=True, eq=False)
class _Ask:
    number: AskNumber
    arm: int
    block: PlannedBlock | None
    place: int = 0
    has_failed: bool = False
    group: GroupLabel = ()
    """Label of the last attempt."""
    before: tuple[GroupLabel, ...] = ()
    """Labels of earlier attempts, whose results may still come."""

    def was_before(self, group: GroupLabel) -> bool:
        """Whether a result that was told with this label can be of an attempt before the last one."""
        return any(label in ((), group) for label in self.before)


def _first(asks: Iterable[_Ask]) -> _Ask | None:
    """Return the oldest ask of a block, else the oldest, None if there is none; asks come in order."""
    left = None
    for ask in asks:
        if ask.block is not None:
            return ask
        left = left or ask
    return left


@final
class Ledger:
    """Keeps the books of asks and answers; arms are numbers.

    Args:
        opens_ahead: whether a block may open before the results of earlier ones are all in.
        item_labels: the item of each block in a pool, which its asks have in their labels.
    """

    def __init__(self, *, opens_ahead: bool, item_labels: Sequence[GroupLabel] = ()) -> None:
        self.n_asked = 0
        """Asks so far, which is the number of the next new ask; a repeated ask counts once."""
        self.n_opened = 0
        """Blocks opened so far."""
        self._item_labels = item_labels
        self.has_labels = bool(item_labels)
        """Whether an ask was ever made with a label."""
        self._opens_ahead = opens_ahead
        self._unsettled: deque[PlannedBlock] = deque()
        self._newest: PlannedBlock | None = None
        self._asks: dict[AskNumber, _Ask] = {}  # not told: pending, or failed
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
    def n_unfinished(self) -> int:
        """Results still missing in blocks that have begun: up to the last unsettled one with a result or an open ask.

        An open ask may have its result, which is not told yet.
        """
        n = n_missing = 0
        is_open = {ask.block for ask in self._asks.values() if not ask.has_failed}
        for block in self._unsettled:
            n_missing += block.length - len(block.results)
            n = n_missing if block.results or block in is_open else n
        return n

    @property
    def blocking(self) -> list[AskNumber]:
        """Asks of the oldest unsettled block, pending or failed, if a later block has results: these wait for them."""
        if not any(block.results for block in islice(self._unsettled, 1, None)):
            return []
        oldest = self._unsettled[0]
        return [ask.number for ask in self._asks.values() if ask.block is oldest]

    @property
    def n_waiting(self) -> int:
        """Results in blocks behind the oldest unsettled one: they enter the proof once that block is complete."""
        return sum(len(block.results) for block in islice(self._unsettled, 1, None))

    @property
    def has_begun(self) -> bool:
        """Whether a block that is not settled has a result."""
        return any(block.results for block in self._unsettled)

    @property
    def n_complete(self) -> int:
        """Asks before the first that is not told: all results up to there are in."""
        return next(iter(self._asks), self.n_asked)

    def arm_of(self, number: AskNumber) -> int | None:
        """Return the arm of an ask that is not told."""
        ask = self._asks.get(number)
        return None if ask is None else ask.arm

    def awaits(self, number: AskNumber) -> bool:
        """Whether an ask was made and is not told."""
        return number in self._asks

    @property
    def n_planned(self) -> int:
        """Asks left in the newest block, failed ones included."""
        newest = self._newest
        return len(self._failed) + (0 if newest is None else newest.length - len(newest.arms))

    @property
    def n_left(self) -> int:
        """Asks left in the newest block, without failed ones."""
        return 0 if self._newest is None else self._newest.left

    def failed(self, n: int) -> list[tuple[AskNumber, int]]:
        """Return number and arm of the first n asks that are to be made again."""
        return [(ask.number, ask.arm) for ask in islice(self._failed, n)]

    @property
    def needs_block(self) -> bool:
        """Whether the next ask would be the first of a new block."""
        return self.n_planned == 0 and (self._opens_ahead or not self._unsettled)

    @property
    def is_checking(self) -> bool:
        """Whether the newest block is one of check pulls."""
        return self._newest is not None and self._newest.is_check

    @property
    def n_of_check(self) -> tuple[int, int, int]:
        """Asks made, results told, and length of the newest block if it is one of check pulls; else zeros."""
        newest = self._newest
        if newest is None or not newest.is_check:
            return 0, 0, 0
        return len(newest.arms), len(newest.results), newest.length

    def open(self, length: int, *, is_check: bool = False, n_parts: int = 1) -> None:
        """Begin a block of `length` asks, which are `n_parts` repetitions of one plan."""
        self.n_opened += 1
        self._newest = PlannedBlock(self.n_opened, length, is_check=is_check, n_parts=n_parts)
        self._unsettled.append(self._newest)

    def ask(self, draw: Callable[[], int], group: GroupLabel = ()) -> tuple[AskNumber, int]:
        """Note an ask and return its number and arm: one that failed, once the planned ones are made, or `draw`'s.

        An ask that is made again has the label of its last attempt.
        """
        newest, number = self._newest, AskNumber(self.n_asked)
        if group:
            self.has_labels = True
        if newest is not None and len(newest.arms) == newest.length:
            newest = None
        if newest is None and self._failed:
            ask = self._failed.popleft()
            ask.has_failed, ask.before, ask.group = False, (ask.group, *ask.before), self._with_item(ask.block, group)
            return ask.number, ask.arm
        arm = draw()
        if newest is None:
            ask = _Ask(number, arm, None, group=group)
        else:
            label = self._with_item(newest, group) if self._item_labels else group
            ask = _Ask(number, arm, newest, len(newest.arms), group=label)
            newest.arms.append(arm)
        self.n_asked += 1
        self._asks[number] = ask
        if (asks := self._of_arm.get(arm)) is None:
            asks = self._of_arm[arm] = []
        asks.append(ask)
        return number, arm

    def _with_item(self, block: PlannedBlock | None, group: GroupLabel) -> GroupLabel:
        """Return the label of an ask of a block: in a pool with the item."""
        if not self._item_labels or block is None:
            return group
        if any(factor == ITEM for factor, _ in group):
            raise InvalidInput(
                f"the items of a pool are asked in random order, got {label_text(group)!r}; leave the item out."
            )
        return tuple(sorted((*group, *self._item_labels[block.number - 1])))

    def asked_label(self, number: AskNumber) -> GroupLabel:
        """Return the label of an ask that is not told."""
        return self._asks[number].group

    def cut(self) -> None:
        """End the newest block with the asks that were made of it."""
        if self._newest is not None and self._newest.left:
            self._newest.length, self._newest.is_cut = len(self._newest.arms), True

    def find(self, arm: int, number: int | Literal["none"] | None, group: GroupLabel = ()) -> AskNumber | None:
        """Return the number of the ask that a result of the arm answers; None if it is unsolicited.

        Args:
            arm: what was measured.
            number: of the ask, if it was named; "none" if it answers none.
            group: label of the result; an ask that is not named has the same label, or none.
        """
        if number == "none":
            return None
        if number is None:
            # Failed or not: else giving asks up would decide, after a look at a result, whether the result gets bets.
            asks = self._of_arm.get(arm, ())
            if group and self._item_labels:
                oldest = _first(ask for ask in asks if {*group} <= {*ask.group}) or _first(asks)
            else:
                alike = (ask for ask in asks if ask.group in ((), group) or ask.was_before(group))
                oldest = _first(alike) if group else _first(asks)
            if oldest is None and asks:
                others = ", ".join(sorted({repr(label_text(ask.group)) for ask in asks}))
                raise InvalidInput(
                    f"the arm was asked for the group {others}, and its result must be told with that group or with "
                    f'none, got {label_text(group)!r}; tell a further measurement with ask="none".'
                )
            return None if oldest is None else oldest.number
        ask = self._asks.get(AskNumber(number))
        if ask is None:
            has_been = "has its result already" if 0 <= number < self.n_asked else "was never made"
            raise InvalidInput(f"ask {number} {has_been}; tell a further measurement of an arm without naming an ask.")
        if ask.arm != arm:
            raise InvalidInput(f"ask {number} was of another arm; name the ask that this result belongs to.")
        return ask.number

    def label_of(self, number: AskNumber, told: GroupLabel) -> GroupLabel:
        """Return the label of the result of an ask: that of the ask, or the one that was told.

        A result of an earlier attempt, told with the label of that attempt, was measured there.
        """
        asked = self._asks[number].group
        if told and self._asks[number].was_before(told):
            return told
        if self._item_labels:  # a label beside that of the item
            both = {**dict(asked), **dict(told)}
            told = tuple(sorted(both.items())) if {*asked} <= {*both.items()} else told
            return told if {*asked} <= {*told} else check_fixed(f"ask {number}", asked, told)
        return check_fixed(f"ask {number}", asked, told) if told else asked

    def tell(self, number: AskNumber, result: ResultNumber, *, is_named: bool) -> bool:
        """Take in the result of an ask; return whether the ask belongs to a block.

        Args:
            number: of the ask.
            result: its number.
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
        if ask.block is None:
            return False
        ask.block.results[ask.place] = result
        return True

    @property
    def has_settled(self) -> bool:
        """Whether the oldest block that is not settled is complete."""
        if not self._unsettled:
            return False
        oldest = self._unsettled[0]
        return len(oldest.results) == oldest.length

    def settled(self) -> Iterator[PlannedBlock]:
        """Yield blocks that are complete and were opened before all that are not, oldest first; each once."""
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
