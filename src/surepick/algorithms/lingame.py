"""LinGame and LinGame-C (Degenne, Menard, Shang and Valko 2020): the optimal design as a game, one round per pull.

Notation: i the leader; w (K,) proportions; A(w) = sum_k w_k a_k a_k'; V the information so far, eta a ridge,
L >= norms of the arms, M >= norm of theta.

    leader          i = the best estimate
    proportions     w from the AdaHedge learner of answer i (one per answer that ever leads)
    nature          lambda = the closest parameter in the norm of A(w) under which i is not best
    gains           U_k = optimistic value of ((theta - lambda)'a_k)^2, fed to learner i
    arm             the one furthest behind the sum of all proportions, argmin N_k - W_k (C-tracking)
    stopping        likelihood ratio against beta(t, delta) =
                    (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2

LinGame-C has one AdaHedge learner over all I K pairs of an answer and an arm: w (I, K), sum 1. Nature replies to the
row of the leader; for any other answer lambda = theta, so that its pairs gain their bonus alone. The arm of the pair
furthest behind is pulled. A learner over pairs is convex in the answer too, which the analysis uses; it costs O(I K)
time and memory per round, so more than `MOST_PAIRS` pairs are refused. Pulls before the game count for no pair (public
code starts from one made-up pull of every pair).

Optimistic gains add what is not known yet to what a pull seems worth:

    U_k = min( (|(theta - lambda)'a_k| + sqrt(2 h(t)) |a_k|_{(V + eta I)^-1})^2, c )

* "paper": h(t) = beta(t, t^-3), c = 4 L^2 M^2 (no gain can be larger); needs M.
* "log-t": h(t) = c = noise_std^2 log t, as in published experiments.
* "none": h = 0, no limit. Without optimism an arm can be neglected for good, so something else has to explore.

`variant="paper"`: every arm once, ridge estimate, optimism "paper", and the threshold above on the ridge norm (valid,
and never later than on the norm of V); needs `norm_bound`, the M. Proved delta-correct; asymptotically optimal for
eta >= 2 (1 + log K) K L^2 + M^2, while experiments use eta = 1. With optimism="log-t" and stopping="heuristic" it is
the version of published comparisons.

Practical: optimism costs about half of all pulls at usual risks, so there is none; instead pulls are forced when the
smallest eigenvalue of the information falls below a floor, as in Lazy Track-and-Stop (`g_mix` is another way). Least
squares without ridge, a spanning set first, the evidence rule.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.linalg import inverse
from surepick.core.thresholds import RidgeThreshold
from surepick.errors import InvalidInput
from surepick.sampling.adahedge import AdaHedge
from surepick.sampling.alternatives import Alternatives, Rows
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.sampling.tracking import check_share
from surepick.stopping.base import Rule
from surepick.stopping.glr import check_ridge, ridge_rule, ridge_threshold
from surepick.types import Array

OptimismKind = Literal["paper", "log-t", "none"]

# Share of the G-optimal design in A(w): learned proportions saturate, and A(w) must stay invertible.
JITTER = 1e-6
# Pairs of answer and arm up to which a round takes a few milliseconds: 300 arms that are the answers too.
MOST_PAIRS = 90_000


@dataclass(frozen=True, kw_only=True)
class _Game(Options):
    """Options of both games (`LinGame` explains them); None stands for the variant's own choice."""

    plans_with_noise: ClassVar[bool] = True
    optimism: OptimismKind | None = None
    ridge: float = 1.0
    norm_bound: float | None = None
    exploration: float | None = None
    g_mix: float | None = None

    name: ClassVar[str]
    player: ClassVar["type[LinGameChooser | LinGameCChooser]"]

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        ridge = check_ridge(self.ridge)
        kind: OptimismKind = self.optimism or ("paper" if self.is_paper else "none")
        optimism = Optimism(kind=kind, noise_std=task.noise_std)
        rule = None if self.is_own_rule else self.rule("evidence")
        if rule is None or kind == "paper":
            threshold = ridge_threshold(self.name, task, ridge, self.norm_bound)
            optimism = replace(optimism, threshold=threshold)
            rule = ridge_rule(threshold, elimination=self.elimination) if rule is None else rule
        usual_mix = rule.usual_g_mix if rule.needs_fixed_blocks else 0.0
        floor = self.own(self.exploration, practical=0.3, paper=0.0)
        g_mix = check_share(self.own(self.g_mix, practical=usual_mix, paper=0.0))
        player = self.player(task, optimism, ridge, floor=floor, g_mix=g_mix, reads_ridge=self.is_own_rule)
        return self.one_by_one(task, player, rule)


