"""Pools with a known answer: tables of fixed scores, one for every arm on every item.

Notation: scores (M, K) of K arms on M items, between `lo` and `hi`; the best arm has the largest mean over the items.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.core.checks import check_count, check_matrix, check_number, check_reward_range, check_seed, check_vector
from surepick.errors import InvalidInput
from surepick.types import Array


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PoolProblem:
    """Arms with one fixed score on each item of a pool, which an experimenter does not know.

    `simulate` asks the items in the random order of each run.

    Attributes:
        scores: (M, K), a row for each item and a column for each arm; read-only.
        name: the generator and its arguments, or your own label.
        reward_range: bounds of the scores.

    Examples:
        >>> import surepick as sp
        >>> table = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]]
        >>> problem = sp.problems.PoolProblem(scores=table, name="four questions")
        >>> sp.simulate(problem, n_runs=5).correct.all()
        np.True_
    """

    scores: Array
    name: str
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        scores = check_matrix("scores", self.scores).copy()
        lo, hi = check_reward_range(self.reward_range)
        if min(scores.shape) < 2:
            raise InvalidInput(f"`scores` must have at least 2 rows (items) and 2 columns (arms), got {scores.shape}.")
        if scores.min() < lo or scores.max() > hi:
            raise InvalidInput(
                f"`scores` must be between {lo:g} and {hi:g}, got {scores.min():g} to {scores.max():g}; give a wider "
                "`reward_range`."
            )
        scores.setflags(write=False)
        object.__setattr__(self, "scores", scores)

    @property
    def X(self) -> Array:  # noqa: N802 - the letter of the notation
        """The arms, one feature for each: features are not used."""
        return np.eye(self.scores.shape[1])

    @property
    def dim(self) -> int:
        """Number of features: one for each arm."""
        return int(self.scores.shape[1])

    @property
    def noise_std(self) -> float:
        """0: scores are fixed."""
        return 0.0

    @property
    def n_items(self) -> int:
        """Number of items M."""
        return len(self.scores)

    @property
    def means(self) -> Array:
        """Mean score of each arm over the pool (K,)."""
        return np.asarray(self.scores.mean(axis=0))

    def loss(self, answer: int) -> float:
        """Return how far the mean of an arm is below the largest; exactly 0 for one of several best arms."""
        sums = self.scores.sum(axis=0)
        return float((sums.max() - sums[answer]) / self.n_items)

    def score(self, arm: int, item: int) -> float:
        """Return the score of an arm on an item."""
        return float(self.scores[item, arm])

    def pull(self, arm: int, rng: np.random.Generator) -> float:
        """Return the score on a random item."""
        return self.score(arm, int(rng.integers(self.n_items)))


def pool(
    shares: Sequence[float] = (0.7, 0.64, 0.64), n_items: int = 400, *, correlation: float = 0.6, seed: int = 0
) -> PoolProblem:
    """Arms that pass exactly these shares of the items, to the nearest item, and mostly the same ones.

    Args:
        shares: of the items that each arm passes.
        n_items: number of items M.
        correlation: of the normal numbers for two arms whose thresholds are passes and failures.
        seed: of the table.
    """
    passed = check_vector("shares", shares, np.size(shares))
    n_items, seed = check_count("n_items", n_items, least=2), check_seed(seed)
    common = check_number("correlation", correlation, needed="between 0 and 1", allowed=lambda x: 0.0 <= x <= 1.0)
    rng = np.random.default_rng(seed)
    parts: tuple[Any, Any] = rng.standard_normal((n_items, 1)), rng.standard_normal((n_items, len(passed)))
    hardness = math.sqrt(common) * parts[0] + math.sqrt(1.0 - common) * parts[1]
    ranks = hardness.argsort(axis=0).argsort(axis=0)
    scores = (ranks < np.round(passed * n_items)).astype(np.float64)
    return PoolProblem(scores=scores, name=f"pool M={n_items} K={len(passed)} seed={seed}")
