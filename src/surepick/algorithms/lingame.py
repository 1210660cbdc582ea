"""LinGame (Degenne, Menard, Shang and Valko 2020): the optimal design as a game, one round of it per pull.

Notation: i the leader; w (K,) proportions; A(w) = sum_k w_k a_k a_k'; V the information so far, eta a ridge,
L >= norms of the arms, M >= norm of theta.

    leader          i = the best estimate
    proportions     w from the AdaHedge learner of answer i (one per answer that ever leads)
    nature          lambda = the closest parameter in the norm of A(w) under which i is not best
    gains           U_k = optimistic value of ((theta - lambda)'a_k)^2, fed to learner i; see `sampling.games`
    arm             the one furthest behind the sum of all proportions, argmin N_k - W_k (C-tracking)
    stopping        likelihood ratio against beta(t, delta) =
                    (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2

`variant="paper"`: every arm once, ridge estimate, optimistic gains with h(t) = beta(t, t^-3) limited to 4 L^2 M^2, and
the threshold above on the ridge norm (valid, and never later than on the norm of V); needs `norm_bound`, the M. Proved
delta-correct; asymptotically optimal for eta >= 2 (1 + log K) K L^2 + M^2, while eta = 1 is what experiments use. With
optimism="log-t" and stopping="heuristic" it is the version of published comparisons.

Practical: optimism costs about half of all pulls at usual risks, so none; instead pulls are forced when the smallest
eigenvalue of the information falls below a floor, as in Lazy Track-and-Stop, because without either an arm may be
neglected for good (`g_mix` is another way). Least squares without ridge, a spanning set first, the evidence rule.

LinGame-C: the game of LinGame with one learner over pairs (answer, arm).

Notation: i an answer, k an arm; w (I, K) proportions over all pairs, sum 1; w^i its row of answer i; lambda^i nature's
reply to that row; V the information so far, eta a ridge, L >= norms of the arms, M >= norm of theta.

    proportions     w from one AdaHedge learner over all I K pairs
    nature          for the leader i: lambda^i = the closest parameter in the norm of A(w^i) under which i is not best;
                    for any other answer lambda^i = theta, so that its pairs gain their bonus alone
    gains           U_ik = optimistic value of ((theta - lambda^i)'a_k)^2; see `sampling.games`
    pair            the one furthest behind the sum of all proportions, argmin N_ik - W_ik; its arm is pulled
    stopping        likelihood ratio against beta(t, delta) =
                    (noise_std sqrt(log(1/delta) + (d/2) log(1 + t L^2/(eta d))) + sqrt(eta/2) M)^2

A learner over pairs is convex in the answer too, which the analysis uses; its price is O(I K) time and memory per
round, so it is refused for more than `MOST_PAIRS` pairs.

`variant="paper"` and the practical variant differ as for LinGame: every arm once, ridge, optimism and the threshold
above with `norm_bound` for M; or a spanning set, no optimism, forced exploration, the evidence rule. Pulls before the
game count for no pair (public code starts from one made-up pull of every pair).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.estimate import RidgeEstimate
from surepick.core.linalg import cholesky, solve_cholesky
from surepick.errors import InvalidInput
from surepick.sampling.alternatives import Alternatives, Rows
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.sampling.games import AdaHedge, Optimism, OptimismKind, check_ridge, ridge_rule, ridge_threshold
from surepick.sampling.tracking import check_share
from surepick.stopping.base import Rule
from surepick.types import Array

# Share of the G-optimal design in A(w): learned proportions saturate, and A(w) must stay invertible.
JITTER = 1e-6
# Pairs of answer and arm up to which a round takes a few milliseconds: 300 arms that are the answers too.
MOST_PAIRS = 90_000


class GameSetting(NamedTuple):
    """What a player needs to know."""

    task: Task
    optimism: Optimism
    ridge: float
    is_ridge: bool
    """Whether to read the ridge estimate, as the paper's rule does."""
    floor: float
    g_mix: float


