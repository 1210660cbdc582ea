"""The shape of the noise: whether residuals look normal with one level, at any time, with few false alarms.

Notation: a block has n pulls with rows X (n, d) that the past fixed before its first reward; Q (n, r) an orthonormal
basis of the range of X, e = (I - QQ')rewards. Drop r pulls whose rows of Q span, and let Q1 (n - r, r) and e1 hold the
rest. Then

    u = (I - Q1 Q1')^(-1/2) e1

are n - r independent N(0, sigma^2) numbers, each as close as such numbers can be to the residual of one pull (Theil's
BLUS residuals): a basis that averages pulls would make any noise look normal. u_1, u_2, .. are those of all blocks in
order, N of them so far.

**Shape.** For a density g of mean 0 and variance 1 (`SHAPES`: skewed to either side, or with outliers),

    E_g(N) = integral of prod_i g(u_i/s) s^-(N+1) ds  /  integral of prod_i phi(u_i/s) s^-(N+1) ds,

phi the standard normal density; E is the mean of the E_g. The alarm comes when E reaches `PRICE` at one of the N in
`LOOKS`, which are fixed in advance.

False alarms: given the past, a block's u are N(0, sigma^2 I), whatever arms the past has led to; hence all u together
are independent N(0, sigma^2), also where sampling is adaptive and ends at a random time. E_g(N) is the ratio of two
densities of u_2/u_1, .., u_N/u_1, so that under normal noise it is a martingale with mean 1 in the history of these
ratios. That E ever reaches `PRICE` is an event of the sequence u alone, however often one looks: by Ville's
inequality its probability is at most 1/PRICE. Its law has no parameter, so simulation computes it: with looks at
ten N up to 512, these among them, 0.55 % of 30,000 sequences, which makes less than `SHAPE_RISK` with the error of the
simulation.

**Levels.** R_a is the sum of squares of a block's rewards of arm a around their mean, with nu_a degrees of freedom;
rho_a the level of arm a beside the others that earlier blocks show. A block returns

    prod_a rho_a^(-nu_a) (sum_a R_a/rho_a^2 / sum_a R_a)^(-nu/2),   nu = sum_a nu_a,

the ratio of two densities of the direction of nu numbers: with one level its mean given the past is 1. So the product
over blocks ever reaches 1/LEVEL_RISK with probability at most LEVEL_RISK, by Ville's inequality.

Together less than one false alarm in a hundred runs if noise is normal with one level. Readings that repeat each other
are found in `core.noise`.
docs/guarantee.md, Theorem 40. Results of no block, and residuals beyond the first `MOST`, are not looked at.

Reference: Theil (1965), "The analysis of disturbances in regression analysis".
"""

import math
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.core.linalg import one_blas_thread, pivoted_rows
from surepick.types import Array, IntArray

Kind = Literal["skewed", "outliers", "levels"]

PRICE = 50.0
"""Evidence at which noise is called other than normal."""
SHAPE_RISK, LEVEL_RISK = 0.008, 0.0015
"""Probabilities of an alarm of each kind although noise is normal with one level, however often one looks."""
LOOKS = (8, 16, 32, 64, 128, 256)
"""Numbers N of residuals at which the shape is looked at."""
FEWEST, MOST = LOOKS[0], LOOKS[-1]
ODD = 1.5
"""Standard deviations of skewness or kurtosis from which on the shape is looked at closely."""
# Degrees of freedom after which the level of an arm counts as much as the level of all arms.
PATIENCE = 4.0


class Doubt(NamedTuple):
    """Evidence against normal noise of one level."""

    kind: Kind
    n: int
    """Residuals looked at."""
    size: float
    """Skewness, kurtosis, or ratio of the levels of two arms."""
    arms: tuple[int, ...] = ()
    """The noisiest arm and the quietest one, where levels differ."""


def _mixture(share: float, apart: float, narrow: float, wide: float, *, sign: float = 1.0) -> Array:
    """Return logs of heights, centres and deviations (3, 2) of two normal densities, together of mean 0, variance 1."""
    shares, deviations = np.array([1.0 - share, share]), np.array([narrow, wide])
    centres = sign * apart * np.array([-share, 1.0 - share])
    size = math.sqrt(float(shares @ (deviations**2 + centres**2)))
    centres, deviations = centres / size, deviations / size
    return np.stack([np.log(shares / deviations), centres, deviations])


