"""Spec: every option of a task, declared once.

`identify`, `Learner`, `create_study`, `plan`, the command line and study.toml take their options from here: names,
types, defaults, checks, help, flags, what logs keep, and what the identity of a learner says. To add an option, add a
field to `Spec` with its paragraph, and a line to `TaskOptions`.

This module loads no mathematics: `surepick --help` reads it.
"""

# ruff: noqa: RUF009 - `_declared` returns a field

import inspect
import re
import reprlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, final, get_args

from surepick.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from surepick.algorithms.options import Variant
    from surepick.learning.groups import GroupLabel
    from surepick.learning.noise_models import NoiseModel
    from surepick.sampling.schedules import ScheduleOption
    from surepick.stopping import Stopping
    from surepick.types import Array

NoiseName = Literal["same", "per-arm", "symmetric", "any"]
"""What `noise=` may be beside a `NoiseModel`: the table of models with a name, which `noise_models.NAMED` follows."""
ModelName = Literal["linear", "unstructured"]
Earlier = Literal["guidance", "evidence"]
Goal = Literal["confidence", "fixed-budget"]
MOST_ITEMS = 1_000_000
"""Largest pool."""
Groups = Literal["watch", "offset"]
EDITION = 2
"""Edition of new learners and studies. A log whose identity names no edition is one of edition 1.

Edition 2 asks for the arms of a block in random order, by the seed and the number of its first ask
(`learning.blocks.shuffled`)."""
CallsName = Literal["all", "fdr"]
F = TypeVar("F", bound=Callable[..., Any])


class TaskOptions(TypedDict, total=False):
    """The options of a task as keywords, for type checkers; `Spec` says what they are."""

    delta: float
    noise_std: "float | ArrayLike | None"
    noise: "NoiseName | NoiseModel"
    reward_range: tuple[float, float] | None
    rewards: Literal["binary"] | None
    model: ModelName
    epsilon: float
    misfit: float
    drift: float
    m: int
    threshold: float | None
    control: str | int | None
    margin: float
    calls: "CallsName"
    costs: "ArrayLike | None"
    budget: float | None
    batch: int | None
    rounds: int | None
    goal: Goal
    pool: "int | Sequence[str] | None"
    seed: int
    earlier: Earlier
    groups: Groups
    edition: int
    # Options that all algorithms share. Give others to the algorithm: `Rage(constants="printed")`.
    variant: "Variant"
    stopping: "Stopping | None"
    schedule: "ScheduleOption"
    elimination: bool | None


@final
@dataclass(frozen=True)
class Option:
    """The declaration of an option beside its name, type and default."""

    help: str
    """One line, for the command line and for editors of study.toml."""
    check: Callable[[Any], Any] | None = None
    """Returns the value as it is used; raises `InvalidInput`."""
    in_identity: Literal["always", "if set", "never"] = "never"
    """Whether the identity of a learner says it."""
    in_log: Literal["always", "if set"] = "always"
    """Whether the first event of a study has it also at its default; options that came later are left out then."""
    in_plan: bool = False
    """Whether `plan` takes it. Simulated runs of a plan get it; the forecast is one for its default unless
    `planning.plan` reads it."""
    flag: str = ""
    """Name of the flag and of the key in study.toml, if not that of the option."""
    flag_type: Any = None
    """Type of the flag, if not that of the option."""
    file_type: Any = None
    """Type of the key in study.toml, if not that of the flag."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits of the key in study.toml, by the names of JSON Schema in pydantic."""


def _declared(default: Any, help_: str, check: Callable[[Any], Any] | None = None, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(help_, check, **more)})


