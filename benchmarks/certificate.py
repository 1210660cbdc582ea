"""Mutants of design certificates: how many `verify` accepts, and how much more than the truth the boldest claims.

Notation: X (K, d) arms; y directions; w weights; V = min over w of max over y of y'A(w)^-1 y. The truth does not come
from the code on trial: arms and directions are mapped by exact rational arithmetic to coordinates in which they are
well conditioned, which changes no value, and there a conic solver (CVXPY with Clarabel) finds V.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import surepick as sp
from surepick.core.linalg import one_blas_thread
from surepick.simulation import problems
from surepick.types import Array

N_MUTANTS = 10_000
CHANGES = (1.0, 0.5, 0.1, *(10.0**-k for k in range(3, 14, 2)))
FACTORS = (
    *(1.0 - change for change in CHANGES),
    *(1.0 + change for change in CHANGES),
    *(10.0, 1e300, 1e-300, 5e-324, -1.0, -1e-12, np.nan, np.inf, -np.inf),
)
SPECIAL = (0.0, -1.0, 1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 5e-324)
ARRAYS = ("support", "weights", "hardest", "multipliers", "alternatives")

Fields = dict[str, Any]


class Case(NamedTuple):
    """Arms with an honest design."""

    X: Array
    design: sp.Design


@dataclass(frozen=True)
class Truth:
    """Arms and directions in exact coordinates, with the best value that any design reaches."""

    arms: Array
    directions: Array
    optimum: float

    def value(self, design: sp.Design) -> float:
        """The value that the weights of this design have."""
        weights = design.weights / design.weights.sum()
        R = np.linalg.qr(np.sqrt(weights)[:, None] * self.arms[design.support]).R
        return float(np.square(np.linalg.solve(R.T, self.directions.T)).sum(axis=0).max())


def conic_optimum(X: Array, Y: Array) -> float:
    """Return V by CVXPY and Clarabel: y'A(w)^-1 y = min over c with X'c = y of sum c_i^2 / w_i."""
    scale = float(np.linalg.norm(Y, axis=1).max())
    n, m = len(X), len(Y)
    w, worst, C, parts = cp.Variable((n, 1)), cp.Variable(), cp.Variable((n, m)), cp.Variable((n, m))
    W = w @ np.ones((1, m))
    cone = cp.vstack([cp.vec(2 * C, order="C"), cp.vec(W - parts, order="C")])  # c^2 <= w t, all of them at once
    constraints = [cp.sum(w) == 1, X.T @ C == Y.T / scale, cp.sum(parts, axis=0) <= worst]
    constraints.append(cp.SOC(cp.vec(W + parts, order="C"), cone, axis=0))
    problem = cp.Problem(cp.Minimize(worst), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    assert problem.status == cp.OPTIMAL
    return float(worst.value) * scale**2


def truth_of(X: Array, design: sp.Design) -> Truth:
    """Return the truth about designs on X for the directions of this design."""
    exact = np.vectorize(Fraction, otypes=[object])
    scale = np.abs(X).max(axis=0)
    P = exact(np.linalg.inv(np.linalg.qr(X / scale).R) / scale[:, None])
    rows = X if design.candidates is None else design.candidates.gather(np.arange(design.candidates.n_arms))
    Y = exact(rows)
    if design.theta is not None:
        rewards = Y @ exact(design.theta)
        best = int(np.argmax(rewards))
        others = (Y != Y[best]).any(axis=1)  # a copy of the best is no rival
        Y = (Y[best] - Y[others]) / (rewards[best] - rewards[others])[:, None]
    U, V = (exact(X) @ P).astype(float), (Y @ P).astype(float)
    if design.theta is not None:
        V *= np.sqrt(2.0)  # T* is twice the value
    return Truth(U, V, conic_optimum(U, V))


def mapped(cond: float, seed: int) -> Case:
    """Ten random arms in three dimensions under a dense map of this condition number."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 3))
    left, right = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    M = left @ np.diag(np.geomspace(1.0, 1.0 / cond, 3)) @ right
    return Case(X @ M, sp.characteristic_time(X @ M, np.linalg.solve(M, rng.standard_normal(3))))


