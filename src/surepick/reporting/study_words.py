"""Words about a study that the command line and the pages of a server share.

`surepick.learning.explain` has the sentences about results. No mathematics is loaded, so `--help` stays quick.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from surepick._texts import counted, joined
from surepick.errors import InvalidInput
from surepick.learning.groups import GroupEffect, GroupLabel, group_label, label_text

if TYPE_CHECKING:
    from surepick.learning.snapshot import Snapshot
    from surepick.study.state import Measurement, State

WORDS = {
    "new": "nothing is asked yet",
    "measuring": "measuring",
    "stopped": "decided",
    "withdrawn": "withdrawn: the data contradict the assumptions of the answer",
    "spent": "the budget is spent",
    "unreadable": "unreadable",
}
"""Words for each state of a study."""
MISTYPED = "mistyped, by the notes"
"""The reason of a correction at entry."""
NOT_USABLE = "No answer of this study must be used. Its data are not lost: they guide a new study."
IF_SLIP = (
    "Look at your notes for the measurement that stands apart. If it was mistyped, correct it: nothing else is needed. "
    "If not, no answer of this study must be used; its data guide a new study."
)
"""About a study whose answer is withdrawn; the second where one value may be to blame."""
WITH_OFFSETS = (
    'Go on with an offset for every group: an administrator presses "Go on with offsets". The results so far guide the '
    "plan."
)
N_MEANS = 3
"""Arms that are named with their own means."""
MOST_GROUPS = 4
"""Groups of one factor that are named; of more, the two ends."""
N_RECENT = 10
"""Measurements before one that was not asked for, among which the same value may be the same measurement."""
N_WAITED = 3
"""Asks that are named where the proof waits."""


def course_words(state: "State", now: "Snapshot") -> dict[str, str]:
    """Return how far a study has come by its own limits, and what it allows for: short entries, each under a word."""
    learner, said = state.learner, dict[str, str]()
    spec, books = learner.spec, learner.state
    is_all = ", all of it will be measured" if learner.task.spends_all else ""
    if spec.rounds is not None:
        said["batches"] = f"{min(books.ledger.n_opened, spec.rounds)} of {spec.rounds} planned, each of {spec.batch:,}"
        said["batches"] += is_all
    elif spec.batch is not None:
        said["batches"] = f"{books.ledger.n_opened:,} planned, each of {spec.batch:,}"
    elif learner.budget is not None:
        said["budget"] = f"{learner.budget - books.budget_left:,.6g} of {learner.budget:,.6g} asked for{is_all}"
    if learner.task.pool is not None:
        said["items"] = f"{books.ledger.n_opened:,} of {learner.task.pool:,} asked"
    elif apart := apart_words(now.groups):
        said["groups"] = f"{'offsets are allowed for' if now.has_offsets else 'watched'}; {apart} (estimates)"
    elif now.has_offsets:
        said["groups"] = "days, benches or plates may read high or low; give each ask or value its label"
    if learner.noise_model.needs_order:
        said["order"] = "measure in the order of the asks: the proof rests on it"
    return said


def apart_words(groups: "Sequence[GroupEffect]") -> str:
    """Say how far groups read apart: every group of a factor, or its ends where there are many; "" if unknown."""
    factors: dict[str, list[GroupEffect]] = {}
    for one in groups:
        if math.isfinite(one.offset):
            factors.setdefault(one.label[0][0], []).append(one)
    said = []
    for some in factors.values():
        ranked = sorted(some, key=lambda one: -one.offset)
        told = [f"{label_text(one.label)} {one.offset:+.2g}" for one in ranked]
        if len(told) > MOST_GROUPS:
            said.append(f"{told[0]} to {told[-1]}, {len(told)} in all")
        elif len(told) > 1:
            said.append(", ".join(told))
    return "; ".join(said)


def recipe_cells(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return the recipe of an arm as people read it: every column that has a value, numbers with six digits."""
    told = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in recipe.items()}
    return {name: told[name] for name, value in recipe.items() if value is not None}


def recipe_words(recipe: Mapping[str, Any]) -> str:
    """Return the recipe of an arm in a line: every column with its value, in quotation marks if it has a list."""
    from surepick.arms.tables.columns import quoted  # noqa: PLC0415 (`--help` stays quick)

    cells = recipe_cells(recipe)
    return ", ".join(f"{quoted(name)} {repr(cell) if ', ' in cell else cell}" for name, cell in cells.items())


