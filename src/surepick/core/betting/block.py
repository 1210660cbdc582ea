"""A block: pulls planned together, added up by themselves, their rewards measured from the estimate before them.

Notation: theta0 (d,) and A0 (d, d) estimate and information before the block; x, r its pulls;
A (d, d) = sum x x'; b (d,) = sum (r - x'theta0) x; A^+ the pseudo-inverse on the directions the block measured, P the
projection on the others; y (d,) a contrast.

The block alone measures theta'y as z = y'(theta0 + A^+ b), with variance noise_std^2 y'A^+ y. The mean of z is
theta'y - (P y)'(theta - theta0): exact for y in the range of A, whatever theta0 is. Measuring from theta0 has two uses.
Sums of large rewards would lose the noise in rounding, sums of residuals do not. And a y that sticks out of the range
a little, as every y does by rounding, biases z by (P y)'(theta - theta0) alone, which is known to be small: its
standard error is noise_std |P y| in the norm of A0^-1. Such a y is compared only if that is negligible beside the noise
of z; the choice depends on arms and on the past, never on the block's rewards, so no proof is touched.

**Known misfit**: how far means that are not quite linear can lead a block astray. Notation: |mu_a - theta'x_a| <= eta
for every arm a, mu_a its mean; n_a its pulls in the block; y = x_l - x_b the leader against a rival; C_a the weight of
arm a in z = sum of C_a mean_a: linear in y with sum C_a x_a = y, for least squares C_a = n_a y'A^+ x_a. If arm l is not
better than b, E z <= eta |C - e_l + e_b|_1: bets with z minus this bias in the place of z stay valid
(docs/guarantee.md, Theorem 31). Where l and b themselves are pulled and nothing else, C = e_l - e_b: no bias at all.

**Groups**: days or benches that read high or low as a whole. With Q the projection off their offsets (`core.groups`),
rows Q X and rewards Q r in the place of X and r give At = X'Q X for A. The weights c of z then sum to 0 in every group,
so that z does not depend on any offset (docs/guarantee.md, Theorem 36). Nothing else changes but nu, which is less by
the number of offsets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self, final

import numpy as np

from surepick.core.betting.bets import Residuals, root_of
from surepick.core.groups import Offsets
from surepick.types import Array, IntArray

LARGEST_REWARD = 1e9
"""In units of noise_std; larger rewards are refused.

