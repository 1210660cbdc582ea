"""The vocabulary of stopping rules: verdicts, rules and their states.

A rule is frozen configuration; `rule.start(arms)` returns its state and `state.check(estimate)` a
`Verdict`. The estimate must follow the rule's regularisers, so it is built as
`Estimate(dim, regularizers=rule.regularizers(dim))`. Rules work in whatever coordinates `arms` uses,
normally whitened ones.

What every proved rule needs:
 * each arm was chosen from the past, before its reward was seen, and every reward is reported;
 * the noise is sub-Gaussian with scale `noise_std` given the past;
 * rewards may arrive in batches, or late if the moment of arrival does not depend on the value. With other
   delays evaluate the longest prefix of asks, in ask order, whose rewards are all in;
 * delta, epsilon, the rule itself and everything that enters a regulariser are fixed before the first reward.
"""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.checks import check_delta, check_epsilon, check_noise_std, check_number
from surepick.core.estimate import Estimate
from surepick.core.evidence import p_value
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.rules.lazy import Reading


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a stopping rule says after a pull.

    Unless `is_exact`, the check needed no scan: `leader` and `rival` are those of an earlier one and `statistic` is an
    upper bound for that leader. A verdict that stops is always exact.
    """

    stopped: bool
    leader: int | None
    """Row number of the answer; None before the pulled arms span the space."""
    rival: int | None
    """Row number of the arm that is hardest to tell from the leader."""
    statistic: float
    threshold: float
    is_exact: bool
    evidence: float | None
    """The statistic, for rules whose statistic is a log e-value."""
    rule: str
    guarantee: Guarantee
    is_bound: bool = False
    """Whether the set of arms could only bound the statistic from below: sound, later at worst."""

    @property
    def p_value(self) -> float | None:
        """min(1, 1/E) for "the leader is wrong"; None without an exact e-value."""
        return float(p_value(self.evidence)) if self.is_exact and self.evidence is not None else None


class StoppingState(Protocol):
    """A rule at work on one arm set."""

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates are not refuted as alternatives to this leader; None means all."""
        ...

    def check(self, estimate: Estimate) -> Verdict:
        """Say whether to stop now; call it after every pull (or every batch)."""
        ...

    def look(self, estimate: Estimate) -> Verdict:
        """Say exactly where things stand, at the cost of a scan and without changing the state."""
        ...


class StoppingRule(Protocol):
    """Configuration of a stopping rule."""

    def regularizers(self, dim: int) -> Array:
        """Return the matrices (J, d, d) whose log-determinants the estimate must follow."""
        ...

    def start(self, arms: ArmSet) -> StoppingState:
        """Return a fresh state for these arms."""
        ...


def verdict_of(
    reading: Reading | None, rule: str, guarantee: Guarantee, threshold: float, *, is_evidence: bool
) -> Verdict:
    """Word a reading as a verdict; None stands for "no estimate yet"."""
    if reading is None:
        return Verdict(
            stopped=False,
            leader=None,
            rival=None,
            statistic=0.0,
            threshold=threshold,
            is_exact=True,
            evidence=0.0 if is_evidence else None,
            rule=rule,
            guarantee=guarantee,
        )
    return Verdict(
        stopped=reading.is_reached,
        leader=reading.leader,
        rival=reading.rival,
        statistic=reading.value,
        threshold=reading.threshold,
        is_exact=reading.is_exact,
        evidence=reading.value if is_evidence else None,
        rule=rule,
        guarantee=guarantee,
    )


def square_matrix(name: str, matrix: Array | None, dim: int) -> Array:
    """Return the matrix (d, d), or the identity if None."""
    if matrix is None:
        return np.eye(dim)
    square = np.asarray(matrix, dtype=np.float64)
    if square.shape != (dim, dim):
        raise InvalidInput(f"`{name}` must have shape ({dim}, {dim}) like the arms, got {square.shape}.")
    return square


def check_options(delta: float, noise_std: float, epsilon: float, spacing: float) -> None:
    """Refuse options that no rule can use."""
    check_delta(delta)
    check_noise_std(noise_std)
    check_epsilon(epsilon)
    if check_number("spacing", spacing, needed="a growth of at least 0") < 0.0:
        raise InvalidInput(f"`spacing` must be a growth of at least 0, got {spacing}; 0.01 means 1 %.")
