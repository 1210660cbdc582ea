"""A fixed number of pulls in phases: a design for the candidates left, and after each phase the best of them go on.

Notation: T pulls in all; phases r = 1, ..., R; S_r the candidates left in phase r; rho(S) = min over w of the largest
|z - z'|^2 in the norm of A(w)^-1 over pairs of S.

Designs are solved afresh for every set S, so they depend on S alone. Those of a list of arms are kept as long as the
list: thousands of simulated runs meet the same few sets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task
from surepick.core.design.solve import optimal_design, pairwise_design
from surepick.errors import InvalidInput
from surepick.sampling.base import SamplerContext
from surepick.sampling.phases import TOL, EvenlySpread, Proportions, candidates_left, proportions_of, without_idle_arms
from surepick.types import IntArray

# Singular values of a set of rows below this share of the largest are rounding.
SPAN_TOL = 1e-9
# Designs that a list of arms keeps.
MOST_KEPT = 10_000

_KEPT: WeakKeyDictionary[ArmSet, dict[tuple[str, bytes], Proportions]] = WeakKeyDictionary()


@final
class SetDesigns:
    """Designs for sets of candidates of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        is_plain = task.candidates is task.arms and task.rows.stds is None
        self._kept = _KEPT.setdefault(task.rows.arms, {}) if is_plain else {}

    def of_values(self, left: IntArray) -> Proportions:
        """Return the G-optimal design of these arms by themselves; its value is the dimension that they span."""
        return self._known("values", left, self._of_values)

    def of_pairs(self, left: IntArray) -> Proportions:
        """Return the design over all arms for the differences of these candidates; its value is rho(S)."""
        return self._known("pairs", left, self._of_pairs)

    def are_copies(self, left: IntArray) -> bool:
        """Return whether these candidates have the same features, and so nothing tells them apart."""
        return len(left) == 1 or bool(np.isin(left, self._task.rivals.copies(int(left[0]))).all())

    def _known(self, kind: str, left: IntArray, solve: Callable[[IntArray], Proportions]) -> Proportions:
        key = kind, left.tobytes()
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = found = solve(left)
        return found

    def _of_values(self, left: IntArray) -> Proportions:
        rows = self._task.rows.gather(left)
        _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
        inside = FiniteArms(rows @ axes[sizes > SPAN_TOL * sizes[0]].T)
        design = optimal_design(inside, tol=TOL)
        own = without_idle_arms(design, inside, inside.X, is_pairs=False)
        return Proportions(left[own.arms], own.weights, own.value)

    def _of_pairs(self, left: IntArray) -> Proportions:
        arms, rows = self._task.rows, self._task.rivals.gather(left)
        design = pairwise_design(arms, rows, tol=TOL)
        # The first design is for all candidates. Its arms must span, which idle arms may be needed for.
        is_whole = len(left) == self._task.rivals.n_arms
        return proportions_of(design) if is_whole else without_idle_arms(design, arms, rows, is_pairs=True)


def check_phases(task: Task, n_phases: int) -> None:
    """Refuse a budget that gives a phase fewer pulls than there are features."""
    least = n_phases * task.rows.dim
    if task.budget is not None and task.budget < least:
        raise InvalidInput(
            f"`budget` must be at least {least}: {n_phases} phases of as many pulls as there are features, got "
            f'{task.budget}; give more, or use "lazy-track-and-stop".'
        )


class Phasing(ABC):
    """The part in which phased methods differ; it keeps no state of a run.

    Args:
        task: the task, with a budget.
        n_phases: R.
    """

    def __init__(self, task: Task, n_phases: int) -> None:
        assert task.budget is not None
        self.budget, self.n_phases, self.designs = task.budget, max(n_phases, 1), SetDesigns(task)
        check_phases(task, self.n_phases)

    def share(self, r: int) -> int:
        """Return the pulls of phase r where all are equally long; the last has the remainder too."""
        each = self.budget // self.n_phases
        return each if r < self.n_phases else self.budget - (self.n_phases - 1) * each

    @abstractmethod
    def pulls(self, r: int, left: IntArray) -> EvenlySpread:
        """Return the pulls of phase r with these candidates left."""

    @abstractmethod
    def keep(self, r: int, ordered: IntArray) -> int:
        """Return how many candidates go on after phase r; `ordered` has those left, the best first."""


@final
class BudgetPhases:
    """The planner of a phased method: one block is one phase.

    Args:
        task: the task of the run.
        phasing: the method.
        is_own: whether the rule drops candidates. Else the best go on by the estimate from all results, and pulls
            that are left after the last phase follow its design.
    """

    def __init__(self, task: Task, phasing: Phasing, *, is_own: bool) -> None:
        self._task, self._phasing, self._is_own = task, phasing, is_own
        self._left, self._r = np.arange(task.rivals.n_arms), 0
        self._pulls: EvenlySpread | None = None

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Return the pulls of the next phase."""
        phasing = self._phasing
        if self._is_own:
            self._left = candidates_left(context, self._task.rivals.n_arms)
        elif 0 < self._r <= phasing.n_phases and context.theta is not None:
            value = self._task.rivals.gather(self._left) @ context.theta
            ordered = self._left[np.argsort(-value, kind="stable")]
            self._left = np.sort(ordered[: phasing.keep(self._r, ordered)])
        self._r += 1
        if self._pulls is None or not (self._r > phasing.n_phases or phasing.designs.are_copies(self._left)):
            self._pulls = phasing.pulls(self._r, self._left)
        else:
            self._pulls.n = max(phasing.budget - context.n_asked, 1)
        return self._pulls
