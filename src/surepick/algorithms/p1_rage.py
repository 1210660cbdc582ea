"""P1-RAGE (Xiong, Camilleri, Fazel, Jain and Jamieson 2024): a fixed budget, also where rewards drift.

    blocks          R = ceil(log2 rho(Z)) of equal length, of independent draws from a design w each; rho(Z) the
                    value of the design for the differences of all candidates
    estimate        theta^ = mean over all pulls of A(w)^-1 x r, w the design that the pull was drawn from
    design          S_1 all candidates, S_{i+1} those that theta^ puts within 2^-i of the best, for i up to 15; half of
                    w is the G-optimal design, half the mean of the designs for the differences of S_1, S_2, ...
    answer          the candidate that theta^ puts first

Such an estimate is unbiased for the mean of theta over time if theta drifts, whatever the drift reacts to but the draws
themselves. It scatters more than least squares. The constants are those of the public code. The first block has S_1
alone. Published guarantee, not proved here.

Practical: the same designs, in whole pulls; least squares of all results; betting says what is proved, for means that
do not drift. Candidates need not be arms.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.budget import needs_budget
from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import inverse
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.budget import SetDesigns, check_phases
from surepick.sampling.fixed import Drawn
from surepick.sampling.phases import EvenlySpread, Proportions
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, Guarantee

MOST_SETS = 15
"""Accuracies 2^-1, ..., 2^-15 by which candidates are left out of a design."""


@final
@dataclass(frozen=True, kw_only=True)
class P1RAGE(Options):
    """P1-RAGE: half the G-optimal design, half the designs for candidates within 1/2, 1/4, ... of the best.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "p1-rage", n_runs=50, seed=0, **options).error_rate
        0.0

    References:
        Xiong, Camilleri, Fazel, Jain and Jamieson (2024), "A/B testing and best-arm identification for linear bandits
        with robustness to non-stationarity".
    """

    plans_budget: ClassVar[bool] = True
    elimination: bool | None = None

    def unsupported(self, task: Task) -> str | None:
        """Return why the task cannot be done; None if it can."""
        return needs_budget("p1-rage", task)

    def compose(self, task: Task) -> tuple["P1Sampler", Rule]:
        """Return the sampler and the stopping rule."""
        designs = NestedDesigns(task)
        rule = WeightedRule(designs=designs) if self.is_own_rule else self.rule("betting")
        return P1Sampler(task, designs, is_drawn=self.is_paper), rule


@final
class NestedDesigns:
    """Lengths of the blocks, and the design that an estimate asks for; keeps no state of a run."""

    def __init__(self, task: Task) -> None:
        assert task.budget is not None
        self._task, self._sets, self._all = task, SetDesigns(task), np.arange(task.rivals.n_arms)
        self._Z = task.rivals.gather(self._all)
        self.n_blocks = math.ceil(math.log2(max(self._sets.of_pairs(self._all).value, 2.0)))
        check_phases(task, self.n_blocks)
        ends = np.linspace(0.0, task.budget, self.n_blocks + 1).astype(np.int64)
        self.lengths: list[int] = np.diff(ends).tolist()

    def design(self, theta: Array | None) -> Proportions:
        """Return the design for an estimate; None: there is none yet."""
        weights = np.zeros(self._task.rows.n_arms)
        general = self._task.rows.design
        weights[general.support] = 0.5 * general.weights
        found = [self._sets.of_pairs(self._all)]
        if theta is not None:
            value = self._Z @ theta
            behind = value.max() - value
            nested = [np.flatnonzero(behind <= 2.0**-i) for i in range(1, MOST_SETS + 1)]
            found += [self._sets.of_pairs(left) for left in nested if not self._sets.are_copies(left)]
        for one in found:
            weights[one.arms] += 0.5 * one.weights / len(found)
        used = np.flatnonzero(weights)
        return Proportions(used, weights[used] / weights[used].sum(), math.nan)

    def inverse(self, design: Proportions) -> Array:
        """Return A(w)^-1 (d, d)."""
        X = self._task.rows.gather(design.arms)
        found: Array = inverse((X.T * design.weights) @ X)
        return found


@final
class WeightedMean:
    """theta^, block by block, and the design that it asks for next."""

    def __init__(self, designs: NestedDesigns) -> None:
        self._designs, self._sum, self.n = designs, np.zeros(0), 0
        self.design = designs.design(None)

    @property
    def theta(self) -> Array:
        """The estimate (d,)."""
        mean: Array = self._sum / self.n
        return mean

    def add(self, moments: Array, n: int) -> None:
        """Add the sum of r x (d,) over n pulls that were drawn from the present design."""
        own: Array = self._designs.inverse(self.design) @ moments
        self._sum = self._sum + own if self.n else own
        self.n += n
        self.design = self._designs.design(self.theta)


@final
class P1Sampler(Sampler):
    """Blocks of draws from a design, or of whole pulls in its proportions.

    Args:
        task: the task of the run.
        designs: lengths of blocks, and designs.
        is_drawn: whether arms are drawn; else designs follow least squares, and pulls are whole.
    """

    def __init__(self, task: Task, designs: NestedDesigns, *, is_drawn: bool) -> None:
        self._designs, self._is_drawn, self._r = designs, is_drawn, 0
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(0,)))
        self._mean, self._before = WeightedMean(designs), (np.zeros(task.rows.dim), 0)
        self._source: Drawn | EvenlySpread

    def open(self, context: SamplerContext) -> int:
        """Plan the next block; beyond the last one, another of its length."""
        length = self._designs.lengths[min(self._r, self._designs.n_blocks - 1)]
        self._r += 1
        if not self._is_drawn:
            self._source = self._designs.design(context.theta).pulls(length)
            return self._source.n
        estimate, (moments, n) = context.estimate, self._before
        if estimate.n_pulls > n:
            self._mean.add(estimate.b - moments, estimate.n_pulls - n)
            self._before = estimate.b.copy(), estimate.n_pulls
        self._source = Drawn(self._mean.design.arms, self._mean.design.weights, self._rng)
        return length

    def next(self) -> int:
        """Return the next arm."""
        return self._source.next()


@final
@dataclass(frozen=True, kw_only=True)
class WeightedRule(Rule):
    """Stop after the last block, with the candidate that theta^ puts first. Guarantee: none.

    Args:
        designs: those that the blocks are drawn from.
    """

    designs: NestedDesigns
    needs_fixed_blocks: ClassVar[bool] = True
    counts_every_result: ClassVar[bool] = False
    opens_ahead: ClassVar[bool] = False
    takes_unknown_noise: ClassVar[bool] = True
    takes_corrections: ClassVar[bool] = False
    plans_budget: ClassVar[bool] = True
    name: str = field(default="p1-rage", init=False)
    guarantee: Guarantee = field(default="none", init=False)

    def min_block(self, task: Task) -> int:
        """Return 1: the method says how long a block is."""
        return 1

    def start(self, task: Task) -> "WeightedState":
        """Return a fresh state."""
        return WeightedState(task, self.designs)


@final
class WeightedState(RuleState):
    """The estimate theta^ so far."""

    def __init__(self, task: Task, designs: NestedDesigns) -> None:
        super().__init__(task)
        self._mean, self._left = WeightedMean(designs), designs.n_blocks

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Add the results of the block."""
        self._mean.add(block.moments, 1 if block.arms is None else len(block.arms))
        self._left -= 1
        return self.exact(estimate)

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that theta^ puts first; before the first block that of least squares."""
        return self.task.candidates.best(self._mean.theta if self._mean.n else estimate.theta)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the leader; there is no evidence."""
        leader = self.leader(estimate) if self._mean.n or estimate.has_theta else None
        return Verdict(stopped=self._left <= 0, leader=leader, threshold=-math.log(self.task.delta))
