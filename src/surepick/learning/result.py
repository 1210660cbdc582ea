"""The result of an identification: the answer, how sure it is, and an estimate for every arm."""

import math
import os
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np

from surepick._texts import html_table
from surepick.arms.base import ArmSet, duplicate_groups, recipe_of
from surepick.arms.views import ArmView, Task, WhitenedArms
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.learning import explain, result_file
from surepick.learning.estimates import Estimates, coefficient_margins
from surepick.learning.events import History
from surepick.learning.reader import Reader, beside_rival, cost_of, given_of
from surepick.learning.snapshot import Snapshot
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, data_frame

if TYPE_CHECKING:
    from surepick.learning.learner import Learner

N_IN_NOTEBOOK = 5
"""Arms in the table of a notebook."""
# A replay for the misfit margin keeps at most this many numbers (160 MB).
MOST_NUMBERS = 20_000_000


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Snapshot):
    """The result of an identification; frozen. Defaults stand for "nothing is known".

    Estimates and intervals (`arms`, `candidates`, `theta`, `theta_margin`, `epsilon_bound`, `noise_std`,
    `noise_interval`) are of the results before the first ask that is still open, in the order of asks: a result that
    was asked for later counts once that ask is answered. Then delays may depend on values, as the betting rule allows.
    While these results do not span, estimates are of all results and there are no intervals. With one worker, and for
    rules that decide after every pull, nothing is left out. Counts and `measured` are always of all results.

    Attributes:
        best: row number of the answer, among the candidates if there were any, else among the arms, or the vector (d,)
            where arms are vectors; the leader so far if `stopped` is False; None before the pulled arms span the space.
            The list of the m best, the best first, if more than one is sought. With `threshold` or `control`: the list
            of the arms called met so far, the best estimate first.
        best_name: its name, if it has one; the list of their names.
        calls: with `threshold` or `control`, for each arm by row number "met", "failed" or "open": a call holds with
            the guarantee of the result also before the rule stops, which is when none is open. The control has none.
            None: the best was sought.
        specification: what arms are held against: `value`, the row number of the `control`, and `calls` as given.
        m: how many of the best were sought.
        cost: what all pulls have cost; their number, if no costs were given.
        n_pulls: rewards known, those of `history` handed in included.
        counts: pulls per arm, by row number or vector (a tuple); arms never pulled are absent.
        stopped: whether the stopping rule has decided. If not, there is no guarantee yet.
        interrupted: whether Ctrl-C ended it.
        evidence: log e-value that `best` is right.
        threshold: the evidence at which the rule stops.
        p_value: against `best`, whenever one looks: with probability at most p it is wrong (loses more than epsilon)
            and this is ever p or less. It is exp(-evidence), at most 1, where evidence is a log e-value: for betting,
            pairwise, and the evidence rule if `noise_std` is given. NaN for others, and if the claim is doubtful or
            withdrawn.
        survivors: row numbers of the candidates not excluded, read-only: a confidence set for the best at 1 - delta, at
            all times together (with an epsilon: for one that loses at most that). The betting rule excludes candidates
            one by one. Other rules exclude none before they decide, and a doubtful or withdrawn claim excludes none at
            all. None for sets whose arms cannot be listed, and in files of older versions.
        epsilon_bound: how much `best` can be losing at most, at confidence 1 - delta by the evidence rule; inf while
            nothing is known.
        remaining: estimate of the pulls still needed; inf or NaN when unknown, 0 when stopped.
        remaining_low, remaining_high: ends of a range that they are in with 80 %, by estimate; NaN when unknown.
        outlook: estimates, not guarantees, of what stopping now would mean, see `Snapshot`; None once stopped.
        rival, lead, interval, hardest, near_tie: the runner-up and other rivals of the leader, see `Snapshot`.
        theta: estimated parameter (d,) in the features given, read-only; None before the pulled arms span the space.
        theta_margin: largest distance of the true theta from `theta` (d,), together with all intervals; inf if unknown.
        feature_names: names of the entries of theta; None if they have no names.
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
        rule: name of that rule.
        is_foreign_rule: whether the rule is none of surepick: what it proves is then what its class says.
        noise_law: what that rule assumes of the noise beside its scale, as the end of "the noise ...".
        noise_std: standard deviation of the rewards around the fit; NaN while there are too few. Where one was given
            for each arm, this and the interval are multiples of those: 1 if they are right.
        noise_interval: bounds on the true one, at confidence 1 - delta at all times together, for Gaussian noise.
        noise_doubt: what speaks against normal noise of one level, in plain words, where the claim assumes that; "" if
            nothing does.
        n_residuals: how many residuals the shape of the noise was looked at by; None where the claim assumes no shape,
            and in files of older versions.
        noise_contradicted: whether the rewards scatter more than `given_noise_std` allows; then the guarantee is void.
        far_share: with costs, the share of the estimated lead that rests on arms far below the leader, if that is an
            extrapolation; else 0.
        coarseness: step of the readings, if the noise is learnt and smaller than that; else 0.
        repeated: whether results repeat each other to the last digit although the noise is learnt; the claim is
            withdrawn then.
        given_noise_std: the `noise_std` that was given, an array if there was one for each arm; None if it was left to
            be learnt.
        noise: "same" level for all arms; or "per-arm" or "symmetric": then nothing bounds the noise, and no interval is
            shown.
        reward_range: bounds of the rewards, if they were given; `given_noise_std` is half their distance then.
        drift, budget, batch, rounds: as they were given; None or 0 if they were not.
        goal: "confidence", or "fixed-budget": the budget is spent whatever is proved, and `best` is the best estimate,
            proved if `stopped`.
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
        groups: how much higher each day, bench or plate reads, if measurements have labels; estimates that decide
            nothing.
        planned: share of the pulls before the last block that designs wanted for each arm; empty without designs.
    """

    interrupted: bool = False
    counts: Mapping[Any, int] = field(repr=False)
    theta: Array | None = field(repr=False, default=None)
    theta_margin: Array | None = field(repr=False, default=None)
    feature_names: tuple[str, ...] | None = field(repr=False, default=None)
    history: History = field(repr=False)
    arms: Estimates = field(repr=False)
    candidates: Estimates | None = field(repr=False, default=None)
    planned: Mapping[Any, float] = field(repr=False, default_factory=dict)
    _find_margin: Callable[[], float | None] | None = field(repr=False, default=None)
    _recipe: Callable[[int], dict[str, Any]] | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        for array in (self.theta, self.theta_margin, self.survivors):
            if array is not None:
                array.flags.writeable = False
        self.__dict__.update(beside_rival(self, self.compared))

    def __getstate__(self) -> dict[str, Any]:
        """A pickle has the misfit margin as a number, and no arms."""
        gone = {"_find_margin": None, "_recipe": None}
        return {**super().__getstate__(), "misfit_margin": self.misfit_margin, **gone}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by value, and too large to be a key

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        best = self.best if self.best_name is None else self.best_name
        said = f"best={reprlib.repr(best)}, stopped={self.stopped}, n_pulls={self.n_pulls}"
        claims = self.stopped or self.guarantee in ("doubtful", "withdrawn")  # nothing is proved before the verdict
        return f"Result({said}{f', guarantee={self.guarantee!r}' if claims else ''})"

    def _repr_html_(self) -> str:
        """Return the verdict and the best arms by estimate, for a notebook."""
        rows, caption = self.compared, explain.verdict(self)
        if self.best is None:
            return html_table(caption, [])
        label, shown = explain.label_of(self), []
        has_intervals = bool(np.isfinite(rows.high).any())
        for row in np.argsort(-rows.estimate, kind="stable")[:N_IN_NOTEBOOK].tolist():
            key = rows.keys[row]
            interval = [f"{rows.low[row]:.4g} to {rows.high[row]:.4g}"] if has_intervals else []
            pulls = [str(self.counts.get(key, 0))] if rows is self.arms else []
            shown.append([label(key), f"{rows.estimate[row]:.4g}", *interval, *pulls])
        titles = [f"{100 * (1 - self.delta):g} % interval"] * has_intervals + ["pulls"] * (rows is self.arms)
        return html_table(caption, shown, ["arm", "estimate", *titles])

    @property
    def compared(self) -> Estimates:
        """The table that has the answer: `candidates` if they were given, else `arms`."""
        return self.arms if self.candidates is None else self.candidates

    @property
    def target(self) -> float:
        """The evidence at which the rule stops."""
        return self.threshold

    @property
    def expected_remaining(self) -> float:
        """Estimate of the pulls still needed; inf or NaN when unknown, 0 when stopped."""
        return self.remaining

    @property
    def stopping(self) -> str:
        """Name of the stopping rule."""
        return self.rule

    @cached_property
    def misfit_margin(self) -> float | None:
        """The largest distance of means from their linear fit at which the answer stands, all the same with 1 - delta.

        "If no mean is off its linear fit by more than this, the answer is the best arm" is wrong with probability at
        most delta, although the margin comes from the same results (docs/guarantee.md, Theorem 37). inf where the pulls
        compared the arms themselves and needed no model. None: no answer; a rule other than betting; slack;
        candidates apart from the arms; `model="unstructured"`; an answer that needed results told before the first
        ask; or a table of arms by bets that would fill more than 160 MB.

        Worked out when first asked for, also by `explain` and `save`: about as long as the learner needed.
        """
        find, self.__dict__["_find_margin"] = self._find_margin, None  # the log that it needs may go
        return None if find is None else find()

    def explain(self) -> str:
        """Say in plain words which arm is best, how sure that is, and what it rests on."""
        return explain.explain(self)

    def to_columns(self, of: Literal["arms", "candidates"] = "arms") -> dict[str, Any]:
        """Return a table as columns of equal length, in the order of the rows that were given.

        Columns: `arm` (or `candidate`) row number; `name`, the row number as text where there are no names; `pulls`
        (arms only); `estimate` of the mean reward; `low` and `high`, which enclose all true means at all times with
        probability 1 - delta; `likely_low` and `likely_high`, an interval of this mean alone at about 95 %, an estimate
        and no guarantee (NaN while unknown); `rank` by estimate, 1 for the largest; `measured`, the mean of the
        rewards, NaN if there are none (arms only); `behind`, the distance of the estimate below that of the leader (of
        several: the last), with
        `behind_low` and `behind_high` of the true distance (NaN in the table of arms if candidates are compared);
        `call`, with `threshold` or `control`: "met", "failed", "open", or "control" (NaN in `behind` then);
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
        for name, ends in (("likely_low", rows.likely_low), ("likely_high", rows.likely_high)):
            columns[name] = np.full(len(rows), math.nan) if ends is None else ends.copy()
        if self.calls is not None and rows is self.compared:
            columns["call"] = [self.calls.get(arm, "control") for arm in rows.keys]
        if rows.alike:
            columns["same_as"] = np.arange(len(rows))
            for group in rows.alike:
                columns["same_as"][list(group)] = group[0]
        return columns

    def _behind(self, rows: Estimates) -> tuple[Array, Array]:
        """How far each row of a table is behind the leader, and the margin of that; NaN if the leader is not there."""
        if rows.margin is None or self.leader is None or self.calls is not None:
            return np.full(len(rows), math.nan), np.full(len(rows), math.nan)
        return rows.estimate[self.row_of_leader] - rows.estimate, rows.margin

    @property
    def row_of_leader(self) -> int:
        """Row of the leader in `compared`; of several leaders, the last."""
        rows = self.compared
        return int(self.leader) if rows.listed is None else rows.listed.index(_key(self.leader))

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
        recipes: Mapping[str, Mapping[str, Any]] | None = None,
        notes: Sequence[str] = (),
        unit: str = "",
    ) -> None:
        """Write a page about the result: one HTML file that any browser shows and prints.

        The page has the verdict, the recipe of the winner, the leader against the runner-up, all arms, coefficients,
        figures, the assumptions and how they were checked, and how to get the result again. A result that was loaded
        has no arms: give it `recipes`. Needs Jinja2: `surepick[report]`.

        Args:
            path: of the file; an earlier file of that name stays until the new one is complete.
            title: of the page.
            command: the command that made the result, if one did.
            steps: how to get the result again, each in words and as code; default: by `identify` and `Result.load`.
            recipes: by the names of arms, the columns that describe each; a study has them from its table.
            notes: further sentences below the verdict, such as how to go on.
            unit: of the rewards, such as "kg".
        """
        page = _pages()
        parts = {"title": title, "command": command, "steps": steps, "recipes": recipes, "notes": notes, "unit": unit}
        content = page.page_of(self, **parts, find_recipe=self._recipe)
        page.write_page(content, result_file.target_of(path))

    def plot_estimates(self) -> Any:
        """Return a matplotlib `Figure`: the best 30 arms, or candidates, by their estimates, with intervals."""
        return _figures().estimates_figure(self)

    def plot_evidence(self) -> Any:
        """Return a matplotlib `Figure`: evidence over pulls, in percent of the threshold."""
        return _figures().evidence_figure(self)

    def plot_fit(self) -> Any:
        """Return a matplotlib `Figure`: measured means against fitted means."""
        return _figures().fit_figure(self)

    def plot_pulls(self) -> Any:
        """Return a matplotlib `Figure`: pulls of the 30 arms measured most, beside the plan."""
        return _figures().pulls_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and dicts that JSON can hold."""
        return result_file.written(self)

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
                f"`values` must be a record of `to_dict`, got one that is not complete ({error!r}); pass it unchanged."
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


