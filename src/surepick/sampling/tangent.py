"""Tangent sampling on the unit sphere: follow the instance's own optimal design instead of whole rounds.

Notation: v_1 the estimated best arm, v_2..v_d an orthonormal basis of its tangent space, w_i the weights of
`Sphere.optimal_weights` at the estimate; A the information of all asks. After four rounds the basis is drawn up anew
whenever the pulls have grown by 1.3, and the next arm is the v_i whose v_i'A v_i / w_i is smallest.

Pays for d = 2 (15 to 23 % fewer pulls). In higher dimension the price of the smaller lambda_min eats the gain.
"""

import math
from typing import final

import numpy as np

from surepick.arms.sphere import Sphere
from surepick.arms.view import Task
from surepick.core.linalg import Array
from surepick.sampling.fixed import RoundSampler
from surepick.sampling.protocol import Sampler, Situation

ROUNDS = 4
GROWTH = 1.3
LOOK = 0.02
"""A check whenever the pulls have grown by this share: any set of times is as valid."""


@final
class TangentSampler(Sampler):
    """Rounds first, then the optimal design at the estimate."""

    def __init__(self, task: Task) -> None:
        arms = task.vectors
        assert isinstance(arms.vectors, Sphere)
        self._arms, self._sphere, self._epsilon = arms, arms.vectors, task.epsilon
        self._rounds = RoundSampler(arms)
        self._basis: Array | None = None
        self._weights = np.empty(0)
        self._planned_at = 0
        self._A = np.zeros((arms.dim, arms.dim))

    @staticmethod
    def suits(task: Task) -> bool:
        """Return whether the arms are a unit sphere."""
        return isinstance(task.vectors.vectors, Sphere)

    def open(self, situation: Situation) -> int:
        """Plan a round, or until the next check."""
        t = situation.n_asked
        if t < ROUNDS * self._arms.dim or situation.theta is None or not situation.theta.any():
            return self._rounds.open(situation)
        if self._basis is None or t >= GROWTH * self._planned_at:
            theta = self._arms.theta_to_user(situation.theta)
            self._basis, self._weights = self._sphere.optimal_weights(theta, self._epsilon)
            self._planned_at = t
        back = self._arms.back
        self._A = back.T @ situation.estimate.A @ back
        for number, n in situation.pending.items():
            row = self._arms.arm_of(number)
            self._A += n * np.outer(row, row)
        return max(math.ceil(LOOK * t), 1)

    def next(self) -> int:
        """Return the next arm."""
        if self._basis is None:
            return self._rounds.next()
        load = np.einsum("ij,jk,ik->i", self._basis, self._A, self._basis)
        row = self._basis[int(np.argmin(load / self._weights))]
        self._A += np.outer(row, row)
        return self._arms.number(row)
