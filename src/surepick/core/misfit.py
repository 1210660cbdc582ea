"""Misfit: whether the arms' means contradict "every mean is theta'x", at any time, with few false alarms.

Notation: arm a of a block has n_a pulls, a mean and a row x_a (d,); s arms; W = diag(sqrt n_a); Q (s, r) an orthonormal
basis of the range of W X, N (s, f) of its complement, f = s - r spare directions; y = W means and u = N'y.
delta_a = (mean of arm a - theta'x_a)/sigma, its misfit in units of the noise.

Under the model u is noise whatever theta is. Results before the block, under a law of the misfits with theta flat,
make the block's misfits N(M, C); then u/sigma is expected to be N(mu, S), mu = N'W M, S = I + N'W C W N, and

    known sigma:    log E = -1/2 log|S| - 1/2 (u/sigma - mu)'S^-1 (u/sigma - mu) + 1/2 |u/sigma|^2
    unknown sigma:  E = |S|^(-1/2) exp(-mu'S^-1 mu/2) integral chi_p(t) exp((1 - al) t^2/2 + be t) dt,   p = f + nu,
                    al = (u'S^-1 u + R)/(u'u + R),  be = u'S^-1 mu/sqrt(u'u + R),

R the block's pure error with nu degrees of freedom, chi_p the density of the length of p standard normals. Given the
past E has mean at most 1 under the model, so the product over blocks ever reaches 1/alpha with probability at most
alpha (docs/guarantee.md, Theorem 36). Known sigma: for sub-Gaussian noise; unknown sigma: for Gaussian noise.

Laws of the misfits, whose products are averaged: delta_a = e_a with independent e_a ~ N(0, tau^2), some sizes of tau;
and, where no combination of features is constant, delta_a = c with c ~ N(0, 1/4), a constant that was left out.

N is never formed. C = D + F F' with D diagonal and F of d + 1 columns, so with L = I + W D W and
J = [L^(-1/2) Q, L^(-1/2) W F; 0, I], everything follows from one QR of J: |S| = |L| |J'J|, and g'S^-1 h for g = N'a,
h = N'b is the inner product of L^(-1/2) a and L^(-1/2) b without their parts in the range of J. O(s d^2) per block.

**Groups** (`EffectWatch`). The same test finds effects of other columns. A cell is an arm in a group; its row is b (a
row of B), the columns of S (cells, e) are the effects that are looked for, e_j ~ N(0, tau^2) each, in units of the
noise. Two uses: where offsets of groups are allowed for, b = (x_a, 1_g) and the effects are misfits of arms, one for
all cells of an arm; where labels are only recorded, b = x_a and the effects are the offsets of days and benches. With
n the pulls and P the projection off B over all past cells, weighted by n,

    C = (S'n P S + I/tau^2)^-1,   m = C S'n P means/sigma,   the block's misfits are N(S m, S C S').

**Slips**: one reward that no noise explains, such as a decimal point in the wrong place. A slip inflates the estimate
of the noise and moves no arm's mean by much, so it hides as noise. Every reward is therefore judged by the others.
Notation: e_i = r_i - x_i'theta the residual of reward i in the regression of all t, h_i = x_i'A^-1 x_i;
the others alone have information A - x_i x_i', residual sum of squares RSS - e_i^2/(1 - h_i), and predict reward i with
an error of e_i/(1 - h_i). Reward i is called a slip if

    |e_i|/(1 - h_i) > w_i + s_i z_i,

with, at risk a_i = 6 alpha/(pi i)^2 (i = 1, 2, .. in the order of asks; half of it for each line),

    w_i, s_i   how far the others' prediction and the noise can be off, by `noise_limits` and the mixture of
               `core.evidence` for the others' results
    z_i        a size that a standard normal number exceeds with probability a_i/2 at most: sqrt(2 log(4/a_i)).

False alarms: at most alpha, however long and however often one looks. Proof: given r_i and all before pull j, the noise
of pull j is as good as ever, so without reward i the mixture of the others is a supermartingale still, whatever arms
reward i has led to; with probability 1 - a_i/2 both limits hold at all times. The noise of reward i itself exceeds
sigma z_i with probability at most a_i/2. The risks a_i sum to alpha.

The limits of an unknown noise need a hundred results to say anything. A block, whose arms the past has fixed, can be
judged by itself at once: if its noise is Gaussian with one level, each of its rewards less the others' prediction,
divided by the spread of the others, has Student's law with n - rank - 1 degrees of freedom (`has_slip`).
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import scipy

from surepick.core.betting.block import RANK_TOL
from surepick.core.checks import check_fraction, check_noise_std, check_number
from surepick.core.estimate import LeastSquares, common_step
from surepick.core.groups import Offsets, indicators, level_matrix
from surepick.core.linalg import log_chi_mean, one_blas_thread
from surepick.core.noise import MIXTURE, ArmMeans, noise_limits
from surepick.types import Array, IntArray

MOST_EFFECTS = 200
"""Effects of groups or of arms that are looked for at most: with more, such as hundreds of items, nothing is bet."""
TAUS, LARGE_TAUS = (0.05, 0.15, 0.5), (4.0, 40.0)
"""Sizes of the misfits that are looked for, in units of the noise; large ones only if that is unknown: beside a known
noise they show as scatter, which may as well mean that the noise is larger than was said."""
OFFSET = 0.5
"""Size of the constant that is looked for; from the second block on the results say how large it is."""
# Repeats from which the pure error alone says how large the noise is, for the bets.
ENOUGH_REPEATS = 10
# Residuals below this share of the rewards are rounding.
ROUNDING = 1e-12


def range_basis(rows: Array) -> Array:
    """Return an orthonormal basis Q (s, r) of the range of rows (s, d).

    Columns are brought to one size first, and a direction counts unless it is rounding: one too many costs a
    spare direction, one too few would take a part of theta for misfit.
    """
    size = np.abs(rows).max(axis=0, initial=0.0)
    scaled = rows[:, size > 0] / size[size > 0]
    if not scaled.size:
        return np.zeros((len(rows), 0))
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    Q: Array = left[:, singular > max(scaled.shape) * np.finfo(float).eps * singular[0]]
    return Q


def off_range(Q: Array, v: Array) -> Array:
    """Return the part of v that is orthogonal to the columns of Q, which are orthonormal."""
    left: Array = v - Q @ (Q.T @ v)
    return left


def log_factors(block: ArmMeans, M: Array, D: Array, F: Array, noise_std: float | None) -> Array:
    """Log E (T,) of a block for T beliefs about the misfits of its arms; 0 if it has no spare direction.

    Args:
        block: its means on s arms.
        M: expected misfits (T, s), in units of the noise.
        D: with F their covariance diag(D) + F F' (T, s).
        F: (T, s, p).
        noise_std: None if it is not known.
    """
    W = np.sqrt(block.counts)
    Q = range_basis(W[:, None] * block.X)
    s, r = Q.shape
    y = W * block.means
    size = math.sqrt(y @ y)
    y, mu = (v - (v @ Q) @ Q.T for v in (y, W * M))
    y, R = (y, float(block.squares.sum())) if noise_std is None else (y / noise_std, 0.0)
    uu = float(y @ y)
    if s == r or (noise_std is None and uu + R <= (ROUNDING * size) ** 2):
        return np.zeros(len(M))
    L = 1.0 + block.counts * D
    T, _, p = F.shape
    thin = np.sqrt(L)[:, :, None]
    J = np.zeros((T, s + p, r + p))
    J[:, :s, :r], J[:, :s, r:], J[:, s:, r:] = Q / thin, W[:, None] * F / thin, np.eye(p)
    sides = np.zeros((T, s + p, 2))
    sides[:, :s] = np.stack([np.broadcast_to(y, mu.shape), mu], axis=2) / thin
    basis, triangle = np.linalg.qr(J)
    left = sides - basis @ (basis.swapaxes(1, 2) @ sides)
    (uSu, uSm), (_, mSm) = np.moveaxis(left.swapaxes(1, 2) @ left, 0, 2)
    log_det = np.log(L).sum(axis=1) + 2.0 * np.log(np.abs(np.diagonal(triangle, axis1=1, axis2=2))).sum(axis=1)
    if noise_std is None:
        gain = log_chi_mean(s - r + block.n_repeats, (uSu + R) / (uu + R), uSm / math.sqrt(uu + R))
    else:
        gain = 0.5 * (uu - uSu) + uSm
    return np.asarray(gain - 0.5 * (log_det + mSm))


@final
class MisfitWatch:
    """Evidence against the linear model, block by block.

    Past means, in units of the noise, are x'theta + c + e_a + noise/sqrt(n_a). Given beta = (theta, c), of information
    A = sum w_a x x' with rows x = (x_a, 1) and w_a = n_a/(1 + n_a tau^2), each e_a is N(k_a (mean_a - x'beta),
    tau^2/(1 + n_a tau^2)) with k_a = tau^2 w_a; so a block's arms need A and their own past means, nothing else.

    Args:
        dim: d.
        noise_std: sub-Gaussian scale of the noise; None if unknown, then the noise has to be Gaussian.
        has_constant: whether some combination of the features is constant over the arms.
    """

    def __init__(self, dim: int, noise_std: float | None = None, *, has_constant: bool) -> None:
        self.noise_std = None if noise_std is None else check_noise_std(noise_std)
        self._past = ArmMeans.none(dim)
        # Arms, rows and rewards since the last block that could be judged; most cannot, and sorting them takes longer
        # than all else.
        self._unsorted: list[tuple[IntArray, Array, Array]] = []
        self._seen: set[int] = set()
        self.log_peak = 0.0
        """The largest `log_evidence` so far."""
        self.taus = TAUS + (LARGE_TAUS if noise_std is None else ())
        n, m = len(self.taus), (0 if has_constant else 1)
        self._tau2 = np.append(np.square(self.taus), [0.0] * m)[:, None]
        self._has_offset = np.repeat([0.0, 1.0], [n, m])
        self._log_shares = -np.log(np.repeat([n * (1.0 + m), 2.0], [n, m]))  # half on a constant, if one can miss
        self._log_products = np.zeros(n + m)
        self._A, self._b = np.zeros((n + m, dim + 1, dim + 1)), np.zeros((n + m, dim + 1))
        self._A[n:, -1, -1] = 1.0 / OFFSET**2  # the prior of c

    @property
    def past(self) -> ArmMeans:
        """The results of earlier blocks."""
        return self._past.merged(self._sorted()) if self._unsorted else self._past

    @property
    def n_arms(self) -> int:
        """Number of arms measured so far."""
        return len(self._seen)

    def _sorted(self) -> ArmMeans:
        arms, X, rewards = (np.concatenate(parts) for parts in zip(*self._unsorted, strict=True))
        return ArmMeans.of(arms, X, rewards)

    @property
    def log_evidence(self) -> float:
        """Log of the e-value against the linear model; by law of the misfits, averaged."""
        return float(np.logaddexp.reduce(self._log_shares + self._log_products))

    def alarm(self, alpha: float) -> bool:
        """Return whether the evidence has ever reached 1/alpha; under the model with probability at most alpha."""
        return self.log_peak >= -math.log(check_fraction("alpha", alpha))

    @one_blas_thread
    def settle(self, arms: IntArray, X: Array, rewards: Array) -> None:
        """Take the results of a block whose arms were fixed before its first result; blocks in order.

        Args:
            arms: numbers (n,) of the arms pulled.
            X: their rows (n, d).
            rewards: (n,), at most `core.betting.block.LARGEST_REWARD` times the noise in size.
        """
        _, first = np.unique(arms, return_index=True)
        if len(first) > X.shape[1] or len(first) > np.linalg.matrix_rank(X[first]):  # else nothing is spare
            block = ArmMeans.of(arms, X, rewards)
            log_E = log_factors(block, *self._beliefs(block), self.noise_std)
            self._log_products += np.where(np.isfinite(log_E), log_E, 0.0)  # overflow returns the stake
            self.log_peak = max(self.log_peak, self.log_evidence)
        self.learn(arms, X, rewards)

    def learn(self, arms: IntArray, X: Array, rewards: Array) -> None:
        """Take results that belong to no block: later bets know them, nothing is won or lost by them."""
        self._unsorted.append((arms, X, rewards))
        self._seen.update(arms.tolist())

    def _rows(self, block: ArmMeans) -> Array:
        """Return (T, s, d + 1)."""
        n = len(self._tau2), len(block.X)
        offset = np.broadcast_to(self._has_offset[:, None], n)[:, :, None]
        return np.concatenate([np.broadcast_to(block.X, (*n, block.X.shape[1])), offset], axis=2)

    def _weights(self, counts: Array) -> Array:
        """Return w (T, s)."""
        return np.asarray(counts / (1.0 + counts * self._tau2))

    def _learn(self) -> None:
        """Add new results. Reading `past` does not add them, so that bits depend on the blocks alone."""
        if not self._unsorted:
            return
        block, self._unsorted = self._sorted(), []
        rows, (counts, means) = self._rows(block), self._past.look_up(block.arms)
        self._past = self._past.merged(block)
        new_counts, new_means = self._past.look_up(block.arms)
        old, new = self._weights(counts), self._weights(new_counts)
        self._A += (rows * (new - old)[:, :, None]).swapaxes(1, 2) @ rows
        self._b += ((new * new_means - old * means)[:, None] @ rows)[:, 0]

    def _beliefs(self, block: ArmMeans) -> tuple[Array, Array, Array]:
        """Return M, D, F of the block's misfits given the past."""
        self._learn()
        # As eigenvectors of A with its diagonal brought to 1: units of the features do not matter.
        size = np.sqrt(np.diagonal(self._A, axis1=1, axis2=2))
        size = np.where(size > 0, size, 1.0)
        spread, axes = np.linalg.eigh(self._A / (size[:, :, None] * size[:, None]))
        has_rank = spread > RANK_TOL * spread[:, -1:]
        inverse = np.where(has_rank, 1.0 / np.where(has_rank, spread, 1.0), 0.0)
        root = axes * np.sqrt(inverse)[:, None] / size[:, :, None]
        beta = root @ (root.swapaxes(1, 2) @ self._b[:, :, None])
        rows, (counts, means) = self._rows(block), self._past.look_up(block.arms)
        k = self._tau2 * self._weights(counts)
        of_beta = k[:, :, None] * rows  # how a misfit depends on beta, but for the sign: through e_a, or as c itself
        of_beta[:, :, -1] = self._has_offset[:, None]
        M = k * (means - (rows @ beta)[:, :, 0]) + self._has_offset[:, None] * beta[:, -1]
        scale = self._noise_scale(beta[0, :-1, 0], int(has_rank[0].sum()))
        return M / scale, self._tau2 / (1.0 + counts * self._tau2), of_beta @ root

    def _noise_scale(self, theta: Array, rank: int) -> float:
        """Return the noise for the bets: known, of the repeats, or of all residuals; inf while the past has none."""
        if self.noise_std is not None:
            return self.noise_std
        past = self.past
        total, spare = float(past.squares.sum()), past.n_repeats
        if spare < ENOUGH_REPEATS:
            residuals = past.means - past.X @ theta
            total += float(self._weights(past.counts)[0] @ residuals**2)
            spare += len(past.arms) - rank
        return math.sqrt(total / spare) if spare > 0 and total > 0 else math.inf


