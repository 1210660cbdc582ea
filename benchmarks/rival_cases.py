"""What `rivals` measures: the data of the examples as simulators with a known truth, and two problems without data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples import clicks, field_trial, questionnaire
from surepick.simulation.problems import Problem, soare, unit_basis
from surepick.types import Array

SEED, BANK = 6100, 100
Rows = NDArray[np.int_]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What can be measured, and what its truth is.

    Attributes:
        X: features (K, d).
        means: of the rewards of each arm (K,).
        draw: rewards of the arms with the given row numbers.
        epsilon: what an answer may lose.
        options: how surepick is told about the rewards.
        is_bounded: whether rewards lie between 0 and 1, and are far from normal.
        has_levels: whether arms are not equally noisy.
        limit: a method without an answer gives up after so many pulls.
    """

    X: Array
    means: Array
    draw: Callable[[Rows, np.random.Generator], Array]
    epsilon: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    is_bounded: bool = False
    has_levels: bool = False
    limit: int = 1_000_000

    @property
    def needs_no_model(self) -> bool:
        """Whether surepick is run without the linear model."""
        return self.options.get("model") == "unstructured"

    def is_wrong(self, answer: int) -> bool:
        """Whether an answer loses too much."""
        return bool(self.means.max() - self.means[answer] > self.epsilon)


def _yes_no(rates: Array, arms: Rows, rng: np.random.Generator) -> Array:
    rewards: Array = (rng.random(len(arms)) < rates[arms]).astype(float)
    return rewards


def _plot(arms: Rows, rng: np.random.Generator) -> Array:
    rewards: Array = field_trial.means[arms] + rng.choice(field_trial.residuals, len(arms))
    return rewards


def _from_bank(bank: Array, arms: Rows, rng: np.random.Generator) -> Array:
    rewards: Array = bank[arms, rng.integers(BANK, size=len(arms))]
    return rewards


def _normal(means: Array, arms: Rows, rng: np.random.Generator) -> Array:
    rewards: Array = means[arms] + rng.standard_normal(len(arms))
    return rewards


def svm() -> Case:
    """SVM settings: a tenth may be lost, every setting has noise of its own."""
    from examples import svm_settings  # noqa: PLC0415 (it needs scikit-learn)

    rng = np.random.default_rng(SEED)
    bank = np.array([[svm_settings.measure(row, rng) for _ in range(BANK)] for row in range(svm_settings.arms.n_arms)])
    draw, means = partial(_from_bank, bank), bank.mean(axis=1)
    options = {"model": "unstructured", "noise": "per-arm"}
    return Case(X=svm_settings.arms.X, means=means, draw=draw, epsilon=0.1, options=options, has_levels=True)


def rates(X: Array, means: Array) -> Case:
    """Yes or no, with these rates."""
    return Case(X=X, means=means, draw=partial(_yes_no, means), options={"rewards": "binary"}, is_bounded=True)


def synthetic(problem: Problem) -> Case:
    """Normal noise of standard deviation 1, which nobody is told."""
    means = problem.X @ problem.theta
    return Case(X=problem.X, means=means, draw=partial(_normal, means))


CASES: Mapping[str, Callable[[], Case]] = {
    "field trial": lambda: Case(X=field_trial.arms.X, means=field_trial.means, draw=_plot, epsilon=field_trial.EPSILON),
    "questionnaire": lambda: rates(questionnaire.arms.X, questionnaire.rates),
    "SVM settings": svm,
    "clicks": lambda: rates(clicks.pages, clicks.pages @ clicks.EFFECTS),
    "Soare d=6, angle .1": lambda: synthetic(soare(6, 0.1)),
    "unit basis 1, .75, .., 0": lambda: synthetic(unit_basis([1.0, 0.75, 0.5, 0.25, 0.0])),
}


@cache
def case_of(name: str) -> Case:
    """One of the cases, made once in every process."""
    return CASES[name]()
