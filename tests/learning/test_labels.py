"""Labels of groups on their way from people to the settlement."""

from datetime import date
from typing import Any

import numpy as np
import pytest

from surepick import InvalidInput, Learner, PullFailed, Result, identify
from surepick.learning.assumptions import assumptions
from surepick.learning.groups import group_label, label_text

DAY_3 = (("group", "day 3"),)
B_3 = (("bench", "B"), ("day", "3"))
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])


def learner(**options: Any) -> Learner:
    """Return a learner of three arms."""
    return Learner("lazy-track-and-stop", ARMS, noise_std=1.0, **options)


def results_of(one: Learner) -> list[Any]:
    """Return the labels of all results."""
    return [told.group for told in one.state.results]


@pytest.mark.parametrize(
    ("given", "label", "words"),
    [
        ("day 3", DAY_3, "day 3"),
        (" day 3 ", DAY_3, "day 3"),
        ({"day": 3, "bench": "B"}, B_3, "bench B, day 3"),
        ({"day": np.int64(3), "bench": np.str_("B")}, B_3, "bench B, day 3"),
        ({"day": 3.0, "bench": "B"}, B_3, "bench B, day 3"),
        (B_3, B_3, "bench B, day 3"),
        ([["day", "3"], ["bench", "B"]], B_3, "bench B, day 3"),
        (3, (("group", "3"),), "3"),
        ({"day": date(2026, 11, 18)}, (("day", "2026-11-18"),), "day 2026-11-18"),
        (None, (), ""),
        ({}, (), ""),
    ],
)
def test_spellings(given: Any, label: Any, words: str) -> None:
    """One label has one form however it is given."""
    assert group_label(given) == label
    assert label_text(label) == words


def test_item_and_worker() -> None:
    """Item and worker are factors of a label."""
    assert group_label({"day": 3}, item=17, worker="ann") == (("day", "3"), ("item", "17"), ("worker", "ann"))
    assert group_label("monday", item="q17") == (("group", "monday"), ("item", "q17"))
    with pytest.raises(InvalidInput, match="two levels of 'item'"):
        group_label({"item": "q16"}, item="q17")


@pytest.mark.parametrize(
    "given",
    [
        *("", "  ", "a\nb", "a\x1b[2J", "x" * 201, {"": "B"}, {"day": ""}, {3: "B"}, {"day": None}, {"day": [1]}),
        *(True, {"day": True}, float("nan"), ("a", "b"), {f"f{n}": 1 for n in range(9)}, [["day", "3"], ["day", "4"]]),
    ],
)
def test_refusals(given: Any) -> None:
    """What is no label is refused with what is needed."""
    with pytest.raises(InvalidInput, match='`group` must be a text such as "day 3", or factors'):
        group_label(given)


def test_asked_label() -> None:
    """A label of an ask comes back and is the label of its result."""
    one = learner()
    asks = one.next_asks(3, group={"day": 3, "bench": "B"})
    assert [ask.group for ask in asks] == [B_3] * 3
    one.tell(asks[0].arm, 0.1, ask=asks[0].number)
    one.tell(asks[1].arm, 0.2, ask=asks[1].number, group=B_3)
    one.tell(asks[2].arm, 0.3)
    assert results_of(one) == [B_3] * 3
    (plain,) = one.next_asks()
    one.tell(plain.arm, 0.4, group="day 3")
    assert plain.group == ()
    assert results_of(one)[3:] == [DAY_3]


def test_fixed_label() -> None:
    """A label that could react to the value of its measurement has no proof."""
    one = learner()
    (ask,) = one.next_asks(1, group="day 3")
    before = list(one.log)
    for named in ({"ask": ask.number}, {}):
        with pytest.raises(InvalidInput, match=r"group 'day 3'.* got 'day 4'"):
            one.tell(ask.arm, 0.1, group="day 4", **named)
    assert list(one.log) == before
    one.tell(ask.arm, 0.1, ask="none", group="day 4")  # a further measurement
    assert results_of(one) == [(("group", "day 4"),)]


def test_answers_its_label() -> None:
    """A result with a label answers the oldest ask with that label."""
    one = learner(model="unstructured")
    asks = [*one.next_asks(3, group="day 3"), *one.next_asks(3, group="day 4")]
    late = next(ask for ask in asks[3:] if ask.arm == asks[0].arm)
    one.tell(late.arm, 0.5, group="day 4")
    assert one.state.ledger.n_complete == asks[0].number
    with pytest.raises(InvalidInput, match=f"ask {late.number} has its result already"):
        one.tell(late.arm, 0.5, ask=late.number)


def test_failed_ask() -> None:
    """An ask that failed is made again on another day."""
    one = learner()
    asks = one.next_asks(one.n_planned or 4, group="day 3")
    asks += one.next_asks(one.n_planned, group="day 3") if one.n_planned else []
    one.fail(asks[0].arm, ask=asks[0].number)
    (again,) = one.next_asks(1, group="day 4")
    assert again.number == asks[0].number
    one.tell(again.arm, 0.1, ask=again.number)
    assert results_of(one) == [(("group", "day 4"),)]