@final
class EffectWatch:
    """Evidence for effects of groups, or of arms beside the offsets of groups, block by block.

    Args:
        taus: sizes of the effects that are looked for, in units of the noise.
        noise_std: sub-Gaussian scale of the noise; None if unknown, then the noise has to be Gaussian.
    """

    def __init__(self, taus: Sequence[float], noise_std: float | None) -> None:
        self.noise_std = noise_std
        self._tau2 = np.square(taus)
        self._log_products = np.zeros(len(taus))
        self._cells: dict[tuple[bytes, tuple[int, ...], tuple[int, ...]], int] = {}
        self._past: ArmMeans | None = None
        # Of every cell, by its number: levels of its factors, and effects in it.
        self._codes: list[tuple[int, ...]] = []
        self._effects: list[tuple[int, ...]] = []

    @property
    def log_evidence(self) -> float:
        """Log of the e-value for effects; by size, averaged."""
        return float(np.logaddexp.reduce(self._log_products)) - math.log(len(self._log_products))

    def learn(self, X: Array, rewards: Array, codes: IntArray, effects: Sequence[tuple[int, ...]]) -> None:
        """Take results that are not bet on; arguments as of `settle`."""
        self._merge(self._sorted(X, rewards, codes, effects))

    @one_blas_thread
    def settle(self, X: Array, rewards: Array, codes: IntArray, effects: Sequence[tuple[int, ...]]) -> None:
        """Take the results of a block, whose arms and labels were fixed before its first result; blocks in order.

        Args:
            X: rows (n, d).
            rewards: (n,).
            codes: levels (n, F) of the factors whose offsets are allowed for; F may be 0.
            effects: numbers of the effects in each of the n results, 0 and above.
        """
        block = self._sorted(X, rewards, codes, effects)
        codes, S = self._columns(block)
        rows = np.hstack([block.X, indicators(codes)])
        has_spare = len(block.arms) > rows.shape[1] or len(block.arms) > np.linalg.matrix_rank(rows)
        if has_spare and S.shape[1] <= MOST_EFFECTS:
            M, F = self._beliefs(S)
            cells = ArmMeans(block.arms, rows, block.counts, block.means, block.squares)
            log_E = log_factors(cells, M, np.zeros_like(M), F, self.noise_std)
            self._log_products += np.where(np.isfinite(log_E), log_E, 0.0)  # overflow returns the stake
        self._merge(block)

    def _sorted(self, X: Array, rewards: Array, codes: IntArray, effects: Sequence[tuple[int, ...]]) -> ArmMeans:
        """Return the means of cells: equal rows, levels and effects."""
        numbers = []
        for x, levels, own in zip(X, map(tuple, codes.tolist()), effects, strict=True):
            key = x.tobytes(), levels, own
            if key not in self._cells:
                self._cells[key] = len(self._cells)
                self._codes.append(levels)
                self._effects.append(own)
            numbers.append(self._cells[key])
        return ArmMeans.of(np.array(numbers, dtype=np.int64), X, rewards)

    @property
    def cells(self) -> tuple[ArmMeans, list[tuple[int, ...]]]:
        """The means of all cells so far, with rows b, and the effects in each."""
        past = self._past
        assert past is not None
        rows = np.hstack([past.X, indicators(self._columns(past)[0])])
        effects = [self._effects[cell] for cell in past.arms]
        return ArmMeans(past.arms, rows, past.counts, past.means, past.squares), effects

    def _merge(self, block: ArmMeans) -> None:
        self._past = block if self._past is None else self._past.merged(block)

    def _columns(self, cells: ArmMeans) -> tuple[IntArray, Array]:
        """Return the levels (s, F) and S (s, e) of these cells."""
        effects = [self._effects[cell] for cell in cells.arms]
        S = np.zeros((len(effects), 1 + max((max(own, default=0) for own in self._effects), default=0)))
        for row, own in zip(S, effects, strict=True):
            row[list(own)] = 1.0
        return level_matrix([self._codes[cell] for cell in cells.arms]), S

    def _beliefs(self, S: Array) -> tuple[Array, Array]:
        """Return means (T, s) and roots (T, s, e) of the covariance of the block's misfits, in units of the noise."""
        past, tau2 = self._past, self._tau2[:, None]
        if past is None:
            return np.zeros((len(tau2), len(S))), np.sqrt(tau2)[:, :, None] * S
        codes, effects = self._columns(past)
        W = np.sqrt(past.counts)[:, None]
        X, T, y = past.X, effects, past.means[:, None]
        n_fitted = 0
        if codes.shape[1]:
            offsets = Offsets(codes, past.counts)
            X, T, y, n_fitted = offsets.off(X), offsets.off(T), offsets.off(y), offsets.rank
        Q = range_basis(W * X)
        T, y = off_range(Q, W * T), off_range(Q, W * y)[:, 0]
        spread, axes = np.linalg.eigh(T.T @ T)
        roots = axes / np.sqrt(np.maximum(spread, 0.0) + 1.0 / tau2)[:, None]
        spare = past.n_repeats + len(past.arms) - Q.shape[1] - n_fitted
        total = float(past.squares.sum()) + float(y @ y)
        scale = self.noise_std or (math.sqrt(total / spare) if spare > 0 and total > 0 else math.inf)
        means = (roots @ (roots.swapaxes(1, 2) @ (T.T @ y))[:, :, None])[:, :, 0]
        return means @ S.T / scale, S @ roots


