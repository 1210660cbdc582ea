"""Certified designs against plain Frank-Wolfe and against a conic solver, as ratios of CPU time in one run.

Frank-Wolfe here is the kind version of what public code does: step 2/(k+2) towards the vertex of the worst
direction, vectorised, rank-one updates of A^-1, all directions precomputed, no cost for a certificate. It is timed to
its TRUE gap, which only we know: the optimum comes from a certified solve to 1e-8.
"""

import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import cvxpy as cp
import numpy as np

import surepick as sp
from surepick.core.linalg import Array, one_blas_thread
from surepick.simulation import problems

REPEATS = 5


class Instance(NamedTuple):
    """A problem and what Frank-Wolfe is asked to reach on it."""

    name: str
    X: Array
    theta: Array
    fw_gap: float
    wanted: float
    """The ratio of CPU times we aim for."""


def unit_sphere(n_arms: int, dim: int, seed: int) -> tuple[Array, Array]:
    """Random unit arms and a random unit theta."""
    rng = np.random.default_rng(seed)
    X, theta = rng.standard_normal((n_arms, dim)), rng.standard_normal(dim)
    return X / np.linalg.norm(X, axis=1, keepdims=True), theta / np.linalg.norm(theta)


def instances() -> list[Instance]:
    """The comparisons to print."""
    many = problems.many_arms(10_000, seed=0)
    ten, fifty = problems.soare(10, angle=0.1, scale=1.0), problems.soare(50, angle=0.1, scale=1.0)
    return [
        Instance("many arms d=2 K=10^4", many.X, many.theta, 1e-4, 2),
        Instance("Soare d=10, angle .1", ten.X, ten.theta, 1e-4, 300),
        Instance("Soare d=50, angle .1", fifty.X, fifty.theta, 1e-2, 30),
        Instance("unit sphere d=20 K=10^4", *unit_sphere(10_000, 20, 0), 1e-2, 7),
        Instance("unit sphere d=50 K=10^3", *unit_sphere(1000, 50, 0), 1e-2, 2),
    ]


