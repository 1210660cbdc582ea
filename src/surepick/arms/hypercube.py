"""The hypercube: arms are the 2^d vectors of signs, answered by formula and never listed when there are many.

Notation: see `surepick.arms.base`; f_i (k,) the rows of F, so that |f_i|^2 = (A^-1)_ii. A rival b differs from the
best arm a by the set S of flipped signs: theta'(a - b) = 2 sum_S |theta_i| and F'(a - b) = 2 sum_S a_i f_i.

Every arm adds 1 to every A_ii, and (A^-1)_ii >= 1/A_ii, so t pulls that leave A = t I resolve all coordinates as well
as any t pulls can, whatever theta is: the rows of a Hadamard matrix do, and tracking gains nothing.

A Hadamard matrix has entries -1 and +1 and orthogonal columns, so that H'H = (order) I exactly. `hadamard` knows three
constructions that need primes alone: doubling [[H, H], [H, -H]] (Sylvester), and the two of Paley from quadratic
residues modulo a prime. Up to 200 they miss the orders 52, 92, 100, 116, 156, 172, 184 and 188 of all multiples of 4.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from surepick.arms.base import HardestRival, NamedSet, check_entries, least_statistic
from surepick.core.checks import check_count, check_delta, check_noise_std, check_rewards, check_vector
from surepick.core.design.directions import SMALLEST_GAP
from surepick.core.linalg import one_blas_thread
from surepick.core.thresholds import MIX_GRID, mix_grid_threshold
from surepick.errors import InvalidInput, TiedArms
from surepick.types import Array

Signs = NDArray[np.int8]


def hadamard_order(least: int) -> int:
    """Return the smallest order of at least `least` that `hadamard` can build; never above the next power of two."""
    order = least
    while not _is_available(order):
        order += 1
    return order


@lru_cache(maxsize=16)
def hadamard(order: int) -> Signs:
    """Return a Hadamard matrix (order, order), not to be written to; the order must be one of `hadamard_order`.

    >>> hadamard(hadamard_order(3))
    array([[ 1,  1,  1,  1],
           [ 1, -1,  1, -1],
           [ 1,  1, -1, -1],
           [ 1, -1, -1,  1]], dtype=int8)
    """
    assert _is_available(order)
    if order == 1:
        H = np.ones((1, 1), dtype=np.int8)
    elif order == 2 or _is_available(order // 2):
        half = hadamard(order // 2)
        H = np.block([[half, half], [half, -half]])
    elif _is_prime(order - 1):
        # The prime is 3 modulo 4, so C is skew: (C + I)(C + I)' = C C' + I.
        H = _conference(order - 1, corner=-1) + np.eye(order, dtype=np.int8)
    else:
        # The prime is 1 modulo 4, so C is symmetric, and the two 2 x 2 blocks anticommute.
        C = _conference(order // 2 - 1, corner=1)
        H = np.kron(C, [[1, 1], [1, -1]]) + np.kron(np.eye(order // 2), [[1, -1], [-1, -1]])
    H = H.astype(np.int8)
    H.flags.writeable = False
    return H


def _is_available(order: int) -> bool:
    if order in (1, 2):
        return True
    if order % 4:
        return False
    # The residues modulo 4 that Paley needs follow from 4 | order, except where doubling comes first.
    return _is_available(order // 2) or _is_prime(order - 1) or _is_prime(order // 2 - 1)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % p for p in range(2, math.isqrt(n) + 1))


def _conference(prime: int, corner: int) -> Signs:
    """Return C (prime + 1, prime + 1) with zeros on the diagonal, signs elsewhere, and C C' = prime I."""
    residue = np.full(prime, -1, dtype=np.int8)
    residue[np.arange(prime) ** 2 % prime] = 1
    residue[0] = 0
    i = np.arange(prime)
    C = np.ones((prime + 1, prime + 1), dtype=np.int8)
    C[0, 0] = 0
    C[1:, 0] = corner
    C[1:, 1:] = residue[(i - i[:, None]) % prime]
    return C


