"""Rounds: the fixed design of a set of vectors, whole rounds at a time.

    sampling        the rounds of the set's design (basis vectors, a Hadamard matrix, ...), or on the unit sphere the
                    tangent design at the estimate
    stopping        evidence by default, after whole rounds; others by name
    recommendation  the best arm of the set at the estimate

"lazy-track-and-stop" on a set of vectors is this algorithm; for the sphere, section 4 of Jedra and Proutiere (2020).
`variant="paper"` stops by the rule printed there.

The tangent design follows the instance's own optimal design on the unit sphere. Notation: v_1 the estimated best arm,
v_2..v_d an orthonormal basis of its tangent space, w_i the weights of `Sphere.optimal_weights` at the estimate; A the
information of all asks. After four rounds the basis is computed anew whenever the pulls have grown by 1.3, and the next
arm is the v_i whose v_i'A v_i / w_i is smallest. It pays for d = 2 (15 to 23 % fewer pulls). In higher dimension the
smaller lambda_min costs more than the design gains.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.numbered import NumberedVectors
from surepick.arms.sphere import Sphere
from surepick.arms.views import Task
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.stopping.base import Rule
from surepick.stopping.vector_sets import PrintedSphere
from surepick.types import Array

RoundsDesign = Literal["rounds", "tangent"]

# The tangent design: rounds before it, growth of the pulls between two bases, growth between two checks of the rule
# (any set of times is valid).
ROUNDS, GROWTH, LOOK = 4, 1.3, 0.02


@final
@dataclass(frozen=True, kw_only=True)
class Rounds(Options):
    """Rounds of the design that a set of vectors brings along; of the shared options `variant` and `stopping` apply.

    Args:
        design: "rounds", or on the unit sphere "tangent".

    Examples:
        >>> import surepick as sp
        >>> rng, theta = np.random.default_rng(0), np.array([1.0, 0.5, -0.2])
        >>> pull = lambda arm: theta @ arm + 0.5 * rng.standard_normal()
        >>> sp.identify(sp.Sphere(3), pull, noise_std=0.5, epsilon=0.2, algorithm="rounds").n_pulls
        27

    References:
        Jedra and Proutiere (2020), "Optimal best-arm identification in linear bandits", section 4.
    """

    design: RoundsDesign = "rounds"

    takes_vectors: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        rule = self.rule("paper" if self.is_paper and PrintedSphere.suits(task) else "evidence")
        if self.design == "rounds":
            return RoundSampler(task.vectors), rule
        if not PrintedSphere.suits(task):
            raise InvalidInput(
                f'`design` must be "rounds", or "tangent" on a sphere, got {self.design!r} on {task.arms.description}.'
            )
        return TangentSampler(task), rule


@final
class RoundSampler(Sampler):
    """Plays one round of the set's design after the other."""

    def __init__(self, arms: NumberedVectors) -> None:
        self._arms = arms
        self._n_rounds = 0
        self._queue: deque[int] = deque()

    def open(self, context: SamplerContext) -> int:
        """Plan the next round, or the rest of one that was begun ahead of time."""
        if not self._queue:
            self._plan_round()
        return len(self._queue)

    def next(self) -> int:
        """Return the next arm."""
        if not self._queue:
            self._plan_round()
        return self._queue.popleft()

    def _plan_round(self) -> None:
        self._queue.extend(self._arms.round(self._n_rounds))
        self._n_rounds += 1


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

    def open(self, context: SamplerContext) -> int:
        """Plan a round, or the pulls until the next check."""
        t = context.n_asked
        if t < ROUNDS * self._arms.dim or context.theta is None or not context.theta.any():
            return self._rounds.open(context)
        if self._basis is None or t >= GROWTH * self._planned_at:
            theta = self._arms.theta_to_user(context.theta)
            self._basis, self._weights = self._sphere.optimal_weights(theta, self._epsilon)
            self._planned_at = t
        back = self._arms.back
        self._A = back.T @ context.estimate.A @ back
        for number, n in context.pending.items():
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
