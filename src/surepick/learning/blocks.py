"""Plans of blocks: which arms a block has, from the sampler and within the budget.

The arms are fixed when the block opens. They are drawn one by one as they are asked for, or all at once for a log or to
be asked in random order. A plan from a log is followed: the sampler is told of it when the next plan must be made.
`learning.ledger` keeps the books of the asks.
"""

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.views import Task
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.sampling.base import Apportions, Follows, Sampler, SamplerContext, SubBlocks, checked_arm, opened
from surepick.sampling.pool import PoolSampler
from surepick.stopping.base import Rule, Start
from surepick.types import Array

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
        self._has_offsets = task.has_offsets
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
        if self._behind:
            self.catch_up()
        arm = (sampler := self._sampler).next()
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
