"""Tasks in the features as given, for tests that drive a rule or a plan themselves; whole intervals of a learner."""

from typing import Any

import numpy as np

from surepick.arms.base import VectorSet
from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.arms.views import Task, WhitenedArms
from surepick.core.design import optimal_design
from surepick.core.estimate import LeastSquares
from surepick.learning.identify import identify
from surepick.learning.learner import Learner
from surepick.stopping import Rule
from surepick.types import Array

AnyLearner: Any = Learner
any_identify: Any = identify
"""With the options of an algorithm as keywords, which a type checker does not know."""


def view_of(arms: Any, back: Array | None = None) -> WhitenedArms:
    """Return the view of these arms in which nothing is mapped, or in the coordinates x R^-1 of `back`."""
    rows = as_arms(arms)
    return WhitenedArms(rows, np.eye(rows.dim) if back is None else back, optimal_design(rows, tol=0.05))


def task_of(
    arms: Any,
    *,
    delta: float = 0.05,
    noise_std: float | None = 1.0,
    epsilon: float = 0.0,
    candidates: Any = None,
    seed: int = 0,
) -> Task:
    """Return a task: arms as rows, as a set of vectors, or as the view to be used; candidates as rows."""
    is_view = isinstance(arms, WhitenedArms | NumberedVectors)
    view: Any = arms if is_view else NumberedVectors(arms, seed) if isinstance(arms, VectorSet) else view_of(arms)
    rivals = view if candidates is None else view.view_of(FiniteArms.rows_only(candidates))
    return Task(arms=view, candidates=rivals, delta=delta, given_noise_std=noise_std, epsilon=epsilon, seed=seed)


def begun(rule: Rule, task: Task) -> tuple[Any, LeastSquares]:
    """Return the rule at work and an estimate without pulls that it can read."""
    state = rule.start(task)
    return state, LeastSquares(task.arms.dim, state.regularizers)


def interval_of(learner: Learner) -> list[int]:
    """Ask for all of the interval that is about to open."""
    arms = learner.next_arms()
    return arms + (learner.next_arms(learner.n_planned) if learner.n_planned else [])
