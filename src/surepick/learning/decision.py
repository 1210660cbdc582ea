"""What goes into a learner and what comes out: an algorithm; asks, and decisions."""

from dataclasses import dataclass
from typing import Any, Protocol, final

from surepick.arms.view import Task
from surepick.core.thresholds import Guarantee
from surepick.sampling.protocol import Sampler
from surepick.stopping.protocol import Rule

Arm = Any
"""What users call an arm: a row number or a name, or a vector (d,) of a set of vectors."""


class Algorithm(Protocol):
    """A composition of rules: what a file of `surepick.algorithms` provides.

    One that can do without a list of arms says so by `takes_vectors = True`, one that can do without a list of
    candidates beside listed arms by `takes_vector_candidates = True`; one whose sampling needs `noise_std` by
    `plans_with_noise = True`; one that can plan for the m best by `takes_several = True`, for prices by
    `takes_costs = True`.
    """

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts, ready to run."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a learner says now."""

    best: Arm | None
    """The leading candidate, a row number or a vector; the answer once stopped. None before the pulled arms span. The
    list of the m best, the best first, if more than one is sought."""
    stopped: bool
    evidence: float
    """What the rule has against the alternatives, to be compared with `target`; in the unit of `unit`."""
    target: float
    rule: str
    guarantee: Guarantee
    n_pulls: int
    rival: Arm | None = None
    """The candidate that is hardest to tell from the best, where the rule knows it."""
    unit: str = "nats"
    exact: bool = True
    """Whether the evidence is the set's own; else a lower bound on it, so that a stop comes later at worst."""


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """One measurement asked for."""

    number: int
    """What `tell` and `fail` may name it by; one that failed keeps its number when it is made again."""
    arm: Arm