class _Player(Chooser):
    """A chooser that plays the game: nature's reply, and optimistic gains."""

    def __init__(
        self, task: Task, optimism: "Optimism", ridge: float, *, floor: float, g_mix: float, reads_ridge: bool
    ) -> None:
        matrix = None if optimism.kind == "none" else ridge * task.rows.metric()
        super().__init__(task, floor=floor, g_mix=g_mix, ridge=matrix, reads_ridge=reads_ridge)
        self._optimism = optimism
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)

    def along(self, w: Array) -> Array:
        """Return (theta - lambda)'a_k (K,), lambda nature's reply to proportions w (sum 1, or all 0)."""
        dim = self._task.arms.dim
        # In whitened coordinates the G-optimal design has information I.
        A = JITTER * np.eye(dim)
        if w.any():
            A += (1.0 - JITTER) * self._rows.information(w)
        A_inv = inverse(A)
        found = self._alternatives.closest(self._leader, self._theta, A_inv, self._alive)
        if found is None or not found.gap > 0.0:
            return np.zeros(len(w))
        # theta - lambda = (gap / q) A^-1 y, and gap / q = 2 cost / gap.
        return self._rows.times(A_inv.dot(found.y) * (2.0 * found.cost / found.gap))

    def gains(self, along: Array) -> Array:
        """Return the optimistic gains (K,) of arms with these (theta - lambda)'a_k."""
        width = np.zeros(0)
        if self._optimism.kind != "none":
            width = np.sqrt(np.maximum(self._rows.squares(self._asked.A_inv), 0.0))
        return self._optimism.gains(along, width, self._asked.n, self._task.arms.dim)


@final
class LinGameChooser(_Player):
    """Rounds of the game with one learner per answer; in a batch the estimate stays and the learners move on."""

    def __init__(self, task: Task, optimism: "Optimism", ridge: float, *, g_mix: float, **options: Any) -> None:
        super().__init__(task, optimism, ridge, g_mix=0.0, **options)
        self._g_mix = g_mix  # mixed into the proportions, instead of a share of the pulls
        self._learners: dict[int, AdaHedge] = {}
        self._wanted: Array | None = None  # W: the sum of all proportions so far

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        if self._wanted is None:
            self._wanted = self._asked.counts.copy()  # the starting set was wanted, or tracking would catch up

    def choose(self) -> int:
        """Play a round and return the arm furthest behind, unless another must be explored."""
        assert self._wanted is not None
        learner = self._learners.setdefault(self._leader, AdaHedge(len(self._wanted)))
        w = learner.weights
        learner.feed(-0.5 * self.gains(self.along(w)))
        self._wanted += (1.0 - self._g_mix) * w
        if self._g_mix > 0.0:
            design = self._task.rows.design
            self._wanted[design.support] += self._g_mix * design.weights
        return super().choose()

    def pick(self) -> int:
        """Return the arm furthest behind."""
        assert self._wanted is not None
        return int(np.argmin(np.where(self._wanted > 0.0, self._asked.counts - self._wanted, np.inf)))