SHAPES: tuple[tuple[Kind, Array], ...] = (
    *(("skewed", _mixture(0.1, 5.0, 1.0, 4.0, sign=sign)) for sign in (1.0, -1.0)),
    *(("skewed", _mixture(0.25, 3.0, 1.0, 2.0, sign=sign)) for sign in (1.0, -1.0)),
    ("outliers", _mixture(0.1, 0.0, 1.0, 4.0)),
)
"""Shapes that are looked for."""


def own_residuals(Q: Array, rewards: Array) -> Array:
    """Return u (n - r,) of a block with rewards (n,), Q (n, r) an orthonormal basis of the range of its rows."""
    n, r = Q.shape
    if r == 0 or n <= r:
        return rewards[: n - r].copy()
    # Which pulls are dropped depends on their rows alone; of rows that tie, on their order and not on rounding.
    is_kept = np.ones(n, dtype=bool)
    is_kept[pivoted_rows(Q)[0][:r]] = False
    e, Q1 = (rewards - Q @ (Q.T @ rewards))[is_kept], Q[is_kept]
    spread, axes = np.linalg.eigh(Q1.T @ Q1)
    spread = np.clip(spread, 0.0, 1.0 - 1e-12)
    axes = Q1 @ axes
    # (1 - g)^(-1/2) - 1 over g, in a form that stands at g = 0.
    root = np.sqrt(1.0 - spread)
    u: Array = e + axes @ ((e @ axes) / (root * (1.0 + root)))
    return u


def log_evidence(u: Array) -> Array:
    """Return log E_g of residuals u (N,) for every one of `SHAPES`.

    The integral over s is a sum over steps in log s, narrower than the integrand is wide, around the size of u; what
    lies beyond could only add to it.
    """
    N = len(u)
    Q = float(u @ u)
    if not 0.0 < Q < math.inf:
        return np.zeros(len(SHAPES))
    step = 0.6 / math.sqrt(N)
    n_steps = math.ceil((0.8 if N < 64 else 0.4) / step)
    t = step * np.arange(-n_steps, n_steps + 1)
    x = np.multiply.outer(np.exp(-t), u / math.sqrt(Q / N))
    # In units of the size of u, and without the factor (2 pi)^(-N/2) that numerator and denominator share.
    normal = math.lgamma(0.5 * N) - 0.5 * N * math.log(0.5 * N) - math.log(2.0)
    found = np.empty(len(SHAPES))
    with np.errstate(divide="ignore"):  # a density of 0 adds nothing
        for i, (_, parts) in enumerate(SHAPES):  # one by one: arrays of all would not fit into the cache
            (h0, h1), (c0, c1), (s0, s1) = parts
            density = np.exp(h0 - 0.5 * ((x - c0) / s0) ** 2) + np.exp(h1 - 0.5 * ((x - c1) / s1) ** 2)
            logs = np.log(density).sum(axis=1) - N * t
            found[i] = np.logaddexp.reduce(logs) + math.log(step) - normal
    return found


@final
class ShapeWatch:
    """Evidence against normal noise of one level, computed when `doubt` is read."""

    def __init__(self) -> None:
        self.n_residuals = 0
        """N, at most `MOST` and the residuals of the last block."""
        self._blocks: list[tuple[IntArray, Array, Array]] = []
        self._plain: list[Array] = []  # e of the blocks that were looked at
        self._residuals: list[Array] = []  # u of those that were looked at closely
        self._n_looks = 0
        self._shape: Doubt | None = None
        self._found: Doubt | None = None

    def settle(self, arms: IntArray, Q: Array, rewards: Array) -> None:
        """Take a block whose arms were fixed before its first result; in order.

        Args:
            arms: numbers (n,) of the arms pulled.
            Q: an orthonormal basis (n, r) of the range of their means: of their rows, or of one mean per arm.
            rewards: (n,).
        """
        if self.n_residuals < MOST:
            self._blocks.append((arms, Q, rewards))
            self.n_residuals += len(Q) - Q.shape[1]

    def doubt(self) -> Doubt | None:
        """Return the evidence against normal noise of one level; None: none so far."""
        if self.n_residuals >= FEWEST and len(self._plain) < len(self._blocks):
            self._look()
        return self._found

    @one_blas_thread
    def _look(self) -> None:
        """Take in the blocks since the last look."""
        self._plain += [rewards - Q @ (Q.T @ rewards) for _, Q, rewards in self._blocks[len(self._plain) :]]
        if self._shape is None and _is_odd(np.concatenate(self._plain)):
            self._residuals += [own_residuals(Q, rewards) for _, Q, rewards in self._blocks[len(self._residuals) :]]
            u = np.concatenate(self._residuals)
            while self._shape is None and self._n_looks < len(LOOKS) and LOOKS[self._n_looks] <= len(u):
                self._shape = _judged(u[: LOOKS[self._n_looks]])
                self._n_looks += 1
        arms, rewards = (np.concatenate([block[place] for block in self._blocks]) for place in (0, 2))
        blocks = np.repeat(np.arange(len(self._blocks)), [len(block[0]) for block in self._blocks])
        self._found = self._shape or _levels(blocks, arms, rewards)


