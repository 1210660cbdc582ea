"""Check the certificate of a study against its log, with numpy alone.

This program shares no code with surepick. It reads a certificate (JSON) and the log that `surepick export` wrote (CSV
with the columns n, hash and event, or JSON `{"log": [{"n": 1, "hash": "...", "event": "..."}, ...]}`), follows the
events, makes all bets again, and compares the verdicts:

    python verify_certificate.py certificate.json log.csv

It covers the default rule on a list of arms with normal noise of one standard deviation, known or unknown, also where
arms are called met or failed against a threshold or a control, and refuses other options. Theorem numbers are those of
docs/guarantee.md.

Exit codes:
    0: every entry of the certificate was checked and agrees.
    1: an entry, an event or a hash does not agree.
    2: a file cannot be read, or the study uses options that this program does not cover.
    3: all that was checked agrees, and the certificate has entries that this program does not check; it names them.

Notation: x is the row of an arm, r a result, A = sum of x x' over pulls, theta the least-squares estimate, L the log
wealth against the claim that an arm is the best.
"""

import csv
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Event = dict[str, Any]
Place = tuple[int, int]
"""The era of an ask, and its number in that era's plans."""

AGREES, DISAGREES, CANNOT_CHECK, NOT_ALL_CHECKED = range(4)
"""Exit codes."""
HEADINGS = {DISAGREES: "DOES NOT AGREE:", CANNOT_CHECK: "CANNOT BE CHECKED:", NOT_ALL_CHECKED: "NOT CHECKED:"}

COVERED = {
    "kind": "finite",
    "rule": "betting",
    "epsilon": 0,
    "threshold": None,
    "control": None,
    "misfit": 0,
    "m": 1,
    "model": "linear",
    "noise": "same",
    "reward_range": None,
    "rewards": None,
    "candidates": None,
    "goal": "confidence",
}
"""Options that change the bets, and the values that this program covers."""
OF_CALLS = ("rule", "epsilon", "threshold", "control")
"""Of these, those that may have other values where arms are called."""

ROUNDING = 1e-6
"""Relative difference that rounding on another machine may make."""
ROUNDED = 1 - 1e-9
"""Share of the price at which an arm that retires counts as rejected, for the same reason."""
CONDITION_LIMIT = 1e12
"""Rows of a worse condition number count as not spanning the space."""
STAKES = np.array([[1.0], [0.6], [0.3]])
"""Bets are made at these multiples of the believed lead."""
SHARES = np.array([[2.0], [1.0], [1.0]] * 2) / 8
"""Shares of the wealth that go to the six bets: three stakes, each above and below the mean of the belief."""
SIGNS = np.array([[[1.0]], [[-1.0]]])
NODES, WEIGHTS = (values[:, None, None] for values in np.polynomial.legendre.leggauss(128))
EARLIER_CUTS = (5, 20, 80, 320)
"""Earlier results are split after these multiples of the dimension."""

canonical: Callable[[object], str] = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
"""Write JSON as it is hashed."""


