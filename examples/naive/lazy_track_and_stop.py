"""Lazy Track-and-Stop as one would first write it: the plug-in that run times are compared with.

The same algorithm and constants as `examples/tiny.py` (Jedra and Proutiere 2020, appendix A), in the two parts that a
learner drives, and vectorised NumPy throughout: a fair opponent, written without the ideas of this package.

What is naive about it:
    designs     1000 Frank-Wolfe steps, each a pass over all K arms, whether or not they are needed
    stopping    the statistic of all K rivals after every pull, O(K d^2)
    tracking    sums and counts of length K, although a few arms are pulled

The learner around it, and the G-optimal design with which a learner begins, are the package's own.

    X (K, d) the arms as the user gave them; A (d, d) information; N, w, W (K,) counts, design, sum of designs
"""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.stopping import Rule, RuleState, Verdict
from surepick.types import Guarantee

Array = NDArray[np.float64]

U = 0.1  # the constant u of the paper's threshold


@final
@dataclass(frozen=True, kw_only=True)
class NaiveLazyTrackAndStop:
    """Options of the algorithm.

    Args:
        tracking: "averaged" follows the sum of all designs, "current" the design in force.
        n_steps: Frank-Wolfe steps for a design.
    """

    tracking: Literal["averaged", "current"] = "averaged"
    n_steps: int = 1000

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        if task.candidates is not task.arms:
            raise InvalidInput("the naive version compares the arms themselves; leave `candidates` out.")
        X = task.rows.arms.gather(np.arange(task.arms.n_arms))
        start = _spanning_arms(X, np.random.default_rng(task.seed))
        c = float(np.linalg.eigvalsh(X[start].T @ X[start])[0])
        return _Sampler(self, task, X, start, c), NaiveRule(c)


@final
class _Sampler:
    """Forced exploration or tracking; blocks of one pull, so that every result is looked at."""

    def __init__(self, options: NaiveLazyTrackAndStop, task: Task, X: Array, start: list[int], c: float) -> None:
        self._options, self._task, self._X, self._start, self._c = options, task, X, start, c
        n_arms, d = X.shape
        self._A, self._N, self._t, self._turn = np.zeros((d, d)), np.zeros(n_arms), 0, 0
        self._uniform = np.bincount(start, minlength=n_arms) / d
        self._w, self._W = self._uniform, np.zeros(n_arms)

    def open(self, context: SamplerContext) -> int:
        """Renew the design when t is a power of two."""
        t = context.n_pulls
        if context.theta is not None and t & (t - 1) == 0:
            theta = self._task.arms.theta_to_user(context.theta)
            self._w = _optimal_design(self._X, theta, (self._w + self._uniform) / 2, self._options.n_steps)
        return 1

    def next(self) -> int:
        """Return the next arm."""
        if self._t > 0:
            self._W = self._W + self._w
        d = self._X.shape[1]
        if self._t < d or np.linalg.eigvalsh(self._A)[0] < self._c * np.sqrt(self._t / d):
            arm = self._start[self._turn]
            self._turn = (self._turn + 1) % d
        else:
            due = self._W if self._options.tracking == "averaged" else self._t * self._w
            support = np.flatnonzero(due)
            arm = int(support[np.argmin((self._N - due)[support])])
        self._A = self._A + np.outer(self._X[arm], self._X[arm])
        self._N[arm] += 1
        self._t += 1
        return arm

    def pulls_per_nat(self) -> float:
        """Return inf: the plain version makes no forecast."""
        return np.inf


@final
@dataclass(frozen=True)
class NaiveRule(Rule):
    """Stop when the likelihood ratio of the closest rival exceeds the paper's threshold; looks at all arms each time.

    Rows are whitened, which changes neither gaps nor variances, because that is how the learner keeps its estimate.
    """

    c: float
    name: str = "paper-appendix"
    guarantee: Guarantee = "proved"

    def start(self, task: Task) -> RuleState:
        """Return a fresh state."""
        return _State(task, self.c)


@final
class _State(RuleState):
    """The rule at work; it remembers nothing."""

    decides_after_pulls = True

    def __init__(self, task: Task, c: float) -> None:
        super().__init__(task)
        self._c, self._rows = c, task.arms.gather(np.arange(task.arms.n_arms))

    def after_pull(self, estimate: LeastSquares) -> Verdict | None:
        """Decide."""
        return self.exact(estimate) if estimate.has_theta else None

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Compare the closest of all rivals with the threshold."""
        best, rival, Z = _closest_rival(self._rows, estimate.theta, estimate.A)
        statistic = Z / self.task.noise_std**2
        back = self.task.rows.back
        A = back.T @ estimate.A @ back  # in the user's coordinates, where the paper has its constant c
        logdet = np.linalg.slogdet(np.eye(len(A)) + A / (U * self._c))[1]
        threshold = float((1 + U) * (logdet / 2 + np.log(1 / self.task.delta)))
        return Verdict(
            stopped=statistic > threshold, leader=best, rival=rival, statistic=statistic, threshold=threshold
        )


def _spanning_arms(X: Array, rng: np.random.Generator) -> list[int]:
    """Go through the arms in random order and keep each that adds a dimension."""
    chosen: list[int] = []
    for k in rng.permutation(len(X)).tolist():
        if np.linalg.matrix_rank(X[[*chosen, k]]) > len(chosen):
            chosen.append(k)
        if len(chosen) == X.shape[1]:
            break
    return chosen


def _optimal_design(X: Array, theta: Array, start: Array, n_steps: int) -> Array:
    """Maximise the likelihood ratio of the closest rival per pull, by Frank-Wolfe steps."""
    w = start
    for step in range(n_steps):
        A = X.T @ (w[:, None] * X)
        best, rival, _ = _closest_rival(X, theta, A)
        gain = (X @ np.linalg.solve(A, X[best] - X[rival])) ** 2
        w = w * (1 - 1 / (step + 2))
        w[int(np.argmax(gain))] += 1 / (step + 2)
    return w


def _closest_rival(X: Array, theta: Array, A: Array) -> tuple[int, int, float]:
    """Return the leader, the arm hardest to tell from it, and gap^2 / (2 y'A^-1 y) of the two."""
    best = int(np.argmax(X @ theta))
    Y = X[best] - X
    variance = np.sum(Y @ np.linalg.inv(A) * Y, axis=1)
    # The leader and copies of it are no rivals.
    Z = np.divide((Y @ theta) ** 2, 2 * variance, out=np.full(len(X), np.inf), where=variance > 0)
    rival = int(np.argmin(Z))
    return best, rival, float(Z[rival])
