"""Eras: what one learner saw of a study, with its arms and options.

The first era begins with the study, the next one where arms or options change. The catalog of an era has its arms,
those that retired, and their names. An arm has one *key* for as long as the study lives: its row number among all arms
that ever joined, or its entries if it is a vector. A learner numbers the arms of its own era.
"""

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np

from surepick._texts import check_line
from surepick.arms.base import ArmSet, VectorSet, recipe_of
from surepick.arms.finite import FiniteArms
from surepick.arms.registry import Written, digest_of, read_arms
from surepick.arms.tables.joining import read_joining
from surepick.arms.views import WhitenedArms
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.learning.learner import Learner
from surepick.learning.noise_models import NAMED
from surepick.learning.spec import DEFAULTS, OPTIONS
from surepick.stopping.base import Start
from surepick.stopping.betting import BettingState
from surepick.stopping.targets import TargetsState
from surepick.types import ArmKey, MeasurementId, ResultNumber

if TYPE_CHECKING:
    from surepick.study.state import State

Json = dict[str, Any]
Earlier = Literal["evidence", "guidance"]
Key = Any
"""An `ArmKey` in records that users see: `X[ask.arm]` passes a type checker, as it should where arms are a table."""


@final
class ArmCatalog:
    """Arms and candidates of one era, immutable.

    Args:
        written: all arms that ever joined, as written in the log.
        candidates: the candidates as written in the log; None if the arms themselves are compared.
        present: row numbers of the arms that can be measured; None for all.
    """

    def __init__(self, written: Written, candidates: Written | None, present: Sequence[int] | None = None) -> None:
        self.written, self.candidates, self.present = written, candidates, present
        self.row_of: dict[ArmKey, int] | None = (
            None if present is None else {key: row for row, key in enumerate(present)}
        )
        """The learner's number of each arm that can be measured; None if the number is the key."""

    @cached_property
    def arms(self) -> ArmSet | VectorSet:
        """The arms that can be measured."""
        if self.is_enumerable:
            here = self.keys
            # Arms without names are called by their keys, which are no longer their row numbers.
            labels = None if self.names is None and self.present is None else [self.label(key) for key in here]
            rows = np.array([self.written["rows"][key] for key in here], dtype=np.float64)
            try:
                arms = FiniteArms(rows, names=labels)
            except ArmsDoNotSpan:
                if self.present is None or self.candidates is not None:
                    raise
                arms = FiniteArms.on_span(rows, names=labels)  # a feature has gone with the arms that had it
            named = {f"x{place}": name for place, name in enumerate(self.written["features"])}
            arms.feature_names = tuple([named[name] for name in arms.feature_names])
            return arms
        return read_arms(self.written)

    @property
    def is_enumerable(self) -> bool:
        """Whether the log has the table of arms, so that arms may join or retire."""
        return bool(self.written["kind"] == "finite")

    def changed(self, joined: Mapping[str, Any] | None, retired: Sequence[int]) -> "ArmCatalog":
        """Return the catalog after some arms have joined and others have retired."""
        if not self.is_enumerable:
            return self
        n_before, new = len(self.written["rows"]), joined or {"rows": [], "names": []}
        names = None if self.names is None else [*self.names, *new["names"]]
        rows = [*self.written["rows"], *new["rows"]]
        here = [*self.keys, *range(n_before, len(rows))]
        here = [key for key in here if key not in set(retired)]
        present = None if here == list(range(len(rows))) else here
        written = {**self.written, "rows": rows, "names": names}
        if (table := self.written.get("table")) is not None:
            unknown = [[None] * len(new["rows"])] * len(table["columns"])
            columns = zip(table["columns"], new.get("table") or unknown, strict=True)
            grown = [{**column, "cells": [*column["cells"], *cells]} for column, cells in columns]
            written["table"] = {"n_fitted": n_before, **table, "columns": grown}
        return ArmCatalog(written, self.candidates, present)

    def read_joining(self, source: Any, *, name_column: str | None = None) -> FiniteArms:
        """Read arms from a file or a data frame by the rules of the arms that are there.

        Raises:
            InvalidInput: the arms are no list, or the table cannot be used.
        """
        if not self.is_enumerable:
            raise InvalidInput("arms can join a list of arms; this study has a set of arms that is no list.")
        read: FiniteArms = read_joining(source, self.written, name_column=name_column)
        return read

    @property
    def keys(self) -> Sequence[int]:
        """Keys of the arms that can be measured, if they are a list, in the order of the learner."""
        return range(len(self.written["rows"])) if self.present is None else self.present

    @property
    def names(self) -> Sequence[str] | None:
        """Names of all arms that ever joined, by row number; None if the arms have no names."""
        return self.written.get("names")

    @cached_property
    def rows_by_name(self) -> dict[str, int]:
        """Row numbers of all arms that ever joined, by name."""
        return {name: row for row, name in enumerate(self.names or ())}

    def is_present(self, key: ArmKey) -> bool:
        """Whether an arm can be measured now."""
        return self.row_of is None or key in self.row_of

    def label(self, key: ArmKey) -> str:
        """Return the name of an arm for people."""
        if isinstance(key, tuple | list):
            return "(" + ", ".join(f"{x:.6g}" for x in key) + ")"
        return str(key) if self.names is None else self.names[key]

    def key_of_arm(self, arm: Any) -> ArmKey:
        """Return the key of an arm that the learner names by its own row number or by a vector."""
        if isinstance(arm, np.ndarray):
            return tuple(arm.tolist())
        return int(arm if self.present is None else self.present[arm])

    def candidate_key(self, arm: Any) -> ArmKey:
        """Return the key of a candidate, which has a row number of its own if candidates are not arms."""
        return int(arm) if self.candidates is not None and not isinstance(arm, np.ndarray) else self.key_of_arm(arm)

    def key_label(self, key: ArmKey) -> str:
        """Return the name of a candidate for people."""
        if self.candidates is None or isinstance(key, tuple):
            return self.label(key)
        names = self.candidates.get("names")
        return f"candidate {key}" if names is None else str(names[key])

    def candidate_label(self, arm: Any) -> str:
        """Return the name of a candidate that the learner names by its own row number or by a vector."""
        return self.key_label(self.candidate_key(arm))

    def features(self, key: ArmKey) -> tuple[float, ...]:
        """Return the features of an arm."""
        if isinstance(key, tuple):
            return key
        if self.is_enumerable:
            return tuple(self.written["rows"][key])
        assert isinstance(self.arms, ArmSet)
        return tuple(self.arms.gather([key])[0].tolist())

    def recipe(self, key: ArmKey) -> dict[str, Any]:
        """Return an arm as its table has it, see `recipe_of`; of a vector there is none."""
        return {} if isinstance(key, tuple) else recipe_of(self.written, key, self.features(key))

    def check_row(self, key: int) -> None:
        """Check that an arm has or had this row number.

        Raises:
            InvalidInput: no arm has.
        """
        if isinstance(self.arms, VectorSet):
            raise InvalidInput(f"arms are vectors here ({self.arms.description}), got the row number {key}.")
        n = len(self.written["rows"]) if self.is_enumerable else self.arms.n_arms
        if key >= n:
            raise InvalidInput(f"`arm` must be a row number below {n}, got {key}.")

    @property
    def digest(self) -> str:
        """Hash of the arms that can be measured now."""
        if self.present is None:
            return digest_of(self.written)
        return digest_of({**self.written, "rows": [self.written["rows"][key] for key in self.present]})


