"""The protocol of stopping rules: frozen options, a state on one task, and verdicts.

`rule.start(task)` returns a `RuleState`, which the learner drives:

    begin           take in results told before the first block; called when that block opens
    after_pull      decide after one result, or leave the decision to `after_block`
    after_block     decide after a block; a `Block` sums its results and keeps the estimate before it
    exact           return the verdict as of now; changes nothing

Every proved rule assumes:

    * each arm is chosen from the past, before its reward is seen, and every reward is reported;
    * the noise is sub-Gaussian with scale `noise_std` given the past;
    * results arrive at moments that do not depend on their values;
    * delta, epsilon, the rule and everything that enters a regulariser are fixed before the first reward.

docs/guarantee.md has the theorems, and the weaker assumptions that suffice for some rules.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from surepick.arms.base import duplicate_groups
from surepick.arms.views import Task, has_constant
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, Guarantee, IntArray

# Extra pulls, beyond the number of dimensions, in a block that also estimates the noise. In two dimensions, unknown
# noise costs 20 % of the pulls without the extra pulls and 4 % with them; 10 work as well.
SPARE = 4
CLAIMS = ("proved", "published", "heuristic", "none")
"""The guarantees that a rule may claim."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a stopping rule at one time. A verdict that stops is always exact."""

    stopped: bool = False
    leader: int | None = None
    """The candidate with the lead, and the answer once the rule stops; None before the pulled arms span."""
    others: tuple[int, ...] = ()
    """With m > 1, the other candidates of the answer, in the order of their estimates."""
    met: tuple[int, ...] = ()
    """Beside a target, the candidates called met, in the order of their estimates."""
    failed: tuple[int, ...] = ()
    """Beside a target, the candidates called failed."""
    rival: int | None = None
    """The candidate hardest to tell from the leader, or beside a target hardest to call, if the rule knows it."""
    statistic: float = 0.0
    """Evidence for the leader; the rule compares it with `threshold`."""
    threshold: float
    unit: Literal["nats", "widths"] = "nats"
    """Unit of `statistic`: nats of evidence, or multiples of a confidence width."""
    is_exact: bool = True
    """Whether `RuleState.exact` would return the same verdict now. If False, the rule proved "not yet" by a shortcut:
    leader and rival are from an earlier check, or None, and the statistic is an upper bound on that of `exact`."""
    is_bound: bool = False
    """Whether the statistic is a lower bound, also in `exact`. The rule is then valid but may stop late."""


