"""The noise of a measurement from replicates: the same option measured more than once.

Notation: option a has n_a values with sum of squares SS_a around their mean, f_a = n_a - 1. For normal noise of one
level sigma, sum SS_a / sigma^2 is chi-square with f = sum f_a degrees of freedom: sigma^2 is estimated by sum SS_a / f
and lies between sum SS_a / chi2(1 - alpha/2) and sum SS_a / chi2(alpha/2) with probability 1 - alpha.

Bartlett's test decides whether options differ in noise: with s_a^2 = SS_a/f_a, s^2 = sum SS_a/f and k options,
(f log s^2 - sum f_a log s_a^2) / C, C = 1 + (sum 1/f_a - 1/f)/(3 (k - 1)), is about chi-square with k - 1 degrees of
freedom if noise is normal and of one level. surepick warns at level 0.01. In simulations with two or three values per
option the false-alarm rate was 0.003 to 0.007, and never above 0.011. Heavy tails cause warnings too: in both cases one
level does not describe the noise.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy

from surepick.arms.tables.sources import parse_number
from surepick.core.checks import check_fraction, check_number, is_number
from surepick.errors import InvalidInput, NoiseWarning, NotEnoughData

TEST_LEVEL = 0.01
OPTION_NAMES = ("option", "arm", "name", "id")
VALUE_NAMES = ("value", "reward", "result", "y")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OptionNoise:
    """The replicates of one option."""

    n: int
    mean: float
    noise_std: float
    """NaN for a single value."""
    interval: tuple[float, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateNoise:
    """The noise of one measurement, over all options and for each option."""

    noise_std: float
    interval: tuple[float, float]
    """Confidence interval for the true level, assuming normal noise."""
    confidence: float
    n_spare: int
    """Degrees of freedom: values beyond the first of each option."""
    per_arm: Mapping[Any, OptionNoise]
    p_value: float
    """p-value of Bartlett's test that all options are equally noisy; NaN if fewer than two options have replicates."""

    @property
    def differ(self) -> bool:
        """Whether options differ in noise: the test rejects at a level of one percent."""
        return self.p_value < TEST_LEVEL

    def explain(self) -> str:
        """Return the noise as text."""
        low, high = self.interval
        text = (
            f"One measurement has a noise of about {self.noise_std:.3g} ({low:.3g} to {high:.3g} at "
            f"{100 * self.confidence:g} %), from {self.n_spare} replicates beyond the first of each option."
        )
        if not self.differ:
            return text
        levels = {name: one.noise_std for name, one in self.per_arm.items() if one.n > 1}
        quiet, loud = min(levels, key=levels.__getitem__), max(levels, key=levels.__getitem__)
        return (
            f"{text} But options differ (Bartlett's test, p = {self.p_value:.2g}): from {levels[quiet]:.3g} for "
            f'{quiet} to {levels[loud]:.3g} for {loud}. Give one noise_std for each, or noise="per-arm".'
        )

    __str__ = explain


