"""A plan in sentences."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surepick.planning.forecast import MOST_PULLS

if TYPE_CHECKING:
    from surepick.planning.plan import Plan, Setting

EXTRA_BATCHES = 1.5
"""Batches that an experiment in batches takes beyond one that plans in the blocks of the default schedule: measured on
four problems with 3, 5 and 10 batches (benchmarks/rounds.py), an estimate."""


def sentences(plan: "Plan", setting: "Setting") -> Iterator[str]:
    """Yield the plan in sentences."""
    goal = f"to know {_sought(plan, setting)} with a risk of {plan.delta:g}"
    span = f"in 8 of 10 runs {two_digits(plan.low)} to {two_digits(plan.high)}"
    if plan.is_possible:
        yield f"About {two_digits(plan.pulls)} pulls {goal} ({span})."
    elif math.isfinite(plan.pulls):
        yield (f"Not possible within {MOST_PULLS:,} pulls: about {two_digits(plan.pulls)} are needed {goal} ({span}).")
    else:
        yield f"Not possible: arms are too close to each other, no number of pulls suffices {goal}."
    if len(setting.scenarios) > 1:
        least, most = plan.per_scenario.min(), plan.per_scenario.max()
        yield (
            f"The plan is for {len(setting.scenarios)} scenarios: they take {two_digits(least)} to "
            f"{two_digits(most)} pulls on average, and the number above is their median."
        )
    if setting.noisiest is not None:
        yield (
            "A gap does not say at which level the rewards are, so the plan takes the worst case for the noise: "
            f"half of them at each bound, a standard deviation of {setting.noisiest:g}. Rarer successes or "
            "failures are less noisy; `pilot` or `theta` says how rare they are."
        )
    if plan.cost is not None:
        yield f"They cost about {two_digits(plan.cost)}."
    if 1.0 <= plan.lower_bound < math.inf:
        at_cost = ""
        if plan.cost_lower_bound is not None:
            at_cost = f", nor with less than {two_digits(plan.cost_lower_bound)} of cost"
        yield f"No method can do with fewer than {two_digits(plan.lower_bound)} on average{at_cost}."
    if plan.far_share:
        yield (
            f"With these costs {100 * plan.far_share:.0f} % of the estimated lead will rest on arms far below the "
            "best. If means bend near the top, these arms do not show it: keep some pulls for the best two."
        )
    if setting.noise.needs_bets:
        yield (
            f'The forecast is for normal noise; with noise="{setting.noise.name}" runs may take several times as '
            "many pulls, and simulated runs show how many."
        )
    yield from _in_groups(setting)
    yield from _in_batches(plan, setting)
    yield from _alternatives(plan, setting)


def _sought(plan: "Plan", setting: "Setting") -> str:
    """Say what the experiment is to find."""
    n = f"{setting.arms.n_arms:,}"
    if (target := setting.target) is None:
        sought = "the best" if setting.m == 1 else f"the {setting.m} best"
        return f"{sought} of {n} arms" + (f", up to a loss of {plan.epsilon:g}," if plan.epsilon else "")
    against = f"meet {target.value:g}"
    if target.control is not None:
        names = getattr(setting.arms, "names", None)
        control = f"arm {target.control}" if names is None else names[target.control]
        against = f"are at most {-target.value:g} below {control}" if target.value else f"are better than {control}"
    return f"which of {n} arms {against}" + (f", up to {plan.epsilon:g}," if plan.epsilon else "")


def _in_groups(setting: "Setting") -> Iterator[str]:
    """Yield sentences on a drift, and on offsets of groups."""
    spec = setting.spec
    if spec.drift:
        more = 100.0 * (setting.spread - 1.0)
        yield f"A drift of {spec.drift:g} within a block takes {more:.2g} % more pulls."
    if spec.has_offsets:
        yield (
            "Groups may read high or low, and the plan is for large ones: groups of 4 pulls may take up to 4/3 times "
            "as many, groups of 12 up to 12/11 times."
        )


def _in_batches(plan: "Plan", setting: "Setting") -> Iterator[str]:
    """Yield sentences on batches and rounds."""
    batch, rounds = setting.spec.batch, setting.spec.rounds
    if batch is None:
        return
    if math.isfinite(plan.pulls):
        n = two_digits(math.ceil(plan.pulls / batch + EXTRA_BATCHES))
        yield f"In batches of {batch:,}, planned one after the other, expect about {n} batches."
    if rounds is None:
        return
    if (known := plan.by_rounds) is None:
        yield f"How often {rounds} batches decide needs the level of the rewards: give `theta` or `pilot`."
        return
    yield (
        f"With {rounds} of them ({batch * rounds:,} pulls) {100 * known.decided:.0f} % of {known.n_runs} simulated "
        f"runs prove their answer, and the answer at the end is right in {100 * known.right:.0f} % (estimates)."
    )


def _alternatives(plan: "Plan", setting: "Setting") -> Iterator[str]:
    """Yield sentences on the pulls for another slack or risk."""
    gap = float(f"{plan.gap:.1g}")
    if setting.m == 1 and not plan.epsilon and gap > 0.0:
        easier = plan.at(epsilon=gap)
        yield f"If the answer may lose {gap:g} (epsilon), about {two_digits(easier.pulls)}."
    if plan.is_possible:
        yield f"For a risk of {plan.delta / 10:g}, about {two_digits(plan.at(delta=0.1 * plan.delta).pulls)}."


def two_digits(value: float) -> str:
    """Return a number as text, to two digits."""
    if not math.isfinite(value):
        return "infinitely many"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"
