"""Growth: CPU of a pull against the number of arms and of features, and where the time of a run goes.

`python -m benchmarks.growth`. Every run is cut off after as many pulls, plans and settling included, on unit arms with
a parameter so small that none stops before. Draws `docs/_static/growth.svg`.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import surepick as sp
from surepick.simulation import problems

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "growth.svg"
N_PULLS = 1000
ARMS, FEATURES = (10**2, 10**3, 10**4, 10**5, 10**6), (2, 5, 10, 20, 50, 100)
DIM, N_ARMS = 10, 1000
"""What stays fixed while the other grows."""
PARTS = {
    "master": "design: masters",
    "design": "design: pricing, starts",
    "misfit": "watch for misfit",
    "stopping": "settling bets",
    "wealth": "settling bets",
    "betting": "settling bets",
    "estimate": "estimates",
    "sampling": "tracking",
    "algorithms": "tracking",
    "learning": "ask, tell, ledger",
    "arms": "passes over arms",
}
"""By the innermost file or folder of the package with that name."""


def seconds_of(n_arms: int, dim: int) -> tuple[float, float]:
    """Return CPU seconds of the start, and of all later pulls by their number."""
    rng = np.random.default_rng([11, n_arms, dim])
    rows = rng.standard_normal((n_arms, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    theta = 1e-3 * rows[0]

    def pulled(n: int) -> float:
        start = time.process_time()
        pull = lambda arm: float(rows[arm] @ theta + rng.standard_normal())  # noqa: E731
        sp.identify(rows, pull, noise_std=1.0, max_pulls=n)
        return time.process_time() - start

    first = pulled(1)
    return first, (pulled(N_PULLS) - first) / (N_PULLS - 1)


def growth() -> None:
    """Print and draw what a pull costs."""
    seconds_of(100, 2)  # loads what is loaded once
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth"})
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    panels = (
        ("arms", ARMS, [(n, DIM) for n in ARMS], f"number of arms, {DIM} features"),
        ("features", FEATURES, [(N_ARMS, dim) for dim in FEATURES], f"number of features, {N_ARMS} arms"),
    )
    for axes, (what, sizes, cells, label) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        found = [seconds_of(*cell) for cell in cells]
        for size, (first, later) in zip(sizes, found, strict=True):
            print(f"{size:>8} {what}: start {1e3 * first:9.1f} ms, then {1e6 * later:8.0f} us a pull", flush=True)
        axes.loglog(sizes, [1e3 * later for _, later in found], "o-", label="a pull")
        axes.loglog(sizes, [1e3 * first / N_PULLS for first, _ in found], "s--", label=f"the start / {N_PULLS}")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.axes[0].set_ylabel("CPU, ms")
    figure.savefig(PICTURE, metadata={"Date": None})


def part_of(frame: FrameType | None) -> str:
    """Return the part of the package that this line of Python works for."""
    while frame is not None:
        _, found, inside = frame.f_code.co_filename.rpartition("/surepick/")
        if found:
            for name in reversed(inside.removesuffix(".py").split("/")):
                with suppress(KeyError):
                    return PARTS[name]
        frame = frame.f_back
    return "other"


def shares(name: str, instances: Iterable[problems.Problem]) -> None:
    """Print how the CPU of the default splits, by looking at what runs after every millisecond of it."""
    seen: Counter[str] = Counter()
    signal.signal(signal.SIGPROF, lambda _, frame: seen.update([part_of(frame)]))
    signal.setitimer(signal.ITIMER_PROF, 1e-3, 1e-3)
    for run, problem in enumerate(instances):
        rng, means = np.random.default_rng([12, run]), problem.X @ problem.theta
        sp.identify(problem.X, lambda arm: float(means[arm] + rng.standard_normal()), noise_std=1.0)  # noqa: B023
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    total = seen.total()
    print(f"{name}: " + ", ".join(f"{part} {100 * n / total:.0f} %" for part, n in seen.most_common()))


def main() -> None:
    """Print and draw everything."""
    growth()
    shares("many arms K=10^3", (problems.many_arms(1000, seed=seed) for seed in range(40)))
    shares("many arms K=10^4", (problems.many_arms(10_000, seed=seed) for seed in range(20)))
    shares("sphere d=10 K=100", (problems.sphere(10, 100, seed=seed, times=(30.0, 400.0)) for seed in range(10)))
    shares("Soare d=6", (problems.soare(6) for _ in range(20)))


if __name__ == "__main__":
    main()