def key_from(arm: Any) -> ArmKey:
    """Return the key that JSON writes in this way."""
    return tuple(arm) if type(arm) is list else arm


def plain_key(key: ArmKey) -> Any:
    """Return a key as JSON writes it."""
    return list(key) if isinstance(key, tuple) else key


ROUNDED = 1.0 - 1e-9
"""Other machines round sums differently: what was rejected on one of them is rejected on all."""


class Era(NamedTuple):
    """Arms, options and the learner of one era."""

    catalog: ArmCatalog
    options: Json
    learner: Learner
    numbers: dict[MeasurementId, ResultNumber] | None = None
    """The learner's numbers of measurements, by their ids; None: one less than the id."""
    before: "Era | None" = None
    """The era whose evidence was kept when this one began; None: what was measured before is guidance."""
    retired: tuple[ArmKey, ...] = ()
    """Arms that left when this era began."""

    def arm(self, key: Key) -> Any:
        """Return an arm as the learner takes it from users."""
        return key if self.catalog.row_of is None else self.catalog.row_of[key]

    def number(self, id_: MeasurementId) -> ResultNumber | None:
        """Return the learner's number of a measurement; None: the learner does not know it."""
        if self.numbers is not None:
            return self.numbers.get(id_)
        return ResultNumber(id_ - 1) if id_ <= len(self.learner.state.results) else None

    @property
    def kept(self) -> "Era | None":
        """The era before, if its evidence counts here: it did when this era began, and no correction has changed that.

        The era before ended between two blocks, and everything that retired was rejected at the price of this era
        (docs/guarantee.md, Theorem 9).
        """
        is_kept = self.before is not None and self.n_unfinished == 0 and not self.not_rejected
        return self.before if is_kept else None

    @property
    def n_unfinished(self) -> int:
        """Results that were missing in blocks that had begun when the era before ended; 0 after a verdict."""
        books = None if self.before is None else self.before.learner.state
        return 0 if books is None or books.stopped else books.ledger.n_unfinished

    @property
    def not_rejected(self) -> list[ArmKey]:
        """Arms that retired since evidence is kept and are not rejected at the price of this era."""
        price, found, era = _log_price(self.learner), list[ArmKey](), self
        while era.before is not None and self.catalog.candidates is None:
            log_wealth = _bets(era.before.learner).log_rejection() if era.retired else ()
            found += [key for key in era.retired if log_wealth[era.before.arm(key)] < ROUNDED * price]
            era = era.before
        return found

    @property
    def start(self) -> Start | None:
        """The evidence that the rule starts from; None: none."""
        if self.kept is None:
            return None
        rows: Any = np.arange(self.learner.task.rivals.n_arms)
        if self.catalog.candidates is None and self.catalog.is_enumerable:
            keys, were = self.catalog.keys, {key: row for row, key in enumerate(self.kept.catalog.keys)}
            rows = np.array([were.get(key, -1) for key in keys])
        return self.kept.learner.state.at_the_end(), rows

    @property
    def n_evidence(self) -> int:
        """Results that are evidence, those of earlier eras that are kept among them."""
        books, state = self.learner.state, self.learner.state.settled.state
        if not isinstance(state, BettingState | TargetsState):
            return len(books.values) - books.values.count(None)
        blocks = (block for told in books.results for block in told.closes if not block.is_cut)
        pulls = [n for block in blocks if (n := len(block.pulls(books.values)[0]))]
        earlier = books.n_earlier if state.counts_earlier and not books.is_guided else 0
        return sum(pulls[: state.n_blocks]) + (earlier if self.kept is None else self.kept.n_evidence)