class Refusal(Exception):
    """A check failed, or cannot be made."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def require(*, holds: bool, otherwise: str, code: int = DISAGREES) -> None:
    """Check a condition.

    Raises:
        Refusal: it does not hold.
    """
    if not holds:
        raise Refusal(code, otherwise)


# ---- rounded readings (Theorem 24)


def grid_step(readings: Array) -> float:
    """Return the step of the grid that readings lie on: 0 if no two are equal, infinity if all are."""
    values = np.unique(readings)
    if len(values) == len(readings):
        return 0.0
    dust = 1e-9 * np.abs(values[[0, -1]]).max()
    steps = np.diff(values)
    # Euclid's algorithm: replace the steps by their remainders after division by the smallest one.
    while len(steps := steps[steps > dust]):
        least = steps.min()
        remainders = np.abs(steps - least * np.round(steps / least))
        if not (remainders > dust).any():
            return float(least)
        steps = np.append(remainders, least)
    return math.inf


def repeats_too_often(X: Array, r: Array, rss: float, n_spare: int) -> bool:
    """Whether readings of an arm equal its first reading too often for noise of their scatter."""
    _, first, arm = np.unique(X, axis=0, return_index=True, return_inverse=True)
    n = len(r) - len(first)
    n_equal = int((r == r[first[arm.ravel()]]).sum()) - len(first)
    if n_equal < max(3, 0.2 * n) or n_spare <= 0 or (n_equal == n and np.ptp(r) > 1e4 * grid_step(r)):
        return n_equal == n and n_equal >= 3 and n_spare > 0
    # The density of normal noise at its mean, times a step, bounds the probability of two equal readings.
    p = grid_step(r) / math.sqrt(2 * math.pi * rss / n_spare) if rss > 0 else 1.0
    if not 0 < p < 1:
        return False
    logs = [
        math.log(math.comb(n, k)) + k * math.log(p) + (n - k) * math.log1p(-p)  # of the binomial probability of k
        for k in range(n_equal, n + 1)
    ]
    return bool(np.exp(logs).sum() < 1e-6)


def rounding_bias(step: float, rss: float, n: int) -> float:
    """Return how far rounding can move the mean of a reading, for every noise level that n readings allow."""
    ratios = np.array([1.05, 1.1, 1.2, 1.5, 2, 4, 16])
    low, high = 0.0, 2.0 * n + 100
    for _ in range(50):  # bisection for the ratio rss / variance at which the evidence reaches 10^6
        middle = (low + high) / 2
        evidence = np.logaddexp.reduce(-n / 2 * np.log(ratios) + (1 - 1 / ratios) * middle / 2) - math.log(len(ratios))
        low, high = (middle, high) if evidence < math.log(1e6) else (low, middle)
    variance = rss / high / step**2
    hidden = math.exp(-2 * math.pi**2 * (variance - 0.1)) if variance > 0.28 else 1.0
    return min(step / 2, -step / math.pi * math.log1p(-hidden)) if hidden < 1 else step / 2


class Rounding(NamedTuple):
    """How results are rounded: step of the grid in the past and in all results, and the bias it can cause."""

    known_step: float
    step: float
    bias: float


# ---- least squares


class Fit(NamedTuple):
    """A least-squares fit: A, its inverse, theta, and the residual sum of squares."""

    A: Array
    inverse: Array
    theta: Array
    rss: float


def least_squares(X: Array, r: Array) -> Fit | None:
    """Fit results by a linear function of rows; None if the rows do not span the space."""
    A = X.T @ X
    scale = np.sqrt(np.diagonal(A))
    if not scale.all() or np.linalg.cond(A / np.outer(scale, scale)) > CONDITION_LIMIT:
        return None
    rough = np.linalg.solve(A, X.T @ r)
    theta = rough + np.linalg.solve(A, X.T @ (r - X @ rough))  # the second step removes the rounding of large offsets
    return Fit(A, np.asarray(np.linalg.inv(A), dtype=np.float64), theta, float(((r - X @ theta) ** 2).sum()))


class Pulls(NamedTuple):
    """Results with the rows of their arms and the indicators of their groups; Z is None if groups have no offsets."""

    X: Array
    r: Array
    Z: Array | None

    def projected(self, *, keeps_level: bool) -> tuple[Array, Array, int]:
        """Return rows and results without the offsets of groups, and the rank of Z (Theorem 41)."""
        X, r, Z = self
        if Z is None or not len(r):
            return X, r, 0
        Q = np.eye(len(r)) - Z @ np.linalg.pinv(Z) + (1 / len(r) if keeps_level else 0)
        return Q @ (Q @ X), Q @ (Q @ r), int(np.linalg.matrix_rank(Z))

    @property
    def cells(self) -> Array:
        """Rows that tell arms apart, and groups if these have offsets."""
        return self.X if self.Z is None else np.hstack([self.X, self.Z])


# ---- bets


class Terms(NamedTuple):
    """A block and what is known before it: the terms of the bets on the block."""

    past: Fit
    n_spare: int
    """Spare degrees of freedom of the past."""
    rounding: Rounding
    variance: float
    """Of the noise, as the past has it."""
    C: Array
    """Covariance of the belief."""
    block: Pulls


class Bets:
    """The log wealth L against every arm of one era, and the bets that change it.

    Args:
        X: rows of all arms, in the coordinates that the first event of the era fixed.
        level: direction in which all arms have the same mean, in these coordinates.
        options: of the era: delta, the allowed error probability; noise_std, the standard deviation of the noise, None
            if unknown; and how far readings drift within a block.
        same: for each arm the first arm with the same row.
        gone: arms that have retired.
    """

    def __init__(self, X: Array, level: Array, options: Event, same: npt.NDArray[np.int64], gone: set[int]) -> None:
        self.X, self.level, self.noise_std, self.same = X, level, options["noise_std"], same
        if options.get("drift"):  # Theorem 27
            self.noise_std = math.sqrt(options["noise_std"] ** 2 + options["drift"] ** 2 / 2)
        self.price = -math.log(options["delta"])
        self.L = np.array([math.inf if arm in gone else 0.0 for arm in range(len(X))])
        ones = np.ones(len(X))
        self.has_constant = np.abs(X @ np.linalg.lstsq(X, ones, rcond=None)[0] - ones).max() < 1e-6

    def fit(self, pulls: Pulls) -> tuple[Fit | None, int]:
        """Return the fit of results, without the offsets of groups, and the results beyond its parameters."""
        X, r, n_offsets = pulls.projected(keeps_level=self.has_constant)
        n_level = 1 if n_offsets and self.has_constant else 0  # the level is one of the offsets
        return least_squares(X, r), len(r) - X.shape[1] - n_offsets + n_level

    def evidence(self, leader: int) -> float:
        """Return the least log wealth against an arm that differs from the leader."""
        return float(self.L[self.same != self.same[leader]].min())

    # Theorem 6

    def start(self, X: Array, r: Array) -> int:
        """Set the wealth by results from before the first block: the mean over five ways to split them."""
        d = self.X.shape[1]
        cuts = [k * d for k in EARLIER_CUTS if k * d < len(r)]
        logs = np.zeros((1 + len(EARLIER_CUTS), len(self.X)))
        usable = [cut for cut in cuts if least_squares(X[:cut], r[:cut])]
        for log_wealth, cut in zip(logs, usable, strict=False):
            self._split(log_wealth, X, r, cut)
        self.L = np.logaddexp.reduce(logs) - math.log(len(logs))
        return int(np.argmin(self.L))

    def _split(self, log_wealth: Array, X: Array, r: Array, cut: int) -> None:
        """Bet on the results after a cut by those before it; the leader's own wealth is not touched."""
        first, rest = least_squares(X[:cut], r[:cut]), least_squares(X[cut:], r[cut:])
        assert first is not None
        leader = int(np.argmax((self.X @ first.theta)[self.same]))
        log_wealth[self.same != self.same[leader]] = -np.inf
        if rest is None:
            return
        floor = 4.9e-28 * float(r[cut:] @ r[cut:])  # of the sum of squares, for results without any noise
        rest = rest._replace(rss=max(rest.rss, floor))
        for arm in np.flatnonzero(log_wealth):
            log_wealth[arm] = self._ratio(first, rest, self.X[leader] - self.X[arm], cut, len(r))

    def _ratio(self, first: Fit, rest: Fit, y: Array, cut: int, n: int) -> float:
        """Return the log likelihood ratio for a lead y' theta > 0 of the results after a cut."""
        u, v, q = first.inverse @ y, rest.inverse @ y, float(y @ first.inverse @ y)
        mu = max(float(first.theta @ y), 0.0) / q
        Sigma = 0.1 * first.inverse + 0.9 * np.outer(u, u) / q
        price = np.linalg.slogdet(np.eye(len(y)) + Sigma @ rest.A)[1] / 2
        z = v + rest.inverse @ np.linalg.solve(Sigma, v)
        nu = max(float(rest.theta @ y + mu * (y @ v)), 0.0) / float(y @ z)
        lead = nu**2 * float(y @ z) - mu**2 * q
        if self.noise_std:
            return float(lead / (2 * self.noise_std**2) - price)
        off = nu * z - mu * (v + u)
        kappa = 0.1 * float(np.linalg.eigvals(first.inverse @ rest.A).real.min())
        B = lead + kappa * (rest.rss + float(off @ np.linalg.solve(Sigma + rest.inverse, off)))
        if lead > 0:
            x = 2 * kappa * lead / (B + math.sqrt(max(B**2 - 4 * rest.rss * kappa * lead, 0.0)))
        else:
            x = lead / rest.rss
        a, c = cut, (cut + n) / 2
        w = min(max(1 + x, 1e-300), c / a)
        gammas = math.lgamma(c) - math.lgamma(a) + a * math.log(a) + c
        return float(gammas + c * math.log(w / c) - a * w - price)

    # Theorem 3; for unknown noise Theorem 23; where groups have offsets Theorem 41

    def settle(self, before: Pulls, block: Pulls) -> int | None:
        """Settle the bets on a block, which the past fixed; return the leader by the past, None without bets."""
        past, n_spare = self.fit(before)
        if past is None or not len(block.r) or (not self.noise_std and n_spare <= 0):
            return None
        rounding = Rounding(0.0, 0.0, 0.0) if self.noise_std else self._rounding(before, past.rss, n_spare, block)
        if rounding is None:
            return None
        if self.noise_std:
            variance = self.noise_std**2
        else:
            variance = max(past.rss / n_spare, np.finfo(float).eps ** 2 * float(past.theta @ past.theta))
        C = self._belief(past, variance)
        leader = int(np.argmax(np.where(self.L < self.price, (self.X @ past.theta)[self.same], -np.inf)))
        self._stake(leader, Terms(past, n_spare, rounding, variance, C, block))
        return leader

    def _stake(self, leader: int, terms: Terms) -> None:
        """Multiply the wealth against each arm by what the bets on the leader's lead over the arm return."""
        # A copy of the leader is the leader under another number; the leader stands for both from now on.
        self.L[(self.same == self.same[leader]) & (np.arange(len(self.L)) != leader)] = math.inf
        is_open = (self.same != self.same[leader]) & (self.L < self.price)
        self.L += self._log_returns(terms, self.X[leader] - self.X, is_open, self.L)

    def answer(self, leader: int) -> list[int]:
        """Return the answer of a verdict."""
        return [leader]

    def _rounding(self, before: Pulls, rss: float, n_spare: int, block: Pulls) -> Rounding | None:
        """Return how results are rounded: by the past, or by all results if the past shows no grid.

        None if the past's own results are all equal or repeat too often: then no bets are made.
        """
        n, known_step = len(before.r), grid_step(before.r)
        both = self._together(before, block)
        if math.isinf(known_step) or repeats_too_often(both.cells[:n], before.r, rss, n_spare):
            return None
        fit, spare = self.fit(both)
        assert fit is not None
        step, n, squares = (known_step, n, rss) if known_step else (grid_step(both.r), len(both.r), fit.rss)
        bias = rounding_bias(step, squares, n) if step else 0.0
        repeats = repeats_too_often(both.cells, both.r, fit.rss, spare)
        return Rounding(known_step, step, math.inf if repeats else bias)

    @staticmethod
    def _together(one: Pulls, other: Pulls) -> Pulls:
        Z = None
        if one.Z is not None and other.Z is not None:
            Z = np.vstack([one.Z, other.Z])
        return Pulls(np.vstack([one.X, other.X]), np.append(one.r, other.r), Z)

    def _belief(self, past: Fit, variance: float) -> Array:
        """Return the posterior covariance under the likeliest prior N(0, t2 I + t1 m m') of a grid; m: common level."""
        size = float(past.theta @ past.theta) / len(past.theta)
        noise = variance * past.inverse
        if size <= 0:
            return noise
        u, Au = self.level, past.A @ self.level
        common = u * float(Au @ past.theta) / max(float(u @ Au), 1e-300)
        priors = [size * 2.0**-j * np.eye(len(u)) + t * np.outer(common, common) for t in (0, 1) for j in range(-1, 11)]
        log_likelihoods = [
            -np.linalg.slogdet(prior + noise)[1] - past.theta @ np.linalg.solve(prior + noise, past.theta)
            for prior in priors
        ]
        prior = priors[int(np.argmax(log_likelihoods))]
        return np.asarray(np.linalg.inv(np.linalg.inv(prior) + past.A / variance), dtype=np.float64)

    def _log_returns(
        self, terms: Terms, Y: Array, is_open: npt.NDArray[np.bool_], L: Array, shift: float = 0.0
    ) -> Array:
        """Return the log returns of bets on theta' y + shift > 0 for rows y; 0 where there is no bet.

        Args:
            terms: block and past.
            Y: contrasts, one for each arm.
            is_open: whether to bet on each of them.
            L: log wealth so far; bets know how much is missing.
            shift: a known number.
        """
        past, n_spare, rounding, variance, C, block = terms
        X, r, n_offsets = block.projected(keeps_level=False)
        spread, axes = np.linalg.eigh(X.T @ X)
        is_seen = spread > 1e-12 * max(spread[-1], (block.X**2).sum() if n_offsets else 0)
        seen, unseen = axes[:, is_seen], axes[:, ~is_seen]
        pseudo_inverse, outside = seen / spread[is_seen] @ seen.T, unseen @ unseen.T
        theta = past.theta + pseudo_inverse @ X.T @ (r - X @ past.theta)
        q, s2, missed = (((Y @ M) * Y).sum(axis=1) for M in (pseudo_inverse, C, outside @ past.inverse @ outside))
        bet = is_open & (q > 0) & (s2 > 0) & (missed <= 1e-12 * q)
        Y, sd, s2 = Y[bet], np.sqrt(variance * q[bet]), s2[bet]
        # In standard deviations of the block's estimate of the lead: mu believed, w found, off by rounding.
        off, mu = rounding.bias * math.sqrt(len(r) / variance), (Y @ C @ past.A @ past.theta / variance + shift) / sd
        if rounding.known_step:  # no stake where the past believes in no more than rounding can cause
            is_more = mu > off
            bet[bet] = is_more
            Y, sd, s2, mu = Y[is_more], sd[is_more], s2[is_more], mu[is_more]
        goal = np.sqrt(2 * (self.price - L[bet]))
        mu, w = np.clip(mu - off, 0, goal), np.maximum((Y @ theta + shift) / sd - off, -1e150)
        tau = np.minimum(np.sqrt(s2 / sd**2 + (0 if self.noise_std else mu**2 / (2 * n_spare))), goal)
        D = stakes_of(mu, tau)
        if self.noise_std:
            returns = D * w
        else:
            D, nu = np.minimum(D, 12), len(r) - seen.shape[1] - n_offsets
            sizes = block.r if n_offsets else X @ past.theta
            rss = max(((r - X @ theta) ** 2).sum(), len(r) * (1e-12 * np.abs(sizes).max()) ** 2)
            scatter = np.where(w > 0, np.maximum(rss, nu * rounding.step**2 / 12), rss) / variance
            returns = log_mean_exp(D * w / np.sqrt(np.maximum(w**2 + scatter, 1e-300)), nu)
        won = np.zeros(len(L))
        won[bet] = np.logaddexp.reduce(returns - D**2 / 2 + np.log(SHARES))
        return won