def check_pulls(alpha: float, n_spare: int, noise_std: float, kappa: float) -> int:
    """Return how many pulls spread over all arms would show a misfit: 2 (log(1/alpha) + f) sigma^2/kappa^2.

    Args:
        alpha: probability of a false alarm.
        n_spare: f, arms beyond the dimension of their span.
        noise_std: sigma.
        kappa: size of the misfit that matters, root mean square over the arms.
    """
    alpha, noise_std = check_fraction("alpha", alpha), check_noise_std(noise_std)
    kappa = check_number("kappa", kappa, needed="a misfit above 0", allowed=lambda value: value > 0)
    return math.ceil(2.0 * (n_spare - math.log(alpha)) * (noise_std / kappa) ** 2)


def farthest(estimate: LeastSquares, X: Array, rewards: Array, leverages: Array | float = 0.0) -> tuple[int, float]:
    """Return which reward (t,), of pulls X (t, d), is farthest from the others' prediction, and this prediction.

    `leverages` (t,): how far each reward moves the offset of its own group, if groups have offsets.
    """
    h = np.minimum(np.einsum("ij,ij->i", X @ estimate.A_inv, X) + leverages, 1.0 - 1e-9)
    e = (rewards - X @ estimate.theta) / (1.0 - h)
    i = int(np.argmax(np.abs(e) * np.sqrt(1.0 - h)))
    return i, float(rewards[i] - e[i])