def _bets(learner: Learner) -> BettingState:
    state = learner.state.at_the_end()
    assert isinstance(state, BettingState)
    return state


def _log_price(learner: Learner) -> float:
    """Return the log wealth that rejects a candidate."""
    state = learner.rule.start(learner.task)
    return state.log_price if isinstance(state, BettingState) else math.inf


def first_era(created: Mapping[str, Any], learner: Learner | None = None) -> Era:
    """Return the era that begins with a study; a learner that was made of the same event may be given."""
    catalog, options = ArmCatalog(created["arms"], created["candidates"]), created["options"]
    if learner is None:
        learner = _learner_in(catalog, options, earlier_of(options))
    return Era(catalog, dict(options), learner)


def era_after(state: "State", changes: Mapping[str, Any]) -> Era:
    """Return the next era of a study: its learner is guided by all results so far of arms that are still there.

    Args:
        state: of the study, which does not change.
        changes: arms that join and retire, and all options.

    Raises:
        InvalidInput: the era cannot begin with these changes.
    """
    options, before = changes["options"], state.options
    changed = changed_names(before, options)
    is_other = bool(
        [name for name in changed if name not in ("budget", "rounds")] or changes["joined"] or changes["retired"]
    )
    # Where nothing was chosen after a look, a rule that counts every result goes on with those it had.
    counts = not (is_other or state.learner.rule.begins_eras or state.learner.state.is_guided)
    catalog = state.roster.changed(changes["joined"], changes["retired"])
    learner = _learner_in(catalog, options, "evidence" if counts else "guidance")
    if is_other and not learner.rule.begins_eras:
        raise InvalidInput(
            f"stopping={learner.rule.name!r} counts what was measured before, and has no proof where arms or "
            "options were chosen after that; change the budget alone, or begin another study."
        )
    numbers: dict[MeasurementId, ResultNumber] = {}
    era = Era(catalog, dict(options), learner, numbers, retired=tuple(changes["retired"]))
    for one in state.measurements:
        if one.value is not None and catalog.is_present(one.arm):
            numbers[one.id] = ResultNumber(len(learner.state.results))
            learner.tell(era.arm(one.arm), one.value, ask="none", group=one.group or None)
    return era


