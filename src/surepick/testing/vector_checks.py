"""Checks of a set of vectors: its formulas against its own arms.

Notation: that of `arms.base`. Parameters and factors are drawn in whitened coordinates, where the first round has
identity information per pull, so that they suit a set in any units.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from surepick.arms.base import HardestRival, VectorSet
from surepick.core.linalg import independent_columns, triangular, upper_inverse
from surepick.testing.row_checks import factor_of, must_refuse
from surepick.types import Array


@final
class VectorChecks:
    """Checks of a set of vectors.

    Args:
        vectors: the set.
        twin: another instance of the same set.
        epsilon: slack.
        tolerance: relative error that answers may have.
    """

    noise_std = 0.2

    def __init__(self, vectors: VectorSet, twin: VectorSet, *, epsilon: float, tolerance: float) -> None:
        self.vectors, self.twin, self.epsilon, self.tolerance = vectors, twin, epsilon, tolerance
        self.dim, self.needs_slack = vectors.dim, vectors.needs_slack
        first = self._round(0, 0)
        self.back = triangular(first / math.sqrt(len(first)))
        self.map = upper_inverse(self.back)
        rng = np.random.default_rng(1)
        self.thetas = [self._unit(rng.standard_normal(self.dim)) for _ in range(8)]
        self.theta = self.thetas[0]
        wide = [self._unit(theta) for theta in rng.standard_normal((100, self.dim))]
        rounds = [arm for number in range(3) for arm in self._round(number, seed=number)]
        self.arms = np.array([*rounds, *map(vectors.best, wide), *map(vectors.best, self.thetas)])
        """Arms to compare every answer with."""
        self.size = float(np.abs(self.arms).max())

    def _unit(self, direction: Array) -> Array:
        """Return a parameter of length 1 in whitened coordinates."""
        return self.map @ (direction / np.linalg.norm(direction))

    def _round(self, number: int, seed: int) -> Array:
        arms = self.vectors.cycle(number, seed)
        assert arms.shape[1:] == (self.dim,), f"cycle({number}, {seed}) must be (n, {self.dim}), got {arms.shape}"
        assert np.isfinite(arms).all(), f"cycle({number}, {seed}) must be finite"
        assert len(independent_columns(triangular(arms))) == self.dim, (
            f"the {len(arms)} arms of cycle({number}, {seed}) do not span R^{self.dim}: each round must by itself"
        )
        return arms

    def mean_of(self, arm: Any) -> float:
        """Return the mean reward of an arm."""
        return float(np.asarray(arm, dtype=np.float64) @ self.theta)

    def best_mean(self) -> float:
        """Return the mean reward of the set's own best arm, which `best` has tested."""
        return self.mean_of(self.vectors.best(self.theta))

    def arms_as_written(self) -> None:
        """Check that `checked` takes the arms of rounds unchanged, and its own answers too."""
        assert isinstance(self.vectors.description, str)
        assert self.vectors.description, "`description` must say what the set is called"
        for number, seed in ((0, 0), (1, 0), (2, 7)):
            for arm in self._round(number, seed):
                for written in (arm, arm.tolist(), tuple(arm.tolist())):
                    kept = self.vectors.checked(written)
                    assert kept.dtype == np.float64, f"checked must return float64, got {kept.dtype}"
                    assert np.array_equal(kept, arm), (
                        f"checked must return an arm of a round as it is: {arm.tolist()} became {kept.tolist()}"
                    )
        for arm in self.arms:
            once = self.vectors.checked(arm)
            assert np.allclose(once, arm, rtol=1e-9, atol=1e-9 * self.size), f"checked moved {arm} to {once}"
            assert np.array_equal(self.vectors.checked(once), once), f"checked changed its own answer {once.tolist()}"

    def span(self) -> None:
        """Check that rounds span and follow from number and seed."""
        for number, seed in ((0, 0), (1, 0), (5, 3), (40, 2**31)):
            arms = self._round(number, seed)
            assert np.array_equal(self.vectors.cycle(number, seed), arms), "the same round came out differently"
            assert np.array_equal(self.twin.cycle(number, seed), arms), "an equal set has another round"

    def best(self) -> None:
        """Check that no arm at hand is better than the best."""
        for theta in self._some_thetas():
            best = self.vectors.best(theta)
            assert best.shape == (self.dim,), f"best must return a vector of {self.dim}, got shape {best.shape}"
            assert np.array_equal(self.vectors.best(theta), best), "the same theta got another best arm"
            assert np.array_equal(self.twin.best(theta), best), "an equal set has another best arm"
            values = self.arms @ theta
            better = float(values.max()) - float(best @ theta)
            assert better <= 1e-9 * self.size * float(np.abs(theta).sum()), (
                f"best returned {best.tolist()}, but {self.arms[np.argmax(values)].tolist()} is better by {better:g}"
            )

    def most_confusing(self) -> None:
        """Check that the statistic is below the ratio of every arm at hand, and is attained if it says so."""
        for theta, factor, epsilon in self._questions(self._some_thetas(), (1.0, 20.0, 1e3), seed=2):
            found = self._bounded(theta, factor, epsilon)
            if found.is_exact:
                ratio = float(self._ratios(theta, factor, epsilon, found.rival[None])[0])
                assert math.isclose(ratio, found.value, rel_tol=self.tolerance, abs_tol=1e-12), (
                    f"the statistic is {found.value:g} and called exact, but the rival has {ratio:g}"
                )

    def units(self) -> None:
        """Check how the statistic scales, and that more slack never makes it smaller."""
        rng = np.random.default_rng(3)
        for theta in self.thetas:
            factor = self.map @ factor_of(self.dim, condition=20.0, rng=rng)
            for epsilon in self._slacks():
                value = self.vectors.confusion(theta, factor, epsilon).value
                louder = self.vectors.confusion(8.0 * theta, factor, 8.0 * epsilon).value
                vaguer = self.vectors.confusion(theta, 8.0 * factor, epsilon).value
                for what, other in (("theta and epsilon", louder / 64.0), ("F", vaguer * 64.0)):
                    assert math.isclose(value, other, rel_tol=self.tolerance, abs_tol=1e-12), (
                        f"with {what} times 8 the statistic, {value:g}, became {other:g} where it should stay"
                    )
            values = [self.vectors.confusion(theta, factor, epsilon).value for epsilon in self._slacks()]
            for less, more in itertools.pairwise(values):
                assert less <= more * (1.0 + self.tolerance), f"more slack made the statistic smaller: {values}"

    def extremes(self) -> None:
        """Check an estimate of zero, and factors of condition number 1e8."""
        for theta, factor, epsilon in self._questions([np.zeros(self.dim), *self.thetas[:4]], (1.0, 1e8), seed=4):
            found = self._bounded(theta, factor, epsilon)
            assert found.rival.shape == (self.dim,), "the rival must be a vector of the set"
            assert np.isfinite(found.rival).all(), f"the rival {found.rival} is not finite"

    def refusals(self) -> None:
        """Check that the set refuses vectors that are no arms, and epsilon = 0 if it needs slack."""
        arm = self.arms[0].tolist()
        holes = [math.nan, *arm[1:]]
        for wrong in ([*arm, 1.0], arm[:-1], [arm], [], holes, [math.inf, *arm[1:]], "arm", ["a"] * self.dim, None):
            must_refuse(lambda wrong=wrong: self.vectors.checked(wrong), f"checked({wrong!r})")  # type: ignore[misc]
        must_refuse(lambda: self.vectors.checked([1e6 * self.size + 1.0] * self.dim), "an arm far outside the set")
        if self.needs_slack:
            must_refuse(lambda: self.vectors.confusion(self.theta, self.map, 0.0), "confusion with epsilon = 0")

    def _some_thetas(self) -> list[Array]:
        """Return random parameters, and some with zeros, under which arms may tie."""
        return [*self.thetas, *np.eye(self.dim)[:3], -np.eye(self.dim)[0]]

    def _questions(
        self, thetas: list[Array], conditions: tuple[float, ...], *, seed: int
    ) -> Iterator[tuple[Array, Array, float]]:
        """Yield every theta with factors of these condition numbers and every slack."""
        rng = np.random.default_rng(seed)
        for theta, condition in itertools.product(thetas, conditions):
            factor = self.map @ factor_of(self.dim, condition=condition, rng=rng)
            yield from ((theta, factor, epsilon) for epsilon in self._slacks())

    def _slacks(self) -> list[float]:
        slacks = [0.01 * self.epsilon, 0.3 * self.epsilon, self.epsilon, 8.0 * self.epsilon]
        return slacks if self.needs_slack else [0.0, *slacks]

    def _bounded(self, theta: Array, factor: Array, epsilon: float) -> HardestRival:
        """Return the statistic after a look at every arm at hand."""
        found = self.vectors.confusion(theta, factor, epsilon)
        assert math.isfinite(found.value), f"the statistic is {found.value}, must be finite"
        assert found.value >= 0.0, f"the statistic is {found.value}, must be at least 0"
        ratios = self._ratios(theta, factor, epsilon, np.vstack([self.arms, found.rival]))
        least = int(np.argmin(ratios))
        assert found.value <= ratios[least] * (1.0 + self.tolerance) + 1e-12, (
            f"the statistic is {found.value:g} with epsilon = {epsilon:g}, but the arm "
            f"{np.vstack([self.arms, found.rival])[least].tolist()} has {ratios[least]:g}: it must be a lower bound"
        )
        return found

    def _ratios(self, theta: Array, factor: Array, epsilon: float, arms: Array) -> Array:
        """Return (theta'(a - b) + epsilon)^2 / (2 |F'(a - b)|^2) of arms b; infinite for a itself."""
        y = self.vectors.best(theta) - arms
        is_other = np.abs(y).max(axis=1) > 1e-9 * self.size
        ratios = np.full(len(arms), np.inf)
        reach = np.maximum(y[is_other] @ theta + epsilon, 0.0)
        ratios[is_other] = np.square(reach) / (2.0 * np.square(y[is_other] @ factor).sum(axis=1))
        return ratios
