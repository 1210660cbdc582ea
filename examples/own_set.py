"""A set of arms of your own: the best pair out of two catalogues, although the pairs are never listed.

    python examples/own_set.py

A glaze is a base and an additive: an arm is (1, features of the base, features of the additive). Two catalogues of 300
and 400 make 120 000 arms, but each catalogue by itself answers every question about them.
`tests/examples/test_own_set.py` checks the set with `surepick.testing`.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

import surepick as sp
from surepick.arms.base import HardestRival

Array = NDArray[np.float64]


class Pairs:
    """All arms (1, x, y) with x from the rows of one catalogue and y from the rows of another."""

    needs_slack = False  # finitely many arms: the best one is ahead of the rest by something

    def __init__(self, first: Array, second: Array) -> None:
        self.parts = np.unique(first, axis=0), np.unique(second, axis=0)  # a row that occurs twice is one choice
        self.split = 1 + first.shape[1]
        self.dim = self.split + second.shape[1]
        self.description = f"the {len(self.parts[0])} x {len(self.parts[1])} pairs"
        # One round: d + 1 rows of each catalogue that are as different as can be, every one with every one.
        tall = [np.column_stack([np.ones(len(part)), part]) for part in self.parts]
        chosen = [qr(rows.T, mode="r", pivoting=True)[1][: rows.shape[1]] for rows in tall]
        self._round = np.array([self._arm(i, j) for i, j in product(*chosen)])
        if np.linalg.matrix_rank(self._round) < self.dim:
            raise sp.ArmsDoNotSpan("a feature is constant or redundant within its catalogue; drop it.")

    def _arm(self, i: int, j: int) -> Array:
        return np.concatenate([[1.0], self.parts[0][i], self.parts[1][j]])

    def _best(self, theta: Array) -> tuple[int, int]:
        return int(np.argmax(self.parts[0] @ theta[1 : self.split])), int(
            np.argmax(self.parts[1] @ theta[self.split :])
        )

    def best(self, theta: Array) -> Array:
        """Return the pair with the largest theta'a: the best of each catalogue."""
        return self._arm(*self._best(theta))

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z' for epsilon = 0, else a lower bound, from rivals that differ in one choice alone.

        Let one choice lose g over a distance l = |F'(a - b)|, another g' over l'. Both together lose g + g' over at
        most l + l', and (g + g' + epsilon)/(l + l') is at least the smaller of (g + epsilon/2)/l and
        (g' + epsilon/2)/l'. One choice alone has (g + epsilon)/l, which is larger still. So the smallest
        (g + epsilon/2)/l of all single choices is a lower bound for all pairs, and with epsilon = 0 a rival attains it.
        """
        leader = self._best(theta)
        found = HardestRival(np.inf, is_exact=epsilon == 0.0, rival=self._arm(*leader))
        for which, columns in enumerate((slice(1, self.split), slice(self.split, self.dim))):
            rivals = np.delete(np.arange(len(self.parts[which])), leader[which])
            y = self.parts[which][leader[which]] - self.parts[which][rivals]
            ratios = (y @ theta[columns] + 0.5 * epsilon) / np.linalg.norm(y @ F[columns], axis=1)
            value = 0.5 * float(ratios.min()) ** 2
            if value < found.value:
                pair = list(leader)
                pair[which] = int(rivals[np.argmin(ratios)])
                found = HardestRival(value, found.is_exact, self._arm(*pair))
        return found

    def cycle(self, number: int, seed: int) -> Array:
        """Return the same round every time."""
        return self._round.copy()

    def checked(self, arm: Any) -> Array:
        """Return the arm as a vector, if it is one of the pairs."""
        try:
            vector = np.array(arm, dtype=np.float64) + 0.0
        except (TypeError, ValueError) as error:
            raise sp.InvalidInput(f"an arm must be {self.dim} numbers, got {arm!r}.") from error
        if vector.shape == (self.dim,) and vector[0] == 1.0:
            halves = vector[1 : self.split], vector[self.split :]
            if all((part == half).all(axis=1).any() for part, half in zip(self.parts, halves, strict=True)):
                return vector
        raise sp.InvalidInput(f"an arm must be 1, a row of the first and a row of the second catalogue, got {arm!r}.")


def main() -> None:
    """Find the best of 120 000 pairs."""
    rng = np.random.default_rng(0)
    glazes = Pairs(rng.random((300, 3)), rng.random((400, 2)))
    theta = np.array([5.0, 1.0, -2.0, 0.5, 3.0, -1.0])  # unknown to the search
    result = sp.identify(glazes, lambda arm: theta @ arm + 0.5 * rng.normal(), noise_std=0.5, epsilon=0.1)
    print(result.explain())
    print(f"It loses {theta @ (glazes.best(theta) - result.best):.4f} to the best of 120 000 pairs.")


if __name__ == "__main__":
    main()
