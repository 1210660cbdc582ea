"""Bets that need no noise level: how often the best of three arms is rejected, and the mistakes these counts catch.

Blocks grow by 15 %; the luckiest wrong arm always leads, and most of a block goes to it and to the best arm, number 0.
All that is kept is the account against that arm. Sums within an arm are drawn at once: a mean, and squares around it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pytest

from surepick.core.betting.bets import (
    Residuals,
    log_mixed,
    log_returns,
    log_sub_block_returns,
    log_symmetric_returns,
    log_t_returns,
    points,
)
from surepick.core.betting.bounded import largest_loss, nodes, rate_variances
from surepick.core.noise import MIXTURE, noise_limits
from surepick.types import Array, BoolArray, IntArray
from tests.statistical.bets import log_click_capital
from tests.statistical.paths import DELTA, N_PATHS, error_limit

pytestmark = pytest.mark.statistical

PRICE = -math.log(DELTA)
ROWS = np.arange(N_PATHS)
EVEN = np.full(3, 1 / 30)


@dataclass(frozen=True)
class Pulls:
    """Pulls of every path: how often (P, 3), with which means (P, 3), and the squares around these (P,)."""

    counts: Array
    means: Array
    squares: Array

    def __add__(self, other: Self) -> "Pulls":
        counts = self.counts + other.counts
        means = (self.counts * self.means + other.counts * other.means) / counts
        between = self.counts * other.counts / counts * (self.means - other.means) ** 2
        return Pulls(counts, means, self.squares + other.squares + between.sum(axis=1))

    @property
    def n(self) -> int:
        """Pulls of one path; the same in all."""
        return int(self.counts[0].sum())

    def residuals(self, rows: BoolArray) -> Residuals:
        """Around one mean for each arm."""
        return Residuals(self.squares[rows], self.n - 3)

    def contrast(self, leader: IntArray) -> tuple[Array, Array]:
        """Difference of leader and best arm (P,), and y'A^+ y."""
        return self.means[ROWS, leader] - self.means[:, 0], 1.0 / self.counts[ROWS, leader] + 1.0 / self.counts[:, 0]


def _shared(leader: IntArray, n_past: int, even: Array, growth: float) -> Array:
    """Pulls (P, 3) of the next block: every arm its part, the rest for leader and best arm."""
    length = math.ceil(growth * n_past)
    counts = np.tile(np.ceil(even * length), (len(leader), 1))
    for arm in (leader, np.zeros_like(leader)):
        counts[ROWS, arm] += math.ceil(0.5 * (1.0 - even.sum()) * length)
    return counts


Bet = Callable[[Array, Array, Array, Array, Array, Residuals, Residuals], Array]


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the arms, a unit for everything, and by how much noise grows from block to block."""

    sds: tuple[float, float, float] = (1.0, 1.0, 1.0)
    unit: float = 1.0
    swell: float = 1.0


ONE = Noise()


def settled(bet: Bet, means: list[float], noise: Noise = ONE, *, even: Array = EVEN, growth: float = 0.15) -> IntArray:
    """The block (P,) that rejects the best arm; -1 if none does."""
    rng, mean = np.random.default_rng(19), noise.unit * np.array(means)

    def pull(counts: Array, level: float) -> Pulls:
        sd = noise.unit * level * np.array(noise.sds)
        drawn = mean + sd / np.sqrt(counts) * rng.standard_normal(counts.shape)
        return Pulls(counts, drawn, (sd**2 * 2.0 * rng.standard_gamma(0.5 * (counts - 1.0))).sum(axis=1))

    past, L, when = pull(np.full((N_PATHS, 3), 2.0), 1.0), np.zeros(N_PATHS), np.full(N_PATHS, -1)
    for k in range(40):
        leader = 1 + np.argmax(past.means[:, 1:], axis=1)
        block = pull(_shared(leader, past.n, even, growth), noise.swell**k)
        going = when < 0
        (m, q0), (z, q) = past.contrast(leader), block.contrast(leader)
        known = past.residuals(going)
        bets = np.maximum(m[going], 0.0), known.variance * q0[going], PRICE - L[going]
        L[going] += bet(z[going], q[going], *bets, block.residuals(going), known)
        when[going & (L >= PRICE)] = k
        past += block
    return when


def n_wrong(when: IntArray) -> int:
    """Paths that ever rejected the best arm."""
    return int((when >= 0).sum())


def plug_in(z: Array, q: Array, m: Array, s2: Array, rest: Array, block: Residuals, _: Residuals) -> Array:
    """The mistake to take the block's own variance for the true one."""
    return log_returns(z, block.variance * q, m, s2, rest)


def past_level(z: Array, q: Array, m: Array, s2: Array, rest: Array, block: Residuals, past: Residuals) -> Array:
    """The mistake to judge a block by the residuals of the past."""
    return log_t_returns(z, q, m, s2, rest, Residuals(past.variance * block.nu, block.nu), past)


