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

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.view import Task
from surepick.core.estimate import RidgeEstimate
from surepick.core.linalg import Array, BoolArray, cholesky, solve_cholesky
from surepick.core.thresholds import RidgeThreshold
from surepick.errors import InvalidInput
from surepick.sampling.alternatives import Alternatives, Rows
from surepick.sampling.choosers import Asked, Chooser, Exploration, StartThenChoose
from surepick.sampling.games import AdaHedge, Optimism, OptimismKind, check_ridge, ridge_rule, ridge_threshold
from surepick.sampling.protocol import Situation
from surepick.sampling.tracking import check_share
from surepick.stopping.protocol import Rule

# Share of the G-optimal design in A(w): learned proportions saturate, and A(w) must stay invertible.
JITTER = 1e-6
# Pairs of answer and arm up to which a round takes a few milliseconds: 300 arms that are the answers too.
MOST_PAIRS = 90_000


@dataclass(frozen=True, kw_only=True)
class _Game(Options, ABC):
    """Options of both games, beside those that all algorithms share; None stands for the variant's own choice.

    Args:
        optimism: bonus in the gains: "paper", "log-t" or "none".
        ridge: the paper's eta; used by optimism and by its own rule.
        norm_bound: the paper's M, a bound on the norm of theta that you know; for its rule and its optimism.
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the G-optimal design; default 0, in the practical variant a tenth under the betting rule.
    """

    optimism: OptimismKind | None = None
    ridge: float = 1.0
    norm_bound: float | None = None
    exploration: float | None = None
    g_mix: float | None = None

    name: ClassVar[str]

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampling rule and the stopping rule."""
        arms, ridge = task.rows, check_ridge(self.ridge)
        kind = self.optimism or ("paper" if self.is_paper else "none")
        threshold: RidgeThreshold | None = None
        if self.is_own_rule or kind == "paper":
            threshold = ridge_threshold(self.name, task, ridge=ridge, norm_bound=self.norm_bound)
        if self.is_own_rule:
            assert threshold is not None
            rule: Rule = ridge_rule(threshold, elimination=bool(self.elimination))
        else:
            rule = self.rule("evidence")
        usual = rule.usual_g_mix if rule.needs_fixed_intervals and not self.is_paper else 0.0
        floor = 0.0 if self.is_paper else 0.3
        setting = GameSetting(
            task,
            Optimism(kind=kind, noise_std=task.noise_std, threshold=threshold),
            ridge,
            is_ridge=self.is_own_rule,
            floor=floor if self.exploration is None else self.exploration,
            g_mix=check_share(usual if self.g_mix is None else self.g_mix),
        )
        start = np.arange(arms.n_arms) if self.is_paper else task.spanning
        chooser = self.chooser(setting)
        return StartThenChoose(start, chooser, rule=rule, schedule=self.schedule, dim=arms.dim), rule

    @abstractmethod
    def chooser(self, setting: "GameSetting") -> Chooser:
        """Return the player of this game."""


@final
@dataclass(frozen=True, kw_only=True)
class LinGame(_Game):
    """One learner per answer."""

    name: ClassVar[str] = "lingame"

    def chooser(self, setting: "GameSetting") -> Chooser:
        """Return the player of this game."""
        return LinGameChooser(setting)


@final
@dataclass(frozen=True, kw_only=True)
class LinGameC(_Game):
    """One learner over pairs (answer, arm)."""

    name: ClassVar[str] = "lingame-c"

    def chooser(self, setting: "GameSetting") -> Chooser:
        """Return the player of this game."""
        n_pairs = setting.task.rows.n_arms * setting.task.rivals.n_arms
        if n_pairs > MOST_PAIRS:
            raise InvalidInput(
                f"lingame-c keeps a weight for every pair of an answer and an arm, at most {MOST_PAIRS} "
                f"(300 arms), got {n_pairs}; use lingame, which keeps one per arm."
            )
        return LinGameCChooser(setting)


class GameSetting(NamedTuple):
    """What a player needs to know."""

    task: Task
    optimism: Optimism
    ridge: float
    is_ridge: bool
    """Whether to read the ridge estimate, as the paper's rule does."""
    floor: float
    g_mix: float


