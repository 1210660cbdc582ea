"""The base class of phased methods with a fixed budget, and why a method refuses a task without one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.sampling.budget import BudgetPhases, Phasing
from surepick.sampling.phases import PhasedSampler
from surepick.stopping.base import Rule
from surepick.stopping.last_left import LastLeft


def needs_budget(name: str, task: Task, *, pulls_candidates: bool = False) -> str | None:
    """Return why a method with a fixed budget cannot do a task; None if it can.

    Args:
        name: of the method.
        task: the task.
        pulls_candidates: whether the method pulls the candidates themselves.
    """
    if task.budget is None:
        return (
            f'`budget` must be given to {name}, which plans for it: budget=1000, goal="fixed-budget". Without one use '
            '"lazy-track-and-stop", which stops by itself.'
        )
    if pulls_candidates and task.candidates is not task.arms:
        return (
            f"{name} pulls the arms that it compares, and takes neither `candidates` nor a noise_std for each arm; "
            'use "lin-halving".'
        )
    return None


@dataclass(frozen=True, kw_only=True)
class PhasedBudget(Options, ABC):
    """Phases for a number of pulls that is given, `budget`.

    Practical: the estimate that says which candidates go on is from all results, the answer is the best estimate of all
    results, and betting says what is proved of it. Paper: the rule `LastLeft`.
    """

    method: ClassVar[str]
    """Name of the method."""
    plans_budget: ClassVar[bool] = True
    pulls_candidates: ClassVar[bool] = False
    elimination: bool | None = None

    def unsupported(self, task: Task) -> str | None:
        """Return why the task cannot be done; None if it can."""
        return needs_budget(self.method, task, pulls_candidates=self.pulls_candidates)

    def compose(self, task: Task) -> tuple[PhasedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        phasing = self.phasing(task)
        own = LastLeft(keep=phasing.keep, n_phases=phasing.n_phases, cumulative=self.is_cumulative, name=self.method)
        rule = own if self.is_own_rule else self.rule("betting")
        return PhasedSampler(BudgetPhases(task, phasing, is_own=self.is_own_rule)), rule

    @property
    def is_cumulative(self) -> bool:
        """Whether the paper variant estimates from all results."""
        return False

    @abstractmethod
    def phasing(self, task: Task) -> Phasing:
        """Return phases, designs and how many candidates go on."""