def changed_names(before: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Return the names of options that are not as they were."""
    return [
        name
        for name in dict.fromkeys([*options, *before])
        if options.get(name, DEFAULTS.get(name)) != before.get(name, DEFAULTS.get(name))
    ]


def _learner_in(catalog: ArmCatalog, options: Mapping[str, Any], earlier: Earlier) -> Learner:
    candidates = None if catalog.candidates is None else read_arms(catalog.candidates, spans=False)
    return learner_of(catalog.arms, candidates, options, earlier)


def earlier_of(options: Mapping[str, Any]) -> Earlier:
    """Return how results count that are told before the first ask; in older logs they are evidence."""
    earlier: Earlier = options.get("earlier", "evidence")
    return earlier


def learner_of(arms: Any, candidates: Any, options: Mapping[str, Any], earlier: Earlier) -> Learner:
    """Return the learner of an era."""
    own = {name: value for name, value in options.items() if name not in ("algorithm", "own", "earlier")}
    if isinstance(own.get("reward_range"), list):  # as JSON has it; anything else the learner refuses
        own["reward_range"] = tuple(own["reward_range"])
    of_algorithm = {"edition": 1, **own, **options["own"]}  # a log that names no edition is one of edition 1
    return Learner(options["algorithm"], arms, candidates=candidates, earlier=earlier, **of_algorithm)


def described(learner: Learner, catalog: ArmCatalog | None = None) -> Json:
    """Return the description of a learner in the first event of its era.

    Bets rest on a belief in coordinates that are fixed before the first result: x R^-1 for an arm x, and a direction u
    there that is the level of all arms. A verifier of the bets takes the coordinates from here. Where features have
    gone with the arms that had them, R (rank, d) has the pseudo-inverse in the place of the inverse.

    Args:
        learner: of the era.
        catalog: of a later era, whose arms may have fewer features than the log.
    """
    white = learner.measured_arms
    coordinates = None
    if isinstance(white, WhitenedArms):
        arms = None if catalog is None or learner.task.model != "linear" else catalog.arms
        back = white.back
        if isinstance(arms, FiniteArms) and arms.dim < len(arms.basis):
            back = back @ arms.basis.T
        coordinates = {"back": back.tolist(), "level": white.level.tolist()}
    return {"identity": learner.identity, "rule": learner.rule.name, "coordinates": coordinates}


def changed_options(options: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """Return options as the log has them, some of them changed; unknown names are options of the algorithm."""
    changed = {**options, "own": dict(options["own"])}
    if odd := [name for name in ("arms", "candidates") if name in changes]:
        raise InvalidInput(f"`{odd[0]}` is no option that can be given here; arms can `join` and `retire`.")
    for name, value in changes.items():
        if name == "algorithm" and not isinstance(value, str):
            raise InvalidInput(f"a study keeps its algorithm by name, got {value!r}; register it and pass the name.")
        place = changed if (name in options or name in OPTIONS) and name != "own" else changed["own"]
        kept = value
        if isinstance(value, list | tuple | np.ndarray | np.generic):
            try:
                numbers = np.asarray(value)
            except ValueError:
                raise InvalidInput(f"`{name}` must have rows of equal length, got {reprlib.repr(value)}.") from None
            kept = numbers.tolist() if numbers.dtype.kind in "bifu" else kept
        place[name] = list(kept) if isinstance(kept, tuple) else kept
    later = [name for name, option in OPTIONS.items() if option.in_log == "if set"]
    return {name: value for name, value in changed.items() if name not in later or value != DEFAULTS[name]}


def next_era(state: "State", join: Any, retired: Sequence[ArmKey], changes: Mapping[str, Any]) -> Json:
    """Return arms and options of the next era, with these changes to the present one.

    Raises:
        InvalidInput: a change is not possible, or nothing changes in a study that is not over.
    """
    roster = state.roster
    if why := next(_not_changed(state, join, retired, changes), None):
        raise InvalidInput(why)
    joined, options = None if join is None else _joined(roster, join), changed_options(state.options, changes)
    if not state.stopped and state.can_ask and not (joined or retired) and options == state.options:
        raise InvalidInput(
            "the study is not over: go on measuring, because a new era would begin without evidence; to reopen it, say "
            "which arms or options change."
        )
    if "budget" not in changes and (budget := options["budget"]) is not None:
        left = state.learner.state.budget_left  # the budget of an era counts from its beginning
        if left <= 0.0:
            raise InvalidInput(f"the budget of {budget:g} is spent; say by `budget` how much more may be spent.")
        options = {**options, "budget": left}
    if "rounds" not in changes and (rounds := options.get("rounds")) is not None:
        # A batch of which a measurement was made has begun, and belongs to the era that ends.
        if not (left := math.floor(state.learner.state.budget_left / options["batch"])):
            raise InvalidInput(f"all {rounds} rounds are measured; say by `rounds` how many more there may be.")
        options = {**options, "rounds": left}
    of_arms = [name for name in ("noise_std", "costs") if isinstance(options[name], list)]
    if (retired or joined) and (kept := [name for name in of_arms if name not in changes]):
        raise InvalidInput(f"`{kept[0]}` has one number for each arm, and the arms change; pass it again for all arms.")
    return {"joined": joined, "retired": retired, "options": _with_own_order(state, options, changes)}


def _not_changed(state: "State", join: Any, retired: Sequence[ArmKey], changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield what these changes would touch that stays as it is."""
    roster = state.roster
    if state.learner.spec.items:
        yield "a study of a pool has one era, in which every item is asked once in random order; begin another study."
    if "earlier" in changes:
        yield "`earlier` is fixed when a study begins: in later eras results from before are guidance."
    if (retired or join is not None) and not roster.is_enumerable:
        yield f"arms can join or retire in a list of arms, got {state.learner.measured_arms.description}."
    if gone := [roster.label(key) for key in retired if not roster.is_present(key)]:
        yield f"arm {gone[0]} is retired already."


def needs_order(options: Mapping[str, Any]) -> bool:
    """Return whether a proof with these options rests on the random order of blocks."""
    noise, drift = NAMED.get(str(options["noise"])), options.get("drift", 0.0)
    return (noise is not None and noise.needs_order) or (isinstance(drift, int | float) and drift > 0.0)


def _with_own_order(state: "State", options: Json, changes: Mapping[str, Any]) -> Json:
    """Return options with a seed that no earlier era had, if the proof rests on the random order of blocks.

    The seed and the number of an ask give the order, and asks are numbered anew. With the same seed an era would repeat
    the orders of an earlier one, which are known by now (docs/guarantee.md, Theorem 27).
    """
    if not needs_order(options):
        return options
    seeds = [event["options"]["seed"] for event in state.eras]
    if "seed" not in changes:
        return {**options, "seed": max(seeds) + 1}
    if options["seed"] in seeds:
        raise InvalidInput(
            f"`seed` must be another than in earlier eras, because the proof rests on the random order of blocks, got "
            f"{options['seed']}; leave it out."
        )
    return options


def _joined(roster: ArmCatalog, join: Any) -> Json:
    """Return rows that are added to the arms, with names if the others have names."""
    if isinstance(join, Mapping):
        join = FiniteArms.rows_only([*join.values()], names=[*join], least=1, argument="join")
    if isinstance(join, str | PathLike) or hasattr(join, "columns"):
        join = roster.read_joining(join)
    rows = join if isinstance(join, FiniteArms) else FiniteArms.rows_only(join, least=1, argument="join")
    if rows.dim != (dim := len(roster.written["rows"][0])):
        raise InvalidInput(f"arms that join must have {dim} features as the others have, got {rows.dim}.")
    if (roster.names is None) is not (rows.names is None):
        raise InvalidInput("arms that join must have names if the others have them; pass {name: features}.")
    if rows.names is not None and (taken := set(rows.names) & set(roster.names or ())):
        raise InvalidInput(f"the name {min(taken)!r} is taken by an arm of the study; choose another.")
    for name in rows.names or ():
        check_line("the name of an arm", name)
    joined = {"rows": rows.X.tolist(), "names": [] if rows.names is None else list(rows.names)}
    table = getattr(rows, "table", None)
    return joined if table is None else {**joined, "table": [column["cells"] for column in table["columns"]]}
