"""Lazy stopping checks: cost per round at a thousand and at a million arms, and the passes they needed.

Run `python -m benchmarks.lazy_check`. CPU time of one process with one BLAS thread.
"""

import time
from dataclasses import dataclass

import numpy as np

from surepick.core.arms import FiniteArms
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, one_blas_thread
from surepick.rules.stopping import EvidenceRule, GLRRule, StoppingState

DIM = 20
N_ROUNDS = 20_000
SMALL, LARGE = 1_000, 1_000_000


@dataclass(frozen=True)
class Measured:
    """One simulated path."""

    us_per_round: float
    n_scans: int
    n_leader_passes: int
    decisions: Array


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
    theta = direction / np.linalg.norm(direction) * 0.5
    return theta + lead * (best - second) / float((best - second) @ (best - second))


@one_blas_thread
def run(rule: EvidenceRule | GLRRule, arms: FiniteArms, theta: Array, *, n_rounds: int, seed: int) -> Measured:
    """Pull arms at random, updating and checking after every pull; keep going after a stop."""
    rng = np.random.default_rng(seed)
    pulls = rng.integers(arms.n_arms, size=n_rounds)
    rows = arms.gather(pulls)
    rewards = (rows @ theta + rng.standard_normal(n_rounds)).tolist()
    estimate = LeastSquares(arms.dim, rule.regularizers(arms.dim))
    state = rule.start(arms)
    decisions = np.zeros(n_rounds)
    start = time.process_time()
    for t in range(n_rounds):
        estimate.update(rows[t], rewards[t])
        decisions[t] = state.check(estimate).stopped
    seconds = time.process_time() - start
    return Measured(1e6 * seconds / n_rounds, *_passes(state), decisions)


def _passes(state: StoppingState) -> tuple[int, int]:
    return getattr(state, "n_scans", 0), getattr(state, "n_leader_passes", 0)


def main() -> None:
    """Print the table."""
    arms = {n: FiniteArms(unit_arms(n, seed=n)) for n in (SMALL, LARGE)}
    theta = {n: near_tie(arms[n].X, lead=1e-3) for n in arms}
    print(f"lazy stopping check, d={DIM}, {N_ROUNDS} rounds, one BLAS thread; rank-one update included")
    print(f"{'rule':28s}{'us K=1e3':>10s}{'us K=1e6':>10s}{'ratio':>7s}  scans + leader passes   same as full scan")
    for label, options in {
        "evidence": {},
        "evidence, epsilon=.05": {"epsilon": 0.05},
    }.items():
        rule = EvidenceRule(delta=0.05, **options)
        small = run(rule, arms[SMALL], theta[SMALL], n_rounds=N_ROUNDS, seed=1)
        large = run(rule, arms[LARGE], theta[LARGE], n_rounds=N_ROUNDS, seed=1)
        full_rule = EvidenceRule(delta=0.05, full_scan=True, **options)
        full = run(full_rule, arms[SMALL], theta[SMALL], n_rounds=N_ROUNDS, seed=1)
        _report(label, small, large, full)
    for preset in ("paper-appendix", "heuristic"):
        rule_of = {f: GLRRule(threshold=preset, delta=0.05, c=1.0, full_scan=f) for f in (False, True)}
        small = run(rule_of[False], arms[SMALL], theta[SMALL], n_rounds=N_ROUNDS, seed=1)
        large = run(rule_of[False], arms[LARGE], theta[LARGE], n_rounds=N_ROUNDS, seed=1)
        full = run(rule_of[True], arms[SMALL], theta[SMALL], n_rounds=N_ROUNDS, seed=1)
        _report(preset, small, large, full)


def _report(label: str, small: Measured, large: Measured, full: Measured) -> None:
    same = "yes" if np.array_equal(small.decisions, full.decisions) else "NO"
    passes = f"{small.n_scans}+{small.n_leader_passes}, {large.n_scans}+{large.n_leader_passes}"
    print(
        f"{label:28s}{small.us_per_round:10.1f}{large.us_per_round:10.1f}"
        f"{large.us_per_round / small.us_per_round:7.2f}  {passes:22s}  {same} ({full.us_per_round:.0f} us)"
    )


if __name__ == "__main__":
    main()