def _pages() -> ModuleType:
    from surepick.reporting import result_page  # noqa: PLC0415 (pages are a layer above)

    return result_page


def _figures() -> ModuleType:
    from surepick.reporting import result_figures  # noqa: PLC0415 (as above)

    return result_figures


def result_of(learner: "Learner", reader: Reader, *, interrupted: bool = False) -> Result:
    """Return the present state of a learner as a result."""
    snapshot, estimate, white = reader.snapshot, reader.estimate, learner.measured_arms
    compared = replace(reader.compared, alike=_duplicates(learner.candidates))
    arms = compared
    if has_candidates := learner.unscaled is not learner.candidates:
        arms = replace(reader.table(learner.unscaled), alike=_duplicates(learner.unscaled))
    theta = margin = None
    if snapshot.best is not None:
        theta, margin = white.theta_to_user(estimate.theta), coefficient_margins(white, estimate, **reader.bounds)
        if snapshot.guarantee == "withdrawn":  # intervals rest on what the rewards contradict
            margin = np.full(len(margin), np.inf)
    values = {one.name: getattr(snapshot, one.name) for one in fields(Snapshot)}
    return Result(
        **values | _measured(learner),
        interrupted=interrupted,
        theta=theta,
        theta_margin=margin,
        planned=reader.planned,
        arms=arms,
        candidates=compared if has_candidates else None,
        _find_margin=_margin_of(learner, reader),
        _recipe=_recipe_of(learner),
    )


