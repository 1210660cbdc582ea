"""Peace (Katz-Samuels, Jain, Karnin and Jamieson 2020): a fixed budget in phases that halve what is left to resolve.

    phases          R = ceil(log2 rho(Z)), of T/R pulls each; rho(S) the value of the design for the differences of S
    design          over all arms, for the differences of the candidates left, in whole pulls by efficient rounding
    elimination     least squares of the phase's own results; sorted by estimate, the most candidates go on for which
                    rho is at most half of what it was
    answer          the best of the last phase

The paper has gamma(S), the smallest over w of (E max over S of (z - z')'A(w)^-1/2 g)^2 for normal g, in the place of
rho. Public codes of comparisons take rho, which is certified here. A phase solves about log2 K designs, which are kept.
One public code adds up the results of all phases (`cumulative`). Another stops when one candidate is left, which may
leave half of the pulls unmade; so does the paper variant here. Nothing is proved here of its answer.

Practical: all results count for the estimate, betting says what is proved, and all pulls are made, the last ones by the
last design. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.budget import PhasedBudget
from surepick.arms.views import Task
from surepick.sampling.budget import Phasing, SetDesigns
from surepick.sampling.phases import EvenlySpread
from surepick.types import IntArray


@final
@dataclass(frozen=True, kw_only=True)
class Peace(PhasedBudget):
    """Peace: every phase is designed for the differences left, and halves the value of that design.

    Args:
        cumulative: whether the estimate is of all results, in the paper variant; else of the phase's own.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "peace", n_runs=50, seed=0, **options).error_rate
        0.0

    References:
        Katz-Samuels, Jain, Karnin and Jamieson (2020), "An empirical process approach to the union bound: practical
        algorithms for combinatorial and linear bandits".
    """

    method: ClassVar[str] = "peace"
    cumulative: bool = False

    @property
    def is_cumulative(self) -> bool:
        """Whether the paper variant estimates from all results."""
        return self.cumulative

    def phasing(self, task: Task) -> "PeacePhases":
        """Return the phases."""
        return PeacePhases(task)


@final
class PeacePhases(Phasing):
    """The phases of Peace."""

    def __init__(self, task: Task) -> None:
        rho = SetDesigns(task).of_pairs(np.arange(task.rivals.n_arms)).value
        super().__init__(task, math.ceil(math.log2(max(rho, 2.0))))

    def pulls(self, r: int, left: IntArray) -> EvenlySpread:
        """Return T/R pulls in the proportions of the design."""
        return self.designs.of_pairs(left).pulls(self.share(r))

    def keep(self, r: int, ordered: IntArray) -> int:
        """Return the most candidates whose rho is at most half of that of all of them, by bisection."""
        limit = 0.5 * self._rho(ordered)
        few, many = 1, len(ordered)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self._rho(ordered[:middle]) <= limit else (few, middle)
        return few

    def _rho(self, candidates: IntArray) -> float:
        left = np.sort(candidates)
        return 0.0 if self.designs.are_copies(left) else self.designs.of_pairs(left).value
