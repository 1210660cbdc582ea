"""The result of an identification: the answer, how sure it is, an estimate for every arm, and its file format.

The file is JSON. Floats are written with the digits that give back the same double; infinities and NaN, for which
JSON has no word, are the texts "inf", "-inf" and "nan". A checksum tells a damaged file from a whole one.
"""

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np

from surepick.arms.alike import alike_rows, same_features
from surepick.arms.view import ArmView
from surepick.arms.whitening import WhitenedArms
from surepick.core.linalg import Array
from surepick.core.noise import noise_estimate, noise_interval
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.files import replacing
from surepick.learning.estimates import Estimates, estimates_of
from surepick.learning.history import Event, History
from surepick.learning.margin import Margin, margin_of
from surepick.learning.model import ModelCheck

if TYPE_CHECKING:
    from surepick.learning.learner import Learner

FORMAT = "surepick result"
FORMAT_VERSION = 3
# Said if the rewards allow no more than this share of the noise_std given: then half of all pulls are for nothing.
GENEROUS = 0.7
# Names of arms in a sentence.
MOST_NAMED = 10
# With so few arms each can be measured by itself, without a model.
FEW_ARMS = 50

_RISKS: Mapping[Guarantee, str] = {
    "proved": "the probability of a wrong answer is at most {delta} (proved, {rule} rule)",
    "published": "the probability of a wrong answer is at most {delta} by a published proof ({rule} rule)",
    "heuristic": (
        "the probability of a wrong answer should be at most about {delta}, but that is not proved ({rule} rule)"
    ),
    "none": "without any guarantee ({rule} rule)",
}
_CHECKS: Mapping[ModelCheck, str] = {
    "tested": "The model was tested by {n} and not contradicted.",
    "not contradicted": "The model is not contradicted, but hardly tested: check pulls would do that (audit).",
    "untestable": "The model is untestable: no more arms were measured than there are features (audit).",
    "contradicted": "",
}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What an identification found. Nothing in it changes later. Defaults are for what nothing is known about.

    Attributes:
        best: row number of the answer, among the candidates if there were any, else among the arms, or the vector (d,)
            where arms are vectors; the leader so far if `stopped` is False; None before the pulled arms span the space.
        best_name: its name, if it has one.
        n_pulls: rewards known, those of `history` handed in included.
        counts: pulls per arm, by row number or vector (a tuple); arms never pulled are absent.
        stopped: whether the stopping rule has decided. If not, there is no guarantee yet.
        interrupted: whether Ctrl-C ended it.
        evidence: log e-value that `best` is right.
        target: the evidence at which the rule stops.
        epsilon_bound: how much `best` can be losing at most, at confidence 1 - delta by the evidence rule; inf while
            nothing is known.
        expected_remaining: estimate of the pulls still needed; NaN when unknown, 0 when stopped.
        theta: estimated parameter (d,) in the features given, read-only; None before the pulled arms span the space.
        guarantee: state of the claim: `proved`, `published` or `heuristic`, by the rule that decides; `withdrawn` if
            the rewards contradict the model or the noise it rests on; `none`.
        model: "linear" in the features, or "unstructured".
        model_check: "tested" by check pulls, "not contradicted" but hardly tested, "untestable" or "contradicted".
        misfit: what does not fit, in plain words, if the model is contradicted; else "".
        allowed_misfit: the `misfit` that was given: how far means may be off their linear fit. Above 0 a model that is
            contradicted is reported and no claim withdrawn, and there are no intervals, which rest on exact fits.
        n_hidden: rivals that the allowed misfit hides, if `stopped` is False: no further pulls by a plan like the last
            one would reject them.
        n_checks: check pulls made after the verdict.
        stopping: name of that rule.
        noise_law: what that rule assumes of the noise beside its scale, as the end of "the noise ...".
        noise_std: standard deviation of the rewards around the fit; NaN while there are too few. Where one was given
            for each arm, this and the interval are multiples of those: 1 if they are right.
        noise_interval: bounds on the true one, at confidence 1 - delta at all times together, for Gaussian noise.
        noise_contradicted: whether the rewards scatter more than `given_noise_std` allows; then the guarantee is void.
        given_noise_std: the `noise_std` that was given, an array if there was one for each arm; None if it was left to
            be learnt.
        noise: "same" level for all arms, or "per-arm": then nothing bounds the noise, and no interval is shown.
        reward_range: bounds of the rewards, if they were given; `given_noise_std` is half their distance then.
        delta, epsilon, algorithm, seed: as they were given.
        history: every (arm, reward) in order; hand it to the next `identify`, with the same arms and options, to go on
            exactly here. `history.log` has the asks, failures and corrections between them.
        arms: estimate and interval of every arm; of those pulled and the best where all cannot be listed.
        candidates: the same for every candidate, if they were given.
        arm_set: what the set is called if its arms are vectors, such as "the unit sphere in R^3"; else "".
        exact: whether the evidence is the set's own; else a lower bound on it, so that the stop came later at worst.
    """

    best: Any = None
    best_name: str | None = None
    n_pulls: int
    counts: Mapping[Any, int] = field(repr=False)
    stopped: bool = False
    interrupted: bool = False
    evidence: float = 0.0
    target: float
    epsilon_bound: float = math.inf
    expected_remaining: float = math.inf
    theta: Array | None = field(repr=False, default=None)
    guarantee: Guarantee = "none"
    model: str = "linear"
    model_check: ModelCheck = "untestable"
    misfit: str = ""
    allowed_misfit: float = 0.0
    n_hidden: int = 0
    n_checks: int = 0
    stopping: str
    noise_law: str = "has no heavier tails than a normal law"
    noise_std: float = math.nan
    noise_interval: tuple[float, float] = (0.0, math.inf)
    noise_contradicted: bool = False
    given_noise_std: float | Array | None = None
    noise: str = "same"
    reward_range: tuple[float, float] | None = None
    delta: float
    epsilon: float
    algorithm: str
    seed: int
    history: History = field(repr=False)
    arms: Estimates = field(repr=False)
    candidates: Estimates | None = field(repr=False, default=None)
    arm_set: str = ""
    exact: bool = True
    _margin: Margin = field(repr=False, default_factory=Margin)

    def __post_init__(self) -> None:
        if self.theta is not None:
            self.theta.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by value, and too large to be a key

    def __str__(self) -> str:
        return self.explain()

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
        pulls = _counted(self.n_pulls - self.n_checks, "pull")  # check pulls came after the verdict
        start = f"Interrupted after {pulls}. " if self.interrupted else ""
        if self.best is None:
            return (
                f"{start}No leader yet: {pulls} of {_counted(len(self.counts), 'different arm')} cannot show the "
                "effect of every feature. More pulls are needed."
            )
        # A name keeps its spelling also where it opens the sentence.
        leader = self._leader() if self.best_name is not None else self._leader().capitalize()
        if self.guarantee == "withdrawn":
            return f"{start}{self._withdrawn(pulls)}"
        if self.stopped:
            risk = _RISKS[self.guarantee].format(delta=_percent(self.delta), rule=self.stopping)
            said = f"{start}{leader} {self._is_best()}, after {pulls}: {risk}."
        elif self.interrupted:
            said = f"{start}{leader} {self._standing()}."
        else:
            said = f"Not decided after {pulls}: {self._leader()} {self._standing()}."
        rest = [self._alike(), self._hidden(), self._assumptions(), self._bears(), self._of_vectors()]
        return " ".join(filter(None, [said, *rest]))

    def _alike(self) -> str:
        """Say which arms the answer stands for, and that there are others of which that can be said."""
        rows = self.arms if self.candidates is None else self.candidates
        own = () if self.arm_set else rows.group_of(self.best)
        n_others = len(rows.alike) - (len(own) > 1)
        others = (
            f"{_counted(n_others, 'other group')} of arms {'has' if n_others == 1 else 'have'} the same features too."
        )
        said = ""
        if len(own) > 1:
            labels = [f"arm {row}" if rows.names is None else rows.names[row] for row in own[:MOST_NAMED]]
            labels += [f"{len(own) - MOST_NAMED:,} more"] if len(own) > MOST_NAMED else []
            said = f"{same_features(labels)}: the answer is {'either' if len(own) == 2 else 'any'} of them. "
        return (said + (others if n_others else "")).strip()

    def _hidden(self) -> str:
        """Say so if the allowed misfit keeps the rule from ever deciding."""
        if not self.n_hidden:
            return ""
        return (
            f"The allowed misfit of {self.allowed_misfit:g} could be all of its lead over "
            f"{_counted(self.n_hidden, 'arm')}, which more pulls of this kind will not change: allow for less, accept "
            "an epsilon, or add features."
        )

    def _bears(self) -> str:
        """Say how much misfit the answer bears, if that is known; not if it is so much that no model was needed."""
        margin = self.misfit_margin if self.stopped else None
        if margin is None or margin == math.inf:
            return ""
        return f"The answer stands if no arm's mean is off its linear fit by more than {margin:.3g}."

    def _withdrawn(self, pulls: str) -> str:
        was = f"was to be the answer after {pulls}" if self.stopped else f"leads after {pulls}"
        if not self.noise_contradicted:
            why = f"the rewards contradict a mean that is linear in the features. {self.misfit}"
            advice = "Repeat with features that describe the rewards better"
            if self.arms.listed is None and len(self.arms) <= FEW_ARMS:
                advice += ', or without features: model="unstructured"'
        else:
            why, cure = f"the rewards scatter around the fit by {self.noise_std:.3g}", "without noise_std"
            if isinstance(self.given_noise_std, np.ndarray):
                why, cure = f"{why} times the noise_std that was given for the arms.", "with larger noise_std"
            else:
                why = f"{why} where noise_std = {self.given_noise_std:g} was given."
            advice = f"Repeat {cure}, or with features that describe the rewards better"
        return f"No answer can be defended: {self._leader()} {was}, but {why} {advice}."

    def _leader(self) -> str:
        if self.arm_set:
            entries = [f"{entry:.4g}" for entry in self.best[:6]]
            return f"arm ({', '.join(entries)}{', ...' if len(self.best) > len(entries) else ''})"
        kind = "arm" if self.candidates is None else "candidate"
        return f"{kind} {self.best}" if self.best_name is None else f"{self.best_name} ({kind} {self.best})"

    def _is_best(self) -> str:
        if self.arm_set:
            total = self.arm_set
        elif self.arms.listed is not None:
            total = "all arms"
        else:
            total = f"{len(self.arms)} arms" if self.candidates is None else f"{len(self.candidates)} candidates"
        slack = f" or loses at most {self.epsilon:g} to it" if self.epsilon > 0.0 else ""
        return f"is the best of {total}{slack}"

    def _standing(self) -> str:
        loss = remaining = ""
        if math.isfinite(self.epsilon_bound):
            sure = _percent(1.0 - self.delta)
            loss = f" and, at {sure} confidence, loses at most {self.epsilon_bound:.3g} to the best"
        if math.isfinite(self.expected_remaining):
            pulls = _counted(max(math.ceil(self.expected_remaining), 1), "more pull")
            remaining = f", and about {pulls} should settle it"
        evidence = f"{self.evidence:.3g} of the {self.target:.3g} that the {self.stopping} rule asks for"
        return f"leads{loss}; the evidence is {evidence}{remaining}"

    def _of_vectors(self) -> str:
        if not self.arm_set:
            return ""
        bound = "" if self.exact else " The evidence is a lower bound, so a stop may come late but never early."
        fewest = "That the pulls are close to the fewest possible in the long run is proved for finite sets only."
        return fewest + bound

    def _assumptions(self) -> str:
        checked = _CHECKS[self.model_check].format(n=_counted(self.n_checks, "check pull"))
        checked = f" {checked}" if self.stopped and self.model == "linear" else ""
        mean = "the mean reward is linear in the features and that " if self.model == "linear" else ""
        if self.allowed_misfit > 0.0:
            within = f"within {self.allowed_misfit:g} of one that is linear in the features"
            mean = f"the mean reward of every arm is {within}, and that "
            checked = (
                f" The rewards contradict an exactly linear mean, as was allowed for. {self.misfit}"
                if self.misfit
                else ""
            )
        if self.reward_range is not None:
            lo, hi = self.reward_range
            return f"This assumes that {mean}rewards lie between {lo:g} and {hi:g}.{checked}"
        linear = f"This assumes that {mean}the noise of one measurement"
        if self.noise == "per-arm":
            unwatched = " With noise of unknown levels, a different one for each arm, the model is not watched."
            checked = unwatched if checked else ""
            return f"{linear} {self.noise_law}, with a standard deviation of its own for each arm.{checked}"
        if self.given_noise_std is None:
            seen = "" if math.isnan(self.noise_std) else f" (about {self.noise_std:.3g})"
            return f"{linear} {self.noise_law}, with one standard deviation for all arms{seen}.{checked}"
        if isinstance(self.given_noise_std, np.ndarray):
            seen = "" if math.isnan(self.noise_std) else f"; the data say {self.noise_std:.3g} times that"
            return f"{linear} {self.noise_law} of the standard deviation given for its arm{seen}.{checked}"
        of = f"of standard deviation {self.given_noise_std:g}"
        return f"{linear} {self.noise_law} {of}.{self._generous(self.given_noise_std)}{checked}"

    def _generous(self, given: float) -> str:
        """Say so if the noise that was given is far above what the rewards show; pulls go with its square."""
        most = max(self.noise_interval[1], self.noise_std)
        if not most < GENEROUS * given:
            return ""
        saved = _percent(1.0 - (self.noise_std / given) ** 2)
        return (
            f" You gave noise_std = {given:g}, the data say {self.noise_std:.3g}; leaving it out would "
            f"need about {saved} fewer pulls."
        )

    def to_columns(self, of: Literal["arms", "candidates"] = "arms") -> dict[str, Any]:
        """Return a table as columns of equal length, in the order of the rows that were given.

        Columns: `arm` (or `candidate`) row number; `name`, the row number as text where there are no names; `pulls`
        (arms only); `estimate` of the mean reward; `low` and `high`, which enclose all true means at all times with
        probability 1 - delta; `rank` by estimate, 1 for the largest; `same_as`, if some rows have the same features and
        so cannot be told apart: the lowest row number that has those of this one. Without candidates both tables are
        the arms'.
        """
        if of not in ("arms", "candidates"):
            raise InvalidInput(f'`of` must be "arms" or "candidates", got {of!r}; pass one of these.')
        rows = self.arms if of == "arms" or self.candidates is None else self.candidates
        is_arms = rows is self.arms
        arms = np.arange(len(rows)) if rows.listed is None else list(rows.listed)
        columns: dict[str, Any] = {"arm" if is_arms else "candidate": arms}
        columns["name"] = [str(arm) for arm in rows.keys] if rows.names is None else list(rows.names)
        if is_arms:
            columns["pulls"] = np.array([self.counts.get(arm, 0) for arm in rows.keys], dtype=np.int64)
        estimates = {"estimate": rows.estimate.copy(), "low": rows.low.copy(), "high": rows.high.copy()}
        columns |= estimates | {"rank": rows.rank()}
        if rows.alike:
            columns["same_as"] = np.arange(len(rows))
            for group in rows.alike:
                columns["same_as"][list(group)] = group[0]
        return columns

    def to_frame(self, of: Literal["arms", "candidates"] = "arms") -> Any:
        """Return the table of `to_columns` as a pandas `DataFrame`, or as it is where pandas is not installed."""
        columns = self.to_columns(of)
        try:
            import pandas as pd  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and dicts that JSON can hold."""
        values: dict[str, Any] = _plain(self) | {"misfit_margin": _plain(self.misfit_margin)}
        return values | {"counts": _plain(sorted(self.counts.items())), "log": _plain(self.history.log)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` described.

        Raises:
            InvalidInput: something is missing, or is not what `to_dict` writes.
        """
        try:
            return cls(**_read_fields(values))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"`values` must be what `to_dict` returned, but lacks what a result needs ({error!r}); use a copy."
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a JSON file, which `load` gives back bit for bit.

        The file appears whole or not at all: an earlier one of that name stays until the new one is complete.
        """
        content = _json(self.to_dict())
        head = _json({"format": FORMAT, "version": FORMAT_VERSION, "sha256": _checksum(content)})
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise InvalidInput(f"{os.fspath(path)!r} must be in a folder that exists; create {str(target.parent)!r}.")
        if target.exists() and not target.is_file():
            raise InvalidInput(
                f"{os.fspath(path)!r} must be the name of a file, but is something else; choose another."
            )
        with replacing(target) as draft:
            draft.write_text(f'{head[:-1]},"result":{content}}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result written by `save`.

        Raises:
            InvalidInput: not such a file, or one that was cut off or changed.
        """
        needed = f"{os.fspath(path)!r} must be a file written by `Result.save`"
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:  # text that is no UTF-8, or no JSON
            raise InvalidInput(f"{needed}, but it is damaged or something else ({error}); use a copy.") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InvalidInput(f"{needed}, but it holds something else; check the path.")
        if document.get("version") != FORMAT_VERSION:
            raise InvalidInput(
                f"{needed} in version {FORMAT_VERSION} of the format, got version {document.get('version')!r}; read it "
                "with the release of surepick that wrote it."
            )
        content = document.get("result")
        if not isinstance(content, dict) or document.get("sha256") != _checksum(_json(content)):
            raise InvalidInput(f"{needed}, but its content was changed or damaged afterwards; use a copy.")
        try:
            return cls.from_dict(content)
        except InvalidInput as error:
            raise InvalidInput(
                f"{needed}, but it lacks what a result needs ({error.__cause__!r}); use a copy."
            ) from error


def result_of(learner: "Learner", *, interrupted: bool = False) -> Result:
    """Return what a learner knows now."""
    decision, estimate = learner.decision, learner.estimate
    tables = [
        replace(
            estimates_of(
                view,
                estimate,
                delta=learner.delta,
                noise_std=learner.bounding_noise_std,
                only=_listed(view, learner, decision.best),
            ),
            alike=alike_rows(view.arms) if isinstance(view, WhitenedArms) and view.keeps_numbers else (),
        )
        for view in dict.fromkeys((learner.unscaled, learner.candidates))
    ]
    names = tables[-1].names
    is_withdrawn = decision.guarantee == "withdrawn"
    if is_withdrawn:  # intervals rest on what the rewards contradict
        tables = [replace(one, low=np.full(len(one), -np.inf), high=np.full(len(one), np.inf)) for one in tables]
    return replace(
        bare_result_of(learner),
        best=decision.best,
        best_name=None if names is None or decision.best is None else names[decision.best],
        stopped=decision.stopped,
        interrupted=interrupted,
        evidence=decision.evidence,
        target=decision.target,
        epsilon_bound=math.inf if is_withdrawn else learner.epsilon_bound(),
        expected_remaining=learner.expected_remaining(),
        theta=learner.theta.copy() if estimate.has_theta else None,
        guarantee=decision.guarantee,
        model_check=learner.model_check,
        misfit=learner.explain_misfit() if learner.model_check == "contradicted" else "",
        n_hidden=learner.n_hidden(),
        n_checks=learner.n_checks,
        noise_std=noise_estimate(estimate),
        noise_interval=(0.0, math.inf)
        if learner.bounding_noise_std == math.inf
        else noise_interval(estimate, learner.delta),
        noise_contradicted=learner.noise_contradicted,
        arms=tables[0],
        candidates=tables[1] if len(tables) > 1 else None,
        arm_set="" if learner.candidates.is_listed else learner.candidates.description,
        exact=decision.exact,
        _margin=margin_of(learner),
    )


def bare_result_of(learner: "Learner") -> Result:
    """Return the rewards and nothing made of them: for arms or estimates that can no longer be read."""
    history = learner.history
    return Result(
        n_pulls=len(history),
        counts=dict(Counter(arm for arm, _ in history)),
        target=math.log(1.0 / learner.delta),
        stopping=learner.rule.name,
        noise_law=learner.rule.noise_law(is_known=learner.noise_std is not None),
        delta=learner.delta,
        epsilon=learner.epsilon,
        given_noise_std=learner.given_noise_std,
        noise=learner.noise,
        model=learner.model,
        allowed_misfit=learner.misfit,
        reward_range=learner.reward_range,
        algorithm=learner.algorithm,
        seed=learner.seed,
        history=history,
        arms=Estimates(None, np.empty(0), np.empty(0), np.empty(0), listed=()),
    )


def _listed(view: ArmView, learner: "Learner", best: Any) -> list[int] | None:
    """Return the arms of a view that a result can list: None for all, else those pulled and the best."""
    if view.keeps_numbers:
        return None
    pulled = learner.estimate.counts if view is learner.unscaled else ()
    leading = [view.number_of(best)] if best is not None and view is learner.candidates else ()
    return sorted({*pulled, *leading})


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _percent(probability: float) -> str:
    # Beside a risk of 1e-9, "100 %" and "1e-07 %" say less than the number itself.
    if 1e-4 <= probability <= 1.0 - 1e-4:
        return f"{100.0 * probability:.4g} %"
    return f"{probability:.12g}"


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays, tuples and tables as lists and dicts, infinities and NaN as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if np.isfinite(value).all() else _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Result | Estimates):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name != "_margin"}
    return value


def _read_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result from their plain form."""
    read = dict(values)
    names = [one for one in fields(Result) if one.name != "_margin"]
    for one in names:
        read[one.name] = float(read[one.name]) if one.type is float else read[one.name]  # all must be there
    read["counts"] = {_read_arm(arm): int(pulls) for arm, pulls in read["counts"]}
    read["history"] = History([_read_event(event) for event in read.pop("log")])  # it has the pairs too
    margin = read.pop("misfit_margin")
    read["_margin"] = Margin(None if margin is None else float(margin))
    read["noise_interval"] = tuple(map(float, read["noise_interval"]))
    read["reward_range"] = None if read["reward_range"] is None else tuple(map(float, read["reward_range"]))
    if isinstance(read["best"], list):
        read["best"] = _floats(read["best"])
    if isinstance(read["given_noise_std"], list):
        read["given_noise_std"] = _floats(read["given_noise_std"])
    for name, reader in (("theta", _floats), ("arms", _read_estimates), ("candidates", _read_estimates)):
        read[name] = None if read[name] is None else reader(read[name])
    return read


def _floats(values: Sequence[float | str]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float64)


def _read_arm(arm: Any) -> Any:
    return tuple(float(entry) for entry in arm) if isinstance(arm, list) else int(arm)


def _read_event(event: Sequence[Any]) -> Event:
    match event:
        case ["start" | "audit", _]:
            rest: tuple[Any, ...] = (event[1],)
        case ["ask", list(arms)]:
            rest = (tuple(_read_arm(arm) for arm in arms),)
        case ["tell", arm, reward, *ask]:
            rest = _read_arm(arm), float(reward), *map(int, ask)
        case ["fail", arm, *ask]:
            rest = _read_arm(arm), *map(int, ask)
        case ["void", n, *reason]:
            rest = int(n), *map(str, reason)
        case ["correct", n, value, *reason]:
            rest = int(n), float(value), *map(str, reason)
        case _:
            raise ValueError(f"{event!r} is no event")
    return event[0], *rest


def _read_estimates(content: Mapping[str, Any]) -> Estimates:
    names = None if content["names"] is None else tuple(content["names"])
    listed = None if content["listed"] is None else tuple(_read_arm(arm) for arm in content["listed"])
    alike = tuple(tuple(map(int, group)) for group in content.get("alike", ()))
    return Estimates(
        names, _floats(content["estimate"]), _floats(content["low"]), _floats(content["high"]), listed, alike
    )