TIE, NEAR_TIE = [0.0, 0.0, -0.3], [0.1, 0.0, -0.3]


@pytest.mark.parametrize("means", [TIE, NEAR_TIE])
def test_the_t_bet_keeps_delta_at_every_noise_level(means: list[float]) -> None:
    """The same decisions whether the noise is a thousandth, one or a thousand."""
    when = settled(log_t_returns, means)
    assert 0 < n_wrong(when) <= error_limit()
    for unit in (1e-3, 1e3):
        np.testing.assert_array_equal(settled(log_t_returns, means, Noise(unit=unit)), when)


def test_the_gate_sees_an_estimated_noise_level_taken_for_the_true_one() -> None:
    """Many short blocks, two spare degrees each: the t-bet keeps delta, the bet with known noise does not."""
    assert 0 < n_wrong(settled(log_t_returns, TIE, growth=0.02)) <= error_limit()
    assert n_wrong(settled(plug_in, TIE, growth=0.02)) > error_limit()


def test_the_gate_sees_a_block_judged_by_residuals_of_the_past() -> None:
    """Noise may change from block to block, because only a block's own residuals count."""
    noise = Noise(swell=1.5)
    assert 0 < n_wrong(settled(log_t_returns, TIE, noise)) <= error_limit()
    assert n_wrong(settled(past_level, TIE, noise)) > error_limit()


# Two noisy arms tie, and four fifths of the pulls go to a quiet one far behind.
QUIET, MOSTLY_QUIET, FAR = Noise(sds=(3.0, 3.0, 0.01)), np.array([0.1, 0.1, 0.8]), [0.0, 0.0, -30.0]


def test_the_gate_sees_arms_of_different_noise_levels() -> None:
    """What the t-bet assumes: a quiet arm among the pulls makes the others look quiet too."""
    assert n_wrong(settled(log_t_returns, FAR, QUIET, even=MOSTLY_QUIET)) > error_limit()


SubBlockBet = Callable[[Array, Array, Array, Array, Array, Residuals], Array]


def repeated(bet: SubBlockBet, n_parts: int) -> int:
    """Paths that ever reject the best arm by repetitions of one design; levels are believed to be equal."""
    rng, sd = np.random.default_rng(20), np.array(QUIET.sds)
    counts, L, is_wrong = np.full(3, 4.0), np.zeros(N_PATHS), np.zeros(N_PATHS, dtype=bool)
    means = sd / np.sqrt(counts) * rng.standard_normal((N_PATHS, 3)) + FAR
    one, past = np.ones(N_PATHS), Residuals(100.0, 100)
    for _ in range(40):
        n_part = np.ceil(0.15 * counts.sum() * MOSTLY_QUIET / n_parts)
        drawn = sd / np.sqrt(n_part) * rng.standard_normal((n_parts, N_PATHS, 3)) + FAR
        z = drawn[:, :, 1] - drawn[:, :, 0]
        m, q0, q = means[:, 1] - means[:, 0], (1.0 / counts)[:2].sum(), (1.0 / (n_parts * n_part))[:2].sum()
        parts = np.vstack([z.mean(axis=0), z - z.mean(axis=0)])
        gain = bet(parts, q * one, np.maximum(m, 0.0), q0 * one, np.maximum(PRICE - L, 1e-3), past)
        L += np.where(is_wrong, 0.0, gain)
        is_wrong |= L >= PRICE
        n_block = n_parts * n_part
        means = (counts * means + n_block * drawn.mean(axis=0)) / (counts + n_block)
        counts = counts + n_block
    return int(is_wrong.sum())


@pytest.mark.parametrize("n_parts", [2, 3, 4])
def test_sub_blocks_keep_delta_when_arms_differ_in_noise(n_parts: int) -> None:
    """The same arms in repetitions of one design, compared with each other."""
    assert 0 < repeated(log_sub_block_returns, n_parts) <= error_limit()


def test_the_gate_sees_repetitions_judged_by_the_level_of_all_results() -> None:
    """The mistake to take the believed variance of a repetition for its own."""

    def believed(parts: Array, q: Array, m: Array, s2: Array, rest: Array, past: Residuals) -> Array:
        return log_t_returns(parts[0], q, m, s2, rest, Residuals(3.0, 3), past)

    assert repeated(believed, 4) > error_limit()


Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
WILD: dict[str, list[Draw]] = {
    "t_2": 3 * [lambda rng, shape: rng.standard_t(2, shape)],
    "Cauchy": 3 * [lambda rng, shape: rng.standard_cauchy(shape)],
    "Laplace": 3 * [lambda rng, shape: rng.laplace(size=shape)],
    "a law for each arm": [
        lambda rng, shape: rng.standard_t(2, shape),
        lambda rng, shape: rng.choice([-1.0, 1.0], shape),
        lambda rng, shape: 0.1 * rng.standard_cauchy(shape),
    ],
    # Nine times out of ten the best arm is a little below its mean.
    "not symmetric": [
        lambda rng, shape: np.where(rng.random(shape) < 0.1, 9.0, -1.0),
        lambda rng, shape: 0.1 * rng.standard_normal(shape),
        lambda rng, shape: 0.1 * rng.standard_normal(shape),
    ],
}
"""The noise of each of three arms."""


