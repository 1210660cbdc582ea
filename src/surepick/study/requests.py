"""Requests to a study: which ask, arm or value is meant, and which events follow.

`Study` opens a transaction for each request; the functions here check the request against the state and write.
"""

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from surepick._texts import counted
from surepick.core.checks import check_count, check_number, check_vector
from surepick.errors import Conflict, InvalidInput, what_was_meant
from surepick.learning.groups import ITEM, GroupLabel, check_fixed, group_label, label_text, written_label
from surepick.learning.noise_models import ENOUGH_BINARY
from surepick.learning.questions import (
    Question,
    binary_words,
    learns_noise,
    question_about,
)
from surepick.study.eras import Key, earlier_of, plain_key
from surepick.study.events import Kind
from surepick.study.log import LogTransaction
from surepick.study.state import AskRecord, AskState, Measurement, State
from surepick.study.views import reason_for

BINARY_HERE = 'rewards="binary", here by study.reopen(rewards="binary", reason="pass/fail")'
PASS_FAIL = f"this looks like pass/fail: use {BINARY_HERE}."
"""About True or False where numbers are due."""


@final
@dataclass(frozen=True, slots=True)
class StudyAsk:
    """A measurement that a worker is asked for."""

    id: int
    """By which the result is told."""
    arm: Key
    """Row number, or the entries of a vector."""
    name: str
    features: tuple[float, ...]
    until: str | None
    """When it is given to another worker, in UTC; a result is welcome after that too."""
    reason: str
    """Why this arm, in words."""
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The arm as its table has it, column by column, levels in words; empty for a vector."""
    group: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where and when to measure it, if that was said: factors with their levels, such as {"day": "3"}."""

    @property
    def item(self) -> str | None:
        """The item to measure it on, such as a question: that of a pool, or the one that the ask was made with."""
        return self.group.get(ITEM)


# ---- checks


def check_text(name: str, value: Any) -> str:
    """Check that a value is a line of text."""
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidInput(f"`{name}` must be a line of text, got {value!r}.")
    return value


def check_value(state: State, value: Any) -> float:
    """Check that a value is one result."""
    if isinstance(value, bool | np.bool_) and not state.learner.is_binary:
        raise InvalidInput(f"`value` must be one measured number, got {value!r}; {PASS_FAIL}")
    return check_number("value", value, needed="one measured number", takes_booleans=state.learner.is_binary)


def values_in(value: Any) -> list[Any]:
    """Return the values of a request: one value, or several of one arm."""
    is_one = not isinstance(value, Iterable) or isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0
    values = [value] if is_one else list(value)
    if value is None or not values:
        raise InvalidInput(
            f"`value` must be a number, or a list of at least one number, got {value!r}; an ask without a value can "
            "`fail`."
        )
    return values


def changed_value(state: State, kind: Kind, n: int, value: Any) -> float | None:
    """Return the value that a measurement is corrected to; None if it is voided or restored."""
    if kind is not Kind.CORRECTED:
        return None
    number = check_value(state, value)
    if state.measurement(n).value == number:
        raise InvalidInput(f"measurement {n} is {number:.12g} already; there is nothing to correct.")
    return number


def find_arm(state: State, arm: Any) -> Key:
    """Return the key of an arm that is given by its name, its row number, or its vector."""
    if isinstance(arm, str):
        named = state.catalog.rows_by_name
        if arm in named:
            return named[arm]
        if named:
            raise InvalidInput(f"there is no arm {arm!r}; {what_was_meant(arm, named, 'arms')}")
        arm = _unnamed(arm)
    if isinstance(arm, np.ndarray | list | tuple):
        arms = state.learner.measured_arms
        if arms.is_enumerable:
            raise InvalidInput(f"`arm` must be a name or a row number where arms are a list, got {reprlib.repr(arm)}.")
        return arms.key_of(arms.number_of(tuple(check_vector("arm", arm, arms.dim).tolist())))
    key = check_count("arm", arm, least=0)
    state.catalog.check_row(key)
    return key


def _unnamed(text: str) -> Any:
    """Return the arm that a text means where arms have no names: a row number, or the entries of a vector."""
    try:
        return int(text) if text.strip().isdecimal() else [float(entry) for entry in text.strip("() ").split(",")]
    except ValueError:
        raise InvalidInput(
            f"there is no arm {text!r}; they have no names here, so give its row number, or of a vector the entries "
            "with commas between them, as in 0.6,-0.8."
        ) from None