def noise_from_replicates(
    replicates: Any, *, option_column: str | None = None, value_column: str | None = None, confidence: float = 0.95
) -> ReplicateNoise:
    """Estimate the noise of one measurement from options that were measured more than once.

    Args:
        replicates: (option, value) pairs; a mapping from options to their values; or a data frame with a column of
            options and one of values.
        option_column: column of a data frame; default: one named option, arm, name or id, else the first.
        value_column: column of a data frame; default: one named value, reward, result or y, else the last.
        confidence: confidence of the intervals.

    Raises:
        InvalidInput: a value is not a finite number, or a column is missing.
        NotEnoughData: no option has two values.

    Warns:
        NoiseWarning: options differ in noise, by a test with a false-alarm rate of about 1 %.

    Examples:
        >>> round(noise_from_replicates([("A", 1.0), ("A", 1.4), ("B", 2.0), ("B", 1.8)]).noise_std, 3)
        0.224
    """
    groups: dict[Any, list[float]] = {}
    for option, value in _pairs(replicates, option_column, value_column):
        written = parse_number(value) if isinstance(value, str) else value  # as cells of a spreadsheet are
        number = check_number(
            "value", value if written is None else written, needed=f"a finite number for every replicate of {option!r}"
        )
        groups.setdefault(option, []).append(number)
    alpha = 1.0 - check_fraction("confidence", confidence)
    squares = {name: float(np.square(np.array(values) - np.mean(values)).sum()) for name, values in groups.items()}
    spare = {name: len(values) - 1 for name, values in groups.items()}
    n_spare, total = sum(spare.values()), sum(squares.values())
    if not n_spare:
        raise NotEnoughData(
            f"at least one option must be measured twice, got {len(groups)} with one value each; measure some again."
        )
    found = ReplicateNoise(
        noise_std=math.sqrt(total / n_spare),
        interval=_interval(total, n_spare, alpha),
        confidence=1.0 - alpha,
        n_spare=n_spare,
        per_arm={
            name: OptionNoise(
                n=len(values),
                mean=float(np.mean(values)),
                noise_std=math.sqrt(squares[name] / spare[name]) if spare[name] else math.nan,
                interval=_interval(squares[name], spare[name], alpha),
            )
            for name, values in groups.items()
        },
        p_value=_bartlett([values for values in groups.values() if len(values) > 1]),
    )
    if found.differ:
        warnings.warn(found.explain(), NoiseWarning, stacklevel=2)
    return found


def _interval(squares: float, spare: int, alpha: float) -> tuple[float, float]:
    if not spare:
        return 0.0, math.inf
    low, high = (float(scipy.special.chdtri(spare, tail)) for tail in (0.5 * alpha, 1.0 - 0.5 * alpha))
    return math.sqrt(squares / low), math.sqrt(squares / high)


def _bartlett(groups: list[list[float]]) -> float:
    """Return the p-value of equal variances; NaN if there is no test."""
    is_constant = [len(set(values)) == 1 for values in groups]
    if len(groups) < 2 or all(is_constant):
        return math.nan
    return 0.0 if any(is_constant) else float(scipy.stats.bartlett(*groups).pvalue)


def _pairs(replicates: Any, option_column: str | None, value_column: str | None) -> Iterable[tuple[Any, Any]]:
    if hasattr(replicates, "columns"):
        titles = list(replicates.columns)
        option = _column(titles, option_column, OPTION_NAMES, titles[0])
        value = _column(titles, value_column, VALUE_NAMES, titles[-1])
        if option == value:
            raise InvalidInput(f"replicates need a column of options and one of values, got {titles}; add one.")
        if not any(map(_is_number, replicates[value])):
            raise InvalidInput(
                f"`value_column` must be a column with numbers, got {value!r}; the columns are "
                f"{', '.join(map(str, titles))}."
            )
        return zip(list(replicates[option]), list(replicates[value]), strict=True)
    if isinstance(replicates, Mapping):
        return [(option, value) for option, values in replicates.items() for value in values]
    try:
        return [(option, value) for option, value in replicates]
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f'`replicates` must be (option, value) pairs such as [("A", 1.2), ("A", 1.4)], got a '
            f"{type(replicates).__name__}."
        ) from error


def option_and_value(titles: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the titles, of some in lower case, of the columns of options and of values; of two columns, by place.

    Of more than two, an unknown title is None: a value is not taken from a column of features.
    """
    first, last = (titles[0], titles[-1]) if len(titles) == 2 else (None, None)
    option = next((name for name in ("arm", *OPTION_NAMES) if name in titles), first)
    value = next((name for name in ("reward", *VALUE_NAMES) if name in titles), last)
    return (option, value) if option != value else (None, None)


def _is_number(cell: Any) -> bool:
    return parse_number(cell) is not None if isinstance(cell, str) else is_number(cell)


def _column(titles: list[Any], wanted: str | None, usual: tuple[str, ...], otherwise: Any) -> Any:
    if wanted is not None:
        if wanted not in titles:
            raise InvalidInput(f"there is no column {wanted!r}; the columns are {', '.join(map(str, titles))}.")
        return wanted
    return next((title for title in titles if str(title).lower() in usual), otherwise)