def when(time: str | None) -> str:
    """Return a time of the log in local time; None is "for ever"."""
    if time is None:
        return "for ever"
    moment = datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).astimezone()
    now = datetime.now(UTC).astimezone()
    if moment.date() == now.date():
        return f"today {moment:%H:%M}"
    return f"{moment:%d %b %H:%M}" if moment.year == now.year else f"{moment:%d %b %Y}"


def remark_of(one: "Measurement") -> str:
    """Say whether a measurement is corrected or void, and why; "" if it counts as it was told."""
    why = {str(change.kind): change.reason for change in one.changes}  # the last reason of each kind
    said = [f"corrected, was {one.told:.12g}: {why['corrected']}"] if "corrected" in why else []
    return "; ".join([*said, f"void: {why['voided']}"] if one.is_void else said)


def told_words(state: "State", told: "Sequence[Measurement]", n_before: int) -> Iterator[str]:
    """Yield a sentence for each value: the ask that the value answers."""
    for one in told:
        answers = f"answers ask {one.ask}" if one.ask is not None else "not asked for, kept all the same"
        if one.ask is not None and state.attempts[one.ask].results[0] != one.id:
            answers = f"further to ask {one.ask}"
        if not state.roster.is_present(one.arm):
            answers = "of an arm that is retired: kept, without weight"
        label = f", {label_text(one.group)}" if one.group else ""
        before = _before(one) if one.id <= n_before else ""
        yield f"{state.roster.label(one.arm)} = {one.told:.12g} (measurement {one.id}{label}, {answers}{before})."


def _before(one: "Measurement") -> str:
    """Say that a value was told before, and what it counts as."""
    if one.is_void:
        return ", was told before and is void since: it stays void"
    if one.is_corrected:
        return f", was told before and corrected since: it stays {one.last:.12g}"
    return ", was told before: nothing changed"


def failed_words(state: "State", ask: int, *, was_open: bool) -> str:
    """Say that an ask is given up."""
    again = "is given up; it will be asked for again" if was_open else "was given up before: nothing changed"
    return f"Ask {ask} ({state.roster.label(state.attempts[ask].arm)}) {again}."


def waiting_words(state: "State", *, names_command: bool = False) -> str:
    """Say for which asks the proof waits while later results are in, and what to do; "" if it waits for none."""
    ledger, said = state.learner.state.ledger, list[str]()
    numbers = [] if state.stopped else state.learner.state.waits_for
    asks = [one for one in state.open.values() if one.era == state.era and one.number in {*numbers}]
    if asks:
        named = "; ".join(f"ask {one.id} of {one.by}, open since {when(one.at)}" for one in asks[:N_WAITED])
        how = f" (surepick fail {asks[0].id})" if names_command else ""
        said.append(
            f"The proof waits for {named}{_more(asks)}: later results do not enter it before. Record the value, or "
            f"give up the ask{how}, so that another worker gets it."
        )
    is_open = {one.number for one in asks}
    arms = [arm for number in numbers if number not in is_open and (arm := ledger.arm_of(number)) is not None]
    if arms:
        names = f"{', '.join(state.roster.label(state.key_of(arm)) for arm in arms[:N_WAITED])}{_more(arms)}"
        what, were, it = ("A measurement", "was", "it") if len(arms) == 1 else ("Measurements", "were", "them")
        after = f" after {counted(ledger.n_left, 'planned ask')}" if ledger.n_left else ""
        said.append(
            f"{what} of {names} {were} given up, and the proof waits for {it}: later results enter it afterwards. "
            f"surepick asks for {it} again{after}."
        )
    return " ".join(said)


def _more(waited: "Sequence[object]") -> str:
    """Count those for which the proof waits, beside those that are named."""
    return f", and {len(waited) - N_WAITED} more" if len(waited) > N_WAITED else ""


def done_words(state: "State", action: str, number: int) -> str:
    """Say what a form of a page has done, by the number that it is about."""
    match action:
        case "ask":
            return f"{counted(number, 'ask')} for you." if number else "There is nothing to ask for."
        case "tell":
            return _receipt(state, number)
        case "fail":
            return failed_words(state, number, was_open=True)
        case "audit":
            return f"{counted(number, 'check pull')} planned; the next asks are theirs."
        case "reopen":
            return f"Era {number} has begun."
    one = state.measurement(number)
    counts = "does not count" if one.is_void else f"counts as {one.last:.12g}"
    return f"Measurement {number} ({state.roster.label(one.arm)}) {counts}; all is worked out again."


def told_with(state: "State", id_: int) -> "list[Measurement]":
    """Return the measurements that were told together, of which the first is `id_`."""
    first = state.measurement(id_)
    what = attrgetter("at", "by", "arm", "ask", "key")
    return list(takewhile(lambda one: what(one) == what(first), state.measurements[id_ - 1 :]))