@pytest.mark.parametrize("is_named", [False, True])
def test_late_result_of_an_attempt(*, is_named: bool) -> None:
    """It has the label of the attempt it came of; that of the last attempt would put its offset on another day."""
    one = learner()
    asks = one.next_asks(one.n_planned or 4, group="day 3")
    asks += one.next_asks(one.n_planned, group="day 3") if one.n_planned else []
    one.fail(asks[0].arm, ask=asks[0].number)
    one.next_asks(1, group="day 4")
    named = {"ask": asks[0].number} if is_named else {}
    with pytest.raises(InvalidInput, match=r"group 'day 4'.* got 'day 5'"):
        one.tell(asks[0].arm, 0.1, group="day 5", ask=asks[0].number)
    one.tell(asks[0].arm, 0.1, group="day 3", **named)
    assert results_of(one) == [DAY_3]
    copy = learner()
    copy.replay(one.log)
    assert results_of(copy) == [DAY_3]


def test_labels_of_a_block() -> None:
    """A block has the labels of the results that count in the order of its asks."""
    one = learner()
    first = one.next_asks(1, group="day 1")
    asks = [*first, *one.next_asks(one.n_planned)]
    for ask in reversed(asks):
        one.tell(ask.arm, float(ask.number), ask=ask.number, group=None if ask.number == 0 else f"day {ask.number + 1}")
    one.void(len(asks) - 2)  # the second ask
    (block,) = one.state.results[-1].closes
    days = [f"day {n + 1}" for n in range(len(asks)) if n != 1]
    assert block.pulls(one.state.values)[1] == [float(n) for n in range(len(asks)) if n != 1]
    assert [label_text(label) for label in block.labels(one.state.values, one.state.labels)] == days


def test_log_and_file(tmp_path: Any) -> None:
    """Labels are in the log and in a result file and a log without them is as before."""
    one, plain = learner(), learner()
    rng = np.random.default_rng(1)
    for n in range(40):
        value = rng.normal()
        (arm,), (same,) = one.next_arms(1, group=f"day {n // 4}" if n % 2 else None), plain.next_arms()
        one.tell(arm, value, group=f"day {n // 4}")
        plain.tell(same, value)
    assert {entry[0]: len(entry) for entry in plain.log} == {"start": 2, "ask": 2, "tell": 3}
    assert one.log[1:3] == (("ask", one.log[1][1]), ("tell", *one.log[2][1:3], None, (("group", "day 0"),)))
    assert one.log[3][2] == (("group", "day 0"),)
    again = learner()
    again.replay(one.log)
    assert again.log == one.log
    assert results_of(again) == results_of(one)
    assert again.decision == one.decision
    one.result().save(tmp_path / "result.json")
    loaded = Result.load(tmp_path / "result.json")
    assert loaded.history.log == one.result().history.log
    assert assumptions(loaded) == assumptions(one.result())


def test_unsolicited() -> None:
    """An unsolicited result with a label is counted as one."""
    one, plain = learner(), learner()
    for each, label in ((one, {"group": "day 1"}), (plain, {})):
        (ask,) = each.next_asks()
        each.tell(ask.arm, 0.5, ask=ask.number, **label)
        each.tell(0, 0.5, ask="none", **label)
    assert assumptions(one.result()) == assumptions(plain.result())


def test_identify() -> None:
    """A function may return the group with the value."""
    rng, days = np.random.default_rng(0), iter(range(10_000))
    result = identify(ARMS, lambda arm: (ARMS[arm] @ [1.0, 0.2] + rng.normal(), f"day {next(days) // 10}"), delta=0.1)
    told = [entry for entry in result.history.log if entry[0] == "tell"]
    assert [entry[4] for entry in told[:2]] == [(("group", "day 0"),)] * 2
    again = identify(ARMS, lambda _: 0.0, delta=0.1, history=result.history)
    assert again.history.log == result.history.log


def test_identify_refuses() -> None:
    """A function that returns no label is blamed and nothing is lost."""
    answers = iter([(0.5, "day 1"), (0.4, "")])
    with pytest.raises(PullFailed, match="`group` must be a text") as caught:
        identify(ARMS, lambda _: next(answers))
    assert caught.value.result.n_pulls == 1


def test_identify_interrupted() -> None:
    """An interrupt loses neither value nor label."""
    rng = np.random.default_rng(0)

    def stop(progress: Any) -> None:
        if progress.n_pulls == 5:
            raise KeyboardInterrupt

    result = identify(ARMS, lambda _: (rng.normal(), "day 1"), on_pull=stop)
    assert result.interrupted
    told = [entry for entry in result.history.log if entry[0] == "tell"]
    assert [entry[4] for entry in told] == [(("group", "day 1"),)] * 5
