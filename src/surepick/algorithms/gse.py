"""GSE (Azizi, Kveton and Ghavamzadeh 2022): a fixed budget in phases, after each of which half of the arms are left.

    phases          R = ceil(log_eta K), of T/R pulls each
    design          G-optimal for the arms left, by the arms left, in the space that they span, in whole pulls by
                    efficient rounding
    elimination     least squares of the phase's own results; the best 1/eta of the arms go on, rounded up
    answer          the last one left

Dropped arms are not pulled again, as in OD-LinBAI, and with the same consequence. Proved: docs/guarantee.md, Theorem
43, P(wrong) <= eta R exp(-N gap^2/(8 noise_std^2 d)) for phases of N pulls and the smallest gap, up to rounding. The
public code keeps the best 1/eta rounded down, and makes ceil(N w_i) pulls of each arm, which spends more than T.

Practical: all results count for the estimate, and betting says what is proved.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from surepick.algorithms.budget import PhasedBudget
from surepick.arms.views import Task
from surepick.core.checks import check_count
from surepick.sampling.budget import Phasing
from surepick.sampling.phases import EvenlySpread
from surepick.types import IntArray


@final
@dataclass(frozen=True, kw_only=True)
class GSE(PhasedBudget):
    """GSE: generalised successive elimination by the G-optimal design of the arms left.

    Args:
        eta: a phase keeps one arm in `eta`, such as one in two.

    Examples:
        >>> import surepick as sp
        >>> problem, options = sp.problems.soare(3, angle=0.5), {"budget": 60, "goal": "fixed-budget"}
        >>> sp.simulate(problem, "gse", n_runs=50, seed=0, **options).error_rate
        0.08

    References:
        Azizi, Kveton and Ghavamzadeh (2022), "Fixed-budget best-arm identification in structured bandits".
    """

    method: ClassVar[str] = "gse"
    pulls_candidates: ClassVar[bool] = True
    eta: int = 2

    def phasing(self, task: Task) -> "GSEPhases":
        """Return the phases."""
        return GSEPhases(task, check_count("eta", self.eta, least=2))


def sizes_of(n: int, eta: int = 2) -> list[int]:
    """Return how many candidates are left after each phase, from n down to one."""
    sizes = []
    while n > 1:
        n = math.ceil(n / eta)
        sizes.append(n)
    return sizes


@final
class GSEPhases(Phasing):
    """The phases of GSE."""

    def __init__(self, task: Task, eta: int) -> None:
        self._eta = eta
        super().__init__(task, len(sizes_of(task.rows.n_arms, eta)))

    def pulls(self, r: int, left: IntArray) -> EvenlySpread:
        """Return T/R pulls in the proportions of the design."""
        return self.designs.of_values(left).pulls(self.share(r))

    def keep(self, r: int, ordered: IntArray) -> int:
        """Return one arm of eta, rounded up."""
        return math.ceil(len(ordered) / self._eta)
