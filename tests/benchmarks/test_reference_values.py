"""Every algorithm has a value to come near to, or a reason why not; and comes near to it."""

import math
from pathlib import Path

import pytest

import surepick as sp
from benchmarks.reference_values import (
    LIMIT,
    NONE,
    PHASED,
    REFERENCES,
    apart,
    apart_now,
    kept,
    table,
    values_of,
)

NAMES = sorted({*sp.algorithms.names(), *sp.algorithms.names(fixed_budget=True), *sp.algorithms.names(vectors=True)})
PAGE = (Path(sp.__file__).parents[2] / "docs" / "algorithms.md").read_text("utf-8")


def test_every_algorithm_has_a_reference_or_a_reason() -> None:
    """One of the two, and the page has both."""
    assert sorted([*REFERENCES, *NONE]) == NAMES
    assert table() in PAGE
    words = " ".join(PAGE.split())
    assert [name for name, why in NONE.items() if f"`{name}`: {why}" not in words] == []


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_what_is_kept_is_within_three_standard_errors(name: str) -> None:
    """Of the reference, ours and theirs combined."""
    assert kept()[name]["n_runs"] == (1000 if name in PHASED else REFERENCES[name].n_runs)
    assert abs(apart_now(name)) <= LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_a_few_runs_are_near_it_now(name: str) -> None:
    """Seeds are fixed, so that a change of the algorithm alone can change the result."""
    n = REFERENCES[name].n_few
    values = values_of(name, n)
    assert abs(apart(name, float(values.mean()), kept()[name]["scatter"], n)) <= LIMIT


def test_a_broken_algorithm_is_far_from_it() -> None:
    """One that is told a tenth of the noise stops too early; and a share of wrong answers of one half is no 0.0735."""
    values = values_of("xy-oracle", 8, noise_std=0.1)
    assert abs(apart("xy-oracle", float(values.mean()), 1.0, 8)) > LIMIT
    assert abs(apart("lin-halving", 0.5, math.nan, 20)) > LIMIT
