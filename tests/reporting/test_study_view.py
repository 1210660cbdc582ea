"""What pages show of a study: one state in a badge, proofs and estimates apart, and every kind of study."""

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.reporting.html import as_sentence
from surepick.reporting.study_view import BEST_FIRST, MOST_NAMED, StudyView, event_lines, line_of, log_of, view_of
from surepick.reporting.study_words import typed_numbers, waiting_words

X = np.array([[1, 0.1, 0.9], [1, 0.5, 0.2], [1, 0.9, 0.6], [1, 0.3, 0.4], [1, 0.8, 0.1], [1, 0.6, 0.7]])
THETA = np.array([5.0, 2.0, 1.0])


def measured(n: int, *, arms: Any = None, noise: float = 0.3, bend: float = 0.0, **options: Any) -> sp.Study:
    """Create a study, and measure n times."""
    rng = np.random.default_rng(1)
    arms = sp.FiniteArms(X, names=list("ABCDEF")) if arms is None else arms
    study = sp.create_study("paints", arms=arms, storage="memory:", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(n):
            if not (asks := study.ask(1, worker="me")):
                break
            x = np.asarray(asks[0].features)
            odd = bend * (asks[0].arm % 2) if bend else 0.0
            study.tell(asks[0].id, float(x @ THETA[: len(x)] + odd + noise * rng.standard_normal()), worker="me")
    return study


def test_the_leaderboard_and_the_sentence_name_one_leader() -> None:
    """Also inside a block, whose measurements change estimates before the rule judges them; the caption says so."""
    rng, captions = np.random.default_rng(1), set()
    rows = rng.standard_normal((6, 3))
    theta = 0.3 * rng.standard_normal(3)
    study = sp.create_study("paints", arms=rows, noise_std=1.0, storage="memory:", seed=1)
    for _ in range(14):
        (ask,) = study.ask(1, worker="me")
        study.tell(ask.id, float(rows[ask.arm] @ theta + rng.standard_normal()), worker="me", warn=False)
        view = view_of(study)
        first = view.leaderboard.places[0]
        estimates = [float(place.estimate) for place in view.leaderboard.places if place.estimate != "-"]
        captions.add((view.leaderboard.caption == BEST_FIRST, estimates == sorted(estimates, reverse=True)))
        if first.estimated == "leader":
            assert first.name == view.leaders["leader"]
        else:
            assert "No leader yet" in view.sentence
    assert captions == {(True, True), (False, False)}


@pytest.mark.parametrize("options", [{}, {"control": "A"}, {"noise_std": 1.0}])
def test_a_study_with_offsets_has_a_page_before_its_first_measurement(options: dict[str, Any]) -> None:
    """There is no group yet, and no level of all results."""
    study = measured(0, groups="offset", **options)
    assert view_of(study).badge.text == "no data"
    assert math.isnan(study.result().noise_std) or options == {"noise_std": 1.0}


def test_the_badge_says_the_state() -> None:
    """One of six, each with a tone of its own where it matters."""
    rng = np.random.default_rng([1, 16])
    line = sp.FiniteArms(np.column_stack([np.ones(3), np.arange(3.0)]))
    doubtful = sp.create_study("doses", arms=line, storage="memory:")
    while asks := doubtful.ask(1, worker="me"):  # the first arm is ten times as noisy as the others
        noise = float(rng.standard_normal()) * (2.0, 0.2, 0.2)[asks[0].arm]
        doubtful.tell(asks[0].id, 0.5 * asks[0].arm + noise, worker="me", warn=False)
    badges = {
        "no data": measured(0),
        "measuring": measured(7, noise=3.0),
        "decided": measured(400),
        "budget ended": measured(9, noise=5.0, budget=8),
        "withdrawn": measured(80, bend=9.0),
        "model in doubt": doubtful,
    }
    for words, study in badges.items():
        badge = line_of(study).badge
        assert badge.text.startswith(words), (words, badge, study.status.guarantee)
        assert view_of(study).badge == badge
    assert "certificate" in view_of(badges["decided"]).next
    assert "new study" in view_of(badges["model in doubt"]).next
    assert line_of(badges["withdrawn"]).leader == ""
    assert "proved" not in view_of(badges["withdrawn"]).proved
    asked = measured(0)
    asked.ask(2, worker="me")
    assert line_of(asked).badge.text == "no data"


def more(study: sp.Study, n: int) -> None:
    """Measure n times at another bench."""
    for _ in range(n):
        (ask,) = study.ask(1, worker="me")
        study.tell(ask, 5.0 + ask.id % 7, worker="me", warn=False)


def test_the_page_says_what_the_proof_waits_for() -> None:
    """Results of later blocks do not enter the proof while an ask of an earlier block is open; else no word of it."""
    study = measured(7, noise=3.0)
    ledger = study.state.learner.state.ledger
    (held,) = study.ask(1, worker="bench-2")
    block = ledger.n_opened
    while ledger.n_opened == block:
        assert waiting_words(study.state) == ""  # the block goes on: nothing waits
        more(study, 1)
    evidence, words = study.status.evidence, waiting_words(study.state)
    assert words.startswith(f"The proof waits for ask {held.id} of bench-2, open since today ")
    assert words in view_of(study).details
    more(study, 25)
    assert study.status.evidence == evidence
    study.fail(held, reason="the vial broke", worker="bench-2")
    arm, n_planned = study.state.catalog.label(held.arm), study.status.n_planned - 1
    assert waiting_words(study.state) == (
        f"A measurement of {arm} was given up, and the proof waits for it: later results enter it afterwards. surepick "
        f"asks for it again after {n_planned} planned asks."
    )
    more(study, n_planned)
    assert waiting_words(study.state).endswith("surepick asks for it again.")
    (again,) = study.ask(1, worker="bench-3")
    assert study.state.attempts[again.id].is_again
    assert f"ask {again.id} of bench-3" in waiting_words(study.state)
    study.tell(again, 5.0, worker="bench-3", warn=False)
    assert waiting_words(study.state) == ""


def test_several_asks_that_the_proof_waits_for_are_counted() -> None:
    """The first three are named."""
    study = measured(7, noise=3.0)
    held = study.ask(5, worker="bench-2")
    more(study, 25)
    assert waiting_words(study.state).count("of bench-2") == 3
    assert ", and 2 more: later results" in waiting_words(study.state)
    for ask in held[:2]:
        study.fail(ask, worker="bench-2")
    assert waiting_words(study.state).count("of bench-2") == 3
    assert "Measurements of " in waiting_words(study.state)
    for ask in held[2:]:
        study.fail(ask, worker="bench-2")
    assert ", and 2 more were given up, and the proof waits for them: later" in waiting_words(study.state)


def test_a_rule_that_judges_every_pull_waits_for_none() -> None:
    """Its evidence has every result."""
    study = measured(7, noise=3.0, stopping="evidence", noise_std=3.0)
    study.ask(1, worker="bench-2")
    more(study, 25)
    assert study.status.n_pending == 1
    assert waiting_words(study.state) == ""


def test_without_data_there_is_no_leader_to_speak_of() -> None:
    """The sentence says no more than that."""
    view = view_of(measured(0))
    assert (view.sentence, view.leaders) == ("Nothing is measured yet.", {})
    assert view.next == "Ask for the next measurements."


def test_a_wide_forecast_says_at_least_how_many() -> None:
    """The badge does not give a number that the sentence beside it calls unknown."""
    texts = {view_of(study).badge.text: view_of(study) for study in (measured(n, noise=1.0) for n in (8, 16, 24, 40))}
    for text, view in texts.items():
        assert ("+ left" in text) is ("at least" in view.estimates.get("remaining", "")), text
        ends = re.search(r"(\d+) to (\d+) left", text)
        assert ends is None or f"({ends[1]} to {ends[2]})" in view.estimates["remaining"], text


def test_proofs_and_estimates_are_two_places() -> None:
    """No estimate among the proofs, and the other way round."""
    view = view_of(measured(44, noise=2.0))
    assert "needed 95 %" in view.proved["proved"]
    assert "no guarantee" in view.estimates["estimate"]
    assert not set(view.proved) & set(view.estimates)
    places = view.leaderboard.places
    assert {place.estimated for place in places} <= {"leader", "in question", ""}
    assert {place.proved for place in places} <= {"not excluded", "excluded"}
    assert places[0].estimated == "leader"
    decided = view_of(measured(400))
    assert [place.proved for place in decided.leaderboard.places] == ["best", *["excluded"] * 5]
    assert {place.estimated for place in decided.leaderboard.places} == {""}
    assert decided.estimates == {}


def kinds() -> dict[str, sp.Study]:
    """One study of each kind."""
    many = np.random.default_rng(0).normal(size=(70, 3))
    return {
        "unnamed": measured(30, arms=sp.FiniteArms(X)),
        "three best": measured(30, m=3),
        "many": measured(30, arms=sp.FiniteArms(many)),
        "candidates": measured(30, candidates=X[:2] * 1.1, noise_std=0.3),
        "sphere": measured(12, arms=sp.Sphere(3), epsilon=0.5),
        "unstructured": measured(30, model="unstructured"),
        "costs": measured(20, costs=[1, 2, 3, 1, 2, 3.0], noise=2.0),
        "binary": _binary(),
        "one arm": measured(0, arms=sp.FiniteArms(np.eye(2))),
    }


def _binary() -> sp.Study:
    study = sp.create_study("clicks", arms=sp.FiniteArms(np.eye(2)), storage="memory:", rewards="binary")
    for n in range(12):
        study.tell(study.ask(1, worker="me")[0].id, n % 2, worker="me")
    return study


@pytest.mark.parametrize("kind", list(kinds()))
def test_every_kind_of_study_has_a_view(kind: str) -> None:
    """Sets of vectors, candidates, several best, costs, no model."""
    study = kinds()[kind]
    study.ask(2, worker="me")
    view: StudyView = view_of(study, n_arms=50)
    assert view.sentence
    assert view.next
    assert line_of(study).name == study.name
    assert len(view.leaderboard.places) <= 50
    assert (view.model is None) is (kind in ("unstructured",))
    if kind == "many":
        assert (len(view.leaderboard.places), view.leaderboard.n_all) == (50, 70)
        assert len(view_of(study, n_arms=2_000).leaderboard.places) == 70
    if kind == "costs":
        assert view.estimates["cost of the rest"].startswith("about ")
        assert float(view.numbers["cost so far"]) > 20.0
    assert view.head[0] == study.head[0]


def test_asks_show_the_whole_recipe() -> None:
    """Every column of the table, who has the ask, and until when."""
    study = sp.create_study("mix", arms=sp.read_arms("examples/data/mixtures.csv"), storage="memory:", lease="none")
    study.ask(2, worker="bench-1")
    first, _ = view_of(study).asks
    assert list(first.recipe) == ["temperature", "time", "acid"]
    assert (first.worker, first.until) == ("bench-1", "for ever")
    assert first.reason == "no data in this direction yet"


def test_events_are_lines() -> None:
    """Names of arms, values and reasons; a long plan is cut."""
    study = measured(30, noise=3.0)
    study.void(2, reason="wrong bottle")
    study.correct(3, 6.5, reason="mistyped")
    study.fail(study.ask(1, worker="me")[0].id, reason="broken")
    lines = event_lines(study.state, study.rows())
    assert [line.n for line in lines] == list(range(1, study.head[0] + 1))
    said = {line.kind: line.said for line in lines}
    assert said["voided"] == "measurement 2; wrong bottle"
    assert said["corrected"] == "measurement 3 = 6.5; mistyped"
    assert said["failed"].endswith("; broken")
    told = next(line.said for line in lines if line.kind == "told")
    assert re.fullmatch(r"[A-F] = -?[0-9.]+, measurement 1, ask 1", told)
    study.ask(3, worker="you")
    asked = event_lines(study.state, study.rows())[-1]
    last = max(study.state.attempts)
    assert asked.said.endswith(f", asks {last - 2} to {last}")
    planned = max((line.said for line in lines if line.kind == "planned"), key=len)
    assert planned.count(",") <= MOST_NAMED
    assert all(math.isfinite(line.n) for line in lines)


def test_sentences_of_the_library_on_a_page() -> None:
    """A capital letter, code as code, and texts of users as texts; a first word that is code stays."""
    assert as_sentence("a value; try `surepick tell <x>`.") == "A value; try <code>surepick tell &lt;x&gt;</code>."
    assert as_sentence('groups="offset" needs a label') == "groups=&#34;offset&#34; needs a label"
    assert as_sentence("noise_std must be positive") == "noise_std must be positive"


def test_a_value_that_stands_apart_is_said_to_everybody() -> None:
    """On the page with a question and in the log with a remark, until it is corrected."""
    study = measured(16, noise=1.0)
    told = study.tell(arm="A", value=530.0, worker="me", warn=False)[0].id
    first = view_of(study).latest[0]
    assert (first.id, first.remark) == (told, "stands apart")
    assert first.question.startswith("530 is recorded, far from about ")
    assert f'"Change" below measurement {told}' in first.question
    assert [one.id for one in log_of(study).entries if one.question] == [told]
    study.correct(told, 5.3, reason="mistyped", worker="me")
    assert not any(one.question for one in view_of(study).latest)


def test_a_verdict_without_other_intervals_keeps_the_likely_ones() -> None:
    """The page has what the table of the report has; counts that differ from the log are explained."""
    study = measured(400, noise_std=None)
    result, view = study.result(), view_of(study)
    assert result.stopped
    assert not np.isfinite(result.compared.high).any()
    assert "No intervals hold for all arms and all times together" in view.versus.note
    assert all(place.likely for place in view.leaderboard.places)
    assert not any(place.interval for place in view.leaderboard.places)
    assert view.numbers["pulls"] == str(result.n_pulls)
    study.tell(arm="A", value=5.0, worker="me", warn=False)
    study.void(1, reason="wrong vial", worker="me")
    n = len(study.measurements)
    assert view_of(study).numbers["pulls"].endswith(f"; the log has {n} measurements, of these 1 void")


@pytest.mark.parametrize("text", ["1 234,5", "12 345", "1 234 567", "3.1; -1\u00a0234,5", "1 234,5 1 240,1"])
def test_spaces_between_thousands_are_no_list(text: str) -> None:
    """A number that may be one or several is refused, with both spellings."""
    with pytest.raises(InvalidInput, match=r"one value or [23]; write '-?[0-9.]+' for one value, or '.*; .*' for [23]"):
        typed_numbers(text)


def test_values_between_spaces_are_a_list() -> None:
    """As before, with decimal commas too."""
    lists = {
        "0,53 0,61": [0.53, 0.61],
        "1; 234.5": [1.0, 234.5],
        "53 47 512.5": [53.0, 47.0, 512.5],
        "98 102 97": [98, 102, 97],
    }
    assert {text: typed_numbers(text) for text in lists} == lists
