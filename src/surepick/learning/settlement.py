"""The settlement of results: everything that depends on their values.

A settlement holds the estimate, the state of the stopping rule and the watch on the model. It takes results in one by
one, in the order of telling; `LearnerState` says which asks and blocks they belong to.

The rule judges a block by its own results and by what was known before: the results of earlier blocks, and unsolicited
ones told before the block opened. Blocks are settled in the order of opening, each when all its asks are told.
"""

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np

from surepick.arms.views import Task, WhitenedArms, as_rows
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.groups import GroupCodes, OffsetLeastSquares, Offsets
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import noise_estimate
from surepick.learning.groups import GroupEffect, GroupLabel
from surepick.learning.ledger import PlannedBlock
from surepick.learning.model import DRIFTS, Model, Pulls, group_words, has_drift
from surepick.learning.noise_models import NoiseModel
from surepick.sampling.base import SamplerContext
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, IntArray, ResultNumber

if TYPE_CHECKING:
    from surepick.learning.state import LearnerState

COARSE = 0.6
"""Readings are called coarse if they scatter by less than this share of their step; finer ones cost few more pulls."""
PATH_STEP = 1.05
"""Evidence is noted when the pulls have grown by this factor: a result has its path in a few dozen steps."""


class ToldResult(NamedTuple):
    """A result as the books have it: everything about it but its value."""

    place: int
    """Places, from 0, are in the order of asks. An unsolicited result has the next one after all asks made so far."""
    arm: int
    is_asked: bool
    has_block: bool
    n_opened: int
    """Blocks opened before it was told."""
    is_complete: bool
    """Whether it was the answer to the last open ask."""
    closes: tuple[PlannedBlock, ...]
    """Blocks that it completes, and whose turn it is."""
    n_places: float
    """How many places `Settlement.prefix` has at that moment, if a block is completed."""
    group: GroupLabel = ()
    """Day, bench or plate on which it was measured; empty: unknown."""


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """Task, rule and assumptions: all that a settlement needs beside the events."""

    task: Task
    rule: Rule
    noise: NoiseModel
    earlier: Literal["evidence", "guidance"]
    """How results told before the first block are used."""
    items: tuple[int | str, ...] = ()
    """Items of a pool in the order in which they are asked; each is a block."""


def _add(
    estimate: LeastSquares, X: Array, rewards: Array, groups: IntArray | None, arms: Sequence[int] | None = None
) -> None:
    """Add results to an estimate, with their groups (n, F) if these have offsets."""
    if isinstance(estimate, OffsetLeastSquares) and groups is not None:
        estimate.update_all(X, rewards, groups, arms)
    else:
        estimate.update_many(X, rewards, arms)