ENUMERATED_DIM = 12
"""Up to this dimension all rivals are enumerated when there is slack: at most 4095."""


@final
@dataclass(frozen=True, slots=True)
class Hypercube(NamedSet):
    """All vectors of `dim` signs: each feature is set low (-1) or high (+1).

    Args:
        dim: number of features d, at least 1.

    Raises:
        InvalidInput: `dim` is not such a number.

    >>> import numpy as np
    >>> cube = Hypercube(3)
    >>> cube.best(np.array([0.5, -2.0, 1.0]))
    array([ 1., -1.,  1.])
    >>> cube.confusion(np.array([0.5, -2.0, 1.0]), F=np.eye(3) / 10, epsilon=0.0)  # 100 pulls, A = 100 I
    HardestRival(value=12.5, is_exact=True, rival=array([-1., -1.,  1.]))
    """

    kind = "hypercube"
    needs_slack = False
    """The best arm is ahead of all others unless some theta_i is zero."""
    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim, least=1))

    @property
    def description(self) -> str:
        """The name of the set in sentences."""
        return f"the hypercube of {self.dim} signs"

    def best(self, theta: Array) -> Array:
        """Return the signs of theta; +1 where theta is zero."""
        return np.where(theta >= 0.0, 1.0, -1.0)

    @one_blas_thread
    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z', exact for epsilon = 0 or d <= 12, else the larger of two lower bounds.

        Epsilon = 0: Z' = min_i theta_i^2 / (2 |f_i|^2), as no set of flips has a ratio
        sum_S |theta_i| / |sum_S a_i f_i| >= sum_S |theta_i| / sum_S |f_i| below the smallest |theta_i| / |f_i| in it.

        With slack the exact value is NP-hard in general. For the bounds, |sum_S a_i f_i| is replaced by something
        never smaller, which makes no ratio larger, and the smallest ratio over all S can then be found by sorting:

        * sum_S |f_i|, the triangle inequality. The largest r with sum_i 2 (r |f_i| - |theta_i|)_+ <= epsilon is the
          smallest (epsilon/2 + sum_S |theta_i|) / sum_S |f_i|, attained when S holds the i with the smallest
          |theta_i| / |f_i|; r^2/2 is the bound. It is never below the value for epsilon = 0.
        * sqrt(|S|) times the largest singular value of F. For a given |S| the smallest |theta_i| are the worst. This is
          Z' itself when A is a multiple of I, as after a whole cycle.

        A bound that a rival attains is Z', and is reported as exact.
        """
        best, sizes = self.best(theta), np.abs(theta)
        norms = np.linalg.norm(F, axis=1)
        if epsilon == 0.0:
            ratios = sizes / norms
            i = int(np.argmin(ratios))
            rival = _flipped(best, np.eye(1, self.dim, i)[0])
            return HardestRival(0.5 * float(ratios[i]) ** 2, is_exact=True, rival=rival)
        turned = best[:, None] * F
        if self.dim <= ENUMERATED_DIM:
            flips = _all_flips(self.dim)
            value, i = least_statistic(flips, sizes, turned, epsilon / 2.0)
            return HardestRival(value, is_exact=True, rival=_flipped(best, flips[i]))
        by_ratio, by_size = np.argsort(sizes / norms, kind="stable"), np.argsort(sizes, kind="stable")
        spread = np.linalg.norm(F, 2) * np.sqrt(np.arange(1, self.dim + 1))
        value, flips = 0.0, np.zeros((2, self.dim))
        for flip, order, lengths in ((flips[0], by_ratio, np.cumsum(norms[by_ratio])), (flips[1], by_size, spread)):
            ratios = (epsilon / 2.0 + np.cumsum(sizes[order])) / lengths
            i = int(np.argmin(ratios))
            value = max(value, 0.5 * float(ratios[i]) ** 2)
            flip[order[: i + 1]] = 1.0
        attained, i = least_statistic(flips, sizes, turned, epsilon / 2.0)
        return HardestRival(value, is_exact=attained <= value * (1.0 + 1e-12), rival=_flipped(best, flips[i]))

    def cycle(self, number: int, seed: int) -> Array:
        """Return the rows of a Hadamard matrix of order H >= d, cut to d columns: A = H I, the same every round."""
        return hadamard(hadamard_order(self.dim))[:, : self.dim].astype(np.float64)

    def checked(self, arm: Any) -> Array:
        """Return the arm as a float vector (d,) of signs.

        Raises:
            InvalidInput: an entry is neither -1 nor +1, or their number is not d.
        """
        return check_entries(arm, self.dim, (-1.0, 1.0), "-1 and +1", "write -1 for low and +1 for high")

    def characteristic_time(self, theta: Any) -> float:
        """Return T* = 2 / min_i theta_i^2, for the best arm itself (epsilon = 0).

        Raises:
            TiedArms: some theta_i is zero, so that two best arms differ in this sign.
        """
        sizes = np.abs(check_vector("theta", theta, self.dim))
        check_rewards(np.eye(self.dim), sizes)
        i = int(np.argmin(sizes))
        if sizes[i] < SMALLEST_GAP:
            raise TiedArms(
                f"arms that differ in position {i} alone are tied under theta ({sizes[i]:.3g} there), so no number of "
                "pulls separates them and T* is infinite; ask for an answer within epsilon > 0 of the best instead, "
                "or drop that feature."
            )
        return 2.0 / float(sizes[i]) ** 2

    def lower_bound(self, theta: Any, delta: float = 0.05, noise_std: float = 1.0) -> float:
        """Return the expected pulls that no delta-correct algorithm can be below: T* sigma^2 kl(delta, 1 - delta).

        Zero for a risk of one half or more.

        Raises:
            TiedArms: some theta_i is zero.
        """
        delta, noise_std = check_delta(delta), check_noise_std(noise_std)
        kl = max(1.0 - 2.0 * delta, 0.0) * math.log((1.0 - delta) / delta)
        return self.characteristic_time(theta) * noise_std**2 * kl


def coordinate_threshold(n_pulls: int, dim: int, delta: float) -> float:
    """Return the threshold of theta_i^2 n_pulls / (2 noise_std^2), for every coordinate, after whole Hadamard cycles.

    After n cycles of order H the noise in theta_i is a sum of n H independent noises with signs fixed in advance: each
    coordinate is a random walk of its own, a one-dimensional problem with information t = n H. One mixture per
    coordinate, at risk delta/d and with regularisers 4^j, j = 0..9, keeps the sign of theta_i wrong at a stop with
    probability at most delta/d, and all d together with at most delta. Not valid when results decide what is pulled:
    then theta_i is no such walk.

    Args:
        n_pulls: pulls so far, a multiple of H.
        dim: number of features d.
        delta: risk of a wrong answer.

    Raises:
        InvalidInput: a number outside its range, or a cycle that is not complete.

    >>> round(coordinate_threshold(400, dim=4, delta=0.05), 4)
    7.4559
    """
    dim, delta = check_count("dim", dim, least=1), check_delta(delta)
    order = hadamard_order(dim)
    n_pulls = check_count("n_pulls", n_pulls, least=1)
    if n_pulls % order:
        raise InvalidInput(
            f"`n_pulls` must be a multiple of {order}, the pulls of one cycle in {dim} dimensions, got {n_pulls}; "
            "complete the cycle first."
        )
    log_dets = np.log1p(n_pulls / MIX_GRID.scales)
    return float(mix_grid_threshold(log_dets, n_pulls, delta=delta / dim, noise_std=1.0))


@lru_cache(maxsize=4)
def _all_flips(dim: int) -> Array:
    """Return all non-empty sets of positions as 0/1 rows (2^d - 1, d)."""
    return (np.arange(1, 2**dim)[:, None] >> np.arange(dim) & 1).astype(np.float64)


def _flipped(arm: Array, flips: Array) -> Array:
    """Return the arm with other signs where `flips` is 1, not 0."""
    return arm * (1.0 - 2.0 * flips)