def _receipt(state: "State", id_: int) -> str:
    """Say what was recorded: every value; and where it may be a measurement that was recorded before, which one."""
    told = told_with(state, id_)
    said = [next(told_words(state, told, 0))]
    if len(told) > 1:
        which = f"measurement {id_ + 1}" if len(told) == 2 else f"measurements {id_ + 1} to {told[-1].id}"
        said.append(f"Also recorded: {joined([f'{one.told:.12g}' for one in told[1:]])} ({which}).")
    elif told[0].ask is None and not state.learner.noise_model.is_binary:
        recent = state.measurements[max(id_ - 1 - N_RECENT, 0) : id_ - 1]
        same = [one.id for one in recent if (one.arm, one.told, one.is_void) == (told[0].arm, told[0].told, False)]
        if same:
            said.append(
                f"The same value was recorded as measurement {same[-1]}; void one if it is the same measurement."
            )
    return " ".join(said)


def steps_to_check(head: tuple[int, str], downloads: str = "", commands: str = "") -> list[tuple[str, str]]:
    """Return how a reader checks the page of a study.

    Args:
        head: number and hash of the last event.
        downloads: with which the names of downloaded files begin.
        commands: write the certificate and the log, in place of downloads.
    """
    first = [("The certificate and the log of the study:", commands)] if commands else []
    both = "both files" if commands else "certificate and log of the study, as CSV"
    start = f"{downloads}-" if downloads else ""
    check = f'surepick verify "{start}certificate.json" --log "{start}log.csv"'
    return [
        *first,
        (f"With {both}, anyone can work everything out again:", check if start else check.replace('"', "")),
        ("This page is of the log that ends with:", "event {}, hash {}".format(*head)),
    ]


def own_means(state: "State") -> str:
    """Return the arms with the highest means of their own results, highest first; "" without results."""
    values: dict[Any, list[float]] = {}
    for one in state.measurements:
        if one.value is not None and state.roster.is_present(one.arm):
            values.setdefault(one.arm, []).append(one.value)
    means = sorted(((sum(some) / len(some), len(some), arm) for arm, some in values.items()), reverse=True)[:N_MEANS]
    return ", then ".join(
        f"{state.roster.label(arm)} has {mean:.4g} ({n} pull{'' if n == 1 else 's'})" for mean, n, arm in means
    )


def typed_number(text: str, name: str = "a measured value") -> float:
    """Return the number that a person typed for something; a decimal comma is read as a point."""
    from surepick.arms.tables.sources import is_grouped, parse_number, without_unit  # noqa: PLC0415 (quick `--help`)

    value = parse_number(text)
    if value is not None:
        return value
    if is_grouped(text) and text.count(",") == 1:
        raise InvalidInput(f"{text!r} could be {text.replace(',', '.')} or {text.replace(',', '')}; write one of them.")
    raise InvalidInput(
        f"{name} must be a number, got {repr(text) if text else 'nothing'}; write decimals as 0.53 or 0,53"
        f"{without_unit(text)}."
    )


_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\s\d{3})+(?:[.,]\d+)?(?!\S)")
"""A number with spaces between its thousands, such as 1 234,5; or several values."""


def typed_numbers(text: str) -> list[float]:
    """Return the values that a person typed, between them spaces or semicolons.

    Raises:
        InvalidInput: a value is no number, or several may be one with spaces between its thousands.
    """
    from surepick.arms.tables.sources import is_grouped, parse_number  # noqa: PLC0415 (`--help` stays quick)

    for part in map(str.strip, text.split(";")):
        if (found := _THOUSANDS.match(part)) and not _THOUSANDS.sub("", part).strip():
            one = found[0].replace(",", ".").split()
            raise InvalidInput(
                f"{found[0]!r} could be one value or {len(one)}; write {''.join(one)!r} for one value, or "
                f"{'; '.join(one)!r} for {len(one)} values."
            )
    parts = text.replace(";", " ").split()
    if len(parts) > 1 and any(parse_number(one) is None and not is_grouped(one) for one in parts):
        raise InvalidInput(
            f"a measured value must be a number without its unit, and several have spaces between them, got {text!r}; "
            "write decimals as 0.53 or 0,53."
        )
    return [typed_number(one) for one in parts]


def typed_group(text: str) -> GroupLabel:
    """Return the label that a person typed: "day 3", or "day=3, bench=B"; none for an empty text."""
    if "=" not in text:
        return group_label(text.strip() or None)
    pairs = [part.partition("=") for part in text.split(",")]
    return group_label([(factor, level) for factor, _, level in pairs])
