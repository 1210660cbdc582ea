"""Problems that several benchmarks share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import surepick as sp
from surepick.simulation import problems
from surepick.simulation.problems import Problem

Source = Problem | Callable[[int], Problem]


def many(n_arms: int) -> Callable[[int], Problem]:
    """Draw the many-arms problem anew in every run, as the paper does."""
    return partial(_many, n_arms)


def _many(n_arms: int, seed: int) -> Problem:
    return problems.many_arms(n_arms, seed=seed)


def unit_sphere(dim: int, n_arms: int, seed: int) -> Problem:
    """Random unit arms and theta of norm 2, redrawn until 30 < T* < 400."""
    rng = np.random.default_rng(seed)
    while True:
        X, theta = rng.standard_normal((n_arms, dim)), rng.standard_normal(dim)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        theta *= 2.0 / np.linalg.norm(theta)
        if 30.0 < sp.characteristic_time(X, theta, tol=1e-2).value < 400.0:
            return Problem(X=X, theta=theta, name=f"unit sphere d={dim} K={n_arms}")


def quieter(problem: Problem) -> Problem:
    """The same problem with noise_std 0.5: a quarter of the pulls, so that slow rules end within an evening."""
    return replace(problem, noise_std=0.5)


COMPARED: dict[str, Source] = {
    "many": many(1000),
    "Soare 2": problems.soare(2, angle=0.1, scale=2.0),
    "Soare 6": problems.soare(6, angle=0.1, scale=2.0),
    "Soare 10": problems.soare(10, angle=0.1, scale=2.0),
    "sphere 5": partial(unit_sphere, 5, 50),
    "sphere 10": partial(unit_sphere, 10, 100),
    "random": quieter(problems.random_linear(30, 8, seed=0)),
    "factors": quieter(problems.multivariate(4, seed=1)),
    "transd.": quieter(problems.transductive(5)),
    "basis": problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
}
"""The instances of the comparison, by the names of its columns."""

NEAR_TIE = problems.unit_basis([0.02, 0.0])
"""Two arms that nearly tie."""

ARC = Problem(X=np.array([[1.0, 0.0], [0.98, 0.6], [0.98, -0.6]]), theta=np.array([1.0, 0.0]), name="arc")
"""The best arm between two that lose a fiftieth: luck on either side misleads."""

SMALL_ANGLE: dict[str, Source] = {
    "Soare 2": problems.soare(2, angle=0.01, scale=2.0),
    "Soare 10": problems.soare(10, angle=0.01, scale=2.0),
}
"""The same arms so close that even the lower bound is above 50,000 pulls."""


def true_theta(problem: Problem) -> Any:
    """What an oracle is told."""
    return problem.theta


def true_norm(problem: Problem) -> float:
    """The smallest correct bound on the norm of theta: what published comparisons give to rules that ask for one."""
    return float(np.linalg.norm(problem.theta))


def largest_mean(problem: Problem) -> float:
    """The smallest correct bound on the size of a mean reward."""
    return float(np.abs(problem.X @ problem.theta).max())


KNOWLEDGE: dict[str, dict[str, Any]] = {"xy-oracle": {"theta": true_theta}}
"""Options without which an algorithm does not run at all."""

PAPER_KNOWLEDGE: dict[str, dict[str, Any]] = {
    "lingape": {"norm_bound": true_norm},
    "lingame": {"norm_bound": true_norm},
    "lingame-c": {"norm_bound": true_norm},
    "alba": {"reward_bound": largest_mean},
}
"""Options that an algorithm's published rule asks for."""
