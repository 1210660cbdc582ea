"""The protocol of stopping rules: frozen options, a state on one task, and verdicts.

`rule.start(task)` returns a `RuleState`, which the learner drives:

    begin           the first block is about to open, and results were told before it
    after_pull      a result is in: decide, or leave the decision to `after_block`
    after_block     all results of the block are in, summed in a `Block` beside the estimate before it: decide
    exact           return the verdict as of now; changes nothing

What every proved rule needs: each arm was chosen from the past, before its reward was seen, and every reward is
reported; the noise is sub-Gaussian with scale `noise_std` given the past; results arrive at moments that do not depend
on their values; delta, epsilon, the rule and everything that enters a regulariser are fixed before the first reward.
docs/guarantee.md has the theorems and what each rule allows beyond that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.types import Array, BoolArray, Guarantee

# Pulls beyond the dimensions in a block whose results estimate the noise. Without them, blocks of few dimensions are so
# short that unknown noise costs 20 % of the pulls in the plane; with them 4 %, and 10 would do as well.
SPARE = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a stopping rule at one time. A verdict that stops is always exact."""

    stopped: bool = False
    leader: int | None = None
    """The candidate that leads, the answer once stopped; None before the pulled arms span."""
    others: tuple[int, ...] = ()
    """The next best, if more than one is sought, in the order of their estimates."""
    rival: int | None = None
    """The candidate hardest to tell from the leader, if the rule knows it."""
    statistic: float = 0.0
    """The evidence of the leader against the others, to be compared with `threshold`."""
    threshold: float
    unit: Literal["nats", "widths"] = "nats"
    """Nats of evidence, or multiples of a confidence width."""
    is_exact: bool = True
    """Whether `RuleState.exact` would return the same now. False: the rule looked at enough to prove "not yet"; leader
    and rival are earlier ones, or None, and the statistic is an upper bound on that of `exact`."""
    is_bound: bool = False
    """Whether the statistic is a lower bound, also in `exact`: the rule is valid and may stop later."""


class RuleState(ABC):
    """A stopping rule on one task. A rule overrides `exact` and one of `after_pull` and `after_block`."""

    decides_after_pulls: bool = False
    """Whether `after_pull` returns verdicts; else the rule decides between blocks."""
    counts_every_result: bool = True
    """Whether the rule decides by the estimate of all results; else by those of its blocks, and others guide it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.regularizers: Array = np.zeros((0, task.arms.dim, task.arms.dim))
        """Matrices (J, d, d) whose log-determinants the estimate must follow."""

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that leads; called once there is an estimate."""
        return self.task.candidates.best(estimate.theta)

    def leaders(self, estimate: LeastSquares) -> tuple[int, ...]:
        """Return the candidates that would be the answer now, the best first."""
        return (self.leader(estimate),)

    def alive(self, leader: int) -> BoolArray | None:
        """Return a mask (K,) of the candidates not separated from the leader yet; None means all. Copy to keep."""
        return None

    def survivors(self, leader: int) -> BoolArray | None:
        """Return a 1 - delta confidence set (K,) for the best candidate before the rule stops; None means all."""
        return None

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict | None:
        """Take in the results told before the first block, which opens now; None if the rule ignores them.

        The estimate includes them. X (n, d) and rewards (n,) are the results one by one, in the order of telling.
        """
        return None

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Decide after a result; None if this rule decides after blocks."""
        return None

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Decide after a block, from its own pulls; None if this rule decides after pulls."""
        return None

    def n_undecidable(self, estimate: LeastSquares) -> int:
        """Return the number of candidates too close to the leader to be decided under the misfit allowed."""
        return 0

    @abstractmethod
    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the exact verdict as of now, from all candidates if need be; changes nothing."""


class Rule(ABC):
    """Options of a stopping rule, and its capabilities."""

    name: str
    guarantee: Guarantee

    needs_fixed_blocks: ClassVar[bool] = False
    """Whether it decides between blocks of several pulls, whose arms are fixed in advance."""
    has_determinant_price: ClassVar[bool] = True
    """Whether its price grows with the log-determinant of the information, hence with every direction measured."""

    always_eliminates: ClassVar[bool] = False
    """Whether a candidate once refuted stays refuted, whatever `elimination` says."""
    takes_vectors: ClassVar[bool] = False
    """Whether it can do without a list of candidates."""
    takes_unknown_noise: ClassVar[bool] = False
    """Whether it can do without `noise_std`, for Gaussian noise of one level."""
    takes_misfit: ClassVar[bool] = False
    """Whether it can allow for means that are off their linear fit by a known distance."""
    takes_unequal_noise: ClassVar[bool] = False
    """Whether it can do without it where arms differ in noise, or its law is only known to be symmetric, if blocks
    are repetitions of one plan."""
    supports_top_m: ClassVar[bool] = False
    """Whether it can tell the m best from the rest."""
    pays_real_variances: ClassVar[bool] = False
    """Whether it profits from bounded rewards that scatter less than their bounds allow."""
    takes_corrections: ClassVar[bool] = True
    """Whether its state can be worked out again without results that are void; not if it reads its sampler's plans."""
    opens_ahead: ClassVar[bool] = True
    """Whether the next block may be planned before the results of this one are in."""

    def noise_law(self, *, is_known: bool) -> str:
        """What it assumes of the noise beside its scale, as the end of a sentence "the noise ..."."""
        return "has no heavier tails than a normal law" if is_known else "follows a normal law"

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """Whether exp(-statistic) is a p-value against the leader, whenever one looks: P(leader wrong, <= p) <= p."""
        return False

    @property
    def default_ratio(self) -> float:
        """Factor by which the pulls grow from one block to the next, unless a schedule is given."""
        return 1.15

    @property
    def usual_g_mix(self) -> float:
        """Share of the G-optimal design that samplers use under this rule, unless `g_mix` is given."""
        return 0.1

    @property
    def is_fixed_design(self) -> bool:
        """Whether its guarantee covers pulls that depend on no reward alone, hence no unsolicited results."""
        return False

    def min_block(self, task: Task) -> int:
        """Return the fewest pulls that a block must have to be of use."""
        if not self.needs_fixed_blocks:
            return 1
        # If the noise is unknown, only the pulls beyond the dimensions estimate it.
        return task.arms.dim + (SPARE if task.given_noise_std is None else 0)

    @abstractmethod
    def start(self, task: Task) -> RuleState:
        """Return a fresh state."""
