"""Tracking: turn designs into pulls, with a floor on the smallest eigenvalue of the information.

Notation: N (n,) pulls asked for, W (n,) the sum of the designs so far, both over the few arms that were
ever used; w the current design; t the number and A (d, d) the information of the pulls asked for; A0 the d arms of
forced exploration, f(t) = c sqrt(t) the floor on the smallest eigenvalue of A.

No reward enters: given the designs, the sequence of arms is fixed.
Reference: Jedra and Proutiere (2020), section 3.3 and Lemmas 5 and 6; errata noted where the code departs.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.checks import check_number
from surepick.core.design import Design
from surepick.core.linalg import pivoted_rows
from surepick.types import Array, IntArray

Tracking = Literal["averaged", "current"]
ExplorationSet = Literal["pivoted", "random"]

# Deficits within this distance are a tie: rounding in the weights must not decide between arms.
TIE = 1e-7


@final
class Tracker:
    """Turns designs into pulls: the next arm is the one furthest behind the designs.

    "averaged" compares N with the sum of all designs so far and is restricted to arms that some design used: with p
    of them no arm is more than p - 1 pulls behind, so proportions approach the set the designs end in (Lemma 6).
    "current" compares N with t times the current design; it may get stuck where optimal designs are not unique.

    Erratum: the paper's tracking rule prints the current design where its proof needs the sum over time.
    """

    def __init__(self, tracking: Tracking) -> None:
        self.is_averaged = tracking == "averaged"
        self.n_asked = 0
        self.arms = np.empty(0, dtype=np.int64)
        """Arms in increasing order, those of the current design included."""
        self.N = np.empty(0)
        # The sum of the earlier designs (0 if the current design alone counts; -inf for arms that no design uses), the
        # current design, and the pulls since that design began. So the due pulls depend, to the last bit, only on the
        # number of pulls, and many pulls can be counted at once.
        self._W = np.empty(0)
        self._w = np.empty(0)
        self._n_followed = 0

    @classmethod
    def of(cls, design: Design) -> "Tracker":
        """Return a tracker that keeps pulls in the proportions of a design."""
        tracker = cls("averaged")
        tracker.retarget(design.support, design.weights)
        return tracker

    def retarget(self, support: IntArray, weights: Array) -> None:
        """Follow this design from now on; weights of an arm named twice add up."""
        places = self._places(support)
        before, self._w = self._due, np.zeros(len(self.arms))
        np.add.at(self._w, places, weights)
        self._W = np.where(self._w > 0.0, np.maximum(before, 0.0) if self.is_averaged else 0.0, before)
        self._n_followed = 0
        if not self.is_averaged:
            self._W[self._w == 0.0] = -np.inf
            self._n_followed = self.n_asked

    @property
    def _due(self) -> Array:
        """Pulls per arm that are due; -inf for arms that no design uses."""
        return self._W + self._n_followed * self._w

    @property
    def wanted(self) -> dict[int, float]:
        """Pulls per arm that all designs so far ask for, or the current design if it alone counts."""
        return dict(zip(self.arms.tolist(), np.maximum(self._due, 0.0).tolist(), strict=True))

    def weights(self) -> dict[int, float]:
        """Return the weights of the current design."""
        used = self._w > 0.0
        return dict(zip(self.arms[used].tolist(), self._w[used].tolist(), strict=True))

    def note(self, arm: int) -> None:
        """Count a pull that replaces a pull of the current design; the replaced pull stays due."""
        self.follow([arm])

    def follow(self, arms: Sequence[int]) -> None:
        """Count pulls of the current design, or their replacements."""
        places = self._places(np.asarray(arms, dtype=np.int64))
        np.add.at(self.N, places, 1.0)
        self._n_followed += len(arms)
        self.n_asked += len(arms)

    def excuse(self, arm: int) -> None:
        """Count a pull outside the designs: averaged tracking does not make up for it.

        Pulls of a starting set are excused; else tracking would spend its first pulls catching up with the designs.
        """
        if not self.is_averaged:
            self.note(arm)
            return
        place = self._places(arm)
        self._W[place] = max(self._W[place], 0.0) + 1.0
        self.N[place] += 1.0
        self.n_asked += 1

    def next(self) -> int:
        """Choose the next arm and count it."""
        self._n_followed = n = self._n_followed + 1
        behind = self.N - (self._W + n * self._w)  # less what is due
        place = int((behind <= behind[behind.argmin()] + TIE).argmax())  # ties go to the lowest arm
        self.N[place] += 1.0
        self.n_asked += 1
        return int(self.arms[place])

    def _places(self, arms: IntArray | int) -> Any:
        """Return the places of these arms; add places for new arms."""
        known = self.arms
        if not np.isin(arms, known).all():
            self.arms = np.union1d(known, arms)
            moved = np.searchsorted(self.arms, known)
            for name, empty in (("N", 0.0), ("_W", -np.inf), ("_w", 0.0)):
                values = np.full(len(self.arms), empty)
                values[moved] = getattr(self, name)
                setattr(self, name, values)
        return np.searchsorted(self.arms, arms)


@final
class EigenvalueFloor:
    """Keeps the smallest eigenvalue of the information above f(t) = scale * c_A0 * sqrt(t).

    c_A0 = lambda_min(sum over A0 of x x') / sqrt(d). Then lambda_min >= f(t - d - 1) from some time on, whatever
    the designs are (Lemma 5). Errata of the paper: the index into A0 moves only when a pull is forced, and A0 is pulled
    once before anything else (at t = 0 the floor is 0 and forces nothing although A = 0).

    Args:
        arms: the arms, in the coordinates in which the eigenvalue is taken.
        chosen: row numbers of A0.
        scale: factor of the floor; 1 is the paper's, 0 switches it off.
    """

    def __init__(self, arms: ArmSet, chosen: IntArray, *, scale: float) -> None:
        check_number("exploration", scale, needed="a number of at least 0", allowed=lambda scale: scale >= 0.0)
        rows = arms.gather(chosen)
        self.arms, self.chosen = arms, list[int](chosen.tolist())
        self._c = scale * float(np.linalg.eigvalsh(rows.T @ rows)[0]) / math.sqrt(arms.dim)
        self._smallest = 0.0
        self._turn = 0

    def value(self, t: int) -> float:
        """Return f(t)."""
        return self._c * math.sqrt(t)

    def holds(self, t: int) -> bool:
        """Return whether the floor surely holds after t pulls; computes no eigenvalue."""
        # The smallest eigenvalue only grows: a value computed earlier is a lower bound. Right after A0 it can equal the
        # floor, and rounding must not decide.
        return self._smallest >= (1.0 - 1e-9) * self.value(t)

    def due(self, A: Array, t: int) -> int | None:
        """Return the arm of A0 that must be pulled now, None if the information A of t pulls suffices."""
        if not self.holds(t):
            self._smallest = float(np.linalg.eigvalsh(A)[0])
            if not self.holds(t):
                arm = self.chosen[self._turn]
                self._turn = (self._turn + 1) % len(self.chosen)
                return arm
        return None


def exploration_set(arms: ArmSet, kind: ExplorationSet, pivoted: IntArray, seed: int) -> IntArray:
    """Return d arms that span: the set of large volume (`pivoted`), or a random set as in the paper.

    A random set may be nearly singular if arms are clustered; the paper's constant c is then tiny and its threshold
    large.
    """
    if kind == "pivoted":
        return pivoted
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    chosen = np.empty(0, dtype=np.int64)
    rows = np.empty((0, arms.dim))
    # Draw arms one by one and keep each that adds a dimension. After many failures (say, one arm in thousands adds
    # one), complete the set from the pivoted set.
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
    """Return the share of the G-optimal design; refuse one outside [0, 1]."""
    return check_number("g_mix", g_mix, needed="a share between 0 and 1", allowed=lambda share: 0.0 <= share <= 1.0)
