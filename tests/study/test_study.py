"""Studies from the outside: every method does what it says, and refuses the rest in words without a trace."""

import math
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick.errors import Conflict, CorruptLog, InvalidInput, NoSuchStudy, Skipped, StudyExists
from surepick.study import clock
from surepick.study.certificate import verify
from surepick.study.events import canonical, rows_of
from surepick.study.library import copy_study, create_study, delete_study, list_studies, load_study
from surepick.study.storage import open_storage
from surepick.study.study import Study
from surepick.study.tables import import_results
from tests.study.kinds import KINDS, NAMES, ROWS


def new(name: Any = "trees", **options: Any) -> Study:
    """A study of four trees in memory."""
    given: dict[str, Any] = {
        "arms": sp.FiniteArms(ROWS, names=NAMES),
        "noise_std": 0.2,
        "storage": "memory:",
        "author": "ann",
    }
    return create_study(name, **given | options)


def means(arm: int) -> float:
    """What an arm gives without noise."""
    return float(ROWS[arm] @ [0.7, 0.6])


def finish(study: Study, value: Callable[[int], float] = means, **how: Any) -> None:
    """Measure until it stops."""
    for _ in range(200):
        for ask in study.ask(4, **how):
            study.tell(ask.id, value(ask.arm), **how)
        if study.stopped:
            return
    raise AssertionError("it does not stop")


