"""Verdicts of studies: what becomes of them and of audits when values are corrected, and what later eras may say."""

import math
from pathlib import Path
from typing import Any

import pytest

import surepick as sp
from surepick.errors import Conflict, InvalidInput, SurepickError
from surepick.study.certificate import verify
from surepick.study.events import canonical, rows_of
from surepick.study.library import load_study
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.study.kinds import NAMES, ROWS
from tests.study.test_sharing import new


def means(arm: int) -> float:
    """What an arm gives without noise."""
    return float(ROWS[arm] @ [0.7, 0.6])


def finish(study: Study) -> None:
    """Measure until it stops."""
    while not study.stopped:
        for ask in study.ask(4):
            study.tell(ask.id, means(ask.arm))


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
    study = new(costs=[10.0] * 4, budget=5.0)
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
    assert "of before guide it and are no evidence" in of_choice
    assert "came without being asked for" not in of_choice
    assert ("first reward that counts" in of_fixing[0], "begins with them" in of_fixing[1]) == (True, True)


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


@pytest.mark.parametrize("name", ["arms", "candidates", "earlier"])
def test_what_a_study_has_by_itself_is_no_option(name: str) -> None:
    """Refused in words, when it is created and later."""
    given: Any = {name: NAMES}
    study = new()
    with pytest.raises(InvalidInput, match=f"`{name}` is no option"):
        study.reopen(reason="why not", **given)


def test_functions_that_never_have_a_result_end() -> None:
    """And what they say, in however many lines, is the reason of the ask that was given up."""

    def skips(_arm: Any) -> float:
        raise sp.Skipped("no\n light")

    study = new()
    with pytest.raises(SurepickError, match="no result in 1000 measurements in a row"):
        study.optimize(skips)
    assert study.pending == []
    assert study.log[-1]["reason"] == "no light"


def test_optimize_warns_of_an_answer_that_cannot_be_defended() -> None:
    """The rewards scatter far more than they were said to."""
    values = iter([3.0, -3.0] * 200)
    study = new(noise_std=0.01)
    with pytest.warns(sp.NoiseWarning, match="No answer can be defended"):
        study.optimize(lambda _arm: next(values), max_pulls=60)
