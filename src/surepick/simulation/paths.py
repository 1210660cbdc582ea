"""Evidence paths: a run of a cell done once more, looking at its evidence on the way."""

import math
from typing import NamedTuple

from surepick.learning.learner import Learner
from surepick.simulation.experiment import Cell
from surepick.simulation.one_run import run_once
from surepick.simulation.sweep import job_of

GROWTH = 1.05
"""A look whenever the pulls have grown by this factor: looks cost a pass over the arms."""


class Look(NamedTuple):
    """Where a run stood."""

    n_pulls: int
    share: float
    """Evidence divided by what the rule asks for; 1 or more at the stop."""


def evidence_path(cell: Cell, run: int = 0) -> list[Look]:
    """Return the evidence of this run from its first estimate to its end; the run is the one in the table."""
    looks: list[Look] = []
    due = 1.0

    def watch(learner: Learner, _arm: object) -> None:
        nonlocal due
        n_pulls = learner.estimate.n_pulls
        if n_pulls < due and not learner.stopped:
            return
        due = GROWTH * n_pulls
        decision = learner.decision
        share = decision.evidence / decision.target
        if math.isfinite(share):
            looks.append(Look(n_pulls, share))

    run_once(job_of(cell), run, watch)
    return looks
