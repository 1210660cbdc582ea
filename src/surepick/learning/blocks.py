"""Blocks: asks that are planned together, their answers, and the sampler that plans them.

`Ledger` keeps the books. Several blocks may be open at once: one that is fully asked but not fully told does not keep
the next from opening. Blocks are settled in the order of their opening, each when all of its asks are told. An ask that
failed is made again under its own number, so a block always ends with the arms it was planned with: giving up
measurements because of other results gains nothing (docs/guarantee.md, "Failures"). Asks made while no block could
open, and unsolicited results, belong to no block.

`Plans` says which arms a block has, from the sampler and within the budget. The arms are fixed when the block opens.
They are drawn one by one as they are asked for, or all at once for a log or to be asked in random order. A plan from a
log is followed: the sampler is told of it when the next plan must be made.
"""

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.views import Task
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.groups import ITEM, GroupLabel, check_fixed, label_text
from surepick.sampling.base import Apportions, Follows, Sampler, SamplerContext, SubBlocks, checked_arm, opened
from surepick.sampling.pool import PoolSampler
from surepick.stopping.base import Rule, Start
from surepick.types import Array, AskNumber, ResultNumber


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
        if newest is not None and not newest.left:
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


LONGEST = 1_000_000
"""Most asks of a block whose arms are all drawn when it opens."""


def shuffled(arms: Sequence[int], seed: int, first: int, n_parts: int = 1, *, in_pairs: bool = False) -> list[int]:
    """Return the arms of a block in random order; those of each of `n_parts` repetitions by themselves.

    `in_pairs` keeps the two arms of a pair together, in random order: a group measures whole pairs.

    The order depends on the seed and on the number of the block's first ask, both of which are in the log. It sorts raw
    random numbers, of which numpy never changes the stream, unlike that of its permutations.
    """
    if not arms:
        return []
    keys = np.random.PCG64([seed, first]).random_raw(len(arms)).reshape(n_parts, -1)
    if in_pairs:
        drawn = keys.ravel().tolist()
        pairs = [
            sorted(range(start, min(start + 2, len(arms))), key=drawn.__getitem__) for start in range(0, len(arms), 2)
        ]
        return [arms[place] for pair in sorted(pairs, key=lambda pair: drawn[pair[0]]) for place in pair]
    order = np.argsort(keys, axis=1, kind="stable")
    if n_parts > 1:
        order += np.arange(0, len(arms), keys.shape[1])[:, None]
    return [arms[place] for place in order.ravel().tolist()]


class Plan(NamedTuple):
    """The asks of one block."""

    first: int
    """Number of its first ask."""
    length: int
    arms: tuple[int, ...] = ()
    """By number, in order, if they were drawn at once."""
    n_parts: int = 1
    """Repetitions of one plan that its arms are, one after the other."""
    is_last: bool = False
    """Whether the budget ends with it; it may be empty then."""

    @property
    def is_repeated(self) -> bool:
        """Whether its arms are `n_parts` times the same ones, each repetition in an order of its own."""
        n, odd = divmod(len(self.arms), max(self.n_parts, 1))
        parts = [sorted(self.arms[start : start + n]) for start in range(0, len(self.arms), max(n, 1))]
        return not odd and all(part == parts[0] for part in parts)


@final
@dataclass(slots=True, eq=False)
class Followed:
    """A plan that was made elsewhere: by another process, or before the log was loaded."""

    plan: Plan
    n_told: int
    """Results told before it was made."""
    pending: Counter[int]
    """Asks per arm that had no result."""
    values: list[float | None]
    """Values of the results at the time; None: void."""
    start: Start | None = None
    """The evidence that the rule started from at the time, see `learning.state`."""
    context: SamplerContext | None = None
    """The state that its sampler saw; None: not worked out yet."""


