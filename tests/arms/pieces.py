"""A set that is visited in pieces of a given size: what chunks do to oracles."""

from collections.abc import Iterator, Sequence

import numpy as np

from surepick.arms.base import ArmSet
from surepick.types import Array, IntArray


class InPieces(ArmSet):
    """The same rows, visited in chunks of any size; everything else as naive as possible."""

    def __init__(self, X: Array, step: int) -> None:
        self.X, self.step = X, step
        self.n_arms, self.dim = X.shape

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Row by row."""
        return np.array([self.X[i] for i in index]).reshape(-1, self.dim)

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """`step` rows at a time."""
        for start in range(0, self.n_arms, self.step):
            yield start, self.X[start : start + self.step]

    def copies(self, arm: int) -> IntArray:
        """By comparing with every row."""
        return np.array([i for i in range(self.n_arms) if (self.X[i] == self.X[arm]).all()], dtype=np.int64)
