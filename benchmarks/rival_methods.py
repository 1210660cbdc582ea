"""What people do who do not use surepick: tests on a uniform sample, racing, halving, and two tools of today.

Rules with a guarantee look at geometric times; look j may err with probability delta/(j (j + 1)), and each of the
K - 1 comparisons of the best arm with another with a (K-1)-th of that: all together err with probability at most delta.
"""

import itertools
import math
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rival_cases import Case

DELTA = 0.05
LOOKS = 1.3
"""The next look comes when the pulls have grown by this factor: of 1.05, 1.1, 1.3, 1.6 and 2 about the best for these
methods, in 30 runs with other seeds of three of the cases."""
FIRST = 5
"""Rewards of each arm before the first test: two that happen to be equal have no variance."""


def by_means(case: Case, rng: np.random.Generator, *, drops: bool) -> tuple[int, int | None]:
    """Pull all arms in turn until one mean is above all others; return pulls and answer, None if it gave up.

    With `drops` that is racing: an arm below another is pulled no more. Means are compared by t-tests on the rewards of
    the two arms (with the fewer degrees of freedom of Hsu's test where arms are not equally noisy), or by Hoeffding's
    inequality where rewards are bounded.
    """
    K = len(case.means)
    alive, sums, squares, n, n_pulls = np.arange(K), np.zeros(K), np.zeros(K), 0, 0
    for look in itertools.count(1):
        n_new = max(math.ceil(FIRST * LOOKS ** (look - 1)) - n, 1)
        rewards = case.draw(np.repeat(alive, n_new), rng).reshape(-1, n_new)
        sums[alive] += rewards.sum(axis=1)
        squares[alive] += (rewards**2).sum(axis=1)
        n += n_new
        n_pulls += rewards.size
        risk = DELTA / (look * (look + 1) * (K - 1))
        means = sums[alive] / n
        if case.is_bounded:
            width: Any = math.sqrt(-math.log(risk) / n)
        else:
            variances = (squares[alive] - n * means**2) / (n - 1)
            quantile = stats.t.isf(risk, (n - 1) * (1 if case.has_levels else 2))
            width = quantile * np.sqrt(np.add.outer(variances, variances) / n)
        ahead = np.subtract.outer(means, means) - width
        leader = int(np.argmax(means))
        if (np.delete(ahead[leader], leader) + case.epsilon > 0.0).all():
            return n_pulls, int(alive[leader])
        if n_pulls >= case.limit:
            return n_pulls, None
        if drops:
            alive = alive[~(ahead > 0.0).any(axis=0)]
    raise AssertionError


def by_least_squares(case: Case, rng: np.random.Generator) -> tuple[int, int | None]:
    """Pull all arms in turn until least squares put one above all others; return pulls and answer, None if it gave up.

    By t-tests with the residual variance, or with the largest variance of bounded rewards.
    """
    X, (K, d) = case.X, case.X.shape
    b, square, counts, t = np.zeros(d), 0.0, np.zeros(K, dtype=int), float(max(K, d + 2))
    for look in itertools.count(1):
        n_pulls = math.ceil(t)
        due = n_pulls // K + (np.arange(K) < n_pulls % K) - counts
        arms = np.repeat(np.arange(K), due)
        rewards = case.draw(arms, rng)
        b += X.T @ np.bincount(arms, rewards, K)
        square += float(rewards @ rewards)
        counts += due
        A_inv = np.linalg.inv(X.T @ (counts[:, None] * X))
        theta = A_inv @ b
        risk = DELTA / (look * (look + 1) * (K - 1))
        if case.is_bounded:
            scale = 0.5 * math.sqrt(-2.0 * math.log(risk))
        else:
            scale = math.sqrt(max(square - b @ theta, 0.0) / (n_pulls - d)) * float(stats.t.isf(risk, n_pulls - d))
        leader = int(np.argmax(X @ theta))
        Y = X[leader] - np.delete(X, leader, axis=0)
        if (Y @ theta + case.epsilon > scale * np.sqrt(np.einsum("ij,jk,ik->i", Y, A_inv, Y))).all():
            return n_pulls, leader
        if n_pulls >= case.limit:
            return n_pulls, None
        t = max(LOOKS * t, n_pulls + 1.0)
    raise AssertionError


def halving(case: Case, n_pulls: int, rng: np.random.Generator) -> int:
    """Sequential halving (Karnin, Koren and Somekh 2013): pull all that are left alike, drop the worse half."""
    alive = np.arange(len(case.means))
    n_rounds = math.ceil(math.log2(len(alive)))
    for _ in range(n_rounds):
        each = max(n_pulls // (len(alive) * n_rounds), 1)
        means = case.draw(np.repeat(alive, each), rng).reshape(-1, each).mean(axis=1)
        alive = alive[np.argsort(-means, kind="stable")[: math.ceil(len(alive) / 2)]]
    return int(alive[0])


def optuna_tpe(case: Case, n_pulls: int, rng: np.random.Generator) -> tuple[int, int]:
    """Optuna's default sampler over the names of the arms; returns the arm of the best trial, and that tried most."""
    import optuna  # noqa: PLC0415 (optional)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=int(rng.integers(2**31))))
    K = len(case.means)
    counts = np.zeros(K, dtype=int)
    for _ in range(n_pulls):
        trial = study.ask()
        arm = trial.suggest_categorical("arm", range(K))
        study.tell(trial, float(case.draw(np.array([arm]), rng)[0]))
        counts[arm] += 1
    return int(study.best_params["arm"]), int(np.argmax(counts))


def mabwiser_ucb(case: Case, n_pulls: int, rng: np.random.Generator) -> int:
    """MABWiser's UCB1 on rewards scaled to the range of the true means; returns the arm pulled most.

    Its linear policies describe the round, not the arms: they have no use for these features.
    """
    from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415 (optional)

    K, low, high = len(case.means), float(case.means.min()), float(case.means.max())

    def reward(arm: int) -> float:
        return (float(case.draw(np.array([arm]), rng)[0]) - low) / (high - low)

    counts = np.ones(K, dtype=int)
    policy = MAB(list(range(K)), LearningPolicy.UCB1(alpha=1.0), seed=int(rng.integers(2**31)))
    policy.fit(list(range(K)), [reward(arm) for arm in range(K)])
    for _ in range(n_pulls - K):
        arm = policy.predict()
        policy.partial_fit([arm], [reward(arm)])
        counts[arm] += 1
    return int(np.argmax(counts))
