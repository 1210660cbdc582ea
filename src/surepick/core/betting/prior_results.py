"""Earlier results: e-values against "arm b is the best" from results whose arms were chosen from the past.

Notation: results are cut after the first n1, in the order in which they were measured. A1, theta1 information and
estimate of the first part; A2, theta2, n2 those of the rest, RSS its residual sum of squares around theta2. l is the
candidate that leads by theta1, y = l - b, m = max(theta1'y, 0), gap = theta2'y; q1 = y'A1^-1 y, q2 = y'A2^-1 y,
r2 = y'A2^-1 A1 A2^-1 y, r3 = y'A2^-1 A1 A2^-1 A1 A2^-1 y; u = A1^-1 y, mu = m/q1, and

    Sigma = s A1^-1 + (1 - s) u u'/q1,   s = 0.1:

along u the covariance that the first part leaves, in all other directions a tenth of it. For a parameter theta with
theta'y <= 0 the likelihood of the rest at theta is compared with that at theta + h, h ~ N(mu u, sigma^2 Sigma): the
ratio, averaged over h, has mean at most 1 if theta is true. Its smallest value over all such theta is

    log E = H/sigma^2 - P,   2H = (gap + mu q2)_+^2/(q2 + t2) - mu^2 q1,   P = log det(I + Sigma A2)/2,

t2 = y'A2^-1 Sigma^-1 A2^-1 y = q2^2/q1 + (r2 - q2^2/q1)/s. If the rest measures in the proportions of the first part,
r2 = q2^2/q1, and H is the rest's contribution to the likelihood ratio of the pair. P is the price of one dimension,
log(n/n1)/2, and for every other one little. Other proportions cost evidence by t2, never validity.

Without sigma: the noise sigma^2 at theta is compared with sigma^2/kappa at theta + h, kappa ~ Gamma(a, a),
h ~ N(mu u, sigma^2 Sigma/kappa), a = n1. The smallest value over theta and sigma is at least, with c = a + n2/2,

    log E = lgamma(c) - lgamma(a) + a log a + c - c log c + c log w - a w - P,

w, no more than c/a, a lower bound on the residual sum of squares at theta over that at theta + h (`_ratio`).

The wealth to start with is the mean over several cuts, and 1. Cuts are fixed numbers: one that is a share of all
results would depend on when they ended. docs/guarantee.md has the proofs (Theorem 6).
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from surepick.arms.base import ArmSet, PairForms
from surepick.core.betting.block import RANK_TOL, Block
from surepick.core.estimate import LeastSquares
from surepick.types import Array

# Where results are cut, in multiples of the dimension: some cut leaves between a twentieth and a fifth behind it. Each
# has the same share of the wealth, and one share is kept.
CUTS = (5, 20, 80, 320)
N_SHARES = len(CUTS) + 1
# Covariance of directions other than that of the pair, as a share of the first part's: s above.
SIDEWAYS = 0.1
# Residuals below this share of the rewards are rounding: noise of 0 is never believed.
ROUNDING = 100.0 * float(np.finfo(float).eps)


def log_start(candidates: ArmSet, X: Array, rewards: Array, noise_std: float | None) -> Array:
    """Return the log wealth (K,) to start with against each candidate, at least log(1/5).

    A cut stakes its share on the results after it if the results before it span.

    Args:
        candidates: the rows that are compared.
        X: features (n, d) of the results, in the order in which they were measured.
        rewards: (n,).
        noise_std: sub-Gaussian scale of the noise; None: Gaussian noise of one unknown level.
    """
    past, dim = LeastSquares(X.shape[1]), X.shape[1]
    log_wealth, n_kept = np.full(candidates.n_arms, -np.inf), N_SHARES
    for cut in (times * dim for times in CUTS if times * dim < len(X)):
        past.update_many(X[past.n_pulls : cut], rewards[past.n_pulls : cut])
        if past.has_theta:
            n_kept -= 1
            log_e = _log_evidence(candidates, past, X[cut:], rewards[cut:], noise_std)
            np.logaddexp(log_wealth, log_e, out=log_wealth)
    total: Array = np.logaddexp(log_wealth, math.log(n_kept)) - math.log(N_SHARES)
    return total


class Rest(NamedTuple):
    """Results after a cut, against some candidates: `m`, `gap` and forms of y (n,), then numbers common to all."""

    m: Array
    gap: Array
    q1: Array
    q2: Array
    r2: Array
    r3: Array
    k: Array
    """u'(A2^-1 + s A1^-1)^-1 u."""
    spread: Array
    """Eigenvalues of A2 relative to A1, increasing, (d,) or (d, n)."""
    rss: float | Array
    n1: int
    n2: int | Array


