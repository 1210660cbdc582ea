"""Families of random and hand-made arm sets that the design tests share.

Each random family maps (rng, K, d) to X (K, d); together they cover what real feature tables look like at their worst.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Family = Callable[[np.random.Generator, int, int], Array]


def gaussian(rng: np.random.Generator, K: int, d: int) -> Array:
    """Independent normal features."""
    return rng.standard_normal((K, d))


def unit_sphere(rng: np.random.Generator, K: int, d: int) -> Array:
    """Uniform on the sphere."""
    X = rng.standard_normal((K, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def heavy_tailed(rng: np.random.Generator, K: int, d: int) -> Array:
    """A few arms far from all others."""
    return rng.standard_t(1.5, (K, d))


def integers(rng: np.random.Generator, K: int, d: int) -> Array:
    """Small whole numbers, many exact ties."""
    return rng.integers(-3, 4, (K, d)).astype(float)


def duplicated(rng: np.random.Generator, K: int, d: int) -> Array:
    """Every arm five times."""
    return np.repeat(rng.standard_normal((max(K // 5, d + 1), d)), 5, axis=0)


def offset(rng: np.random.Generator, K: int, d: int) -> Array:
    """All arms in nearly the same direction."""
    return 100.0 + rng.standard_normal((K, d))


def sparse(rng: np.random.Generator, K: int, d: int) -> Array:
    """Zeros and ones."""
    return (rng.random((K, d)) < 0.3).astype(float)


def nearly_rank_three(rng: np.random.Generator, K: int, d: int) -> Array:
    """Three directions and a little of the rest."""
    r = min(3, d)
    return rng.standard_normal((K, r)) @ rng.standard_normal((r, d)) + 1e-3 * rng.standard_normal((K, d))


def scaled_columns(rng: np.random.Generator, K: int, d: int) -> Array:
    """Features in units up to 1e12 apart."""
    return rng.standard_normal((K, d)) * 10.0 ** rng.uniform(-6, 6, d)


def clustered(rng: np.random.Generator, K: int, d: int) -> Array:
    """Tight groups of arms."""
    centres = rng.standard_normal((d + 1, d))
    return centres[rng.integers(0, d + 1, K)] + 1e-2 * rng.standard_normal((K, d))


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        gaussian,
        unit_sphere,
        heavy_tailed,
        integers,
        duplicated,
        offset,
        sparse,
        nearly_rank_three,
        scaled_columns,
        clustered,
    )
}


def spanning(family: Family, rng: np.random.Generator, K: int, d: int) -> Array:
    """Draw from a family until the arms span and have no tie for the number of different rows."""
    while True:
        X = family(rng, K, d)
        scaled = X / np.where(np.abs(X).max(axis=0) > 0, np.abs(X).max(axis=0), 1.0)
        if np.linalg.matrix_rank(scaled, tol=1e-8) == d and len(np.unique(X, axis=0)) > d:
            return X
