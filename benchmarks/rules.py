"""The rules and the misfit watch alone, counted on many thousands of paths: the long form of the tests.

Run `make bench ARGS=rules`, or `python -m benchmarks.rules [paths]`; with 40,000 paths about ten minutes of CPU.

Instances, samplers and limits are those of `tests.statistical`: near-ties at delta = .3 and sampling that tries to
mislead; for the watch a model that holds and blocks that serve it. A limit is exact binomial: a rule that errs as often
as it may exceeds it once in a million. On 40,000 paths one that errs with probability .32 instead of .3 is found out.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import product

from benchmarks.pulls import in_parallel
from surepick.core.evidence import Mixture
from tests.statistical.alarms import ALPHAS, false_alarms
from tests.statistical.paths import (
    BETTING_CASES,
    BETWEEN_FOUR,
    BETWEEN_TWO,
    DELTA,
    HORIZON,
    N_BLOCKS,
    THREE_MEANS,
    Blocks,
    Instance,
    Rule,
    Sampler,
    error_limit,
    errors_of,
    evidence_rule,
    pairwise_rule,
    proved_rules,
)

N_PATHS, AT_ONCE = 40_000, 1000
SAMPLERS: tuple[Sampler, ...] = ("challenger", "spite")
SLACK = 0.02
SCANNED: Mapping[str, tuple[Instance, Callable[[Instance], dict[str, Rule]], float]] = {
    "between two": (BETWEEN_TWO, proved_rules, 0.0),
    "between four": (BETWEEN_FOUR, proved_rules, 0.0),
    "three means": (THREE_MEANS, lambda _: {f"pairwise {k:g}": pairwise_rule(kappa=k) for k in (4.0, 16.0)}, 0.0),
    "slack": (Instance.arc(lead=0.025), lambda _: {"evidence": evidence_rule(Mixture.default(), epsilon=SLACK)}, SLACK),
}
"""Where rules that look after every pull are counted, which, and their slack."""


def scanned(job: tuple[str, Sampler], batch: int) -> tuple[int, ...]:
    """Return the errors of the rules."""
    instance, rules, epsilon = SCANNED[job[0]]
    errors = errors_of(
        instance, job[1], rules(instance), horizon=HORIZON, seed=1100 + batch, epsilon=epsilon, n_paths=AT_ONCE
    )
    return tuple(errors.values())


def bet(job: tuple[int, Sampler], batch: int) -> tuple[int]:
    """Return the errors of the betting rule."""
    instance, epsilon = BETTING_CASES[job[0]]
    blocks = Blocks(instance, job[1], seed=1500 + batch, epsilon=epsilon, n_paths=AT_ONCE)
    blocks.run(n_blocks=N_BLOCKS)
    return (int(blocks.has_lied.sum()),)


def watched(noise_std: float | None, batch: int) -> tuple[int, ...]:
    """Return the false alarms of the misfit watch."""
    return tuple(false_alarms(noise_std, n_paths=AT_ONCE, seed=3100 + batch).values())


def main(n_paths: int = N_PATHS) -> None:
    """Print errors and false alarms beside their limits."""
    n_batches = -(-n_paths // AT_ONCE)
    n = n_batches * AT_ONCE
    print(f"errors on {n} paths, delta {DELTA:g}, limit {error_limit(n)}")
    found = in_parallel(scanned, [*product(SCANNED, SAMPLERS)], n_batches)
    for (name, sampler), counts in found.items():
        instance, rules, _ = SCANNED[name]
        for rule, errors in zip(rules(instance), counts, strict=True):
            print(f"{name:16s}{sampler:12s}{rule:24s}{errors.sum():8.0f}", flush=True)
    found = in_parallel(bet, [*product(range(len(BETTING_CASES)), SAMPLERS)], n_batches)
    for (case, sampler), counts in found.items():
        print(f"{f'bets, case {case}':16s}{sampler:12s}{'betting':24s}{counts.sum():8.0f}", flush=True)
    limits = ", ".join(f"{error_limit(n, alpha)} at {alpha:g}" for alpha in ALPHAS)
    print(f"\nfalse alarms of the misfit watch on {n} paths, limits {limits}")
    for noise_std, counts in in_parallel(watched, [1.0, None], n_batches).items():
        told = "noise unknown" if noise_std is None else "noise known"
        print(f"{told:52s}" + "".join(f"{alarms.sum():8.0f}" for alarms in counts), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
