"""Frank-Wolfe Sampling (Wang, Tzeng and Proutiere 2021): one Frank-Wolfe step of the optimal design per pull.

Notation: x(t) (K,) in the simplex, the target proportions; V = A(x) = sum_k x_k a_k a_k'; i the leader,
y_j = z_i - z_j, gap_j = theta'y_j; f_j(x) = gap_j^2 / (2 y_j'V^-1 y_j), concave and homogeneous of degree 1 in x, to be
made large for all j at once.

    target          i      = the best estimate
                    J      = {j : f_j < min f + r_t}, r_t = t^-0.9 / K
                    z      = argmax over the simplex of min over j in J of (z - x)'grad f_j
                             (grad f_j)_k = (gap_j a_k'V^-1 y_j / y_j'V^-1 y_j)^2 / 2
                    x(t)   = ((t - 1) x(t - 1) + z) / t
    exploration     z uniform while sqrt(floor(t / K)) is an integer, or if the estimates tie
    arm             argmax x_k(t) / N_k
    stopping        any threshold of order log(t / delta); the paper's experiments take log((1 + log t) / delta)

The inner problem is a matrix game of arms against alternatives, since x'grad f_j = f_j: if J has one element its best
arm is the answer, otherwise a linear program. Arms and alternatives enter that program one by one as they are needed.

Practical: a spanning set of d arms stands for "every arm" in the start, in the exploration and in the schedules (d for
K); stopping is the evidence rule. Optimality only needs the smallest eigenvalue of V to be kept away from 0, which
exploring d arms does. `variant="paper"`: all K arms, and the threshold of the experiments, which is not proved: ask for
stopping="evidence" to have the paper's sampling with a guarantee.

Departures from the public code, not from the paper: V^-1 is the inverse of V (there it starts as V itself and is
updated with wrong weights), theta is the least-squares estimate (there with a ridge of 1), and the answer is an arm
(there a coordinate of theta). r_t is compared with f_j / noise_std^2.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import scipy

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.linalg import inverse
from surepick.errors import SurepickError
from surepick.sampling.alternatives import Alternatives, Rows
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule
from surepick.types import Array, IntArray

# The inverse is computed afresh after this number of rank-one updates, or when one of them loses two digits.
REFRESH_EVERY, GAIN_LIMIT = 1000, 100.0
# The game is solved when neither side can gain more than this share of its value.
GAME_TOL = 1e-6


@final
@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Options):
    """Frank-Wolfe Sampling: one Frank-Wolfe step of the optimal design per pull.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "frank-wolfe", n_runs=5, seed=0).mean
        77.2

    References:
        Wang, Tzeng and Proutiere (2021), "Fast pure exploration via Frank-Wolfe".
    """

    plans_with_noise: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        chooser = FrankWolfeChooser(task, self.first_arms(task))
        return self.one_by_one(task, chooser, self.rule("heuristic" if self.is_paper else "evidence"))


@final
class FrankWolfeChooser(Chooser):
    """The target and its tracking; in a batch the estimate stays and the target moves on.

    Args:
        task: the task of the run.
        explored: the arms that exploration goes through; their number replaces K in the schedules.
    """

    def __init__(self, task: Task, explored: IntArray) -> None:
        super().__init__(task)
        self._explored = explored
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)
        self._mass: Array | None = None  # t x(t): the sum of all z so far
        self._t = 0
        self._V = np.zeros((task.rows.dim, task.rows.dim))  # t A(x), so that z adds A(z)
        self._V_inv = self._V
        self._n_updates = 0

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        if self._mass is None:
            # The starting set is on target: x(K) is uniform after every arm was pulled once.
            self._mass, self._t = self._asked.counts.copy(), round(self._asked.counts.sum())
            self._V = self._asked.A.copy()
            self._refresh()

    def pick(self) -> int:
        """Return the arm furthest behind its target after one more step."""
        assert self._mass is not None
        self._t += 1
        support, z = self._step()
        self._mass[support] += z
        self._add(support, z)
        due = np.flatnonzero(self._mass)
        with np.errstate(divide="ignore"):  # never pulled but wanted: infinitely far behind
            return int(due[np.argmax(self._mass[due] / self._asked.counts[due])])

    def _step(self) -> tuple[IntArray, Array]:
        """Return z: its support and weights."""
        explored, leader = self._explored, self._leader
        uniform = explored, np.full(len(explored), 1.0 / len(explored))
        if is_square(self._t // len(explored)):
            return uniform
        t = self._t - 1  # the sum of the target so far: with t V for V the costs are t f_j
        gap, costs = self._alternatives.costs(leader, self._theta, self._V_inv, self._alive)
        least = float(costs.min())
        if not 0.0 < least < math.inf:
            return uniform
        slack = t * self._t**-0.9 / len(explored) * self._task.noise_std**2
        close = np.flatnonzero(costs < least + slack)
        y = self._alternatives.differences(leader, close)
        # The gradient is (a_k'u_j)^2; the factor t cancels in a'V^-1 y / y'V^-1 y = 2 cost a'V^-1 y / gap^2.
        u = y.dot(self._V_inv) * (math.sqrt(2.0) * costs[close] / gap[close])[:, None]
        if len(close) == 1:
            along = self._rows.times(u[0])
            return np.array([np.argmax(along * along)]), np.ones(1)
        return Game(self._rows, u, costs[close] / t).solve(int(np.argmin(costs[close])))

    def _add(self, support: IntArray, z: Array) -> None:
        rows = self._rows.gather(support)
        self._V += (rows.T * z).dot(rows)
        self._n_updates += len(support)
        if len(support) > len(self._V):
            self._refresh()
            return
        for x, weight in zip(rows, z.tolist(), strict=True):
            v = self._V_inv.dot(x)
            gain = weight * float(v.dot(x))
            if not gain <= GAIN_LIMIT or self._n_updates >= REFRESH_EVERY:
                self._refresh()
                return
            v *= math.sqrt(weight / (1.0 + gain))
            self._V_inv -= v[:, None] * v

    def _refresh(self) -> None:
        self._V_inv = inverse(self._V)
        self._n_updates = 0


@final
class Game:
    """max over z in the simplex of min over j of sum_k z_k (a_k'u_j)^2 - f_j, by growing a small matrix game.

    Either side answers the other's mixture with its best single choice, which joins the small game, until neither
    gains. Of K arms and n alternatives a handful ever matters, so the K n payoffs are never computed.

    Args:
        rows: the arms.
        u: one vector (d,) per alternative, (n, d).
        f: one value per alternative, (n,).
    """

    def __init__(self, rows: Rows, u: Array, f: Array) -> None:
        self._rows, self._u, self._f = rows, u, f
        self._cols: list[int] = []  # arms in the small game
        self._gains: list[Array] = []  # their (a_k'u_j)^2 over all alternatives j, (n,)

    def solve(self, first: int) -> tuple[IntArray, Array]:
        """Return the arms in the answer and their weights, starting against the alternative `first`."""
        rivals, share, z = [first], np.ones(1), np.empty(0)
        for turn in range(200):
            arm, upper = self._best_arm(rivals, share)
            is_new = arm not in self._cols
            if is_new:
                self._cols.append(arm)
                self._gains.append(self._u.dot(self._rows.gather([arm])[0]) ** 2)
                z = np.append(z, 0.0) if len(z) else np.ones(1)
            payoffs = np.array(self._gains).T - self._f[:, None]
            left = payoffs.dot(z)
            worst = int(np.argmin(left))
            is_known = not is_new and worst in rivals
            if is_known or upper - left[worst] <= GAME_TOL * float(np.abs(payoffs).max()):
                break
            if worst not in rivals:
                rivals.append(worst)
            z, share = play(payoffs[rivals])
            if turn < 30 and np.count_nonzero(z) > 1:
                # Choices that are not played leave the small game and may come back. After 30 turns all stay, so the
                # loop ends.
                rivals = [j for j, q in zip(rivals, share, strict=True) if q > 0.0]
                self._cols = [k for k, weight in zip(self._cols, z, strict=True) if weight > 0.0]
                self._gains = [g for g, weight in zip(self._gains, z, strict=True) if weight > 0.0]
                z, share = z[z > 0.0], share[share > 0.0]
        used = z > 0.0
        return np.array(self._cols)[used], z[used] / z[used].sum()

    def _best_arm(self, rivals: list[int], share: Array) -> tuple[int, float]:
        total = np.zeros(self._rows.arms.n_arms)
        for j, q in zip(rivals, share.tolist(), strict=True):
            if q > 0.0:
                along = self._rows.times(self._u[j])
                total += q * along * along
        arm = int(np.argmax(total))
        return arm, float(total[arm]) - float(share.dot(self._f[rivals]))


def play(payoffs: Array) -> tuple[Array, Array]:
    """Return optimal mixtures of a matrix game: over columns for the maximiser, over rows for the minimiser."""
    n, m = payoffs.shape
    low, high = payoffs.min(axis=0), payoffs.max(axis=1)
    if low.max() == high.min():  # a saddle point; a side without a choice has one
        return np.eye(m)[int(np.argmax(low))], np.eye(n)[int(np.argmin(high))]
    if abs(n - m) <= 1 and (answer := _even_play(payoffs)) is not None:
        return answer
    # max v with v <= sum_k z_k payoff_jk for all j. Scaled, because the solver's tolerances are absolute.
    scaled = payoffs / np.abs(payoffs).max()
    solution = scipy.optimize.linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack([-scaled, np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * m + [(None, None)],
        method="highs-ds",
    )
    if solution.x is None:
        raise SurepickError(f"the linear program of a Frank-Wolfe step failed: {solution.message}.")
    z = np.maximum(solution.x[:m], 0.0)
    share = np.maximum(-solution.ineqlin.marginals, 0.0)
    return z / z.sum(), share / share.sum()


def _even_play(payoffs: Array) -> tuple[Array, Array] | None:
    """Return optimal mixtures of a nearly square game without a linear program, or None.

    In a square part of the game, mixtures that leave the other side indifferent are optimal if they exist. They are
    optimal in the whole game if the choices left out do not pay. One choice of the larger side is left out.
    """
    n, m = payoffs.shape
    # A constant added to all payoffs changes no mixture and keeps the value away from 0.
    shifted = payoffs / np.abs(payoffs).max() + 2.0
    for left_out in range(max(n, m) if n != m else 1):
        kept_rows = [j for j in range(n) if n <= m or j != left_out]
        kept_cols = [k for k in range(m) if m <= n or k != left_out]
        part = shifted[np.ix_(kept_rows, kept_cols)]
        try:
            even = np.linalg.solve(np.stack([part, part.T]), np.ones((2, len(part), 1)))[..., 0]
        except np.linalg.LinAlgError:
            continue
        if not (np.isfinite(even).all() and even.min() >= 0.0):
            continue
        z, share = np.zeros(m), np.zeros(n)
        z[kept_cols], share[kept_rows] = even[0] / even[0].sum(), even[1] / even[1].sum()
        value = 1.0 / even[0].sum()
        if shifted.dot(z).min() >= value - 1e-9 and share.dot(shifted).max() <= value + 1e-9:
            return z, share
    return None


def is_square(n: int) -> bool:
    """Return whether sqrt(n) is an integer."""
    return math.isqrt(n) ** 2 == n
