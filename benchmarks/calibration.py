"""Are the estimates before the verdict right? Said probabilities against frequencies, forecasts against what happened.

`make bench ARGS=calibration`, or `python -m benchmarks.calibration [best | next | remaining | binary] [runs]`;
`binary` takes a seed too.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import surepick as sp
from surepick.learning.outlook import Ahead, Outlook
from surepick.learning.progress import WIDE
from surepick.simulation import problems
from surepick.types import Array

SEED = 29
LOOKS = (10, 20, 40, 80, 160)
EDGES = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0 + 1e-9])
AT = (0.1, 0.25, 0.5, 0.75)
"""Shares of a run at which forecasts are compared with what was left."""


class Look(NamedTuple):
    """One look before the verdict, and the truth."""

    t: int
    outlook: Outlook
    right: bool
    loss: float
    covers: bool
    """Whether the best is among those in question."""


def _sphere(n_arms: int, dim: int, rng: np.random.Generator) -> Array:
    X = rng.standard_normal((n_arms, dim))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True) * math.sqrt(dim), dtype=np.float64)


def _factorial(k: int, _: np.random.Generator) -> Array:
    levels = np.array(np.meshgrid(*[[-1.0, 1.0]] * k)).reshape(k, -1).T
    return np.column_stack([np.ones(len(levels)), levels])


SETS: dict[str, Callable[[np.random.Generator], Array]] = {
    "5 means": lambda _: np.eye(5),
    "10 means": lambda _: np.eye(10),
    "sphere, 20 in R^3": lambda rng: _sphere(20, 3, rng),
    "sphere, 50 in R^5": lambda rng: _sphere(50, 5, rng),
    "2^4 factorial": lambda rng: _factorial(4, rng),
}
TAUS = (0.1, 0.3, 1.0)
"""Standard deviations of the effects, in units of the noise."""

SHARES = ((5, 0.5, 0.95), (5, 0.0, 1.0), (5, 0.05, 0.3), (5, 0.8, 0.99), (10, 0.2, 0.8), (5, 0.6, 0.75))
"""Families of 0/1 rewards: number of arms, and the ends between which their shares are uniform."""


def _drawn(X: Array, tau: float, rng: np.random.Generator) -> Array:
    level = 10.0 * bool((X[:, 0] == 1.0).all())  # with a constant: a level far from 0
    return X @ (tau * rng.standard_normal(X.shape[1])) + level


def _tied(X: Array, tau: float, rng: np.random.Generator) -> Array:
    """Draw means of which the two best differ by a twentieth of the noise, by moving the second."""
    means = _drawn(X, tau, rng)
    second, first = np.argsort(means)[-2:]
    means[second] = means[first] - 0.05
    return means


def families() -> Iterator[tuple[str, Callable[[np.random.Generator], tuple[Array, Array]]]]:
    """Yield named families of problems: arms and their true means."""
    for name, make in SETS.items():
        for tau in TAUS:

            def draw(rng: np.random.Generator, make: Any = make, tau: float = tau) -> tuple[Array, Array]:
                X = make(rng)
                return X, _drawn(X, tau, rng)

            yield f"{name}, effects {tau:g}", draw


def near_ties() -> Iterator[tuple[str, Callable[[np.random.Generator], tuple[Array, Array]]]]:
    """Yield families of independent means of which two nearly tie."""
    for n_arms in (3, 5, 10):

        def draw(rng: np.random.Generator, n_arms: int = n_arms) -> tuple[Array, Array]:
            return np.eye(n_arms), _tied(np.eye(n_arms), 0.5, rng)

        yield f"{n_arms} means, near tie", draw


def looks(
    X: Array, means: Array, seed: list[int], *, noise: Callable[..., float], is_adaptive: bool = True, **options: Any
) -> Iterator[Look]:
    """Run one learner and yield the outlook at fixed times, as long as there is no verdict."""
    rng = np.random.default_rng(seed)
    learner = sp.create_learner("lazy-track-and-stop" if is_adaptive else "uniform", X, seed=seed[-1], **options)
    for t in range(1, LOOKS[-1] + 1):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, noise(rng, means[arm]))
        if learner.stopped:
            return
        if t in LOOKS and (outlook := learner.snapshot.outlook) is not None:
            loss = float(means.max() - means[learner.decision.best])
            covers = int(np.argmax(means)) in outlook.in_question
            yield Look(t, outlook, loss == 0.0, loss, covers)


def gaussian(rng: np.random.Generator, mean: float) -> float:
    """Return a reward with normal noise of level 1."""
    return float(mean + rng.standard_normal())


def bernoulli(rng: np.random.Generator, mean: float) -> float:
    """Return a reward that is 0 or 1."""
    return float(rng.random() < mean)


def _table(found: list[Look], title: str) -> None:
    said, right = np.array([one.outlook.probability for one in found]), np.array([one.right for one in found])
    print(f"\n{title}: {len(found)} looks")
    print("  said      cases  mean said  right  s.e.")
    for low, high in itertools.pairwise(EDGES):
        inside = (said >= low) & (said < high)
        if n := int(inside.sum()):
            share = float(right[inside].mean())
            error = math.sqrt(max(share * (1.0 - share), 0.25 / n) / n)
            print(f"  {low:.1f}-{high:.1f}  {n:6d}      {said[inside].mean():.3f}  {share:.3f}  {error:.3f}")
    for t in LOOKS:
        at = [one for one in found if one.t == t]
        if at:
            likely = np.mean([one.loss <= one.outlook.likely_loss for one in at])
            print(
                f"  t = {t:3d}: best said {np.mean([one.outlook.probability for one in at]):.3f}, right "
                f"{np.mean([one.right for one in at]):.3f}; loss said {np.mean([one.outlook.loss for one in at]):.3f}, "
                f"true {np.mean([one.loss for one in at]):.3f}; within the 95 % loss {likely:.3f}; best among those "
                f"in question {np.mean([one.covers for one in at]):.3f} ({len(at)} looks)"
            )
    print(f"  Brier {np.mean((said - right) ** 2):.4f}", flush=True)


def best(n_runs: str = "60") -> None:
    """Compare said and true frequencies of a right leader, at fixed times and when the probability first is large."""
    for title, is_adaptive in (("adaptive sampling", True), ("uniform sampling", False)):
        found: list[Look] = []
        first: dict[float, list[Look]] = {0.8: [], 0.9: [], 0.95: []}
        for number, (_, draw) in enumerate(families()):
            for run in range(int(n_runs)):
                seed = [SEED, number, int(is_adaptive), run]
                X, means = draw(np.random.default_rng([*seed, 1]))
                own = list(looks(X, means, seed, noise=gaussian, is_adaptive=is_adaptive))
                found += own
                for level in first:
                    first[level] += [one for one in own if one.outlook.probability >= level][:1]
        _table(found, f"{title}, random effects, noise unknown, seed {SEED}, {n_runs} runs of each of 15 families")
        for level, kept in first.items():
            said, right = np.mean([one.outlook.probability for one in kept]), np.mean([one.right for one in kept])
            error = math.sqrt(right * (1.0 - right) / len(kept))
            print(
                f"  first look with {level:.2f} or more: said {said:.3f}, right {right:.3f} ({error:.3f})", flush=True
            )
    found = []
    for number, (_, draw) in enumerate(near_ties()):
        for run in range(int(n_runs)):
            X, means = draw(np.random.default_rng([SEED, 100 + number, run, 1]))
            found += looks(X, means, [SEED, 100 + number, run], noise=gaussian)
    _table(found, f"near ties, seed {SEED}, {n_runs} runs of each of 3 families")


def binary(n_runs: str = "200", seed: str = str(SEED)) -> None:
    """Compare said and true frequencies for rewards that are 0 or 1, by family of shares and for all of them."""
    found: list[Look] = []
    print(f"\n0/1 rewards, seed {seed}, {n_runs} runs of each of {len(SHARES)} families; s.e. from whole runs")
    for number, (n_arms, low, high) in enumerate(SHARES):
        runs: list[list[Look]] = []
        for run in range(int(n_runs)):
            at = [int(seed), 200 + number, run]
            means = np.random.default_rng([*at, 1]).uniform(low, high, n_arms)
            runs.append(list(looks(np.eye(n_arms), means, at, noise=bernoulli, rewards="binary", model="unstructured")))
        own = [one for kept in runs for one in kept]
        said, right = np.mean([one.outlook.probability for one in own]), np.mean([one.right for one in own])
        # Looks of one run depend on each other, runs do not.
        off = [sum(float(one.right - one.outlook.probability - right + said) for one in kept) for kept in runs]
        print(
            f"  {n_arms} shares from {low:g} to {high:g}: best said {said:.3f}, right {right:.3f} "
            f"({np.linalg.norm(off) / len(own):.3f}); loss said {np.mean([one.outlook.loss for one in own]):.3f}, true "
            f"{np.mean([one.loss for one in own]):.3f}; within the 95 % loss "
            f"{np.mean([one.loss <= one.outlook.likely_loss for one in own]):.3f} ({len(own)} looks)",
            flush=True,
        )
        found += own
    _table(found, f"0/1 rewards, all {len(SHARES)} families, seed {seed}, {n_runs} runs of each")


def further(n_runs: str = "40") -> None:
    """Compare what the next measurements were said to buy with what they bought."""
    pairs: dict[int, list[tuple[Ahead, bool, float]]] = {}
    for number, (_, draw) in enumerate(families()):
        for run in range(int(n_runs)):
            seed = [SEED, 300 + number, run]
            X, means = draw(np.random.default_rng([*seed, 1]))
            for pulls, said, right, loss in _further(X, means, seed):
                pairs.setdefault(pulls, []).append((said, right, loss))
    print(f"\nwhat the next measurements buy, said at pull 20, seed {SEED}, {n_runs} runs of each of 15 families")
    for pulls, listed in sorted(pairs.items()):
        share, loss = (float(np.mean([one[place] for one in listed])) for place in (1, 2))
        print(
            f"  {pulls} more: best said {np.mean([said.probability for said, _, _ in listed]):.3f}, right {share:.3f} "
            f"({math.sqrt(share * (1.0 - share) / len(listed)):.3f}); loss said "
            f"{np.mean([said.loss for said, _, _ in listed]):.3f}, true {loss:.3f} ({len(listed)} runs)",
            flush=True,
        )


def _further(X: Array, means: Array, seed: list[int]) -> Iterator[tuple[int, Ahead, bool, float]]:
    rng = np.random.default_rng(seed)
    learner = sp.create_learner("lazy-track-and-stop", X, seed=seed[-1])
    said: dict[int, Ahead] = {}
    for t in range(1, 71):
        if not learner.stopped:
            arm = learner.next_arms(1)[0]
            learner.tell(arm, gaussian(rng, float(means[arm])))
        if t == 20:
            outlook = learner.snapshot.outlook
            said = {} if outlook is None else {one.pulls: one for one in outlook.ahead}
        if t - 20 in said:
            loss = float(means.max() - means[learner.decision.best])
            yield t - 20, said[t - 20], loss == 0.0, loss


INSTANCES: dict[str, Callable[[int], Any]] = {
    "unit basis, 5 arms": lambda _: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
    "Soare, d = 6": lambda _: problems.soare(6, 0.5),
    "sphere, 50 in R^5": lambda run: problems.sphere(5, 50, seed=run, times=(30.0, 150.0)),
    "sphere, 100 in R^10": lambda run: problems.sphere(10, 100, seed=run, times=(30.0, 150.0)),
    "many arms, 1,000": lambda run: problems.many_arms(1000, seed=run),
}


def remaining(n_runs: str = "12") -> None:
    """Compare the forecast of remaining pulls with what was left, at shares of the run."""
    rows: dict[float, list[tuple[float, float, float, float]]] = {at: [] for at in AT}
    for number, make in enumerate(INSTANCES.values()):
        for run in range(int(n_runs)):
            problem = make(run)
            means, scale = problem.X @ problem.theta, float(np.min(problem.noise_std))
            _follow(problem.X, means, scale, [SEED, 400 + number, run], rows)
    print(f"\nremaining pulls, seed {SEED}, {n_runs} runs of each of {len(INSTANCES)} instances")
    for at, found in rows.items():
        said, low, high, true = np.array(found).T
        off = np.exp(np.abs(np.log(said / true)))
        inside = (low <= true) & (true <= high)
        within, is_shown = float((off <= 2.0).mean()), high <= WIDE * low
        print(
            f"  at {at:.0%}: factor off, median {np.median(off):.2f}, 90 % {np.quantile(off, 0.9):.1f}; within 2 in "
            f"{within:.2f} ({math.sqrt(within * (1.0 - within) / len(off)):.2f}); range covers {inside.mean():.2f}, "
            f"high/low {np.median(high / low):.0f}; {(said > true).mean():.2f} too long ({len(off)} runs); a range is "
            f"shown in {is_shown.mean():.2f}, then within 2 in {np.mean(off[is_shown] <= 2.0):.2f}",
            flush=True,
        )


def _follow(X: Array, means: Array, scale: float, seed: list[int], rows: dict[float, list[Any]]) -> None:
    rng = np.random.default_rng(seed)
    learner, said = sp.create_learner("lazy-track-and-stop", X, seed=seed[-1]), {}
    while not learner.stopped and len(learner.state.results) < 8000:
        arm = learner.next_arms(1)[0]
        learner.tell(arm, float(means[arm] + scale * rng.standard_normal()))
        n = len(learner.state.results)
        if n < 50 or n % (n // 25) == 0:  # a look costs as much as many pulls
            said[n] = learner.reader.remaining
    if not learner.stopped:
        return
    for at, kept in rows.items():
        n = min(said, key=lambda n: abs(n - at * len(learner.state.results)))
        forecast, true = said[n], len(learner.state.results) - n
        if math.isfinite(forecast.pulls) and true > 0:
            kept.append((forecast.pulls, forecast.low, forecast.high, true))


PARTS = {"best": best, "binary": binary, "next": further, "remaining": remaining}


def main(*names: str) -> None:
    """Run all parts, or those named."""
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    chosen = sys.argv[1:]
    PARTS[chosen[0]](*chosen[1:]) if chosen else main()
