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

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from surepick.core.linalg import cholesky, solve_cholesky, solve_lower
from surepick.types import Array

MAX_ITERATIONS = 80
STALE = 8
"""Iterations in which the gap must at least halve, else the solve is given up."""


@final
@dataclass(frozen=True, slots=True)
class MasterSolution:
    """Weights and multipliers, with the bounds they prove for the restricted problem."""

    w: Array
    lam: Array
    """Multipliers (m,), scaled so that no arm of the master has a gain above 1."""
    z: Array
    """Reduced costs (n,): an arm with a large one is not needed."""
    value: float
    bound: float
    n_iterations: int = 0

    @property
    def gap(self) -> float:
        """Relative distance between the two bounds."""
        return self.value / self.bound - 1.0


def solve_xy(
    X: Array, Y: Array, w: Array, lam: Array, *, tol: float, level: float, is_cautious: bool = False
) -> MasterSolution:
    """Solve for the given arms and directions to relative gap `tol`, or as far as rounding allows.

    Args:
        X: arms in coordinates where the starting design is well conditioned.
        Y: directions, none of them zero.
        w: starting weights, all positive.
        lam: starting multipliers, zeros for a cold start.
        tol: relative gap to reach.
        level: relative distance from the optimum the start is believed to have.
        is_cautious: take small steps near the central path; slower, for problems where long steps stall.
    """
    return _best(_xy_iterates(X, Y, w, lam, tol=tol, level=level, is_cautious=is_cautious), tol)


def solve_d(X: Array, w: Array, *, tol: float, level: float, is_cautious: bool = False) -> MasterSolution:
    """Solve min -log det A(w) + 1'w for the given arms: the G-optimal design among them, value d.

    Arguments as in `solve_xy`. `lam` of the result is w itself: with directions y_i = x_i these are the
    multipliers of the optimum.
    """
    return _best(_d_iterates(X, w, tol=tol, level=level, is_cautious=is_cautious), tol)


def _best(iterates: Iterator[MasterSolution], tol: float) -> MasterSolution:
    """Iterate until the gap is at most tol or no longer improves; return the best iterate."""
    best, n = next(iterates), 0
    halved_at, halved = 0, best.gap
    # Rounding may end the iteration anywhere (overflow, a singular A(w)): what counts is the best point before
    # that, from which the caller whitens anew and goes on.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"), suppress(np.linalg.LinAlgError):
        while best.gap > tol and n < MAX_ITERATIONS and n <= halved_at + STALE:
            n, current = n + 1, next(iterates)
            if current.gap < best.gap:
                best = current
            if best.gap < 0.5 * halved:
                halved_at, halved = n, best.gap
    return replace(best, n_iterations=n)


@final
@dataclass(frozen=True, slots=True)
class _Point:
    """The forms that the master needs at one w."""

    UU: Array  # (n, n) x_i'A^-1 x_k
    C: Array  # (m, n) y_j'A^-1 x_i
    phi: Array  # (m,)
    G: Array  # (m, n) d psi_j / d w_i = (x_i'theta_j)^2

    @property
    def psi(self) -> Array:
        return 1.0 / self.phi

    def scaled(self, c: float) -> "_Point":
        """The same at c w."""
        return _Point(self.UU / c, self.C / c, self.phi / c, self.G)


def _point(X: Array, Y: Array, w: Array) -> _Point:
    L = cholesky(X.T @ (w[:, None] * X))
    U, V = solve_lower(L, X.T), solve_lower(L, Y.T)
    C = V.T @ U
    phi = np.einsum("ij,ij->j", V, V)
    return _Point(U.T @ U, C, phi, (C / phi[:, None]) ** 2)


class _Iterate(NamedTuple):
    """Primal and dual variables in pairs whose products go to zero, (w, s) and (z, lam); or a step in them."""

    primal: Array  # weights w (n,), then the slack s (m,) of each direction, near psi_j - 1
    dual: Array  # reduced costs z (n,), then multipliers lam (m,)

    def longest(self, step: "_Iterate") -> tuple[float, float]:
        """Return how far primal and dual variables can go along the step and stay positive."""
        return _longest(self.primal, step.primal), _longest(self.dual, step.dual)

    def moved(self, step: "_Iterate", primal: float, dual: float) -> "_Iterate":
        return _Iterate(self.primal + primal * step.primal, self.dual + dual * step.dual)

    @property
    def complementarity(self) -> float:
        return float(self.primal @ self.dual)


