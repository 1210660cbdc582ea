"""The misfit margin of a result: worked out when somebody asks for it, from the learner's log."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from surepick.arms.views import Task
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.stopping.base import RuleState, Verdict
from surepick.stopping.betting import Betting

if TYPE_CHECKING:
    from surepick.learning.learner import Learner

# Numbers that a replay keeps, 160 MB.
MOST_NUMBERS = 20_000_000


@final
class Margin:
    """How far means may be off their linear fit for an answer to stand.

    Args:
        value: if it is known; None: not known, or nothing can be said.
        find: works it out, when it is first asked for.
    """

    def __init__(self, value: float | None = None, find: "Callable[[], float | None] | None" = None) -> None:
        self._value, self._find = value, find

    @property
    def value(self) -> float | None:
        """The margin; None if there is none."""
        if self._find is not None:
            self._value, self._find = self._find(), None  # what it was found from may go
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a number."""
        return Margin, (self.value,)


@final
class Recorder(RuleState):
    """A rule that decides nothing and keeps all blocks."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.blocks: list[Block] = []

    def after_block(self, estimate: LeastSquares, block: Block) -> None:
        """Keep the block."""
        self.blocks.append(block)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Nothing is decided."""
        return Verdict(threshold=np.inf)


def margin_of(learner: "Learner") -> Margin:
    """Return the margin of a learner's answer as it is now, which may go on learning; costs nothing yet.

    There is none without an answer by the betting rule on arms that follow features, nor with slack, several
    winners, or levels of noise that differ between arms.
    """
    task = learner.task
    is_plain = task.candidates is task.arms and task.epsilon == 0.0 and task.m == 1 and learner.noise == "same"
    is_sought = learner.stopped and learner.model == "linear" and is_plain
    if not (is_sought and isinstance(learner.rule, Betting)):
        return Margin()
    return Margin(find=partial(_found, learner.later_blocks(), learner.task, learner.rule, learner.lead()))


def _found(find: Callable[[], list[Block]], task: Task, rule: Betting, lead: float) -> float | None:
    blocks = find()
    n_each = sum(8 + len(np.unique(block.arms)) for block in blocks if block.arms is not None)
    if n_each * task.rivals.n_arms > MOST_NUMBERS:
        return None
    return rule.start(task).replay(blocks).margin(lead)