def _check(function: str, *before: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a check of `core.checks`, which is loaded when it is first needed."""
    return lambda value: getattr(import_module("surepick.core.checks"), function)(*before, value, **more)


def _one_of(name: str, choices: tuple[str, ...], value: Any) -> Any:
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise InvalidInput(f"`{name}` must be {listed}, got {reprlib.repr(value)}.")
    return value


def _budget(value: Any) -> float | None:
    check = _check("check_number", "budget", needed="a positive number", allowed=lambda x: x > 0.0)
    return None if value is None else float(check(value))


def _optional_number(value: Any) -> float | None:
    return None if value is None else float(_check("check_number", "threshold", needed="a number")(value))


def _control(value: Any) -> str | int | None:
    if isinstance(value, bool) or not (value is None or isinstance(value, str) or hasattr(value, "__index__")):
        raise InvalidInput(f"`control` must be the name or the row number of an arm, got {reprlib.repr(value)}.")
    return value if value is None or isinstance(value, str) else int(value)


def _count_or_none(name: str, value: Any) -> int | None:
    return None if value is None else int(_check("check_count", name, least=1)(value))


def _pool(value: Any) -> int | tuple[str, ...] | None:
    """Return the number of items of a pool, or their names."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        needed = f"the number of items, 2 to {MOST_ITEMS:,}, or a list of their names"
        return int(_check("check_number", "pool", needed=needed, allowed=_is_size)(value))
    label = import_module("surepick.learning.groups").group_label
    names = tuple(dict(label(item=name))["item"] for name in value)
    if not (_is_size(len(names)) and len({*names}) == len(names)):
        raise InvalidInput(
            f"`pool` must have 2 to {MOST_ITEMS:,} items with different names, got {len(names)} of which "
            f"{len({*names})} differ; name each item once."
        )
    return names


def _is_size(n: float) -> bool:
    return 2 <= n <= MOST_ITEMS and n == int(n)


@final
@dataclass(frozen=True, kw_only=True)
class Spec:
    """A task without its arms: what is sought, at which risk, under which noise, and by which algorithm.

    Args:
        delta: largest accepted probability of a wrong answer.
        noise_std: leave it out for Gaussian noise with one level for all arms, which is then learnt on the way. Else a
            sub-Gaussian scale of the noise of one measurement, or an upper bound; a list of one for each arm, in the
            order of the arms, where some are noisier than others. The standard deviation alone is not enough where
            noise is skewed, as it is for rare failures among successes: give `reward_range` then.
        noise: where `noise_std` is left out, what is assumed instead: normal noise with the "same" level for all arms,
            or with one of its own for each: "per-arm"; or no more than that it is "symmetric" around 0 and independent
            from pull to pull, of any law, with heavy tails or not, another one for each arm. With these two
            blocks repeat one plan three or four times, for the default rule alone; the result has no intervals
            around its estimates, and the model is not watched. Or "any": nothing is assumed but that the noise does not
            depend on the arm; it may drift, depend on the noise before, and have heavy tails. All arms that are left
            take turns in random order, features are ignored, and the result has no intervals. Or a `NoiseModel`, such
            as one of your own.
        reward_range: (lo, hi) between which every reward lies, instead of `noise_std`: nothing else is assumed of the
            noise, and the betting rule pays by the variance that the rewards really have. A reward outside is refused.
            Other rules, and intervals, take (hi - lo)/2 for `noise_std`.
        rewards: "binary" for clicks: rewards are 0 or 1, False or True; the same as `reward_range=(0, 1)`.
        model: "linear", or "unstructured": one mean per arm, whatever the features say. Needs more pulls, and no model.
        epsilon: an answer that loses at most this to the best is right.
        misfit: how far the mean of every arm may be off its linear fit, in the unit of the rewards. The answer is the
            arm with the best mean then, whatever the fit says. For the betting rule on a list of arms, of which those
            with equal features count as one. It costs pulls, and a misfit of the size of the lead is never overcome.
            Rewards that contradict exactly linear means are reported then and withdraw nothing.
        drift: how far readings of one arm may drift apart within a block, in the unit of the rewards, beside a known
            `noise_std`. Between blocks they may drift in any way. Blocks are asked in random order: measure in this
            order. For the betting rule on a list of arms whose features hold a constant (or
            model="unstructured"); the result has no intervals. A drift of 0.3 noise_std costs 4.5 % more pulls.
        m: how many of the best to find; above 1 `result.best` is their list, the best first. For the default algorithm
            and static ones, with betting (without `epsilon`) or evidence.
        threshold: a value that arms should reach, such as 70: every arm is called met (its mean is above) or failed (it
            is below), and `result.best` is the list of those that meet it, the best estimate first. With an `epsilon`
            calls may be off by that much. For the default algorithm and its own rule.
        control: name or row number of an arm that the others are compared with, instead of a value: an arm is met if it
            is better than the control, failed if it is worse.
        margin: beside `control`, how much worse than the control an arm may be and still be met (non-inferiority).
        calls: what `delta` is about beside `threshold` or `control`. "all": the probability that any call is wrong.
            "fdr": the expected share of wrong calls, among the met and among the failed (false discovery rate); needs
            fewer pulls.
        costs: what a pull of each arm costs, in the order of the arms, if that differs: plans are then for the least
            total cost, and `result.cost` says it.
        budget: what may be spent, in pulls or in the unit of `costs`, history apart. The last block is planned to end
            on it. A result without a verdict says what is known: `survivors`, `p_value`, `epsilon_bound`.
        batch: pulls that are planned together, such as the 96 wells of a plate: every block has exactly this length.
            For algorithms that choose arm by arm, such as the default, on a list of arms.
        rounds: most batches; the experiment ends with the last one, decided or not. With `costs` it counts batches
            too, and costs only decide which arms are in them.
        goal: "confidence" stops as soon as the answer is proved. "fixed-budget" spends all of `budget` or of `rounds`,
            and then answers with the best estimate of all results: for measurements that are paid already. What is
            proved on the way neither ends nor changes the sampling. `stopped` says at the end whether the answer is
            proved; else `survivors`, `p_value` and `epsilon_bound` are. For algorithms that take a `batch`, and m = 1.
        pool: number of the items, or their names, if every arm has one fixed score on each item of a pool, such as
            prompts on a set of questions: the best has the largest mean over this pool. Items are asked in random
            order, each once, of all arms that are not excluded. Needs `reward_range` or `rewards`; features are not
            used. Asks name the item, and a function that measures gets it as a second argument.
        algorithm: its name, see `surepick.algorithms.names()`, or an object such as `surepick.algorithms.Rage()`.
        seed: of the random numbers that the algorithm draws. With `drift` and noise="any" a run that is given results
            of an earlier run needs another seed than that run, whose random orders it would repeat.
        earlier: what results are that were measured before the first ask. "guidance" (default): plans and bets rest on
            them, and no claim does, so arms and options may have been chosen after a look at them. The result has no
            intervals then, which would count them; rules that count every result, such as evidence, refuse them.
            "evidence": they count. Say so only if arms, candidates and every option were fixed before the first of
            these results was seen; each arm was chosen from results before it; none is left out; in the order of
            measuring (docs/guarantee.md, Theorem 6). The betting rule then starts its bets from their evidence, if all
            arms take turns in them (sorted by arm they save little).
        groups: what follows from the labels of measurements, such as the day or the bench. "watch" (default): labels
            are recorded, and a bench that reads high is named and contradicts the model. "offset": every day, bench or
            plate may read high or low by an amount of its own. Offsets are regressed out of every block, so no answer
            depends on them, and arms are measured in pairs. Every measurement needs its label then, the right one,
            chosen without a look at values. For the betting rule; the result has no intervals (docs/groups.md).
        edition: 1 asks for the arms that releases before edition 2 asked for, to repeat a run of theirs. Logs, studies
            and result files keep their edition by themselves.
        own: options of the algorithm, where it is given by name.
    """

    delta: float = _declared(
        0.05,
        "Accepted probability of a wrong answer.",
        _check("check_delta"),
        in_identity="always",
        in_plan=True,
        limits={"gt": 0, "lt": 1},
    )
    noise_std: "float | ArrayLike | None" = _declared(
        None,
        "Sub-Gaussian scale of one measurement's noise, or an upper bound: a number, or the column of the arms' file "
        "that has one for each arm. Without it the noise is taken for normal, and its level is learnt.",
        in_plan=True,
        flag_type=str,
        file_type=float | str,
    )
    noise: "NoiseName | NoiseModel" = _declared(
        "same",
        "Noise whose level is learnt: normal with the same level for all arms (default); with one for each arm: "
        "per-arm; of any law that is symmetric around 0: symmetric; of any law that does not depend on the "
        "arm: any.",
        in_plan=True,
        flag_type=NoiseName,
    )
    reward_range: tuple[float, float] | None = _declared(
        None,
        "Smallest and largest possible reward, instead of --noise-std.",
        in_plan=True,
        flag_type=tuple[float, float],
        file_type=list[float],
        limits={"min_length": 2, "max_length": 2},
    )
    rewards: Literal["binary"] | None = _declared(
        None, "Rewards are 0 or 1, such as clicks: --reward-range 0 1.", in_plan=True, flag="binary", flag_type=bool
    )
    model: ModelName = _declared(
        "linear",
        "linear (default): the mean reward is a weighted sum of the features; unstructured: ignore the features.",
        partial(_one_of, "model", get_args(ModelName)),
    )
    epsilon: float = _declared(
        0.0,
        "An answer that loses at most this is right (default 0).",
        _check("check_epsilon"),
        in_identity="always",
        in_plan=True,
        limits={"ge": 0},
    )
    misfit: float = _declared(
        0.0,
        "How far the mean of every arm may be off its linear fit (default 0).",
        _check("check_misfit"),
        in_identity="if set",
        limits={"ge": 0},
    )
    drift: float = _declared(
        0.0,
        "How far readings of one arm may drift apart within a block (default 0), beside --noise-std.",
        _check("check_number", "drift", needed="a number of at least 0", allowed=lambda x: 0.0 <= x <= 1e40),
        in_identity="if set",
        in_plan=True,
        limits={"ge": 0},
    )
    m: int = _declared(
        1,
        "How many of the best to find (default 1).",
        _check("check_count", "m", least=1),
        in_identity="if set",
        in_plan=True,
        limits={"ge": 1},
    )
    threshold: float | None = _declared(
        None,
        "Call every arm met or failed against this value, instead of looking for the best.",
        _optional_number,
        in_identity="if set",
        in_log="if set",
        flag_type=float,
        in_plan=True,
    )
    control: str | int | None = _declared(
        None,
        "Call every arm met or failed against this arm: a name or a row number.",
        _control,
        in_identity="if set",
        in_log="if set",
        flag_type=str,
        file_type=str | int,
        in_plan=True,
    )
    margin: float = _declared(
        0.0,
        "Beside --control: an arm that is at most this much worse is called met too (default 0).",
        _check("check_number", "margin", needed="a number of at least 0", allowed=lambda x: x >= 0.0),
        in_identity="if set",
        in_log="if set",
        limits={"ge": 0},
        in_plan=True,
    )
    calls: CallsName = _declared(
        "all",
        "Beside --threshold or --control: delta bounds the risk of any wrong call (all, the default), or the expected "
        "share of wrong calls (fdr).",
        partial(_one_of, "calls", get_args(CallsName)),
        in_identity="if set",
        in_log="if set",
        in_plan=True,
    )
    costs: "ArrayLike | None" = _declared(
        None, "Column of the arms' file with the cost of a pull of each arm.", in_plan=True, flag_type=str
    )
    budget: float | None = _declared(
        None, "Spend at most this: pulls, or cost beside --costs.", _budget, flag_type=float, in_identity="if set"
    )
    batch: int | None = _declared(
        None,
        "Plan this many pulls at a time, such as the 96 wells of a plate.",
        partial(_count_or_none, "batch"),
        in_identity="if set",
        in_log="if set",
        in_plan=True,
        flag_type=int,
        limits={"ge": 1},
    )
    rounds: int | None = _declared(
        None,
        "Measure at most this many batches, instead of --budget.",
        partial(_count_or_none, "rounds"),
        in_identity="if set",
        in_log="if set",
        in_plan=True,
        flag_type=int,
        limits={"ge": 1},
    )
    goal: Goal = _declared(
        "confidence",
        "Stop as soon as the answer is proved (confidence, the default), or spend all of --budget or --rounds and "
        "answer with the best estimate (fixed-budget).",
        partial(_one_of, "goal", get_args(Goal)),
        in_identity="if set",
        in_log="if set",
        flag_type=Goal,
    )
    pool: "int | Sequence[str] | None" = _declared(
        None,
        "Number of items, such as questions. Every arm has one fixed score on each item, and the best has the largest "
        "mean.",
        _pool,
        in_identity="if set",
        in_log="if set",
        flag_type=int,
        file_type=int | list[str],
    )
    algorithm: Any = _declared(
        "lazy-track-and-stop", "Which algorithm plans (default lazy-track-and-stop).", flag_type=str
    )
    seed: int = _declared(0, "Seed of everything random.", _check("check_seed"), in_plan=True)
    earlier: Earlier = _declared(
        "guidance",
        "How results from before the first ask are used. guidance (default): they guide plans and bets, and no claim "
        "rests on them. evidence: they count; choose this only if arms and options were fixed before the first of them "
        "was seen, each arm was chosen from results before it, none is left out, and their order is that of measuring.",
        partial(_one_of, "earlier", ("evidence", "guidance")),
    )
    groups: Groups = _declared(
        "watch",
        "How labels of measurements are used, such as the day or the bench. watch (default): a bench that "
        "reads high is named. offset: days, benches and plates may read high or low, and the answer does not depend on "
        "that.",
        partial(_one_of, "groups", get_args(Groups)),
        in_identity="if set",
        in_log="if set",
        in_plan=True,
    )
    edition: int = EDITION
    own: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, algorithm: Any = "lazy-track-and-stop", options: Mapping[str, Any] | None = None) -> "Spec":
        """Return the spec with these options, checked; those that are none of a task are the algorithm's.

        Raises:
            InvalidInput: a value cannot be used, or two of them contradict each other.
        """
        given: dict[str, Any] = {"algorithm": algorithm, **(options or {})}
        edition = _check("check_count", "edition", least=1)(given.pop("edition", EDITION))
        if edition > EDITION:
            raise InvalidInput(f"`edition` must be at most {EDITION}, got {edition}; use a later release of surepick.")
        own = {name: value for name, value in given.items() if name not in OPTIONS}
        checks = {name: option.check or (lambda value: value) for name, option in OPTIONS.items() if name in given}
        spec = cls(**{name: check(given[name]) for name, check in checks.items()}, edition=edition, own=own)
        model = spec.noise_model
        if model.is_repeated and spec.budget is not None:
            raise InvalidInput(f'`budget` is not supported with noise="{model.name}"; leave it out.')
        if why := next(spec._odd_rounds(), None):
            raise InvalidInput(why)
        if spec.has_offsets and spec.earlier == "evidence":
            raise InvalidInput('earlier="evidence" has no proof beside groups="offset"; use earlier="guidance".')
        if spec.has_offsets and model.bet is not None:
            raise InvalidInput(
                f'groups="offset" has no proof beside noise="{model.name}", which has bets of its own; use '
                'groups="watch".'
            )
        if model.ignores_features and spec.costs is not None:
            raise InvalidInput(f'`costs` are not supported with noise="{model.name}", which measures all arms in turn.')
        if why := next(spec._odd_targets(), None):
            raise InvalidInput(why)
        has_means = model.ignores_features or spec.pool is not None
        return replace(spec, model="unstructured") if has_means else spec

    def _odd_targets(self) -> Iterator[str]:
        """Yield why `threshold`, `control`, `margin` and `calls` do not go together."""
        if self.threshold is not None and self.control is not None:
            yield f"one of `threshold` and `control` is needed, got {self.threshold:g} and {self.control!r}; drop one."
        if self.margin and self.control is None:
            yield f"`margin` is how far an arm may be below a `control`, got {self.margin:g} without one; leave it out."
        if self.calls != "all" and self.threshold is None and self.control is None:
            yield f'calls="{self.calls}" goes with `threshold` or `control`, got neither; give one of them.'
        if self.earlier == "evidence" and (self.threshold is not None or self.control is not None):
            named = "threshold" if self.control is None else "control"
            yield f'earlier="evidence" has no proof beside `{named}`; leave it out: earlier results then guide plans.'
        bounds = self.noise_model.reward_range
        if self.threshold is not None and bounds is not None and not bounds[0] < self.threshold < bounds[1]:
            yield (
                f"`threshold` must be between the bounds of the rewards, {bounds[0]:g} and {bounds[1]:g}, got "
                f"{self.threshold:g}; means are never outside."
            )

    def _odd_rounds(self) -> Iterator[str]:
        """Yield why `batch`, `rounds` and `goal` do not go together, or not with other options."""
        if self.batch is not None and self.pool is not None:
            yield f"`batch` must be left out beside `pool`, got {self.batch}; a block is one item, for all arms left."
        if self.goal == "fixed-budget" and self.pool is not None:
            yield 'goal="fixed-budget" must be left out beside `pool`, which ends with its last item; give `budget`.'
        if self.rounds is not None and self.batch is None:
            yield f"`rounds` counts batches, got {self.rounds} without `batch`; give `batch`, such as 96."
        if self.batch is not None and self.budget is not None:
            yield f"`budget` must be left out beside `batch`, got {self.budget:g}; give `rounds`: batches stay whole."
        if self.batch is not None and self.noise_model.is_repeated:
            yield f'`batch` is not supported with noise="{self.noise_model.name}", which plans blocks; leave it out.'
        if self.batch is not None and self.own.get("schedule") is not None:
            yield f"`schedule` must be left out beside `batch`, got {self.own['schedule']!r}; batches are the schedule."
        if self.goal == "fixed-budget" and self.most_pulls is None:
            yield 'goal="fixed-budget" needs `budget`, or `batch` and `rounds`, got none; give one.'
        if self.goal == "fixed-budget" and self.m > 1:
            yield f'goal="fixed-budget" finds the best arm alone, got m = {self.m}; leave one of them out.'
        if self.goal == "fixed-budget" and (self.threshold is not None or self.control is not None):
            yield 'goal="fixed-budget" finds the best arm, got `threshold` or `control` too; leave one of them out.'

    @property
    def most_pulls(self) -> float | None:
        """The budget: as given, or that of all rounds in pulls; None: no limit."""
        return self.budget if self.batch is None or self.rounds is None else float(self.batch * self.rounds)

    @property
    def has_offsets(self) -> bool:
        """Whether groups of measurements may read high or low."""
        return self.groups == "offset"

    @property
    def n_items(self) -> int | None:
        """Items of the pool; None without one."""
        return len(self.pool) if isinstance(self.pool, tuple) else self.pool  # type: ignore[return-value]

    @cached_property
    def items(self) -> tuple[int | str, ...]:
        """Items of the pool in the order in which they are asked: numbers from 0, or names; none without a pool."""
        if self.n_items is None:
            return ()
        from surepick.sampling.pool import item_order  # noqa: PLC0415 - the mathematics of this file

        order = item_order(self.n_items, self.seed)
        return tuple(self.pool[item] for item in order) if isinstance(self.pool, tuple) else tuple(order)

    def item_of(self, label: "GroupLabel") -> int | str | None:
        """Return the item that a label names, as the pool has it."""
        level = dict(label).get("item")
        return int(level) if level is not None and isinstance(self.pool, int) else level

    @cached_property
    def noise_model(self) -> "NoiseModel":
        """The assumption about the noise."""
        from surepick.learning.noise_models import Drifting, noise_model  # noqa: PLC0415 - the mathematics of this file

        model = noise_model(self.noise, self.noise_std, self.reward_range, self.rewards)
        return Drifting.beside(self.drift, model) if self.drift > 0.0 else model

    def identity(self, costs: "Array | None") -> str:
        """Return the part of the identity of a learner that tells this spec from others.

        `edition`, `earlier` and `seed` are left out, and stand behind it.

        Args:
            costs: of every arm (K,), checked.
        """
        said = []
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if name == "noise":
                said.append(self.noise_model.identity())
            elif name == "costs" and costs is not None:
                digest = import_module("surepick.core.linalg").row_digest([costs])
                said.append(f"costs=sha256 {digest.hex()}")
            elif name == "pool" and isinstance(value, tuple):
                said.append(f"pool=sha256 {sha256(repr(value).encode()).hexdigest()}")
            elif option.in_identity == "always" or (option.in_identity == "if set" and value != DEFAULTS[name]):
                said.append(f"{name}={value!r}")
        return ", ".join(said)


