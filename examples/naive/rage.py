"""RAGE as its public code does it: the plug-in that run times are compared with.

Fiez, Jain, Jamieson and Ratliff (2019) with the constants of their code, as `algorithm="rage", variant="paper"`.

What is naive about it:
    differences  those of all pairs of arms left are written out, K^2 rows of d numbers: 100 MB at K = 2500 and d = 2,
                 1.6 GB at K = 10 000, and several times that while working on them
    designs      Frank-Wolfe steps, each a pass over all differences, until a step changes the weights by less than 1 %
    elimination  every arm left against every other

The learner around it, and the G-optimal design with which a learner begins, are the package's own.

    X (K, d) the arms as the user gave them; Y (K^2, d) differences; A (d, d) information of one phase; w (K,) weights
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.stopping import Rule, RuleState, Verdict
from surepick.types import Guarantee

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@final
@dataclass(frozen=True, kw_only=True)
class NaiveRage:
    """Options of the algorithm.

    Args:
        slack: of the rounding.
        most_steps: Frank-Wolfe steps for a design at most.
    """

    slack: float = 0.1
    most_steps: int = 1000

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        if task.candidates is not task.arms:
            raise InvalidInput("the naive version compares the arms themselves; leave `candidates` out.")
        return _Sampler(self, task), NaivePhases()


@final
class _Sampler:
    """Phases of doubling accuracy; one block each."""

    def __init__(self, options: NaiveRage, task: Task) -> None:
        self._options, self._task = options, task
        self._X = task.rows.arms.gather(np.arange(task.arms.n_arms))
        self._phase = 0
        self._queue: list[int] = []

    def open(self, context: SamplerContext) -> int:
        """Design the next phase for all pairs left."""
        self._phase += 1
        left = self._X if context.alive is None else self._X[context.alive]
        Y = (left[:, None, :] - left[None, :, :]).reshape(-1, self._X.shape[1])
        w, rho = _pairwise_design(self._X, Y, self._options.most_steps)
        support = np.flatnonzero(w)
        wanted = 8 * (2.0 ** (self._phase - 1) * self._task.noise_std) ** 2 * rho * (1 + self._options.slack)
        n = np.ceil(max(wanted * _price(self._task, self._phase), 2 * len(support) / self._options.slack))
        counts = np.ceil(w[support] * n).astype(int)
        self._queue = np.repeat(support, counts).tolist()
        return len(self._queue)

    def next(self) -> int:
        """Return the next arm of the phase; beyond its end, the first ones again."""
        arm = self._queue.pop(0)
        self._queue.append(arm)
        return arm

    def pulls_per_nat(self) -> float:
        """Return inf: a design for all pairs does not tell what the last one costs."""
        return np.inf


@final
class NaivePhases(Rule):
    """Least squares from the pulls of one phase; an arm goes when another is ahead by more than their width.

    The tests that can hurt are those of the best arm, K - 1 in each phase, each with risk delta / (2 (K t)^2): in all
    less than delta.
    """

    name = "rage"
    guarantee: Guarantee = "proved"
    needs_fixed_blocks = True

    def start(self, task: Task) -> RuleState:
        """Return a fresh state."""
        return _State(task)


@final
class _State(RuleState):
    """Who is left."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._rows = task.arms.gather(np.arange(task.arms.n_arms))
        self._left: BoolArray = np.ones(len(self._rows), dtype=bool)
        self._phase = 0
        self._leader = 0

    def leader(self, estimate: LeastSquares) -> int:
        """Return the leader of the last phase."""
        return self._leader

    def alive(self, leader: int) -> BoolArray:
        """Return the arms left."""
        return self._left

    def after_block(self, estimate: LeastSquares, block: Block) -> Verdict:
        """Compare every arm left with every other."""
        self._phase += 1
        inverse = np.linalg.pinv(block.A)
        index = np.flatnonzero(self._left)
        left = self._rows[index]
        values = left @ (inverse @ block.moments)
        Y = left[:, None, :] - left[None, :, :]
        square = np.maximum(np.sum(Y @ inverse * Y, axis=2), 0)
        width = self.task.noise_std * np.sqrt(2 * square * _price(self.task, self._phase))
        is_beaten = (values[:, None] - values[None, :] >= width) & (square > 0)  # [i, j]: i beats j
        self._leader = int(index[np.argmax(values)])
        self._left[index[is_beaten.any(axis=0)]] = False
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say who is left; the statistic counts the arms ruled out."""
        n_left = int(self._left.sum())
        return Verdict(
            stopped=n_left == 1,
            leader=self._leader,
            statistic=float(len(self._rows) - n_left),
            threshold=float(len(self._rows) - 1),
        )


def _price(task: Task, phase: int) -> float:
    """Log of tests over risk in a phase."""
    return float(np.log(2 * (task.arms.n_arms * phase) ** 2 / task.delta))


def _pairwise_design(X: Array, Y: Array, most_steps: int) -> tuple[Array, float]:
    """Minimise the largest y'A(w)^-1 y over the differences; return the weights and that value."""
    n_arms = len(X)
    w, rho = np.full(n_arms, 1 / n_arms), np.inf
    for step in range(1, most_steps):
        inverse = np.linalg.inv(X.T @ (w[:, None] * X))
        square = np.sum(Y @ inverse * Y, axis=1)
        worst = int(np.argmax(square))
        rho = float(square[worst])
        gain = (X @ (inverse @ Y[worst])) ** 2
        gamma = 2 / (step + 2)
        new = (1 - gamma) * w
        new[int(np.argmax(gain))] += gamma
        change = np.linalg.norm(new - w) / np.linalg.norm(w)
        w = new
        if change < 0.01:
            break
    w[w < 1e-5] = 0  # what is left of the uniform start
    return w / w.sum(), rho
