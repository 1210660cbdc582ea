"""Scenarios: possible values of theta and of the noise, from a guess, a pilot experiment, or a lead."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.checks import check_number, check_vector
from surepick.core.design.generation import frame_of
from surepick.core.linalg import triangular, upper_inverse
from surepick.errors import InvalidInput, NotEnoughData
from surepick.learning.identify import identify
from surepick.learning.noise_models import NoiseModel, SubGaussian, UnknownGaussian
from surepick.planning.forecast import smallest_gap
from surepick.types import Array

N_DRAWS = 25
"""Number of scenarios drawn from a pilot or for a lead."""
LEAST_RATE = 0.3
"""The variance of clicks assumes that each rate is at least this share of the mean rate; likewise for 1 - rate."""


@final
@dataclass(frozen=True, slots=True)
class Scenario:
    """A possible truth."""

    theta: Array
    """The parameter (d,)."""
    stds: Array
    """The noise of every arm (K,)."""
    rarity: float = 1.0
    """Pulls per informative pull: with rare clicks, only clicks are informative."""


def noise_to_run(guess: NoiseModel) -> NoiseModel:
    """Return the noise model of a run, from a guess of the noise; a run learns a single level itself."""
    return UnknownGaussian() if isinstance(guess, SubGaussian) else guess


def from_thetas(thetas: Iterable[Any], arms: ArmSet, rewards: NoiseModel) -> list[Scenario]:
    """Return a scenario for each parameter."""
    checked = [check_vector("theta", theta, arms.dim) for theta in thetas]
    if not checked:
        raise InvalidInput("`scenarios` must hold at least one parameter theta, got none.")
    return [_scenario(arms, theta, rewards) for theta in checked]


def from_gap(gap: object, arms: ArmSet, rewards: NoiseModel, m: int, seed: int) -> list[Scenario]:
    """Return scenarios in which the best arm is ahead of the next by `gap`, in random directions.

    A lead says nothing about the level of bounded rewards, so these are taken at the level where they are noisiest:
    half of them lo and half hi. Directions are drawn in coordinates in which the arms extend about equally far in all
    directions, whatever the units of the features.
    """
    needed = "how far the best arm is ahead of the next, above 0"
    lead = check_number("gap", gap, needed=needed, allowed=lambda value: value > 0.0)
    if rewards.reward_range is not None and lead >= (width := float(np.ptp(rewards.reward_range))):
        raise InvalidInput(f"`gap` must be below {width:g}, the distance of the bounds of the rewards, got {lead:g}.")
    frame, rng = frame_of(arms), np.random.default_rng(seed)
    thetas = []
    for _ in range(100 * N_DRAWS):
        theta = frame @ rng.standard_normal(arms.dim)
        found = smallest_gap(arms, theta, m)
        if found > 1e-12 * np.linalg.norm(theta):  # else two arms are tied at every scale
            thetas.append(theta * (lead / found))
        if len(thetas) == N_DRAWS:
            if rewards.reward_range is None:
                return from_thetas(thetas, arms, rewards)
            stds = np.full(arms.n_arms, 0.5 * np.ptp(rewards.reward_range))
            return [Scenario(theta, stds, rarity=2.0) for theta in thetas]
    raise InvalidInput(f"`gap` has no meaning here: the arms number {m} and {m + 1} are tied for every theta.")


def from_pilot(pilot: Any, arms: ArmSet, rewards: NoiseModel, seed: int) -> list[Scenario]:
    """Return draws of theta, and of the noise if it is unknown, that agree with a pilot experiment.

    theta is normal around the least-squares estimate. The variance of the noise is that of the residuals, scaled by an
    inverse chi-square with as many degrees of freedom.
    """
    try:
        known = identify(arms, _never, history=list(pilot), max_pulls=0, noise=noise_to_run(rewards))
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(f"`pilot` must be the history of a result, or (arm, reward) pairs: {error}") from error
    n_spare = known.n_pulls - arms.dim
    if known.theta is None or (rewards.std is None and n_spare < 1):
        raise NotEnoughData(
            f"`pilot` must measure all features, and once more for the noise: at least {arms.dim + 1} pulls, of arms "
            f"that span {arms.dim} features, got {known.n_pulls}; add some, or give theta and noise_std."
        )
    pulled = np.array(sorted(known.counts), dtype=np.int64)
    counts, rng = np.array([known.counts[arm] for arm in pulled.tolist()], dtype=float), np.random.default_rng(seed)
    scenarios = []
    for _ in range(N_DRAWS):
        level: NoiseModel = rewards
        if rewards.std is None:
            level = SubGaussian(known.noise_std * math.sqrt(n_spare / rng.chisquare(n_spare)))
        stds = _scenario(arms, known.theta, level, is_estimate=True).stds
        F = upper_inverse(triangular((np.sqrt(counts) / stds[pulled])[:, None] * arms.gather(pulled)))
        theta = known.theta + F @ rng.standard_normal(arms.dim)
        scenarios.append(_scenario(arms, theta, level, is_estimate=True))
    return scenarios


def _scenario(arms: ArmSet, theta: Array, rewards: NoiseModel, *, is_estimate: bool = False) -> Scenario:
    """Return the scenario with its noise: the given noise, or that of rewards that are lo or hi.

    Means outside the bounds are refused, unless theta `is_estimate`.
    """
    if rewards.stds is not None:
        return Scenario(theta, rewards.stds)
    if rewards.reward_range is None:
        if rewards.std is None:
            raise InvalidInput(
                "`noise_std` must be given, the approximate noise of one measurement; estimate it by "
                "`noise_from_replicates`, or give a `pilot`."
            )
        return Scenario(theta, np.full(arms.n_arms, rewards.std))
    lo, hi = rewards.reward_range
    rates = (np.concatenate([rows @ theta for _, rows in arms.chunks()]) - lo) / (hi - lo)
    if not is_estimate and not ((rates >= 0.0) & (rates <= 1.0)).all():
        raise InvalidInput(
            f"`theta` must give every arm a mean within the bounds {lo:g} and {hi:g}, got one of "
            f"{lo + (hi - lo) * rates[np.argmax(np.abs(rates - 0.5))]:.3g}."
        )
    common = float(np.clip(rates, 0.0, 1.0).mean())
    if not 0.0 < common < 1.0:
        raise InvalidInput(
            "every reward would be at the same bound, so no arm is better than another; check theta or the pilot."
        )
    rates = np.clip(rates, LEAST_RATE * common, 1.0 - LEAST_RATE * (1.0 - common))
    return Scenario(theta, (hi - lo) * np.sqrt(rates * (1.0 - rates)), 1.0 / min(common, 1.0 - common))


def _never(_: Any) -> float:
    raise AssertionError("no pull was asked for")