def _levels(blocks: IntArray, arms: IntArray, rewards: Array) -> Doubt | None:
    """Return whether arms differ in noise, by results (n,) and the numbers of their blocks, in order."""
    numbers, arm = np.unique(arms, return_inverse=True)
    # One cell for each arm of each block, in order of arms and then of blocks.
    n_blocks = int(blocks[-1]) + 1
    cells, first, cell, counts = np.unique(
        arm * n_blocks + blocks, return_index=True, return_inverse=True, return_counts=True
    )
    apart = rewards - rewards[first][cell]  # sums of large rewards would lose the noise in rounding
    sums = np.bincount(cell, apart)
    R, nu = np.maximum(np.bincount(cell, apart**2) - sums**2 / counts, 0.0), counts - 1.0
    of_arm, of_block = np.divmod(cells, n_blocks)
    R_block, nu_block = (np.bincount(of_block, values, n_blocks) for values in (R, nu))
    R_before, nu_before = (np.cumsum(values) - values for values in (R_block, nu_block))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = (R_before / nu_before)[of_block]
        begin = np.searchsorted(of_arm, of_arm)  # where the cells of the same arm begin
        R_own, nu_own = (np.cumsum(values) - values for values in (R, nu))
        rho2 = ((R_own - R_own[begin]) / level + PATIENCE) / (nu_own - nu_own[begin] + PATIENCE)
        shares = np.bincount(of_block, R / rho2, n_blocks) / R_block
        logs = -0.5 * (np.bincount(of_block, nu * np.log(rho2), n_blocks) + nu_block * np.log(shares))
    wealth = np.cumsum(np.where(np.isfinite(logs), logs, 0.0))  # a block without noise, or the first, bets nothing
    if float(wealth.max()) < -math.log(LEVEL_RISK):
        return None
    sizes, freedom = (np.bincount(of_arm, values) for values in (R, nu))
    is_known = (freedom > 0.0) & (sizes > 0.0)
    numbers, stds = numbers[is_known], np.sqrt(sizes[is_known] / freedom[is_known])
    most, least = int(np.argmax(stds)), int(np.argmin(stds))
    return Doubt("levels", int(nu.sum()), float(stds[most] / stds[least]), (int(numbers[most]), int(numbers[least])))


def _is_odd(e: Array) -> bool:
    """Return whether plain residuals (n,) have a skewness or kurtosis that makes a close look worth its time.

    Those of normal noise pass 1.5 of their standard deviations in one run out of five. To look less often than one may
    lowers the chance of an alarm, a false one too.
    """
    squares = e * e
    n, size = len(e), float(squares.mean())
    if not 0.0 < size < math.inf:
        return False
    skewness, kurtosis = float((squares * e).mean()) / size**1.5, float((squares * squares).mean()) / size**2
    return abs(skewness) * math.sqrt(n / 6.0) > ODD or (kurtosis - 3.0) * math.sqrt(n / 24.0) > ODD


def _judged(u: Array) -> Doubt | None:
    """Return the doubt that residuals (N,) raise by themselves; None: none."""
    logs = log_evidence(u)
    if np.logaddexp.reduce(logs) - math.log(len(SHAPES)) < math.log(PRICE):
        return None
    kind = SHAPES[int(np.argmax(logs))][0]
    x = u / math.sqrt(float(u @ u) / len(u))
    return Doubt(kind, len(u), float((x**3 if kind == "skewed" else x**4).mean()))
