"""From designs to pulls: tracking, with a floor on the smallest eigenvalue as a safety net.

Notation: N (n,) pulls asked for, W (n,) what the designs so far add up to, both over the few arms that ever
mattered; w the design in force; A (d, d) information of the pulls asked for; A0 the d arms of forced exploration,
f(t) = c sqrt(t) the floor on the smallest eigenvalue of A.

Nothing here looks at rewards: given the designs, the sequence of arms is fixed.
Reference: Jedra and Proutiere (2020), section 3.3 and Lemmas 5 and 6; errata noted where the code departs.
"""

import math
from typing import Literal, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.checks import check_number
from surepick.core.design import Design
from surepick.core.linalg import Array, IntArray, pivoted_rows

Tracking = Literal["averaged", "current"]
ExplorationSet = Literal["pivoted", "random"]

# Deficits closer than this are a tie: rounding in the weights must not decide between arms.
TIE = 1e-7


@final
class Tracker:
    """Turns designs into pulls: the arm furthest behind what the designs have asked for.

    "averaged" compares N with the sum of all designs so far and is restricted to arms that some design used: with p
    of them no arm is more than p - 1 pulls behind, so proportions approach the set the designs end in (Lemma 6).
    "current" compares N with t times the design in force; it may get stuck where optimal designs are not unique.

    Erratum: the paper's tracking rule prints the current design where its proof needs the sum over time.
    """

    def __init__(self, tracking: Tracking) -> None:
        self.is_averaged = tracking == "averaged"
        self.n_asked = 0
        self._slot: dict[int, int] = {}
        self._arms = np.empty(0, dtype=np.int64)
        self._N = np.empty(0)
        self._W = np.empty(0)
        self._w = np.empty(0)

    @classmethod
    def of(cls, design: Design) -> "Tracker":
        """Return one that keeps pulls in the proportions of a design."""
        tracker = cls("averaged")
        tracker.retarget(design.support, design.weights)
        return tracker

    def retarget(self, support: IntArray, weights: Array) -> None:
        """Follow this design from now on; weights of an arm named twice add up."""
        slots = [self._slot_of(int(arm)) for arm in support]
        self._w = np.zeros(len(self._arms))
        np.add.at(self._w, slots, weights)

    @property
    def wanted(self) -> dict[int, float]:
        """Pulls per arm that the designs so far add up to; by the design in force if that alone is followed."""
        due = self._W if self.is_averaged else self.n_asked * self._w
        return dict(zip(self._arms.tolist(), due.tolist(), strict=True))

    def count(self, arm: int, *, is_wanted: bool) -> None:
        """Note a pull that tracking did not choose; `is_wanted` adds it to what the designs asked for.

        A starting set must be wanted, or tracking would spend its first pulls catching up with the designs.
        """
        slot = self._slot_of(arm)
        self._N[slot] += 1.0
        self._W[slot] += float(is_wanted)
        self.n_asked += 1

    def note(self, arm: int) -> None:
        """Note a pull in the place of one that the design in force asked for, which stays due."""
        self.advance()
        self.count(arm, is_wanted=False)

    def advance(self) -> None:
        """Let one unit of the design in force become due without choosing an arm."""
        self._W += self._w

    def next(self) -> int:
        """Choose the next arm and count it."""
        if self.is_averaged:
            self.advance()
            behind = np.where(self._W > 0.0, self._N - self._W, np.inf)
        else:
            behind = np.where(self._w > 0.0, self._N - (self.n_asked + 1) * self._w, np.inf)
        slot = int(behind.argmin())
        ties = behind <= behind[slot] + TIE
        if np.count_nonzero(ties) > 1:
            tied = np.flatnonzero(ties)
            slot = int(tied[self._arms[tied].argmin()])
        self._N[slot] += 1.0
        self.n_asked += 1
        return int(self._arms[slot])

    def _slot_of(self, arm: int) -> int:
        slot = self._slot.get(arm)
        if slot is None:
            slot = self._slot[arm] = len(self._arms)
            self._arms = np.append(self._arms, arm)
            self._N, self._W, self._w = (np.append(values, 0.0) for values in (self._N, self._W, self._w))
        return slot


@final
class EigenvalueFloor:
    """Keeps the smallest eigenvalue of the information above f(t) = scale * c_A0 * sqrt(t).

    c_A0 = lambda_min(sum over A0 of x x') / sqrt(d). Then lambda_min >= f(t - d - 1) from some time on, whatever
    the designs are (Lemma 5). Errata: the index into A0 moves only when a pull is forced, and A0 is pulled once
    before anything else (at t = 0 the floor is 0 and forces nothing although A = 0).

    Args:
        arms: the arms, in the coordinates in which the eigenvalue is taken.
        chosen: row numbers of A0.
        scale: factor of the floor; 1 is the paper's, 0 switches it off.
    """

    def __init__(self, arms: ArmSet, chosen: IntArray, *, scale: float) -> None:
        check_number("exploration", scale, needed="a number of at least 0", allowed=lambda scale: scale >= 0.0)
        rows = arms.gather(chosen)
        self.chosen: list[int] = chosen.tolist()
        self._c = scale * float(np.linalg.eigvalsh(rows.T @ rows)[0]) / math.sqrt(arms.dim)
        self._smallest = 0.0
        self._turn = 0

    def value(self, t: int) -> float:
        """Return f(t)."""
        return self._c * math.sqrt(t)

    def due(self, A: Array, t: int) -> int | None:
        """Return the arm of A0 that must be pulled now, None if the information A of t pulls suffices."""
        # The smallest eigenvalue only grows: a value computed earlier is a lower bound.
        if self._smallest < self.value(t):
            self._smallest = float(np.linalg.eigvalsh(A)[0])
            if self._smallest < self.value(t):
                arm = self.chosen[self._turn]
                self._turn = (self._turn + 1) % len(self.chosen)
                return arm
        return None


def exploration_set(arms: ArmSet, kind: ExplorationSet, pivoted: IntArray, seed: int) -> IntArray:
    """Return d arms that span: those of large volume (`pivoted`), or at random as in the paper.

    A random set may be nearly singular where arms are clustered, which makes the paper's constant c tiny and its
    threshold large.
    """
    if kind == "pivoted":
        return pivoted
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    chosen = np.empty(0, dtype=np.int64)
    rows = np.empty((0, arms.dim))
    # Random arms one by one, each kept if it adds a dimension; after many failures (one arm in thousands spans) the
    # pivoted set completes what is missing.
    for arm in (*rng.integers(arms.n_arms, size=100 * arms.dim).tolist(), *pivoted.tolist()):
        trial = np.vstack([rows, arms.gather([arm])])
        if _adds_dimension(trial):
            chosen, rows = np.append(chosen, arm), trial
        if len(chosen) == arms.dim:
            return chosen
    return pivoted


def _adds_dimension(rows: Array) -> bool:
    _, pivot = pivoted_rows(rows.T) if len(rows) < rows.shape[1] else pivoted_rows(rows)
    return pivot > 1e-10


def check_share(g_mix: float) -> float:
    """Return the share of the G-optimal design, if it is one."""
    return check_number("g_mix", g_mix, needed="a share between 0 and 1", allowed=lambda share: 0.0 <= share <= 1.0)
