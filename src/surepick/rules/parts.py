"""The parts of an algorithm: what a sampling rule and a stopping rule are told, and what they must answer.

A learner runs in *intervals*. When one opens, the sampler plans from the situation and says how long the interval is;
from then on its arms depend on no reward until every ask of the interval is told or failed. A sampler that reacts to
every result has intervals of one pull.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, final

from surepick.arms.numbered import NumberedVectors
from surepick.arms.protocol import ArmSet
from surepick.arms.whitening import WhitenedArms
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.rules.verdict import Verdict


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What an algorithm is composed for: arms and candidates in whitened coordinates, and what is to be guaranteed."""

    arms: WhitenedArms
    candidates: WhitenedArms
    delta: float
    noise_std: float
    epsilon: float
    seed: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGround:
    """The same for a set of vectors, whose arms are its candidates."""

    arms: NumberedVectors
    delta: float
    noise_std: float
    epsilon: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a sampler may know when an interval opens."""

    n_pulls: int
    """Results so far."""
    theta: Array | None
    """Estimate in whitened coordinates; None before the pulled arms span."""
    leader: int | None
    alive: BoolArray | None
    """Candidates the leader has yet to be separated from; None means all."""
    estimate: LeastSquares
    """All results so far, in whitened coordinates; to be read, never changed."""
    pending: Mapping[int, int]
    """Asks per arm that are neither told nor failed."""


class Sampler(Protocol):
    """Chooses arms; looks at results only when an interval opens."""

    def open(self, situation: Situation) -> int:
        """Plan an interval and return how many pulls it has."""
        ...

    def next(self) -> int:
        """Return the next arm; may not depend on rewards told since `open`."""
        ...

    def pulls_per_nat(self) -> float:
        """Return how many pulls one unit of evidence costs by the current plan, for noise_std 1; inf if unknown."""
        ...


class RuleAtWork(Protocol):
    """A stopping rule's state as the learner drives it."""

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate that leads."""
        ...

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates the leader has yet to be separated from; None means all."""
        ...

    def open(self, estimate: LeastSquares, leader: int) -> None:
        """Take note that an interval begins: its arms are fixed, none of its results is in."""
        ...

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Decide after a result; None if this rule decides only between intervals."""
        ...

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say exactly where things stand, looking at all candidates if need be; decides nothing."""
        ...

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict | None:
        """Decide after an interval, from its own pulls; None if this rule decides after pulls."""
        ...


class Rule(Protocol):
    """A stopping rule's configuration."""

    @property
    def name(self) -> str:
        """Name of the rule."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is proved about it."""
        ...

    @property
    def is_fixed_design(self) -> bool:
        """Whether that covers pulls which depend on no reward alone, hence no unsolicited results."""
        ...

    def regularizers(self, dim: int) -> Array:
        """Return the matrices (J, d, d) whose log-determinants the estimate must follow."""
        ...

    def work_on(self, candidates: ArmSet) -> RuleAtWork:
        """Return a fresh state."""
        ...
