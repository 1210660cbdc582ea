"""The protocol of samplers: a context in, a block of arms out.

A learner runs in *blocks* of pulls. When a block opens, the sampler reads the context and returns the length of the
block; from then on its arms depend on no reward. The next block may open while results of this one are pending. A
sampler that reacts to every result has blocks of one pull.

`JoinedBlocks` joins blocks that are too short for a rule that bets on blocks. `SubBlocks` wraps a sampler where noise
differs between arms or has an unknown law: each block repeats one plan.
`Rounds` takes its place where nothing is known of the noise: each block is a round of all arms that are left.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerContext:
    """The state of the run that a sampler may read when a block opens."""

    n_pulls: int
    """Results so far."""
    n_asked: int
    """Results so far and results still to come."""
    theta: Array | None
    """Estimate in whitened coordinates; None before the pulled arms span."""
    leaders: tuple[int, ...]
    """The answer if the run stopped now, the best candidate first; empty before the pulled arms span."""
    alive: BoolArray | None
    """Mask (K,) of the candidates not separated from the leaders yet; None means all."""
    estimate: LeastSquares
    """All results so far, in whitened coordinates. Read them in `open` only, because they grow; never change them."""
    pending: Mapping[int, int]
    """Open asks per arm: pending, or failed and to be repeated."""
    stds: Array | None = None
    """Estimated noise of each arm (K,) relative to the others, if arms may differ in noise."""
    pairs: tuple[IntArray, Array] | None = None
    """Pairs (n, 2) of a leader and another that the rule has to tell apart, and the evidence (n,) that each misses.

    None: all leaders, and all that are alive."""

    @property
    def leader(self) -> int | None:
        """The first leader; None before the pulled arms span."""
        return self.leaders[0] if self.leaders else None


class Sampler(Protocol):
    """Chooses the arms to pull; reads results only when a block opens."""

    def open(self, context: SamplerContext) -> int:
        """Plan a block and return its number of pulls."""
        ...

    def next(self) -> int:
        """Return the next arm; may not depend on rewards told since `open`."""
        ...

    def pulls_per_nat(self) -> float:
        """Return the pulls per nat of evidence under the current plan, for noise_std = 1; inf if unknown."""
        return math.inf


@runtime_checkable
class Apportions(Protocol):
    """A sampler that follows designs and reports their sum."""

    def planned(self) -> Mapping[int, float]:
        """Return the sum of the designs so far, as pulls per arm in any unit."""
        ...


@runtime_checkable
class HasDesign(Protocol):
    """A sampler that follows designs and reports the one in force."""

    def weights(self) -> Mapping[int, float]:
        """Return the weights w(t) of the design in force by arm, with sum 1; empty before the first estimate."""
        ...


def weights_of(sampler: Sampler) -> Mapping[int, float]:
    """Return the weights of the design that a sampler follows now; empty if it follows none."""
    return sampler.weights() if isinstance(sampler, HasDesign) else {}


@runtime_checkable
class Follows(Protocol):
    """A sampler that can record many arms at once, faster than by choosing them again."""

    def follow(self, arms: Sequence[int]) -> None:
        """Record that the next pulls are of these arms, planned by another sampler in the same context."""
        ...


def opened(sampler: Sampler, context: SamplerContext) -> int:
    """Return the length of the sampler's next block.

    Raises:
        InvalidInput: it is not a number of pulls.
    """
    length: object = sampler.open(context)
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise InvalidInput(
            f"`open` must return the number of pulls of the next block, at least 1, got {length!r} from "
            f"{type(sampler).__name__}; return 1 to choose one arm at a time."
        )
    return int(length)


def checked_arm(arm: object, sampler: Sampler, n_arms: int) -> int:
    """Return the arm that a sampler drew.

    Raises:
        InvalidInput: it is not the number of an arm.
    """
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < n_arms:
        raise InvalidInput(
            f"`next` must return the number of an arm, from 0 to {n_arms - 1}, got {arm!r} from "
            f"{type(sampler).__name__}; correct the sampler."
        )
    return int(arm)


class Wrapped(Sampler):
    """A sampler that has the designs of another, in blocks of its own."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._left: deque[int] = deque()
        """The rest of the newest block."""

    def pulls_per_nat(self) -> float:
        """Return the value of the wrapped sampler."""
        return self._sampler.pulls_per_nat()

    def planned(self) -> Mapping[int, float]:
        """Return the plan of the wrapped sampler."""
        return self._sampler.planned() if isinstance(self._sampler, Apportions) else {}

    def weights(self) -> Mapping[int, float]:
        """Return the design of the wrapped sampler."""
        return weights_of(self._sampler)