@final
class Settlement:
    """Everything that follows from the values of results.

    Args:
        setting: task, rule and assumptions.
        books: which results there are.
        values: their values; None: void.
        state: of the rule, if not a fresh one.
        watches: whether the model is watched; contexts of samplers and bets do not depend on it.
    """

    def __init__(
        self,
        setting: Setting,
        books: "LearnerState",
        values: list[float | None],
        *,
        state: RuleState | None = None,
        watches: bool = True,
    ) -> None:
        task, rule, noise = setting.task, setting.rule, setting.noise
        self._task, self._white, self._rule, self._noise = task, task.arms, rule, noise
        self._books, self.values = books, values
        self.n_settled = 0
        """Results that are settled."""
        # Unless the noise is normal with one level, a start from earlier results has no proof.
        self._goes_on = books.start is not None
        self._looks_back = self._goes_on or (setting.earlier == "evidence" and not noise.needs_bets)
        """Whether the rule still has to take in the results from before the first block."""
        self.state = books.started(books.start) if state is None else state
        self._watches = watches and noise.is_watched and not setting.items
        self._has_offsets = task.has_offsets
        self.model = Model(
            self._white,
            noise.std,
            is_watched=self._watches,
            is_exact=task.misfit == 0.0,
            has_offsets=self._has_offsets,
        )
        self._codes = GroupCodes()
        self.estimate = self._fresh(self.state.regularizers)
        self.levels = noise.variances(self._white.dim)
        self.verdict: Verdict | None = None
        """The last verdict of the rule."""
        self.path: list[tuple[int, float, float]] = []
        """How evidence grew: pulls, evidence and target when the rule looked."""
        self.is_own = True
        """Whether every result was asked for, until the rule stopped."""
        self._looked: Verdict | None = None
        # What is known before the oldest block not settled, and unsolicited results that it may not know yet, each
        # with the number of blocks opened before it was told.
        self._past = self._fresh()
        self._unsolicited: deque[tuple[int, int, float, int]] = deque()
        self._closed: dict[int, int] = {}
        """The block of each result of a block that is settled, where readings drift."""
        # Results that count, each as place, number, arm and reward.
        self._told: list[tuple[int, int, int, float]] = []
        self._last_place = -1
        # The prefix at the last look, the results told behind it, and the number of results it has looked at.
        self._prefix: tuple[LeastSquares, list[tuple[int, int, int, float]], int] = self._fresh(), [], 0

    def _fresh(self, regularizers: Array | None = None) -> LeastSquares:
        """Return an estimate without results."""
        if self._has_offsets:
            return OffsetLeastSquares(self._white.dim, has_constant=self.model.has_constant)
        return LeastSquares(self._white.dim, regularizers)

    def _groups(self, labels: Sequence[GroupLabel]) -> IntArray | None:
        """Return the groups (n, F) of results with these labels; None if none has one and groups have no offsets."""
        return self._codes.matrix(labels) if self._has_offsets or any(labels) else None

    @property
    def _minds_labels(self) -> bool:
        """Whether labels are judged. Where readings drift, groups may differ because of that: the table shows them."""
        return self._has_offsets or (bool(self._books.labels) and self._task.drift == 0.0)

    def _labels(self, numbers: Iterable[int]) -> list[GroupLabel]:
        labels = self._books.labels
        return [labels.get(ResultNumber(number), ()) for number in numbers]

    def advance(self, n: int) -> None:
        """Settle the first n results."""
        first = self._books.n_start if self._goes_on else self._books.first_plan
        if self._looks_back and first is not None and self.n_settled <= first <= n:
            self._take_in(first)
            self.look_back()
        self._take_in(n)

    def look_back(self) -> None:
        """Before the first block opens, let the rule take in the results so far, which are all unsolicited."""
        if self._looks_back and self._goes_on:
            self._decide(self.state.conclude(self.estimate) if self.estimate.has_theta else None)
        elif self._looks_back and self.estimate.n_pulls > 0:
            pulls = self._pulls()
            self._decide(self.state.begin(self.estimate, pulls.X, pulls.rewards))
        self._looks_back = False

    def _take_in(self, n: int) -> None:
        """Learn from the results up to a number, one by one, and decide."""
        results, state = self._books.results, self.state
        for number in range(self.n_settled, n):
            told, reward = results[number], self.values[number]
            # First: if arms cannot be read, the error is raised once, and the results can still be shown.
            self.n_settled, self._looked = number + 1, None
            if reward is not None:
                self._learn(number, told, reward)
            # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
            is_due = state.decides_after_pulls and (told.is_complete or not self._rule.is_fixed_design)
            if is_due and not self.stopped:
                verdict = state.after_pull(self.estimate)
                self._decide(verdict if self._rule.is_of_package else self._rule.checked(verdict, self._task))
            for block in told.closes:
                self._close(block, told.n_places)

    def _learn(self, number: int, told: ToldResult, reward: float) -> None:
        self._told.append((told.place, number, told.arm, reward))
        if told.place > self._last_place:  # noqa: PLR1730 - a call of `max` takes longer, and every pull comes here
            self._last_place = told.place
        if self._has_offsets:
            assert isinstance(self.estimate, OffsetLeastSquares)
            self.estimate.update_in(self._books.row(told.arm), reward, told.arm, self._codes.of(told.group))
        else:
            self.estimate.update(self._books.row(told.arm), reward, told.arm)
            if told.group:
                self._codes.of(told.group)  # levels are numbered in the order of results, whoever looks and when
        if not told.is_asked:
            self.is_own = self.is_own and self.stopped
        if not told.has_block:
            self._unsolicited.append((told.n_opened, told.arm, reward, number))

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped."""
        return self.verdict is not None and self.verdict.stopped

    @property
    def noise(self) -> float:
        """The given or estimated level of the noise; NaN if unknown."""
        given = self._noise.std
        return noise_estimate(self.estimate) if given is None else given

    def prefix(self, n_places: float | None = None) -> LeastSquares:
        """Return the estimate from the results before the first ask that is not told, in the order of asks.

        Confidence intervals are made of these. When a result is told may depend on its value, so what was told so far
        may be a biased choice; a prefix of the order of asks is not (docs/guarantee.md, "Intervals under delays"). This
        is the estimate of all results where none is left out, and for rules that decide after every pull: their
        assumption is that delays ignore values.
        """
        if n_places is None:
            n_places = self._books.n_places()
        if self._last_place < n_places:
            return self.estimate
        estimate, behind, n_seen = self._prefix
        behind = sorted(behind + self._told[n_seen:])
        n_due = bisect_left(behind, (n_places,))
        if n_due:
            _, numbers, arms, rewards = zip(*behind[:n_due], strict=True)
            estimate = estimate.snapshot()
            _add(estimate, self._features(arms), np.array(rewards), self._groups(self._labels(numbers)), arms)
        self._prefix = estimate, behind[n_due:], len(self._told)  # in one step: a look may be interrupted
        return estimate

    def relative_stds(self) -> Array | None:
        """Return how noisy each arm (K,) seems beside the level of all results; None if arms are alike, or unknown."""
        known = None if self.levels is None else self.levels.now
        if known is None or not self.noise > 0.0:
            return None
        return known.of(np.arange(self._white.n_arms)) / self.noise

    def context(self, pending: Counter[int], *, is_kept: bool = False) -> SamplerContext:
        """Return the state that a sampler may see, with these asks pending; `is_kept` copies it for a later look."""
        estimate = self.estimate
        theta = estimate.theta if estimate.has_theta else None
        leaders: tuple[int, ...] = ()
        alive = pairs = None
        if theta is not None and self._task.candidates.is_enumerable:  # a fixed design does not need the leaders
            # To spend a budget well, no candidate is given up: a rejected one may be the best.
            spends = self._task.spends_all
            leaders = (self._task.candidates.best(theta),) if spends else self.state.leaders(estimate)
            alive = None if self.stopped or spends else self.state.alive(leaders[0])
            pairs = None if self.stopped or spends else self.state.pairs(estimate)
        return SamplerContext(
            n_pulls=estimate.n_pulls,
            n_asked=estimate.n_pulls + pending.total(),
            theta=theta,
            leaders=leaders,
            alive=None if alive is None else alive.copy(),  # a plan must not see later refutations
            estimate=estimate.snapshot() if is_kept else estimate,
            pending=pending,
            stds=self.relative_stds(),
            pairs=pairs,
        )

    def verdict_to_show(self) -> Verdict:
        """Return the present verdict; scans the candidates if the last check of the rule did not."""
        verdict = self.verdict
        if verdict is not None and not verdict.is_exact:
            if self._looked is None:
                # Looking decides nothing: a log holds no looks, and has to lead to the same state.
                self._looked = replace(self.state.exact(self.estimate), stopped=False)
            verdict = self._looked
        return Verdict(threshold=math.log(1.0 / self._task.delta)) if verdict is None else verdict

    def has_best_estimate(self, candidate: int) -> bool:
        """Return whether the best estimate of all results is that of a candidate, or of its copy."""
        best = self._task.candidates.best(self.estimate.theta)
        return best == candidate or best in as_rows(self._task.candidates).copies(candidate)

    def leading(self, verdict: Verdict) -> tuple[int, ...]:
        """Return the candidates that a verdict would answer, the best first; none before the pulled arms span."""
        if verdict.leader is not None:
            return verdict.leader, *verdict.others
        return self.state.leaders(self.estimate) if self.estimate.has_theta else ()

    @property
    def repeats(self) -> bool:
        """Whether rewards of one arm equal each other too often to be measurements with noise that is learnt."""
        return self._noise.repeats(self.estimate)

    @property
    def coarseness(self) -> float:
        """Step of the readings if the learnt noise is smaller than this step; else 0."""
        return self._coarseness(self.estimate)

    def _coarseness(self, estimate: LeastSquares) -> float:
        step = estimate.resolution if self._noise.std is None and self._noise.minds_rounding else 0.0
        is_coarse = step > 0.0 and (math.isinf(step) or noise_estimate(estimate) < COARSE * step)
        return step if is_coarse else 0.0

    def explain_misfit(self, called: Callable[[ResultNumber], int]) -> str:
        """Say in plain words which constant, measurement or arms do not fit."""
        if self.repeats:
            n_equal, n_could = self.estimate.n_repeated
            return (
                f"{n_equal} of {n_could} repeated measurements equal the first one of their arm to the last digit: a "
                "cache may answer in the place of a measurement, or the noise is often exactly 0."
            )
        if self.model.finds_groups and (words := group_words(self.groups())):
            return words
        if self.drifts:
            return DRIFTS
        return self.model.explain(self.noise, self.estimate, self._pulls, lambda n: called(ResultNumber(n)))

    def groups(self, reach: Callable[[float], float] = lambda _: math.nan) -> tuple[GroupEffect, ...]:
        """Return how far days, benches or plates stand apart, by all results; none without labels.

        `reach` maps degrees of freedom to the standard errors that an interval reaches to each side.
        """
        if not self._books.labels or not self._told:
            return ()
        _, numbers, arms, rewards = zip(*self._told, strict=True)
        groups = self._groups(self._labels(numbers))
        if groups is None:
            return ()  # all results with a label are void
        pulls = np.array(arms), self._features(arms), np.array(rewards)
        return self.model.group_table(*pulls, self._codes, groups, reach)

    @property
    def drifts(self) -> bool:
        """Whether readings seem to drift from block to block; works that out at every look."""
        if self._noise.needs_bets or self._has_offsets or not isinstance(self._white, WhitenedArms):
            return False
        blocks = (block for told in self._books.results[: self.n_settled] for block in told.closes)
        block_of = {int(number): block.number for block in blocks for number in block.results.values()}
        told = [(arm, block_of[n], reward) for _, n, arm, reward in self._told if n in block_of]
        arms, numbers, rewards = np.array(told).reshape(-1, 3).T
        return has_drift(arms, numbers, rewards)

    def _features(self, numbers: Sequence[int]) -> Array:
        return np.array([self._books.row(number) for number in numbers])

    @one_blas_thread
    def _close(self, planned: PlannedBlock, n_places: float) -> None:
        """Let the rule judge a block, and the model be watched."""
        arms, results = planned.pulls(self.values)
        if not arms:
            return  # all of it is void
        numbers, X, rewards = np.array(arms), self._features(arms), np.array(results)
        self._learn_before(planned)
        groups = None
        if self._minds_labels:
            groups = self._groups(planned.labels(self.values, self._books.labels))
        # A length that may depend on the block's own results allows no bet, the watch's neither. And rounding moves the
        # means of coarse readings: that is no misfit, and bets allow for it already.
        is_judged = not (planned.is_cut or self._coarseness(self._past))
        (self.model.settle if is_judged else self.model.learn)(numbers, X, rewards, groups)
        self.model.n_checks += len(arms) if planned.is_check else 0
        if not (self.stopped or self.state.decides_after_pulls):
            block = None if planned.is_cut else self._block(planned, numbers, X, rewards, groups)
            if self.levels is not None:
                self.levels.learn(numbers, X, rewards)
            _add(self._past, X, rewards, groups)
            if block is not None:
                self._noise.mind_rounding(block, self._past, was_coarse=False)
                verdict = self.state.after_block(self.estimate, block)
                self._decide(verdict if self._rule.is_of_package else self._rule.checked(verdict, self._task))
        if self._task.drift > 0.0:
            self._closed |= dict.fromkeys(planned.results.values(), planned.number)
            self._take_levels_off()
        if self._watches and not self._noise.needs_bets:
            self.model.look_for_slips(self.prefix(n_places), partial(self._pulls, n_places), now=self.stopped)

    def _take_levels_off(self) -> None:
        """Work out the estimates again from rewards without the level of their block, where readings drift."""
        _, numbers, arms, rewards = zip(*self._told, strict=True)
        blocks = np.array([self._closed.get(number, 0) for number in numbers])
        X, is_past = self._features(arms), np.isin(blocks, 0, invert=True)
        left = without_levels(X, blocks, np.array(rewards))
        self.estimate, self._past = (
            LeastSquares(self._white.dim, self.state.regularizers),
            LeastSquares(self._white.dim),
        )
        self.estimate.update_many(X, left, arms)
        self._past.update_many(X[is_past], left[is_past])

    def _learn_before(self, block: PlannedBlock) -> None:
        """Know the unsolicited results that were told before the block opened; its bets may."""
        unsolicited, told = self._unsolicited, []
        while unsolicited and unsolicited[0][0] < block.number:
            told.append(unsolicited.popleft()[1:])
        if told:
            listed, values, numbers = zip(*told, strict=True)
            arms, rewards = np.array(listed), np.array(values)
            X = self._features(listed)
            groups = self._groups(self._labels(numbers)) if self._minds_labels else None
            _add(self._past, X, rewards, groups)
            self.model.learn(arms, X, rewards, groups)
            if self.levels is not None:
                self.levels.learn(arms, X, rewards)

    def _pulls(self, n_places: float = math.inf) -> Pulls:
        """Return the results that count, of the first `n_places` places, in the order of telling."""
        told = [one for one in self._told if one[0] < n_places]
        places, numbers, arms, values = zip(*told, strict=True)
        X, rewards = self._features(arms), np.array(values)
        groups = self._groups(self._labels(numbers)) if self._has_offsets else None
        if groups is None:
            return Pulls(places, numbers, arms, X, rewards, np.zeros(len(rewards)))
        offsets, level = Offsets(groups), self.model.has_constant
        beside = rewards - offsets.off(rewards, keeps_level=level)
        leverages = offsets.leverages(keeps_level=level)
        return Pulls(places, numbers, arms, offsets.off(X, keeps_level=level), rewards, beside, leverages)

    def _block(
        self, planned: PlannedBlock, arms: IntArray, X: Array, rewards: Array, groups: IntArray | None
    ) -> Block | None:
        """Return the results of a block beside those known before it; None if the rule cannot judge them."""

        def repetitions() -> tuple[IntArray, Array, Array]:
            repeated, parts = planned.repetitions(self.values)
            return np.array(repeated), self._features(repeated), np.array(parts)

        pulls, past = (arms, X, rewards), self._past
        if self._has_offsets:
            block = self._noise.block(pulls, past, self.levels, repetitions, groups)
        else:
            block = self._noise.block(pulls, past, self.levels, repetitions)
        if block is not None:
            block.number = planned.number
            self._noise.mind_rounding(block, self._past, was_coarse=True)
        return block

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict, self._looked = verdict, None
            n, last = self.estimate.n_pulls, self.path[-1][0] if self.path else 0
            if verdict.is_exact and verdict.leader is not None:
                if self.path and n == last:  # a late result has let several blocks settle at once
                    self.path.pop()
                    last = 0
                if verdict.stopped or n >= PATH_STEP * last:
                    self.path.append((n, verdict.statistic, verdict.threshold))


def without_levels(X: Array, blocks: IntArray, rewards: Array) -> Array:
    """Return rewards (n,) less the level of their block beside the fit of all, all at the level of the first block.

    Args:
        X: rows (n, d) with a constant among their combinations.
        blocks: number of the block of each (n,); 0: none yet, and the level of the newest block.
        rewards: (n,).
    """
    numbers, block = np.unique(blocks, return_inverse=True)
    counts = np.bincount(block)
    means = np.stack([np.bincount(block, column) for column in (*X.T, rewards)], axis=1) / counts[:, None]
    is_in = blocks > 0
    apart = np.column_stack([X, rewards]) - means[block]
    theta = np.linalg.lstsq(apart[is_in, :-1], apart[is_in, -1], rcond=None)[0]
    levels = means[:, -1] - means[:, :-1] @ theta
    if numbers[0] == 0:
        levels[0] = levels[-1]
    left: Array = rewards - (levels - levels[np.argmax(numbers > 0)])[block]
    return left