class _Player:
    """What both players share: the estimate, nature's reply, and optimistic gains."""

    def __init__(self, setting: GameSetting, *, g_mix: float) -> None:
        task, self._optimism, ridge = setting.task, setting.optimism, setting.ridge
        self._task, self._is_ridge = task, setting.is_ridge
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)
        self._exploration = Exploration(task.rows, task.spanning, floor=setting.floor, g_mix=g_mix)
        is_plain = self._optimism.kind == "none"
        self._asked = Asked(task.rows, None if is_plain else ridge * task.rows.metric())
        self._leader: int | None = None
        self._theta: Array | None = None
        self._alive: BoolArray | None = None

    def look(self, situation: Situation) -> None:
        """Take in the results so far."""
        self._theta = RidgeEstimate(situation.estimate).theta if self._is_ridge else situation.theta
        self._leader, self._alive = situation.leader, situation.alive
        self._asked.renew(situation)

    def along(self, w: Array) -> Array:
        """Return (theta - lambda)'a_k (K,), lambda nature's reply to proportions w (sum 1, or all 0)."""
        assert self._leader is not None
        assert self._theta is not None
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
        if self._optimism.kind == "none":
            return along * along
        width = np.sqrt(np.maximum(self._rows.squares(self._asked.A_inv), 0.0))
        return self._optimism.gains(along, width, self._asked.n, self._task.arms.dim)


@final
class LinGameChooser(_Player):
    """Rounds of the game; in a batch the estimate stays and the learners move on."""

    def __init__(self, setting: GameSetting) -> None:
        super().__init__(setting, g_mix=0.0)
        self._g_mix = setting.g_mix
        self._learners: dict[int, AdaHedge] = {}
        self._counts = np.zeros(self._task.rows.n_arms)
        self._wanted: Array | None = None  # W: what all proportions so far add up to

    def look(self, situation: Situation) -> None:
        """Take in the results so far."""
        super().look(situation)
        self._counts = self._asked.counts(self._task.rows.n_arms)
        if self._wanted is None:
            self._wanted = self._counts.copy()  # what was pulled first was wanted, or tracking would catch up with it

    def choose(self) -> int:
        """Play a round and return the arm furthest behind."""
        assert self._leader is not None
        assert self._wanted is not None
        learner = self._learners.get(self._leader)
        if learner is None:
            learner = self._learners[self._leader] = AdaHedge(self._task.rows.n_arms)
        w = learner.weights
        learner.feed(-0.5 * self.gains(self.along(w)))
        self._wanted += (1.0 - self._g_mix) * w
        if self._g_mix > 0.0:
            design = self._task.rows.design
            self._wanted[design.support] += self._g_mix * design.weights
        arm = self._exploration.due(self._asked)
        if arm is None:
            behind = np.where(self._wanted > 0.0, self._counts - self._wanted, np.inf)
            arm = int(np.argmin(behind))
        self._counts[arm] += 1.0
        self._asked.add(arm)
        return arm


@final
class LinGameCChooser(_Player):
    """Rounds of the game over pairs; in a batch the estimate stays and the learner moves on."""

    def __init__(self, setting: GameSetting) -> None:
        super().__init__(setting, g_mix=setting.g_mix)
        self._shape = self._task.rivals.n_arms, self._task.rows.n_arms
        self._learner = AdaHedge(self._shape[0] * self._shape[1])
        self._behind = np.zeros(self._shape)  # N - W over pairs

    def choose(self) -> int:
        """Play a round and return the arm of the pair furthest behind."""
        arm = self._exploration.due(self._asked)
        if arm is None:
            w = self._learner.weights.reshape(self._shape)
            self._learner.feed(-0.5 * self._pair_gains(w).ravel())
            self._behind -= w
            answer, arm = divmod(int(np.argmin(self._behind)), self._shape[1])
            self._behind[answer, arm] += 1.0
        self._asked.add(arm)
        return arm

    def _pair_gains(self, w: Array) -> Array:
        """Return the gains (I, K) of all pairs against nature's replies to w; of other answers the bonus alone."""
        assert self._leader is not None
        row, total = w[self._leader], float(w[self._leader].sum())
        gains = np.tile(self.gains(np.zeros(len(row))), (self._shape[0], 1))
        gains[self._leader] = self.gains(self.along(row / total if total > 0.0 else row))
        return gains
