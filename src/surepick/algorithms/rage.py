"""RAGE (Fiez, Jain, Jamieson and Ratliff 2019): phases of doubling accuracy, each designed for all pairs left.

    phase t         candidates left Z_t, directions Y_t = {z - z'}, w_t and rho_t = min over w of max |y|^2 in the norm
                    of A(w)^-1
    pulls           N_t of them in the proportions w_t by efficient rounding, at least r(eps)
    elimination     least squares from the pulls of this phase alone; z goes if some z' is clearly better
    stopping        when one candidate is left

with delta_t = delta/t^2 and a rounding slack eps. The paper and its public code have different constants:

    "printed"       N_t = 8 (2^(t+1))^2 rho_t (1 + eps) log(|Z|^2/delta_t), z goes if it is behind by 2^-(t+2)
    "public-code"   N_t = 8 (2^(t-1))^2 rho_t (1 + eps) log(2 |Z|^2/delta_t), z goes if it is behind by its own width
                    sqrt(2 |y|^2 log(2 |Z|^2/delta_t)), |y| in the norm of the phase's A^-1

both times noise_std^2. The published tables are from the code. As printed the risks delta/t^2 sum to 1.64 delta; yet
nothing needs to change: the tests that can hurt are those of the best candidate against the |Z| - 1 others, each fails
with probability delta_t/|Z|^2 (half of that in the code), and (|Z| - 1)/|Z|^2 <= 1/4. So the error is at most
0.42 delta, or 0.21 delta, and both are labelled proved. Departures: designs are certified instead of stopped by step
size; |Z| counts the candidates (the code counts the arms); with "printed" a candidate must be behind by its width too,
which the phase's length implies unless pulls failed.

Practical: the same designs for the pairs left, on all data. The stopping rule says which candidates are left: betting
by default, which settles in blocks by schedule, so that no rejection waits for the end of a phase. A design depends on
the candidates left alone, so a new one is made as soon as one has gone. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.checks import check_fraction
from surepick.sampling.base import SamplerContext
from surepick.sampling.phases import Designs, EvenlySpread, PhasedSampler, PracticalPhases, candidates_left
from surepick.stopping.base import Rule
from surepick.stopping.phases import Phases
from surepick.types import IntArray


@final
@dataclass(frozen=True, kw_only=True)
class Rage(Options):
    """RAGE: phases of doubling accuracy, each with a design for all pairs left.

    Args:
        constants: of the paper variant, "public-code" or "printed".
        rounding_slack: the eps of the paper variant.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "rage", n_runs=5, seed=0).mean
        73.6

    References:
        Fiez, Jain, Jamieson and Ratliff (2019), "Sequential experimental design for transductive linear bandits".
    """

    plans_with_noise: ClassVar[bool] = True
    constants: Literal["public-code", "printed"] = "public-code"
    rounding_slack: float = 0.1
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[PhasedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        slack = check_fraction("rounding_slack", self.rounding_slack)
        is_printed = self.constants == "printed"
        phases = RagePhases(task, slack, is_printed=is_printed)
        accuracy = phases.accuracy if is_printed else None
        own = Phases(price=phases.price, accuracy=accuracy, name="rage")
        rule = own if self.is_own_rule else self.rule("betting")
        planner = phases if self.is_paper else PracticalPhases(task, self.times(rule), WhenCandidatesGo())
        return PhasedSampler(planner), rule


@final
class RagePhases:
    """The paper's phases t = 1, 2, ..., one block each."""

    def __init__(self, task: Task, slack: float, *, is_printed: bool) -> None:
        self._task, self._slack, self._is_printed = task, slack, is_printed
        self._t, self._designs = 0, Designs(task)

    def price(self, t: int) -> float:
        """Return the log of tests over risk, log(|Z|^2/delta_t) or with 2 |Z|^2."""
        n_tests = self._task.rivals.n_arms**2 * (1 if self._is_printed else 2)
        return math.log(n_tests) + 2.0 * math.log(t) - math.log(self._task.delta)

    def accuracy(self, t: int) -> float:
        """Return the lag that rejects in the printed version, in the unit of the rewards."""
        return 2.0 ** -(t + 2)

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Design the next phase for the pairs left: N_t pulls, at least r(eps)."""
        self._t += 1
        task, t, slack = self._task, self._t, self._slack
        # Before there is an estimate the arms pulled must span, even where the differences do not need it.
        left = candidates_left(context, task.rivals.n_arms)
        chosen = self._designs.next(left, is_whole=context.theta is None)
        dim, factor = task.rows.dim, 2.0 ** (t + 1) if self._is_printed else 2.0 ** (t - 1)
        least = (dim * (dim + 1) / 2 + 1) / slack if self._is_printed else 2 * len(chosen.arms) / slack
        wanted = 8.0 * (factor * task.noise_std) ** 2 * chosen.value * (1.0 + slack) * self.price(t)
        return chosen.pulls(max(wanted, least))


@final
class WhenCandidatesGo:
    """Ends a practical phase when a candidate has gone: the same pairs keep the same design."""

    def __init__(self) -> None:
        self._left: IntArray | None = None

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether the candidates left have changed."""
        before, self._left = self._left, left
        return before is None or not np.array_equal(left, before)
