"""Lazy stopping checks: cost per round at a thousand and at a million arms, and the passes they needed.

Run `python -m benchmarks.lazy_check`. CPU time of one process with one BLAS thread.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task, WhitenedArms, whiten
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.stopping import GLR, Evidence
from surepick.stopping.scan import ScanState
from surepick.types import Array, BoolArray

DIM = 20
N_ROUNDS = 20_000
SMALL, LARGE = 1_000, 1_000_000


@dataclass(frozen=True)
class Measured:
    """One simulated path."""

    us_per_round: float
    n_scans: int
    n_leader_passes: int
    decisions: BoolArray


def unit_arms(n_arms: int, *, seed: int) -> Array:
    """Return arms uniform on the sphere, scaled to the identity as information of the uniform design."""
    rows = np.random.default_rng(seed).standard_normal((n_arms, DIM))
    rows *= np.sqrt(DIM) / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def near_tie(X: Array, *, lead: float) -> Array:
    """Return a theta under which the best arm leads by about `lead`, so that 20,000 rounds do not decide."""
    best = X[0]
    others = X[1:] @ best
    second = X[1 + int(np.argmax(others))]
    direction = best + second
    theta: Array = direction / np.linalg.norm(direction) * 0.5
    theta += lead * (best - second) / float((best - second) @ (best - second))
    return theta


@one_blas_thread
def run(rule: Evidence | GLR, arms: WhitenedArms, theta: Array, *, epsilon: float, seed: int) -> Measured:
    """Pull arms at random, updating and checking after every pull; keep going after a stop."""
    rng = np.random.default_rng(seed)
    pulls = rng.integers(arms.n_arms, size=N_ROUNDS)
    rows = arms.gather(pulls)
    rewards = (rows @ arms.theta_from_user(theta) + rng.standard_normal(N_ROUNDS)).tolist()
    state = rule.start(Task(arms=arms, candidates=arms, delta=0.05, given_noise_std=1.0, epsilon=epsilon, seed=0))
    assert isinstance(state, ScanState)
    estimate = LeastSquares(arms.dim, state.regularizers)
    decisions = np.zeros(N_ROUNDS, dtype=np.bool_)
    start = time.process_time()
    for t in range(N_ROUNDS):
        estimate.update(rows[t], rewards[t])
        decisions[t] = state.after_pull(estimate).stopped
    seconds = time.process_time() - start
    return Measured(1e6 * seconds / N_ROUNDS, state.n_scans, state.n_leader_passes, decisions)


def main() -> None:
    """Print the table."""
    tables = {n: unit_arms(n, seed=n) for n in (SMALL, LARGE)}
    arms = {n: whiten(FiniteArms(X)) for n, X in tables.items()}
    theta = {n: near_tie(X, lead=1e-3) for n, X in tables.items()}
    rules: dict[str, tuple[Evidence | GLR, float]] = {
        "evidence": (Evidence(elimination=False), 0.0),
        "evidence, epsilon=.05": (Evidence(elimination=False), 0.05),
        "paper-appendix": (GLR(threshold="paper-appendix", c=1.0, elimination=False), 0.0),
        "heuristic": (GLR(threshold="heuristic", elimination=False), 0.0),
    }
    print(f"lazy stopping check, d={DIM}, {N_ROUNDS} rounds, one BLAS thread; update of the estimate included")
    print("passes = full scans + passes that only look up the leader; last column: rounds decided differently")
    print(
        f"{'rule':24s}{'us K=1e3':>10s}{'us K=1e6':>10s}{'ratio':>7s}{'passes':>16s}{'full scan us':>14s}{'differ':>8s}"
    )
    for label, (rule, epsilon) in rules.items():
        small = run(rule, arms[SMALL], theta[SMALL], epsilon=epsilon, seed=1)
        large = run(rule, arms[LARGE], theta[LARGE], epsilon=epsilon, seed=1)
        full = run(replace(rule, full_scan=True), arms[SMALL], theta[SMALL], epsilon=epsilon, seed=1)
        passes = f"{small.n_scans}+{small.n_leader_passes}, {large.n_scans}+{large.n_leader_passes}"
        print(
            f"{label:24s}{small.us_per_round:10.1f}{large.us_per_round:10.1f}"
            f"{large.us_per_round / small.us_per_round:7.2f}{passes:>16s}{full.us_per_round:14.0f}"
            f"{int((small.decisions != full.decisions).sum()):8d}"
        )


if __name__ == "__main__":
    main()
