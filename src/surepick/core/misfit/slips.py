"""Slips of the pen: one reward that no noise explains, such as a decimal point in the wrong place.

A slip hides as noise: it inflates the estimate of the noise and spoils no arm's mean by much. So every reward is judged
by the others. Notation: e_i = r_i - x_i'theta the residual of reward i in the regression of all t, h_i = x_i'A^-1 x_i;
the others alone have information A - x_i x_i', residual sum of squares RSS - e_i^2/(1 - h_i), and predict reward i with
an error of e_i/(1 - h_i). Reward i is called a slip if

    |e_i|/(1 - h_i) > w_i + s_i z_i,

with, at risk a_i = 6 alpha/(pi i)^2 (i = 1, 2, .. in the order of asks; half of it for each line),

    w_i, s_i   how far the others' prediction and the noise can be off, by `noise_limits` and the mixture of
               `core.evidence` for the others' results
    z_i        what a standard normal number exceeds in size with probability a_i/2 at most: sqrt(2 log(4/a_i)).

False alarms: at most alpha, however long and however often one looks. Proof: given r_i and all before pull j, the noise
of pull j is as good as ever, so without reward i the mixture of the others is a supermartingale still, whatever arms
reward i has led to; with probability 1 - a_i/2 both limits hold at all times. The noise of reward i itself exceeds
sigma z_i with probability at most a_i/2. The risks a_i sum to alpha.

The limits of an unknown noise need a hundred results to say anything. A block, whose arms the past has fixed, can be
judged by itself at once: if its noise is Gaussian with one level, each of its rewards less what the others predict,
divided by the spread of the others, has Student's law with n - rank - 1 degrees of freedom (`has_slip`).
"""

import math

import numpy as np
import scipy

from surepick.core.estimate import LeastSquares, common_step
from surepick.core.linalg import Array
from surepick.core.misfit.watch import ROUNDING
from surepick.core.noise import MIXTURE, noise_limits


def farthest(estimate: LeastSquares, X: Array, rewards: Array) -> tuple[int, float]:
    """Return which reward (t,), of pulls X (t, d), is farthest from what the others predict, and their prediction."""
    h = np.minimum(np.einsum("ij,ij->i", X @ estimate.A_inv, X), 1.0 - 1e-9)
    e = (rewards - X @ estimate.theta) / (1.0 - h)
    i = int(np.argmax(np.abs(e) * np.sqrt(1.0 - h)))
    return i, float(rewards[i] - e[i])


def has_slip(Q: Array, rewards: Array, risk: float) -> bool:
    """Return whether some reward of a block is a slip, by the block alone. Which one, all results know better.

    Args:
        Q: an orthonormal basis (n, r) of the range of the rows of the pulls, fixed before the first reward.
        rewards: (n,), with Gaussian noise of one level that nobody knows.
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
        error: its distance from what the others predict, e_i/(1 - h_i).
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