def find_ask(state: State, ask: int | StudyAsk) -> AskRecord:
    """Return the record of an ask that is given by its id, or as `Study.ask` returned it."""
    id_ = ask.id if isinstance(ask, StudyAsk) else ask
    one = state.attempts.get(id_) if type(id_) is int else None
    if one is None:
        shown = ", ".join(map(str, list(state.open)[:8]))
        raise InvalidInput(f"there is no ask {id_!r}; {f'the open asks are {shown}' if shown else 'no ask is open'}.")
    if isinstance(ask, StudyAsk) and ask.arm != one.arm:
        raise Conflict(f"ask {one.id} is of arm {state.catalog.label(one.arm)} in this study, got one of {ask.name}.")
    return one


def find_untold(state: State, ask: int | StudyAsk) -> AskRecord:
    """Return the record of an ask without a result, which can be given up."""
    one = find_ask(state, ask)
    if one.state is AskState.TOLD:
        results = ", ".join(map(str, one.results))
        raise Conflict(f"ask {one.id} has a result; `void` measurement {results} if it does not count.")
    return one


# ---- asks


def shown(state: State, one: AskRecord) -> StudyAsk:
    """Return an ask for the worker."""
    label, features = state.catalog.label(one.arm), state.catalog.features(one.arm)
    reason, recipe = reason_for(state, one), state.catalog.recipe(one.arm)
    return StudyAsk(one.id, one.arm, label, features, one.until, reason, recipe, dict(one.group))


def ask(
    transaction: LogTransaction, n: int, *, worker: str | None, until: str | None, group: GroupLabel = ()
) -> list[StudyAsk]:
    """Give n asks to a worker: its open asks first, then new ones; plan blocks where they are needed.

    With a label, open asks of other labels stay open: they were measured elsewhere, and their results may still come.
    """
    state = transaction.state
    own = [one for one in state.open.values() if worker is not None and one.by == worker]
    has_items = bool(state.learner.spec.items)
    if has_items and ITEM in dict(group):
        raise InvalidInput(f"the items of a pool are asked in random order, got {label_text(group)!r}; leave it out.")
    asked = [one for one in own if one.group == group or not group or (has_items and {*group} <= {*one.group})][:n]
    while len(asked) < n and state.can_ask:
        if (plan := state.propose_plan(ends=(n - len(asked), n) if group else None)) is not None:
            transaction.write(Kind.PLANNED, **plan)
            transaction.write_verdict()  # earlier results may be enough
            continue
        fields = state.propose_asks(n - len(asked))
        if not fields["asks"]:
            break
        transaction.write(Kind.ASKED, **fields, until=until, **written_label(group))
        asked += [state.attempts[id_] for id_ in range(fields["ask"], len(state.attempts) + 1)]
    return [shown(state, one) for one in asked]


# ---- results


def tell(
    transaction: LogTransaction,
    of: int | StudyAsk | None,
    arm: Any,
    given: Sequence[Any],
    key: str | None,
    group: GroupLabel = (),
) -> list[Measurement]:
    """Write results of one arm, unless they were told before."""
    state = transaction.state
    values = [check_value(state, value) for value in given]
    one = None if of is None else find_ask(state, of)
    told = find_arm(state, arm) if one is None else one.arm
    if key is not None and check_text("key", key) in state.by_key:
        before = state.by_key[key]
        first = state.measurement(before[0])
        if first.arm != told or (one is not None and first.ask != one.id):
            named = f"arm {state.catalog.label(first.arm)}" + ("" if first.ask is None else f" (ask {first.ask})")
            raise Conflict(f"key {key!r} names a result of {named} already; choose another key.")
        return _told_already(state, before, values, f"key {key!r}", group=group)
    if one is None:
        # Not the ask of another, who will have a result of it too.
        own = [each for each in state.open.values() if each.arm == told and each.by == transaction.by]
        alike = [each for each in own if not group or each.group in ((), group)]
        one = next(iter(alike or own), None)
    elif one.results:
        return _told_already(state, one.results, values, f"ask {one.id}", is_ask=True, group=group)
    if one is not None and group:
        group = check_fixed(f"ask {one.id}", one.group, group)
    label = one.group if one is not None and not group else group
    results = [(told, value, label) for value in values]
    return _write_results(transaction, None if one is None else one.id, results, key)


