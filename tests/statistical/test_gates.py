"""Errors at delta = 0.3 where measurements have offsets or drift, or noise of any kind; 4,000 paths.

Limits are exceeded once in a million tests by a rule that errs with probability delta. Beside each proof are variants
that break it, which exceed the limit. Calls and accounts of sets have such counts in tests/core/betting, pools in
test_pool.py; `benchmarks/gates.py` has 4,000 paths of them too.
"""

import math

import numpy as np
import pytest

from benchmarks.gates import (
    MOST,
    NOISES,
    SHAPES,
    Drawn,
    drift,
    lengths,
    limit,
    n_rejected,
    n_rejected_in_rounds,
    offsets,
)

pytestmark = pytest.mark.statistical

N_PATHS = 4000


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_offsets_of_groups_keep_delta(noise_std: float | None) -> None:
    """Groups of any size, days of nearly one arm, and labels at random that are told with the result."""
    draws = [offsets(2), offsets(7), offsets(4, "one arm"), offsets(4, "at random")]
    found = [n_rejected(draw, N_PATHS, noise_std=noise_std) for draw in draws]
    assert 0.02 * N_PATHS < min(found) <= max(found) <= limit(N_PATHS)


@pytest.mark.parametrize(
    ("way", "noise_std"), [("ignored", 1.0), ("one arm, ignored", 1.0), ("one arm, ignored", None)]
)
def test_offsets_that_are_ignored_do_not(way: str, noise_std: float | None) -> None:
    """The rule without groups rejects the best far too often."""
    assert n_rejected(offsets(4, way), N_PATHS, noise_std=noise_std) > limit(N_PATHS)


def _of_both_rules(draw: Drawn) -> Drawn:
    return draw._replace(codes=None)


def test_one_group_a_block_is_free_beside_a_constant() -> None:
    """A path has the same bets whether a level that a whole block shares is regressed out or not."""

    def level(rng: np.random.Generator, n_paths: int, n: int, t: int) -> Drawn:
        return drift("period 3, size 1")(rng, n_paths, n, t)

    with_level = n_rejected(level, 500)
    assert with_level == n_rejected(lambda *given: _of_both_rules(level(*given)), 500) > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_a_drift_in_random_order_keeps_delta(shape: str) -> None:
    """The variance is that of the noise and half the square of the range of the drift within a block."""
    drifts, rho = SHAPES[shape]
    assert all(np.ptp(drifts(np.arange(t, t + n, dtype=float))) <= rho for t, n in lengths())
    assert n_rejected(drift(shape), N_PATHS, noise_std=math.sqrt(1.0 + rho * rho / 2.0)) <= limit(N_PATHS)


@pytest.mark.parametrize(("shape", "order"), [("0.05 a pull", "sorted"), ("period 3, size 1", "cycle")])
def test_a_drift_in_another_order_does_not(shape: str, order: str) -> None:
    """Arms one after the other under a rising drift, and arms in turns with the period of the drift."""
    assert n_rejected(drift(shape, order), N_PATHS) > limit(N_PATHS)


@pytest.mark.parametrize("noise", NOISES)
def test_any_noise_keeps_delta_in_rounds(noise: str) -> None:
    """Heavy tails, skew and readings that rise within a round."""
    assert 0.05 * N_PATHS < n_rejected_in_rounds(noise, N_PATHS) <= limit(N_PATHS)


def test_rounds_in_a_fixed_order_do_not() -> None:
    """Readings that rise within a round need the random order."""
    assert n_rejected_in_rounds("rising in a round", N_PATHS, is_random=False) > limit(N_PATHS)


def test_blocks_make_600_pulls() -> None:
    """Blocks follow one another, with as many pulls of each arm."""
    ends = [t + n for t, n in lengths()]
    assert [t for t, _ in lengths()] == [0, *ends[:-1]]
    assert MOST <= ends[-1] < 1.2 * MOST
