"""Groups: what offsets of days and benches cost, what ignoring them does, and a count of errors.

Run `python -m benchmarks groups`, or a part: `python -m benchmarks.groups {pulls,gate} [runs]`; `pulls 200 ignored` has
the runs without offsets and those that ignore them. Numbers go to benchmarks/results/groups.json, where others stay.
"""

import itertools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.core.betting.block import Block
from surepick.core.betting.wealth import Wealth
from surepick.core.estimate import LeastSquares
from surepick.core.groups import OffsetLeastSquares
from surepick.core.noise import residuals
from surepick.learning.learner import Learner
from surepick.learning.spec import EDITION
from surepick.types import Array, BoolArray, IntArray

SEED = 3200
RESULTS = Path(__file__).parent / "results" / "groups.json"
FACTORS = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
INSTANCES: Mapping[str, tuple[Array, Array]] = {
    "basis5": (np.eye(5), np.array([1.0, 0.7, 0.6, 0.5, 0.4])),
    "2^4": (np.c_[np.ones(16), FACTORS], np.array([0.0, 0.12, 0.12, 0.12, 0.12])),
}
OFFSET_SD = 2.0
MOST_PULLS = 20_000

# ---- pulls

Way = Literal["no offsets", "pairs", "ignored"]
CASES: tuple[tuple[Way, int], ...] = (("no offsets", 1), ("pairs", 4), ("pairs", 12), ("ignored", 12))


def run(instance: str, way: Way, size: int, seed: int, noise_std: float | None = 1.0) -> tuple[int, bool]:
    """Return the pulls until the verdict, with groups of this size, and whether the answer is wrong."""
    X, theta = INSTANCES[instance]
    means, rng = X @ theta, np.random.default_rng([SEED, seed])
    learner = Learner(
        "lazy-track-and-stop", X, groups="offset" if way == "pairs" else "watch", noise_std=noise_std, seed=seed
    )
    group = 0
    while not learner.stopped and learner.estimate.n_pulls < MOST_PULLS:
        offset = 0.0 if way == "no offsets" else OFFSET_SD * rng.standard_normal()
        label = f"day {group}" if way == "pairs" else None
        for arm in learner.next_arms(1 if way == "no offsets" else size, group=label):
            learner.tell(arm, float(means[arm] + offset + rng.standard_normal()))
        group += 1
    return learner.decision.n_pulls, bool(means[learner.decision.best] < means.max())


def pulls(n_runs: str = "200", *ways: str) -> None:
    """Print pulls with pairs beside those without offsets, and those where offsets are ignored, or some of these."""
    print(f"\ngroups with offsets N(0, {OFFSET_SD:g}^2), noise 1, delta = 0.05, {n_runs} runs, seeds from 0")
    print(f"{'':10s}{'noise':>9s}{'size':>6s}{'way':>12s}{'pulls':>16s}{'ratio':>14s}{'wrong':>7s}")
    rows: list[dict[str, Any]] = _kept().get("pulls", [])
    for noise_std, instance in itertools.product((1.0, None), INSTANCES):
        plain = np.array([])
        for way, size in CASES:
            if ways and way not in ("no offsets", *ways):
                continue
            found = [run(instance, way, size, seed, noise_std) for seed in range(int(n_runs))]
            n_pulls = np.array([one for one, _ in found])
            plain = n_pulls if way == "no offsets" else plain
            row = _row(instance, noise_std, way, size, n_pulls, plain, sum(is_wrong for _, is_wrong in found))
            rows = [one for one in rows if _place(one) != _place(row)]
            _keep("pulls", rows := sorted([*rows, row], key=_place))
            noise = "known" if noise_std else "learnt"
            said = f"{row['mean']:.0f} +-{row['se']:.0f}", f"{row['ratio']:.2f} +-{row['ratio_se']:.2f}"
            print(
                f"{instance:10s}{noise:>9s}{size:6d}{way:>12s}{said[0]:>16s}{said[1]:>14s}{row['wrong']:7d}", flush=True
            )


