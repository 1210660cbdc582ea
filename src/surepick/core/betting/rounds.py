"""Rounds in random order: bets that assume nothing of the noise but that it does not depend on the arm.

Notation: a round measures every arm that is left once, in uniformly random order; r_a the result of arm a;
z = r_l - r_b for the leader l and a rival b; S, Q and n the sum of z, the sum of z^2 and the number of earlier rounds
of the pair; u = Q/n.

When a round ends, a share of the wealth on the point D >= 0 returns

    1 + tanh(x),    x = z D/sqrt(u), cut to -1 .. 1,

D by the points of `core.betting.bets` around the believed size S/(n sqrt(u)), all of it fixed by earlier rounds.

Why it is valid: tanh(x) is odd in z and does not decrease. If l is not better than b, z is at most a number w or, as
likely, -w: which of the two arms came at which of their two moments is a fair coin, whatever happened at these moments.
So the mean of tanh(x) is at most 0. docs/guarantee.md has the proof (Theorem 28). The return is between 0.23 and 1.77
for any z: a wild result costs little.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np

from surepick.core.betting.bets import FARTHEST, log_mixed, points
from surepick.core.betting.block import Block, BlockFit
from surepick.types import Array, IntArray

FEWEST_ROUNDS = 4
"""Earlier rounds of a pair without which there is no bet on it."""


def log_round_returns(z: Array, sums: Array, squares: Array, n: Array, rest: Array) -> Array:
    """Return the log return of one unit on the difference of two arms in a round.

    Args:
        z: the difference (n,), slack included.
        sums: of the differences in earlier rounds (n,).
        squares: sums of their squares (n,).
        n: their numbers (n,).
        rest: log wealth still missing (n,), positive.
    """
    is_played = (n >= FEWEST_ROUNDS) & (squares > 0.0)
    n, squares = np.where(is_played, n, 1.0), np.where(is_played, squares, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # rewards beyond all measure pay NaN, not evidence
        scale = np.sqrt(squares / n)
        D = points(np.maximum(sums / n, 0.0) / scale, 1.0 / np.sqrt(n), np.sqrt(2.0 * rest))
        x = np.clip(D * (z / scale), -FARTHEST, FARTHEST)
        return np.where(is_played, log_mixed(np.log1p(np.tanh(x))), 0.0)


@final
class PairDifferences:
    """How arms differed in the rounds so far.

    Args:
        n_arms: number of arms, each with a feature of its own.
    """

    now = None
    """The noise level of each arm, as `core.noise.ArmVariances` has it: not known."""

    def __init__(self, n_arms: int) -> None:
        self._of_pairs = np.zeros((3, n_arms, n_arms))  # S, Q and n

    def learn(self, arms: IntArray, X: Array, rewards: Array) -> None:
        """Ignore results that may belong to no round; rounds come by `add`."""

    def add(self, arms: IntArray, rewards: Array) -> None:
        """Take the results of a round: every arm (n,) once, with its reward (n,)."""
        apart = rewards[:, None] - rewards
        self._of_pairs[:, arms[:, None], arms] += [apart, apart * apart, np.ones_like(apart)]

    def bets_on(self, arms: IntArray, X: Array) -> "Callable[[Block, BlockFit], RoundBets]":
        """Return the bets on a round of these arms (n,) with rows X (n, d), one feature each, by earlier rounds."""
        of_pairs, place = self._of_pairs[:, arms[:, None], arms], {arm: i for i, arm in enumerate(arms.tolist())}
        return lambda _, said: RoundBets(said.theta, X, place, of_pairs)


@final
class RoundBets:
    """The bets on one round, see `core.betting.block.OwnBets`.

    Args:
        theta: of the round alone: its rewards, by feature.
        X: rows (n, d) of its arms.
        place: of each arm in the round.
        of_pairs: S, Q and n (3, n, n) of every pair.
    """

    def __init__(self, theta: Array, X: Array, place: Mapping[int, int], of_pairs: Array) -> None:
        self.vectors, self._X, self._place, self._of_pairs = [theta], X, place, of_pairs
        n_pairs = float(of_pairs[2].sum() - np.trace(of_pairs[2]))
        variance = 0.5 * float(of_pairs[1].sum()) / max(n_pairs, 1.0)
        self.noise_std = math.sqrt(variance) if 0.0 < variance < math.inf else 1.0

    def of_leader(self, leader: int) -> Sequence[Array]:
        """Return vectors (d,) whose products with x_leader - x_b are S, Q and n of b."""
        sizes, place = (self._X * self._X).sum(axis=1), self._place.get(leader)
        if place is None:  # its result is void, and no bet rests on this round
            return list(np.zeros((3, self._X.shape[1])))
        of_rivals = self._of_pairs[:, place].copy()
        of_rivals[:, place] = 0.0
        return list(-(of_rivals / sizes) @ self._X)

    def log_returns(self, products: Array, q: Array, m: Array, s2: Array, rest: Array) -> Array:
        """Return the log of what a unit returns (n,)."""
        z, sums, squares, n = products
        return log_round_returns(z, sums, squares, np.rint(n), rest)