def cpu(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median CPU seconds of a few calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


@one_blas_thread
def frank_wolfe(X: Array, theta: Array, optimum: float, gap: float, budget: float) -> tuple[float, float]:
    """CPU seconds until the true relative gap is at most `gap` (inf if over budget), and the best gap reached."""
    values = X @ theta
    best = int(np.argmax(values))
    others = np.arange(len(X)) != best
    Y = (X[best] - X[others]) / (values[best] - values[others])[:, None]
    A_inv = np.linalg.inv(X.T @ X / len(X))
    reached = np.inf
    start = time.process_time()
    k = 0
    while True:
        phi = np.einsum("ij,ij->i", Y @ A_inv, Y)
        worst = int(np.argmax(phi))
        reached = min(reached, 2 * phi[worst] / optimum - 1.0)
        spent = time.process_time() - start
        if reached <= gap:
            return spent, reached
        if spent > budget:
            return np.inf, reached
        x = X[int(np.argmax((X @ (A_inv @ Y[worst])) ** 2))]
        step = 2.0 / (k + 3)  # k + 2 counted from 1: the first step must not discard the uniform start
        A_inv /= 1.0 - step
        u = A_inv @ x
        A_inv -= (step / (1.0 + step * float(x @ u))) * np.outer(u, u)
        k += 1


def against_frank_wolfe() -> None:
    """Print the ratio of Frank-Wolfe's CPU time to ours for each instance."""
    print("CPU time of plain Frank-Wolfe to a TRUE gap / ours to a CERTIFIED gap of 1e-4")
    print(f"{'instance':26s} {'ours 1e-4':>10s} {'1e-8 / 1e-4':>12s} {'FW gap':>8s} {'ratio':>9s} {'wanted':>7s}")
    for case in instances():
        arms = sp.FiniteArms(case.X)
        optimum = sp.characteristic_time(arms, case.theta, tol=1e-8).lower_bound
        ours = cpu(lambda arms=arms, case=case: sp.characteristic_time(arms, case.theta, tol=1e-4))  # type: ignore[misc]
        tight = cpu(lambda arms=arms, case=case: sp.characteristic_time(arms, case.theta, tol=1e-8))  # type: ignore[misc]
        # Three times what is wanted, then Frank-Wolfe is stopped wherever it is.
        spent, reached = frank_wolfe(case.X, case.theta, optimum, case.fw_gap, max(3 * case.wanted * ours, 0.5))
        if np.isfinite(spent):
            ratio = f"{spent / ours:.3g}"
        else:
            ratio = f"> {max(3 * case.wanted, 0.5 / ours):.3g}"
        note = "" if np.isfinite(spent) else f"  (Frank-Wolfe still at {reached:.1e})"
        print(
            f"{case.name:26s} {ours * 1e3:8.1f}ms {tight / ours:11.2f}x {case.fw_gap:8.0e} {ratio:>9s} "
            f"{case.wanted:6g}x{note}"
        )


def conic_solve(X: Array, Y: Array) -> float:
    """The same design by CVXPY and Clarabel, as the semidefinite program [[A, y], [y', t]] >= 0."""
    n, d = X.shape
    w, worst = cp.Variable(n, nonneg=True), cp.Variable()
    A = X.T @ cp.diag(w) @ X
    constraints = [cp.sum(w) == 1]
    for y in Y:
        block = cp.bmat([[A, y[:, None]], [y[None, :], cp.reshape(worst, (1, 1), order="C")]])
        constraints.append(block >> 0)
    problem = cp.Problem(cp.Minimize(worst), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate" is part of the comparison
        problem.solve(solver=cp.CLARABEL)
    return float(worst.value)


def against_conic_solver() -> None:
    """Print the ratio to CVXPY with Clarabel at K = 100."""
    print("\nCPU time of CVXPY + Clarabel (its own tolerance) / ours to a certified 1e-8, K = 100, wanted 30x")
    for dim in (2, 5):
        X, theta = unit_sphere(100, dim, 1)
        best = int(np.argmax(X @ theta))
        Y = np.delete(X[best] - X, best, axis=0)
        Y /= (Y @ theta)[:, None]
        ours = cpu(lambda X=X, theta=theta: sp.characteristic_time(X, theta, tol=1e-8))  # type: ignore[misc]
        theirs = cpu(lambda X=X, Y=Y: conic_solve(X, Y), repeats=1)  # type: ignore[misc]
        value = sp.characteristic_time(X, theta, tol=1e-8).value
        print(f"  d={dim}: {theirs / ours:.0f}x, values differ by {abs(2 * conic_solve(X, Y) / value - 1):.1e} relative")


MILLION = """
import resource, time
import numpy as np
import surepick as sp
from benchmarks.design import unit_sphere
X, theta = unit_sphere(1_000_000, 20, 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
arms = sp.FiniteArms(X)
built = time.process_time() - start
def one_pass():
    start = time.process_time()
    arms.top_quadratic(np.eye(20), 1)
    return time.process_time() - start
single = np.median([one_pass() for _ in range(5)])
for tol in (1e-4, 1e-8):
    start = time.process_time()
    design = sp.characteristic_time(arms, theta, tol=tol)
    spent = time.process_time() - start
    print(f"  tol {tol:.0e}: gap {design.gap:.1e}, {design.effort.passes} full passes, CPU time of "
          f"{spent / single:.0f} passes, support {len(design.support)}, verified {design.verify(arms)}")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"  X is {X.nbytes / 1e9:.2f} GB; peak memory above what X and its making took: {(after - before) / 1e6:.2f} GB; "
      f"building FiniteArms took {built / single:.0f} passes")
"""


def a_million_arms() -> None:
    """Print passes and memory at K = 10^6, d = 20, in a process of its own so that its peak memory is its own."""
    print("\nunit sphere d=20, K=10^6 (wanted: at most 20 passes for 1e-4, memory at most X + 0.4 GB)", flush=True)
    subprocess.run([sys.executable, "-c", MILLION], check=True)


def warm_starts() -> None:
    """Print what an earlier design saves when theta has moved a little."""
    print("\nCPU time of a cold solve / of one started from the design of a theta 1e-3 away")
    for n_arms, dim in ((10_000, 20), (1000, 10), (1000, 2)):
        X, theta = unit_sphere(n_arms, dim, 2)
        arms = sp.FiniteArms(X)
        earlier = sp.characteristic_time(arms, theta)
        moved = theta + 1e-3 * np.random.default_rng(3).standard_normal(dim)
        cold = cpu(lambda arms=arms, moved=moved: sp.characteristic_time(arms, moved))  # type: ignore[misc]
        warm = cpu(lambda a=arms, m=moved, e=earlier: sp.characteristic_time(a, m, warm_start=e))  # type: ignore[misc]
        print(f"  d={dim} K={n_arms}: {cold / warm:.2f}x")


def main() -> None:
    """Print every comparison; peak memory of this process last."""
    against_frank_wolfe()
    against_conic_solver()
    a_million_arms()
    warm_starts()
    print(f"\npeak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
