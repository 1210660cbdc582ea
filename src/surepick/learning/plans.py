"""Plans: which arms an interval has, from the sampler, within the budget.

When an interval opens, its arms are fixed, and are drawn one by one as they are asked for. They can be drawn at once,
so that they can be written down; and a plan that was written down, by another process or on another machine, can be
followed: the sampler then takes note of it.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, final

from surepick.arms.view import Task
from surepick.core.linalg import Array, one_blas_thread
from surepick.errors import InvalidInput
from surepick.sampling.protocol import Apportions, Follows, Sampler, Situation
from surepick.sampling.sub_blocks import SubBlocks
from surepick.stopping.protocol import Rule

LONGEST = 1_000_000
"""Asks of an interval whose arms are all drawn when it opens."""


class Plan(NamedTuple):
    """The asks of one interval."""

    first: int
    """Number of its first ask."""
    length: int
    arms: tuple[int, ...] = ()
    """By number, in order, if they were drawn at once."""
    n_parts: int = 1
    """Its arms are so many repetitions of one plan, one after the other."""
    is_last: bool = False
    """Whether the budget ends with it; it may be empty then."""


@final
class Plans:
    """Every interval so far, and what is left of the newest.

    Args:
        sampler: chooses arms.
        task: what the algorithm is composed for.
        rule: says how short an interval may be.
        costs: what a pull of each arm costs (K,); None: 1.
        budget: what may be spent on asks in all; None: anything.
    """

    def __init__(self, sampler: Sampler, task: Task, rule: Rule, costs: Array | None, budget: float | None) -> None:
        self._sampler = sampler
        self._behind: list[tuple[Situation, Plan]] = []  # plans that were followed and the sampler does not know yet
        self.has_ended = False
        """Whether the last interval that the budget allows is planned."""
        self.differs = False
        """Whether the last plan that was checked is another than the own one."""
        # Rules that judge results by the plan share their object with the sampler: it must not fall behind.
        self._is_read = not rule.takes_corrections
        self._costs, self._budget, self._least = costs, budget, rule.min_block(task)
        self._spent = 0.0  # what all asks so far cost
        self._left: deque[int] = deque()
        # Pulls when the last two intervals opened, and how the designs before wanted them apportioned.
        self._wanted: deque[tuple[int, Mapping[int, float]]] = deque(maxlen=2)

    def open(self, situation: Situation, first: int, *, draws: bool) -> Plan:
        """Plan the next interval, and draw all its arms if that is wanted or there is a budget."""
        length, arms = self._look(situation), list[int]()
        if self._budget is not None:
            arms = self._within_budget(length)
            length = len(arms)
        elif draws:
            if length > LONGEST:
                raise InvalidInput(
                    f"an interval that is written down can have {LONGEST:,} asks, got {length:,}; use another "
                    "algorithm, or a schedule with shorter intervals."
                )
            arms = [self.sampler.next() for _ in range(length)]
        n_parts = self.sampler.n_parts if isinstance(self.sampler, SubBlocks) else 1
        return self._noted(Plan(first, length, tuple(arms), n_parts, self.has_ended))

    def follow(self, situation: Situation, plan: Plan, *, checks: bool = False) -> None:
        """Take over a plan for the next interval, and see if it is the own one, if that is wanted."""
        if checks:
            length, own = self._look(situation), tuple([self.sampler.next() for _ in plan.arms])
            # A budget cuts intervals short, or lengthens the last.
            self.differs = own != plan.arms or (self._budget is None and length != plan.length)
        else:
            # A sampler solves a design at every opening. Who follows plans, from a log that is read or of others who
            # make them, need not wait for that until there is a plan to be made.
            self._behind.append((replace(situation, estimate=situation.estimate.snapshot()), plan))
            if self._is_read:
                self.catch_up()
        self.has_ended = plan.is_last
        self._noted(plan)

    @property
    def sampler(self) -> Sampler:
        """The sampler, which knows all plans so far."""
        if self._behind:
            self.catch_up()
        return self._sampler

    @one_blas_thread
    def catch_up(self) -> None:
        """Let the sampler know the plans that were followed."""
        behind, self._behind = self._behind, []
        for situation, plan in behind:
            self._look(situation)
            if isinstance(self._sampler, Follows):
                self._sampler.follow(plan.arms)
            else:
                for _ in plan.arms:
                    self._sampler.next()

    def next(self) -> int:
        """Return the next arm; beyond the end of an interval, what the sampler says."""
        return self._left.popleft() if self._left else self.sampler.next()

    def drop_rest(self) -> None:
        """Forget what is left of the newest interval."""
        self._left.clear()

    def spend(self, arm: int) -> None:
        """Take note of an ask of this arm."""
        self._spent += self.cost_of(arm)

    def cost_of(self, arm: int) -> float:
        """Return what a pull of the arm costs."""
        return 1.0 if self._costs is None else float(self._costs[arm])

    def wanted_before(self, n_pulls: int) -> Mapping[int, float]:
        """Return how designs wanted pulls apportioned when the newest interval opened of which anything is told."""
        self.catch_up()
        # An interval of which nothing is told has not begun: a log ends with what was told.
        begun = [wanted for n, wanted in self._wanted if n < n_pulls]
        return begun[-1] if begun else {}

    def _look(self, situation: Situation) -> int:
        if isinstance(self.sampler, Apportions):
            self._wanted.append((situation.n_pulls, self.sampler.planned()))
        return self.sampler.open(situation)

    def _noted(self, plan: Plan) -> Plan:
        if plan.length:
            self._left = deque(plan.arms)
        return plan

    def _within_budget(self, length: int) -> list[int]:
        """Draw the arms of an interval, as many as the budget allows; to its end if little would be left after them."""
        assert self._budget is not None
        whole = left = self._budget - self._spent
        drawn: list[int] = []
        while (price := self.cost_of(arm := self.sampler.next())) <= left:
            drawn.append(arm)
            left -= price
            # What would be too little for an interval of its own is spent in this one: bets are on whole intervals.
            if len(drawn) >= length and left >= self._least * (whole - left) / len(drawn):
                return drawn
        self.has_ended = True
        return drawn
