"""The options that all algorithms share, and the check of options by their annotations."""

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from surepick.arms.views import Task
from surepick.errors import InvalidInput
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.sampling.schedules import Schedule, ScheduleOption, as_schedule, schedule_for
from surepick.stopping import Stopping, as_rule
from surepick.stopping.base import Rule
from surepick.types import IntArray

Variant = Literal["practical", "paper"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of algorithms: the options that all share. None stands for the variant's own choice.

    A subclass adds its options as fields and a method `compose(task)`, which returns a sampler and a stopping rule.

    Args:
        variant: "practical", or "paper" for the algorithm as published.
        stopping: the stopping rule, a name or an object from `surepick.stopping`.
        schedule: when to look at results, for rules that decide between blocks.
        elimination: whether an alternative once refuted stays refuted, in the rule and, unless pulls are fixed in
            advance, in the sampling. Betting always eliminates.
    """

    plans_with_noise: ClassVar[bool] = False
    """Whether the sampler needs `noise_std`, under every stopping rule."""

    variant: Variant = "practical"
    stopping: Stopping | None = None
    schedule: ScheduleOption = None
    elimination: bool | None = False

    def __post_init__(self) -> None:
        for field in fields(self):
            check_kind(field.name, getattr(self, field.name), field.type)
        if self.schedule is not None:
            # Read now: an iterator of times could not be read again for a replay.
            object.__setattr__(self, "schedule", as_schedule(self.schedule))

    @property
    def is_paper(self) -> bool:
        """Whether the algorithm runs as published."""
        return self.variant == "paper"

    @property
    def is_own_rule(self) -> bool:
        """Whether the published rule decides."""
        return self.is_paper and self.stopping is None

    def own(self, given: T | None, *, practical: T, paper: T) -> T:
        """Return the value given, or the variant's own choice."""
        if given is not None:
            return given
        return paper if self.is_paper else practical

    def rule(self, usual: Stopping) -> Rule:
        """Return the rule of `stopping`, or the usual one."""
        return as_rule(self.stopping or usual, elimination=self.elimination)

    def rule_for_several(self, task: Task) -> Rule:
        """Return the rule of `stopping`, or betting for several arms; else evidence, which takes `epsilon` too."""
        return self.rule("betting" if task.m > 1 and task.epsilon == 0.0 else "evidence")

    def times(self, rule: Rule) -> Schedule:
        """Return the schedule given, or the one that suits the rule."""
        return schedule_for(rule, self.schedule)

    def first_arms(self, task: Task) -> IntArray:
        """Return the starting set: arms that span, or in the paper variant every arm once."""
        return np.arange(task.rows.n_arms) if self.is_paper else task.spanning

    def one_by_one(self, task: Task, chooser: Chooser, rule: Rule) -> tuple[StartThenChoose, Rule]:
        """Return the sampler that starts with a spanning set and leaves later arms to the chooser, and the rule."""
        first, least = self.first_arms(task), rule.min_block(task)
        return StartThenChoose(first, chooser, rule=rule, schedule=self.schedule, least=least), rule


def check_kind(option: str, value: object, annotation: Any) -> None:
    """Refuse a value that is none of the names allowed, or no bool where one is needed, such as "no"."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if value is None and NoneType in kinds:
        return
    if bool in kinds and not isinstance(value, bool):
        raise InvalidInput(f"`{option}` must be True or False, got {reprlib.repr(value)}.")
    if all(kind is NoneType or get_origin(kind) is Literal for kind in kinds):
        names = [name for kind in kinds for name in get_args(kind)]
        if not isinstance(value, str) or value not in names:
            raise InvalidInput(f"`{option}` must be one of {', '.join(map(repr, names))}, got {reprlib.repr(value)}.")


FLAGS = {
    "m": "supports_top_m",
    "costs": "takes_costs",
    "threshold": "takes_target",
    "control": "takes_target",
    "batch": "takes_batch",
    "goal": "plans_budget",
    "pool": "takes_pool",
}
"""The flag of an algorithm that says that it can do what an option asks for."""


def unsupported(algorithm: object, name: str, task: Task) -> str | None:
    """Return why an algorithm cannot do a task, and what to do; None if it can.

    An algorithm says what it can do by flags (`learning.snapshot.Algorithm`), and may have a method `unsupported(task)`
    of its own.
    """
    own = getattr(algorithm, "unsupported", lambda _: None)
    return next(_limits(algorithm, name, task), None) or own(task)


def _limits(algorithm: object, name: str, task: Task) -> Iterator[str]:
    def can(flag: str) -> bool:
        return bool(getattr(algorithm, flag, False))

    if task.given_noise_std is None and can("plans_with_noise"):
        yield (
            f"`noise_std` must be given: {name} plans with it. Or use another algorithm, such as "
            '"lazy-track-and-stop", which learns it.'
        )
    asked = {
        "m": task.m > 1 and not can("supports_top_m"),
        "costs": task.costs is not None and not can("takes_costs"),
        "threshold": task.target is not None and task.target.control is None and not can("takes_target"),
        "control": task.target is not None and task.target.control is not None and not can("takes_target"),
        "batch": task.batch is not None and not can("takes_batch"),
        "goal": task.spends_all and not (can("takes_batch") or can("plans_budget")),
        "pool": task.pool is not None and not can("takes_pool"),
    }
    for option in [option for option, is_too_much in asked.items() if is_too_much]:
        flag = FLAGS[option]
        is_own = not type(algorithm).__module__.startswith("surepick.")
        suited = '"lazy-track-and-stop"' + ' or "m-lingape"' * (option == "m")
        own = f", or set `{flag} = True` on the class if its sampler handles it" if is_own else ""
        yield f"`{option}` cannot be given to {name}, which plans without; use {suited}{own}."
    arms, candidates = task.arms, task.candidates
    if not (arms.is_enumerable or can("takes_vectors")):
        yield f'{name} needs a list of arms, got {arms.description}; use "lazy-track-and-stop".'
    if not arms.is_enumerable and (named := "batch" if task.batch else "goal" if task.spends_all else ""):
        yield f"`{named}` needs a list of arms, got {arms.description}, whose design fixes the blocks; leave it out."
    if candidates is not arms and not (candidates.is_enumerable or can("takes_vector_candidates")):
        yield (
            f'{name} needs a list of candidates, got {candidates.description}; use "g-static" or "uniform", with '
            'stopping="evidence".'
        )
