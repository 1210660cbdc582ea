"""Linear sequential halving (Alieva et al. 2021): a fixed budget in phases, designed for the differences of those left.

    phases          R = ceil(log2 K) for K candidates, of T/R pulls each
    design          over all arms, for the differences of the candidates left, in whole pulls by efficient rounding
    elimination     least squares of the phase's own results; half of the candidates go on, rounded up
    answer          the last one left

A losing arm is pulled as long as it tells candidates apart. Without features (a basis) this is sequential halving.

Proved: docs/guarantee.md, Theorem 43, with |z* - z|^2 <= rho/N in a phase of N pulls, rho the value of its design.
`cumulative` takes the estimate from all results so far. It errs less often in every measurement of
`benchmarks.fixed_budget`; the arms of a phase then depend on results that the estimate counts, and nothing is proved.

Practical: cumulative, and betting says what is proved. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from surepick.algorithms.budget import PhasedBudget
from surepick.arms.views import Task
from surepick.sampling.budget import Phasing
from surepick.sampling.phases import EvenlySpread
from surepick.types import IntArray


@final
@dataclass(frozen=True, kw_only=True)
class LinHalving(PhasedBudget):
    """Linear sequential halving: every phase is designed for the differences left, and leaves half of the candidates.

    Args:
        cumulative: whether the estimate is of all results, in the paper variant; else of the phase's own.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "lin-halving", n_runs=50, seed=0, **options).error_rate
        0.0

    References:
        Alieva, Cutkosky and Das (2021), "Robust pure exploration in linear bandits with limited budget".
    """

    method: ClassVar[str] = "lin-halving"
    cumulative: bool = False

    @property
    def is_cumulative(self) -> bool:
        """Whether the paper variant estimates from all results."""
        return self.cumulative

    def phasing(self, task: Task) -> "HalvingPhases":
        """Return the phases."""
        return HalvingPhases(task)


@final
class HalvingPhases(Phasing):
    """The phases of linear sequential halving."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, (task.rivals.n_arms - 1).bit_length())

    def pulls(self, r: int, left: IntArray) -> EvenlySpread:
        """Return T/R pulls in the proportions of the design."""
        return self.designs.of_pairs(left).pulls(self.share(r))

    def keep(self, r: int, ordered: IntArray) -> int:
        """Return half of the candidates, rounded up."""
        return math.ceil(len(ordered) / 2)
