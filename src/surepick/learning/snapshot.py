"""One frozen record of everything that is shown of an identification: `Snapshot`.

Every sentence, page and JSON document is made from it. No number here enters a decision.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, final

from surepick.arms.views import Task
from surepick.core.design.targets import Target
from surepick.learning.groups import GroupEffect, GroupLabel
from surepick.learning.model import ModelCheck
from surepick.learning.outlook import Outlook
from surepick.sampling.base import Sampler
from surepick.stopping.base import Rule
from surepick.types import Array, Guarantee, IntArray

Call = Literal["met", "failed", "open"]
"""What is proved of an arm against a threshold or a control."""
Arm = Any
"""An arm as users name it: a row number or a name, or the vector (d,) where arms are vectors."""


class Algorithm(Protocol):
    """A sampler and a stopping rule that belong together; each file of `surepick.algorithms` provides one.

    Flags say what an algorithm can do: `takes_vectors = True` (sets that cannot be listed), `takes_vector_candidates`
    (such candidates beside listed arms), `supports_top_m` (the m best), `takes_costs`; and `plans_with_noise = True`
    says that its sampling needs `noise_std`.
    """

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return sampler and rule, ready to run."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The present decision of the stopping rule."""

    best: Arm | None
    """The leader, a row number or a vector; the answer once stopped. None before the pulled arms span the space. With
    m > 1: the list of the m leaders, the best first. With `threshold` or `control`: the list of the arms called met."""
    stopped: bool
    evidence: float
    """Evidence for `best`; the rule stops at `target`. In the unit of `unit`."""
    target: float
    rule: str
    guarantee: Guarantee
    n_pulls: int
    rival: Arm | None = None
    """The candidate that is hardest to exclude, if the rule knows one: the evidence against it is least. That need not
    be the runner-up, the second by estimate (`Snapshot.rival`)."""
    unit: str = "nats"
    exact: bool = True
    """Whether the evidence is exact; else a lower bound, with which the rule can stop late but never early."""


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """A measurement that the learner asks for."""

    number: int
    """Names the ask in `tell` and `fail`. An ask that failed keeps its number when it is made again."""
    arm: Arm
    group: GroupLabel = ()
    """Where and when it will be measured, if that was said: pairs of factor and level."""
    item: Any = None
    """In a pool, the item to measure the arm on: its number from 0, or its name if the pool has names."""