def wild(bet: SubBlockBet, law: str, n_parts: int = 4) -> int:
    """Paths that ever reject arm 0, which ties with arm 1, by repetitions of one design; arm 2 is 0.3 behind."""
    rng, means = np.random.default_rng(21), np.array([0.0, 0.0, -0.3])

    def pulls(n: int) -> Array:
        return np.stack([draw(rng, (N_PATHS, n)) for draw in WILD[law]], axis=2) + means

    told = pulls(4)
    n, sums, squares = 4, told.sum(axis=1), (told**2).sum(axis=(1, 2))
    L, is_wrong = np.zeros(N_PATHS), np.zeros(N_PATHS, dtype=bool)
    for _ in range(24):
        leader = 1 + np.argmax(sums[:, 1:], axis=1)
        m = (sums[ROWS, leader] - sums[:, 0]) / n
        past = Residuals(squares - (sums**2).sum(axis=1) / n, 3 * n - 3)
        n_part = math.ceil(0.15 * n / n_parts)
        told = pulls(n_parts * n_part)
        drawn = told.reshape(N_PATHS, n_parts, n_part, 3).mean(axis=2)
        z = drawn[ROWS, :, leader].T - drawn[:, :, 0].T
        parts, one = np.vstack([z.mean(axis=0), z - z.mean(axis=0)]), np.ones(N_PATHS)
        q, s2 = 2.0 / (n_parts * n_part) * one, past.variance * 2.0 / n
        gain = bet(parts, q, np.maximum(m, 0.0), s2 * one, np.maximum(PRICE - L, 1e-3), past)
        L += np.where(is_wrong, 0.0, gain)
        is_wrong |= L >= PRICE
        n, sums, squares = n + n_parts * n_part, sums + told.sum(axis=1), squares + (told**2).sum(axis=(1, 2))
    return int(is_wrong.sum())


@pytest.mark.parametrize("law", ["t_2", "Cauchy", "Laplace", "a law for each arm"])
def test_bets_on_symmetric_noise_keep_delta_whatever_its_law(law: str) -> None:
    """With or without a variance, alike or not between arms."""
    assert 0 < wild(log_symmetric_returns, law) <= error_limit()


def test_the_gate_sees_noise_that_is_not_symmetric() -> None:
    """What the bet assumes."""
    assert wild(log_symmetric_returns, "not symmetric") > error_limit()


def test_the_gate_sees_a_believed_variance_taken_for_that_of_the_noise() -> None:
    """The bet for known noise, which Cauchy noise does not have."""

    def believed(parts: Array, q: Array, m: Array, s2: Array, rest: Array, past: Residuals) -> Array:
        return log_returns(parts[0], past.variance * q, m, s2, rest)

    assert wild(believed, "Cauchy") > error_limit()


@pytest.mark.parametrize("law", ["t_2", "Laplace"])
def test_the_gate_sees_losses_that_are_cut_more_than_gains(law: str) -> None:
    """The mistake of a bet that is not odd."""

    def lopsided(parts: Array, q: Array, m: Array, s2: Array, rest: Array, past: Residuals) -> Array:
        sd = np.sqrt(past.variance * q)
        D = points(m / sd, np.sqrt(s2) / sd, np.sqrt(2.0 * rest))
        x = D[:, None] * (parts[0] + parts[1:]) / (sd * (len(parts) - 1))
        return log_mixed(np.log1p(np.tanh(np.clip(x, -0.25, 1.0))).sum(axis=1))

    assert wild(lopsided, law) > error_limit()


@dataclass(frozen=True)
class Clicks:
    """A block of clicks: weights, pulls, clicks and centres (P, 3), and the bet: v, m and s2 (P,)."""

    c: Array
    pulls: Array
    won: Array
    centres: Array
    v: Array
    m: Array
    s2: Array

    @property
    def z(self) -> Array:
        """What the block says."""
        z: Array = (self.c * self.won).sum(axis=1)
        return z

    @property
    def lam(self) -> Array:
        """Stakes."""
        return nodes(np.maximum(self.m, 0.0), self.s2, self.v, largest_loss(self.c, self.centres))


ClickBet = Callable[[Clicks], Array]


