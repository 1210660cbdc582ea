"""A stopping rule of your own: a class of options, a class for its state, passed as an object.

    python examples/own_rule.py

The rule stops when every contrast with the leader is known to within `half_width`, for a leader right or wrong. The
precision of the gaps bounds no error probability, so the guarantee of the rule is "none".
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

import surepick as sp
from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares
from surepick.stopping import Rule, RuleState, Verdict
from surepick.types import Guarantee


@final
@dataclass(frozen=True, kw_only=True)
class Precision(Rule):
    """Stop when two standard errors of every contrast with the leader are at most `half_width`."""

    half_width: float
    name: str = "precision"
    guarantee: Guarantee = "none"

    def start(self, task: Task) -> "PrecisionState":
        """Return a fresh state."""
        return PrecisionState(task, self.half_width)


@final
class PrecisionState(RuleState):
    """The rule on one task; it checks after every pull."""

    decides_after_pulls = True

    def __init__(self, task: Task, half_width: float) -> None:
        super().__init__(task)
        self._half_width = half_width
        self._rows = task.candidates.gather(np.arange(task.candidates.n_arms))

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Check the rule."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Compare the widest contrast with `half_width`."""
        if not estimate.has_theta:
            return Verdict(threshold=1.0, unit="widths")
        leader = self.leader(estimate)
        contrasts = (self._rows[leader] - self._rows) @ estimate.factor()
        widest = 2.0 * self.task.noise_std * math.sqrt(float(np.square(contrasts).sum(axis=1).max()))
        reached = self._half_width / widest
        return Verdict(stopped=reached >= 1.0, leader=leader, statistic=reached, threshold=1.0, unit="widths")


def main() -> sp.Result:
    """Measure until every contrast is known to 0.5."""
    rng = np.random.default_rng(0)
    options, effects = np.array([[1.0, 0.0], [0.6, 0.5], [0.0, 1.0]]), np.array([1.0, 0.4])
    result = sp.identify(
        options,
        lambda row: float(options[row] @ effects + rng.standard_normal()),
        noise_std=1.0,
        algorithm=sp.algorithms.Rage(stopping=Precision(half_width=0.5)),
    )
    print(result.explain())
    return result


if __name__ == "__main__":
    main()
