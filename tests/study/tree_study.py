"""A study of four trees, in memory: what many tests begin with."""

from collections.abc import Callable
from typing import Any

import surepick as sp
from surepick.study.admin import create_study
from surepick.study.study import Study
from tests.study.kinds import NAMES, ROWS


def new(name: Any = "trees", **options: Any) -> Study:
    """A study of four trees in memory."""
    given: dict[str, Any] = {
        "arms": sp.FiniteArms(ROWS, names=NAMES),
        "noise_std": 0.2,
        "storage": "memory:",
        "author": "ann",
    }
    return create_study(name, **given | options)


def means(arm: int) -> float:
    """What an arm gives without noise."""
    return float(ROWS[arm] @ [0.7, 0.6])


def finish(study: Study, value: Callable[[int], float] = means, **how: Any) -> None:
    """Measure until it stops."""
    for _ in range(200):
        for ask in study.ask(4, **how):
            study.tell(ask.id, value(ask.arm), **how)
        if study.stopped:
            return
    raise AssertionError("it does not stop")


def kinds(study: Study) -> list[str]:
    """The kinds of its events."""
    return [event["kind"] for event in study.log]
