"""OD-LinBAI (Yang and Tan 2022): a fixed budget in log2 d phases of the G-optimal design of the arms that are left.

    phases          R = ceil(log2 d), of about m pulls each (`pulls_of_phase`)
    design          G-optimal for the arms left, by the arms left, in the space that they span; arm i is pulled
                    ceil(w_i m) times
    elimination     least squares of the phase's own results; the ceil(d/2^r) best go on
    answer          the last one left

An arm that has been dropped is not pulled again, however much it would tell about the others. Where a losing arm is the
informative one, as on Soare's problem, the last phase compares two nearly equal arms by their own pulls alone.

One feature (d = 1) has R = 0 in the paper, and one phase here. A budget for which m is not above 0 is refused; public
code answers at random then. Arms whose estimates tie keep their order. Proved: docs/guarantee.md, Theorem 43; the
paper's bound with H_{2,lin} has the same form.

Practical: all results count for the estimate, betting says what is proved, and pulls that rounding leaves are made.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.budget import PhasedBudget
from surepick.arms.views import Task
from surepick.errors import InvalidInput
from surepick.sampling.budget import Phasing
from surepick.sampling.phases import EvenlySpread
from surepick.types import IntArray


@final
@dataclass(frozen=True, kw_only=True)
class ODLinBAI(PhasedBudget):
    """OD-LinBAI: the G-optimal design of the arms left, of which every phase keeps half as many as features.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "od-linbai", n_runs=50, seed=0, **options).error_rate
        0.06

    References:
        Yang and Tan (2022), "Minimax optimal fixed-budget best arm identification in linear bandits".
    """

    method: ClassVar[str] = "od-linbai"
    pulls_candidates: ClassVar[bool] = True

    def phasing(self, task: Task) -> "ODPhases":
        """Return the phases."""
        return ODPhases(task)


def n_phases_of(dim: int) -> int:
    """Return ceil(log2 d), at least 1."""
    return max(1, (dim - 1).bit_length())


def pulls_of_phase(budget: int, n_arms: int, dim: int) -> float:
    """Return m, the pulls of a phase before rounding: all of them together, rounded up, stay within the budget."""
    n = n_phases_of(dim)
    rounding: int = min(n_arms, dim * (dim + 1) // 2) + sum(-(-dim // 2**r) for r in range(1, n))
    return (budget - rounding) / n


@final
class ODPhases(Phasing):
    """The phases of OD-LinBAI."""

    def __init__(self, task: Task) -> None:
        self._dim: int = task.rows.dim
        super().__init__(task, n_phases_of(self._dim))
        self._m = pulls_of_phase(self.budget, task.rows.n_arms, self._dim)
        if not self._m > 0.0:
            least = math.floor(self.budget - self._m * self.n_phases) + 1
            raise InvalidInput(
                f"`budget` must be at least {least} for od-linbai on {task.rows.n_arms} arms with {self._dim} "
                f"features, got {self.budget}; its phases would have no pulls."
            )

    def pulls(self, r: int, left: IntArray) -> EvenlySpread:
        """Return ceil(w_i m) pulls of each arm of the design."""
        design = self.designs.of_values(left)
        return EvenlySpread(design.arms, np.ceil(design.weights * self._m).astype(np.int64))

    def keep(self, r: int, ordered: IntArray) -> int:
        """Return ceil(d/2^r)."""
        return math.ceil(self._dim * 0.5**r)