def tell_earlier(transaction: LogTransaction, pairs: Sequence[Sequence[Any]], key: str | None) -> list[Measurement]:
    """Write unsolicited results, (arm, value) or (arm, value, group), unless they were told before."""
    state = transaction.state
    arms = [find_arm(state, arm) for arm, *_ in pairs]
    if key is not None and check_text("key", key) in state.by_key:
        before = state.by_key[key]
        if [state.measurement(id_).arm for id_ in before] != arms:
            raise Conflict(f"key {key!r} names results of other arms already; choose another key.")
        return _told_already(state, before, [check_value(state, one[1]) for one in pairs], f"key {key!r}")
    if pairs and earlier_of(state.options) == "guidance":
        state.learner.state.refuse_guidance()
    results = [
        (arm, check_value(state, value), group_label(*group))
        for arm, (_, value, *group) in zip(arms, pairs, strict=True)
    ]
    if key is None and (told := state.told_together([one[:2] for one in results])):
        raise Conflict(
            f"these {counted(len(told), 'result')} were told before, as measurement {told[0].id} and following, and "
            "would count twice; if they are further measurements, tell them with a key."
        )
    return _write_results(transaction, None, results, key)


def _write_results(
    transaction: LogTransaction, ask_id: int | None, results: Sequence[tuple[Key, float, GroupLabel]], key: str | None
) -> list[Measurement]:
    state, first = transaction.state, len(transaction.state.measurements)
    for arm, value, _ in results if len(results) > 1 else ():  # refused before anything is written
        if state.catalog.is_present(arm):
            state.learner.noise_model.checked("reward", value, state.number_of(arm))
    named = {} if key is None else {"key": key}
    worker = None if state.group_by is None else transaction.by
    for arm, value, group in results:
        label = group if worker is None else group_label(group, worker=worker)
        fields = {"ask": ask_id, "arm": plain_key(arm), "value": value, **named, **written_label(label)}
        transaction.write(Kind.TOLD, measurement=len(state.measurements) + 1, **fields)
        transaction.write_verdict()
    return state.measurements[first:]


def _told_already(
    state: State,
    ids: Sequence[int],
    values: Sequence[float],
    what: str,
    *,
    is_ask: bool = False,
    group: GroupLabel = (),
) -> list[Measurement]:
    """Return the measurements told before, if they had these values at first; those of an ask, also if they do now."""
    told = [state.measurement(id_) for id_ in ids]
    if not {*group} <= {*told[0].group}:
        was = f"the group {label_text(told[0].group)!r}" if told[0].group else "no group"
        raise Conflict(
            f"{what} has a result with {was} already (measurement {ids[0]}), got {label_text(group)!r}; the label "
            "that was told first stays. If it is wrong, void the measurement; a further one is told by the arm."
        )
    counting = [one.last for one in told]
    if values != [one.told for one in told] and not (is_ask and values == counting):
        was, now = (", ".join(f"{value:.12g}" for value in row) for row in (counting, values))
        raise Conflict(
            f"{what} has the result {was} already (measurement {ids[0]}), got {now}; if that was a mistake, correct "
            "it by `correct`, giving the reason; if it is a further measurement, tell it by the arm."
        )
    return told


# ---- questions about results


def question(state: State, id_: int, *, is_new: bool = False) -> Question | None:
    """Return the question that a measurement raises; None if it fits the others, is void, or its arm is retired.

    Args:
        state: of the study.
        id_: of the measurement.
        is_new: whether no question was asked since it was told.
    """
    one = state.measurement(id_)
    if one.value is None or not state.catalog.is_present(one.arm):
        return None

    def others() -> list[float]:
        return [each.value for each in state.measurements if each.value is not None and each.id != id_]

    return question_about(state.learner, state.number_of(one.arm), one.value, others, is_new=is_new)


def is_pass_or_fail(state: State, value: Any) -> bool:
    """Return whether a value is True or False where numbers are due, and all values so far are 0 or 1."""
    if not isinstance(value, bool | np.bool_) or not learns_noise(state.learner):
        return False
    return sum(state.n_of_value.values()) == len(state.measurements)


def turned_binary(state: State, n_before: int) -> bool:
    """Return whether it shows by the measurements after `n_before` that all values are 0 or 1."""
    n, of_value = len(state.measurements), state.n_of_value
    if not learns_noise(state.learner) or n < ENOUGH_BINARY or sum(of_value.values()) < n or not all(of_value.values()):
        return False
    told = [one.last for one in state.measurements[n_before:]]
    return n_before < ENOUGH_BINARY or any(told.count(value) == of_value[value] for value in of_value)


def remarks(state: State, n_before: int, *, questions: bool) -> Iterator[str]:
    """Yield what to say in Python about the measurements after `n_before`; see `Study.tell`."""
    told = state.measurements[n_before:]
    for one in told if questions else ():
        if (found := question(state, one.id, is_new=len(told) == 1)) is not None:
            yield found.words(f'study.correct({one.id}, {found.right}, reason="mistyped")')
    if turned_binary(state, n_before):
        yield binary_words(BINARY_HERE)
