"""The contract of a noise model, as a function that you call on your own class."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import t as student

from surepick.arms.finite import FiniteArms
from surepick.core.betting.wealth import Wealth
from surepick.core.estimate import LeastSquares
from surepick.core.noise import FALSE_ALARM, noise_evidence
from surepick.errors import InvalidInput
from surepick.learning.noise_models import NAMED, NoiseModel, noise_model
from surepick.types import Array, IntArray

N_DRAWS, N_BLOCKS, N_PARTS, LARGEST_RETURN = 20_000, 2_000, 4, 4.0
"""Rewards drawn; blocks bet on, the repetitions of their plan, and what a bet counts for at most."""


def check_noise_model(model: NoiseModel) -> None:
    """Check that a noise model keeps the contract of all noise models.

    All random numbers are seeded, so a model that passes once passes always. The checks, in this order: the options
    that spell the model lead back to it by way of JSON; it refuses what is no reward; rewards that it draws have the
    means asked for, and scatter no more than the scale it says; and bets are fair: a unit staked against an arm that is
    as good as the leader returns at most 1 on average (Hoeffding's inequality, for returns cut at 4). Each of the last
    three fails with probability at most 1e-6 on a model that keeps the contract; for the means of noise whose level is
    learnt that is exact if it is Gaussian.

    Raises:
        AssertionError: the contract is broken; the message says how.

    Examples:
        >>> from surepick.learning.noise_models import Binary
        >>> check_noise_model(Binary())
    """
    _check_spelling(model)
    lo, hi = model.reward_range or (-1.0, 1.0)
    for odd in (
        math.nan,
        math.inf,
        "1.0",
        None,
        1e300,
        *([2.0 * lo - hi, 2.0 * hi - lo] if model.reward_range else []),
    ):
        try:
            model.checked("reward", odd, 0)
        except InvalidInput:
            continue
        raise AssertionError(f"{model!r} takes {odd!r} for a reward.")
    _check_draws(model, 0.5 * (lo + hi))
    _check_bets(model, 0.5 * (lo + hi))


def _check_spelling(model: NoiseModel) -> None:
    options: dict[str, Any] = json.loads(json.dumps(model.options()))
    name = options.get("noise", "same")
    is_ours = type(model).__module__ == NoiseModel.__module__
    assert is_ours or model.name not in NAMED, f"{model!r} has a name that is taken, {model.name!r}."
    again = noise_model(**options) if name in NAMED else type(model).of(options.get("noise_std"))
    assert again == model, f"the options of {model!r} spell another model, {again!r}."
    assert again.identity() == model.identity(), f"{model!r} and the model that its options spell differ in identity."


def _check_draws(model: NoiseModel, mean: float) -> None:
    arms = np.arange(N_DRAWS) % _n_arms(model)
    drawn = model.draw(np.random.default_rng(0), np.full(N_DRAWS, mean), arms)
    assert drawn.shape == (N_DRAWS,), f"{model!r} draws {drawn.shape} rewards for {N_DRAWS} means."
    for arm, reward in zip(arms[:100].tolist(), drawn.tolist(), strict=False):
        model.checked("reward", reward, arm)
    noise: Array = drawn - mean if model.stds is None else (drawn - mean) / model.stds[arms]
    if model.std is None:
        most = float(student.isf(0.5 * FALSE_ALARM, N_DRAWS - 1) * noise.std(ddof=1))
    else:
        most = model.std * math.sqrt(2.0 * math.log(2.0 / FALSE_ALARM))
        evidence = noise_evidence(float(noise @ noise) / model.std**2, N_DRAWS)
        assert evidence < math.log(1.0 / FALSE_ALARM), f"{model!r} draws rewards that scatter more than its scale."
    off = abs(float(noise.mean())) * math.sqrt(N_DRAWS)
    assert off <= most, f"{model!r} draws rewards whose mean is off by {noise.mean():.3g}."


def _check_bets(model: NoiseModel, mean: float) -> None:
    """Bet on blocks of arms that are equally good, after results by which the first seemed to lead."""
    n_arms, rng = _n_arms(model), np.random.default_rng(1)
    plan = np.tile(np.arange(n_arms), 5)
    arms = np.tile(plan, N_PARTS)
    scales = np.ones(n_arms) if model.stds is None else model.stds
    rows = np.eye(n_arms) / scales[:, None]

    def results(means: Array) -> Array:
        return np.array([model.scaled(*pull) for pull in zip(arms.tolist(), model.draw(rng, means, arms), strict=True)])

    level = float(np.std(model.draw(rng, np.full(1000, mean), np.zeros(1000, dtype=np.int64))))
    before = results(np.where(arms == 0, mean + 0.5 * level, mean))
    past, variances = LeastSquares(n_arms), model.variances(n_arms)
    past.update_many(rows[arms], before, arms.tolist())
    if variances is not None:
        variances.learn(arms, rows[arms], before)
    returns = np.ones(N_BLOCKS)
    for i in range(N_BLOCKS):
        told = results(np.full(len(arms), mean))
        parts = told.reshape(N_PARTS, -1)
        block = model.block((arms, rows[arms], told), past, variances, partial(_repetitions, plan, rows[plan], parts))
        if block is not None:
            wealth = Wealth(FiniteArms(np.eye(n_arms)), delta=1e-3, noise_std=model.std, bounds=model.reward_range)
            wealth.settle(block)
            leader = wealth.leading(block.theta0)
            returns[i] = math.exp(wealth.log_wealth(leader)[1 if leader == 0 else 0])
    # Hoeffding: N means of numbers between 0 and c, each of mean at most 1.
    most = 1.0 + LARGEST_RETURN * math.sqrt(math.log(1.0 / FALSE_ALARM) / (2.0 * N_BLOCKS))
    paid = float(np.minimum(returns, LARGEST_RETURN).mean())
    assert paid <= most, (
        f"{model!r} bets too much: a unit against an arm that is as good as the others returns {paid:.3g} on average, "
        f"and a fair bet returns at most {most:.3g}."
    )


def _repetitions(plan: IntArray, rows: Array, parts: Array) -> tuple[IntArray, Array, Array]:
    return plan, rows, parts


def _n_arms(model: NoiseModel) -> int:
    return 2 if model.stds is None else len(model.stds)