class RuleState(ABC):
    """A stopping rule on one task. A rule overrides `exact` and one of `after_pull` and `after_block`."""

    decides_after_pulls: bool = False
    """Whether the rule decides after every pull; else it decides between blocks."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.regularizers: Array = np.zeros((0, task.arms.dim, task.arms.dim))
        """Matrices (J, d, d) whose log-determinants the estimate must keep up to date."""

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the lead; needs an estimate."""
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

    def missing(self, leaders: Sequence[int]) -> Array | None:
        """Return the evidence (K,) that this answer still needs against every candidate; None if it is not kept."""
        return None

    def pairs(self, estimate: LeastSquares) -> tuple[IntArray, Array] | None:
        """Return pairs (n, 2) of a leader and another that a plan has to tell apart, and the evidence that each misses.

        None: every leader and every candidate that is alive.
        """
        return None

    def begin(self, estimate: LeastSquares, X: Array, rewards: Array) -> Verdict | None:
        """Take in the results told before the first block; return None if the rule ignores them.

        The estimate includes these results. X (n, d) and rewards (n,) list them in the order of telling.
        """
        return None

    def go_on(self, before: "RuleState", rows: IntArray) -> None:
        """Start from the evidence that an earlier state of the rule had; only betting can."""
        raise InvalidInput(f"{type(self).__name__} cannot start from the evidence of other blocks.")

    def conclude(self, estimate: LeastSquares) -> Verdict | None:
        """Return the verdict by the evidence that the rule starts from."""
        return None

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Decide after a result; return None if this rule decides after blocks."""
        return None

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Decide after a block, from the pulls of the block; return None if this rule decides after pulls."""
        return None

    def n_undecidable(self, estimate: LeastSquares) -> int:
        """Return how many candidates are too close to the leader to be rejected under the allowed misfit."""
        return 0

    @abstractmethod
    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the exact verdict as of now, by a full scan if needed; changes nothing."""


Start = tuple[RuleState, IntArray]
"""A state of a rule that an earlier learner ended with, and the number (K,) of each candidate there; -1: none."""


class Rule(ABC):
    """Options of a stopping rule, and its capabilities."""

    name: str
    guarantee: Guarantee

    needs_fixed_blocks: ClassVar[bool] = False
    """Whether the rule decides between blocks of several pulls, whose arms are fixed in advance."""
    has_determinant_price: ClassVar[bool] = True
    """Whether the threshold grows with the log-determinant of the information, hence with every measured direction."""

    always_eliminates: ClassVar[bool] = False
    """Whether a refuted candidate stays refuted, regardless of the option `elimination`."""
    takes_vectors: ClassVar[bool] = False
    """Whether the rule works on sets of vectors, which have no list of candidates."""
    takes_unknown_noise: ClassVar[bool] = False
    """Whether the rule can learn `noise_std` of Gaussian noise of one level."""
    takes_misfit: ClassVar[bool] = False
    """Whether the rule supports `misfit`: means that are off their linear fit by a known distance."""
    takes_drift: ClassVar[bool] = False
    """Whether the rule supports `drift`: readings that drift while a block is measured in random order."""
    takes_unequal_noise: ClassVar[bool] = False
    """Whether the rule works without `noise_std` where arms differ in noise, or where the noise is only known to be
    symmetric. Blocks are then repetitions of one plan."""
    takes_offsets: ClassVar[bool] = False
    """Whether the rule has a proof where groups of measurements read high or low."""
    supports_top_m: ClassVar[bool] = False
    """Whether the rule can find the m best arms."""
    takes_target: ClassVar[bool] = False
    """Whether the rule calls arms met or failed instead of looking for the best."""
    pays_real_variances: ClassVar[bool] = False
    """Whether the rule needs fewer pulls if bounded rewards scatter less than their bounds allow."""
    takes_corrections: ClassVar[bool] = True
    """Whether results can be voided later, which rebuilds the state without them. False for a rule that reads the plans
    of its sampler or counts whole rounds alone."""
    counts_every_result: ClassVar[bool] = True
    """Whether the rule decides by all results; else by the results of its blocks, and other results only guide it."""
    begins_eras: ClassVar[bool] = False
    """Whether a study may go on with other arms or options, which all results so far then guide."""
    plans_budget: ClassVar[bool] = False
    """Whether the rule stops when the budget is spent, with an answer of its own, of which nothing is proved."""
    opens_ahead: ClassVar[bool] = True
    """Whether the next block may be planned before the results of this one are in."""

    def unsupported(self, task: Task) -> str | None:
        """Return why the rule has no proof for a task, and what to do; None if it has one."""
        return next(self._limits(task), None)

    def _limits(self, task: Task) -> Iterator[str]:
        """Yield the reasons why the proof does not cover a task, the most important first."""
        if task.target is not None:
            yield from self._of_target(task)
        if not (task.candidates.is_enumerable or self.takes_vectors):
            from surepick import stopping  # noqa: PLC0415 - the table of all rules, which knows this file

            suited = ", ".join(map(repr, stopping.names(vectors=True)))
            yield f"`stopping` must be one of {suited} on {task.candidates.description}, got {self.name!r}."
        if task.given_noise_std is None and not self.takes_unknown_noise:
            yield (
                f"`noise_std` must be given for stopping={self.name!r}, which has no proof without it; or use "
                '"betting" or "evidence", which learn it.'
            )
        if task.drift > 0.0:
            yield from self._of_drift(task)
        if task.misfit > 0.0:
            yield from self._of_misfit(task)
        if task.m > 1:
            yield from self._of_several(task)
        if task.has_offsets:
            yield from self._of_offsets(task)
        if task.needs_bets and not self.takes_unequal_noise:
            yield (
                f'noise="{task.noise}" has no proof for stopping={self.name!r}; use "betting", or give noise_std for '
                "each arm."
            )
        if task.epsilon == 0.0 and not task.candidates.is_enumerable and task.vectors.vectors.needs_slack:
            yield (
                f"`epsilon` must be above 0 on {task.arms.description}, got 0: arms can be arbitrarily close to the "
                "best, and no number of pulls tells them apart. Pass the largest loss that you accept."
            )

    def _of_target(self, task: Task) -> Iterator[str]:
        """Yield the reasons why `threshold` or `control` is not supported."""
        assert task.target is not None
        candidates, named = task.candidates, "threshold" if task.target.control is None else "control"
        if not (candidates.is_enumerable and candidates.is_local):
            yield (
                f"`{named}` needs a list of arms on this machine, each of which gets a call, got "
                f"{candidates.description}; leave it out."
            )
        if not self.takes_target:
            yield f"`{named}` has no proof for stopping={self.name!r}; leave `stopping` out."
        if task.m > 1:
            yield f"`m` must be 1 beside `{named}`, by which any number of arms may meet the target, got {task.m}."
        if task.misfit > 0.0:
            yield f"`misfit` must be 0 beside `{named}`: there is no proof for both, got {task.misfit:g}."
        if task.noise == "any":
            yield (
                f'noise="any" has no proof beside `{named}`; leave `{named}` out, or use noise="symmetric", whose '
                "noise may have any symmetric law."
            )
        if task.target.control is not None:
            return
        # An offset of a day, or a drift, cannot be told from a level that all arms share; a control shares it.
        if task.has_offsets:
            yield (
                'groups="offset" has no proof beside `threshold`, which compares with the level that offsets change; '
                "measure a control in each group, and name it by `control`."
            )
        if task.drift > 0.0:
            yield (
                f"`drift` must be 0 beside `threshold`, which compares with the level that drifts, got {task.drift:g}; "
                "measure a control as well, and name it by `control`."
            )

    def _of_misfit(self, task: Task) -> Iterator[str]:
        """Yield the reasons why a `misfit` above 0 is not supported."""
        if not self.takes_misfit:
            yield (
                f"`misfit` must be 0 for stopping={self.name!r}, which has no proof for means that are not linear; use "
                'stopping="betting" on a list of arms.'
            )
        if task.candidates is not task.arms:
            yield (
                "`misfit` must be 0 beside `candidates` (candidates that are never measured may be off too), and "
                "beside a noise_std for each arm."
            )
        if task.needs_bets:
            yield f"`misfit` must be 0 beside noise={task.noise!r}: there is no proof for both."
        if task.model != "linear":
            yield f"`misfit` must be 0 beside model={task.model!r}, by which every mean is its own fit."

    def _of_offsets(self, task: Task) -> Iterator[str]:
        """Yield the reasons why groups="offset" is not supported."""
        watch = 'use groups="watch"'
        if not self.takes_offsets:
            yield f'groups="offset" has no proof for stopping={self.name!r}; use stopping="betting", or {watch}.'
        if not (task.arms.is_enumerable and task.candidates.is_enumerable):
            yield f'groups="offset" needs a list of arms, got {task.arms.description}; {watch}.'
        if task.drift > 0.0:
            yield f'groups="offset" has no proof beside `drift`, got {task.drift:g}; leave one of them out.'
        if task.needs_bets:
            yield (
                f'groups="offset" has no proof beside noise="{task.noise}"; {watch}, or give a noise_std that holds '
                "for all arms."
            )
        rows = getattr(task.arms, "stds", None)
        if rows is not None:
            # Rows are divided by the noise of their arm, and so would be the offset, which is one for all arms.
            yield f'groups="offset" has no proof beside a noise_std for each arm; give the largest, or {watch}.'

    def _of_drift(self, task: Task) -> Iterator[str]:
        """Yield the reasons why a `drift` above 0 is not supported."""
        if not self.takes_drift:
            yield f'`drift` must be 0 for stopping={self.name!r}, which has no proof for it; use "betting".'
        if task.candidates is not task.arms:
            yield "`drift` must be 0 beside `candidates` and on sets of vectors: there is no proof for both."
        elif not has_constant(task.arms, checks_all=True):
            yield (
                "`drift` needs a constant among the features, which takes up what readings of a block share; add a "
                'column of ones, or use model="unstructured".'
            )
        if task.misfit > 0.0:
            yield "`misfit` must be 0 beside `drift`: there is no proof for both."

    def _of_several(self, task: Task) -> Iterator[str]:
        """Yield the reasons why `m` above 1 is not supported."""
        m, candidates = task.m, task.candidates
        if not candidates.is_enumerable:
            yield f"m = {m} needs a list of arms, got {candidates.description}; leave `m` out."
        if m >= task.rivals.n_arms:
            yield f"`m` must be below the number of arms that are compared, {task.rivals.n_arms}, got {m}."
        if not self.supports_top_m:
            yield f'stopping={self.name!r} has no proof for m = {m}; use "betting" or "evidence".'
        if self.needs_fixed_blocks and (task.epsilon > 0.0 or task.misfit > 0.0):
            yield (
                f"stopping={self.name!r} has no proof for m = {m} with `epsilon` or `misfit` above 0; use "
                'stopping="evidence", which takes `epsilon`, or leave them out.'
            )
        if groups := duplicate_groups(task.rivals.arms):
            yield (
                f"m = {m} needs arms with different features, got {' and '.join(map(str, groups[0][:2]))} with equal "
                "ones; leave one of them out."
            )

    def noise_law(self, *, is_known: bool) -> str:
        """Return the assumption on the law of the noise, as the end of a sentence "the noise ..."."""
        return "has no heavier tails than a normal law" if is_known else "follows a normal law"

    def margin(self, task: Task, blocks: Iterable[Block], lead: float) -> float | None:
        """Return the largest misfit at which the answer that these blocks led to stands; None if there is none.

        Args:
            task: epsilon = 0 and m = 1.
            blocks: all blocks in the order of settling, those after the verdict included.
            lead: estimated lead of the answer over the closest rival.
        """
        return None

    def has_p_value(self, *, is_noise_known: bool) -> bool:
        """Return whether exp(-statistic) is an anytime p-value against the leader: P(leader wrong, <= p) <= p."""
        return False

    @final
    @property
    def is_of_package(self) -> bool:
        """Whether surepick has this rule; of any other, surepick knows only what the class says."""
        return type(self).__module__.partition(".")[0] == __name__.partition(".")[0]

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
        """Whether the guarantee needs pulls that depend on no reward. Such a rule takes no unsolicited results."""
        return False

    def min_block(self, task: Task) -> int:
        """Return the fewest pulls of a useful block."""
        if not self.needs_fixed_blocks:
            return 1
        # If the noise is unknown, only the pulls beyond the dimensions estimate it.
        return task.arms.dim + (SPARE if task.given_noise_std is None else 0)

    def checked(self, verdict: Verdict | None, task: Task) -> Verdict | None:
        """Return the verdict of a rule that surepick does not have, or None if it has no news; refuse anything else.

        Raises:
            InvalidInput: it is no verdict, stops without an answer, or its leader or a number is none.
        """
        if verdict is None:
            return None
        if not isinstance(verdict, Verdict):
            raise InvalidInput(
                f"the rule {self.name!r} must return a `Verdict`, got {verdict!r}; return Verdict(threshold=...) as "
                "long as nothing is decided."
            )
        leader = verdict.leader
        if leader is None:
            if verdict.stopped and task.target is None:
                raise InvalidInput(
                    f"a verdict that stops needs a `leader`, got None from the rule {self.name!r}; do not stop before "
                    "`estimate.has_theta` is True."
                )
        elif task.candidates.is_enumerable and not 0 <= leader < task.candidates.n_arms:
            raise InvalidInput(
                f"`leader` must be the number of a candidate, from 0 to {task.candidates.n_arms - 1}, got {leader!r} "
                f"from the rule {self.name!r}; `self.leader(estimate)` is the best by estimate."
            )
        for name in ("statistic", "threshold"):
            if math.isnan(getattr(verdict, name)):
                raise InvalidInput(f"`{name}` of a verdict must be a number, got nan from the rule {self.name!r}.")
        return verdict

    @abstractmethod
    def start(self, task: Task) -> RuleState:
        """Return a fresh state on a task that `unsupported` has no objection to."""
