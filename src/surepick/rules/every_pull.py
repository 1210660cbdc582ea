"""Rules that decide after every pull, driven like those that decide between intervals.

The evidence, GLR and pairwise rules are valid for any sampling, so they need no intervals: the candidates they
compare are all of them, unless they eliminate, and the leader is the best estimate.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.arms import ArmSet
from surepick.core.block import Block
from surepick.core.estimate import Estimate, LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.rules.ridge import RidgeEstimate
from surepick.rules.stopping import EvidenceRule, GLRRule, PairwiseRule
from surepick.rules.verdict import StoppingState, Verdict

SMALLEST_REGULARIZER = 1e-15


@final
@dataclass(frozen=True, slots=True)
class EveryPull:
    """A rule checked after every pull; with `is_ridge` it reads the ridge estimate of its first regulariser.

    `is_fixed_design`: its guarantee covers pulls that depend on no reward, hence no unsolicited results.
    """

    rule: EvidenceRule | GLRRule | PairwiseRule
    is_ridge: bool = False
    is_fixed_design: bool = False

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.rule.name

    @property
    def guarantee(self) -> Guarantee:
        """What is proved about it."""
        return self.rule.guarantee

    def regularizers(self, dim: int) -> Array:
        """Return the matrices (J, d, d) whose log-determinants the estimate must follow.

        Raises:
            InvalidInput: one is so small beside the arms, of size 1 in whitened coordinates, that A plus it is singular
                to rounding until the pulls span.
        """
        V = self.rule.regularizers(dim)
        least = float(np.linalg.eigvalsh(V).min(initial=np.inf)) if np.isfinite(V).all() else np.inf
        if least < SMALLEST_REGULARIZER:
            raise InvalidInput(
                f'the rule "{self.name}" needs a regulariser of at least {SMALLEST_REGULARIZER:g} beside arms of size '
                f"1, got {least:.3g}; use features of similar size, a larger `ridge` or `regularizer`, or a rule "
                'without one such as "betting".'
            )
        return V

    def work_on(self, candidates: ArmSet) -> "EveryPullState":
        """Return a fresh state for these candidates."""
        return EveryPullState(self.rule.start(candidates), candidates, is_ridge=self.is_ridge)


@final
class EveryPullState:
    """Such a rule at work."""

    def __init__(self, state: StoppingState, candidates: ArmSet, *, is_ridge: bool) -> None:
        self._state, self._candidates, self._is_ridge = state, candidates, is_ridge

    def _read(self, estimate: LeastSquares) -> Estimate:
        return RidgeEstimate(estimate) if self._is_ridge else estimate

    def leader(self, estimate: LeastSquares) -> int:
        """Return the candidate with the best estimate."""
        return self._candidates.best(self._read(estimate).theta)

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates the leader has yet to be separated from; None means all."""
        return self._state.alive(leader)

    def open(self, estimate: LeastSquares, leader: int) -> None:
        """Nothing to fix in advance."""

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        return self._state.check(self._read(estimate))

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Scan all candidates."""
        return self._state.look(self._read(estimate))

    def after_interval(self, estimate: LeastSquares, block: Block) -> None:
        """Nothing: the last pull was checked already."""
