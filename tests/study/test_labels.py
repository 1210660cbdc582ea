"""Labels of groups in a study: asks, results, sheets, files, the log, other eras and copies."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surepick import Conflict, CorruptLog, EntryWarning, FiniteArms, InvalidInput, Study, create_study, load_study
from surepick.learning.groups import GroupEffect
from surepick.study.certificate import digest_of, verify
from surepick.study.exchange import import_results, sheet_text, write_sheet
from surepick.study.log import StudyLog
from surepick.study.state import State

ARMS = {"A": [1.0, 0.0], "B": [0.0, 1.0], "C": [0.6, 0.6]}
DAY_3 = (("day", "3"),)


@pytest.fixture
def study() -> Study:
    """Return a study of three arms with names."""
    return made()


def made(name: str = "labels", **options: Any) -> Study:
    """Return a study in memory."""
    given = {"noise_std": 1.0, "author": "ann", "storage": "memory:", **options}
    rows, names = np.array(list(ARMS.values())), list(ARMS)
    return create_study(name, arms=FiniteArms(rows, names=names), **given)


def groups(study: Study) -> list[Any]:
    """Return the labels of all measurements, as the learner has them."""
    assert [one.group for one in study.measurements] == [told.group for told in study.learner.state.results]
    return [dict(one.group) for one in study.measurements]


def test_ask_and_tell(study: Study) -> None:
    """A label of an ask comes back with it, is the label of its result, and is in the log as an object."""
    first, second = study.ask(2, group={"day": 3, "bench": "B"})
    assert first.group == {"bench": "B", "day": "3"}
    study.tell(first, 0.5)
    study.tell(second, 0.6, group={"bench": "B", "day": "3"})
    (third,) = study.ask()
    study.tell(third, 0.7, group="day 4", item=17)
    assert groups(study) == [{"bench": "B", "day": "3"}] * 2 + [{"group": "day 4", "item": "17"}]
    events = [(one["kind"], one.get("group")) for one in study.log if one["kind"] in ("asked", "told")]
    assert events[:2] == [("asked", {"bench": "B", "day": "3"}), ("told", {"bench": "B", "day": "3"})]
    assert events[-2:] == [("asked", None), ("told", {"group": "day 4", "item": "17"})]
    again = load_study(study.name, study.storage)
    assert groups(again) == groups(study)
    assert again.pending == study.pending


def test_without_labels(study: Study) -> None:
    """Events and records of a study without labels have no field for them."""
    (ask,) = study.ask()
    study.tell(ask, 0.5)
    assert not any("group" in text for text in (row.text for row in study.rows()))
    assert "group" not in study.measurements.to_columns()
    assert ask.group == {}


def test_fixed_label(study: Study) -> None:
    """A label that was fixed with the ask is told unchanged or not at all; nothing is recorded otherwise."""
    (ask,) = study.ask(1, group={"day": 3}, worker="ann")
    n = len(study.rows())
    for how in ({"ask": ask}, {"arm": ask.name}):
        with pytest.raises(InvalidInput, match=r"ask 1 was asked for the group 'day 3'.* got 'day 4'"):
            study.tell(**how, value=0.5, group={"day": 4}, worker="ann")
    assert len(study.rows()) == n
    study.tell(arm=ask.name, value=0.5, group={"day": 3}, worker="ann")
    assert study.measurements[0].ask == ask.id


def test_told_again(study: Study) -> None:
    """The same result told again changes nothing; with another label it is a conflict."""
    (ask,) = study.ask()
    study.tell(ask, 0.5, group="day 3", key="k")
    for how in ({"ask": ask}, {"ask": ask, "key": "k"}):
        assert study.tell(**how, value=0.5)[0].id == 1
        assert study.tell(**how, value=0.5, group="day 3")[0].id == 1
        with pytest.raises(Conflict, match="the label that was told first stays"):
            study.tell(**how, value=0.5, group="day 4")
    (other,) = study.ask()
    study.tell(other, 0.6)
    with pytest.raises(Conflict, match="with no group already"):
        study.tell(other, 0.6, group="day 4")


def test_a_label_is_never_corrected(study: Study) -> None:
    """A label that is chosen after a look at the value has no proof."""
    (ask,) = study.ask()
    study.tell(ask, 0.5, group="day 3")
    other: Any = {"group": "day 4"}
    for one in (study, study.learner):
        with pytest.raises(InvalidInput, match="changes a value and never a label"):
            one.correct(1, 0.6, reason="wrong day", **other)
    study.correct(1, 0.6, reason="mistyped")
    assert groups(study) == [{"group": "day 3"}]


def test_open_asks_of_another_day(study: Study) -> None:
    """Asks of yesterday stay open for their results and are not handed out for today."""
    yesterday = study.ask(2, group="day 3", worker="ann")
    today = study.ask(2, group="day 4", worker="ann")
    assert not {one.id for one in yesterday} & {one.id for one in today}
    assert [one.id for one in study.ask(2, group="day 4", worker="ann")] == [one.id for one in today]
    assert len(study.ask(4, worker="ann")) == 4
    assert {one.id for one in study.ask(4, worker="ann")} == {one.id for one in [*yesterday, *today]}
    study.tell(yesterday[0], 0.5)
    assert groups(study) == [{"group": "day 3"}]


def test_an_ask_that_is_made_again(study: Study) -> None:
    """The label belongs to the attempt: a late result of the first attempt has that of the first."""
    (first,) = study.ask(1, group="day 3")
    study.fail(first, reason="broken")
    while (again := study.ask(1, group="day 4")[0]).arm != first.arm or not study.state.attempts[again.id].is_again:
        study.tell(again, 0.1)
    study.tell(first, 0.5)
    assert study.measurements[-1].group == (("group", "day 3"),)
    study.tell(again, 0.6)
    assert study.measurements[-1].group == (("group", "day 4"),)
    assert groups(load_study(study.name, study.storage)) == groups(study)


def test_group_by_worker() -> None:
    """The worker who tells becomes a factor of the label, beside the label of the ask."""
    study = made(group_by="worker")
    first, second = study.ask(2, group={"day": 3})
    study.tell(first, 0.5, worker="bob")
    study.tell(second, 0.5)
    assert groups(study) == [{"day": "3", "worker": "bob"}, {"day": "3", "worker": "ann"}]
    assert study.tell(first, 0.5, worker="bob", group={"day": 3})[0].id == 1
    assert load_study(study.name, study.storage).state.group_by == "worker"
    with pytest.raises(InvalidInput, match='`group_by` must be "worker" or None'):
        made(group_by="day")


def test_earlier_results_and_eras(study: Study) -> None:
    """Results from before have labels too, and all labels go on into the next era."""
    study.tell_earlier([("A", 0.5, "day 0"), ("B", 0.4), ("C", 0.3, {"day": 1})])
    (ask,) = study.ask(1, group="day 2")
    study.tell(ask, 0.5)
    expected = [{"group": "day 0"}, {}, {"day": "1"}, {"group": "day 2"}]
    assert groups(study) == expected
    study.reopen(reason="less risk", delta=0.01, keep_evidence=False)
    assert groups(study) == expected
    with pytest.raises(Conflict, match="were told before"):
        study.tell_earlier([("A", 0.5), ("B", 0.4), ("C", 0.3)])


@pytest.mark.parametrize(
    ("kind", "group", "said"),
    [
        ("told", {"day": "4"}, "has another group than its ask"),
        ("told", {"day": 3}, "has a group that is not a label"),
        ("told", {}, "has a group that is not a label"),
        ("asked", {" day": "3"}, "has a group that is not a label"),
        ("asked", ["day", "3"], "must be a text"),
    ],
)
def test_forged_labels(study: Study, kind: str, group: Any, said: str) -> None:
    """A log whose labels were changed is refused."""
    (ask,) = study.ask(1, group={"day": 3})
    study.tell(ask, 0.5)
    first, *events = study.log
    state = State(first)
    with pytest.raises((CorruptLog, InvalidInput), match=said):  # noqa: PT012 (any of the events)
        for event in events:
            state.apply(event | ({"group": group} if event["kind"] == kind else {}))


def test_certificate(study: Study) -> None:
    """A certificate counts measurements by their labels, and is derived again from the log."""
    assert "groups" not in study.certificate()
    for n, one in enumerate(study.ask(4)):
        study.tell(one, 0.1 * n, group={"day": n // 2, "bench": "B"})
    study.void(1, reason="spilt")
    certificate = study.certificate()
    assert certificate["groups"] == {"bench": {"B": 3}, "day": {"0": 1, "1": 2}}
    assert verify(certificate, study.rows()).ok
    forged = {**certificate, "groups": {"bench": {"B": 3}}}
    assert not verify({**forged, "digest": digest_of(forged)}, study.rows()).ok


def test_status(study: Study) -> None:
    """The record of a study has its groups, for a page or a program, if there are any."""
    now = study.snapshot
    assert "groups" not in now.record()
    effect = GroupEffect((("bench", "B"),), 12, 0.5, 0.2)
    record = replace(now, learner=replace(now.learner, groups=(effect,))).record()
    assert record["groups"] == [{"label": {"bench": "B"}, "n": 12, "offset": 0.5, "half_width": 0.2, "note": ""}]


def test_sheet(study: Study, tmp_path: Path) -> None:
    """A sheet has a column for each factor of its asks; what comes back is read by their numbers."""
    asks = study.ask(2, group={"day": 3, "value": "x"})
    assert sheet_text(asks).splitlines()[0] == "ask,arm,x0,x1,day,value (group),value,comment"
    path = tmp_path / "asks.csv"
    write_sheet(asks, path)
    path.write_text(path.read_text(encoding="utf-8-sig").replace(",x,,", ",x,0.5,"), encoding="utf-8")
    assert len(study.tell_file(path)) == 2
    assert groups(study) == [{"day": "3", "value": "x"}] * 2


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_group_columns(study: Study, tmp_path: Path, kind: str) -> None:
    """Columns that are named label each value: numbers, texts and dates, empty cells not."""
    openpyxl = pytest.importorskip("openpyxl")
    asks, path = study.ask(4), tmp_path / f"asks.{kind}"
    days: list[Any] = [3, "3", datetime(2026, 11, 18, tzinfo=UTC).replace(tzinfo=None), None]
    rows = [["ask", "Day", "value"], *([one.id, day, 0.5] for one, day in zip(asks, days, strict=True))]
    if kind == "csv":
        cells = (",".join("" if cell is None else str(cell).removesuffix(" 00:00:00") for cell in row) for row in rows)
        path.write_text("\n".join(cells), encoding="utf-8")
    else:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    with pytest.raises(InvalidInput, match="has no column 'day'; did you mean 'Day'"):
        study.tell_file(path, group_columns=["day"])
    assert not study.measurements
    study.tell_file(path, group_columns=["Day"], group={"bench": "B"})
    labels = [{"Day": "3"}, {"Day": "3"}, {"Day": "2026-11-18"}, {}]
    assert groups(study) == [{"bench": "B", **one} for one in labels]
    assert len(study.tell_file(path, group_columns=["Day"])) == 4  # told again, nothing changes
    with pytest.raises(InvalidInput, match="the label that was told first stays"):
        study.tell_file(path, group={"bench": "C"})


def test_columns_that_look_like_labels(study: Study, tmp_path: Path) -> None:
    """A column that looks like a label is not read unless it is named, and a remark says so."""
    (ask,), path = study.ask(), tmp_path / "asks.csv"
    path.write_text(f"ask,day,value\n{ask.id},3,0.5\n", encoding="utf-8")
    with pytest.warns(EntryWarning, match=r"The column day is not read.*group_columns=\['day'\]"):
        study.tell_file(path)
    assert groups(study) == [{}]


def test_a_sheet_that_contradicts_an_ask(study: Study, tmp_path: Path) -> None:
    """Every line whose label is not that of its ask is named, and nothing is told."""
    asks, path = study.ask(2, group={"day": 3}), tmp_path / "asks.csv"
    path.write_text("\n".join(["ask,day,value", *(f"{one.id},{3 + n},0.5" for n, one in enumerate(asks))]))
    with pytest.raises(InvalidInput, match="line 3: ask 2 was asked for the group 'day 3'"):
        study.tell_file(path, group_columns=["day"])
    assert not study.measurements


@pytest.mark.parametrize("kind", ["csv", "json", "xlsx", "parquet"])
def test_export_and_import(study: Study, tmp_path: Path, kind: Any) -> None:
    """An export has a column for each factor, which another study reads by its title."""
    for n, one in enumerate(study.ask(3)):
        study.tell(one, 0.1 * n, group={"day": n, "worker": "robot"})
    path = study.export(kind, tmp_path / f"results.{kind}", what="measurements")
    if kind == "json":
        assert [one["day"] for one in json.loads(path.read_text())["measurements"]] == ["0", "1", "2"]
        return
    other = made("other")
    import_results(other, path, group_columns=["day", "worker (group)"])
    assert groups(other) == [{"day": str(n), "worker": "robot"} for n in range(3)]
    assert other.measurements.to_columns()["group"] == groups(other)


def test_optimize(study: Study) -> None:
    """A call of `optimize` may have a label, or its function one for each value."""
    rng = np.random.default_rng(0)
    seen: list[float] = []
    study.optimize(lambda _: rng.normal(), max_pulls=2, group="day 1")
    study.optimize(
        lambda _: (rng.normal(), {"day": 2}), max_pulls=2, on_pull=lambda _study, _ask, value: seen.append(value)
    )
    assert groups(study) == [{"group": "day 1"}] * 2 + [{"day": "2"}] * 2
    assert seen == [one.told for one in study.measurements[2:]]
    with pytest.raises(InvalidInput, match="was asked for the group 'day 3'"):
        study.optimize(lambda _: (0.5, "day 4"), group="day 3")


def test_a_state_that_was_read_knows_what_was_written(study: Study) -> None:
    """Live and replayed states have the same labels."""
    for n, one in enumerate(study.ask(5, group="day 1")):
        study.tell(one, float(n))
    read = StudyLog(study.storage, study.name).state()
    assert [one.group for one in read.measurements] == [one.group for one in study.measurements]
    assert read.learner.log == study.learner.log