@final
class LinGameCChooser(_Player):
    """Rounds of the game over pairs; in a batch the estimate stays and the learner moves on."""

    def __init__(self, task: Task, optimism: "Optimism", ridge: float, **options: Any) -> None:
        super().__init__(task, optimism, ridge, **options)
        self._shape = self._task.rivals.n_arms, self._task.rows.n_arms
        n_pairs = self._shape[0] * self._shape[1]
        if n_pairs > MOST_PAIRS:
            raise InvalidInput(
                f"lingame-c keeps a weight for every pair of an answer and an arm, at most {MOST_PAIRS} "
                f"(300 arms), got {n_pairs}; use lingame, which keeps one per arm."
            )
        self._learner = AdaHedge(n_pairs)
        self._behind = np.zeros(self._shape)  # N - W over pairs

    def pick(self) -> int:
        """Play a round and return the arm of the pair furthest behind."""
        w = self._learner.weights.reshape(self._shape)
        self._learner.feed(-0.5 * self._pair_gains(w).ravel())
        self._behind -= w
        answer, arm = divmod(int(np.argmin(self._behind)), self._shape[1])
        self._behind[answer, arm] += 1.0
        return arm

    def _pair_gains(self, w: Array) -> Array:
        """Return the gains (I, K) of all pairs against nature's replies to w; of other answers the bonus alone."""
        row, total = w[self._leader], float(w[self._leader].sum())
        gains = np.tile(self.gains(np.zeros(len(row))), (self._shape[0], 1))
        gains[self._leader] = self.gains(self.along(row / total if total > 0.0 else row))
        return gains


@final
@dataclass(frozen=True, kw_only=True)
class LinGame(_Game):
    """LinGame: proportions by AdaHedge against the closest alternative, one learner per answer.

    Args:
        optimism: bonus in the gains: "paper", "log-t" or "none".
        ridge: the paper's eta; used by optimism and by its own rule.
        norm_bound: the paper's M, a bound on the norm of theta that you know; for its rule and its optimism.
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the G-optimal design; default 0, in the practical variant a tenth under the betting rule.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "lingame", n_runs=5, seed=0).mean
        137.4

    References:
        Degenne, Menard, Shang and Valko (2020), "Gamification of pure exploration for linear bandits".
    """

    name: ClassVar[str] = "lingame"
    player = LinGameChooser


@final
@dataclass(frozen=True, kw_only=True)
class LinGameC(_Game):
    """LinGame-C: the game of LinGame with one learner over pairs (answer, arm); options as there.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "lingame-c", n_runs=5, seed=1).mean
        90.0

    References:
        Degenne, Menard, Shang and Valko (2020), "Gamification of pure exploration for linear bandits".
    """

    name: ClassVar[str] = "lingame-c"
    player = LinGameCChooser


@final
@dataclass(frozen=True, kw_only=True)
class Optimism:
    """Optimistic gains U_k: the bonus and the limit at a time.

    Args:
        kind: "paper", "log-t" or "none".
        noise_std: sub-Gaussian scale of the noise.
        threshold: the ridge threshold with its norms; for "paper" alone.
    """

    kind: OptimismKind
    noise_std: float
    threshold: RidgeThreshold | None = None

    def gains(self, along: Array, width: Array, t: int, dim: int) -> Array:
        """Return U (K,) from (theta - lambda)'a_k and |a_k| in the norm of (V + eta I)^-1."""
        if self.kind == "none":
            return along * along
        reach = np.abs(along) + math.sqrt(2.0 * self.exploration_rate(t, dim)) * width
        return np.minimum(reach * reach, self.limit(t))

    def exploration_rate(self, t: int, dim: int) -> float:
        """Return h(t), in squared reward units."""
        t = max(t, 2)
        if self.kind == "log-t":
            return self.noise_std**2 * math.log(t)
        assert self.threshold is not None
        return float(self.threshold(n_pulls=t, dim=dim, logdet=0.0, delta=t**-3.0, noise_std=self.noise_std))

    def limit(self, t: int) -> float:
        """Return c, the largest gain that counts."""
        if self.kind == "log-t":
            return self.noise_std**2 * math.log(max(t, 2))
        assert self.threshold is not None
        assert self.threshold.largest_norm is not None
        return 4.0 * self.threshold.largest_norm**2 * self.threshold.norm_bound**2