def _place(row: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """Return where a row stands in the table."""
    return row["noise_std"] is None, row["instance"] != "basis5", CASES.index((row["way"], row["size"]))


def _row(
    instance: str, noise_std: float | None, way: Way, size: int, n_pulls: IntArray, plain: IntArray, n_wrong: int
) -> dict[str, Any]:
    mean, base = float(n_pulls.mean()), float(plain.mean())
    se, base_se = (float(one.std(ddof=1) / len(one) ** 0.5) for one in (n_pulls, plain))
    ratio = mean / base
    return {
        "edition": EDITION,
        "instance": instance,
        "noise_std": noise_std,
        "way": way,
        "size": size,
        "runs": len(n_pulls),
        "mean": mean,
        "se": se,
        "ratio": ratio,
        "ratio_se": 0.0 if way == "no offsets" else ratio * float(np.hypot(se / mean, base_se / base)),
        "wrong": n_wrong,
    }


# ---- the count of errors

Case = Literal[
    "groups",
    "days of one arm",
    "label at random",
    "ignored",
    "one arm ignored",
    "label reacts",
    "day ends after a look",
]
DELTA, MEANS, GATE_PULLS = 0.3, np.array([0.0, 0.0, -0.3]), 600
BROKEN: tuple[Case, ...] = ("ignored", "one arm ignored", "label reacts", "day ends after a look")


def rejects_best(
    case: Case, rng: np.random.Generator, *, size: int = 4, noise_std: float | None = 1.0, sd: float = 3.0
) -> bool:
    """Return whether a run of 600 pulls ever rejects the first of two best arms; the third is 0.3 behind.

    Args:
        case: how groups come about; the last four break an assumption, and lose the guarantee.
        rng: what to draw from.
        size: results of a group.
        noise_std: as given to the rule; the noise has standard deviation 1.
        sd: standard deviation of the offsets.
    """
    arms = FiniteArms(np.eye(3))
    wealth = Wealth(arms, delta=DELTA, noise_std=noise_std, level=np.ones(3))
    allows = case not in ("ignored", "one arm ignored")
    past = OffsetLeastSquares(3, has_constant=True) if allows else LeastSquares(3)
    n = 0
    while n < GATE_PULLS and wealth.answer is None:
        length = max(12, round(0.08 * n))
        pulled = rng.permutation(np.arange(length) % 3)
        if case in ("days of one arm", "one arm ignored"):
            pulled = _nearly_sorted(pulled, rng)
        group = (n + np.arange(length)) // size
        rewards = MEANS[pulled] + rng.standard_normal(length)
        if case == "label at random":
            group = rng.integers(0, max(2, length // size), length) + 10 * n
        if case == "label reacts":  # the label follows the value, and nothing was wrong with the results
            group = ((pulled == 0) & (rewards > 0.0)).astype(np.int64)
        elif case == "day ends after a look":
            group = _days_that_end(np.where(pulled == 0, rewards, -rewards) > 0.0) + 10 * n
        else:
            rewards = rewards + sd * rng.standard_normal(int(group.max()) + 1)[group]
        _settle(wealth, past, arms.gather(pulled), rewards, group[:, None] if allows else None)
        n += length
        if wealth.log_rejection()[0] >= wealth.log_price:
            return True
    return False


def _days_that_end(speaks_for_best: BoolArray) -> IntArray:
    """Return the day of each ask, said with the ask: two a day, or one if its result speaks for the first arm."""
    days, n = list[int](), 0
    while n < len(speaks_for_best):
        days += [n] * (1 if speaks_for_best[n] else 2)
        n = len(days)
    return np.array(days[: len(speaks_for_best)])


def _nearly_sorted(pulled: IntArray, rng: np.random.Generator) -> IntArray:
    """Return pulls of one arm after the other, in a random order of the arms, with two of them exchanged."""
    order = rng.permutation(3)
    found = np.concatenate([pulled[pulled == arm] for arm in order])
    i, j = rng.choice(len(found), 2, replace=False)
    found[[i, j]] = found[[j, i]]
    return found


def _settle(wealth: Wealth, past: LeastSquares, X: Array, rewards: Array, groups: IntArray | None) -> None:
    if past.has_theta:
        left = residuals(past) if wealth.noise_std is None else None
        wealth.settle(Block.of(X, rewards, past.theta, past.A_inv.copy(), left, groups=groups))
    if isinstance(past, OffsetLeastSquares):
        assert groups is not None
        past.update_all(X, rewards, groups)
    else:
        past.update_many(X, rewards)


def gate(n_paths: str = "4000") -> list[dict[str, Any]]:
    """Print how often the true best is rejected at delta = 0.3, beside variants that break an assumption."""
    print(
        f"\ntrue best rejected, delta = {DELTA}, {n_paths} paths of {GATE_PULLS} pulls; broken variants may exceed it"
    )
    cases: list[tuple[Case, int]] = [("groups", 2), ("groups", 4), ("groups", 7), ("days of one arm", 4)]
    cases += [("label at random", 4), ("ignored", 2), ("ignored", 4), ("one arm ignored", 4), ("label reacts", 4)]
    cases += [("day ends after a look", 2)]
    rows: list[dict[str, Any]] = []
    for noise_std, (case, size) in itertools.product((1.0, None), cases):
        found = [
            rejects_best(case, np.random.default_rng([SEED, path]), size=size, noise_std=noise_std)
            for path in range(int(n_paths))
        ]
        share = float(np.mean(found))
        se = (share * (1.0 - share) / len(found)) ** 0.5
        row = {"case": case, "size": size, "noise_std": noise_std, "paths": len(found)}
        rows.append({**row, "rejected": share, "se": se})
        _keep("gate", rows)
        known = "known" if noise_std else "learnt"
        print(
            f"{case:18s}{size:4d}{known:>9s}{share:8.3f} +-{se:.3f}{'  broken' if case in BROKEN else ''}", flush=True
        )
    return rows


def _keep(name: str, rows: list[dict[str, Any]]) -> None:
    """Write the numbers of a part, those of others stay."""
    RESULTS.write_text(json.dumps({**_kept(), name: rows}, indent=1) + "\n")


def _kept() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


PARTS: Mapping[str, Callable[..., object]] = {"pulls": pulls, "gate": gate}


def main() -> None:
    """Run all parts."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    if sys.argv[1:2]:
        PARTS[sys.argv[1]](*sys.argv[2:])
    else:
        main()
