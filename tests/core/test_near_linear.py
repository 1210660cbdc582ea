"""Nearly linear means: published distances, their limits, and the slower solver as a reference."""

import numpy as np
import pytest

from surepick.core.near_linear import LEAST_SHARE, NearLinear
from surepick.simulation.problems_published import reda_a
from surepick.types import Array

A = reda_a()
MEANS = A.X @ A.theta
TEAM = np.argsort(-MEANS)[:3]


@pytest.mark.parametrize(
    ("misfit", "distance"), [(0.0, 0.031832), (0.02, 0.023089), (0.05, 0.019399), (0.1, 0.019399), (5.0, 0.019399)]
)
def test_distances_on_the_published_instance(misfit: float, distance: float) -> None:
    """With equal weights; the hardest pair is 7 and 3, and a misfit of 0.05 makes the features worthless."""
    nearest = NearLinear(A.X, misfit).nearest(np.ones(10), MEANS, TEAM)
    assert nearest.pair == (7, 3)
    assert nearest.distance == pytest.approx(distance, abs=5e-7)
    assert nearest.means[7] == pytest.approx(nearest.means[3], abs=1e-9)
    assert 0.5 * np.square(MEANS - nearest.means).sum() == pytest.approx(nearest.distance, rel=1e-8)


def drawn(seed: int) -> tuple[NearLinear, Array, Array]:
    """Rows, unequal weights, and means that the model allows."""
    rng = np.random.default_rng([7, seed])
    n, dim, misfit = int(rng.integers(5, 12)), int(rng.integers(2, 5)), float(rng.choice([0.01, 0.1, 0.5]))
    X = rng.standard_normal((n, dim))
    w = 50.0 * rng.dirichlet(np.full(n, 0.5))
    w = np.maximum(w, LEAST_SHARE * w.sum())
    return NearLinear(X, misfit), w, X @ rng.standard_normal(dim) + rng.uniform(-misfit, misfit, n)


@pytest.mark.parametrize("seed", range(8))
def test_the_smallest_distance_is_that_of_least_squares_with_bounds(seed: int) -> None:
    """Over all pairs, none of which is left out; the means are in the model, with slack too."""
    model, w, mu = drawn(seed)
    team = np.argsort(-mu)[:2]
    for slack in (0.0, 0.3):
        nearest = model.nearest(w, mu, team, slack)
        pairs = [(i, j) for i in team.tolist() for j in range(len(mu)) if j not in team]
        slow = [0.5 * float(w @ (mu - model._exactly(w, mu, pair, slack)) ** 2) for pair in pairs]
        assert nearest.distance == pytest.approx(min(slow), rel=1e-6)
        i, j = nearest.pair
        assert nearest.means[i] + slack == pytest.approx(nearest.means[j], abs=1e-6)
        linear = model.X @ np.linalg.lstsq(model.X, nearest.means, rcond=None)[0]
        allowed = model._exactly(np.ones(len(mu)), nearest.means)
        np.testing.assert_allclose(allowed, nearest.means, atol=1e-6)  # within the misfit of some linear means
        assert np.abs(linear - nearest.means).max() <= 2 * model.misfit * len(mu) ** 0.5


@pytest.mark.parametrize("seed", range(8))
def test_the_fit_is_that_of_least_squares_with_bounds(seed: int) -> None:
    """Of means that the model does not allow."""
    model, w, mu = drawn(seed)
    y = mu + np.random.default_rng(seed).standard_normal(len(mu))
    fitted, slow = model.fit(w, y), model._exactly(w, y)
    assert w @ (y - fitted) ** 2 == pytest.approx(w @ (y - slow) ** 2, rel=1e-8)


def test_where_a_step_cannot_be_solved_the_slower_solver_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few arms with weight, and a misfit that explains the others: the run on instance B ended in a LinAlgError."""
    model, w, mu = drawn(1)
    y, team = mu + 1.0, np.argsort(-mu)[:2]
    fitted, nearest = model.fit(w, y), model.nearest(w, mu, team)
    solve = np.linalg.solve

    def singular(H: Array, G: Array) -> Array:
        if G.ndim == 3:  # a step of all pairs
            raise np.linalg.LinAlgError
        return np.asarray(solve(H, G), dtype=np.float64)

    monkeypatch.setattr(np.linalg, "solve", singular)
    slow = model.nearest(w, mu, team)
    assert slow.distance == pytest.approx(nearest.distance, rel=1e-6)

    def always(*_: Array) -> Array:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "solve", always)
    np.testing.assert_allclose(model.fit(w, y), fitted, atol=1e-6)


def test_limits_are_linear_and_unstructured_means() -> None:
    """Without misfit gap^2 over the norm of A^-1; with a large one gap^2 over 1/w_i + 1/w_j; and in between."""
    rng = np.random.default_rng(3)
    X, w = rng.standard_normal((7, 3)), rng.uniform(1.0, 5.0, 7)
    mu = X @ rng.standard_normal(3)
    team, others = np.argsort(-mu)[:2], np.argsort(-mu)[2:]
    A_inv = np.linalg.inv((X.T * w) @ X)
    gaps = {(i, j): mu[i] - mu[j] for i in team for j in others}
    linear = min(g**2 / (2 * (X[i] - X[j]) @ A_inv @ (X[i] - X[j])) for (i, j), g in gaps.items())
    alone = min(g**2 / (2 * (1 / w[i] + 1 / w[j])) for (i, j), g in gaps.items())
    found = [NearLinear(X, misfit).nearest(w, mu, team).distance for misfit in (0.0, 1e-7, 0.1, 0.3, 100.0)]
    assert found[0] == pytest.approx(linear)
    assert found[1] == pytest.approx(linear, rel=1e-4)
    assert found[-1] == pytest.approx(alone)
    assert sorted(found, reverse=True) == found
