"""Questions at entry: whether a value that stands far apart was mistyped, and whether values are pass or fail.

Notation: r the value of an arm with row x (d,); theta, A, S^2 = RSS/nu and nu = n - d are those of the n other values.

    T = (r - x'theta) / (S sqrt(1 + x'A^-1 x))

The value is questioned if |T| > c(nu), where Student's t with min(nu, 4) degrees of freedom leaves 0.0005 above c. Four
degrees at most: with more, heavy tails would be questioned all the time. Questions in 1,000 honest values, 200,000
simulated, nu = 4, 6, 10: with normal noise 0.9, 0.16, 0.00; with the heavy tails of t_3 5.2, 3.0, 2.1 (1.1 at nu = 40).
With nu <= 3 a value is questioned only if a shifted point or another sign explains it: r 10^k with k = -3, ..., 3, or
-r, at |T| < 3. That asks about at most 0.02 (normal) and 0.8 (t_3) in 1,000 at a level of 3 times the noise. Where
`noise_std` is given, a value within 3 of it from its prediction is never questioned: few values may agree by chance.

A fit of all values, r among them, gives the same: with e = r - x'theta and h = x'A^-1 x of that fit, the prediction by
the others is r - e/(1 - h), nu S^2 = RSS - e^2/(1 - h), and the denominator of T is S/sqrt(1 - h).

Most values need no fit of their own. Let theta_0, A_0 and R_0 = RSS be those of an earlier fit, whose values are among
the others, h_0 = x'A_0^-1 x, and R = RSS of all others. Then R >= R_0 and (x'theta - x'theta_0)^2 <= h_0 (R - R_0), so
|r - x'theta| <= |r - x'theta_0| + sqrt(h_0 (R - R_0)). That is at most c sqrt(R/nu) <= c S sqrt(1 + x'A^-1 x), whatever
R is, if (r - x'theta_0)^2 <= R_0 (c^2/nu - h_0).

A question changes nothing. What counts is what the notes say: to correct a typing error is valid, to drop or to repeat
a measurement because its value is odd is not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np

from surepick.core.estimate import LeastSquares
from surepick.learning.learner import Learner
from surepick.learning.noise_models import UnknownGaussian, are_binary
from surepick.types import Array

LIMITS = (636.619, 31.5991, 12.9240, 8.61030)
"""c(nu) for nu = 1, 2, 3, and 4 or more."""
MARGINS = (12.7062, 4.30265, 3.18245, 2.77645)
"""The same for a tail of 0.025: a prediction interval of 95 %."""
FITS = 3.0
"""A repaired value fits below this |T|."""
SHIFTS = (-3, -2, -1, 1, 2, 3)
"""Places by which a decimal point is shifted."""
# Before nu = 1: values within a factor `ALIKE` of each other, one at least `FAR` times the largest, and a shifted point
# that brings it within `NEAR` of them. Simulated: at most 0.5 questions in 1,000 honest values (log-normal noise of 2).
FEWEST, ALIKE, FAR, NEAR = 3, 2.0, 5.0, 1.5
ROUNDING = 1e-9
"""Relative: differences below this are rounding."""
STEPS = (5, 2, 1)


@final
class Question(NamedTuple):
    """A value that stands far apart from the others."""

    value: float
    expected: float
    margin: float
    """Half the width of the prediction interval, at 95 %; NaN while the noise cannot be seen."""
    distance: float
    """T; NaN while the noise cannot be seen."""
    repair: float | None
    """What the value is with another decimal point or sign, if that fits."""

    @property
    def right(self) -> str:
        """What may be the right value, for a command: the repair, or VALUE."""
        return "VALUE" if self.repair is None else f"{self.repair:.12g}"

    def words(self, correct: str) -> str:
        """Ask about the value in a few sentences; `correct` is the command that corrects it."""
        value = f"{self.value:.12g}"
        return (
            f"{self._start} Look at your notes. If they say {value}, the value stays: odd values count. If it was "
            f"mistyped, correct it: {correct}. Do not measure again."
        )

    @property
    def prompt(self) -> str:
        """The question for a person who can answer at once."""
        yes = "" if self.repair is None else f"y takes {self.repair:.12g}; "
        return (
            f"{self._start} Look at your notes: odd values count, and you must not measure again because of them. "
            f"Enter keeps {self.value:.12g}; {yes}or type the value in your notes -> "
        )

    @property
    def _start(self) -> str:
        margin = "" if math.isnan(self.margin) else f" +- {self.margin:.2g}"
        # No more decimals than the margin has.
        is_known = 0.0 < self.margin < math.inf
        expected = round(self.expected, 1 - math.floor(math.log10(self.margin))) if is_known else self.expected
        meant = "" if self.repair is None else f" Did you mean {self.repair:.12g}?"
        return f"{self.value:.12g} is recorded, far from about {expected:.4g}{margin}.{meant}"


_EARLIER = WeakKeyDictionary[LeastSquares, tuple[Array, Array, float]]()
"""theta_0, A_0^-1 and R_0 of the last fit that a question needed. Least squares only ever learn, and forget nothing."""


def question_about(
    learner: Learner, arm: int, value: float, others: Callable[[], Sequence[float]], *, is_new: bool = False
) -> Question | None:
    """Return the question that a value raises which the learner was told; None if it fits the others.

    Args:
        learner: which was told the value.
        arm: number of the arm.
        value: as it counts.
        others: returns all other values that count, of any arm.
        is_new: whether no question was asked since the learner was told the value.
    """
    model, estimate = learner.noise_model, learner.estimate
    if model.is_binary or estimate.n_pulls <= FEWEST:
        return None
    if learner.spec.has_offsets:  # a value beside an offset of its group has no prediction
        return _without_bad_repair(early_question(value, others()), learner, arm)
    unit = 1.0 if model.stds is None else float(model.stds[arm])
    x = learner.state.row(arm)
    if is_new and _fits(estimate, x, value / unit):
        return None
    found = _question(estimate, x, value, unit, others)
    if estimate.has_theta:
        _EARLIER[estimate] = estimate.theta.copy(), estimate.A_inv.copy(), estimate.residual_sum
    if found is not None and "noise_std" in model.options() and model.std is not None:
        within = FITS * model.std * unit  # of a scale that was given; the bounds of rewards give none
        found = None if abs(value - found.expected) <= within else found
    return _without_bad_repair(found, learner, arm)


def _without_bad_repair(found: Question | None, learner: Learner, arm: int) -> Question | None:
    """Return a question without a repair that the noise model refuses."""
    if found is None or found.repair is None or not learner.noise_model.refusal(found.repair, arm):
        return found
    return found._replace(repair=None)


def _fits(estimate: LeastSquares, x: Array, value: float) -> bool:
    """Return whether an earlier fit, which does not have the value, shows that it fits; False: that is not known."""
    if (earlier := _EARLIER.get(estimate)) is None or (nu := estimate.n_pulls - 1 - estimate.dim) < len(LIMITS):
        return False
    theta, A_inv, squares = earlier
    room = LIMITS[-1] ** 2 / nu - float(x @ A_inv @ x)
    return (value - float(x @ theta)) ** 2 <= (1.0 - 1e-6) * squares * room  # the rest is for rounding


def _question(
    estimate: LeastSquares, x: Array, value: float, unit: float, others: Callable[[], Sequence[float]]
) -> Question | None:
    nu = estimate.n_pulls - 1 - estimate.dim
    h = float(x @ estimate.A_inv @ x) if estimate.has_theta else 1.0
    if nu < 1 or 1.0 - h < ROUNDING:
        return early_question(value, others())
    off = (value / unit - float(x @ estimate.theta)) / (1.0 - h)  # of the value from the prediction by the others
    squares = max(estimate.residual_sum - off**2 * (1.0 - h), 0.0)
    place = min(nu, 4) - 1
    if off**2 * (1.0 - h) * nu <= LIMITS[place] ** 2 * squares:  # nearly all values end here
        return None
    values = [value, *others()]
    if are_binary(values):
        return None
    # Rounding to multiples of h hides a noise of up to h/2.
    least = max(0.5 * resolution(values), ROUNDING * max(map(abs, values))) / unit
    scale = max(math.sqrt(squares / nu), least) / math.sqrt(1.0 - h)
    distance, expected = off / scale, value - off * unit

    def apart(other: float) -> float:
        return abs(other - expected) / (scale * unit)

    repair = min(_repairs(value), key=apart, default=None)
    repair = None if repair is None or apart(repair) >= FITS else repair
    if abs(distance) <= LIMITS[place] or (nu < 4 and repair is None):
        return None
    return Question(value, expected, MARGINS[place] * scale * unit, distance, repair)


def early_question(value: float, others: Sequence[float]) -> Question | None:
    """Return the question that a value raises before the noise shows: the others are alike, and a point is shifted."""
    sizes = sorted(map(abs, others))
    is_one_sign = len({other > 0.0 for other in others}) == 1
    if len(sizes) < FEWEST or sizes[0] == 0.0 or not is_one_sign or sizes[-1] > ALIKE * sizes[0]:
        return None
    if abs(value) < FAR * sizes[-1]:
        return None
    sign, middle = math.copysign(1.0, others[0]), sizes[len(sizes) // 2]
    near = [one for one in _repairs(value)[:-1] if sizes[0] / NEAR <= sign * one <= NEAR * sizes[-1]]
    repair = min(near, key=lambda one: abs(math.log(sign * one / middle)), default=None)
    return None if repair is None else Question(value, sign * middle, math.nan, math.nan, repair)


def _repairs(value: float) -> list[float]:
    """Return the value with its decimal point shifted, and with the other sign."""
    return [*(float(Decimal(repr(value)).scaleb(k)) for k in SHIFTS), -value] if value else []


def resolution(values: Iterable[float]) -> float:
    """Return the largest of 1, 2, 5, 10, 20, ... or 0.5, 0.2, 0.1, ... that divides all values; 0 if none does."""
    sizes = np.abs(np.fromiter(values, dtype=np.float64))
    largest = float(sizes.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    top = math.floor(math.log10(largest))
    for k in range(top, top - 10, -1):
        for digit in STEPS:
            multiples = sizes / (digit * 10.0**k)
            if (np.abs(multiples - np.round(multiples)) <= ROUNDING + 1e-13 * multiples).all():
                return digit * 10.0**k
    return 0.0


def binary_words(how: str) -> str:
    """Suggest the option for pass or fail; `how` says it, such as rewards="binary"."""
    return f"The rewards so far are all 0 or 1: these look like pass/fail. Their noise is not normal; use {how}."


def learns_noise(learner: Learner) -> bool:
    """Return whether a learner has the default noise, which 0 and 1 do not follow."""
    return isinstance(learner.noise_model, UnknownGaussian)