def bare_result_of(learner: "Learner") -> Result:
    """Return the rewards without estimates: for arms that can no longer be read."""
    nothing = Estimates(None, np.empty(0), np.empty(0), np.empty(0), listed=())
    measured = _measured(learner)
    number_of = learner.measured_arms.number_of
    cost = cost_of(learner, {number_of(arm): n for arm, n in measured["counts"].items()})
    return Result(**given_of(learner), **measured, cost=cost, threshold=math.log(1.0 / learner.delta), arms=nothing)


def _measured(learner: "Learner") -> dict[str, Any]:
    history = learner.history
    return {
        "n_pulls": len(history),
        "counts": dict(Counter(arm for arm, _ in history)),
        "feature_names": getattr(learner.arms, "feature_names", None) if learner.model == "linear" else None,
        "history": history,
    }


def _recipe_of(learner: "Learner") -> Callable[[int], dict[str, Any]] | None:
    """Return the function from a row to its recipe, where rows can be read."""
    view = learner.candidates
    if learner.model != "linear" or not (isinstance(view, WhitenedArms) and view.is_local):
        return None
    is_arms = learner.unscaled is view
    written = {
        "features": getattr(learner.arms, "feature_names", None),
        "table": getattr(learner.arms, "table", None) if is_arms else None,
    }
    arms = learner.arms if is_arms else view.arms
    if not isinstance(arms, ArmSet):
        return None
    return lambda row: recipe_of(written, row, arms.gather([row])[0].tolist())


