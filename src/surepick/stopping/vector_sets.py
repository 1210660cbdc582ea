"""Rules on sets of vectors: evidence, mix-grid, the printed rule of the sphere, and one test per coordinate.

Notation: whitened coordinates; Z'(F) the statistic of `arms.base` for F F' = A^-1; m the length of a round. All
rules decide after whole rounds, at nearly no extra pulls.

    evidence         stop when the log e-value of `arms.numbered` reaches log(1/delta)
    mix-grid         stop when Z'(F)/noise_std^2 reaches xi, the root in `core.thresholds.mix_grid_threshold` with the
                     regularisers 4^j m
    paper            the rule printed for the sphere, `arms.sphere.printed_rule`
    per-coordinate   the hypercube under its own fixed design, one test per coordinate at risk delta/d

Each rule is a function from task and estimate to a verdict without its leader; `VectorState` adds the leader.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from surepick.arms.hypercube import Hypercube, coordinate_threshold
from surepick.arms.numbered import pair_evidence, vector_evidence
from surepick.arms.sphere import Sphere, printed_rule
from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.core.noise import noise_to_assume
from surepick.core.thresholds import MIX_GRID, mix_grid_threshold
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, Guarantee

# Relative room below the threshold when the search is skipped; see `scan.MARGIN`.
MARGIN = 1e-6

Look = Callable[[Task, LeastSquares], Verdict]
"""Returns the verdict without its leader; needs an estimate."""


class VectorState(RuleState):
    """A rule on a set of vectors, checked after whole rounds."""

    def __init__(self, task: Task, look: Look) -> None:
        super().__init__(task)
        self._look = look

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Check the rule."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return the verdict."""
        if not estimate.has_theta:
            return Verdict(threshold=math.log(1.0 / self.task.delta))
        return replace(self._look(self.task, estimate), leader=self.leader(estimate))


@final
class VectorEvidenceState(VectorState):
    """The evidence rule; it searches the whole set only if the last rival is refuted."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, self._search)
        self._rival: Array | None = None
        self._limit = math.log((2.0 if task.given_noise_std is None else 1.0) / task.delta)

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Check the rule."""
        if self._rival is not None and estimate.has_theta:
            task = self.task
            # The evidence against one arm is an upper bound on the evidence against all of them.
            most = pair_evidence(task.vectors, estimate, self._rival, task.epsilon, self._noise(estimate))
            if most < (1.0 - MARGIN) * self._limit:
                return Verdict(statistic=most, threshold=self._limit, is_exact=False)
        return self.exact(estimate)

    def _search(self, task: Task, estimate: LeastSquares) -> Verdict:
        noise_std = self._noise(estimate)
        value, is_bound, self._rival = vector_evidence(task.vectors, estimate, task.epsilon, noise_std=noise_std)
        return Verdict(stopped=value >= self._limit, statistic=value, threshold=self._limit, is_bound=is_bound)

    def _noise(self, estimate: LeastSquares) -> float:
        return noise_to_assume(estimate, self.task.given_noise_std, self.task.delta)[0]


def compared(task: Task, estimate: LeastSquares, threshold: float) -> Verdict:
    """Compare Z'/noise_std^2 with a threshold."""
    confusion = task.vectors.confusion(estimate.theta, estimate.factor(), task.epsilon)
    value = confusion.value / task.noise_std**2
    return Verdict(stopped=value >= threshold, statistic=value, threshold=threshold, is_bound=not confusion.is_exact)