def _xy_iterates(
    X: Array, Y: Array, w: Array, lam: Array, *, tol: float, level: float, is_cautious: bool
) -> Iterator[MasterSolution]:
    n, m = len(X), len(Y)
    at = _point(X, Y, w)
    w, at = w * at.phi.max(), at.scaled(float(at.phi.max()))
    mu = level * w.sum() / (n + m)
    s = np.maximum(at.psi - 1.0, mu / np.maximum(lam, mu / level))
    lam = np.maximum(lam, mu / s)
    z = np.maximum(1.0 - at.G.T @ lam, mu / w)
    now = _Iterate(np.concatenate([w, s]), np.concatenate([z, lam]))
    while True:
        w, z, lam = now.primal[:n], now.dual[:n], now.dual[n:]
        total = float(w.sum())
        reach = float((at.G.T @ lam).max())
        yield MasterSolution(w, lam / reach, z, total * float(at.phi.max()), float(lam.sum()) / reach)
        mu = now.complementarity / (n + m)
        factor = _xy_newton(at, now)
        affine = _xy_step(factor, at, now, 0.0)
        primal, dual = now.longest(affine)
        left = now.moved(affine, min(1.0, primal), min(1.0, dual)).complementarity
        sigma = _centring(left / (mu * (n + m)), is_cautious)
        # The floor keeps the last steps from overshooting: below it the multipliers diverge.
        target = max(sigma * mu, 0.1 * tol * total / (n + m))
        step = _xy_step(factor, at, now, target if is_cautious else target - affine.primal * affine.dual)
        primal, dual = now.longest(step)
        boundary = min(max(1.0 - 10.0 * mu * (n + m) / total, 0.9), 0.9999)
        now = now.moved(step, min(1.0, boundary * primal), min(1.0, boundary * dual))
        at = _point(X, Y, now.primal[:n])
        np.maximum(now.primal[n:], at.psi - 1.0, out=now.primal[n:])
        now = _Iterate(now.primal, _centred(now.dual, now.primal, target))


def _xy_newton(at: _Point, now: _Iterate) -> tuple[Array, Array]:
    """Factor the reduced Newton matrix (n, n)."""
    n = len(at.UU)
    lam, ratio = now.dual[n:], now.dual / now.primal
    weighted = at.C * (np.sqrt(lam) / at.phi)[:, None]
    H = at.UU * (2.0 * weighted.T @ weighted)
    # lam/s - 2 lam phi may be negative; with the term above the sum stays positive definite.
    H += (at.G.T * (ratio[n:] - 2.0 * lam * at.phi)) @ at.G
    H.flat[:: n + 1] += ratio[:n]
    return _factored(H)


def _xy_step(factor: tuple[Array, Array], at: _Point, now: _Iterate, target: Array | float) -> _Iterate:
    """Return the Newton step towards primal dual = target."""
    n = len(at.UU)
    primal, dual = now
    residual = at.psi - 1.0 - primal[n:]
    wanted = target / primal
    dw = _solve(factor, at.G.T @ (wanted[n:] - dual[n:] * residual / primal[n:]) + wanted[:n] - 1.0)
    step = np.concatenate([dw, at.G @ dw + residual])
    return _Iterate(step, wanted - dual * step / primal - dual)


def _d_iterates(X: Array, w: Array, *, tol: float, level: float, is_cautious: bool) -> Iterator[MasterSolution]:
    n, d = X.shape
    w = w * (d / w.sum())
    z: Array | None = None
    while True:
        U = solve_lower(cholesky(X.T @ (w[:, None] * X)), X.T)
        UU = U.T @ U
        leverage = UU.diagonal()
        if z is None:
            z = np.maximum(1.0 - leverage, level * d / n / w)
        yield MasterSolution(w, w, z, float(w.sum() * leverage.max()), float(d))
        mu = float(z @ w) / n
        H = UU * UU
        H.flat[:: len(H) + 1] += z / w
        factor = _factored(H)
        dw = _solve(factor, leverage - 1.0)
        dz = -z * dw / w - z
        primal, dual = min(1.0, _longest(w, dw)), min(1.0, _longest(z, dz))
        sigma = _centring(float((z + dual * dz) @ (w + primal * dw)) / (mu * n), is_cautious)
        target = max(sigma * mu, 0.1 * tol * d / n)
        second_order = 0.0 if is_cautious else dw * dz
        dw = _solve(factor, leverage - 1.0 + (target - second_order) / w)
        dz = (target - z * dw) / w - z
        w = w + min(1.0, 0.99 * _longest(w, dw)) * dw
        z = _centred(z + min(1.0, 0.99 * _longest(z, dz)) * dz, w, target)


def _centring(left: float, is_cautious: bool) -> float:  # noqa: FBT001 (private)
    """Mehrotra's choice: aim low if the affine step went far; the cautious choice divides by five at most."""
    sigma = min(1.0, max(left, 0.0)) ** 3
    return max(sigma, 0.2) if is_cautious else sigma


def _factored(H: Array) -> tuple[Array, Array]:
    """Return Jacobi scaling and Cholesky factor; a diagonal shift where rounding makes H indefinite."""
    scale = 1.0 / np.sqrt(H.diagonal())
    scaled = H * scale[:, None] * scale[None, :]
    if not np.isfinite(scaled).all():
        raise np.linalg.LinAlgError("the Newton matrix is not finite")
    shift = 0.0
    while True:
        try:
            return scale, cholesky(scaled)
        except np.linalg.LinAlgError:
            shift = max(10.0 * shift, 1e-14)
            scaled.flat[:: len(scaled) + 1] = 1.0 + shift


def _solve(factor: tuple[Array, Array], rhs: Array) -> Array:
    scale, L = factor
    return scale * solve_cholesky(L, scale * rhs)


def _longest(v: Array, dv: Array) -> float:
    """Return the largest t with v + t dv >= 0."""
    # The most negative ratio decides; v is positive throughout.
    steepest = float((dv / v).min())
    return -1.0 / steepest if steepest < 0 else np.inf


def _centred(dual: Array, primal: Array, mu: float) -> Array:
    """Keep each complementarity product within 1e5 of mu, so that no pair runs ahead of the others."""
    return np.clip(dual, 1e-5 * mu / primal, 1e5 * mu / primal)