With u = 2^-53 and |theta'x| <= 1e9 noise_std, in the worst case after n = 10^7 pulls: a reward itself, and theta'y put
together from theta0, are rounded by at most d u 1e9 < d 1.2e-7 noise_std. Sums of n residuals of a few noise_std each
are off by n^2 u of these, so what divides by n is off by n u = 1.1e-9 of them; A is off by the same share, which
multiplies theta - theta0 and not theta. Together below 1e-3 noise_std for any d below 8,000. `LeastSquares` adds
up differences from the first reward of each arm, so that nothing larger than these is ever added up.
"""

# Eigenvalues of A below this share of the largest are rounding. One kept by mistake is harmless: dividing by it makes
# the variance so large that a comparison says nothing.
RANK_TOL = 1e-12
# The standard error of the part outside the range may be this share of the standard error of the part inside.
NEGLIGIBLE = 1e-6
# Residuals below this share of the expected rewards are floating point, and carry no information on the noise.
# More than the true R makes every bet more timid, whatever its sign (docs/guarantee.md, Theorem 24).
DUST = 1e-12


@final
@dataclass(slots=True)
class Block:
    """Sums over the pulls of one block, and the estimate from which rewards are measured."""

    A: Array
    b: Array
    theta0: Array
    A0_inv: Array | None = field(default=None, repr=False)
    """None: nothing is known of theta - theta0 but that no reward is larger than `LARGEST_REWARD`."""
    past: Residuals | None = None
    """Residuals of earlier results; None: there are none."""
    pulls: tuple[Array, Array] | None = field(default=None, repr=False)
    """Features (n, d) and rewards less x'theta0 (n,), one by one; None: only their sums are known."""
    rewards: Array | None = field(default=None, repr=False)
    """The rewards as they came (n,), to the last digit."""
    arms: IntArray | None = field(default=None, repr=False)
    """Numbers of the pulled arms (n,), which tell apart arms with equal features."""
    parts: Array | None = field(default=None, repr=False)
    """The sums b (B, d) of each of B repetitions of one design, of which the block then consists."""
    is_symmetric: bool = False
    """Whether its noise is only known to be symmetric, beside `parts`; else it is normal with a level for each arm."""
    unit: float = 1.0
    """The smallest number that rewards were divided by."""
    step: float = 0.0
    """Distance h of the grid that rewards lie on; 0: none."""
    bias: float = 0.0
    """How far rounding to that grid can move the mean of a reward."""
    was_coarse: bool = False
    """Whether step and bias were known before the block's first result."""
    grouped: "Grouped | None" = field(default=None, repr=False)
    """The pulls as they are, if the offsets of groups are regressed out of A, b and `pulls`."""
    bet: "Callable[[Block, BlockFit], OwnBets] | None" = field(default=None, repr=False)
    """Makes the bets on the block, if its noise is of a kind that has bets of its own."""
    number: int = 0
    """1, 2, ... in the order of opening; 0: not said."""

    @classmethod
    def of(
        cls,
        X: Array,
        rewards: Array,
        theta0: Array,
        A0_inv: Array | None = None,
        past: Residuals | None = None,
        arms: IntArray | None = None,
        groups: IntArray | None = None,
    ) -> Self:
        """Add up pulls: features X (n, d), rewards (n,), measured from theta0.

        Args:
            X: features.
            rewards: one for each row.
            theta0: the estimate before the block.
            A0_inv: its inverse information.
            past: residuals of earlier results.
            arms: numbers of the pulled arms (n,).
            groups: level (n, F) of each factor, by number: their offsets are regressed out. None: no groups.
        """
        e = rewards - X @ theta0
        grouped = None
        if groups is not None:
            offsets = Offsets(groups)
            grouped = Grouped(X, groups, offsets.rank, float((X * X).sum()))
            # Twice: the first projection of large offsets leaves their rounding.
            X, e = (offsets.off(offsets.off(one)) for one in (X, e))
        return cls(X.T @ X, e @ X, theta0, A0_inv, past, (X, e), rewards, arms, grouped=grouped)

    @property
    def dust(self) -> float:
        """Sum of squares of n residuals that floating point alone can cause."""
        if self.pulls is None:
            return 0.0
        X, e = self.pulls
        sizes = X @ self.theta0 if self.grouped is None or self.rewards is None else self.rewards
        return len(e) * (DUST * float(np.abs(sizes).max(initial=0.0))) ** 2

    def at_least_dust(self, R: float) -> float:
        """Return the larger of R and the sum of squares that floating point alone can cause."""
        if self.pulls is None or self.rewards is None:
            return R
        e = self.pulls[1]
        # |x'theta0| is at most |r| + |e|: mostly two products say that there is nothing to do.
        is_plain = R > 4.0 * len(e) * DUST**2 * float(self.rewards @ self.rewards + e @ e)
        return R if is_plain else max(R, self.dust)

    @property
    def moments(self) -> Array:
        """Sum r x (d,) of the rewards as they are."""
        return self.b + self.A @ self.theta0


@final
@dataclass(frozen=True, slots=True)
class Grouped:
    """The pulls of a block with their groups."""

    X: Array
    """Features (n, d)."""
    codes: IntArray
    """Level (n, F) of each factor, by number."""
    rank: int
    """Offsets that are regressed out, as far as results tell them apart."""
    size: float
    """Sum of squares of X, beside which the rounding of a projection shows."""


@final
@dataclass(frozen=True, slots=True)
class BlockFit:
    """Least squares of a block by itself."""

    theta: Array
    """theta0 + A^+ b (d,)."""
    root: Array
    """R (d, d) with |R'y|^2 = y'A^+ y."""
    missed: Array | None
    """M (d, d) with |M'y| noise_std the standard error of the bias of y; None if the block measured everything."""
    residuals: Residuals | None
    """Of the pulls around this fit; None where they are not known one by one."""

    def apart(self, parts: Array) -> Array:
        """Return how far least squares of each repetition alone, with sums b (B, d), is from all together, (B, d)."""
        # A repetition has the information A/B.
        apart: Array = len(parts) * (parts - parts.mean(axis=0)) @ self.root @ self.root.T
        return apart