@final
@dataclass(frozen=True, kw_only=True)
class MixGrid(Rule):
    """Stop when Z' reaches the threshold of a grid of regularisers (Theorem 20). Guarantee: proved."""

    takes_vectors: ClassVar[bool] = True
    name: str = field(default="mix-grid", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    def _limits(self, task: Task) -> Iterator[str]:
        yield from super()._limits(task)
        if task.candidates.is_enumerable:
            yield (
                f"stopping='mix-grid' needs a set of vectors such as a sphere, got {task.candidates.description}; use "
                "'betting' or 'evidence'."
            )

    def start(self, task: Task) -> VectorState:
        """Return a fresh state."""
        return VectorState(task, mix_grid)


def mix_grid(task: Task, estimate: LeastSquares) -> Verdict:
    """Return the verdict of the mix-grid rule."""
    grid = Mixture.uniform(task.vectors.round_length * MIX_GRID.scales)
    smallest, logdets = np.linalg.eigvalsh(estimate.A)[0], grid.logdets(estimate.A)
    threshold = mix_grid_threshold(logdets, smallest, delta=task.delta, noise_std=1.0, mixture=grid)
    return compared(task, estimate, float(threshold))


@final
@dataclass(frozen=True, kw_only=True)
class PerCoordinate(Rule):
    """One test per coordinate of the hypercube, under its own fixed design (Theorem 21). Guarantee: proved."""

    takes_vectors: ClassVar[bool] = True
    takes_corrections: ClassVar[bool] = False  # only whole rounds count
    name: str = field(default="per-coordinate", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    @property
    def is_fixed_design(self) -> bool:
        """Return True: each coordinate is a random walk only if no reward influences the arms."""
        return True

    def _limits(self, task: Task) -> Iterator[str]:
        yield from super()._limits(task)
        if not isinstance(getattr(task.arms, "vectors", None), Hypercube) or task.epsilon > 0.0:
            came = task.arms.description + (f" with epsilon = {task.epsilon:g}" if task.epsilon > 0.0 else "")
            yield f"stopping='per-coordinate' is for a hypercube and epsilon = 0, got {came}; use 'evidence'."

    def start(self, task: Task) -> VectorState:
        """Return a fresh state."""
        return VectorState(task, per_coordinate)


def per_coordinate(task: Task, estimate: LeastSquares) -> Verdict:
    """Return the verdict of the rule for the hypercube."""
    n, dim = estimate.n_pulls, estimate.dim
    # Entries of A are sums of +-1, up to the rounding of whitening. If A differs from t I, a round is not whole.
    is_whole = n % task.vectors.round_length == 0 and np.abs(estimate.A - n * np.eye(dim)).max() <= 1e-9 * n
    return compared(task, estimate, coordinate_threshold(n, dim, task.delta) if is_whole else math.inf)


@final
@dataclass(frozen=True, kw_only=True)
class PrintedSphere(Rule):
    """The rule printed in the paper for the unit sphere."""

    takes_vectors: ClassVar[bool] = True
    name: str = field(default="paper", init=False)
    guarantee: Guarantee = field(default="proved", init=False)

    @staticmethod
    def suits(task: Task) -> bool:
        """Return whether the arms are a unit sphere."""
        return isinstance(getattr(task.arms, "vectors", None), Sphere)

    def _limits(self, task: Task) -> Iterator[str]:
        yield from super()._limits(task)
        if not self.suits(task):
            yield (
                f"stopping='paper' is the rule printed for the unit sphere, got {task.arms.description}; use "
                "'evidence'."
            )

    def start(self, task: Task) -> VectorState:
        """Return a fresh state."""
        warnings.warn(
            "the rule printed in the paper needs 10^3 to 10^4 times the pulls of stopping='evidence': its second "
            "condition, which the paper's own proof leaves out, grows like log(1/delta) squared.",
            stacklevel=2,
        )
        return VectorState(task, printed)


def printed(task: Task, estimate: LeastSquares) -> Verdict:
    """Return the verdict of the printed rule."""
    onto, variance = task.vectors.map, task.noise_std**2
    theta, F = onto @ estimate.theta, onto @ estimate.factor()
    reading = printed_rule(estimate.n_pulls, theta, F, epsilon=task.epsilon, delta=task.delta, noise_std=task.noise_std)
    return Verdict(
        stopped=reading.is_reached, statistic=reading.statistic / variance, threshold=reading.threshold / variance
    )