def has_slip(Q: Array, rewards: Array, risk: float) -> bool:
    """Return whether some reward of a block is a slip, by the block alone. Which one, all results know better.

    Args:
        Q: an orthonormal basis (n, r) of the range of the rows of the pulls, fixed before the first reward.
        rewards: (n,), with Gaussian noise of one unknown level.
        risk: of calling any of them a slip if none is.
    """
    n, rank = Q.shape
    nu = n - rank - 1
    if nu < 1:
        return False
    e = rewards - Q @ (Q.T @ rewards)
    left = 1.0 - (Q * Q).sum(axis=1)
    is_judged = left > 1e-9
    apart = np.where(is_judged, e / np.where(is_judged, left, 1.0), 0.0)
    least = max((ROUNDING * float(np.linalg.norm(rewards))) ** 2, np.finfo(float).tiny)  # all rewards may be 0
    values = set(rewards.tolist())
    if 1 < len(values) < n:  # readings on a grid, of which 0 is a place: beside equal ones the next step is no slip
        least = max(least, nu * common_step(np.array([*values, 0.0])) ** 2 / 12.0)
    rss_others = np.maximum(e @ e - e * apart, least)
    t = math.sqrt(float((nu * e * apart / rss_others).max()))
    return bool(2.0 * n * scipy.special.stdtr(nu, -t) <= risk)


