"""An algorithm of your own, by itself or beside the others in an experiment.

    python examples/own_algorithm.py
    surepick bench run examples/own_experiment.toml

An algorithm is a class whose arguments are its options and whose method `compose` returns two parts: a sampler, which
chooses arms, and a stopping rule. Here the sampler is new and the rule is the evidence rule of the package, whose
guarantee holds for every choice of arms: with any `open`, the answer is wrong with probability at most delta, and only
the number of pulls is yours to improve.

An experiment names the class by file: `plugin = "own_algorithm.py:HalfLeader"`. The file is sent to other processes and
machines as it stands, so it may import installed packages but not files beside it. A package can instead declare the
class as an entry point in the group `surepick.algorithms`; then its name works everywhere, in `surepick.identify` too.
"""

from dataclasses import dataclass

import numpy as np

import surepick as sp
from surepick.arms.views import Task
from surepick.sampling.base import Sampler, SamplerContext


@dataclass(frozen=True, kw_only=True)
class HalfLeader:
    """Pull the leader in a share of the pulls and any arm otherwise.

    Args:
        share: how often the leader is pulled.
    """

    share: float = 0.5

    def unsupported(self, task: Task) -> str | None:
        """Return why a task cannot be done; None if it can."""
        if task.candidates is not task.arms:
            return "HalfLeader pulls the leader: no `candidates`, and one noise_std for all arms."
        return None

    def compose(self, task: Task) -> tuple[Sampler, sp.stopping.Rule]:
        """Return the parts, made for these arms."""
        return HalfLeaderSampler(self.share, task), sp.stopping.Evidence()


class HalfLeaderSampler(Sampler):
    """Plans one pull at a time, from all results so far.

    The evidence rule reads every result. Under `sp.stopping.Betting()`, which bets on blocks, plan
    long blocks, as docs/extending.md explains.
    """

    def __init__(self, share: float, task: Task) -> None:
        self._share, self._n_arms = share, task.arms.n_arms
        self._start = task.spanning  # d arms that make theta estimable
        self._rng = np.random.default_rng(task.seed)  # equal seeds give equal pulls
        self._arm = 0

    def open(self, context: SamplerContext) -> int:
        """Choose the next arm and return how many pulls are planned."""
        if context.leader is None:
            self._arm = int(self._start[context.n_asked % len(self._start)])
        elif self._rng.random() < self._share:
            self._arm = context.leader
        else:
            self._arm = int(self._rng.integers(self._n_arms))
        return 1

    def next(self) -> int:
        """Return the arm chosen."""
        return self._arm


def main() -> None:
    """Find the best of three arms."""
    rng = np.random.default_rng(1)
    means = [0.2, 1.0, 0.4]
    learner = sp.create_learner(HalfLeader(), np.eye(3), delta=0.05, noise_std=0.5)
    while not learner.stopped:
        (arm,) = learner.next_arms()
        learner.tell(arm, means[arm] + 0.5 * rng.standard_normal())
    decision = learner.decision
    print(f"Arm {decision.best} is the best, says {decision.rule} after {decision.n_pulls} pulls: {learner.counts}.")


if __name__ == "__main__":
    main()
