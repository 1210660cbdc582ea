"""Stopping rules by name, for any algorithm: the options all of them share, and what each name stands for.

* "betting" needs pulls in intervals fixed in advance; its price has neither dimension nor number of arms in it.
* "evidence" holds for any sampling, pull by pull.
* "pairwise" holds for any sampling of exactly d arms.
* "paper-main", "paper-appendix", "paper-remark": the likelihood-ratio rules of Jedra and Proutiere (2020).
* "heuristic" log((1 + log t)/delta) and "log-t" log((t + 1)/delta): not proved, common in published comparisons.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from surepick.core.checks import check_matrix
from surepick.core.design.generation import frame_of, spanning_arms
from surepick.core.linalg import Array, IntArray
from surepick.core.whitening import WhitenedArms
from surepick.errors import InvalidInput
from surepick.rules.betting_rule import BettingRule
from surepick.rules.every_pull import EveryPull
from surepick.rules.intervals import Chooser, StartThenChoose
from surepick.rules.parts import Ground, Rule
from surepick.rules.schedules import Schedule, as_schedule
from surepick.rules.stopping import EvidenceRule, GLRRule, PairwiseRule

Variant = Literal["practical", "paper"]
Stopping = Literal[
    "betting",
    "evidence",
    "pairwise",
    "paper-main",
    "paper-appendix",
    "paper-remark",
    "heuristic",
    "log-t",
    "mix-grid",
    "paper",
    "per-coordinate",
]
ScheduleOption = str | Iterable[int] | Schedule | None
PRESETS = ("paper-main", "paper-appendix", "paper-remark")
HEURISTICS = ("heuristic", "log-t")

USUAL_SCHEDULE = "geometric:1.15"


def check_variant(variant: str) -> bool:
    """Return whether the paper's own version is asked for."""
    if variant not in ("practical", "paper"):
        raise InvalidInput(f"`variant` must be 'practical' or 'paper', got {variant!r}.")
    return variant == "paper"


def is_distributed(ground: Ground) -> bool:
    """Return whether the candidates are on a cluster, which sends summaries and not a number per arm."""
    return getattr(ground.candidates.arms, "is_distributed", False)


def spanning_start(ground: Ground) -> IntArray:
    """Return d arms of large volume, in increasing order: what a practical variant pulls first."""
    return spanning_arms(ground.arms, frame_of(ground.arms))


def stopping_rule(
    stopping: str,
    ground: Ground,
    *,
    start: IntArray,
    regularizer: Array | None = None,
    elimination: bool | None = False,
) -> Rule:
    """Return the named rule.

    Args:
        stopping: its name.
        ground: what the algorithm is composed for.
        start: the arms pulled first, from which the constant c of the paper's rules is taken.
        regularizer: V (d, d) of the evidence rule in the user's coordinates; None for the G-optimal information.
        elimination: an alternative once refuted stays refuted; the betting rule always does so. None: wherever the rule
            can say, and the arms are at hand to be marked.
    """
    arms = ground.arms
    if elimination is None:
        elimination = stopping != "pairwise" and not is_distributed(ground)
    if regularizer is not None and stopping != "evidence":
        raise InvalidInput(f'`regularizer` belongs to stopping="evidence", got stopping={stopping!r}.')
    if elimination and stopping == "pairwise":
        raise InvalidInput('`elimination` is not available with stopping="pairwise"; use "evidence" or "betting".')
    if stopping == "betting":
        return BettingRule(delta=ground.delta, noise_std=ground.noise_std, epsilon=ground.epsilon)
    if stopping == "evidence":
        white = None
        if regularizer is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused as a regulariser
                white = arms.map.T @ check_matrix("regularizer", regularizer) @ arms.map
        return EveryPull(
            EvidenceRule(
                delta=ground.delta,
                noise_std=ground.noise_std,
                epsilon=ground.epsilon,
                regularizer=white,
                elimination=elimination,
            )
        )
    if stopping == "pairwise":
        if ground.candidates is not arms:
            raise InvalidInput(
                'stopping="pairwise" compares the arms themselves and cannot be used with `candidates`; use '
                '"betting" or "evidence".'
            )
        return EveryPull(PairwiseRule(delta=ground.delta, noise_std=ground.noise_std, epsilon=ground.epsilon))
    if stopping in (*PRESETS, *HEURISTICS):
        return EveryPull(
            GLRRule(
                threshold=stopping,
                delta=ground.delta,
                noise_std=ground.noise_std,
                epsilon=ground.epsilon,
                c=_constant(stopping, arms, start),
                metric=arms.metric(),
                elimination=elimination,
            )
        )
    names = ", ".join(map(repr, ("betting", "evidence", "pairwise", *PRESETS, *HEURISTICS)))
    raise InvalidInput(f"`stopping` must be one of {names}, got {stopping!r}.")


def start_then_choose(
    start: Sequence[int] | IntArray, chooser: Chooser, *, stopping: str, schedule: ScheduleOption, dim: int
) -> StartThenChoose:
    """Return a sampler that looks as often as the rule can use: after every pull, or by schedule for betting.

    A block of fewer pulls than dimensions tells the betting rule little, so blocks have at least `dim`.
    """
    is_betting = stopping == "betting"
    if schedule is None and is_betting:
        schedule = USUAL_SCHEDULE
    times = None if schedule is None else as_schedule(schedule)
    return StartThenChoose([int(arm) for arm in start], chooser, schedule=times, least=dim if is_betting else 1)


def _constant(stopping: str, arms: WhitenedArms, start: IntArray) -> float | None:
    """The paper's c in the user's coordinates: lambda_min over the start, for the remark the largest squared norm."""
    if stopping in HEURISTICS:
        return None
    if stopping == "paper-remark":
        return float(arms.arms.top_quadratic(np.eye(arms.dim), 1)[1][0])
    rows = arms.arms.gather(start)
    return float(np.linalg.eigvalsh(rows.T @ rows)[0])
