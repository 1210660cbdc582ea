"""Exploration beside a chooser: a share of the G-optimal design, and a floor on the smallest eigenvalue.

Notation: A (d, d) information of everything asked for, in whitened coordinates; A0 d arms that span;
f(t) = scale c_A0 sqrt(t), c_A0 = lambda_min(sum over A0 of x x') / sqrt(d), the floor of Jedra and Proutiere (2020).

A rule that reacts to the closest alternative alone can get stuck: a few unlucky rewards make an arm look hopeless, no
later pull concerns it, and its estimate never recovers. A fixed share of the G-optimal design lets information grow
linearly in all directions, at a price of about that share; the floor lets it grow like sqrt(t), which costs nothing
asymptotically.
"""

import math
from typing import final

import numpy as np

from surepick.arms.whitening import WhitenedArms
from surepick.core.checks import check_number
from surepick.core.linalg import IntArray
from surepick.errors import InvalidInput
from surepick.rules.asked import Asked
from surepick.rules.sampling import Tracker


@final
class Exploration:
    """Says which pulls are exploration, and of which arm.

    Args:
        arms: what may be pulled.
        start: A0.
        floor: factor of the floor; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design.
    """

    def __init__(self, arms: WhitenedArms, start: IntArray, *, floor: float, g_mix: float) -> None:
        if not 0.0 <= check_number("exploration", floor, needed="a number of at least 0") < math.inf:
            raise InvalidInput(f"`exploration` must be a number of at least 0, got {floor}.")
        check_share(g_mix)
        rows = arms.gather(start)
        self._start = [int(arm) for arm in start]
        self._c = floor * float(np.linalg.eigvalsh(rows.T @ rows)[0]) / math.sqrt(arms.dim)
        self._turn = 0
        self._smallest = 0.0
        self._g_mix, self._owed = g_mix, 0.0
        self._design = Tracker("averaged")
        self._design.retarget(arms.design.support, arms.design.weights)

    def due(self, asked: Asked) -> int | None:
        """Return the arm that exploration wants now, None if this pull is free; to be asked once per pull."""
        floor = self._c * math.sqrt(asked.n)
        if self._smallest < floor:
            # The smallest eigenvalue grows unless pulls fail: a value computed earlier is nearly always a lower bound.
            self._smallest = float(np.linalg.eigvalsh(asked.A)[0])
            if self._smallest < floor:
                arm = self._start[self._turn]
                self._turn = (self._turn + 1) % len(self._start)
                return arm
        self._owed += self._g_mix
        # Shares such as 0.1 add up to a little less than one.
        if self._owed > 1.0 - 1e-9:
            self._owed -= 1.0
            return self.design_arm()
        return None

    def design_arm(self) -> int:
        """Return the next arm of the G-optimal design, for when there is nothing better to do."""
        return self._design.next()


def check_share(g_mix: float) -> float:
    """Return the share of the G-optimal design, if it is one."""
    if not 0.0 <= check_number("g_mix", g_mix, needed="a share between 0 and 1") <= 1.0:
        raise InvalidInput(f"`g_mix` must be a share between 0 and 1, got {g_mix}.")
    return float(g_mix)
