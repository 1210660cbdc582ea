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

Practical: the same designs for the pairs left, on all data. Who is left is up to the stopping rule: betting by default,
which settles in blocks by schedule, so that nobody waits for a phase's end. A design depends on who is left and on
nothing else, so a new one is made as soon as somebody has gone. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.view import Task
from surepick.core.checks import check_number
from surepick.core.design import Design
from surepick.core.design.pairs import pairwise_design
from surepick.core.linalg import IntArray
from surepick.errors import InvalidInput
from surepick.sampling.phases import (
    EvenlySpread,
    PlannedBlocks,
    Proportions,
    candidates_left,
    proportions_of,
    without_idle_arms,
)
from surepick.sampling.protocol import Sampler, Situation
from surepick.stopping.phases import Phases
from surepick.stopping.protocol import Rule

Constants = Literal["public-code", "printed"]


@final
@dataclass(frozen=True, kw_only=True)
class Rage(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        constants: of the paper variant, "public-code" or "printed".
        rounding_slack: the eps of the paper variant.
    """

    constants: Constants = "public-code"
    rounding_slack: float = 0.1
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = self.is_paper
        phases = RagePhases(task, self.constants, self.rounding_slack)
        if self.is_own_rule:
            rule: Rule = Phases(
                price=phases.price,
                accuracy=phases.accuracy if self.constants == "printed" else None,
                name="rage",
            )
        else:
            rule = self.rule("betting")
        if is_paper:
            return RageSampler(task, phases), rule
        return PlannedBlocks(task.spanning, RagePlanner(task), self.times(rule)), rule


@final
class RagePhases:
    """The constants of phase t = 1, 2, ..."""

    def __init__(self, task: Task, constants: Constants, slack: float) -> None:
        if constants not in ("public-code", "printed"):
            raise InvalidInput(f"`constants` must be 'public-code' or 'printed', got {constants!r}.")
        self.slack = check_number("rounding_slack", slack, needed="a number between 0 and 1")
        if not 0.0 < self.slack < 1.0:
            raise InvalidInput(f"`rounding_slack` must be between 0 and 1, got {self.slack}; 0.1 is usual.")
        self.is_printed = constants == "printed"
        self._task = task

    def price(self, t: int) -> float:
        """Return the log of tests over risk, log(|Z|^2/delta_t) or with 2 |Z|^2."""
        n_tests = self._task.rivals.n_arms**2 * (1 if self.is_printed else 2)
        return math.log(n_tests) + 2.0 * math.log(t) - math.log(self._task.delta)

    def accuracy(self, t: int) -> float:
        """Return the lag that rejects in the printed version, in the unit of the rewards."""
        return 2.0 ** -(t + 2)

    def n_pulls(self, t: int, proportions: Proportions) -> int:
        """Return N_t."""
        factor = 2.0 ** (t + 1) if self.is_printed else 2.0 ** (t - 1)
        dim, size = self._task.rows.dim, len(proportions.arms)
        least = (dim * (dim + 1) / 2 + 1) / self.slack if self.is_printed else 2 * size / self.slack
        wanted = 8.0 * (factor * self._task.noise_std) ** 2 * proportions.value * (1.0 + self.slack) * self.price(t)
        return math.ceil(max(wanted, least, size))


@final
class RageSampler:
    """The paper's phases: one interval each."""

    def __init__(self, task: Task, phases: RagePhases) -> None:
        self._task, self._phases = task, phases
        self._t = 0
        self._design: Design | None = None
        self._pulls: EvenlySpread | None = None

    def open(self, situation: Situation) -> int:
        """Design the next phase for the pairs left."""
        task = self._task
        self._t += 1
        rows = task.rivals.gather(candidates_left(situation, task.rivals.n_arms))
        self._design = pairwise_design(task.rows, rows, warm_start=self._design)
        # Before there is an estimate the arms pulled must span, needed for the differences or not.
        proportions = (
            proportions_of(self._design)
            if situation.theta is None
            else without_idle_arms(self._design, task.rows, rows, is_pairs=True)
        )
        self._pulls = EvenlySpread(proportions.arms, proportions.round(self._phases.n_pulls(self._t, proportions)))
        return self._pulls.n

    def next(self) -> int:
        """Return the next arm of the phase; beyond its end, in the same proportions."""
        assert self._pulls is not None
        return self._pulls.next()

    def pulls_per_nat(self) -> float:
        """Return inf: a design for all pairs does not tell what the last one costs."""
        return math.inf


@final
class RagePlanner:
    """The practical phases: the design for the pairs left, renewed when somebody has gone."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._left: IntArray | None = None
        self._design: Design | None = None
        self._proportions: Proportions | None = None

    def plan(self, situation: Situation) -> Proportions:
        """Return the design for the pairs left."""
        task = self._task
        left = candidates_left(situation, task.rivals.n_arms)
        # Same pairs, same design: what a new phase changes besides is how long to follow it, which the rule decides.
        if self._proportions is None or self._left is None or not np.array_equal(left, self._left):
            rows = task.rivals.gather(left)
            self._design = pairwise_design(task.rows, rows, warm_start=self._design)
            self._proportions = without_idle_arms(self._design, task.rows, rows, is_pairs=True)
            self._left = left
        return self._proportions

    def pulls_per_nat(self) -> float:
        """Return inf: a design for all pairs does not tell what the last one costs."""
        return math.inf