def kinds(study: Study) -> list[str]:
    """The kinds of its events."""
    return [event["kind"] for event in study.log]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 17, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """What it shows."""
        return self.time


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all studies."""
    own = Clock()
    monkeypatch.setattr(clock, "now", own)
    return own


# ---- asks


@pytest.mark.usefixtures("time")
def test_an_ask_says_what_why_and_until_when() -> None:
    """It has an id, the arm with name and features, the end of its lease, and a reason in words."""
    study = new(lease="2h")
    (ask,) = study.ask()
    assert (ask.id, ask.until) == (1, "2026-11-17T14:00:00.000000Z")
    assert ask.name == NAMES[ask.arm]
    assert ask.features == tuple(ROWS[ask.arm])
    assert "not known" in ask.reason
    for each in study.ask(5):
        study.tell(each.id, means(each.arm))
    assert "leads" in study.ask()[0].reason
    assert study.ask(lease=None)[0].until is None
    assert study.ask(lease="90s")[0].until == "2026-11-17T12:01:30.000000Z"
    assert study.ask(lease=timedelta(days=1))[0].until == "2026-11-18T12:00:00.000000Z"


def test_a_worker_that_asks_again_gets_its_open_asks_back() -> None:
    """The same asks, however often; others and those without a name get new ones."""
    study = new()
    first = study.ask(3, worker="bob")
    assert study.ask(3, worker="bob") == first
    assert study.ask(2, worker="bob") == first[:2]
    assert [ask.id for ask in study.ask(4, worker="bob")] == [1, 2, 3, 4]
    assert [ask.id for ask in study.ask(1, worker="eve")] == [5]
    assert [ask.id for ask in study.ask(1)] == [6]
    assert [ask.id for ask in study.ask(1)] == [7]
    assert [ask.id for ask in study.pending] == [1, 2, 3, 4, 5, 6, 7]


def test_a_lease_that_ran_out_gives_the_ask_to_somebody_else(time: Clock) -> None:
    """The next who asks gets the same arm under a new id, and a result of the first attempt counts all the same."""
    study = new(lease="1h")
    (lost,) = study.ask(1, worker="bob")
    rest = study.ask(study.n_planned, worker="eve", lease=None)
    time.time += timedelta(hours=2)
    (again,) = study.ask(1, worker="eve2")
    assert (again.arm, again.id) == (lost.arm, 2 + len(rest))
    assert "asked again" in again.reason
    (late,) = study.tell(lost.id, 0.5)
    (own,) = study.tell(again.id, 0.6)
    assert [late.value, own.value] == [0.5, 0.6]
    assert study.status.n_pulls == 2
    assert study.log[-1]["ask"] == again.id


def test_a_clock_that_goes_back_loses_nothing(time: Clock) -> None:
    """Leases end later then; no event is refused for its time."""
    study = new(lease="1h")
    study.ask(2, worker="bob")
    time.time -= timedelta(days=3)
    study.ask(2, worker="eve")
    assert len(study.pending) == 4
    assert load_study("trees", study.storage).head == study.head


@pytest.mark.parametrize("lease", ["soon", "0s", "-1h", 0, -5, True, math.nan, math.inf, "1y", "99999w", [], {}])
def test_a_lease_that_is_no_time_is_refused(lease: Any) -> None:
    """By `ask` and by `create_study`, in words that have an example."""
    study = new()
    with pytest.raises(InvalidInput, match=r"lease.*30m"):
        study.ask(1, lease=lease)
    with pytest.raises(InvalidInput, match=r"lease.*30m"):
        new(lease=lease)
    assert kinds(study) == ["created"]


@pytest.mark.parametrize("lease", ["30m", 90, 1.5, None, "none", timedelta(hours=2)])
def test_leases_are_kept_as_they_were_given(lease: Any) -> None:
    """A study that is loaded again has the lease it was created with."""
    study = new(lease=lease)
    until = study.ask(1)[0].until
    loaded = load_study("trees", study.storage)
    assert (loaded.ask(1)[0].until is None) is (until is None)


def test_an_ask_that_failed_is_made_again() -> None:
    """For any reason but the value; once given up it may still be told, and nothing happens if it fails twice."""
    study = new()
    asks = study.ask(study.n_planned or 1)
    asks += study.ask(study.n_planned or 1)
    study.fail(asks[0], reason="dropped")
    study.fail(asks[0].id)
    assert kinds(study).count("failed") == 1
    assert study.ask(1)[0].arm == asks[0].arm
    study.tell(asks[0], 0.3)
    with pytest.raises(Conflict, match="has a result"):
        study.fail(asks[0])
    for wrong in (99, 0, -1, True, "1", None, 1.0):
        with pytest.raises(InvalidInput, match="no ask"):
            study.fail(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="reason"):
        study.fail(asks[1], reason=3)  # type: ignore[arg-type]


# ---- results


def test_the_same_result_told_twice_is_one_measurement() -> None:
    """By ask or by key, one value or several; as whatever kind of number it comes."""
    study = new()
    first, second = study.ask(2)
    told = study.tell(first, 0.5)
    head = study.head
    again: Any
    for again in (0.5, np.float32(0.5), [0.5], np.array([0.5]), (0.5,), np.array(0.5)):
        assert study.tell(first.id, again) == told
    assert study.head == head
    many = study.tell(second, [1, 2.0, 3.5], key="run 7")
    assert [one.told for one in many] == [1.0, 2.0, 3.5]
    assert study.tell(second, [1.0, 2.0, 3.5]) == many
    assert study.tell(second, [1.0, 2.0, 3.5], key="run 7") == many
    by_arm = study.tell(arm="oak", value=0.1, key="a")
    assert study.tell(arm=1, value=0.1, key="a") == by_arm
    assert len(study.measurements) == 5


def test_another_result_for_the_same_ask_is_a_conflict() -> None:
    """It names both values and says what to do; nothing is written."""
    study = new()
    first, second = study.ask(2)
    study.tell(first, 0.5)
    study.tell(second, [1.0, 2.0])
    head = study.head
    with pytest.raises(Conflict, match=r"ask 1 has the result 0\.5 already .measurement 1., got 0\.75; .*correct"):
        study.tell(first, 0.75)
    for other in ([1.0], [1.0, 2.0, 3.0], [2.0, 1.0]):
        with pytest.raises(Conflict, match="ask 2 has the result 1, 2"):
            study.tell(second, other)
    assert study.head == head


def test_a_key_names_one_result() -> None:
    """Used for another value, arm or ask it is a conflict: else a result would be thanked for and lost."""
    study = new()
    first, second = study.ask(2)
    study.tell(first, 0.5, key="k")
    for wrong in (
        lambda: study.tell(first, 0.6, key="k"),
        lambda: study.tell(second, 0.5, key="k"),
        lambda: study.tell(arm=(first.arm + 1) % 4, value=0.5, key="k"),
    ):
        with pytest.raises(Conflict, match="key 'k'"):
            wrong()
    with pytest.raises(InvalidInput, match="`key` must be a line of text"):
        study.tell(second, 0.5, key=7)  # type: ignore[arg-type]
    assert len(study.measurements) == 1


def test_a_result_told_by_arm_answers_the_workers_oldest_open_ask_of_it() -> None:
    """Never another's, who will have a result of it too; without an own one, nobody has asked for it."""
    study = new()
    asks = [*study.ask(6, worker="bob"), *study.ask(6, worker="eve")]
    arm = next(ask.arm for ask in asks if ask.id > 6)
    mine = [ask.id for ask in asks if ask.arm == arm and ask.id > 6]
    (theirs, *_) = [ask.id for ask in asks if ask.arm == arm and ask.id <= 6]
    order = [study.tell(arm=arm, value=0.5, worker="eve")[0].ask for _ in range(len(mine) + 1)]
    assert order == [*mine, None]
    assert study.tell(theirs, 0.7, worker="bob")[0].ask == theirs
    assert study.status.n_pulls == len(order) + 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.tell(1), "number"),
        (lambda s: s.tell(1, []), "at least one"),
        (lambda s: s.tell(1, math.nan), "number"),
        (lambda s: s.tell(1, math.inf), "number"),
        (lambda s: s.tell(1, "0.5"), "number"),
        (lambda s: s.tell(1, value=True), "number"),
        (lambda s: s.tell(1, [0.5, [1.0]]), "number"),
        (lambda s: s.tell(1, [0.5, math.nan]), "number"),
        (lambda s: s.tell(1, {}), "at least one"),
        (lambda s: s.tell(1, 1e300), "noise_std"),
        (lambda s: s.tell(9, 0.5), "no ask 9"),
        (lambda s: s.tell(None, 0.5), "neither"),
        (lambda s: s.tell(1, 0.5, arm="elm"), "both"),
        (lambda s: s.tell(arm="Elm", value=0.5), "did you mean 'elm'"),
        (lambda s: s.tell(arm="2", value=0.5), "no arm '2'"),
        (lambda s: s.tell(arm=4, value=0.5), "below 4"),
        (lambda s: s.tell(arm=-1, value=0.5), "arm"),
        (lambda s: s.tell(arm=1.5, value=0.5), "arm"),
        (lambda s: s.tell(arm=True, value=0.5), "arm"),
        (lambda s: s.tell(arm=[1.0, 0.0], value=0.5), "arm"),
        (lambda s: s.tell(arm=[[1.0], 0.0], value=0.5), "arm"),
        (lambda s: s.tell(1, 0.5, worker=3), "worker"),
        (lambda s: s.tell(1, 0.5, worker="\ud800"), "line of text"),
        (lambda s: s.ask(0), "at least 1"),
        (lambda s: s.ask(1.5), "whole number"),
        (lambda s: s.ask(10**9), "at most"),
        (lambda s: s.tell_earlier([("elm", 0.5), ("oak", math.nan)]), "number"),
        (lambda s: s.tell_earlier([("elm", 0.5), ("oka", 0.5)]), "oak"),
        (lambda s: s.void(1, reason=""), "why"),
        (lambda s: s.void(1, reason=None), "text"),
        (lambda s: s.void(7, reason="x"), "no measurement 7"),
        (lambda s: s.void(0, reason="x"), "at least 1"),
        (lambda s: s.correct(1, "x", reason="x"), "number"),
        (lambda s: s.correct(1, value=True, reason="x"), "number"),
        (lambda s: s.correct(1, 1e300, reason="x"), "noise_std"),
        (lambda s: s.restore(1, reason="x"), "not void"),
        (lambda s: s.audit(), "verdict"),
        (lambda s: s.reopen(reason=" "), "why"),
        (lambda s: s.reopen(reason="x", delta=2), "delta"),
        (lambda s: s.reopen(reason="x", algorithm=3), "name"),
        (lambda s: s.reopen(reason="x", retire=["elmo"]), "elm"),
        (lambda s: s.reopen(reason="x", join=[[1.0, 2.0, 3.0]]), "2 features"),
        (lambda s: s.reopen(reason="x", join=[[1.0, 2.0]]), "names"),
        (lambda s: s.export("xls"), "xls"),
        (lambda s: s.export("csv", "log.json"), "csv"),
        (lambda s: s.optimize(3), "function"),
        (lambda s: s.optimize(means, n_jobs=0), "n_jobs"),
        (lambda s: s.arm("ashh"), "did you mean 'ash'"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_leaves_no_trace(call: Callable[[Any], object], says: str) -> None:
    """Wrong input of every argument: the error says what was needed, and the study is as it was, here and on disk."""
    study = new()
    study.ask(2)
    study.tell(2, 0.5)
    head, status = study.head, repr(study.status)
    with pytest.raises(InvalidInput, match=says):
        call(study)
    assert (study.head, repr(study.status)) == (head, status)
    assert repr(load_study("trees", study.storage).status) == status
    study.tell(1, 0.5)


def test_earlier_results_count_and_may_be_enough() -> None:
    """Told before the first ask they are evidence: enough of them, and the first ask finds the verdict."""
    study = new()
    study.tell_earlier([(NAMES[n % 4], means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    assert not study.stopped
    assert study.ask(3) == []
    assert study.stopped
    assert study.best_name == "ash"
    assert kinds(study)[-2:] == ["planned", "stopped"]


def test_a_correction_of_earlier_results_keeps_the_interval_that_was_planned() -> None:
    """The verdict of earlier results taken back, the first asks are those that were planned beside it."""
    study = new()
    study.tell_earlier([(n % 4, means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    study.ask(1)
    planned = next(event for event in study.log if event["kind"] == "planned")
    for n in range(79):
        study.void(n + 1, reason="another lab's")
    assert not study.stopped
    asks = study.ask(len(planned["arms"]))
    assert [ask.arm for ask in asks] == planned["arms"]
    assert kinds(study).count("planned") == 1
    assert verify(study.certificate(), study.rows()).problems == []


# ---- corrections and verdicts


def test_after_the_verdict_results_are_kept_and_the_verdict_stands() -> None:
    """There is nothing more to ask for; what is told all the same is kept and shown."""
    study = new()
    ahead = study.ask(1)
    while not study.stopped:
        asks, ahead = [*ahead, *study.ask(max(study.n_planned, 1))], study.ask(1)
        for ask in asks:
            study.tell(ask.id, means(ask.arm))
    assert study.n_planned > 0
    assert len(study.pending) == 1
    verdict = study.state.verdict
    assert study.ask(5, worker="third") == []
    for ask in ahead:
        study.tell(ask.id, 3.0)
    study.tell(arm="elm", value=9.0)
    assert study.state.verdict == verdict
    assert study.best_name == "ash"
    assert study.status.stopped_at == verdict.at if verdict else False
    assert study.remaining() == 0.0


def test_an_audit_gives_check_pulls_after_the_verdict() -> None:
    """They are asked for, spread over the arms, and named in the reason; a second audit waits for the first."""
    study = new()
    finish(study)
    assert study.audit(4) == 4
    with pytest.raises(InvalidInput, match="planned already"):
        study.audit(4)
    asks = study.ask(9)
    assert sorted(ask.arm for ask in asks) == [0, 1, 2, 3]
    assert {ask.reason for ask in asks} == {"checks the model after the verdict"}
    study.fail(asks[0])
    for ask in [*asks[1:], *study.ask(1)]:
        study.tell(ask.id, means(ask.arm))
    assert study.result().n_checks == 4
    assert study.ask(1) == []


def test_check_pulls_that_contradict_the_model_withdraw_the_claim() -> None:
    """The verdict is in the log, and its state is "withdrawn"."""
    study = new()
    finish(study)
    study.audit(40)
    for ask in study.ask(40):
        study.tell(ask.id, means(ask.arm) + (3.0 if ask.arm == 3 else 0.0))
    assert study.status.state == "withdrawn"
    assert study.status.guarantee == "withdrawn"
    assert study.certificate()["guarantee"] == "withdrawn"


def test_a_correction_can_take_a_verdict_back_and_let_it_come_again() -> None:
    """All is worked out again: "resumed" in the log, sampling goes on, and the next verdict stands beside the first."""
    study = new()
    finish(study)
    for one in list(study.measurements):
        if not study.stopped:
            break
        study.void(one.id, reason="wrong tray")
    assert not study.stopped
    assert kinds(study)[-1] == "resumed"
    (ask,) = study.ask(1)
    study.tell(ask.id, means(ask.arm))
    finish(study)
    assert "stopped" in kinds(study)[kinds(study).index("resumed") :]
    assert len(study.state.verdicts) >= 2
    assert verify(study.certificate(), study.rows()).problems == []


def test_a_correction_that_changes_the_answer_is_written_down() -> None:
    """The last verdict of the log is what the corrected values say, not what the wrong ones said."""
    study = new()
    finish(study, lambda arm: -means(arm))
    wrong = study.best_name
    for one in list(study.measurements):
        study.correct(one.id, means(one.arm), reason="sign")
    if not study.stopped:
        finish(study)
    assert study.best_name == "ash" != wrong
    assert study.state.verdict is not None
    assert study.state.verdict.evidence == pytest.approx(study.learner.decision.evidence, rel=1e-6)
    assert study.certificate()["best_names"] == ["ash"]
    assert verify(study.certificate(), study.rows()).problems == []


def test_a_correction_that_changes_the_evidence_is_written_down() -> None:
    """The same answer with other evidence is a new verdict too: the certificate has the evidence that holds."""
    study = new()
    finish(study)
    before = study.state.verdict
    study.correct(1, study.measurements[0].told + 0.01, reason="digit")
    assert before is not None
    assert kinds(study)[-2:] == ["resumed", "stopped"]
    assert study.state.verdict is not None
    assert study.state.verdict.best == before.best
    assert study.certificate()["evidence"] == study.learner.decision.evidence != before.evidence


def test_an_interval_in_force_survives_a_correction_after_an_audit() -> None:
    """Arms that were planned are asked for, also if an earlier audit is gone through again."""
    study = new()
    finish(study)
    study.audit(3)
    for ask in study.ask(3):
        study.tell(ask.id, means(ask.arm))
    for one in list(study.measurements):
        if not study.stopped:
            break
        study.void(one.id, reason="wrong tray")
    asks = study.ask(1)
    planned = [event for event in study.log if event["kind"] == "planned"][-1]
    study.correct(len(study.measurements), 0.5, reason="digit")
    asks += study.ask(len(planned["arms"]) - 1)
    assert [ask.arm for ask in asks] == planned["arms"]
    assert verify(study.certificate(), study.rows()).problems == []


def test_measurements_know_what_was_changed() -> None:
    """Value told, value that counts, and every change with its reason, author and time."""
    study = new()
    study.tell(arm="elm", value=0.5, worker="bob")
    study.correct(1, 0.6, reason="comma", worker="eve")
    study.void(1, reason="spilt")
    (one,) = study.measurements
    assert (one.told, one.last, one.value, one.by) == (0.5, 0.6, None, "bob")
    with pytest.raises(InvalidInput, match="is void"):
        study.correct(1, 0.7, reason="x")
    with pytest.raises(InvalidInput, match="is void"):
        study.void(1, reason="x")
    study.restore(1, reason="found")
    (one,) = study.measurements
    assert one.value == 0.6
    assert [(change.kind, change.reason, change.by) for change in one.changes] == [
        ("corrected", "comma", "eve"),
        ("voided", "spilt", "ann"),
        ("restored", "found", "ann"),
    ]
    assert (study.status.n_void, study.status.n_corrected) == (0, 1)


# ---- eras


def test_reopen_keeps_both_verdicts() -> None:
    """A new era with a risk of its own; the verdict before stands in the log, about the arms of its time."""
    study = new()
    finish(study)
    study.reopen(reason="surer", delta=0.001)
    assert (study.stopped, study.status.era, study.status.state) == (False, 2, "measuring")
    finish(study)
    assert [verdict.era for verdict in study.state.verdicts] == [1, 2]
    assert study.status.delta == 0.001


def test_arms_join_and_retire() -> None:
    """They have their row numbers and names for good; nobody asks for one that is gone, but its results are kept."""
    study = new()
    finish(study)
    n = study.status.n_pulls
    study.reopen(reason="new stock", join=sp.FiniteArms(np.eye(2) * 2.0, names=["yew", "box"]), retire=["oak", 0])
    assert study.arm("yew") == 4
    asks = study.ask(30)
    assert {ask.name for ask in asks} <= {"ash", "fir", "yew", "box"}
    assert asks[0].features in {tuple(ROWS[2]), tuple(ROWS[3]), (2.0, 0.0), (0.0, 2.0)}
    study.tell(arm="oak", value=0.5)
    study.void(len(study.measurements), reason="gone")
    study.restore(len(study.measurements), reason="still gone")
    study.correct(len(study.measurements), 0.4, reason="gone all the same")
    for ask in asks:
        study.tell(ask.id, float(np.dot(ask.features, [0.7, 0.6])))
    assert study.status.n_pulls < n + 30
    assert study.status.n_arms == 4
    assert load_study("trees", study.storage).status == study.status


def test_asks_of_an_era_that_is_over_are_nobodys() -> None:
    """They are not open any more and cannot fail, and a result that comes after all is kept."""
    study = new()
    (old, other) = study.ask(2)
    study.reopen(reason="more", delta=0.01)
    assert study.pending == []
    study.fail(old.id)
    (told,) = study.tell(old.id, 0.5)
    assert told.ask == old.id
    study.tell(arm=other.arm, value=0.1)
    assert study.status.n_pulls == 2
    assert load_study("trees", study.storage).measurements == study.measurements


def test_a_rule_that_counts_everything_says_its_verdict_again_at_once() -> None:
    """The evidence rule has its verdict in the log of an era that begins with the same arms and options."""
    study = new(stopping="evidence")
    finish(study)
    study.reopen(reason="go on", budget=500)
    assert study.stopped == study.learner.stopped
    with pytest.raises(InvalidInput, match="counts what was measured before"):
        study.reopen(reason="other risk", delta=0.2)


def test_options_that_have_one_number_per_arm_are_given_anew_with_the_arms() -> None:
    """Noise and costs of arms that join cannot be guessed."""
    study = new(costs=[1, 2, 3, 4], noise_std=[0.1, 0.2, 0.3, 0.4])
    study.tell_earlier([("elm", 0.5)])
    with pytest.raises(InvalidInput, match="number for each arm"):
        study.reopen(reason="x", retire=["elm"])
    study.reopen(reason="x", retire=["elm"], costs=[2, 3, 4], noise_std=[0.2, 0.3, 0.4])
    assert study.learner.cost_of(0) == 2.0
    assert load_study("trees", study.storage).learner.cost_of(0) == 2.0


def test_a_measurement_that_was_void_cannot_be_restored_in_a_later_era() -> None:
    """The learner of the era never knew it; one of an arm that is gone only changes its mark."""
    study = new()
    study.tell_earlier([("elm", 0.5), ("oak", 0.5)])
    study.void(1, reason="x")
    study.void(2, reason="x")
    study.reopen(reason="x", retire=["oak"])
    with pytest.raises(InvalidInput, match="tell its value again"):
        study.restore(1, reason="x")
    study.restore(2, reason="x")
    assert [one.is_void for one in study.measurements] == [True, False]


# ---- arms and names


def test_names_may_be_in_any_script() -> None:
    """Study, arms, workers, keys and reasons; a typo gets the nearest name."""
    names = ["Föhre", "楢", "ясень", "🌲 4"]
    study = new("Bäume № 1", arms=sp.FiniteArms(ROWS, names=names))
    study.tell(arm="楢", value=0.5, worker="Žofie", key="ключ")
    study.void(1, reason="zu naß")
    with pytest.raises(InvalidInput, match="did you mean 'ясень'"):
        study.tell(arm="ясен", value=1.0)
    loaded = load_study("Bäume № 1", study.storage)
    assert loaded.measurements == study.measurements
    assert loaded.measurements[0].by == "Žofie"


def test_arms_without_names_go_by_their_row_numbers() -> None:
    """As a number, or written out."""
    study = new(arms=ROWS)
    assert study.arm("3") == study.arm(3) == study.arm(np.int64(3)) == 3
    with pytest.raises(InvalidInput, match="no arm 'elm'"):
        study.arm("elm")
    assert study.tell(arm="2", value=0.5)[0].arm == 2


def test_candidates_of_their_own_have_their_own_numbers() -> None:
    """The answer is a candidate; what is measured are arms."""
    study = new(candidates=np.array([[1.0, 1.0], [0.5, -0.5]]))
    finish(study)
    assert (study.best, study.best_name) == (0, "candidate 0")
    assert verify(study.certificate(), study.rows()).problems == []


def test_vectors_are_arms_by_their_entries() -> None:
    """On a sphere an arm is a vector, also after a way through the log; others are refused."""
    study = create_study("ball", arms=sp.Sphere(2), noise_std=0.2, epsilon=0.3, storage="memory:")
    (told,) = study.tell(arm=[0.6, 0.8], value=0.5)
    assert told.arm == (0.6, 0.8)
    for wrong in ([1.0, 1.0], [1.0], [math.nan, 0.0], 0, "x", [[1.0], 0.0]):
        with pytest.raises(InvalidInput):
            study.tell(arm=wrong, value=0.5)
    with pytest.raises(InvalidInput, match="list of arms"):
        study.reopen(reason="x", retire=[[0.6, 0.8]])
    assert load_study("ball", study.storage).measurements == study.measurements


def test_arms_in_a_file_are_known_by_their_hash(tmp_path: Path) -> None:
    """The file must be there as it was; another one, or none, is said."""
    path = tmp_path / "arms.npy"
    np.save(path, ROWS)
    study = create_study("file", arms=sp.MappedArms(path), noise_std=0.2, storage=tmp_path / "lab.db")
    finish(study)
    assert load_study("file", tmp_path / "lab.db").best == study.best
    np.save(path, ROWS + 1.0)
    with pytest.raises(CorruptLog, match="changed since"):
        load_study("file", tmp_path / "lab.db")
    path.unlink()
    with pytest.raises(CorruptLog, match="not there"):
        load_study("file", tmp_path / "lab.db")


# ---- the library


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delta": 0}, "delta"),
        ({"noise_std": -1}, "noise_std"),
        ({"noise_std": [0.1]}, "noise_std"),
        ({"costs": [1, 2]}, "costs"),
        ({"budget": -1}, "budget"),
        ({"algorithm": "lazy"}, "lazy"),
        ({"stopping": "never"}, "stopping"),
        ({"colour": "red"}, "colour"),
        ({"seed": "x"}, "seed"),
        ({"arms": [[1.0, 0.0]]}, "arms"),
        ({"arms": "none.csv"}, "table of numbers"),
        ({"author": 7}, "author"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": 7}, "name"),
        ({"m": 9}, "m"),
    ],
)
def test_a_study_that_cannot_be_is_not_created(options: dict[str, Any], says: str) -> None:
    """What no learner could be made of is refused before anything is written."""
    storage = open_storage("memory:")
    with pytest.raises(InvalidInput, match=says):
        new(options.pop("name", "x"), storage=storage, **options)
    assert list_studies(storage) == []


def test_studies_are_found_copied_and_deleted_by_name(tmp_path: Path) -> None:
    """A name is used once; a copy has the same log, also in another storage, and goes its own way."""
    storage = tmp_path / "lab.db"
    study = new("one", storage=storage)
    study.tell(arm="elm", value=0.5)
    assert load_study(storage=storage).name == "one"
    with pytest.raises(StudyExists, match="one"):
        new("one", storage=storage)
    twin = copy_study("one", "two", storage=storage)
    away = copy_study("one", "one", storage=storage, to_storage=tmp_path / "other.db")
    assert twin.rows() == away.rows() == study.rows()
    twin.tell(arm="elm", value=0.6)
    assert (len(twin.measurements), len(study.measurements)) == (2, 1)
    assert list_studies(storage) == ["one", "two"]
    with pytest.raises(InvalidInput, match="'one', 'two'"):
        load_study(storage=storage)
    with pytest.raises(NoSuchStudy, match="did you mean 'one'"):
        load_study("onee", storage)
    with pytest.raises(StudyExists):
        copy_study("one", "two", storage=storage)
    delete_study("two", storage)
    assert list_studies(storage) == ["one"]
    with pytest.raises(NoSuchStudy):
        twin.tell(arm="elm", value=0.6)
    with pytest.raises(NoSuchStudy):
        delete_study("two", storage)


# ---- functions, files


def test_a_function_is_measured_until_the_study_stops() -> None:
    """By several threads, with measurements that are skipped now and then; each pull is announced."""
    study, seen = new(), list[float]()
    rng, lock, calls = np.random.default_rng(0), threading.Lock(), [0]

    def measure(arm: int) -> float:
        with lock:
            calls[0] += 1
            if calls[0] % 5 == 0:
                raise Skipped("bubbles")
            return means(arm) + 0.2 * float(rng.standard_normal())

    study.optimize(measure, n_jobs=3, on_pull=lambda _study, _ask, value: seen.append(value))
    assert study.stopped
    assert sorted(seen) == sorted(one.told for one in study.measurements)
    assert {event["reason"] for event in study.log if event["kind"] == "failed"} == {"bubbles"}


def test_a_function_that_raises_ends_all_and_what_was_measured_is_kept() -> None:
    """The ask is given up with the error as its reason."""
    study = new()
    study.optimize(means, max_pulls=3)
    assert len(study.measurements) == 3

    def broken(_arm: int) -> float:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        study.optimize(broken, n_jobs=2)
    assert len(study.measurements) == 3
    assert study.pending == []
    assert study.log[-1]["reason"] == "RuntimeError: no power"
    with pytest.raises(InvalidInput, match="value"):
        study.optimize(lambda _arm: math.nan, max_pulls=1)
    assert study.pending == []


def test_measurements_are_exported_and_imported(tmp_path: Path) -> None:
    """CSV, Parquet, JSON and Excel: what one study exports another takes as earlier results, all or none."""
    study = new()
    study.tell_earlier([(name, means(n) + 1 / 3) for n, name in enumerate(NAMES)])
    told = [(one.arm, one.told) for one in study.measurements]
    frame = pd.DataFrame({"arm": NAMES, "value": [value for _, value in told]})
    frame.to_excel(tmp_path / "results.xlsx", index=False)
    paths = [study.export(kind, tmp_path / f"m.{kind}", what="measurements") for kind in ("csv", "parquet")]
    assert study.export("json", tmp_path / "m.json", what="measurements").read_text().count('"told"') == 4
    for n, path in enumerate([*paths, tmp_path / "results.xlsx"]):
        other = new(f"copy {n}")
        import_results(other, path)
        assert [one.arm for one in other.measurements] == [arm for arm, _ in told]
        # Spreadsheets keep 15 digits.
        is_close = pytest.approx([value for _, value in told], rel=1e-15 if path.suffix == ".xlsx" else 0.0, abs=0.0)
        assert [one.told for one in other.measurements] == is_close
    frame["arm"] = ["elm", "oak", "asch", "fir"]
    frame.to_csv(tmp_path / "typo.csv", index=False)
    other = new("typo")
    with pytest.raises(InvalidInput, match=r"asch.*ash"):
        import_results(other, tmp_path / "typo.csv")
    frame.rename(columns={"value": "when"}).to_csv(tmp_path / "title.csv", index=False)
    with pytest.raises(InvalidInput, match="arm and value"):
        import_results(other, tmp_path / "title.csv")
    frame.assign(value="x").to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(InvalidInput, match="number"):
        import_results(other, tmp_path / "text.csv")
    assert other.measurements == []


def test_binary_rewards_take_booleans() -> None:
    """True is 1 where rewards are binary, in `tell` and in `correct`; other numbers are refused."""
    study = new(noise_std=None, rewards="binary")
    study.tell(arm="elm", value=[True, False, 1])
    study.correct(1, value=False, reason="misread")
    assert [one.value for one in study.measurements] == [0.0, 0.0, 1.0]
    with pytest.raises(InvalidInput, match="0 or 1"):
        study.tell(arm="elm", value=0.5)


@pytest.mark.parametrize("name", ["small budget", "costs"])
def test_a_budget_ends_the_asks(name: str) -> None:
    """No further ask then; what was given up is still made, and the state is "spent" unless there is a verdict."""
    kind = KINDS[name]
    study = create_study(name, **kind.given | {"budget": 8.0, "delta": 1e-9}, storage="memory:")
    asks = [ask for _ in range(9) for ask in study.ask(3)]
    assert study.ask(1) == []
    study.fail(asks[0])
    (again,) = study.ask(5)
    for ask in [again, *asks[1:]]:
        study.tell(ask.id, kind.value(ask.features, 0.0))
    assert study.status.state == "spent"
    assert study.ask(1) == []
    study.reopen(reason="more money", budget=20.0)
    assert study.ask(1)


def test_a_log_that_goes_on_where_this_machine_would_have_stopped_is_followed() -> None:
    """Sums are rounded otherwise elsewhere: the log has the last word, and the difference is noted."""
    rng, X = np.random.default_rng(0), np.random.default_rng(3).standard_normal((6, 3))
    cautious = sp.create_study("a", arms=X, delta=1e-12, storage="memory:")
    for _ in range(40):
        for ask in cautious.ask(1):
            cautious.tell(ask.id, float(X[ask.arm] @ [1.0, 0.3, 0.0] + 0.3 * rng.standard_normal()))
    assert not cautious.stopped
    events = cautious.log
    events[0]["options"]["delta"] = 0.2
    storage = open_storage("memory:")
    storage.create("a", rows_of([canonical(event) for event in events]))
    study = sp.load_study("a", storage)
    assert len(study.measurements) == 40
    assert "went on where this machine would have stopped" in study.state.differences[0]
    assert not study.stopped
    study.tell(arm=0, value=0.1)
    assert study.stopped


def test_a_study_that_is_closed_can_be_used_again(tmp_path: Path) -> None:
    """To close lets go of connections, and is no end."""
    with sp.create_study("a", arms=ROWS, storage=tmp_path / "a.db") as study:
        study.ask(1)
    assert len(study.pending) == 1
    study.close()


def test_words_say_after_how_many_pulls_the_verdict_came() -> None:
    """Results that come later are kept, and do not move it."""
    rng, X = np.random.default_rng(0), np.random.default_rng(3).standard_normal((6, 3))
    study = sp.create_study("a", arms=X, storage="memory:")
    study.optimize(lambda row: float(X[row] @ [1.0, 0.3, 0.0] + 0.1 * rng.standard_normal()))
    n = study.state.verdicts[0].n_pulls
    study.tell(arm=0, value=float(X[0] @ [1.0, 0.3, 0.0]))
    assert study.status.n_pulls == n + 1
    assert f"after {n} pulls" in study.result().explain()
    assert f"after {n} pulls" in study.certificate()["claim"]


def test_a_slip_is_named_by_the_number_that_corrects_it() -> None:
    """A value ten times too large among others: the sentence has its id, also in a later era, and all fits after it."""
    rng = np.random.default_rng(7)
    study = new(noise_std=None, delta=1e-200)
    for era in (1, 2):
        for _ in range(40):
            for ask in study.ask(4):
                study.tell(ask.id, means(ask.arm) + 0.05 * rng.standard_normal())
        wrong = study.measurements[-30]
        study.correct(wrong.id, 10.0 * wrong.told, reason="a test")
        assert f"number {wrong.id}, of {NAMES[wrong.arm]}, is {10.0 * wrong.told:.6g} where" in study.result().misfit
        study.correct(wrong.id, wrong.told, reason="misplaced decimal point")
        assert study.result().misfit == ""
        if era == 1:
            study.void(2, reason="mislabelled")
            study.reopen(reason="stricter", delta=1e-210)


def test_ctrl_c_ends_optimize(tmp_path: Path) -> None:
    """At once, with what was measured told, however many threads there are."""
    script = """
import signal, sys, threading, surepick as sp
from tests.study.kinds import ROWS
study = sp.create_study("long", arms=ROWS, noise_std=1.0, delta=1e-9, storage=sys.argv[1])
calls = []
def measure(arm):
    calls.append(arm)
    if len(calls) == 20:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    return float(len(calls) % 2)
try:
    study.optimize(measure, n_jobs=2)
except KeyboardInterrupt:
    print(len(calls), len(study.measurements), len(study.pending))
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "lab.db")]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60).stdout
    n_calls, n_told, n_open = map(int, said.split())
    assert (n_calls, n_open) == (n_told, 0)
    assert n_calls < 100