def is_slip(estimate: LeastSquares, x: Array, error: float, i: int, noise_std: float | None, alpha: float) -> bool:
    """Return whether reward i (counted from 1), of row x (d,), is a slip.

    Args:
        estimate: of all rewards, whitened.
        x: its features.
        error: its distance from the others' prediction, e_i/(1 - h_i).
        i: when it was told.
        noise_std: scale of the noise, None if unknown.
        alpha: risk of ever calling a reward a slip that is none.
    """
    h = float(x @ estimate.A_inv @ x)
    if not h < 1.0 - 1e-9:
        return False
    risk = 6.0 * alpha / (math.pi * i) ** 2
    A = estimate.A - np.outer(x, x)
    rss = max(estimate.residual_sum - error * error * (1.0 - h), 0.0)
    if estimate.resolution > 0.0:  # what rounding may have hidden
        rss = (math.sqrt(rss) + 0.5 * estimate.resolution * math.sqrt(estimate.n_pulls)) ** 2
    # A scale that was given may be too small, and then everything would look like a slip; a larger one is as valid.
    scale = max(noise_limits(A, rss, estimate.n_pulls - 1, 0.5 * risk)[1], noise_std or 0.0)
    if not math.isfinite(scale):
        return False
    betas = math.log(4.0 / risk) - MIXTURE.log_weights + 0.5 * MIXTURE.logdets(A)
    u = np.linalg.solve(A, x)
    width = math.sqrt(2.0 * float((betas * (x @ u + MIXTURE.scales * (u @ u))).min()))
    return abs(error) > scale * (width + math.sqrt(2.0 * math.log(4.0 / risk)))