@cache
def cases() -> dict[str, Case]:
    """Small instances of every kind of design, well and ill conditioned."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((10, 3)), rng.standard_normal(3)
    soare, basis, apart = problems.soare(3), problems.unit_basis([1.0, 0.75, 0.5, 0.0]), problems.transductive(2)
    first, second = np.argsort(X @ theta)[:-3:-1]
    y = X[first] - X[second]
    tied = theta - (theta @ y - 1e-9) * y / (y @ y)
    twice = np.vstack([X, X[:4], X[:2]])
    return {
        "random": Case(X, sp.characteristic_time(X, theta)),
        "random, loose": Case(X, sp.characteristic_time(X, theta, tol=0.3)),
        "Soare": Case(soare.X, sp.characteristic_time(soare.X, soare.theta)),
        "unit basis": Case(basis.X, sp.characteristic_time(basis.X, basis.theta)),
        "candidates": Case(apart.X, sp.characteristic_time(apart.X, apart.theta, apart.candidates)),
        "directions": Case(X, sp.optimal_design(X, rng.standard_normal((5, 3)))),
        "the arms": Case(X, sp.optimal_design(X)),
        "condition 1e7": mapped(1e7, 1),
        "condition 1e13": mapped(1e13, 0),
        "near tie": Case(X, sp.characteristic_time(X, tied)),
        "duplicates": Case(twice, sp.characteristic_time(twice, theta)),
    }


def _claims(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Value, lower bound or both, scaled."""
    names = rng.choice(["value", "lower_bound"], size=rng.integers(1, 3), replace=False)
    return {name: getattr(design, name) * float(rng.choice(FACTORS)) for name in names}


def _no_gap(rng: np.random.Generator, design: sp.Design) -> Fields:
    """A claim that the design is optimal."""
    claim = design.lower_bound + float(rng.uniform(-1.0, 2.0)) * (design.value - design.lower_bound)
    return {"value": claim, "lower_bound": claim}


