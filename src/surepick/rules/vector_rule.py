"""Stopping rules on sets of vectors: evidence, mix-grid, the printed rule of the sphere, and coordinate by coordinate.

Notation: whitened coordinates; Z'(F) the statistic of `arms.vectors` for F F' = A^-1; m the length of a round.

    evidence    stop when the log e-value of `vector_evidence` reaches log(1/delta)
    mix-grid    stop when Z'(F) reaches noise_std^2 xi, xi the root in `core.thresholds.mix_grid_threshold` with the
                regularisers 4^j m
    paper       the rule printed for the sphere, `arms.sphere.printed_rule`
    per-coordinate   the hypercube under its own fixed design, one test per coordinate at risk delta/d
"""

import math
import warnings
from dataclasses import dataclass, field
from typing import final

import numpy as np

from surepick.arms.hypercube import Hypercube, coordinate_threshold
from surepick.arms.numbered import NumberedVectors
from surepick.arms.sphere import Sphere, printed_rule
from surepick.core.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.core.linalg import Array
from surepick.core.thresholds import MIX_GRID, Guarantee, mix_grid_threshold
from surepick.errors import InvalidInput
from surepick.rules.lazy import MARGIN
from surepick.rules.vector_evidence import pair_evidence, vector_evidence
from surepick.rules.verdict import Verdict, check_options

NAMES = ("evidence", "mix-grid", "paper", "per-coordinate")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRule:
    """One of the rules by name; decides after whole intervals.

    Args:
        name: see above.
        arms: the set.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.
    """

    name: str
    arms: NumberedVectors = field(repr=False)
    delta: float
    noise_std: float = 1.0
    epsilon: float = 0.0
    guarantee: Guarantee = field(default="proved", init=False)

    def __post_init__(self) -> None:
        check_options(self.delta, self.noise_std, self.epsilon, 0.0)
        vectors = self.arms.vectors
        if self.name not in NAMES:
            raise InvalidInput(
                f"`stopping` must be one of {', '.join(map(repr, NAMES))} on {vectors.description}, got {self.name!r}."
            )
        if vectors.needs_slack and self.epsilon == 0.0:
            raise InvalidInput(
                f"`epsilon` must be above 0 on {vectors.description}, got 0: there are arms as close to the best as "
                "one likes, and no number of pulls tells them apart. Pass what an answer may lose at most."
            )
        if self.name == "paper":
            if not isinstance(vectors, Sphere):
                raise InvalidInput(
                    f"stopping='paper' is the rule printed for the unit sphere, got {vectors.description}; use "
                    "'evidence'."
                )
            warnings.warn(
                "the rule printed in the paper needs 10^3 to 10^4 times the pulls of stopping='evidence': its second "
                "condition, which the paper's own proof leaves out, grows like log(1/delta) squared.",
                stacklevel=2,
            )
        if self.name == "per-coordinate" and (not isinstance(vectors, Hypercube) or self.epsilon > 0.0):
            came = vectors.description + (f" with epsilon = {self.epsilon:g}" if self.epsilon > 0.0 else "")
            raise InvalidInput(
                f"stopping='per-coordinate' is for a hypercube and epsilon = 0, got {came}; use 'evidence'."
            )

    @property
    def is_fixed_design(self) -> bool:
        """Whether the guarantee covers pulls of the fixed design alone, hence no unsolicited results."""
        return self.name == "per-coordinate"

    def regularizers(self, dim: int) -> Array:
        """Return none: the log-determinants come from the eigenvalues at hand."""
        return np.zeros((0, dim, dim))

    def work_on(self, candidates: object) -> "VectorState":
        """Return a fresh state; the candidates are the set itself."""
        return VectorState(self)


@final
class VectorState:
    """Such a rule at work."""

    def __init__(self, rule: VectorRule) -> None:
        self.rule = rule
        self._rival: Array | None = None

    def leader(self, estimate: LeastSquares) -> int:
        """Return the arm with the best estimate."""
        return self.rule.arms.best(estimate.theta)

    def alive(self, leader: int) -> None:
        """Return None: every arm counts."""

    def open(self, estimate: LeastSquares, leader: int) -> None:
        """Nothing to fix in advance."""

    def after_pull(self, estimate: LeastSquares) -> None:
        """Nothing: a round is checked as a whole, which costs next to no pulls."""

    def after_interval(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Check the rule; the whole set is asked only if the last rival is refuted."""
        if self.rule.name == "evidence" and self._rival is not None and estimate.has_theta:
            # What the leader has against one arm is an upper bound on what it has against all of them.
            most = pair_evidence(self.rule.arms, estimate, self._rival, self.rule.epsilon, self.rule.noise_std)
            threshold = math.log(1.0 / self.rule.delta)
            if most < (1.0 - MARGIN) * threshold:
                return self._verdict(None, most, threshold, is_exact=False)
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say where things stand."""
        rule = self.rule
        if not estimate.has_theta:
            return self._verdict(None, 0.0, math.log(1.0 / rule.delta))
        leader = self.leader(estimate)
        if rule.name == "evidence":
            value, is_bound, self._rival = vector_evidence(rule.arms, estimate, rule.epsilon, noise_std=rule.noise_std)
            threshold = math.log(1.0 / rule.delta)
            return self._verdict(leader, value, threshold, is_bound=is_bound, is_reached=value >= threshold)
        if rule.name == "paper":
            theta, F = rule.arms.map @ estimate.theta, rule.arms.map @ estimate.factor()
            reading = printed_rule(
                estimate.n_pulls, theta, F, epsilon=rule.epsilon, delta=rule.delta, noise_std=rule.noise_std
            )
            return self._verdict(leader, reading.statistic, reading.threshold, is_reached=reading.is_reached)
        confusion = rule.arms.confusion(estimate.theta, estimate.factor(), rule.epsilon)
        threshold = self._mix_grid(estimate) if rule.name == "mix-grid" else self._per_coordinate(estimate)
        is_reached = confusion.value >= threshold
        return self._verdict(leader, confusion.value, threshold, is_bound=not confusion.is_exact, is_reached=is_reached)

    def _mix_grid(self, estimate: LeastSquares) -> float:
        spread = np.linalg.eigvalsh(estimate.A)
        grid = Mixture.uniform(self.rule.arms.round_length * MIX_GRID.scales)
        log_dets = np.log1p(spread / grid.scales[:, None]).sum(axis=1)
        threshold = mix_grid_threshold(
            log_dets, spread[0], delta=self.rule.delta, noise_std=self.rule.noise_std, mixture=grid
        )
        return float(threshold)

    def _per_coordinate(self, estimate: LeastSquares) -> float:
        n, dim = estimate.n_pulls, estimate.dim
        # Entries of A are sums of +-1, but for the rounding of whitening: other than t I, a round is not whole.
        if n % self.rule.arms.round_length or np.abs(estimate.A - n * np.eye(dim)).max() > 1e-9 * n:
            return math.inf
        return self.rule.noise_std**2 * coordinate_threshold(n, dim, self.rule.delta)

    def _verdict(
        self,
        leader: int | None,
        statistic: float,
        threshold: float,
        *,
        is_reached: bool = False,
        is_bound: bool = False,
        is_exact: bool = True,
    ) -> Verdict:
        return Verdict(
            stopped=is_reached,
            leader=leader,
            rival=None,
            statistic=statistic,
            threshold=threshold,
            is_exact=is_exact,
            is_bound=is_bound,
            evidence=statistic if self.rule.name == "evidence" else None,
            rule=self.rule.name,
            guarantee=self.rule.guarantee,
        )
