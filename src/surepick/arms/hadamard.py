"""Hadamard matrices: entries -1 and +1, columns orthogonal, so that H'H = (order) I exactly.

Orders come from three constructions that need nothing but primes: doubling [[H, H], [H, -H]] (Sylvester), and the two
of Paley from quadratic residues modulo a prime. Up to 200 they miss the orders 52, 92, 100, 116, 156, 172, 184 and 188
of all multiples of 4.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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