def _noise(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Numbers of the certificate or the weights, changed a little or a lot."""
    name = str(rng.choice(["weights", "multipliers", "alternatives"]))
    part = getattr(design, name)
    part = part * np.exp(10.0 ** -rng.uniform(0, 15) * rng.standard_normal(part.shape))
    return {name: part / part.sum() if name == "weights" else part}


def _scale(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Multipliers and alternatives mean the same when scaled; weights do not."""
    name = str(rng.choice(["weights", "multipliers", "alternatives"]))
    return {name: getattr(design, name) * float(rng.choice(FACTORS))}


def _subset(rng: np.random.Generator, design: sp.Design) -> Fields:
    """A weaker certificate, or fewer arms: well-formed, and true for other claims."""
    if rng.random() < 0.5:
        kept = rng.random(len(design.hardest)) < 0.7
        return {name: getattr(design, name)[kept] for name in ("hardest", "multipliers", "alternatives")}
    kept = rng.random(len(design.support)) < 0.7
    weights = design.weights[kept]
    return {"support": design.support[kept], "weights": weights / max(weights.sum(), 1e-300)}


def _anew(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Weights or a certificate that have nothing to do with the honest ones, of the right shapes."""
    if rng.random() < 0.5:
        return {"weights": rng.dirichlet(np.full(len(design.weights), rng.choice([0.1, 1.0, 10.0])))}
    shape = design.alternatives.shape
    return {
        "hardest": rng.integers(0, 12, shape[0]),
        "multipliers": rng.exponential(size=shape[0]),
        "alternatives": rng.standard_normal(shape) * np.abs(design.alternatives).max(initial=1.0),
    }


def _entry(rng: np.random.Generator, design: sp.Design) -> Fields:
    """One number replaced by a special one, in place of a row number a wrong one."""
    name = str(rng.choice(ARRAYS))
    part = getattr(design, name).copy()
    if part.size:
        is_rows = part.dtype.kind == "i"
        part.flat[rng.integers(part.size)] = rng.integers(-3, 14) if is_rows else rng.choice(SPECIAL)
    return {name: part}


def _shape(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Too short, too long, empty, in another order, or with other axes."""
    name = str(rng.choice(ARRAYS))
    part = getattr(design, name)
    changes: list[Callable[[], Any]] = [
        lambda: part[1:],
        lambda: part[:0],
        part[::-1].copy,
        lambda: np.concatenate([part, part[:1]]),
        lambda: part[None],
        lambda: part.ravel()[: rng.integers(0, part.size + 1)],
        part.T.copy,
        lambda: np.array(part.sum()),
    ]
    return {name: changes[rng.integers(len(changes))]()}


def _type(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Something of another type in the place of a field."""
    name = str(rng.choice([*ARRAYS, "value", "lower_bound", "theta"]))
    part = getattr(design, name)
    part = np.ones(len(design.alternatives.T)) if part is None else np.asarray(part)
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: "text",
        part.tolist,
        lambda: part.astype(object),
        lambda: part.astype(str),
        lambda: part.astype(complex),
        lambda: part.astype(bool),
        lambda: np.full(part.shape, None),
        lambda: part.astype(np.float16 if part.dtype.kind == "f" else np.uint8),
        lambda: np.ma.masked_array(part, mask=True),
        lambda: {1: 2},
        lambda: [[1.0], [2.0, 3.0]],
        lambda: 10**400,
        object,
    ]
    return {name: changes[rng.integers(len(changes))]()}


def _parameter(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Another theta, or none; of those that verify there are few, so that the truth about each can be computed."""
    theta = np.ones(design.alternatives.shape[1]) if design.theta is None else design.theta
    others = [None, -theta, theta[::-1].copy(), theta * (1 + 1e-12), 0.5 * theta, theta[:-1], np.append(theta, 0.0)]
    others += [theta * 0.0, theta * np.nan, theta * 1e308, theta * 1e-308, theta[:, None], np.full(len(theta), 1e308)]
    return {"theta": others[rng.integers(len(others))]}


def _rivals(rng: np.random.Generator, design: sp.Design) -> Fields:
    """Other candidates, or what is no set at all."""
    others = _other_candidates(design.alternatives.shape[1])
    return {"candidates": others[rng.integers(len(others))]}


@cache
def _other_candidates(d: int) -> list[Any]:
    rows = (np.eye(d), np.eye(d + 1), np.ones((1, d)), 1e200 * np.eye(d), np.vstack([np.eye(d), np.eye(d)]))
    return [None, np.eye(d), "text", sp.FiniteArms, *(sp.FiniteArms.rows_only(X, least=1) for X in rows)]


MUTATIONS: tuple[Callable[[np.random.Generator, sp.Design], Fields], ...] = (
    *(_claims, _no_gap, _noise, _scale, _subset, _anew, _entry, _shape, _type, _parameter, _rivals),
    *(_claims, _no_gap, _noise, _subset),  # the cunning ones come twice
)


def mutant(rng: np.random.Generator, design: sp.Design) -> sp.Design:
    """The design after one to three changes."""
    fields: Fields = {}
    with np.errstate(all="ignore"):
        for number in rng.integers(len(MUTATIONS), size=rng.integers(1, 4)):
            fields |= MUTATIONS[number](rng, design)
    return replace(design, **fields)


class Survey(NamedTuple):
    """What became of many mutants."""

    n_accepted: int
    boldest: float
    """Largest relative amount by which an accepted design claims a value, bound or gap better than the true one."""


@one_blas_thread
def survey(case: Case, n: int, seed: int) -> Survey:
    """Verify n mutants and compare what is accepted with the truth; an exception is not caught."""
    rng = np.random.default_rng(seed)
    arms, truths = sp.FiniteArms(case.X), dict[object, Truth]()
    n_accepted, boldest = 0, -np.inf
    for _ in range(n):
        changed = mutant(rng, case.design)
        if not changed.verify(arms):
            continue
        n_accepted += 1
        theta = None if changed.theta is None else np.asarray(changed.theta, dtype=float)
        key = (changed.candidates, None if theta is None else theta.tobytes())
        if key not in truths:
            truths[key] = truth_of(case.X, replace(changed, theta=theta))
        boldest = max(boldest, boldness(changed, truths[key]))
    return Survey(n_accepted, boldest)


def boldness(design: sp.Design, truth: Truth) -> float:
    """By how much value, bound or gap are claimed to be better than they are, relative; below 0 if all are worse."""
    value, claimed, bound = truth.value(design), float(design.value), float(design.lower_bound)
    return max(value / claimed, bound / truth.optimum, value / truth.optimum / (claimed / bound)) - 1.0


def main() -> None:
    """Print one line per instance."""
    print(f"{N_MUTANTS:,} mutants of each certificate; boldest: how much more than the truth an accepted one claims")
    print("(the conic solver's own error is a few 1e-9)")
    print(f"{'instance':16s}{'honest gap':>12s}{'accepted':>10s}{'boldest':>11s}{'ms each':>9s}")
    for number, (name, case) in enumerate(cases().items()):
        start = time.process_time()
        found = survey(case, N_MUTANTS, number)
        each = 1e3 * (time.process_time() - start) / N_MUTANTS
        print(f"{name:16s}{case.design.gap:12.1e}{found.n_accepted:10d}{found.boldest:11.1e}{each:9.2f}", flush=True)


if __name__ == "__main__":
    main()