@final
class JoinedBlocks(Wrapped):
    """A sampler whose blocks can be bet on: blocks with fewer pulls than dimensions are joined.

    A rule that bets on blocks makes no bet on a block with fewer pulls than dimensions, and would never stop. So the
    sampler opens its short blocks one after the other. It reads the pulls planned so far as if they had returned the
    rewards that theta predicts: theta stays as it is, and the information grows. A sampler that reduces uncertainty
    thus does not choose one arm again and again. All arms are still fixed when the block opens. Before there is an
    estimate no bet is made, and blocks are left as they are.

    Where a block is repetitions of one plan (`SubBlocks`), short blocks are joined to a whole plan, which is as long as
    there are dimensions, or 3 % of all pulls so far: few repetitions of a short plan say little about the noise.

    Args:
        sampler: chooses arms.
        arms: the arms, in whitened coordinates.
        least: fewest pulls of a joined block.
        is_plan: whether the block will be repeated.
    """

    def __init__(self, sampler: Sampler, arms: ArmSet, least: int, *, is_plan: bool = False) -> None:
        super().__init__(sampler)
        self._arms, self._least, self._is_plan = arms, least, is_plan
        self.is_joined = False
        """Whether the newest block was short and is joined, or left as it is for want of an estimate."""

    def open(self, context: SamplerContext) -> int:
        """Plan a block, of several blocks of the sampler if they are short."""
        self._left.clear()
        length = opened(self._sampler, context)
        # A block with as many pulls as dimensions can be bet on, if not well.
        self.is_joined = length < min(self._arms.dim, self._least)
        if context.theta is None or not self.is_joined:
            return length
        least = max(self._arms.dim, math.ceil(PLAN_SHARE * context.n_asked)) if self._is_plan else self._least
        estimate = context.estimate.snapshot()
        while True:
            planned = [checked_arm(self._sampler.next(), self._sampler, self._arms.n_arms) for _ in range(length)]
            self._left.extend(planned)
            if len(self._left) >= least:
                return len(self._left)
            copies = FEWEST if self._is_plan else 1  # each pull of a plan will be made that often
            X = self._arms.gather(planned * copies)
            estimate.update_many(X, X @ context.theta, planned * copies)
            n = copies * len(self._left)
            told = replace(context, n_pulls=context.n_pulls + n, n_asked=context.n_asked + n, estimate=estimate)
            length = opened(self._sampler, told)

    def next(self) -> int:
        """Return the next arm of the block; beyond its end, the next arm of the sampler."""
        return (
            self._left.popleft() if self._left else checked_arm(self._sampler.next(), self._sampler, self._arms.n_arms)
        )


# Repetitions in a block. More repetitions estimate the noise better: three, four and eight lose 15, 12 and 6 % of a
# small difference. But each repetition must hold all needed arms, and short blocks have few pulls. With at most 4, 5,
# 6, 8 and 16 repetitions, the problems of `benchmarks.trust` needed 1094, 1091, 1056, 1147, 1167 (+- 80) and 642, 742,
# 792, 857, 1069 (+- 60) pulls, in 40 to 60 runs each.
FEWEST, MOST = 3, 4


PLAN_SHARE = 0.03
"""Blocks of three such plans grow about as those of the default schedule."""


@final
class SubBlocks(Wrapped):
    """A sampler whose blocks are repetitions of one plan.

    Repetitions have the same arms, each as often as in the others, so their estimates of a difference have one law. A
    rule can judge them by how they differ among themselves (`log_sub_block_returns` of `core.betting.bets`;
    docs/guarantee.md, Theorem 25), or by their signs and sizes if that law is symmetric (`log_symmetric_returns`;
    Theorem 26).

    Args:
        sampler: chooses the arms of a plan; every part of its sequence must have about the proportions of its design.
        dim: number of features; a plan has at least this number of arms, unless the sampler wants a shorter block.
    """

    def __init__(self, sampler: Sampler, dim: int) -> None:
        super().__init__(sampler)
        self._dim = dim
        self.n_parts = 1
        """Repetitions in the newest block."""

    def open(self, context: SamplerContext) -> int:
        """Plan a block of about the sampler's length."""
        length = self._sampler.open(context)
        if isinstance(self._sampler, JoinedBlocks) and self._sampler.is_joined:
            # A joined block is a plan. Without an estimate no bet is made, and the sampler goes on with its start.
            self.n_parts, n = 1 if context.theta is None else FEWEST, length
        else:
            self.n_parts = min(max(length // self._dim, FEWEST), MOST)
            n = max(math.ceil(length / self.n_parts), min(length, self._dim))
        self._left = deque([self._sampler.next() for _ in range(n)] * self.n_parts)
        return len(self._left)

    def next(self) -> int:
        """Return the next arm of the block; beyond its end, the next arm of the sampler."""
        return self._left.popleft() if self._left else self._sampler.next()


@final
class Rounds(Sampler):
    """A sampler whose blocks are rounds: every arm that may still be the answer, once.

    The learner asks for the arms of a round in random order (docs/guarantee.md, Theorem 28).

    Args:
        n_arms: number of arms, which are the candidates too.
    """

    def __init__(self, n_arms: int) -> None:
        self._arms, self._left = list(range(n_arms)), deque[int]()

    def open(self, context: SamplerContext) -> int:
        """Plan a round of the leaders and of all arms that are not separated from them."""
        if context.alive is not None:
            alive = context.alive.copy()
            alive[list(context.leaders)] = True
            self._arms = np.flatnonzero(alive).tolist()
        self._left = deque(self._arms)
        return len(self._left)

    def next(self) -> int:
        """Return the next arm of the round; beyond its end, the first arm of another one."""
        if not self._left:
            self._left.extend(self._arms)
        return self._left.popleft()

    def pulls_per_nat(self) -> float:
        """Return inf: a round follows no design."""
        return math.inf
