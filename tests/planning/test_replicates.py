"""Noise from replicates."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.stats import binom

import surepick as sp

PAIRS = [("A", 1.0), ("A", 1.4), ("B", 2.0), ("B", 1.8), ("B", 2.5), ("C", 7.0)]


def test_pooled_noise_with_its_interval() -> None:
    """Sums of squares around each option's mean, over their degrees of freedom; chi-square ends."""
    found = sp.noise_from_replicates(PAIRS, confidence=0.9)
    squares = 0.08 + float(np.square(np.array([2.0, 1.8, 2.5]) - 2.1).sum())
    assert found.n_spare == 3
    assert found.noise_std == pytest.approx(math.sqrt(squares / 3))
    ends = [math.sqrt(squares / scipy.stats.chi2.ppf(share, 3)) for share in (0.95, 0.05)]
    assert found.interval == pytest.approx(ends)
    assert found.per_arm["A"].noise_std == pytest.approx(math.sqrt(0.08))
    assert found.per_arm["B"].n == 3
    assert math.isnan(found.per_arm["C"].noise_std)
    assert found.per_arm["C"].interval == (0.0, math.inf)


def test_pairs_mappings_and_frames_agree() -> None:
    """Columns are found by name, by place, or as told."""
    found = sp.noise_from_replicates(PAIRS)
    options, values = zip(*PAIRS, strict=True)
    assert sp.noise_from_replicates({"A": [1.0, 1.4], "B": [2.0, 1.8, 2.5], "C": [7.0]}) == found
    frame = pd.DataFrame({"day": range(6), "value": values, "arm": options})
    assert sp.noise_from_replicates(frame) == found
    assert (
        sp.noise_from_replicates(frame.rename(columns={"arm": "paint", "value": "gloss"})[["paint", "gloss"]]) == found
    )
    odd = frame.rename(columns={"arm": "paint", "value": "gloss"})
    assert sp.noise_from_replicates(odd, option_column="paint", value_column="gloss") == found


def test_equal_noise_is_tested_as_by_bartlett() -> None:
    """The p-value is SciPy's."""
    rng = np.random.default_rng(1)
    groups = {name: rng.standard_normal(n).tolist() for name, n in (("A", 4), ("B", 7), ("C", 3))}
    found = sp.noise_from_replicates(groups)
    assert found.p_value == pytest.approx(scipy.stats.bartlett(*groups.values()).pvalue)
    assert not found.differ
    assert "differ" not in str(found)
    assert math.isnan(sp.noise_from_replicates([("A", 1.0), ("A", 2.0)]).p_value)
    assert math.isnan(sp.noise_from_replicates([("A", 1.0), ("A", 1.0), ("B", 2.0), ("B", 2.0)]).p_value)


def test_options_that_differ_are_reported() -> None:
    """A tenfold noise is seen, and an option that always gives the same value."""
    rng = np.random.default_rng(1)
    with pytest.warns(sp.NoiseWarning, match=r"options differ .* for quiet to .* for loud"):
        found = sp.noise_from_replicates({"quiet": rng.standard_normal(8), "loud": 10.0 * rng.standard_normal(8)})
    assert found.differ
    with pytest.warns(sp.NoiseWarning):
        assert sp.noise_from_replicates({"A": [1.0, 1.0, 1.0], "B": [1.0, 2.0]}).p_value == 0.0


@pytest.mark.statistical
def test_level_and_coverage() -> None:
    """False warnings in at most .015 of 2,000 tables, intervals right in at least .94; exact binomial limits, 1e-6.

    The level that Bartlett's approximation has here is .003 to .011. A test at .05 is caught.
    """
    rng = np.random.default_rng(7)
    n_warned = n_covered = n_at_5_percent = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.NoiseWarning)
        for _ in range(2000):
            found = sp.noise_from_replicates({name: rng.standard_normal(4) for name in "ABC"})
            n_warned += found.differ
            n_at_5_percent += found.p_value < 0.05
            n_covered += found.interval[0] <= 1.0 <= found.interval[1]
    limit = binom.ppf(1 - 1e-6, 2000, 0.015)
    assert n_warned <= limit < n_at_5_percent
    assert n_covered >= binom.ppf(1e-6, 2000, 0.95)


@pytest.mark.parametrize(
    ("replicates", "options", "said"),
    [
        ([("A", 1.0), ("B", 2.0)], {}, "measured twice, got 2"),
        ([], {}, "measured twice, got 0"),
        ([("A", "x"), ("A", 2.0)], {}, "finite number for every replicate of 'A'"),
        ([("A", math.nan), ("A", 2.0)], {}, "finite number"),
        (3, {}, "pairs"),
        ([1.0, 2.0], {}, "pairs"),
        (pd.DataFrame({"A": [1.0, 2.0]}), {}, "one of values"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), {"option_column": "c"}, "no column 'c'"),
        (pd.DataFrame({"mix": ["A", "A"], "MPa": [1.0, 2.0], "remark": ["", "old"]}), {}, "with numbers, got 'remark'"),
        ([("A", 1.0), ("A", 2.0)], {"confidence": 95}, "between 0 and 1"),
    ],
)
def test_refusals(replicates: object, options: dict[str, object], said: str) -> None:
    """What has no replicates, or no numbers, is refused."""
    with pytest.raises(sp.SurepickError, match=said):
        sp.noise_from_replicates(replicates, **options)  # type: ignore[arg-type]
