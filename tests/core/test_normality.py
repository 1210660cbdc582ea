"""The shape of the noise: residuals that keep it, evidence against normal noise of one level, false alarms, power."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy

from surepick.core.misfit import range_basis
from surepick.core.normality import LOOKS, SHAPES, Doubt, ShapeWatch, log_evidence, own_residuals
from surepick.types import Array

ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
Draw = Callable[[np.random.Generator, int], Array]


def normal(rng: np.random.Generator, n: int) -> Array:
    """Normal noise."""
    return rng.standard_normal(n)


def watched(rng: np.random.Generator, draw: Draw, n_blocks: int = 16, stds: Array | None = None) -> Doubt | None:
    """Return what a watch finds in blocks of ten pulls whose arms depend on what came before."""
    watch, leans = ShapeWatch(), 0
    for _ in range(n_blocks):
        arms = np.r_[0, 1, 2, 0, 1, 2, 0, 1, leans, leans]
        noise = draw(rng, 10) * (1.0 if stds is None else stds[arms])
        watch.settle(arms, range_basis(ROWS[arms]), ROWS[arms] @ [1.0, 2.0] + noise)
        leans = int(np.argmax(np.abs(noise[:3])))
        if rng.random() < 0.1:  # some look in between, and it changes nothing
            watch.doubt()
    return watch.doubt()


def test_residuals_do_not_depend_on_how_a_processor_rounds_rows_that_tie() -> None:
    """Any other basis of the same range, off by rounding, gives the same residuals although all rows tie in length."""
    rng = np.random.default_rng(3)
    X = np.tile([[1.0, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]], (3, 1))
    Q, rewards = range_basis(X), rng.standard_normal(18)
    expected = own_residuals(Q, rewards)
    for _ in range(20):
        turned = Q @ scipy.stats.ortho_group.rvs(Q.shape[1], random_state=rng)
        np.testing.assert_allclose(own_residuals(turned, rewards), expected, atol=1e-10)


@pytest.mark.parametrize("n", [3, 4, 7, 30])
def test_residuals_are_independent_and_know_no_mean(n: int) -> None:
    """As a matrix they have orthonormal rows and vanish on the range of the features."""
    X = ROWS[np.arange(n) % 3]
    Q = range_basis(X)
    B = np.array([own_residuals(Q, unit) for unit in np.eye(n)]).T
    np.testing.assert_allclose(B @ B.T, np.eye(n - 2), atol=1e-9)
    np.testing.assert_allclose(B @ X, 0.0, atol=1e-9)


def test_residuals_stay_close_to_the_noise_of_one_pull_each() -> None:
    """Every one of 28 has a weight above 0.8 on a pull of its own, so that shape is not averaged away."""
    Q = range_basis(ROWS[np.arange(30) % 3])
    B = np.array([own_residuals(Q, unit) for unit in np.eye(30)]).T
    assert (B.max(axis=1) > 0.8).all()
    assert len(set(B.argmax(axis=1))) == 28


def test_evidence_is_the_ratio_of_two_integrals() -> None:
    """Of the densities over all scales; it agrees with adaptive quadrature."""
    u = np.append(np.random.default_rng(4).standard_normal(10), 4.0)
    for (_, parts), found in zip(SHAPES, log_evidence(u), strict=True):

        def of_shape(t: float, parts: Array = parts) -> float:
            heights, centres, deviations = parts[:, :, None]
            densities = np.exp(heights - 0.5 * ((u * math.exp(-t) - centres) / deviations) ** 2).sum(axis=0)
            return float(np.prod(densities) * math.exp(-len(u) * t))

        def of_normal(t: float) -> float:
            return float(np.exp(-0.5 * (u @ u) * math.exp(-2.0 * t) - len(u) * t))

        middle = 0.5 * math.log(u @ u / len(u))
        ratio = scipy.integrate.quad(of_shape, middle - 3.0, middle + 3.0, limit=200)[0]
        ratio /= scipy.integrate.quad(of_normal, middle - 3.0, middle + 5.0, limit=200)[0]
        assert -0.2 < found - math.log(ratio) < 1e-6, "a part far from the size of u may be left out, none added"


def test_evidence_knows_no_scale() -> None:
    """Residuals a billion times as large say the same."""
    u = np.random.default_rng(5).exponential(size=40) - 1.0
    np.testing.assert_allclose(log_evidence(1e9 * u), log_evidence(u), atol=1e-9)


def test_normal_noise_is_seldom_doubted() -> None:
    """1,000 runs of 128 residuals, arms chosen by the past, looks at random times: at most 28 doubts.

    If each is doubted with probability 0.01, more come with probability 1e-6. A test of skewness at a level of 0.01 at
    every look has many more.
    """
    rng, limit = np.random.default_rng(1), int(scipy.stats.binom.isf(1e-6, 1000, 0.01))
    assert limit == 28
    assert sum(watched(rng, normal) is not None for _ in range(1000)) <= limit
    sequences = rng.standard_normal((1000, 128))
    p = np.array([scipy.stats.skewtest(sequences[:, :N], axis=1).pvalue for N in LOOKS if N <= 128])
    assert (p.min(axis=0) < 0.01).sum() > limit


@pytest.mark.parametrize(
    ("kind", "draw"),
    [
        ("skewed", lambda rng, n: rng.exponential(size=n)),
        ("skewed", lambda rng, n: -rng.lognormal(size=n)),
        ("outliers", lambda rng, n: rng.standard_normal(n) * np.where(rng.random(n) < 0.05, 10.0, 1.0)),
    ],
)
def test_other_shapes_are_found(kind: str, draw: Draw) -> None:
    """256 residuals of noise that is not normal are doubted in at least 25 of 30 runs, mostly by their right name."""
    rng = np.random.default_rng(2)
    found = [doubt.kind for doubt in (watched(rng, draw, 32) for _ in range(30)) if doubt is not None]
    assert len(found) >= 25
    assert found.count(kind) >= 15  # type: ignore[arg-type]


def test_noisier_arms_are_found_and_named() -> None:
    """An arm five times as noisy as the others is doubted and named first; two arms of one level are not."""
    rng = np.random.default_rng(3)
    found = [watched(rng, normal, stds=np.array([1.0, 5.0, 1.0])) for _ in range(20)]
    kinds = [doubt.kind for doubt in found if doubt is not None]
    assert len(kinds) == 20
    named = [doubt for doubt in found if doubt is not None and doubt.kind == "levels"]
    assert len(named) >= 5
    assert all(doubt.arms[0] == 1 and 2.0 < doubt.size < 15.0 for doubt in named)


@pytest.mark.parametrize("h", [1.0, 0.01])
def test_rounded_noise_is_seldom_doubted(h: float) -> None:
    """Normal noise rounded to its own standard deviation, or to a hundredth of it, is seldom doubted: 100 runs each."""
    rng = np.random.default_rng(6)
    found = [watched(rng, lambda rng, n: h * np.rint(normal(rng, n) / h)) for _ in range(100)]
    kinds = [doubt.kind for doubt in found if doubt is not None]
    assert len(kinds) <= int(scipy.stats.binom.isf(1e-6, 100, 0.01))