def _key(arm: Any) -> Any:
    return tuple(arm.tolist()) if isinstance(arm, np.ndarray) else arm


def _duplicates(view: ArmView) -> tuple[tuple[int, ...], ...]:
    """Return the groups of rows with the same features, where rows have numbers that last."""
    return duplicate_groups(view.arms) if isinstance(view, WhitenedArms) and view.is_local else ()


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
        """Decide nothing."""
        return Verdict(threshold=np.inf)


def blocks_of(learner: "Learner") -> Callable[[], list[Block]]:
    """Return a function that works out all blocks so far, check pulls after the verdict included, in order.

    The function goes through the results as they are now: later results and corrections do not change its answer.
    """
    recorder = Recorder(learner.task)
    settle = learner.state.settled_by(recorder)

    def blocks() -> list[Block]:
        settle()
        return recorder.blocks

    return blocks


def _margin_of(learner: "Learner", reader: Reader) -> Callable[[], float | None] | None:
    """Return how to find the misfit margin of a learner's answer, also after it has learnt on; None: no margin.

    There is none without an answer by the betting rule on arms that follow features, nor with slack, several
    winners, or levels of noise that differ between arms.
    """
    task, rule = learner.task, learner.rule
    is_plain = (
        task.candidates is task.arms
        and task.epsilon == 0.0
        and task.m == 1
        and not learner.noise_model.needs_bets
        and task.target is None
    )
    is_sought = learner.stopped and learner.model == "linear" and is_plain
    if not (is_sought and rule.takes_misfit):
        return None
    return partial(_find_margin, blocks_of(learner), task, rule, reader.lead)


def _find_margin(find: Callable[[], list[Block]], task: Task, rule: Rule, lead: float) -> float | None:
    blocks = find()
    n_each = sum(8 + len(np.unique(block.arms)) for block in blocks if block.arms is not None)
    if n_each * task.rivals.n_arms > MOST_NUMBERS:
        return None
    return rule.margin(task, blocks, lead)