class Calls(Bets):
    """Two accounts for each arm, on "met" and on "failed", and the calls they make (Theorem 31, Theorem 32).

    Args:
        bets: arguments of `Bets`.
        control: number of the control, None for a threshold.
    """

    def __init__(self, *bets: Any, control: int | None) -> None:
        super().__init__(*bets)
        options: Event = bets[2]
        self.control, self.epsilon, self.is_fdr = control, options["epsilon"], options.get("calls") == "fdr"
        self.target = options["threshold"] if control is None else -options.get("margin", 0.0)
        self.Y = self.X - (0.0 if control is None else self.X[control])
        self.accounts = np.zeros((2, len(self.X)))
        self.calls = np.zeros(len(self.X), dtype=int)  # 1 met, -1 failed
        is_row = np.isfinite(self.L) & (np.arange(len(self.X)) != control)
        self.n_rows = int(is_row.sum())
        # Rows of zeros, and copies of the control, need no measurement.
        is_known = ~self.X.any(axis=1) if control is None else self.same == self.same[control]
        is_met = self.target < 0 or (self.target == 0 and control is None)
        self.calls[is_row & is_known], self.accounts[:, is_known] = 1 if is_met else -1, math.inf
        self.is_row = is_row

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Which arms have no call."""
        return np.asarray(self.is_row & (self.calls == 0))

    def _less_price(self, side: int) -> Array:
        """Return the account for a call less log(K/k), k the arms that share the risk with it."""
        n = int((self.calls == side).sum()) if self.is_fdr else 0
        shared = np.where(self.calls == 0, n + 1, max(n, 1)) if self.is_fdr else np.ones(len(self.calls))
        less = self.accounts[0 if side > 0 else 1] - np.log(self.n_rows / shared)
        return np.where(self.calls == -side, -math.inf, less)

    def evidence(self, leader: int) -> float:
        """Return the evidence for the call that has least; no call is missing if it reaches the price."""
        return float(np.max([self._less_price(side) for side in (1, -1)], axis=0)[self.is_row].min())

    def answer(self, leader: int) -> list[int]:
        """Return the arms called met."""
        return [int(arm) for arm in np.flatnonzero(self.calls == 1)]

    def _stake(self, leader: int, terms: Terms) -> None:
        before = {side: self._less_price(side) for side in (1, -1)}
        for place, side in enumerate((1, -1)):
            shift = self.epsilon - side * self.target
            self.accounts[place] += self._log_returns(terms, side * self.Y, self.is_open, before[side], shift)
        is_met = self.accounts[0] >= self.accounts[1]
        for place, side in enumerate((1, -1)):
            arms = np.flatnonzero(self.is_open & (is_met == (side > 0)))
            arms = arms[np.argsort(-self.accounts[place, arms], kind="stable")]
            n = int((self.calls == side).sum())
            for last in range(len(arms), 0, -1):  # the longest list in which all have reached its price
                price = self.price + math.log(self.n_rows / (n + last if self.is_fdr else 1))
                if self.accounts[place, arms[last - 1]] >= price:
                    self.calls[arms[:last]] = side
                    break


def stakes_of(mu: Array, tau: Array) -> Array:
    """Return six stakes for each arm: mean plus and minus deviation of N(mu, tau^2) given a positive lead.

    The inverse Mills ratio phi(a) / Phi(a) is replaced by a rational function of a.
    """
    a = STAKES * np.minimum(mu / tau, 1e9)
    mills = 1 / (math.sqrt(math.pi / 2) * (1 + a**2 / 2 + a**4 / 8) + a + a**3 / 3)
    deviation = np.sqrt(1 - mills * (mills + a))
    stakes: Array = tau * np.maximum(a + mills + SIGNS * deviation, 0).reshape(6, len(mu))
    return stakes


def log_mean_exp(x: Array, nu: int) -> Array:
    """Return the log of the mean of exp(x s), where s is the length of nu + 1 standard normal numbers.

    By Gauss-Legendre quadrature over at most 32 units, up to 10 units beyond the mode of the largest integrand.
    """
    end = math.sqrt(nu + 36) + 16
    s = end - min(end, 32) * (1 + NODES) / 2
    log_density = nu * np.log(s) - s**2 / 2 + np.log(WEIGHTS)
    logs: Array = np.logaddexp.reduce(log_density + s * x) - np.logaddexp.reduce(log_density)
    return logs


# ---- the study, event by event


@dataclass(slots=True)
class Measurement:
    """A result as it counts now."""

    number: int
    arm: int
    value: float
    is_void: bool = False
    is_corrected: bool = False
    group: tuple[tuple[str, str], ...] = ()
    """Day, bench or plate: pairs of factor and level."""


GIVEN_UP = Measurement(0, -1, math.nan, is_void=True)
"""Stands for a planned result that an audit gave up: no bets are made on its block."""

Results = dict[Any, Measurement | None]
"""Results by place for asks, by event for others; None: planned and not told yet."""


class Era(NamedTuple):
    """Arms, options and results of one era."""

    number: int
    options: Event
    coordinates: Event
    gone: set[int]
    """Arms that have retired, and `retired`: those that did when the era began."""
    retired: set[int]
    has_joined: bool
    is_kept: bool
    """Whether the event says that the evidence of the era before counts here (Theorem 9)."""
    has_open: bool
    """Whether asks were open when it began."""
    n_before: int
    """Results from before the era."""
    n_rows: int
    """Arms that have joined so far, retired ones included."""
    groups: list[Results]
    """Results from before the first block; then each block, and what else was told before the next one."""


class Study:
    """All events so far, the verdict that follows from them, and the verdict that the log says."""

    def __init__(self) -> None:
        self.era = 0
        self.rows: list[list[float]] = []
        self.names: list[str] = []
        self.gone: set[int] = set()
        self.options: Event = {}
        self.measurements: list[Measurement] = []
        self.said: list[int] = []
        self.has_said = False
        self.found: dict[str, Any] = {"best": []}
        self._places: dict[int, Place] = {}
        self._labels: dict[int | None, set[tuple[str, str]]] = {}
        """Labels of asks."""
        self._planned: dict[Place, int] = {}
        self._open: dict[Place, int] = {}
        self._told: set[Place] = set()
        self._eras: list[Era] = []
        self._n_over = 0
        """Eras whose evidence no longer counts: the first of them."""
        self._goes_on: list[bool] = []
        """For each other era, whether the evidence before it counts."""
        self._now: Era
        self._groups: list[Results] = []
        """The groups of the present era."""
        self._n_settled = 0
        self._bets: Bets

    def take(self, event: Event) -> None:
        """Let an event happen.

        Raises:
            Refusal: it may not happen now, or says something else than what follows from the events before it.
        """
        n, kind = event["n"], event["kind"]
        # A verdict is said at once: until then nothing is told or planned.
        may_wait = kind in ("stopped", "resumed", "asked", "failed", "expired")
        require(
            holds=(may_wait or self._is_said) and (n == 1) == (kind == "created"),
            otherwise=f"event {n} is not due: best {self.found['best']}, by the log {self.said}",
        )
        handlers: dict[str, Callable[[Event], None]] = {
            **dict.fromkeys(("created", "reopened"), self._begin_era),
            **dict.fromkeys(("planned", "audited"), self._plan),
            "asked": self._ask,
            **dict.fromkeys(("failed", "expired"), self._give_up),
            "told": self._tell,
            **dict.fromkeys(("voided", "corrected", "restored"), self._change),
            **dict.fromkeys(("stopped", "resumed"), self._check_verdict),
            **dict.fromkeys(("copied", "anchored"), lambda _: None),
        }
        require(holds=kind in handlers, otherwise=f"event {n} is of an unknown kind, {kind!r}", code=CANNOT_CHECK)
        handlers[kind](event)

    def kept(self, groups: Sequence[Results]) -> list[Measurement]:
        """Return the results that count."""
        return [
            one for group in groups for one in group.values() if one and not one.is_void and one.arm not in self.gone
        ]

    def _begin_era(self, event: Event) -> None:
        """Begin an era with its arms and options; results of earlier eras guide its bets, and may be evidence."""
        self.options = event["options"]
        arms = event.get("arms") or event["joined"] or {"rows": [], "names": []}
        given = {**event, **self.options, "kind": arms.get("kind", "finite")}
        is_called = given["rule"] == "targets"
        odd = [key for key, value in COVERED.items() if given.get(key, value) != value]
        odd = [key for key in odd if not (is_called and key in OF_CALLS)] + ["kept"] * (is_called and "kept" in event)
        odd += ["noise_std"] if isinstance(self.options["noise_std"], list) else []
        odd += ["edition"] if self.options.get("edition", 1) not in (1, 2) else []
        require(holds=not odd, otherwise=f"unusual {odd}; use `surepick verify`", code=CANNOT_CHECK)
        has_open = any(place[0] == self.era and place not in self._told for place in self._open)
        self.era, self.said, self.has_said = self.era + 1, [], False
        self.rows, self.names = self.rows + arms["rows"], self.names + (arms["names"] or [])
        retired, is_kept = set(event.get("retired", [])), "kept" in event
        groups: list[Results] = [dict(enumerate(self.measurements))]
        own = self.era, self.options, event["coordinates"], self.gone | retired, retired
        self._n_over = self._n_over if is_kept else len(self._eras)
        was = self._now.options if is_kept else self.options
        is_same = all(self.options.get(name) == was.get(name) for name in ("noise_std", "drift", "groups"))
        has_proof = is_same and self.options["delta"] <= was["delta"]
        began = bool(arms["rows"]), is_kept, has_open
        self._eras.append(Era(*own, *began, len(self.measurements), len(self.rows), groups))
        self._settle_again()
        require(
            holds=has_proof and self._goes_on[-1] == is_kept,
            otherwise=f"event {event['n']} keeps evidence that has no proof",
        )

    def _plan(self, event: Event) -> None:
        """Open a block with its arms. An audit after the verdict gives up the asks that were planned and not made."""
        planned = {(self.era, event["first"] + i): arm for i, arm in enumerate(event["arms"])}
        if event["kind"] == "audited" and self.is_decided:
            for place in {p for p in self._planned if p >= min(planned)} - {*self._places.values()}:
                self._groups[-2][place] = GIVEN_UP
                del self._planned[place]
        require(
            holds=self._planned.keys().isdisjoint(planned) and event.get("parts", 1) == 1,
            otherwise=f"event {event['n']}: used numbers, or parts",
        )
        self._groups += [dict.fromkeys(planned), {}]
        self._planned |= planned
        self._settle()

    def _ask(self, event: Event) -> None:
        for ask, (number, arm) in enumerate(event["asks"], event["ask"]):
            place = self.era, number
            is_new = ask not in self._places and place not in self._open and place not in self._told
            require(
                holds=is_new and self._planned.setdefault(place, arm) == arm,
                otherwise=f"event {event['n']}: asked twice, or not as planned",
            )
            self._places[ask], self._open[place] = place, ask
            self._labels[ask] = {*event.get("group", {}).items()}

    def _give_up(self, event: Event) -> None:
        for ask in [event["ask"]] if event["kind"] == "failed" else event["asks"]:
            require(
                holds=self._open.pop(self._places[ask], None) == ask,
                otherwise=f"event {event['n']}: ask {ask} was not open",
            )

    def _tell(self, event: Event) -> None:
        group = tuple(sorted(event.get("group", {}).items()))
        new = Measurement(event["measurement"], event["arm"], event["value"], group=group)
        self.measurements.append(new)
        place = None if event.get("ask") is None else self._places.get(event["ask"])
        is_asked = event.get("ask") is None or (place is not None and self._planned.get(place) == new.arm)
        require(
            holds=new.arm in range(len(self.rows)) and is_asked and new.number == len(self.measurements),
            otherwise=f"event {event['n']}: its arm or number",
        )
        require(
            holds=self._labels.get(event.get("ask"), set()) <= {*group},
            otherwise=f"event {event['n']}: another group than that of its ask",
        )
        waiting = next((group for group in self._groups if place in group and group[place] is None), None)
        if waiting is not None:
            waiting[place] = new
        else:
            self._groups[-1][event["n"]] = new
        if place is not None:
            self._told.add(place)
        self._settle()

    def _change(self, event: Event) -> None:
        """Void, correct or restore a result, and settle all bets again (Theorem 7)."""
        number, kind = event["measurement"], event["kind"]
        one = self.measurements[number - 1]
        require(
            holds=number > 0 and one.is_void == (kind == "restored"),
            otherwise=f"event {event['n']}: is void, or is not",
        )
        one.is_void = kind == "voided"
        if kind == "corrected":
            one.value, one.is_corrected = event["value"], True
        self._settle_again()

    def _check_verdict(self, event: Event) -> None:
        found = {}
        self.has_said = event["kind"] == "stopped"
        if self.has_said:
            if sorted(event["best"]) == sorted(self.found["best"]):
                self.found["best"] = event["best"]  # arms that are met are in the order of estimates
            found = {**self.found, "pulls": len(self.kept(self._groups))}
            compare(f"event {event['n']}", event, found)
        self.said = found.get("best", [])

    def calls(self, names: Sequence[str]) -> dict[str, str] | None:
        """Return the call of each arm by name; None if the best is sought."""
        if not isinstance(self._bets, Calls):
            return None
        words = {1: "met", -1: "failed", 0: "open"}
        called = self._bets.calls.tolist()
        return {names[arm]: words[called[arm]] for arm in np.flatnonzero(self._bets.is_row).tolist()}

    @property
    def is_decided(self) -> bool:
        """Whether the bets have a verdict, which may be that no arm is met."""
        return self.found.get("evidence") is not None

    @property
    def _is_said(self) -> bool:
        """Whether the log says the verdict that the bets have."""
        return self.said == self.found["best"] and self.has_said == self.is_decided

    @property
    def has_drift(self) -> bool:
        """Whether readings may drift in some era."""
        return any(era.options.get("drift") for era in self._eras)

    @property
    def risk(self) -> float:
        """Probability that any verdict of any era is wrong, at most."""
        goes_on = [era.is_kept for era in self._eras[: self._n_over]] + self._goes_on
        adds = [era for era, is_kept in zip(self._eras, goes_on, strict=True) if era.has_joined or not is_kept]
        return float(sum(era.options["delta"] for era in adds))

    def _settle_again(self) -> None:
        """Settle all blocks from the first of which the present era has evidence."""
        self._goes_on, against_retired = [], list[float]()
        for era in self._eras[self._n_over :]:
            if era.is_kept:
                self._settle(is_over=True)
            before = self._bets.L if era.is_kept else np.zeros(0)
            is_whole = era.is_kept and (self.is_decided or not (era.has_open or self._has_begun()))
            against_retired += [float(before[arm]) for arm in era.retired] if era.is_kept else []
            self._now, self.options, self.gone, self._groups = era, era.options, era.gone, era.groups
            self._begin_bets()
            self._goes_on.append(is_whole and min(against_retired, default=math.inf) >= ROUNDED * self._bets.price)
            if self._goes_on[-1]:
                self._go_on(before)
            self._settle()

    def _begin_bets(self) -> None:
        back, level = (np.array(self._now.coordinates[name], dtype=float) for name in ("back", "level"))
        first: dict[tuple[float, ...], int] = {}
        rows = self.rows[: self._now.n_rows]
        same = np.array([first.setdefault(tuple(row), arm) for arm, row in enumerate(rows)])
        X = np.array(rows) @ np.linalg.pinv(back)
        given = X, level, self.options, same, self.gone
        control = self.options.get("control")
        if isinstance(control, str):
            control = self.names.index(control) if self.names else int(control)
        is_called = control is not None or self.options.get("threshold") is not None
        self._bets = Calls(*given, control=control) if is_called else Bets(*given)
        self._n_settled = 0
        self.found = {"best": [], "evidence": None, "threshold": self._bets.price}

    def _has_begun(self) -> bool:
        """Whether a block that is not settled has results."""
        return any(one for block in self._groups[max(self._n_settled, 1) :: 2] for one in block.values())

    def _go_on(self, before: Array) -> None:
        """Start the bets from the wealth of the era before; arms that have joined start anew."""
        known = np.arange(len(before))
        self._bets.L[known] = np.where(np.isinf(self._bets.L[known]), np.inf, before)
        before_era = self._pulls([dict(list(self._groups[0].items())[: self._now.n_before])])
        leader = int(np.argmin(self._bets.L))
        evidence = self._bets.evidence(leader)
        if evidence >= self._bets.price and self._bets.fit(before_era)[0]:
            self.found |= {"best": [leader], "evidence": evidence}

    def _settle(self, *, is_over: bool = False) -> None:
        """Settle blocks in order, each once it is complete, until there is a verdict (Theorem 4).

        Results from before the first block count once the block opens, or the era is over.
        """
        while not self.is_decided and len(ahead := self._groups[self._n_settled :]) > (not is_over):
            if None in ahead[0].values():
                return
            is_first = self._n_settled == 0
            if is_first and self._now.number > 1:
                self._n_settled = 1
                continue
            is_cut = any(one is GIVEN_UP for one in ahead[0].values())
            is_guidance = is_first and self.options.get("earlier") == "guidance"
            past = self._past(self._groups[: self._n_settled])
            block = self._pulls([] if is_cut or is_guidance else ahead[:1])
            leader = self._bets.start(block.X, block.r) if is_first else self._bets.settle(past, block)
            evidence = -math.inf if leader is None else self._bets.evidence(leader)
            if leader is not None and evidence >= self._bets.price:
                self.found |= {"best": self._bets.answer(leader), "evidence": evidence}
            self._n_settled += 1 if is_first else 2

    def _past(self, groups: Sequence[Results]) -> Pulls:
        """Return the results before a block; where readings drift, at the level of the first block (Theorem 27)."""
        past = self._pulls(groups)
        if not self.options.get("drift") or not len(past.r):
            return past
        require(holds=not self.kept(groups[::2]), otherwise="results not asked for, beside a drift", code=CANNOT_CHECK)
        block = np.repeat(range(len(groups)), [len(self.kept([group])) for group in groups])
        Z = (block[:, None] == np.unique(block)).astype(float)
        levels = np.linalg.pinv(Z)
        theta = np.linalg.lstsq(past.X - Z @ (levels @ past.X), past.r - Z @ (levels @ past.r), rcond=None)[0]
        level = levels @ (past.r - past.X @ theta)
        return past._replace(r=past.r - Z @ (level - level[0]))

    def _pulls(self, groups: Sequence[Results]) -> Pulls:
        kept = self.kept(groups)
        X = self._bets.X[[one.arm for one in kept]].reshape(-1, self._bets.X.shape[1])
        Z = None
        if self.options.get("groups") == "offset":
            # A column for every level of every factor in the log; a result that lacks a factor has a level of its own.
            factors = sorted({factor for one in self.measurements for factor, _ in one.group})
            levels = sorted(
                {(factor, dict(one.group).get(factor)) for one in self.measurements for factor in factors}, key=str
            )
            Z = np.array([[float(dict(one.group).get(f) == level) for f, level in levels] for one in kept])
            Z = Z.reshape(len(kept), len(levels)) if levels else np.ones((len(kept), 1))
        return Pulls(X, np.array([one.value for one in kept], dtype=float), Z)


# ---- files


def compare(where: str, claims: Event, found: Event) -> None:
    """Compare claims with what was found: floats up to rounding, all else exactly."""
    for key, value in found.items():
        is_near = isinstance(value, float) and math.isclose(claims[key], value, rel_tol=ROUNDING)
        require(
            holds=is_near or claims[key] == value,
            otherwise=f"{where}: {key} is {claims[key]!r}, recomputed {value!r}",
        )


def read_log(path: Path) -> list[tuple[str, str, str]]:
    """Return number, hash and text of all events."""
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8", newline="") as file:
        table = json.load(file)["log"] if path.suffix == ".json" else csv.DictReader(file, strict=True)
        return [(str(row["n"]), row["hash"], row["event"]) for row in table]


def replay(rows: Sequence[tuple[str, str, str]], n_certified: int) -> Study:
    """Check the chain of hashes over all events, and let the certified ones happen."""
    study, last = Study(), "0" * 64
    for n, (number, given, text) in enumerate(rows, 1):
        event, last = json.loads(text), sha256(f"{last}\n{text}".encode()).hexdigest()
        require(
            holds=(number, given, text, event["n"]) == (str(n), last, canonical(event), n),
            otherwise=f"event {n} and its hash",
        )
        if n <= n_certified:
            study.take(event)
    require(
        holds=study.said == study.found["best"] and study.has_said == study.is_decided,
        otherwise=f"at the end the verdict is {study.found}, by the log {study.said}",
    )
    return study


def claims_of(study: Study, log: Sequence[tuple[str, str, str]]) -> Event:
    """Return the entries of a certificate that follow from the log."""
    kept = study.kept([dict(enumerate(study.measurements))])
    names = study.names or [str(arm) for arm in range(len(study.rows))]
    counts = zip(*np.unique([one.arm for one in kept], return_counts=True), strict=True)
    groups: dict[str, dict[str, int]] = {}
    for factor, level in (pair for one in kept for pair in one.group):
        levels = groups.setdefault(factor, {})
        levels[level] = levels.get(level, 0) + 1
    calls = study.calls(names)
    return {
        "name": json.loads(log[0][2])["name"],
        **({} if calls is None else {"calls": calls}),
        "options": study.options,
        "delta": study.options["delta"],
        "n_pulls": len(kept),
        "counts": {names[arm]: n for arm, n in counts},
        **study.found,
        "stopped": study.has_said,
        "best_names": [names[arm] for arm in study.said],
        "era": study.era,
        "arms_digest": sha256(np.delete(study.rows, sorted(study.gone), axis=0).tobytes()).hexdigest(),
        **({"groups": groups} if groups else {}),
        "voids": [one.number for one in study.measurements if one.is_void],
        "corrections": [one.number for one in study.measurements if one.is_corrected and not one.is_void],
        "all_eras_delta": study.risk,
        "registrations": [digest for _, digest, text in log if json.loads(text)["kind"] in ("created", "reopened")],
    }


def verify(certificate: Event, rows: Sequence[tuple[str, str, str]]) -> None:
    """Check a certificate against a log, and print what was found.

    Raises:
        Refusal: they do not agree, or not all of it was checked.
    """
    log = rows[: certificate["log"]["events"]]  # the certificate says nothing about later events
    content = {key: value for key, value in certificate.items() if key not in ("digest", "signature")}
    found = {
        "digest": sha256(canonical(content).encode()).hexdigest(),
        "log": {"events": len(log), "hash": log[-1][1]},
    }
    compare("certificate", certificate, found)
    study = replay(rows, len(log))
    found |= claims_of(study, log)
    since_format_2 = {key: found[key] for key in ("registrations", "all_eras_delta")}
    compare("certificate", since_format_2 | certificate, found)
    print(f"The log is whole, and the one certified: {len(log)} events. Found: {found['best_names']} {study.found}")
    # The proof beside a drift rests on a random order, which this program does not draw again (Theorem 27).
    rest = sorted(certificate.keys() - found.keys()) + ["the random order of blocks"] * study.has_drift
    require(holds=not rest, otherwise=f"{', '.join(rest)}; all else agrees", code=NOT_ALL_CHECKED)


def main(arguments: Sequence[str]) -> int:
    """Check two files; print the outcome, and return the exit code."""
    try:
        certificate_file, log_file = map(Path, arguments)
        verify(json.loads(certificate_file.read_text(encoding="utf-8")), read_log(log_file))
    except Refusal as refusal:
        print(HEADINGS[refusal.code], refusal)
        return refusal.code
    except Exception as error:  # noqa: BLE001 (a forged file can go wrong in any way)
        usage = "python verify_certificate.py certificate.json log.csv"
        print(HEADINGS[CANNOT_CHECK], f"as {usage}: {repr(error)[:200]}")
        return CANNOT_CHECK
    return AGREES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
