"""The restricted problem: best weights for given arms and directions, by a primal-dual interior point.

Notation: X (n, d) arms; Y (m, d) directions; w (n,) weights; A = sum w_i x_i x_i'; phi_j = y_j'A^-1 y_j;
psi_j = 1/phi_j, concave and 1-homogeneous in w. With psi the design problem has a linear objective,

    V = min { 1'w : psi_j(w) >= 1 for all j, w >= 0 },       design = w / 1'w, worst phi of the design = V,

and any lam >= 0 gives a lower bound, because psi_j(w) <= theta'A(w)theta whenever theta'y_j = 1:

    V >= 1'lam / max_i sum_j lam_j (x_i'theta_j)^2,          theta_j = A^-1 y_j / phi_j.

Slacks are free of the iterate (s_j != psi_j - 1 on the way), which needs a third of the iterations that
feasible iterates do. When the directions are the arms themselves the problem has the same solution as the
D-optimal one, min -log det A(w) + 1'w, whose master is cheaper and whose value d is known in advance.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import linalg

from surepick.core.linalg import Array

MAX_ITERATIONS = 80
STALE = 8
"""Iterations without a better gap after which a solve is given up."""


@final
@dataclass(frozen=True, slots=True)
class MasterSolution:
    """Weights and multipliers, with the bounds they prove for the restricted problem."""

    w: Array
    lam: Array
    z: Array
    """Reduced costs (n,): an arm with a large one is not needed."""
    value: float
    bound: float
    n_iterations: int

    @property
    def gap(self) -> float:
        return self.value / self.bound - 1.0


@final
@dataclass(frozen=True, slots=True)
class _Point:
    """Everything the master needs to know about one w."""

    UU: Array  # (n, n) x_i'A^-1 x_k
    C: Array  # (m, n) y_j'A^-1 x_i
    phi: Array  # (m,)
    G: Array  # (m, n) d psi_j / d w_i = (x_i'theta_j)^2

    @property
    def psi(self) -> Array:
        return 1.0 / self.phi


def _point(X: Array, Y: Array, w: Array) -> _Point:
    L = linalg.cholesky(X.T @ (w[:, None] * X), lower=True, check_finite=False)
    U = linalg.solve_triangular(L, X.T, lower=True, check_finite=False)
    V = linalg.solve_triangular(L, Y.T, lower=True, check_finite=False)
    C = V.T @ U
    phi = np.einsum("ij,ij->j", V, V)
    return _Point(U.T @ U, C, phi, (C / phi[:, None]) ** 2)


def _newton(H: Array) -> tuple[Array, tuple[Array, bool]]:
    """Jacobi scaling and Cholesky factor; a diagonal shift when rounding makes H indefinite."""
    scale = 1.0 / np.sqrt(H.diagonal())
    scaled = H * scale[:, None] * scale[None, :]
    shift = 0.0
    while True:
        try:
            return scale, linalg.cho_factor(scaled, lower=True, check_finite=False)
        except linalg.LinAlgError:
            shift = max(10.0 * shift, 1e-14)
            scaled[np.diag_indices_from(scaled)] = 1.0 + shift


def _solve(factor: tuple[Array, tuple[Array, bool]], rhs: Array) -> Array:
    scale, cholesky = factor
    step: Array = scale * linalg.cho_solve(cholesky, scale * rhs, check_finite=False)
    return step


def _longest(*pairs: tuple[Array, Array]) -> float:
    """Largest t with every (v, dv): v + t dv >= 0."""
    step = np.inf
    for v, dv in pairs:
        down = dv < 0
        if down.any():
            step = min(step, float((-v[down] / dv[down]).min()))
    return step


def _centred(product: Array, value: Array, mu: float) -> Array:
    """Push `value` so that its complementarity product stays within 1e5 of mu: no pair runs ahead."""
    scaled: Array = value * (np.clip(product, 1e-5 * mu, 1e5 * mu) / product)
    return scaled


def solve_xy(X: Array, Y: Array, w: Array, lam: Array, *, tol: float, level: float) -> MasterSolution:
    """Solve for the given arms and directions to relative gap `tol`.

    Args:
        X: arms in coordinates where the starting design is well conditioned.
        Y: directions, none of them zero.
        w: starting weights, made positive by `level`.
        lam: starting multipliers, zeros for a cold start.
        tol: relative gap to reach.
        level: relative distance from the optimum the start is believed to have.
    """
    n, m = len(X), len(Y)
    w = np.maximum(w, level * w.sum() / (n + m))
    point = _point(X, Y, w)
    w = w * point.phi.max()
    point = _point(X, Y, w)
    mu = level * w.sum() / (n + m)
    s = np.maximum(point.psi - 1.0, mu / np.maximum(lam, mu / level))
    lam = np.maximum(lam, mu / s)
    z = np.maximum(1.0 - point.G.T @ lam, mu / w)
    best: MasterSolution | None = None
    iteration = 0
    while True:
        value = float(w.sum() * point.phi.max())
        reach = float((point.G.T @ lam).max())
        bound = float(lam.sum() / reach)
        if best is None or value / bound < best.value / best.bound:
            best = MasterSolution(w, lam / reach, z, value, bound, iteration)
        if value / bound - 1.0 <= tol or iteration >= MAX_ITERATIONS or iteration > best.n_iterations + STALE:
            return MasterSolution(best.w, best.lam, best.z, best.value, best.bound, iteration)
        iteration += 1

        r = point.psi - 1.0 - s
        mu = float((lam @ s + z @ w) / (n + m))
        G, phi = point.G, point.phi
        weighted = point.C * np.sqrt(lam)[:, None] / phi[:, None]
        H = 2.0 * point.UU * (weighted.T @ weighted)
        # diag(lam/s) - 2 diag(lam phi) may be indefinite alone; the sum with the Gram term is positive.
        H += (G.T * (lam / s - 2.0 * lam * phi)) @ G
        H[np.diag_indices_from(H)] += z / w
        factor = _newton(H)

        def directions(mu_s: Array | float, mu_w: Array | float) -> tuple[Array, Array, Array, Array]:
            dw = _solve(factor, G.T @ ((mu_s - lam * r) / s) + mu_w / w - 1.0)
            ds = G @ dw + r
            return dw, ds, (mu_s - lam * ds) / s - lam, (mu_w - z * dw) / w - z

        dw, ds, dlam, dz = directions(0.0, 0.0)
        primal, dual = min(1.0, _longest((w, dw), (s, ds))), min(1.0, _longest((lam, dlam), (z, dz)))
        left = (lam + dual * dlam) @ (s + primal * ds) + (z + dual * dz) @ (w + primal * dw)
        sigma = min(1.0, max(float(left / (mu * (n + m))), 0.0)) ** 3
        # The floor keeps the last steps from overshooting: below it the multipliers diverge.
        target = max(sigma * mu, 0.1 * tol * float(w.sum()) / (n + m))
        dw, ds, dlam, dz = directions(target - ds * dlam, target - dw * dz)
        boundary = float(np.clip(1.0 - 10.0 * mu * (n + m) / w.sum(), 0.9, 0.9999))
        primal = min(1.0, boundary * _longest((w, dw), (s, ds)))
        dual = min(1.0, boundary * _longest((lam, dlam), (z, dz)))
        w, s = w + primal * dw, s + primal * ds
        lam, z = lam + dual * dlam, z + dual * dz
        try:
            point = _point(X, Y, w)
        except linalg.LinAlgError:  # A(w) singular to rounding: the caller whitens anew and goes on from here
            return MasterSolution(best.w, best.lam, best.z, best.value, best.bound, iteration)
        s = np.maximum(s, point.psi - 1.0)
        lam, z = _centred(lam * s, lam, target), _centred(z * w, z, target)


def solve_d(X: Array, w: Array, *, tol: float, level: float) -> MasterSolution:
    """Solve min -log det A(w) + 1'w for the given arms: the G-optimal design among them, value d.

    `lam` of the result is w itself: with directions y_i = x_i these are the multipliers of the optimum.
    """
    n, d = X.shape
    w = np.maximum(w, level * w.sum() / n)
    w = w * (d / w.sum())
    z = np.empty(0)
    best: MasterSolution | None = None
    iteration = 0
    while True:
        L = linalg.cholesky(X.T @ (w[:, None] * X), lower=True, check_finite=False)
        U = linalg.solve_triangular(L, X.T, lower=True, check_finite=False)
        UU = U.T @ U
        leverage = UU.diagonal()
        if best is None:
            z = np.maximum(1.0 - leverage, level * d / n / w)
        value = float(w.sum() * leverage.max())
        if best is None or value < best.value:
            best = MasterSolution(w, w, z, value, float(d), iteration)
        if value / d - 1.0 <= tol or iteration >= MAX_ITERATIONS or iteration > best.n_iterations + STALE:
            return MasterSolution(best.w, best.lam, best.z, best.value, best.bound, iteration)
        iteration += 1

        mu = float(z @ w) / n
        H = UU * UU
        H[np.diag_indices_from(H)] += z / w
        factor = _newton(H)
        dw = _solve(factor, leverage - 1.0)
        dz = -z * dw / w - z
        primal, dual = min(1.0, _longest((w, dw))), min(1.0, _longest((z, dz)))
        sigma = min(1.0, max(float((z + dual * dz) @ (w + primal * dw)) / (mu * n), 0.0)) ** 3
        target = max(sigma * mu, 0.1 * tol * d / n)
        dw = _solve(factor, leverage - 1.0 + (target - dw * dz) / w)
        dz = (target - z * dw) / w - z
        primal = min(1.0, 0.99 * _longest((w, dw)))
        dual = min(1.0, 0.99 * _longest((z, dz)))
        w, z = w + primal * dw, z + dual * dz
        z = _centred(z * w, z, target)
