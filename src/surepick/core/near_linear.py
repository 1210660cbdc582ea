"""Means that are nearly linear: their least-squares fit, and the distance to the nearest means with another order.

Notation: X (K, d) rows; the model M = {X theta + eta: |eta_k| <= misfit}; w (K,) positive weights, such as pulls N;
mu (K,) means in M; a pair (i, j) with mu_i > mu_j, g = mu_i - mu_j; soft(r) = r - clip(r, -misfit, misfit).

The fit minimises 1/2 sum_k w_k (y_k - lambda_k)^2 over lambda in M. For given theta the best lambda_k is y_k moved into
the interval x_k'theta +- misfit, so theta minimises 1/2 sum_k w_k soft(y_k - x_k'theta)^2, a convex function that is
quadratic in pieces.

The distance of a pair is

    D(w; i, j) = min 1/2 sum_k w_k (mu_k - lambda_k)^2 over lambda in M with lambda_i + slack <= lambda_j.

With a multiplier nu for the order, u = e_i - e_j and r_k = mu_k - nu u_k / w_k - x_k'theta, the optimum is a zero of

    G1 = -sum_k w_k soft(r_k) x_k        (theta is best),
    G2 = lambda_i - lambda_j + slack     (the order is reached), lambda_k = x_k'theta + clip(r_k, -misfit, misfit).

Both are linear in pieces, and Newton's steps find the zero in a handful of steps, for all pairs at once. Where steps
cycle, least squares with bounds (an active-set method) solve the same problem, more slowly.

Limits: with misfit = 0, D = (g + slack)^2 / (2 |x_i - x_j|^2_{A(w)^-1}); with a large one, D = (g + slack)^2 /
(2 (1/w_i + 1/w_j)). Every D lies between the second and the first.

Reference: Reda, Tirinzoni and Degenne (2021).
"""

from typing import NamedTuple, final

import numpy as np
import scipy

from surepick.types import Array, IntArray

# Share of all weight that an arm without weight gets: the distances need every one, and change by about this much.
LEAST_SHARE = 1e-8
# Part of A(w) that is added to Hessians, in which arms within the misfit are missing.
REGULAR = 1e-13
MOST_STEPS = 30
# Relative size of a rest that is rounding.
TOL = 1e-9


class Nearest(NamedTuple):
    """The pair that is easiest to put in another order."""

    pair: tuple[int, int]
    distance: float
    means: Array
    """The nearest means lambda (K,) with that order."""


