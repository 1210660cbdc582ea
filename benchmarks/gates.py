"""How often the best is rejected at delta = 0.3, on 4,000 paths of each theorem, beside variants that break the proof.

    N   offsets of groups           three arms, offsets of three standard deviations; known and unknown noise
    O   drift in random order       three arms, three shapes of drift; sorted arms or a fixed cycle break it; random
                                    order without the variance of the drift is not proved
    S   any noise, in rounds        three arms, skewed, wild and rising noise; a fixed order breaks it
    T   calls against a target      16 arms, 0.01 below the target; a price without log K breaks it
    A   accounts of sets            four arms, the second and the third 0.02 apart, m = 2; bets for any member break it

Three arms: two are the best, the third is 0.3 behind; 600 pulls. Blocks grow by 15 %, those of T and A by 30 %. N, O
and S go in lock-step: what is drawn once for all paths (arms, labels) is fixed before the noise of a block, so that
every path keeps its guarantee. Bets and projections are the package's. Run `python -m benchmarks.gates [paths
[theorems [case]]]`; N, O and S take 20 s of CPU time, T and A two minutes. Figures go to benchmarks/results/gates.json;
those of the pool (P) are in benchmarks/results/pool.json.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy.stats import binom

from surepick.arms.finite import FiniteArms
from surepick.core.betting.bets import Residuals, log_returns, log_t_returns
from surepick.core.betting.block import Block
from surepick.core.betting.rounds import log_round_returns
from surepick.core.betting.sets import Accounts, Pairs, SetWealth
from surepick.core.betting.targets import MET, TargetWealth
from surepick.core.design.targets import Target
from surepick.core.groups import Offsets
from surepick.types import Array, BoolArray, IntArray

N_PATHS, DELTA, SEED, MOST = 4000, 0.3, 3201, 600
PRICE = -math.log(DELTA)
MEANS = np.array([0.0, 0.0, -0.3])
RESULTS = Path(__file__).parent / "results" / "gates.json"


class Drawn(NamedTuple):
    """A block of all paths."""

    arms: IntArray
    """Arm of each pull (n,)."""
    codes: IntArray | None
    """Group of each pull (n,), whose offsets are regressed out; None: the rule knows of no groups."""
    rewards: Array
    """(P, n)."""


Draw = Callable[[np.random.Generator, int, int, int], Drawn]
"""Draws a block: P paths, n pulls after the first t."""


def limit(n_paths: int) -> int:
    """Return the largest count that a rule which errs with probability delta exceeds once in a million times."""
    return int(binom.isf(1e-6, n_paths, DELTA))


def lengths() -> Iterator[tuple[int, int]]:
    """Yield the pulls before each block, and its length."""
    t = 0
    while t < MOST:
        n = 3 * max(4, round(0.05 * t))
        yield t, n
        t += n


# ---- N and O: blocks


def n_rejected(draw: Draw, n_paths: int, *, noise_std: float | None = 1.0, seed: int = SEED) -> int:
    """Count paths that ever reject the first arm, in lock-step.

    Args:
        draw: draws blocks.
        n_paths: number of paths.
        noise_std: as the rule knows it; None: unknown, bets by the residuals.
        seed: of all draws.
    """
    rng, rows = np.random.default_rng(seed), np.arange(n_paths)
    A, b, past = np.zeros((3, 3)), np.zeros((n_paths, 3)), Residuals(np.zeros(n_paths), 0)
    L, is_out = np.zeros((n_paths, 3)), np.zeros((n_paths, 3), dtype=bool)
    for t, n in lengths():
        arms, codes, rewards = draw(rng, n_paths, n, t)
        X, offsets = np.eye(3)[arms], None if codes is None else Offsets(codes[:, None])
        QX, Qr = (X, rewards) if offsets is None else (offsets.off(X), offsets.off(rewards.T).T)
        own, own_b = QX.T @ QX, Qr @ QX
        own_inverse, inverse = (np.linalg.pinv(one, rcond=1e-10, hermitian=True) for one in (own, A))
        said = own_b @ own_inverse
        rank = np.linalg.matrix_rank(own, tol=1e-9) + (0 if offsets is None else offsets.rank)
        block = Residuals(((Qr - said @ QX.T) ** 2).sum(axis=1), n - int(rank))
        if t and (noise_std or past.has_scale):
            theta = b @ inverse
            leader = np.argmax(np.where(is_out, -np.inf, theta), axis=1)
            for rival in range(3):
                y = np.eye(3)[leader] - np.eye(3)[rival]
                is_known = ((y - y @ own @ own_inverse) ** 2).sum(axis=1) < 1e-18
                is_known &= ((y - y @ A @ inverse) ** 2).sum(axis=1) < 1e-18
                at = np.flatnonzero(is_known & (leader != rival) & ~is_out[:, rival] & ~is_out[:, 0])
                q, before = (((y[at] @ one) * y[at]).sum(axis=1) for one in (own_inverse, inverse))
                z, m = (said * y).sum(axis=1)[at], np.maximum((theta * y).sum(axis=1)[at], 0.0)
                rest = PRICE - L[at, rival]
                if noise_std:
                    won = log_returns(z, noise_std**2 * q, m, noise_std**2 * before, rest)
                else:
                    seen, known = (Residuals(np.asarray(one.R)[at], one.nu) for one in (block, past))
                    won = log_t_returns(z, q, m, np.asarray(known.variance) * before, rest, seen, known)
                L[at, rival] += won
            is_over = is_out.sum(axis=1) >= 2
            is_out |= (L >= PRICE) & ~is_over[:, None] & (np.arange(3) != leader[:, None])
        A, b, past = A + own, b + own_b, Residuals(np.asarray(past.R + block.R), past.nu + block.nu)
    return int(is_out[rows, 0].sum())


def offsets(size: int, way: str = "", sd: float = 3.0) -> Draw:
    """Return blocks in groups of this size with offsets; ways: "one arm", "at random", and each "ignored"."""

    def drawn(rng: np.random.Generator, n_paths: int, n: int, _: int) -> Drawn:
        arms = rng.permutation(np.arange(n) % 3)
        if "one arm" in way:  # one arm after the other, with two results exchanged
            arms = np.argsort(rng.permutation(3))[np.sort(arms)]
            i, j = rng.choice(n, 2, replace=False)
            arms[[i, j]] = arms[[j, i]]
        codes = rng.integers(0, max(2, n // size), n) if "at random" in way else np.arange(n) // size
        shifts = sd * rng.standard_normal((n_paths, int(codes.max()) + 1))
        rewards = MEANS[arms] + shifts[:, codes] + rng.standard_normal((n_paths, n))
        return Drawn(arms, None if "ignored" in way else codes, rewards)

    return drawn


def no_offsets(rng: np.random.Generator, n_paths: int, n: int, _: int) -> Drawn:
    """Blocks without groups."""
    arms = rng.permutation(np.arange(n) % 3)
    return Drawn(arms, None, MEANS[arms] + rng.standard_normal((n_paths, n)))


Shape = Callable[[Array], Array]
SHAPES: dict[str, tuple[Shape, float]] = {
    "0.05 a pull": (lambda t: 0.05 * t, 0.05 * 89),
    "period 3, size 1": (lambda t: (t % 3 == 0).astype(np.float64), 1.0),
    "steps of 3": (lambda t: 3.0 * (t // 60), 6.0),
}
"""Drifts, and how far they range within a block of at most 90 pulls."""


def drift(shape: str, order: str = "random") -> Draw:
    """Return blocks with a drift; orders: random, sorted by arm, or a fixed cycle."""

    def drawn(rng: np.random.Generator, n_paths: int, n: int, t: int) -> Drawn:
        arms = np.sort(np.arange(n) % 3) if order == "sorted" else np.arange(1, n + 1) % 3
        shifts = SHAPES[shape][0](np.arange(t, t + n, dtype=np.float64))
        of_pulls = np.tile(shifts, (n_paths, 1))
        if order == "random":  # whether arms or moments are shuffled is the same
            of_pulls = rng.permuted(of_pulls, axis=1)
        return Drawn(arms, np.zeros(n, dtype=np.int64), MEANS[arms] + of_pulls + rng.standard_normal((n_paths, n)))

    return drawn


# ---- S: rounds


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int], int], Array]] = {
    "normal": lambda rng, size, _: rng.standard_normal(size),
    "t_2": lambda rng, size, _: rng.standard_t(2, size),
    "exponential": lambda rng, size, _: rng.exponential(size=size),
    "rising in a round": lambda rng, size, k: rng.standard_normal(size) + np.arange(size[1]) * 0.5 + math.sin(k / 10.0),
}


def n_rejected_in_rounds(noise: str, n_paths: int, *, is_random: bool = True, seed: int = SEED) -> int:
    """Count paths that ever reject the first arm, by rounds of all three; results of arms that are out are not used."""
    rng, rows = np.random.default_rng(seed), np.arange(n_paths)
    sums, S, Q = np.zeros((n_paths, 3)), *np.zeros((2, n_paths, 3, 3))
    L, is_out = np.zeros((n_paths, 3)), np.zeros((n_paths, 3), dtype=bool)
    for k in range(MOST // 3):
        e = NOISES[noise](rng, (n_paths, 3), k)
        r = MEANS + (rng.permuted(e, axis=1) if is_random else e)
        apart = r[:, :, None] - r[:, None]
        leader = np.argmax(np.where(is_out, -np.inf, sums), axis=1)
        for rival in range(3):
            at = rows[(leader != rival) & ~is_out[:, rival] & ~is_out[:, 0]]
            of = at, leader[at], rival
            L[at, rival] += log_round_returns(apart[of], S[of], Q[of], np.full(len(at), float(k)), PRICE - L[at, rival])
        is_over = is_out.sum(axis=1) >= 2
        is_out |= (L >= PRICE) & ~is_over[:, None] & (np.arange(3) != leader[:, None])
        sums, S, Q = sums + r, S + apart, Q + apart * apart
    return int(is_out[:, 0].sum())


# ---- T: calls, and A: accounts of sets


def is_called_met(path: int, calls: str, *, pays_for_arms: bool = True) -> bool:
    """Return whether one of 16 arms, all 0.01 below the target, is ever called met in 600 pulls of each."""
    rng, K = np.random.default_rng([SEED, path]), 16
    wealth = TargetWealth(
        FiniteArms(np.eye(K)), target=Target(0.5, None, "fdr" if calls == "fdr" else "all"), delta=DELTA, noise_std=1.0
    )
    if not pays_for_arms:
        wealth.n_rows = 1
    total, n = np.zeros(K), 0.0
    while n < MOST and wealth.answer is None:
        pulls = max(4.0, round(0.3 * n))
        b = pulls * 0.49 + math.sqrt(pulls) * rng.standard_normal(K)
        if n:
            wealth.settle(Block(pulls * np.eye(K), b - pulls * total / n, total / n, np.eye(K) / n))
        total, n = total + b, n + pulls
    return bool((wealth.calls == MET).any())


EDGE = np.array([0.8, 0.02, 0.0, -0.8])


def loses_the_two_best(path: int) -> bool:
    """Return whether every account with the two best of four is ever removed in 1,200 pulls of each arm."""
    rng, total, n = np.random.default_rng([SEED, path]), np.zeros(4), 0.0
    wealth = SetWealth(FiniteArms(np.eye(4)), m=2, delta=DELTA, noise_std=1.0, level=np.ones(4))
    while n < 2 * MOST and wealth.answer is None:
        pulls = max(12.0, round(0.3 * n))
        b = pulls * EDGE + math.sqrt(pulls) * rng.standard_normal(4)
        if n:
            wealth.settle(Block(pulls * np.eye(4), b - pulls * total / n, total / n, np.eye(4) / n))
        total, n = total + b, n + pulls
        if is_lost(wealth):
            return True
    return wealth.answer is not None and {*wealth.members(total)} != {0, 1}


def is_lost(wealth: SetWealth) -> bool:
    """Return whether no account is left that holds the first two of the candidates."""
    accounts = wealth._open  # noqa: SLF001 - what a rule shows says which candidates are left, not which sets
    return not (~accounts.inside[:, 2:].any(axis=1) & ~accounts.outside[:, :2].any(axis=1)).any()


def any_member(accounts: Accounts, team: IntArray) -> Pairs:
    """Broken: every member of the team with every s of I outside."""
    is_member: BoolArray = np.isin(np.arange(accounts.inside.shape[1]), team)
    account, s = np.nonzero(accounts.inside & ~is_member)
    return Pairs(np.repeat(account, len(team)), np.tile(team, len(account)), np.repeat(s, len(team)))


def n_lost(n_paths: int, *, is_broken: bool = False) -> int:
    """Count paths on which the two best are lost."""
    if not is_broken:
        return sum(map(loses_the_two_best, range(n_paths)))
    with mock.patch.object(Accounts, "pairs", any_member):
        return sum(map(loses_the_two_best, range(n_paths)))


# ---- table


def n_called_met(n_paths: int, calls: str, *, pays_for_arms: bool = True) -> int:
    """Count paths on which an arm below the target is called met."""
    return sum(is_called_met(path, calls, pays_for_arms=pays_for_arms) for path in range(n_paths))


class Case(NamedTuple):
    """A count of errors."""

    theorem: str
    name: str
    is_broken: bool
    count: Callable[[int], int]
    share: int = 1
    """Which part of the paths is enough: broken variants of T and A take as long as the rule."""


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for noise_std, known in ((1.0, "known"), (None, "learnt")):
        draws = {"no groups": no_offsets, **{f"groups of {size}": offsets(size) for size in (2, 4, 7)}}
        draws |= {"days of nearly one arm": offsets(4, "one arm"), "labels at random": offsets(4, "at random")}
        draws |= {"ignored": offsets(4, "ignored"), "days of nearly one arm, ignored": offsets(4, "one arm, ignored")}
        for name, draw in draws.items():
            count = partial(n_rejected, draw, noise_std=noise_std)
            yield Case("N", f"{name}, noise {known}", "ignored" in name, count)
    for shape, (_, rho) in SHAPES.items():
        proved = partial(n_rejected, drift(shape), noise_std=math.sqrt(1.0 + rho * rho / 2.0))
        yield Case("O", f"{shape}, random, with rho", is_broken=False, count=proved)
        for order in ("random", "sorted", "cycle"):
            yield Case("O", f"{shape}, {order}", order != "random", partial(n_rejected, drift(shape, order)))
    for noise in NOISES:
        yield Case("S", noise, is_broken=False, count=partial(n_rejected_in_rounds, noise))
    fixed = partial(n_rejected_in_rounds, "rising in a round", is_random=False)
    yield Case("S", "rising, fixed order", is_broken=True, count=fixed)
    for calls in ("all", "fdr"):
        yield Case("T", f"calls, {calls}", is_broken=False, count=partial(n_called_met, calls=calls))
    broken = partial(n_called_met, calls="all", pays_for_arms=False)
    yield Case("T", "calls, without log K", is_broken=True, count=broken, share=4)
    yield Case("A", "accounts of sets", is_broken=False, count=n_lost)
    yield Case("A", "bets for any member", is_broken=True, count=partial(n_lost, is_broken=True), share=4)


def main(n_paths: str = str(N_PATHS), theorems: str = "NOSTA", name: str = "") -> None:
    """Print a row for each case of these theorems with this in its name, and keep them beside the others."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    print(f"delta = {DELTA}, seed {SEED}; limit of {n_paths} paths: {limit(int(n_paths)) / int(n_paths):.3f}")
    for case in cases():
        if case.theorem not in theorems or name not in case.name:
            continue
        n = int(n_paths) // case.share
        share = case.count(n) / n
        row = {"theorem": case.theorem, "case": case.name, "broken": case.is_broken, "paths": n, "rejected": share}
        rows = [one for one in rows if (one["theorem"], one["case"]) != (case.theorem, case.name)]
        rows.append({**row, "se": round(math.sqrt(share * (1.0 - share) / n), 4), "limit": limit(n) / n})
        mark = "  broken" if case.is_broken else ""
        print(f"{case.theorem}  {case.name:45s}{share:.3f} +- {rows[-1]['se']:.3f}{mark}", flush=True)
        RESULTS.write_text(json.dumps({"seed": SEED, "delta": DELTA, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