OPTIONS: Mapping[str, Option] = {
    each.name: each.metadata["option"] for each in fields(Spec) if "option" in each.metadata
}
"""By name."""
DEFAULTS: Mapping[str, Any] = {each.name: each.default for each in fields(Spec) if each.name in OPTIONS}
KEPT: Mapping[str, Any] = {**DEFAULTS, "edition": EDITION}
"""What the log of a new study keeps, but for options of the algorithm."""
IN_PLAN = tuple(name for name, option in OPTIONS.items() if option.in_plan)
"""Names of the options of a plan."""


def takes_options(function: F, names: Container[str] = OPTIONS) -> F:
    """Give a function of `**options` the signature and the docstring of all options of a task, or of some.

    Their paragraphs take the place of a docstring line "options: see `Spec`", but for those that the docstring has.
    """
    declared = inspect.signature(function)
    *first, last = declared.parameters.values()
    known: Container[str] = KEPT if names is OPTIONS else names
    kinds = {name: kind for name, kind in Spec.__annotations__.items() if name in known and name != "algorithm"}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=KEPT[name], annotation=kind)
        for name, kind in kinds.items()
    ]
    rest = [last.replace(annotation=Any)] if names is OPTIONS else []
    signature = declared.replace(parameters=[*first, *options, *rest])
    function.__signature__ = signature  # type: ignore[attr-defined]
    args = inspect.cleandoc(Spec.__doc__ or "").partition("Args:\n")[2].replace("    own: ", "    options: ")
    own = re.findall(r"^ {8}(\w+):", function.__doc__ or "", flags=re.M)[:-1]
    shown = {*kinds, *(["options"] if names is OPTIONS else [])} - {*own}
    paragraphs = [one for one in re.split(r"^(?=    \w)", args, flags=re.M) if one.strip().partition(":")[0] in shown]
    text = "".join(paragraphs).rstrip().replace("\n", "\n    ")
    function.__doc__ = re.sub(r" {8}options: see `Spec`.*", lambda _: f"    {text}", function.__doc__ or "")
    return function
