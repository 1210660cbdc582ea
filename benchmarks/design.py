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
from surepick.core.linalg import one_blas_thread
from surepick.simulation import problems
from surepick.types import Array

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
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]  # in place: peak memory is measured below
    return X, theta / np.linalg.norm(theta)


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


class Race(NamedTuple):
    """Frank-Wolfe's CPU seconds to a true gap, inf if it did not get there within its budget."""

    touched: float
    """First iterate at or below the gap; often by luck, and Frank-Wolfe cannot know."""
    settled: float
    """First iterate from which on all are."""
    best_gap: float


@one_blas_thread
def frank_wolfe(X: Array, theta: Array, optimum: float, gap: float, budget: float) -> Race:
    """Run plain Frank-Wolfe for `budget` CPU seconds and see when its true relative gap was at most `gap`."""
    values = X @ theta
    best = int(np.argmax(values))
    others = np.arange(len(X)) != best
    Y = (X[best] - X[others]) / (values[best] - values[others])[:, None]
    A = X.T @ X / len(X)
    gaps: list[float] = []
    spent: list[float] = []
    k, start = 1, time.process_time()  # k = 0 would discard the uniform start
    while not spent or spent[-1] <= budget:
        A_inv = np.linalg.inv(A)
        phi = np.einsum("ij,ij->i", Y @ A_inv, Y)
        worst = int(np.argmax(phi))
        gaps.append(2 * phi[worst] / optimum - 1.0)
        spent.append(time.process_time() - start)
        x = X[int(np.argmax((X @ (A_inv @ Y[worst])) ** 2))]
        step = 2.0 / (k + 2)
        A = (1.0 - step) * A + step * np.outer(x, x)
        k += 1
    above = np.flatnonzero(np.array(gaps) > gap)
    first = next((i for i, reached in enumerate(gaps) if reached <= gap), None)
    last = int(above[-1]) + 1 if len(above) else 0
    return Race(spent[first] if first is not None else np.inf, spent[last] if last < len(gaps) else np.inf, min(gaps))


def against_frank_wolfe() -> None:
    """Print the ratio of Frank-Wolfe's CPU time to ours for each instance."""
    print("CPU time of plain Frank-Wolfe to a TRUE gap / ours to a CERTIFIED gap of 1e-4")
    print(
        "touched: its first iterate within that gap; settled: the first from which on all are (it cannot tell either)"
    )
    print(
        f"{'instance':26s} {'ours 1e-4':>10s} {'1e-8 / 1e-4':>12s} {'FW gap':>8s} {'touched':>9s} {'settled':>9s} "
        f"{'wanted':>7s}"
    )
    for case in instances():
        arms = sp.FiniteArms(case.X)
        optimum = sp.characteristic_time(arms, case.theta, tol=1e-8).lower_bound
        ours = cpu(lambda arms=arms, case=case: sp.characteristic_time(arms, case.theta, tol=1e-4))  # type: ignore[misc]
        tight = cpu(lambda arms=arms, case=case: sp.characteristic_time(arms, case.theta, tol=1e-8))  # type: ignore[misc]
        # Three times what is wanted, then Frank-Wolfe is stopped wherever it is.
        budget = max(3 * case.wanted * ours, 0.5)
        race = frank_wolfe(case.X, case.theta, optimum, case.fw_gap, budget)
        touched, settled = (
            f"{spent / ours:.3g}x" if np.isfinite(spent) else f"> {budget / ours:.3g}x"
            for spent in (race.touched, race.settled)
        )
        note = "" if np.isfinite(race.touched) else f"  (Frank-Wolfe's best gap: {race.best_gap:.1e})"
        print(
            f"{case.name:26s} {ours * 1e3:8.1f}ms {tight / ours:11.2f}x {case.fw_gap:8.0e} {touched:>9s} {settled:>9s} "
            f"{case.wanted:6g}x{note}"
        )


def conic_solve(X: Array, Y: Array) -> float:
    """The same design by CVXPY and Clarabel, as the semidefinite program [[A, y], [y', t]] >= 0."""
    w, worst = cp.Variable(len(X), nonneg=True), cp.Variable()
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
        print(
            f"  d={dim}: {theirs / ours:.0f}x, values differ by {abs(2 * conic_solve(X, Y) / value - 1):.1e} relative"
        )


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
    subprocess.run([sys.executable, "-c", MILLION], check=True)  # noqa: S603 (our own code)


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
