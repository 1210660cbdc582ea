"""Verdicts of studies: what becomes of them and of audits when values are corrected, and what later eras may say."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import Conflict, InvalidInput
from surepick.study.admin import load_study
from surepick.study.certificate import verify
from surepick.study.events import canonical, rows_of
from surepick.study.state import State
from surepick.study.storage import open_storage
from tests.study.kinds import NAMES, ROWS
from tests.study.tree_study import finish, kinds, means, new


def test_an_audit_survives_a_correction_that_leaves_the_verdict() -> None:
    """Its check pulls are asked for as before."""
    study = new()
    finish(study)
    study.audit(6)
    study.correct(1, study.measurements[0].told + 0.01, reason="digit")
    assert study.stopped
    for ask in study.ask(6):
        assert ask.reason == "checks the model after the verdict"
        study.tell(ask.id, means(ask.arm))
    assert study.result().n_checks == 6
    assert verify(study.certificate(), study.rows()).ok


def test_earlier_results_decide_also_where_the_budget_allows_no_pull() -> None:
    """And again after a correction that changes next to nothing."""
    study = new(costs=[10.0] * 4, budget=5.0, earlier="evidence")
    study.tell_earlier([(n % 4, means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    assert study.ask(1) == []
    assert study.stopped
    study.correct(1, study.measurements[0].told + 1e-3, reason="digit")
    assert study.stopped
    assert verify(study.certificate(), study.rows()).ok


def test_a_verdict_that_was_taken_back_is_marked() -> None:
    """In the certificate, and in what a check says of it."""
    study = new()
    finish(study)
    study.correct(1, -20.0, reason="sign and decimal point")
    assert not study.stopped
    (verdict,) = study.certificate()["verdicts"]
    assert verdict["taken_back"]
    assert "taken back after a correction" in " ".join(verify(study.certificate(), study.rows()).notes)


def test_what_was_looked_at_is_not_said_after_the_next_result() -> None:
    """A fixed design is judged when all its asks are in; looks between are of that moment."""
    study = new(algorithm="g-static", variant="paper")
    for _ in range(3):
        for ask in study.ask(1):
            study.tell(ask.id, means(ask.arm) + 0.01)
    first, _ = study.ask(2)
    assert study.status.evidence >= 0.0
    for _ in range(20):
        study.tell(arm=first.arm, value=means(first.arm))
    assert repr(study.status) == repr(load_study("trees", study.storage).status)
    assert verify(study.certificate(), study.rows()).ok


def test_a_later_era_shows_no_intervals() -> None:
    """They would count results after a look at which arms may have been chosen, and have no proof."""
    study = new()
    finish(study)
    first = study.status
    assert math.isfinite(first.lead_low)
    assert math.isfinite(first.epsilon_bound)
    study.reopen(reason="more", join={"yew": [0.1, 0.2]})
    finish(study)
    status, certificate = study.status, study.certificate()
    assert (status.lead_low, status.lead_high, status.epsilon_bound) == (-math.inf, math.inf, math.inf)
    assert certificate["runner_up"]["low"] is None
    assert "proved" in certificate["claim"]
    of_choice, of_fixing = certificate["assumptions"][2][1], certificate["assumptions"][4]
    assert "of before guide it" in of_choice
    assert "came without being asked for" not in of_choice
    assert ("first reward of this era" in of_fixing[0], "begins with them" in of_fixing[1]) == (True, True)


def test_results_that_nobody_asked_for_are_said_also_beside_open_asks() -> None:
    """Six are out, six others came in."""
    study = new(delta=1e-9)
    study.ask(6, worker="bob")
    for _ in range(6):
        study.tell(arm="elm", value=0.7, worker="eve")
    assert "6 results came without being asked for" in study.certificate()["assumptions"][2][1]


def test_a_result_of_a_study_is_kept_in_a_file(tmp_path: Path) -> None:
    """With results that nobody asked for, and with one that was void and counts again."""
    study = new()
    study.tell(arm="elm", value=0.7)
    finish(study)
    study.void(2, reason="mislabelled")
    study.restore(2, reason="it was not")
    result = study.result()
    result.save(tmp_path / "result.json")
    loaded = sp.Result.load(tmp_path / "result.json")
    assert loaded.history.log == result.history.log
    assert (loaded.best_name, loaded.history) == (result.best_name, result.history)


def test_a_key_names_arms_as_well_as_values() -> None:
    """The same values of other arms are other results."""
    study = new()
    first = study.tell_earlier([("elm", 0.5), ("elm", 0.6)], key="monday")
    assert study.tell_earlier([("elm", 0.5), ("elm", 0.6)], key="monday") == first
    with pytest.raises(Conflict, match="of other arms"):
        study.tell_earlier([("oak", 0.5), ("fir", 0.6)], key="monday")
    assert len(study.measurements) == 2


def test_an_audit_of_a_machine_that_had_its_verdict_is_followed() -> None:
    """Sums are rounded differently elsewhere; here by far more than that."""
    study = new()
    finish(study)
    study.audit(3)
    events = study.log
    events[0]["options"]["delta"] = 1e-9
    storage = open_storage("memory:")
    storage.create("trees", rows_of([canonical(event) for event in events]))
    assert len(load_study("trees", storage).ask(3)) == 3


def test_what_earlier_results_are_is_fixed_when_a_study_begins() -> None:
    """A later era has all that was measured before it as guidance."""
    with pytest.raises(InvalidInput, match="`earlier` is fixed"):
        new().reopen(reason="why not", earlier="evidence")
    with pytest.raises(InvalidInput, match=r"evidence.*guidance"):
        new(earlier="hints")


@pytest.mark.parametrize("name", ["arms", "candidates"])
def test_what_a_study_has_by_itself_is_no_option(name: str) -> None:
    """Refused in words, when it is created and later."""
    given: Any = {name: NAMES}
    study = new()
    with pytest.raises(InvalidInput, match=f"`{name}` is no option"):
        study.reopen(reason="why not", **given)


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
        study.tell(ask.id, 3.0, questions=False)
    study.tell(arm="elm", value=9.0)
    assert study.state.verdict == verdict
    assert study.best_name == "ash"
    assert study.status.stopped_at == verdict.at if verdict else False
    assert study.remaining() == 0.0


def test_an_audit_gives_check_pulls_after_the_verdict() -> None:
    """They are asked for, spread over the arms, and named in the reason; once they are, their number is fixed."""
    study = new()
    finish(study)
    assert study.audit(9) == 9
    assert study.audit(4) == study.n_planned == 4
    asks = study.ask(1)
    with pytest.raises(InvalidInput, match="1 of 4 check pulls are asked for already"):
        study.audit(4)
    asks += study.ask(9)
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
        study.tell(ask.id, means(ask.arm) + (3.0 if ask.arm == 3 else 0.0), questions=False)
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
    with pytest.raises(InvalidInput, match="counts earlier measurements"):
        study.reopen(reason="other risk", delta=0.2)


def test_options_that_have_one_number_per_arm_are_given_anew_with_the_arms() -> None:
    """Noise and costs of arms that join cannot be guessed."""
    study = new(costs=[1, 2, 3, 4], noise_std=[0.1, 0.2, 0.3, 0.4])
    study.tell_earlier([("elm", 0.5)])
    with pytest.raises(InvalidInput, match="number for each arm"):
        study.reopen(reason="x", retire=["elm"])
    study.reopen(reason="x", retire=["elm"], costs=[2, 3, 4], noise_std=[0.2, 0.3, 0.4])
    assert study.learner.state.plans.cost_of(0) == 2.0
    assert load_study("trees", study.storage).learner.state.plans.cost_of(0) == 2.0


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
    checked = State(events[0], checks=True)
    for event in events[1:]:
        checked.apply(event)
    assert "went on where this machine would have stopped" in checked.differences[0]
    assert not study.stopped
    study.tell(arm=0, value=0.1)
    assert study.stopped


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


def test_results_that_are_all_nought_are_no_error() -> None:
    """They leave no noise at all, where it is learnt; everything can be said all the same."""
    study = new(noise_std=None)
    for _ in range(15):
        for ask in study.ask(4):
            study.tell(ask.id, 0.0)
        assert math.isfinite(study.status.n_pulls)
    assert verify(study.certificate(), study.rows()).ok


def test_intervals_wait_for_the_oldest_open_ask() -> None:
    """What the second worker tells counts once the first has answered: live, loaded again and in certificates."""
    study, rng = new(noise_std=0.5), np.random.default_rng(9)

    def tell(ask: sp.StudyAsk, worker: str) -> None:
        study.tell(ask.id, means(ask.arm) + 0.5 * float(rng.standard_normal()), worker=worker)

    for ask in study.ask(12, worker="ann"):
        tell(ask, "ann")
    (slow,) = study.ask(1, worker="ann")
    before = study.result()
    for _ in range(12):
        for ask in study.ask(1, worker="ben"):
            tell(ask, "ben")
    while_open = study.result()
    assert while_open.n_pulls == before.n_pulls + 12
    assert np.array_equal(while_open.arms.low, before.arms.low)
    assert np.array_equal(while_open.arms.high, before.arms.high)
    assert study.status.epsilon_bound == while_open.epsilon_bound < math.inf
    assert load_study("trees", study.storage).result() == while_open
    assert verify(study.certificate(), study.rows()).ok
    tell(slow, "ann")
    assert study.result().n_pulls == before.n_pulls + 13
    assert (study.result().arms.high - study.result().arms.low < before.arms.high - before.arms.low).all()
    assert load_study("trees", study.storage).result() == study.result()