class _Player(Chooser):
    """What both players share: the estimate, nature's reply, and optimistic gains."""

    def __init__(self, setting: GameSetting, *, g_mix: float) -> None:
        task, self._optimism, self._is_ridge = setting.task, setting.optimism, setting.is_ridge
        ridge = None if self._optimism.kind == "none" else setting.ridge * task.rows.metric()
        super().__init__(task, floor=setting.floor, g_mix=g_mix, ridge=ridge)
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        if self._is_ridge:
            self._theta = RidgeEstimate(context.estimate).theta

    def along(self, w: Array) -> Array:
        """Return (theta - lambda)'a_k (K,), lambda nature's reply to proportions w (sum 1, or all 0)."""
        dim = self._task.arms.dim
        # In whitened coordinates the G-optimal design has information I.
        A = JITTER * np.eye(dim)
        if w.any():
            A += (1.0 - JITTER) * self._rows.information(w)
        A_inv = solve_cholesky(cholesky(A), np.eye(dim))
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
    """Rounds of the game; in a batch the estimate stays and the learners move on."""

    def __init__(self, setting: GameSetting) -> None:
        super().__init__(setting, g_mix=0.0)
        self._g_mix = setting.g_mix
        self._learners: dict[int, AdaHedge] = {}
        self._wanted: Array | None = None  # W: what all proportions so far add up to

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        if self._wanted is None:
            self._wanted = self._asked.counts.copy()  # what was pulled first was wanted, or tracking would catch up

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

    def __init__(self, setting: GameSetting) -> None:
        super().__init__(setting, g_mix=setting.g_mix)
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


@dataclass(frozen=True, kw_only=True)
class _Game(Options):
    """Options of both games, beside those that all algorithms share; None stands for the variant's own choice.

    Args:
        optimism: bonus in the gains: "paper", "log-t" or "none".
        ridge: the paper's eta; used by optimism and by its own rule.
        norm_bound: the paper's M, a bound on the norm of theta that you know; for its rule and its optimism.
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the G-optimal design; default 0, in the practical variant a tenth under the betting rule.
    """

    plans_with_noise: ClassVar[bool] = True
    optimism: OptimismKind | None = None
    ridge: float = 1.0
    norm_bound: float | None = None
    exploration: float | None = None
    g_mix: float | None = None

    name: ClassVar[str]
    player: ClassVar[type[LinGameChooser | LinGameCChooser]]

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampling rule and the stopping rule."""
        ridge = check_ridge(self.ridge)
        kind: OptimismKind = self.optimism or ("paper" if self.is_paper else "none")
        optimism = Optimism(kind=kind, noise_std=task.noise_std)
        rule = None if self.is_own_rule else self.rule("evidence")
        if rule is None or kind == "paper":
            threshold = ridge_threshold(self.name, task, ridge, self.norm_bound)
            optimism = replace(optimism, threshold=threshold)
            rule = ridge_rule(threshold, elimination=self.elimination) if rule is None else rule
        usual_mix = rule.usual_g_mix if rule.needs_fixed_blocks else 0.0
        setting = GameSetting(
            task,
            optimism,
            ridge,
            is_ridge=self.is_own_rule,
            floor=self.own(self.exploration, practical=0.3, paper=0.0),
            g_mix=check_share(self.own(self.g_mix, practical=usual_mix, paper=0.0)),
        )
        return self.one_by_one(task, self.player(setting), rule)


@final
@dataclass(frozen=True, kw_only=True)
class LinGame(_Game):
    """One learner per answer."""

    name: ClassVar[str] = "lingame"
    player = LinGameChooser


@final
@dataclass(frozen=True, kw_only=True)
class LinGameC(_Game):
    """One learner over pairs (answer, arm)."""

    name: ClassVar[str] = "lingame-c"
    player = LinGameCChooser