@final
class Plans:
    """The sampler, the plans that it does not know yet, and the rest of the newest block.

    Args:
        sampler: chooses arms.
        task: what the algorithm is composed for.
        rule: says how short a block may be.
        costs: cost of a pull of each arm (K,); None: 1.
        budget: most that all asks together may cost; None: no limit.
        shuffles: whether the arms of a block that bets rest on are asked in random order, unless it is longer than
            `LONGEST`.
    """

    def __init__(
        self,
        sampler: Sampler,
        task: Task,
        rule: Rule,
        costs: Array | None,
        budget: float | None,
        *,
        shuffles: bool = False,
    ) -> None:
        self._sampler = sampler
        # What it can do is asked once: a check against a protocol takes as long as a quarter of a pull.
        self._apportions = sampler if isinstance(sampler, Apportions) else None
        self._pool = sampler if isinstance(sampler, PoolSampler) else None
        self._sub_blocks = sampler if isinstance(sampler, SubBlocks) else None
        self._seed, self._shuffles, self._needs_order = task.seed, shuffles, task.needs_order
        self.work_out: Callable[[Iterable[Followed]], None]
        """Gives plans that were followed their contexts."""
        self._behind: list[Followed | None] = []  # plans unknown to the sampler; None: an arm beyond a block
        self.proposed: Plan | None = None
        """A plan that the sampler has made and that is not adopted yet."""
        self.is_proposing = False
        """Whether the sampler is ahead of the books by a proposal."""
        self.has_ended = False
        """Whether the last block that the budget allows is planned."""
        self.differs = False
        """Whether the last plan that was checked is another than the own one."""
        self.order: Literal["drawn", "other", "unknown"] = "drawn"
        """Whether the last plan that was checked has the random order that a proof needs; unknown beside other arms."""
        self._costs, self._budget, self._least = costs, budget, rule.min_block(task)
        self._batch = task.batch
        self._n_arms = task.rows.n_arms if isinstance(task.arms, ArmSet) else sys.maxsize  # vectors get numbers later
        self._has_offsets = task.groups == "offset"
        self._spent = 0.0  # cost of all asks so far
        self._left: deque[int] = deque()
        # Pulls when the last two blocks opened, and how the designs before wanted them apportioned.
        self._wanted: deque[tuple[int, Mapping[int, float]]] = deque(maxlen=2)

    def propose(self, context: SamplerContext, first: int, *, draws: bool, ends: tuple[int, int] | None = None) -> Plan:
        """Plan the next block, and draw all its arms if that is wanted or there is a budget.

        Args:
            context: what the sampler may see.
            first: number of its first ask.
            draws: whether to draw all arms.
            ends: how many asks the present group has left, and how many a group has, if blocks end with groups: the
                block then compares whole groups.
        """
        self.is_proposing = True
        length, arms, is_last = self._look(context), list[int](), False
        if ends is not None and self._has_offsets and self._batch is None:
            left, size = ends
            length = left + max(0, math.ceil((length - left) / size)) * size
        if self._pool is not None:
            arms = [self._draw() for _ in range(length)]
            price, is_last = sum(map(self.cost_of, arms)), self._pool.is_last
            if self._budget is not None and price > self._budget - self._spent:  # part of an item is no use
                length, arms, is_last = 0, [], True
        elif self._budget is not None:
            arms, is_last = self._within_budget(length, self._budget - self._spent)
            length = len(arms)
        elif draws or self._needs_order or (self._is_shuffled(context) and length <= LONGEST):
            if length > LONGEST:
                raise InvalidInput(
                    f"a block that is written down, or must be in random order, can have {LONGEST:,} asks, got "
                    f"{length:,}; use another algorithm, or a schedule with shorter blocks."
                )
            arms = [self._draw() for _ in range(length)]
        n_parts = 1 if self._sub_blocks is None else self._sub_blocks.n_parts
        if self._is_shuffled(context):
            arms = shuffled(arms, self._seed, first, n_parts, in_pairs=self._has_offsets)
        self.proposed = Plan(first, length, tuple(arms), n_parts, is_last)
        return self.proposed

    def _is_shuffled(self, context: SamplerContext) -> bool:
        """Whether the arms of a block are asked in random order.

        Not before the first estimate, unless the proof needs the order: no bet rests on such a block, and arms that
        span come first.
        """
        return self._shuffles and (context.theta is not None or self._needs_order)

    @one_blas_thread
    def follow(self, followed: Followed, *, checks: bool, catches_up: bool) -> None:
        """Take note of a plan that was made elsewhere.

        Args:
            followed: the plan. A sampler solves a design at every opening: it is told of the plan when the next plan
                must be made, and not before.
            checks: whether to find out if the sampler would have made the same plan.
            catches_up: whether the sampler is told of it at once.
        """
        plan = followed.plan
        if checks:
            assert followed.context is not None
            length, own = self._look(followed.context), [self._draw() for _ in plan.arms]
            if self._is_shuffled(followed.context):
                own = shuffled(own, self._seed, plan.first, plan.n_parts, in_pairs=self._has_offsets)
            # A budget cuts blocks short, or lengthens the last. Groups lengthen any.
            has_own_length = self._budget is None and not self._has_offsets
            self.differs = tuple(own) != plan.arms or (has_own_length and length != plan.length)
            if self._needs_order and tuple(own) != plan.arms:
                self.order = "other" if Counter(own) == Counter(plan.arms) else "unknown"
            else:
                self.order = "drawn"
            return
        self._behind.append(followed)
        if catches_up:
            self.catch_up()

    def adopt(self, plan: Plan) -> None:
        """Begin a block by a plan."""
        self.proposed, self.is_proposing, self.has_ended = None, False, plan.is_last
        if plan.length:
            self._left = deque(plan.arms)

    @property
    def sampler(self) -> Sampler:
        """The sampler, which knows all plans so far."""
        if self._behind:
            self.catch_up()
        return self._sampler

    @one_blas_thread
    def catch_up(self) -> None:
        """Let the sampler know the plans that were followed."""
        if not self._behind:
            return
        self.work_out([one for one in self._behind if one is not None])
        behind, self._behind = self._behind, []
        for one in behind:
            if one is None:
                self._sampler.next()
                continue
            assert one.context is not None
            self._look(one.context)
            if isinstance(self._sampler, Follows):
                self._sampler.follow(one.plan.arms)
            else:
                for _ in one.plan.arms:
                    self._sampler.next()

    def next(self) -> int:
        """Return the next arm; beyond the end of a block, the next one of the sampler."""
        return self._left.popleft() if self._left else self._draw()

    def skip(self) -> None:
        """Pass over the next arm, which is known."""
        if self._left:
            self._left.popleft()
        elif self._behind:
            self._behind.append(None)
        else:
            self._sampler.next()

    def peek(self, n: int) -> list[int]:
        """Return the next n arms, which stay the next."""
        while len(self._left) < n:
            self._left.append(self._draw())
        return list(islice(self._left, n))

    def drop_rest(self) -> None:
        """Forget the rest of the newest block."""
        self._left.clear()

    @property
    def has_budget(self) -> bool:
        """Whether a budget limits the asks."""
        return self._budget is not None

    def spend(self, arm: int) -> None:
        """Take note of an ask of this arm."""
        self._spent += self.cost_of(arm)

    def budget_left(self, outstanding: Mapping[int, int]) -> float:
        """Return what is left of the budget after all asks but these, numbers of asks per arm."""
        if self._budget is None:
            return math.inf
        return self._budget - self._spent + sum(n * self.cost_of(arm) for arm, n in outstanding.items())

    def cost_of(self, arm: int) -> float:
        """Return the cost of a pull of the arm."""
        return 1.0 if self._costs is None else float(self._costs[arm])

    def wanted_before(self, n_pulls: int) -> Mapping[int, float]:
        """Return how designs wanted pulls apportioned when the newest block opened of which anything is told."""
        self.catch_up()
        # A block without a result has not begun: a log ends with the last result.
        begun = [wanted for n, wanted in self._wanted if n < n_pulls]
        return begun[-1] if begun else {}

    def _look(self, context: SamplerContext) -> int:
        sampler = self.sampler
        if self._apportions is not None:
            self._wanted.append((context.n_pulls, self._apportions.planned()))
        length = opened(sampler, context)
        return self._batch or length

    def _draw(self) -> int:
        """Return the sampler's next arm."""
        arm = (sampler := self.sampler).next()
        return arm if type(arm) is int and 0 <= arm < self._n_arms else checked_arm(arm, sampler, self._n_arms)

    def _within_budget(self, length: int, whole: float) -> tuple[list[int], bool]:
        """Draw the arms of a block, as many as the budget allows; return them and whether the budget ends with them.

        It ends if little would be left after them.
        """
        left, drawn = whole, list[int]()
        while (price := self.cost_of(arm := self._draw())) <= left:
            drawn.append(arm)
            left -= price
            # A rest that is too small for a block of its own is spent in this one: bets are on whole blocks.
            if len(drawn) >= length and left >= self._least * (whole - left) / len(drawn):
                return drawn, False
        return drawn, True