def clicks_settled(bet: ClickBet, rates: list[float], *, n_blocks: int = 40) -> int:
    """Paths on which clicks ever reject the best arm."""
    rng, p = np.random.default_rng(21), np.array(rates)
    counts = np.full((N_PATHS, 3), 10.0)
    clicks = rng.binomial(counts.astype(int), p).astype(float)
    L, is_wrong = np.zeros(N_PATHS), np.zeros(N_PATHS, dtype=bool)
    for _ in range(n_blocks):
        n = int(counts[0].sum())
        theta = clicks / counts
        leader = 1 + np.argmax(theta[:, 1:], axis=1)
        pulls = _shared(leader, n, EVEN, 0.15)
        won = rng.binomial(pulls.astype(int), p).astype(float)
        y = (leader[:, None] == np.arange(3)) - np.array([1.0, 0.0, 0.0])
        c, v = y / pulls, rate_variances(theta, clicks.sum(axis=1)[:, None], n)
        s2 = (y * y * v / counts).sum(axis=1)
        gain = bet(Clicks(c, pulls, won, theta, (c * c * pulls * v).sum(axis=1), (y * theta).sum(axis=1), s2))
        L += np.where(is_wrong, 0.0, gain)
        is_wrong |= L >= PRICE
        counts, clicks = counts + pulls, clicks + won
    return int(is_wrong.sum())


def capital(block: Clicks) -> Array:
    """The bet as it is."""
    return log_click_capital(block.c, block.lam, block.pulls, block.won, block.centres)


def own_results(block: Clicks) -> Array:
    """The mistake to stake what the block itself says."""
    return capital(replace(block, m=block.z))


def clipped(block: Clicks) -> Array:
    """The mistake to stake beyond the limit and to clip what is lost."""
    u = 20.0 / largest_loss(block.c, block.centres)[:, None] * block.c
    win, lose = (np.log(np.maximum(1.0 + u * (r - block.centres), 0.05)) for r in (1.0, 0.0))
    gain: Array = (block.won * win + (block.pulls - block.won) * lose + u * block.pulls * block.centres).sum(axis=1)
    return gain


@pytest.mark.parametrize("rates", [[0.02] * 3, [0.5] * 3, [0.022, 0.02, 0.02]])
def test_the_capital_bet_keeps_delta(rates: list[float]) -> None:
    """Rare clicks and even ones, from blocks in which hardly anybody clicks to thousands of pulls."""
    assert 0 < clicks_settled(capital, rates) <= error_limit()


@pytest.mark.parametrize(("flaw", "rate"), [(own_results, 0.02), (own_results, 0.5), (clipped, 0.5)])
def test_the_gate_sees_capital_bets_that_know_the_block_or_cannot_be_lost(flaw: ClickBet, rate: float) -> None:
    """Stakes from the block's own results, and losses that are clipped."""
    assert clicks_settled(flaw, [rate] * 3) > error_limit()


def _evidence_lies(scale: float, *, shrunk: float | None = None) -> int:
    """Count paths on which the evidence rule ever prefers one of two equal arms, pulled in turn, to the other.

    Whitened rows sqrt(2) e_i: A = t I, y'A^-1 y = 4/t. `shrunk` is the mistake: that share of the usual estimate in the
    place of the largest noise that the rewards allow.
    """
    rng = np.random.default_rng(19)
    sums, squares, lies = np.zeros((2, N_PATHS)), np.zeros((2, N_PATHS)), np.zeros(N_PATHS, dtype=bool)
    for n in range(1, 201):
        rewards = scale * rng.standard_normal((2, N_PATHS))
        sums, squares, t = sums + rewards, squares + rewards**2, 2 * n
        if n == 1:
            continue
        rss = np.maximum((squares - sums**2 / n).sum(axis=0), 0.0)
        per_unit = noise_limits(t * np.eye(2), 1.0, t, DELTA)[1] ** 2  # of a residual sum of squares of 1
        variance = rss * (per_unit if shrunk is None else shrunk**2 / (t - 2))
        reach = np.maximum(sums[1] - sums[0], 0.0) / n
        spread = 4.0 / t + MIXTURE.scales[:, None] * 4.0 / t**2
        priors = (MIXTURE.log_weights - np.log1p(t / MIXTURE.scales))[:, None]
        lies |= np.logaddexp.reduce(priors + reach**2 / (2.0 * variance * spread)) >= math.log(2.0 / DELTA)
    return int(lies.sum())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_evidence_keeps_delta_at_every_noise_level(scale: float) -> None:
    """The largest noise that the rewards allow is far on the safe side; the decisions are the same at every scale."""
    assert _evidence_lies(scale) == _evidence_lies(1.0) <= error_limit()


def test_the_gate_sees_a_noise_level_that_is_taken_for_half_of_what_it_is() -> None:
    """Half the usual estimate: more lies than allowed."""
    assert _evidence_lies(1.0, shrunk=0.5) > error_limit()
