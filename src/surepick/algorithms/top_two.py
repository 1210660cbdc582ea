"""Top-two rules: a leader, a challenger, and the pull that tells them apart; L-T3C (Shang et al. 2020) and relatives.

Notation: theta, A (d, d) estimate and information of everything asked for; i the leader, j the challenger,
y = z_i - z_j, gap_j = theta'y; N_k pulls of arm k; theta~ ~ N(theta, noise_std^2 A^-1), one draw per round.

    leader          "best": the best estimate. "thompson": the best under theta~
    challenger      "transport": argmin over j of gap_j+^2 / (2 y'A^-1 y), ties at random
                    "transport-penalised": the same plus log n_j, n_j = 1 / (z_j'A^-1 z_j) the pulls that candidate is
                    worth (N_j if the arms are a basis): a rival measured less is challenged more
                    "resample": the best under further draws until it is not the leader; after `MOST_DRAWS` draws
                    "transport", since near the end a draw disagrees with probability about delta
    arm             "greedy": argmax (a'A^-1 y)^2 / (1 + a'A^-1 a), what shrinks y'A^-1 y most
                    "ratio": keep the pulls in the proportions of the L1 allocation of y
                    "ids": arm k with probability N_k (a_k'A^-1 y)^2 / y'A^-1 y, which sum to 1; never a new arm
                    "coin": leader or challenger, a fair coin (published as "N"). For orthogonal arms only: where a
                    third arm is the informative one, as on the Soare instance, it hardly learns anything
                    "evidence-greedy": no challenger; the pull that raises the evidence against the hardest rivals most

Names in the literature, all heuristic as ways to choose arms:

    TTTS        "thompson", "resample", "coin" (Russo 2016)
    T3C         "thompson", "transport", "coin" (Shang et al. 2020); for linear arms with "greedy": L-T3C
    IDS         "ids" with any leader and challenger (Qin and You 2023)

As published they explore nothing besides: exploration=0, g_mix=0.

A leader by estimate with transport and greedy is greedy LinGapE with a likelihood ratio for its index. That rule alone
can get stuck on rivals that tie, hence `g_mix` and `exploration`.

Evidence-greedy: with u = A^-1 y, v = A^-1 u and S_j = y'u + kappa_j u'u let l_j = log p_j - logdet_j / 2
+ gap^2 / (2 noise_std^2 S_j) be the terms of the evidence L = logsumexp_j l_j of a rival (`core.evidence`), and
pi_j = exp(l_j - L). Rivals count with weights exp(-(L - min L) / T), T = 0.1 max(1, sqrt(min L)). One more pull of a
raises S_j^-1, relative to itself, by about a'G_j a, G_j = (u u' + kappa_j (u v' + v u')) / S_j; the arm maximises the
sum of a'G_j a, weighted over rivals and by pi_j, over 1 + a'A^-1 a. The factor gap^2 of the true gradient is left out:
with it the rule gets stuck on near ties.

`variant="paper"`: L-T3C, i.e. every arm once, leader by Thompson sampling, transport, greedy, no exploration, and
the threshold log((1 + log t) / delta) of its experiments, which is not proved. Public code draws a separate theta~ for
every arm, which loses the correlation of the estimates; here one draw serves all. With all options the error
probability rests on the stopping rule alone; no optimality is proved for linear arms.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.evidence import Mixture
from surepick.core.linalg import inverse_factor
from surepick.errors import InvalidInput
from surepick.sampling.alternatives import TIE, Alternatives, GreedyChoice, L1Allocation, Rows, first_of_largest
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule
from surepick.types import Array, BoolArray

MOST_DRAWS = 50
# Rivals with a smaller weight than this do not enter the evidence-greedy gradient.
SMALLEST_WEIGHT = 1e-3


@final
@dataclass(frozen=True, kw_only=True)
class TopTwo(Options):
    """Top-two sampling: a leader, a challenger, and the pull that tells them apart.

    Args:
        leader: "best" or "thompson".
        challenger: "transport", "transport-penalised" or "resample".
        selection: how to choose the arm: "greedy", "ratio", "ids", "coin" or "evidence-greedy".
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "top-two", n_runs=5, seed=0).mean
        93.4

    References:
        Shang, de Heide, Kaufmann, Menard and Valko (2020), "Fixed-confidence guarantees for Bayesian best-arm
        identification"; Qin and You (2023) for the information-directed choice of arms.
    """

    plans_with_noise: ClassVar[bool] = True
    takes_batch: ClassVar[bool] = True
    leader: Literal["best", "thompson"] | None = None
    challenger: Literal["transport", "transport-penalised", "resample"] = "transport"
    selection: Literal["greedy", "ratio", "ids", "coin", "evidence-greedy"] = "greedy"
    exploration: float | None = None
    g_mix: float | None = None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        floor = self.own(self.exploration, practical=0.3, paper=0.0)
        rule = self.rule("heuristic" if self.is_paper else "evidence")
        g_mix = self.own(self.g_mix, practical=rule.usual_g_mix, paper=0.0)
        chooser: Chooser
        if self.selection == "evidence-greedy":
            if self.leader == "thompson" or self.challenger != "transport":
                raise InvalidInput(
                    'selection="evidence-greedy" weighs all rivals of the best estimate and takes neither `leader` nor '
                    f"`challenger`, got {self.leader!r} and {self.challenger!r}; leave them out."
                )
            chooser = EvidenceGreedyChooser(task, floor=floor, g_mix=g_mix)
        else:
            if self.selection == "coin" and task.rivals is not task.rows:
                raise InvalidInput(
                    'selection="coin" pulls one of the two candidates it compares and cannot be used with '
                    '`candidates` or with noise_std for each arm; use "greedy".'
                )
            chooser = TopTwoChooser(task, self, floor=floor, g_mix=g_mix)
        return self.one_by_one(task, chooser, rule)


@final
class TopTwoChooser(Chooser):
    """Leader, challenger, arm."""

    def __init__(self, task: Task, options: TopTwo, *, floor: float, g_mix: float) -> None:
        super().__init__(task, floor=floor, g_mix=g_mix)
        self._is_thompson = options.own(options.leader, practical="best", paper="thompson") == "thompson"
        self._challenger, self._selection = options.challenger, options.selection
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(1,)))
        self._alternatives = Alternatives(task.rivals)
        self._separator = L1Allocation(task.rows) if self._selection == "ratio" else GreedyChoice(task.rows)

    def pick(self) -> int:
        """Return the arm for the pair; without a rival, when all are refuted for this leader, any informative one."""
        pair = self._pair()
        return self._exploration.design_arm() if pair is None else self._arm(*pair)

    def _arm(self, leader: int, challenger: int) -> int:
        if self._selection == "coin":
            return leader if self._rng.random() < 0.5 else challenger
        y = self._alternatives.differences(leader, [challenger])[0]
        if self._selection == "ids":
            return self._informative(y)
        return self._separator.arm(self._asked, y, (leader, challenger))

    def _pair(self) -> tuple[int, int] | None:
        draws = map(self._best, self._parameters())
        leader = next(draws) if self._is_thompson else self._leader
        # Rivals are refuted for the leader by estimate alone.
        alive = self._alive if leader == self._leader else None
        challenger: int | None = None
        if self._challenger == "resample":
            rivals = self._alternatives.rivals(leader, alive)
            challenger = next((drawn for drawn in islice(draws, MOST_DRAWS) if rivals[drawn]), None)
        if challenger is None:
            challenger = self._cheapest(leader, alive)
        return None if challenger is None else (leader, challenger)

    def _parameters(self) -> Iterator[Array]:
        """Yield draws of theta~."""
        factor = inverse_factor(self._asked.A)
        while True:
            yield self._theta + self._task.noise_std * factor.dot(self._rng.standard_normal(len(self._theta)))

    def _best(self, theta: Array) -> int:
        return int(self._task.rivals.copies(int(np.argmax(self._alternatives.rows.times(theta))))[0])

    def _cheapest(self, leader: int, alive: BoolArray | None) -> int | None:
        A_inv = self._asked.A_inv
        _, costs = self._alternatives.costs(leader, self._theta, A_inv, alive)
        if self._challenger == "transport-penalised":
            leverage = np.maximum(self._alternatives.rows.squares(A_inv), np.finfo(float).tiny)
            costs = costs / self._task.noise_std**2 - np.log(leverage)
        least = float(costs.min())
        if least == math.inf:
            return None
        ties = np.flatnonzero(costs <= least + TIE * abs(least))
        return int(ties[0] if len(ties) == 1 else self._rng.choice(ties))

    def _informative(self, y: Array) -> int:
        """Return an arm drawn by its share N_k (a_k'A^-1 y)^2 in y'A^-1 y."""
        counts = self._asked.counts
        pulled = np.flatnonzero(counts)
        along = self._task.rows.gather(pulled).dot(self._asked.A_inv.dot(y))
        shares = np.cumsum(counts[pulled] * along * along)
        return int(pulled[np.searchsorted(shares, self._rng.random() * shares[-1], side="right")])


@final
class EvidenceGreedyChooser(Chooser):
    """The pull that raises the evidence against the hardest rivals most; no optimality is proved."""

    def __init__(self, task: Task, *, floor: float, g_mix: float) -> None:
        super().__init__(task, floor=floor, g_mix=g_mix)
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)
        self._mixture = Mixture.default()

    def pick(self) -> int:
        """Return the next arm."""
        gains = self._rows.squares(self._gradient()) / (1.0 + self._rows.squares(self._asked.A_inv))
        return first_of_largest(gains)

    def _gradient(self) -> Array:
        """Return G (d, d); the identity if there is no rival."""
        mixture, A_inv = self._mixture, self._asked.A_inv
        rivals = np.flatnonzero(self._alternatives.rivals(self._leader, self._alive))
        if not len(rivals):
            return np.eye(len(A_inv))
        y = self._alternatives.differences(self._leader, rivals)
        gap, u = y.dot(self._theta), y.dot(A_inv)
        S = np.einsum("ij,ij->i", y, u) + mixture.scales[:, None] * np.einsum("ij,ij->i", u, u)
        priors = mixture.log_weights - 0.5 * mixture.logdets(self._asked.A)
        terms = priors[:, None] + np.maximum(gap, 0.0) ** 2 / (2.0 * self._task.noise_std**2 * S)
        top = terms.max(axis=0)
        shares = np.exp(terms - top)
        total = shares.sum(axis=0)
        evidence = top + np.log(total)
        least = float(evidence.min())
        weights = np.exp((least - evidence) / (0.1 * math.sqrt(max(least, 1.0))))
        heavy = weights >= SMALLEST_WEIGHT
        slopes = weights[heavy] * shares[:, heavy] / total[heavy] / S[:, heavy]
        u = u[heavy]
        cross = (u.T * mixture.scales.dot(slopes)).dot(u.dot(A_inv))
        gradient: Array = (u.T * slopes.sum(axis=0)).dot(u) + cross + cross.T
        return gradient