def _log_evidence(candidates: ArmSet, past: LeastSquares, X: Array, rewards: Array, noise_std: float | None) -> Array:
    """Return log E (K,) of the results after a cut; 0 against the leader, against whom nothing is staked."""
    leader, log_e = candidates.best(past.theta), np.full(candidates.n_arms, -np.inf)
    log_e[candidates.copies(leader)] = 0.0
    block, F = Block.of(X, rewards, past.theta), past.factor()
    spread, axes = np.linalg.eigh(F.T @ block.A @ F)
    if not spread[0] > RANK_TOL * spread[-1]:
        return log_e  # the rest does not span: the stake is lost
    F = F @ axes  # F'A1 F = I and F'A2 F = diag(spread)
    shift = F @ ((F.T @ block.b) / spread)  # theta2 - theta1
    left = rewards - X @ past.theta - X @ shift
    rss = max(float(left @ left), ROUNDING**2 * float(rewards @ rewards))

    def judge(forms: PairForms) -> None:
        (ahead, more), (q1, q2, r2, r3, k) = forms.products, forms.squares
        rest = Rest(np.maximum(ahead, 0.0), ahead + more, q1, q2, r2, r3, k, spread, rss, past.n_pulls, len(X))
        found = log_evidence(rest, noise_std)
        log_e[forms.index] = np.where(np.isnan(found), -np.inf, found)  # overflow is no evidence

    factors = [F, F / np.sqrt(spread), F / spread, F / spread**1.5, F * np.sqrt(spread / (1.0 + SIDEWAYS * spread))]
    for _ in candidates.pair_forms(leader, [past.theta, shift], factors, np.isneginf(log_e), judge):
        pass  # each piece fills in its own candidates
    return log_e


def log_evidence(rest: Rest, noise_std: float | None) -> Array:
    """Return log E (n,), see above."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        price = 0.5 * (np.log1p(SIDEWAYS * rest.spread).sum(axis=0) + np.log1p((1.0 - SIDEWAYS) * rest.k / rest.q1))
        mu, aligned = rest.m / rest.q1, rest.q2**2 / rest.q1
        t2 = aligned + np.maximum(rest.r2 - aligned, 0.0) / SIDEWAYS
        nu = np.maximum(rest.gap + mu * rest.q2, 0.0) / (rest.q2 + t2)
        twice_H = nu**2 * (rest.q2 + t2) - mu**2 * rest.q1
        if noise_std is not None:
            known: Array = 0.5 * twice_H / noise_std**2 - price
            return known
        a, c = float(rest.n1), rest.n1 + 0.5 * np.asarray(rest.n2)
        w = np.clip(_ratio(rest, twice_H, mu, nu, t2), 0.0, c / a)
        constant = scipy.special.gammaln(c) - math.lgamma(a) + a * math.log(a) + c - c * np.log(c)
        unknown: Array = constant + c * np.log(w) - a * w - price
        return unknown


def _ratio(rest: Rest, p: Array, mu: Array, nu: Array, t2: Array) -> Array:
    """Return a lower bound (n,) on R0/R1, the residual sum of squares at theta over that at theta + h, theta'y <= 0.

    With delta = theta2 - theta and G = (Sigma + A2^-1)^-1, R1 = RSS + |delta - mu u|_G^2 and R0 - R1 is p = 2H at its
    smallest; there |delta - mu u|_G = e. At the distance t from there, in the norm of G, R0 - R1 >= p + kappa t^2 with
    kappa = s min(spread), and R1 <= RSS + (e + t)^2. The smallest (p + kappa t^2)/(RSS + (e + t)^2) is what R0/R1 - 1
    is at least: the smaller root of RSS x^2 - B x + kappa p, B = p + kappa (RSS + e^2). If p < 0 it is at least p/RSS.
    """
    share = (1.0 - SIDEWAYS) * rest.q2 / rest.q1
    t3 = np.maximum(rest.r3 - 2.0 * share * rest.r2 + share**2 * rest.q2, 0.0) / SIDEWAYS**2
    e2 = nu**2 * (t2 + t3) - 2.0 * nu * mu * (rest.q2 + t2) + mu**2 * (rest.q1 + rest.q2)
    kappa, rss = SIDEWAYS * rest.spread[0], rest.rss
    B = p + kappa * (rss + np.maximum(e2, 0.0))
    root = np.sqrt(np.maximum(B * B - 4.0 * rss * kappa * p, 0.0))
    ratio: Array = 1.0 + np.where(p > 0.0, 2.0 * kappa * p / (B + root), p / rss)
    return ratio
