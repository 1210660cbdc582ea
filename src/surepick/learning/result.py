"""The result of an identification: the answer, how sure it is, and an estimate for every arm."""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np

from surepick.arms.base import Groups, duplicate_groups
from surepick.arms.views import ArmView, WhitenedArms
from surepick.core.noise import noise_estimate, noise_interval
from surepick.errors import InvalidInput
from surepick.learning import explain, result_file
from surepick.learning.estimates import Estimates, coefficient_margins, estimates_of, margins_of
from surepick.learning.events import History
from surepick.learning.margin import Margin, margin_of
from surepick.learning.model import ModelCheck
from surepick.learning.snapshot import Standing, p_value_of, standing_in
from surepick.types import Array, Guarantee, IntArray, data_frame

if TYPE_CHECKING:
    from surepick.learning.learner import Learner

SYMMETRIC_LAW = "is symmetric around 0, whatever its law, and independent of that of all others"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What an identification found. Nothing in it changes later. Defaults are for what nothing is known about.

    Estimates and intervals (`arms`, `candidates`, `theta`, `theta_margin`, `epsilon_bound`, `noise_std`,
    `noise_interval`) are of the results before the first ask that is still open, in the order of asks: a result that
    was asked for later counts once that ask is answered. Then delays may depend on values, as the betting rule allows.
    While these results do not span, estimates are of all results and there are no intervals. With one worker, and for
    rules that decide after every pull, nothing is left out. Counts and `measured` are always of all results.

    Attributes:
        best: row number of the answer, among the candidates if there were any, else among the arms, or the vector (d,)
            where arms are vectors; the leader so far if `stopped` is False; None before the pulled arms span the space.
            The list of the m best, the best first, if more than one is sought.
        best_name: its name, if it has one; the list of their names.
        m: how many of the best were sought.
        cost: what all pulls have cost; their number, if no costs were given.
        n_pulls: rewards known, those of `history` handed in included.
        counts: pulls per arm, by row number or vector (a tuple); arms never pulled are absent.
        stopped: whether the stopping rule has decided. If not, there is no guarantee yet.
        interrupted: whether Ctrl-C ended it.
        evidence: log e-value that `best` is right.
        target: the evidence at which the rule stops.
        p_value: against `best`, whenever one looks: with probability at most p it is wrong (loses more than epsilon)
            and this is ever p or less. It is exp(-evidence), at most 1, where evidence is a log e-value: for betting,
            pairwise, and the evidence rule if `noise_std` is given. NaN for others, and if the claim is doubtful or
            withdrawn.
        survivors: row numbers of the candidates not excluded, read-only: a confidence set for the best at 1 - delta, at
            all times together (with an epsilon: for one that loses at most that). The betting rule excludes candidates
            one by one, others nobody before they decide, and a claim that is doubtful or withdrawn nobody at all. None
            for sets whose arms cannot be listed, and in files of older versions.
        epsilon_bound: how much `best` can be losing at most, at confidence 1 - delta by the evidence rule; inf while
            nothing is known.
        expected_remaining: estimate of the pulls still needed; NaN when unknown, 0 when stopped.
        theta: estimated parameter (d,) in the features given, read-only; None before the pulled arms span the space.
        theta_margin: the true one is within this of it (d,), together with all intervals; inf where there are none.
        feature_names: what the entries of theta are called; None where they have no names.
        guarantee: state of the claim: `proved`, `published` or `heuristic`, by the rule that decides; `doubtful` if
            residuals speak against the normal noise of one level that it assumes (`noise_doubt`); `withdrawn` if the
            rewards contradict the model, or the noise level that was given; `none`.
        model: "linear" in the features, or "unstructured".
        model_check: "tested" by check pulls, "not contradicted" but hardly tested, "untestable" or "contradicted".
        misfit: what does not fit, in plain words, if the model is contradicted; else "".
        allowed_misfit: the `misfit` that was given: how far means may be off their linear fit. Above 0 a model that is
            contradicted is reported and no claim withdrawn, and there are no intervals, which rest on exact fits.
        n_undecidable: rivals that the allowed misfit hides, if `stopped` is False: no further pulls by such a plan
            would reject them.
        n_checks: check pulls made after the verdict.
        stopping: name of that rule.
        noise_law: what that rule assumes of the noise beside its scale, as the end of "the noise ...".
        noise_std: standard deviation of the rewards around the fit; NaN while there are too few. Where one was given
            for each arm, this and the interval are multiples of those: 1 if they are right.
        noise_interval: bounds on the true one, at confidence 1 - delta at all times together, for Gaussian noise.
        noise_doubt: what speaks against normal noise of one level, in plain words, where the claim assumes that; "" if
            nothing does.
        n_residuals: how many residuals the shape of the noise was looked at by; None where the claim assumes no shape,
            and in files of older versions.
        noise_contradicted: whether the rewards scatter more than `given_noise_std` allows; then the guarantee is void.
        coarseness: step of the readings, if the noise is learnt and smaller than that; else 0.
        repeated: whether results repeat each other to the last digit although the noise is learnt; the claim is
            withdrawn then.
        given_noise_std: the `noise_std` that was given, an array if there was one for each arm; None if it was left to
            be learnt.
        noise: "same" level for all arms; or "per-arm" or "symmetric": then nothing bounds the noise, and no interval is
            shown.
        reward_range: bounds of the rewards, if they were given; `given_noise_std` is half their distance then.
        earlier: whether results told before the first ask, if there are any, are "evidence", or "guidance" for plans
            and bets alone.
        delta, epsilon, algorithm, seed: as they were given.
        history: every (arm, reward) in order; hand it to the next `identify`, with the same arms and options, to go on
            exactly here. `history.log` has the asks, failures and corrections between them.
        arms: estimate and interval of every arm; of those pulled and the best where all cannot be listed.
        candidates: the same for every candidate, if they were given.
        arm_set: what the set is called if its arms are vectors, such as "the unit sphere in R^3"; else "".
        exact: whether the evidence is the set's own; else a lower bound on it, so that the stop came later at worst.
        path: how evidence grew: (pulls, evidence, target) for some times when the rule looked, in order.
        planned: share of the pulls before the last interval that designs wanted for each arm; empty without designs.
    """

    best: Any = None
    best_name: Any = None
    m: int = 1
    cost: float = math.nan
    n_pulls: int
    counts: Mapping[Any, int] = field(repr=False)
    stopped: bool = False
    interrupted: bool = False
    evidence: float = 0.0
    target: float
    p_value: float = math.nan
    survivors: IntArray | None = field(repr=False, default=None)
    epsilon_bound: float = math.inf
    expected_remaining: float = math.inf
    theta: Array | None = field(repr=False, default=None)
    theta_margin: Array | None = field(repr=False, default=None)
    feature_names: tuple[str, ...] | None = field(repr=False, default=None)
    guarantee: Guarantee = "none"
    model: str = "linear"
    model_check: ModelCheck = "untestable"
    misfit: str = ""
    allowed_misfit: float = 0.0
    n_undecidable: int = 0
    n_checks: int = 0
    stopping: str
    noise_law: str = "has no heavier tails than a normal law"
    noise_std: float = math.nan
    noise_interval: tuple[float, float] = (0.0, math.inf)
    noise_contradicted: bool = False
    coarseness: float = 0.0
    repeated: bool = False
    noise_doubt: str = ""
    n_residuals: int | None = None
    given_noise_std: float | Array | None = None
    noise: str = "same"
    reward_range: tuple[float, float] | None = None
    earlier: str = "evidence"
    delta: float
    epsilon: float
    algorithm: str
    seed: int
    history: History = field(repr=False)
    arms: Estimates = field(repr=False)
    candidates: Estimates | None = field(repr=False, default=None)
    arm_set: str = ""
    exact: bool = True
    path: tuple[tuple[int, float, float], ...] = field(repr=False, default=())
    planned: Mapping[Any, float] = field(repr=False, default_factory=dict)
    _margin: Margin = field(repr=False, default_factory=Margin)

    def __post_init__(self) -> None:
        for array in (self.theta, self.theta_margin, self.survivors):
            if array is not None:
                array.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by value, and too large to be a key

    def __str__(self) -> str:
        return self.explain()

    @property
    def compared(self) -> Estimates:
        """The table that has the answer: `candidates` if they were given, else `arms`."""
        return self.arms if self.candidates is None else self.candidates

    @property
    def n_until_verdict(self) -> int:
        """Pulls until the verdict; all so far, if there is none."""
        return self.path[-1][0] if self.stopped and self.path else self.n_pulls - self.n_checks

    @property
    def has_costs(self) -> bool:
        """Whether pulls had costs of their own."""
        return math.isfinite(self.cost) and self.cost != self.n_pulls

    @cached_property
    def standing(self) -> Standing:
        """The leader beside its closest rival, what stopping now would cost, and what is still to do."""
        return standing_in(self)

    @property
    def misfit_margin(self) -> float | None:
        """The largest distance of means from their linear fit at which the answer stands, all the same with 1 - delta.

        "If no mean is off its linear fit by more than this, the answer is the best arm" is wrong with probability at
        most delta, although the margin comes from the same results (docs/guarantee.md, Theorem 22). inf where the pulls
        compared the arms themselves and needed no model. None: no answer; a rule other than betting; slack;
        candidates apart from the arms; `model="unstructured"`; an answer that needed results told before the first
        ask; or a table of arms by bets that would fill more than 160 MB.

        Worked out when first asked for, also by `explain` and `save`: about as long as the learner needed.
        """
        return self._margin.value

    def explain(self) -> str:
        """Say in plain words which arm is best, how sure that is, and what it rests on."""
        return explain.explain(self)

    def to_columns(self, of: Literal["arms", "candidates"] = "arms") -> dict[str, Any]:
        """Return a table as columns of equal length, in the order of the rows that were given.

        Columns: `arm` (or `candidate`) row number; `name`, the row number as text where there are no names; `pulls`
        (arms only); `estimate` of the mean reward; `low` and `high`, which enclose all true means at all times with
        probability 1 - delta; `rank` by estimate, 1 for the largest; `measured`, the mean of the rewards, NaN if there
        are none (arms only); `behind`, what the estimate is below that of the leader (of several: the last), with
        `behind_low` and `behind_high` of the true distance (NaN in the table of arms if candidates are compared);
        `same_as`, if some rows have the same features and so cannot be told apart: the lowest row number that has those
        of this one. Without candidates both tables are the arms'.
        """
        if of not in ("arms", "candidates"):
            raise InvalidInput(f'`of` must be "arms" or "candidates", got {of!r}; pass one of these.')
        rows = self.arms if of == "arms" else self.compared
        is_arms = rows is self.arms
        arms = np.arange(len(rows)) if rows.listed is None else list(rows.listed)
        columns: dict[str, Any] = {"arm" if is_arms else "candidate": arms}
        columns["name"] = [str(arm) for arm in rows.keys] if rows.names is None else list(rows.names)
        if is_arms:
            columns["pulls"] = np.array([self.counts.get(arm, 0) for arm in rows.keys], dtype=np.int64)
        columns |= {"estimate": rows.estimate.copy(), "low": rows.low.copy(), "high": rows.high.copy()}
        columns["rank"] = rows.rank()
        if is_arms:
            means = self.measured()
            columns["measured"] = np.array([means.get(arm, math.nan) for arm in rows.keys], dtype=np.float64)
        behind, margin = self._behind(rows)
        columns |= {"behind": behind, "behind_low": behind - margin, "behind_high": behind + margin}
        if rows.alike:
            columns["same_as"] = np.arange(len(rows))
            for group in rows.alike:
                columns["same_as"][list(group)] = group[0]
        return columns

    def _behind(self, rows: Estimates) -> tuple[Array, Array]:
        """What the rows of a table are behind the leader, and how much that can be off; NaN if it is not among them."""
        if rows.margin is None or self.best is None:
            return np.full(len(rows), math.nan), np.full(len(rows), math.nan)
        last = self.best[-1] if self.m > 1 else self.best
        place = last if rows.listed is None else rows.listed.index(_key(last))
        return rows.estimate[place] - rows.estimate, rows.margin

    def measured(self) -> dict[Any, float]:
        """Return the mean reward of every arm that was measured."""
        sums: dict[Any, float] = {}
        for arm, reward in self.history:
            sums[arm] = sums.get(arm, 0.0) + reward
        return {arm: total / self.counts[arm] for arm, total in sums.items()}

    def to_frame(self, of: Literal["arms", "candidates"] = "arms") -> Any:
        """Return the table of `to_columns` as a pandas `DataFrame`, or as it is where pandas is not installed."""
        return data_frame(self.to_columns(of))

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        command: str | None = None,
        steps: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        """Write a page that anybody can open: one HTML file that needs nothing else, also to be printed.

        Verdict, leader against runner-up, all arms, coefficients, pictures, what the result rests on and how that was
        checked, how to do it again. Needs Jinja2 and matplotlib: `surepick[report]`.

        Args:
            path: where to; an earlier file of that name stays until the new one is complete.
            title: of the page.
            command: what to type to do it again, for results that a command made.
            steps: how to do it again, each in words and as code; default: by `identify` and `Result.load`.
        """
        from surepick.reporting.result_page import page_of, write_page  # noqa: PLC0415 - loads jinja2 and matplotlib

        write_page(page_of(self, title=title, command=command, steps=steps), result_file.target_of(path))

    def plot_estimates(self) -> Any:
        """Return a matplotlib `Figure`: the best 30 arms, or candidates, by their estimates, with intervals."""
        from surepick.reporting.result_page import estimates_figure  # noqa: PLC0415

        return estimates_figure(self)

    def plot_evidence(self) -> Any:
        """Return a matplotlib `Figure`: evidence over pulls, in percent of what the rule asks for."""
        from surepick.reporting.result_page import evidence_figure  # noqa: PLC0415

        return evidence_figure(self)

    def plot_fit(self) -> Any:
        """Return a matplotlib `Figure`: measured means against those fitted."""
        from surepick.reporting.result_page import fit_figure  # noqa: PLC0415

        return fit_figure(self)

    def plot_pulls(self) -> Any:
        """Return a matplotlib `Figure`: pulls of the 30 arms measured most, beside what the plan wanted."""
        from surepick.reporting.result_page import pulls_figure  # noqa: PLC0415

        return pulls_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and dicts that JSON can hold."""
        plain = result_file.plain
        values: dict[str, Any] = plain(self) | {"misfit_margin": plain(self.misfit_margin)}
        values |= {name: plain(sorted(getattr(self, name).items())) for name in ("counts", "planned")}
        return values | {"log": plain(self.history.log)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` described.

        Raises:
            InvalidInput: something is missing, or is not what `to_dict` writes.
        """
        try:
            return cls(**result_file.read_fields(values, cls))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"`values` must be what `to_dict` returned, but lacks what a result needs ({error!r}); use a copy."
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a JSON file, which `load` gives back bit for bit.

        The file appears whole or not at all: an earlier one of that name stays until the new one is complete.
        """
        result_file.write(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result written by `save`.

        Raises:
            InvalidInput: not such a file, or one that was cut off or changed.
        """
        content = result_file.read(path)
        try:
            return cls.from_dict(content)
        except InvalidInput as error:
            raise InvalidInput(
                f"{result_file.needed_of(path)}, but it lacks what a result needs ({error.__cause__!r}); use a copy."
            ) from error


def result_of(learner: "Learner", *, interrupted: bool = False) -> Result:
    """Return what a learner knows now."""
    decision, estimate = learner.decision, learner.bounding_estimate
    at: dict[str, Any] = {"delta": learner.delta, "noise_std": learner.bounding_noise_std}
    views = list(dict.fromkeys((learner.unscaled, learner.candidates)))
    listed = [_listed(view, learner, decision.best) for view in views]
    tables = [
        replace(estimates_of(view, estimate, only=only, **at), alike=_alike(view))
        for view, only in zip(views, listed, strict=True)
    ]
    theta = margin = None
    if decision.best is not None:
        theta, margin = (
            learner.measured_arms.theta_to_user(estimate.theta),
            coefficient_margins(learner.measured_arms, estimate, **at),
        )
        leader = learner.leaders()[-1]
        tables[-1] = replace(tables[-1], margin=margins_of(views[-1], estimate, leader, only=listed[-1], **at))
    names = tables[-1].names
    is_withdrawn = decision.guarantee == "withdrawn"
    if is_withdrawn:  # intervals rest on what the rewards contradict
        tables = [_without_intervals(one) for one in tables]
        margin = None if margin is None else np.full(len(margin), np.inf)
    return replace(
        bare_result_of(learner),
        best=decision.best,
        best_name=None if names is None or decision.best is None else _named(names, decision.best),
        stopped=decision.stopped,
        interrupted=interrupted,
        evidence=decision.evidence,
        target=decision.target,
        epsilon_bound=math.inf if is_withdrawn else learner.epsilon_bound(),
        expected_remaining=learner.expected_remaining(),
        p_value=p_value_of(learner),
        survivors=learner.survivors(),
        theta=theta,
        theta_margin=margin,
        path=learner.path,
        planned=learner.planned,
        guarantee=decision.guarantee,
        model_check=learner.model_check,
        misfit=learner.explain_misfit() if learner.model_check == "contradicted" else "",
        n_undecidable=learner.n_undecidable(),
        n_checks=learner.n_checks,
        noise_std=noise_estimate(estimate),
        noise_interval=(0.0, math.inf)
        if learner.bounding_noise_std == math.inf
        else noise_interval(estimate, learner.delta),
        noise_contradicted=learner.noise_contradicted,
        coarseness=learner.coarseness,
        repeated=learner.repeats,
        noise_doubt=learner.noise_doubt,
        n_residuals=learner.n_residuals,
        arms=tables[0],
        candidates=tables[1] if len(tables) > 1 else None,
        arm_set="" if learner.candidates.is_enumerable else learner.candidates.description,
        exact=decision.exact,
        _margin=margin_of(learner),
    )


def bare_result_of(learner: "Learner") -> Result:
    """Return the rewards and nothing made of them: for arms or estimates that can no longer be read."""
    history = learner.history
    return Result(
        n_pulls=len(history),
        m=learner.m,
        cost=learner.cost,
        counts=dict(Counter(arm for arm, _ in history)),
        target=math.log(1.0 / learner.delta),
        stopping=learner.rule.name,
        noise_law=SYMMETRIC_LAW
        if learner.noise == "symmetric"
        else learner.rule.noise_law(is_known=learner.noise_std is not None),
        delta=learner.delta,
        epsilon=learner.epsilon,
        given_noise_std=learner.given_noise_std,
        noise=learner.noise,
        model=learner.model,
        allowed_misfit=learner.misfit,
        earlier=learner.earlier,
        reward_range=learner.reward_range,
        algorithm=learner.algorithm,
        seed=learner.seed,
        feature_names=getattr(learner.arms, "feature_names", None) if learner.model == "linear" else None,
        history=history,
        arms=Estimates(None, np.empty(0), np.empty(0), np.empty(0), listed=()),
    )


def _named(names: tuple[str, ...], best: Any) -> str | list[str]:
    return [names[arm] for arm in best] if isinstance(best, list) else names[best]


def _without_intervals(rows: Estimates) -> Estimates:
    nothing = np.full(len(rows), np.inf)
    margin = None if rows.margin is None else np.where(rows.margin > 0.0, np.inf, 0.0)
    return replace(rows, low=-nothing, high=nothing, margin=margin)


def _key(arm: Any) -> Any:
    return tuple(arm.tolist()) if isinstance(arm, np.ndarray) else arm


def _alike(view: ArmView) -> Groups:
    """Return the groups of rows with the same features, where rows have numbers that last."""
    return duplicate_groups(view.arms) if isinstance(view, WhitenedArms) and view.is_local else ()


def _listed(view: ArmView, learner: "Learner", best: Any) -> list[int] | None:
    """Return the arms of a view that a result can list: None for all, else those pulled and the best."""
    if view.is_local:
        return None
    pulled = learner.estimate.counts if view is learner.unscaled else ()
    leading = learner.leaders() if best is not None and view is learner.candidates else ()
    return sorted({*pulled, *leading})
