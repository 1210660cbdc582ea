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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np

from surepick.arms.view import ArmView
from surepick.core.linalg import Array
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.files import replacing
from surepick.learning.estimates import Estimates, estimates_of
from surepick.learning.history import Event, History
from surepick.learning.noise import is_contradicted, noise_estimate

if TYPE_CHECKING:
    from surepick.learning.learner import Learner

FORMAT = "surepick result"
FORMAT_VERSION = 2


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What an identification found. Nothing in it changes later.

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
        guarantee: `proved`, `published`, `heuristic` or `none`: what is known about the risk of the rule that decides.
        stopping: name of that rule.
        noise_estimate: standard deviation of the rewards around the fit; NaN while there are too few.
        noise_contradicted: whether the rewards scatter more than `noise_std` allows; then the guarantee is void.
        delta, epsilon, noise_std, algorithm, seed: as they were given.
        history: every (arm, reward) in order; hand it to the next `identify`, with the same arms and options, to go on
            exactly here. `history.log` has the asks and failures between them.
        arms: estimate and interval of every arm; of those pulled and the best where all cannot be listed.
        candidates: the same for every candidate, if they were given.
        arm_set: what the set is called if its arms are vectors, such as "the unit sphere in R^3"; else "".
        exact: whether the evidence is the set's own; else a lower bound on it, so that the stop came later at worst.
    """

    best: Any
    best_name: str | None
    n_pulls: int
    counts: Mapping[Any, int] = field(repr=False)
    stopped: bool
    interrupted: bool
    evidence: float
    target: float
    epsilon_bound: float
    expected_remaining: float
    theta: Array | None = field(repr=False)
    guarantee: Guarantee
    stopping: str
    noise_estimate: float
    noise_contradicted: bool
    delta: float
    epsilon: float
    noise_std: float
    algorithm: str
    seed: int
    history: History = field(repr=False)
    arms: Estimates = field(repr=False)
    candidates: Estimates | None = field(repr=False)
    arm_set: str = ""
    exact: bool = True

    def __post_init__(self) -> None:
        tables = [table for table in (self.arms, self.candidates) if table is not None]
        arrays = [array for table in tables for array in (table.estimate, table.low, table.high)]
        for array in arrays if self.theta is None else [self.theta, *arrays]:
            array.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by value, and too large to be a key

    def __str__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Say in plain words which arm is best, how sure that is, and what it rests on."""
        pulls = _counted(self.n_pulls, "pull")
        start = f"Interrupted after {pulls}. " if self.interrupted else ""
        if self.best is None:
            return (
                f"{start}No leader yet: {pulls} of {_counted(len(self.counts), 'different arm')} cannot show the "
                "effect of every feature. More pulls are needed."
            )
        # A name keeps its spelling also where it opens the sentence.
        leader = self._leader() if self.best_name is not None else self._leader().capitalize()
        if self.stopped:
            said = f"{start}{leader} {self._is_best()}, after {pulls}: {self._risk()}."
        elif self.interrupted:
            said = f"{start}{leader} {self._standing()}."
        else:
            said = f"Not decided after {pulls}: {self._leader()} {self._standing()}."
        return " ".join(filter(None, [said, self._assumptions(), self._of_vectors()]))

    def _leader(self) -> str:
        if self.arm_set:
            entries = [f"{entry:.4g}" for entry in self.best[:6]]
            return f"arm ({', '.join(entries)}{', ...' if len(self.best) > len(entries) else ''})"
        kind = "arm" if self.candidates is None else "candidate"
        return f"{kind} {self.best}" if self.best_name is None else f"{self.best_name} ({kind} {self.best})"

    def _is_best(self) -> str:
        total = f"{len(self.arms)} arms" if self.candidates is None else f"{len(self.candidates)} candidates"
        if self.arm_set:
            total = self.arm_set
        elif self.arms.listed is not None:
            total = "all arms"
        if self.epsilon > 0.0:
            return f"is the best of {total} or loses at most {self.epsilon:g} to it"
        return f"is the best of {total}"

    def _risk(self) -> str:
        if self.guarantee == "proved":
            return f"the probability of a wrong answer is at most {_percent(self.delta)} (proved, {self.stopping} rule)"
        if self.guarantee == "published":
            return (
                f"the probability of a wrong answer is at most {_percent(self.delta)} by a published proof "
                f"({self.stopping} rule)"
            )
        if self.guarantee == "heuristic":
            return (
                f"the probability of a wrong answer should be at most about {_percent(self.delta)}, but that is not "
                f"proved ({self.stopping} rule)"
            )
        return f"without any guarantee ({self.stopping} rule)"

    def _standing(self) -> str:
        leads = "leads"
        if math.isfinite(self.epsilon_bound):
            leads += (
                f" and, at {_percent(1.0 - self.delta)} confidence, loses at most {self.epsilon_bound:.3g} to the best"
            )
        leads += (
            f"; the evidence is {self.evidence:.3g} of the {self.target:.3g} that the {self.stopping} rule asks for"
        )
        if math.isfinite(self.expected_remaining):
            leads += f", and about {_counted(max(math.ceil(self.expected_remaining), 1), 'more pull')} should settle it"
        return leads

    def _of_vectors(self) -> str:
        if not self.arm_set:
            return ""
        bound = "" if self.exact else " The evidence is a lower bound, so a stop may come late but never early."
        fewest = "That the pulls are close to the fewest possible in the long run is proved for finite sets only."
        return fewest + bound

    def _assumptions(self) -> str:
        if self.noise_contradicted:
            return (
                f"But the rewards scatter around the fit by {self.noise_estimate:.3g} where noise_std = "
                f"{self.noise_std:g} was assumed, so no stated confidence can be relied on: repeat with a larger "
                "noise_std, or with features that describe the rewards better."
            )
        return (
            "This assumes that the mean reward is linear in the features and that the noise of one measurement has no "
            f"heavier tails than a normal law of standard deviation {self.noise_std:g}."
        )

    def to_columns(self, of: Literal["arms", "candidates"] = "arms") -> dict[str, Any]:
        """Return a table as columns of equal length, in the order of the rows that were given.

        Columns: `arm` (or `candidate`) row number; `name`, the row number as text where there are no names; `pulls`
        (arms only); `estimate` of the mean reward; `low` and `high`, which enclose all true means at all times with
        probability 1 - delta; `rank` by estimate, 1 for the largest. Without candidates both tables are the arms'.
        """
        if of not in ("arms", "candidates"):
            raise InvalidInput(f'`of` must be "arms" or "candidates", got {of!r}; pass one of these.')
        rows = self.candidates if of == "candidates" else self.arms
        is_arms = rows is None or rows is self.arms
        rows = self.arms if rows is None else rows
        arms = np.arange(len(rows)) if rows.listed is None else list(rows.listed)
        columns: dict[str, Any] = {"arm" if is_arms else "candidate": arms}
        columns["name"] = [str(arm) for arm in arms] if rows.names is None else list(rows.names)
        if is_arms and rows.listed is not None:
            columns["pulls"] = np.array([self.counts.get(arm, 0) for arm in rows.listed], dtype=np.int64)
        elif is_arms:
            pulls = np.zeros(len(rows), dtype=np.int64)
            pulls[list(self.counts)] = list(self.counts.values())
            columns["pulls"] = pulls
        columns |= {"estimate": rows.estimate.copy(), "low": rows.low.copy(), "high": rows.high.copy()}
        columns["rank"] = rows.rank()
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
        return {
            "best": _plain_arm(self.best),
            "best_name": self.best_name,
            "n_pulls": self.n_pulls,
            "counts": [[_plain_arm(arm), pulls] for arm, pulls in sorted(self.counts.items())],
            "stopped": self.stopped,
            "interrupted": self.interrupted,
            **{name: _plain(getattr(self, name)) for name in _FLOATS},
            "theta": None if self.theta is None else _plain_list(self.theta),
            "guarantee": self.guarantee,
            "stopping": self.stopping,
            "noise_contradicted": self.noise_contradicted,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "history": [[_plain_arm(arm), _plain(reward)] for arm, reward in self.history],
            "log": [_plain_event(event) for event in self.history.log],
            "arms": _plain_estimates(self.arms),
            "candidates": None if self.candidates is None else _plain_estimates(self.candidates),
            "arm_set": self.arm_set,
            "exact": self.exact,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` described.

        Raises:
            InvalidInput: something is missing, or is not what `to_dict` writes.
        """
        try:
            return cls._from_plain(dict(values))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"`values` must be what `to_dict` returned, but lacks what a result needs ({error!r}); use a copy."
            ) from error

    @classmethod
    def _from_plain(cls, fields: dict[str, Any]) -> Self:
        for name in _FLOATS:
            fields[name] = float(fields[name])
        fields["counts"] = {_read_arm(arm): int(pulls) for arm, pulls in fields["counts"]}
        fields["history"] = History([_read_event(event) for event in fields.pop("log")])  # it has the pairs too
        if isinstance(fields["best"], list):
            fields["best"] = _floats(fields["best"])
        fields["theta"] = None if fields["theta"] is None else _floats(fields["theta"])
        fields["arms"] = _read_estimates(fields["arms"])
        fields["candidates"] = None if fields["candidates"] is None else _read_estimates(fields["candidates"])
        return cls(**fields)

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
    decision = learner.decision
    tables = [
        estimates_of(
            view,
            learner.estimate,
            delta=learner.delta,
            noise_std=learner.noise_std,
            only=_listed(learner, view),
        )
        for view in dict.fromkeys((learner.white, learner.candidates))
    ]
    names = tables[-1].names
    return Result(
        best=decision.best,
        best_name=None if names is None or decision.best is None else names[decision.best],
        arm_set="" if learner.candidates.is_listed else learner.candidates.description,
        exact=decision.exact,
        n_pulls=decision.n_pulls,
        counts=dict(learner.counts),
        stopped=decision.stopped,
        interrupted=interrupted,
        evidence=decision.evidence,
        target=decision.target,
        epsilon_bound=learner.epsilon_bound(),
        expected_remaining=learner.expected_remaining(),
        theta=learner.theta.copy() if learner.estimate.has_theta else None,
        guarantee=decision.guarantee,
        stopping=decision.rule,
        noise_estimate=noise_estimate(learner.estimate),
        noise_contradicted=is_contradicted(learner.estimate, learner.noise_std),
        **_given(learner),
        arms=tables[0],
        candidates=tables[1] if len(tables) > 1 else None,
    )


def bare_result_of(learner: "Learner") -> Result:
    """Return the rewards and nothing made of them: for arms or estimates that can no longer be read."""
    history = learner.history
    return Result(
        best=None,
        best_name=None,
        n_pulls=len(history),
        counts=Counter(arm for arm, _ in history),
        stopped=False,
        interrupted=False,
        evidence=0.0,
        target=math.log(1.0 / learner.delta),
        epsilon_bound=math.inf,
        expected_remaining=math.inf,
        theta=None,
        guarantee="none",
        stopping=learner.rule_name,
        noise_estimate=math.nan,
        noise_contradicted=False,
        **_given(learner),
        arms=Estimates(None, np.empty(0), np.empty(0), np.empty(0), listed=()),
        candidates=None,
    )


def _given(learner: "Learner") -> dict[str, Any]:
    """Return what a result repeats: the settings and every event."""
    return {
        "delta": learner.delta,
        "epsilon": learner.epsilon,
        "noise_std": learner.noise_std,
        "algorithm": learner.algorithm,
        "seed": learner.seed,
        "history": learner.history,
    }


def _listed(learner: "Learner", view: ArmView) -> list[int] | None:
    """Return the arms a result can list: None for all, else those pulled and the best."""
    if view.keeps_numbers:
        return None
    best = learner.decision.best
    numbers = {*learner.estimate.counts} if view is learner.white else set()
    if best is not None and view is learner.candidates:
        numbers.add(view.number_of(best))
    return sorted(numbers)


_FLOATS = (
    "evidence",
    "target",
    "epsilon_bound",
    "expected_remaining",
    "noise_estimate",
    "delta",
    "epsilon",
    "noise_std",
)


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


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _plain_list(values: Array) -> Sequence[float | str]:
    plain: list[float] = values.tolist()
    return plain if np.isfinite(values).all() else [_plain(value) for value in plain]


def _floats(values: Sequence[float | str]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float64)


def _plain_arm(arm: Any) -> Any:
    return arm if arm is None or isinstance(arm, int) else [float(entry) for entry in arm]


def _read_arm(arm: Any) -> Any:
    return tuple(float(entry) for entry in arm) if isinstance(arm, list) else int(arm)


def _plain_event(event: Event) -> list[Any]:
    kind, what, *reward = event
    if kind == "ask":
        return [kind, [_plain_arm(arm) for arm in what]]
    return [kind, what if kind == "start" else _plain_arm(what), *reward]


def _read_event(event: Sequence[Any]) -> Event:
    match event:
        case ["start", str(identity)]:
            return "start", identity
        case ["ask", list(arms)]:
            return "ask", tuple(_read_arm(arm) for arm in arms)
        case ["tell", arm, reward]:
            return "tell", _read_arm(arm), float(reward)
        case ["fail", arm]:
            return "fail", _read_arm(arm)
    raise ValueError(f"{event!r} is no event")


def _plain_estimates(table: Estimates) -> dict[str, Any]:
    return {
        "names": None if table.names is None else list(table.names),
        "estimate": _plain_list(table.estimate),
        "low": _plain_list(table.low),
        "high": _plain_list(table.high),
        "listed": None if table.listed is None else [_plain_arm(arm) for arm in table.listed],
    }


def _read_estimates(content: Mapping[str, Any]) -> Estimates:
    names = None if content["names"] is None else tuple(content["names"])
    listed = None if content.get("listed") is None else tuple(_read_arm(arm) for arm in content["listed"])
    return Estimates(names, _floats(content["estimate"]), _floats(content["low"]), _floats(content["high"]), listed)
