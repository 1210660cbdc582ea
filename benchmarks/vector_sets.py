"""Sets of vectors: pulls by rule and design beside the characteristic time and the lower bound, and errors at delta .3.

Every run is a whole identification by the learner. Mean pulls +- standard error over `N_RUNS` seeded runs, delta = .05,
noise_std = 1.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom

import surepick as sp
from surepick.arms.vectors import VectorSet
from surepick.core.linalg import Array
from surepick.simulation.problems import Problem

N_RUNS = 100
N_GATE = 2000


def _runs(
    vectors: VectorSet, theta: Array, n_runs: int, *, seed: int, epsilon: float, delta: float = 0.05, **options: Any
) -> tuple[Array, int]:
    """Return the pulls of each run and how many answers lose more than epsilon."""
    pulls, n_wrong = np.empty(n_runs), 0
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        learner = sp.create_learner("lazy-track-and-stop", vectors, delta=delta, epsilon=epsilon, seed=run, **options)
        while not learner.stopped:
            for arm in learner.next_arms(vectors.dim):
                learner.tell(arm, float(arm @ theta + rng.standard_normal()))
        pulls[run] = learner.estimate.n_pulls
        answer: Any = learner.decision.best
        loss = float(theta @ (vectors.best(theta) - answer))
        n_wrong += loss > epsilon + 1e-12
    return pulls, n_wrong


def _cell(pulls: Array) -> str:
    return f"{pulls.mean():.0f} +-{pulls.std(ddof=1) / math.sqrt(len(pulls)):.0f}"


def spheres() -> None:
    """The unit sphere, |theta| = 1: rules, and the basis in turn against the optimal design."""
    print(f"\nunit sphere, |theta| = 1, {N_RUNS} runs, seed 60: bound = sharp lower bound, T* = pulls per log(1/delta)")
    print(f"{'d':>3s} {'eps':>5s} {'bound':>6s} {'T* log 20':>9s} {'mix-grid':>12s} {'evidence':>12s} {'tangent':>12s}")
    for dim, epsilon in ((2, 0.5), (2, 0.1), (5, 0.5), (5, 0.1), (10, 0.5), (10, 0.1), (20, 0.5)):
        sphere, theta = sp.Sphere(dim), np.full(dim, dim**-0.5)
        variants: list[dict[str, Any]] = [{"stopping": "mix-grid"}, {}, {"design": "tangent"}]
        cells = [_cell(_runs(sphere, theta, N_RUNS, seed=60, epsilon=epsilon, **options)[0]) for options in variants]
        bound, time = sphere.lower_bound(theta, epsilon), sphere.characteristic_time(theta, epsilon)
        print(
            f"{dim:3d} {epsilon:5g} {bound:6.0f} {time * math.log(20):9.0f} "
            + " ".join(f"{cell:>12s}" for cell in cells),
            flush=True,
        )


def choices() -> None:
    """Hypercubes with effects of .3 and larger, and choices of k out of d with gaps of .3."""
    print(f"\nhypercube, {N_RUNS} runs, seed 61")
    print(f"{'effects':22s} {'bound':>6s} {'evidence':>12s} {'mix-grid':>12s} {'per-coordinate':>15s}")
    for dim in (4, 8, 20):
        for label, rest in (("all .3", 0.3), (".3, the rest 1", 1.0)):
            cube, theta = sp.Hypercube(dim), np.r_[0.3, np.full(dim - 1, rest)]
            cells = [
                _cell(_runs(cube, theta, N_RUNS, seed=61, epsilon=0.0, stopping=stopping)[0])
                for stopping in ("evidence", "mix-grid", "per-coordinate")
            ]
            print(
                f"d={dim:<3d} {label:16s} {cube.lower_bound(theta):6.0f} {cells[0]:>12s} {cells[1]:>12s} "
                f"{cells[2]:>15s}",
                flush=True,
            )
    print(f"\nk out of d, the chosen better by .5, {N_RUNS} runs, seed 62")
    for dim, k in ((5, 2), (8, 3)):
        top, theta = sp.TopK(dim, k), np.r_[np.full(k, 0.5), np.zeros(dim - k)]
        pulls, _ = _runs(top, theta, N_RUNS, seed=62, epsilon=0.0)
        listed = sp.simulate(Problem(X=top.choices(), theta=theta, name="listed"), n_runs=N_RUNS, seed=62)
        print(
            f"{k} of {dim}: lower bound {top.lower_bound(theta):.0f}, evidence {_cell(pulls)}, as a list of arms under "
            f"the default rule {listed.mean:.0f} +-{listed.se:.0f}",
            flush=True,
        )


def gates() -> None:
    """Count wrong answers at a loose delta, on instances where luck can mislead."""
    limit = int(binom.isf(1e-6, N_GATE, 0.3))
    print(f"\nwrong answers in {N_GATE} runs at delta = .3, seed 63; limit {limit} (exact binomial, false alarm 1e-6)")
    cases: dict[str, Callable[[], tuple[Array, int]]] = {
        "sphere d=2": lambda: _gate(sp.Sphere(2), [0.3, 0.0], 0.25),
        "sphere d=2, tangent": lambda: _gate(sp.Sphere(2), [0.3, 0.0], 0.25, design="tangent"),
        "sphere d=2, mix-grid": lambda: _gate(sp.Sphere(2), [0.3, 0.0], 0.25, stopping="mix-grid"),
        "ellipsoid d=2": lambda: _gate(sp.Ellipsoid([0.5, 0.0], [[1.0, 0.0], [0.3, 0.5]]), [0.3, 0.1], 0.2),
        "hypercube d=3": lambda: _gate(sp.Hypercube(3), [0.3, 0.2, 0.2], 0.0),
        "hypercube d=3, per-coordinate": lambda: _gate(
            sp.Hypercube(3), [0.3, 0.2, 0.2], 0.0, stopping="per-coordinate"
        ),
        "2 of 4": lambda: _gate(sp.TopK(4, 2), [0.4, 0.4, 0.0, 0.0], 0.0),
    }
    for name, case in cases.items():
        pulls, n_wrong = case()
        print(f"{name:32s} {n_wrong:4d} wrong, {_cell(pulls)} pulls", flush=True)


def _gate(vectors: VectorSet, theta: list[float], epsilon: float, **options: Any) -> tuple[Array, int]:
    return _runs(vectors, np.array(theta), N_GATE, seed=63, epsilon=epsilon, delta=0.3, **options)


def main() -> None:
    """Print everything; about half an hour on one core."""
    spheres()
    choices()
    gates()


if __name__ == "__main__":
    main()