@final
class NearLinear:
    """Rows and a misfit.

    Args:
        X: rows (K, d) that span.
        misfit: largest distance of a mean from its linear value.
    """

    def __init__(self, X: Array, misfit: float) -> None:
        self.X, self.misfit = X, misfit
        self._outer = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)  # x_k x_k' in a row
        self._theta = np.zeros(X.shape[1])

    def fit(self, w: Array, y: Array) -> Array:
        """Return the fitted means (K,)."""
        w, dim, theta = _floored(w), self.X.shape[1], self._theta
        is_active = np.ones(len(w), dtype=bool)  # the first step is the fit without misfit
        for step in range(MOST_STEPS):
            linear = self.X @ theta
            soft = (y - linear) - np.clip(y - linear, -self.misfit, self.misfit)
            if step:
                G = (w * soft) @ self.X
                if np.abs(G).max() <= TOL * ((w * np.abs(soft)) @ np.abs(self.X)).max():
                    self._theta = theta
                    means: Array = y - soft
                    return means
                is_active = soft != 0.0
            else:
                G = (w * (y - linear)) @ self.X
            H = ((w * is_active) @ self._outer + REGULAR * (w @ self._outer)).reshape(dim, dim)
            try:
                theta = theta + np.linalg.solve(H, G)
            except np.linalg.LinAlgError:  # few arms have weight, and the misfit explains the others
                break
        return self._exactly(w, y)

    def nearest(self, w: Array, mu: Array, members: IntArray, slack: float = 0.0) -> Nearest:
        """Return the pair of a member and another row with the smallest distance, and the means there.

        Args:
            w: weights (K,), not negative.
            mu: fitted means (K,).
            members: rows, such as the m largest means.
            slack: by how much the order must be reversed.
        """
        w, others = _floored(w), np.setdiff1d(np.arange(len(mu)), members)
        i, j = (part.ravel() for part in np.meshgrid(members, others, indexing="ij"))
        gap = np.maximum(mu[i] - mu[j] + slack, 0.0)
        A_inv = np.linalg.inv((self._outer.T @ w).reshape(2 * (self.X.shape[1],)))
        Y = self.X[i] - self.X[j]
        low = gap**2 / (2.0 * (1.0 / w[i] + 1.0 / w[j]))
        linear = np.einsum("pi,ij,pj->p", Y, A_inv, Y)
        high = gap**2 / (2.0 * np.maximum(linear, np.finfo(float).tiny))
        if self.misfit == 0.0:
            best = int(np.argmin(high))
            means = mu - self.X @ (A_inv @ Y[best]) * (gap[best] / linear[best])
            return Nearest((int(i[best]), int(j[best])), float(high[best]), means)
        near = low <= high.min() * (1.0 + TOL)
        i, j = i[near], j[near]
        means = self._means(w, mu, i, j, slack)
        distance = 0.5 * ((mu - means) ** 2 @ w)
        best = int(np.argmin(distance))
        return Nearest((int(i[best]), int(j[best])), float(distance[best]), means[best])

    def _means(self, w: Array, mu: Array, i: IntArray, j: IntArray, slack: float) -> Array:
        """Return the nearest means (P, K) with lambda_i + slack <= lambda_j, for pairs i, j (P,)."""
        n_pairs, (n, dim), rows = len(i), self.X.shape, np.arange(len(i))
        A = self._outer.T @ w
        start = np.linalg.solve(A.reshape(dim, dim), self.X.T @ (w * mu))
        theta, nu = np.tile(start, (n_pairs, 1)), np.zeros(n_pairs)
        push = np.zeros((n_pairs, n))
        push[rows, i], push[rows, j] = 1.0 / w[i], -1.0 / w[j]
        own = 1.0 / w[i] + 1.0 / w[j]
        left = mu[i] - mu[j] + slack > 0.0  # else the order is reached
        means = np.tile(mu, (n_pairs, 1))
        is_active = np.ones((n_pairs, n), dtype=bool)  # the first step solves the problem without misfit
        for step in range(MOST_STEPS):
            linear = theta @ self.X.T
            r = mu - nu[:, None] * push - linear
            soft = r - np.clip(r, -self.misfit, self.misfit)
            if step:
                is_active = soft != 0.0
                found = r - soft + linear
                means = np.where(left[:, None], found, means)
                G1 = -(w * soft) @ self.X
                G2 = found[rows, i] - found[rows, j] + slack
                scale = (w * np.abs(soft)) @ np.abs(self.X)
                is_done = np.abs(G1).max(axis=1) <= TOL * scale.max(axis=1)
                is_done &= np.abs(G2) <= TOL * (np.abs(mu[i]) + np.abs(mu[j]) + slack + own * np.abs(nu))
                left &= ~is_done
                if not left.any():
                    return means
            else:
                soft = r
                G1 = -(w * soft) @ self.X
                G2 = (mu[i] - mu[j]) - (soft[rows, i] - soft[rows, j]) + slack
            H = ((is_active * w) @ self._outer + REGULAR * A).reshape(n_pairs, dim, dim)
            a_i, a_j = is_active[rows, i], is_active[rows, j]
            h = a_i[:, None] * self.X[i] - a_j[:, None] * self.X[j]
            c = np.where(a_i, 0.0, 1.0 / w[i]) + np.where(a_j, 0.0, 1.0 / w[j])
            try:
                solved = np.linalg.solve(H, np.stack([G1, h], axis=2))
            except np.linalg.LinAlgError:  # as in `fit`
                break
            d_nu = (G2 - np.einsum("pd,pd->p", h, solved[:, :, 0])) / (c + np.einsum("pd,pd->p", h, solved[:, :, 1]))
            d_theta = -solved[:, :, 0] - solved[:, :, 1] * d_nu[:, None]
            theta, nu = theta + left[:, None] * d_theta, nu + left * d_nu
        for pair in np.flatnonzero(left).tolist():
            means[pair] = self._exactly(w, mu, (int(i[pair]), int(j[pair])), slack)
        return means

    def _exactly(self, w: Array, y: Array, pair: tuple[int, int] | None = None, slack: float = 0.0) -> Array:
        """Return the means (K,) nearest to y by least squares with bounds; of a pair, lambda_i + slack = lambda_j.

        The unknowns are theta and eta. The pair determines the entry of theta that its features differ in most.
        """
        n, dim = self.X.shape
        M, moved = np.hstack([self.X, np.eye(n)]), np.zeros(n)
        keep = np.ones(dim + n, dtype=bool)
        if pair is not None:
            i, j = pair
            order = M[i] - M[j]  # order'(theta, eta) = -slack
            gone = int(np.argmax(np.abs(order[:dim])))
            keep[gone] = False
            moved = M[:, gone] * (-slack / order[gone])
            M = M - M[:, gone : gone + 1] * (order / order[gone])
        high = np.concatenate([np.full(dim, np.inf), np.full(n, max(self.misfit, np.finfo(float).tiny))])[keep]
        root = np.sqrt(w)
        found = scipy.optimize.lsq_linear(
            root[:, None] * M[:, keep], root * (y - moved), bounds=(-high, high), method="bvls", tol=1e-14
        )
        means: Array = M[:, keep] @ found.x + moved
        return means


def _floored(w: Array) -> Array:
    floored: Array = np.maximum(w, LEAST_SHARE * float(w.sum()))
    return floored