class NearTie(NamedTuple):
    """Advice where the end is far away: a tolerance that would end the search soon."""

    rival: Any
    """The candidate that needs the most pulls to be told from the leader."""
    epsilon: float
    """The tolerance to accept."""
    pulls: int
    """About how many more pulls the search needs with this tolerance."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that is shown of an identification at one moment. Defaults stand for "nothing is known".

    `Result` has the same fields, and documents them; here are those that only a snapshot explains.
    """

    best: Any = None
    best_name: Any = None
    m: int = 1
    cost: float = math.nan
    n_pulls: int
    stopped: bool = False
    evidence: float = 0.0
    threshold: float
    """The evidence at which the rule stops."""
    p_value: float = math.nan
    survivors: IntArray | None = field(repr=False, compare=False, default=None)
    epsilon_bound: float = math.inf
    remaining: float = math.inf
    """Estimate of the pulls still needed; inf or NaN when unknown, 0 when stopped."""
    remaining_low: float = math.nan
    remaining_high: float = math.nan
    """Ends of the range that the pulls still needed are in with 80 %, by estimate; NaN when unknown."""
    guarantee: Guarantee = "none"
    model: str = "linear"
    model_check: ModelCheck = "untestable"
    misfit: str = ""
    allowed_misfit: float = 0.0
    n_undecidable: int = 0
    n_checks: int = 0
    rule: str = ""
    """Name of the stopping rule."""
    is_foreign_rule: bool = False
    """Whether the rule is none of surepick: its class says what is proved, and surepick cannot tell."""
    noise_law: str = "has no heavier tails than a normal law"
    noise_std: float = math.nan
    noise_interval: tuple[float, float] = (0.0, math.inf)
    noise_contradicted: bool = False
    far_share: float = 0.0
    """With costs: the share of the estimated lead that rests on arms far below the leader, if the lead is an
    extrapolation as `core.extrapolation` defines it; else 0."""
    coarseness: float = 0.0
    repeated: bool = False
    noise_doubt: str = ""
    n_residuals: int | None = None
    given_noise_std: float | Array | None = field(compare=False, default=None)
    noise: str = "same"
    reward_range: tuple[float, float] | None = None
    pool: int | None = None
    """Items of the table of scores whose best arm is sought; None: rewards come from no table."""
    earlier: str = "evidence"
    drift: float = 0.0
    """How far readings of one arm may drift apart within a block."""
    budget: float | None = None
    """Most pulls, or the most that they may cost; None: no limit. Beside `batch` it is in `rounds`."""
    batch: int | None = None
    """Pulls that are planned together; None: surepick chooses."""
    rounds: int | None = None
    """Most batches; None: no limit."""
    goal: str = "confidence"
    delta: float
    epsilon: float = 0.0
    algorithm: str = ""
    seed: int = 0
    specification: Target | None = None
    calls: Mapping[Any, Call] | None = field(repr=False, compare=False, default=None)
    arm_set: str = ""
    exact: bool = True
    path: tuple[tuple[int, float, float], ...] = field(repr=False, default=())
    has_offsets: bool = False
    """Whether offsets of groups were regressed out (`groups="offset"`)."""
    groups: tuple[GroupEffect, ...] = field(repr=False, default=())
    """How far days, benches or plates stand apart, if measurements have labels: estimates that decide nothing."""
    rival: Any = None
    """The runner-up: second by estimate, excluded or not. None if there is none, or candidates cannot be listed."""
    hardest: Any = None
    """The candidate that is hardest to exclude: the evidence against it is least. None if the rule knows none, if
    candidates cannot be listed, and once stopped."""
    lead: float = math.nan
    """The leader's estimate minus the rival's."""
    interval: tuple[float, float] = (-math.inf, math.inf)
    """Confidence interval of the true lead at 1 - delta, together with all other intervals of a result."""
    likely_lead: tuple[float, float] = (math.nan, math.nan)
    """Interval of this lead alone, at this time alone, at about 95 %: an estimate, not a guarantee. NaN if unknown."""
    near_tie: NearTie | None = None
    """Set if `remaining` is more than three times the pulls so far, and an epsilon would help."""
    _find_outlook: Callable[[], Outlook | None] | None = field(repr=False, compare=False, default=None)

    def __getstate__(self) -> dict[str, Any]:
        """A pickle has the outlook as numbers."""
        return {**self.__dict__, "outlook": self.outlook, "_find_outlook": None}

    @cached_property
    def outlook(self) -> Outlook | None:
        """Estimates, not guarantees: how likely the leader is the best, and what stopping now would lose.

        Worked out when first read: about 0.1 s for 1,000 candidates, 1 s for 100,000. None once stopped, while nothing
        can be said, if all rewards are equal, if the claim is withdrawn, and with an allowed misfit.
        """
        return None if self._find_outlook is None else self._find_outlook()

    @property
    def leaders(self) -> tuple[Any, ...]:
        """The m candidates that would be the answer now, the best first; empty before the pulled arms span.

        With `threshold` or `control`: the candidates called met.
        """
        if self.best is None:
            return ()
        return tuple(self.best) if isinstance(self.best, list) else (self.best,)

    @property
    def leader(self) -> Any:
        """The last of the leaders: the one that is compared with the rival. None without a leader."""
        return self.leaders[-1] if self.leaders else None

    @property
    def n_until_verdict(self) -> int:
        """Pulls until the verdict; all pulls so far without one."""
        return self.path[-1][0] if self.stopped and self.path else self.n_pulls - self.n_checks

    @property
    def has_costs(self) -> bool:
        """Whether pulls had costs of their own."""
        return math.isfinite(self.cost) and self.cost != self.n_pulls

    @property
    def confidence(self) -> float:
        """Confidence that the leader is right: 1 - `p_value`; NaN where the rule has none."""
        return 1.0 - self.p_value

    @property
    def share(self) -> float:
        """Evidence divided by the threshold, from 0 to 1; at most 0.99 before the rule stops."""
        if self.stopped:
            return 1.0
        ratio = self.evidence / self.threshold if self.threshold > 0.0 else 0.0
        return min(max(ratio, 0.0), 0.99) if math.isfinite(ratio) else 0.0