class OwnBets(Protocol):
    """The bets of a noise model on one block; `docs/guarantee.md` says what they must prove (Theorem 3).

    They may have a method `of_leader(leader)`, which returns further vectors (d,) for bets on the leader with this
    number.
    """

    noise_std: float
    """About the standard deviation of one reward, by what was known before the block."""
    vectors: list[Array]
    """Vectors (d,) whose products with y say what `log_returns` needs of a candidate; the first is theta of the fit."""

    def log_returns(self, products: Array, q: Array, m: Array, s2: Array, rest: Array) -> Array:
        """Return the log of what a unit returns (n,), of mean at most 1 for the return if theta'y <= 0.

        Args:
            products: of y with `vectors` (k, n).
            q: y'A^+ y (n,).
            m: believed size of theta'y (n,), at least 0.
            s2: variance of that belief (n,).
            rest: log wealth still missing (n,).
        """
        ...


def fit(block: Block) -> BlockFit:
    """Return least squares of the block alone, with its precision in each direction."""
    spread, axes = np.linalg.eigh(block.A)
    grouped = block.grouped
    has_rank = spread > RANK_TOL * max(float(spread[-1]), 0.0 if grouped is None else grouped.size)
    inverse = np.where(has_rank, 1.0 / np.where(has_rank, spread, 1.0), 0.0)
    shift = axes @ (inverse * (block.b @ axes))
    missed = None
    if not has_rank.all():
        unmeasured = axes[:, ~has_rank]
        # Whitened arms have |theta| at most the largest expected reward.
        doubt = LARGEST_REWARD * np.eye(len(shift)) if block.A0_inv is None else root_of(block.A0_inv)
        missed = unmeasured @ (unmeasured.T @ doubt)
    residuals = None
    if block.pulls is not None:
        X, e = block.pulls
        nu = len(e) - int(has_rank.sum()) - (0 if grouped is None else grouped.rank)
        R = block.at_least_dust(float(((e - X @ shift) ** 2).sum()))
        # A reading rounded to a grid of step h is off by h^2/12 in the mean of squares.
        residuals = Residuals(R, nu, nu * block.step**2 / 12.0)
    return BlockFit(block.theta0 + shift, axes * np.sqrt(inverse), missed, residuals)


@final
@dataclass(frozen=True, slots=True)
class ArmWeights:
    """How much each arm of a block counts in z, for all y at once."""

    arms: IntArray
    """Numbers of the arms pulled (s,), increasing."""
    W: Array
    """(d, s), C = y'W."""

    @classmethod
    def of(cls, arms: IntArray, W: Array) -> Self:
        """Put arms in order, and add up the weights of an arm that is there several times."""
        numbers, place = np.unique(arms, return_inverse=True)
        total = np.zeros((len(W), len(numbers)))
        np.add.at(total.T, place.reshape(-1), W.T)
        return cls(numbers, total)

    @classmethod
    def of_least_squares(cls, arms: IntArray, X: Array, root: Array) -> Self:
        """Return the weights of pulls, one by one: arms (n,), rows (n, d), root R (d, d) with R R' = A^+."""
        numbers, first, counts = np.unique(arms, return_index=True, return_counts=True)
        return cls(numbers, root @ (root.T @ (X[first].T * counts)))

    def bias(self, C: Array, leader: int, rivals: IntArray) -> Array:
        """Return |C - e_l + e_b|_1 (n,) for rivals b (n,) with weights C (s, n): the bias of z per unit of eta.

        Arms under different numbers count as different ones: with equal features and hence equal means they have a
        smaller bias than this.
        """
        bias: Array = np.abs(C).sum(axis=0)
        for arm, sign in ((np.full(len(rivals), leader), -1.0), (rivals, 1.0)):
            place = np.minimum(np.searchsorted(self.arms, arm), len(self.arms) - 1)
            weight = np.where(self.arms[place] == arm, C[place, np.arange(len(rivals))], 0.0)
            bias += np.abs(weight + sign) - np.abs(weight)
        return np.where(rivals == leader, 0.0, bias)
