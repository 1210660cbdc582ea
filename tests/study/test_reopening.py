"""Changing one's mind: what a reopened study keeps as evidence, and that it says so before (guarantee, Theorem 9)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.errors import CorruptLog
from surepick.stopping.betting import BettingState
from surepick.study.admin import copy_study, create_study, load_study
from surepick.study.certificate import digest_of, verify
from surepick.study.eras import Era
from surepick.study.events import canonical, rows_of
from surepick.study.state import State
from surepick.study.study import Study
from tests.tools.test_verify_certificate import AGREES, as_rows, verified

NAMES = ["elm", "oak", "ash", "fir", "yew"]
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9], [0.1, -0.6]])
THETA = np.array([0.7, 0.6])
"""Means 0.7, 0.6, 0.98, 0.19 and -0.29: ash is best."""


def new(**options: Any) -> Study:
    """A study of five trees."""
    given = {"noise_std": 0.2, "storage": "memory:", **options}
    return create_study("trees", arms=sp.FiniteArms(ROWS, names=NAMES), **given)


def go_on(study: Study, most: int = 400, seed: int = 1) -> int:
    """Measure until there is a verdict, or so often; return how often."""
    rng = np.random.default_rng(seed)
    for n in range(most):
        asks = study.ask(1)
        if study.stopped or not asks:
            return n
        study.tell(asks[0].id, float(np.dot(asks[0].features, THETA)) + 0.2 * float(rng.normal()))
    return most


def between_blocks(study: Study) -> None:
    """Measure until a block ends before the verdict, and has paid bets."""
    for seed in range(200):
        go_on(study, 1, seed)
        if study.n_planned == 0 and study.state.now.n_evidence > 6:
            break
    assert not study.stopped


def bets(study: Study) -> BettingState:
    """The state of the rule."""
    state = study.learner.state.settled.state
    assert isinstance(state, BettingState)
    return state


def is_whole(study: Study, folder: Path) -> None:
    """A study that is read again is the same, and both verifiers derive its certificate."""
    assert repr(load_study("trees", study.storage).status) == repr(study.status)
    assert verify(study.certificate(), study.rows()).problems == []
    assert verified(folder, study.certificate(), as_rows(study))[0] == AGREES


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {"delta": 0.01}),
        ({}, {"budget": 500.0}),
        ({}, {"epsilon": 0.05}),
        ({}, {"costs": [1, 2, 1, 1, 1], "seed": 3}),
        ({}, {"join": {"box": [0.9, 0.8]}}),
        ({"m": 2}, {"delta": 0.01}),
        ({"m": 2}, {"join": {"box": [0.9, 0.8]}}),
        ({"epsilon": 0.05}, {"delta": 0.01}),
        ({"epsilon": 0.05}, {"budget": 500.0}),
        ({"rewards": "binary", "noise_std": None}, {"delta": 0.01}),
        ({"noise_std": None}, {"delta": 0.01}),
    ],
)
def test_evidence_goes_on_where_a_proof_allows_it(options: dict[str, Any], changes: dict[str, Any]) -> None:
    """All of it: the wealth against every arm is what it was, under the new price; a replay has the same."""
    study = new(**options)
    if options.get("rewards"):
        for n in range(12):
            for ask in study.ask(1):
                study.tell(ask.id, float(n % 3 > 0))
        while study.n_planned:
            study.tell(study.ask(1)[0].id, 1.0)
    else:
        go_on(study)
    before, n = bets(study), study.state.now.n_evidence
    preview = study.preview_reopen(**changes)
    assert (preview.n_evidence, preview.why, str(preview).startswith(f"This keeps {n} results as evidence")) == (
        n, "", True,
    )  # fmt: skip
    study.reopen(reason="a look", **changes)
    now = bets(study)
    assert study.log[-1 - study.stopped]["kept"] == n
    if not (options.get("epsilon") or "epsilon" in changes):
        np.testing.assert_array_equal(now.log_rejection()[:5], before.log_rejection()[:5])
        assert not now.log_rejection()[5:].any()
    assert repr(load_study("trees", study.storage).status) == repr(study.status)
    assert verify(study.certificate(), study.rows()).problems == []
    assert "stay evidence" in " ".join(study.certificate()["conditions"])


@pytest.mark.parametrize(
    ("options", "changes", "why"),
    [
        ({}, {"m": 3}, "about the best arm, and the 3 best arms is another claim"),
        ({"epsilon": 0.2}, {"epsilon": 0.1}, "allowed for a loss of 0.2"),
        ({"epsilon": 0.2}, {"epsilon": 0.3}, "allowed for a loss of 0.2"),
        ({"epsilon": 0.2}, {"join": {"box": [0.9, 0.8]}}, "only while the arms stay"),
        ({}, {"noise_std": 0.1}, "assumed `noise_std`"),
        ({}, {"delta": 0.1}, "a larger delta that is chosen after a look"),
        ({}, {"retire": ["ash"]}, "ash could still be the best"),
        ({}, {"retire": ["oak"], "delta": 1e-6}, "oak could still be the best at the new risk"),
        ({}, {}, "nothing changes"),
    ],
)
def test_what_has_no_proof_is_guidance_with_the_reason(
    options: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    """Its event is the one that such eras always had."""
    study = new(**options)
    go_on(study)
    preview = study.preview_reopen(**changes)
    assert preview.n_evidence == 0
    assert why in preview.why
    assert f"as guidance (plans and bets use them; the proof starts anew), because {preview.why}." in str(preview)
    study.reopen(reason="a look", **changes)
    assert "kept" not in study.log[-1]
    assert study.status.evidence == 0.0
    assert preview.risk == study.certificate()["all_eras_delta"] == sum(e["options"]["delta"] for e in study.state.eras)


def test_what_is_excluded_may_leave(tmp_path: Path) -> None:
    """The verdict stands at once for those that stay, at the same risk, whatever the reason was."""
    study = new()
    go_on(study)
    verdict = study.state.verdicts[-1]
    study.reopen(reason="it looked bad", retire=["yew", "fir"])
    assert study.stopped
    assert study.state.verdicts[-1].best == verdict.best
    assert study.state.verdicts[-1].evidence == pytest.approx(verdict.evidence)
    assert study.certificate()["all_eras_delta"] == 0.05
    is_whole(study, tmp_path)


def test_arms_that_join_are_measured_against_the_winner_alone(tmp_path: Path) -> None:
    """Those excluded stay so; newcomers add the risk of theirs; the certificate says on what condition."""
    study = new()
    go_on(study)
    study.reopen(reason="a new one", join={"box": [1.2, 1.0]})
    assert study.preview_reopen(delta=0.01).n_evidence == study.state.now.n_evidence
    alive = bets(study).survivors(2)
    assert [NAMES[n] if n < 5 else "box" for n in np.flatnonzero(alive)] == ["ash", "box"]
    go_on(study)
    assert study.best_name == "box"
    certificate = study.certificate()
    assert certificate["all_eras_delta"] == 0.1
    assert any("Arms that have joined were not chosen by the noise" in one for one in certificate["conditions"])
    is_whole(study, tmp_path)


def test_evidence_is_kept_between_blocks(tmp_path: Path) -> None:
    """In the middle of one the preview says how many results are missing; after them nothing is lost."""
    study = new(delta=0.001)
    between_blocks(study)
    n = study.state.now.n_evidence
    assert study.preview_reopen(delta=0.0001).n_evidence == n
    go_on(study, 1)
    missing = study.preview_reopen(delta=0.0001)
    assert missing.n_evidence == 0
    assert f"{study.n_planned} result" in missing.why
    go_on(study, study.n_planned)
    assert study.preview_reopen(delta=0.0001).n_evidence > n
    study.reopen(reason="stricter", delta=0.0001)
    evidence = study.status.evidence
    go_on(study, 1)
    assert study.status.evidence == pytest.approx(evidence)
    go_on(study)
    assert study.stopped
    is_whole(study, tmp_path)


def test_a_correction_of_kept_evidence_counts(tmp_path: Path) -> None:
    """All eras are settled again; an arm that retired and is no longer excluded takes the evidence with it."""
    study = new()
    go_on(study)
    study.reopen(reason="surer", delta=0.001)
    before = study.status.evidence
    study.correct(2, study.measurements[1].told + 0.05, reason="digit")
    assert study.status.evidence != before
    is_whole(study, tmp_path)
    go_on(study)
    study.reopen(reason="gone", retire=["yew"])
    assert study.stopped
    assert study.certificate()["all_eras_delta"] == 0.05
    for one in study.measurements:
        study.correct(one.id, -one.told, reason="a wire was crossed")
    assert study.state.now.kept is None
    assert study.state.now.n_evidence == 0
    assert study.certificate()["all_eras_delta"] == pytest.approx(0.051)
    is_whole(study, tmp_path)
    go_on(study)
    is_whole(study, tmp_path)


def test_a_chain_of_eras_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Arms join and retire, the risk changes, blocks are left open, results come late, are void and restored."""
    study = new(lease=None)
    go_on(study)
    study.reopen(reason="a new one", join={"box": [0.85, 0.72]}, retire=["yew"])
    late = study.ask(2)
    study.reopen(reason="stricter", delta=0.02)
    for ask in late:
        study.tell(ask.id, 0.5)
    go_on(study, 60)
    study.void(3, reason="spilt")
    study.restore(3, reason="it was not")
    study.void(len(study.measurements), reason="spilt")
    go_on(study, 600)
    is_whole(study, tmp_path)


def test_open_asks_are_told_or_given_up_first(tmp_path: Path) -> None:
    """A result may be known that is not told, or late because of its value: to drop its block would choose by it."""
    study = new(delta=0.001, lease=None)
    between_blocks(study)
    n, asks = study.state.now.n_evidence, study.ask(2)
    preview = study.preview_reopen(delta=0.0001)
    assert preview.n_evidence == 0
    assert "tell or give up the open asks first" in preview.why
    forged = copy_study("trees", "forged", storage=study.storage)
    forged.reopen(reason="stricter", delta=0.0001)
    events = forged.log
    events[-1]["kept"] = n
    rows = rows_of([canonical(event) for event in events])
    certificate = {**forged.certificate(), "log": {"events": len(rows), "hash": rows[-1].hash}}
    assert any("keeps evidence that has no proof there" in one for one in verify(certificate, rows).problems)
    certificate["digest"] = digest_of(certificate)
    written = [(str(row.n), row.hash, row.text) for row in rows]
    assert "keeps evidence that has no proof" in verified(tmp_path, certificate, written)[1]
    for ask in asks:
        study.fail(ask, reason="the bench is needed elsewhere")
    assert study.preview_reopen(delta=0.0001).n_evidence == n
    study.reopen(reason="stricter", delta=0.0001)
    assert study.log[-1]["kept"] == n
    for ask in asks:
        study.tell(ask.id, 0.5)
    assert study.state.now.n_evidence == n
    go_on(study)
    is_whole(study, tmp_path)


def test_a_verdict_waits_for_an_estimate(tmp_path: Path) -> None:
    """If what is left was measured in too few directions, a few more pulls come before the same verdict."""
    arms = sp.FiniteArms([[1.0, 0.0], [0.0, 1.0], [0.3, 0.3]], names=["a", "b", "c"])
    study = create_study("trees", arms=arms, noise_std=0.2, storage="memory:")
    go_on(study)
    assert {one.arm for one in study.measurements} == {0, 1}
    study.reopen(reason="sold out", retire=["b"])
    assert (study.stopped, study.state.now.n_evidence) == (False, study.log[-1]["kept"])
    go_on(study)
    assert study.best_name == "a"
    is_whole(study, tmp_path)


def test_a_copy_of_the_leader_may_leave(tmp_path: Path) -> None:
    """The leader stands for both, in the study and for a verifier."""
    names = [*NAMES, "ash again"]
    study = create_study("trees", arms=sp.FiniteArms([*ROWS, ROWS[2]], names=names), noise_std=0.2, storage="memory:")
    go_on(study)
    assert study.best_name == "ash"
    study.reopen(reason="once is enough", retire=["ash again", "yew"])
    assert study.stopped
    is_whole(study, tmp_path)
    assert study.preview_reopen(retire=["ash"]).n_evidence == 0


def test_an_arm_with_a_feature_of_its_own_may_leave(tmp_path: Path) -> None:
    """The feature goes with it, and comes back with the next arm that has it."""
    arms = sp.FiniteArms(np.eye(4), names=["elm", "oak", "ash", "fir"])
    study = create_study("trees", arms=arms, noise_std=0.2, storage="memory:")

    def measure() -> None:
        rng = np.random.default_rng(1)
        while not study.stopped and len(study.measurements) < 300:
            for ask in study.ask(1):
                study.tell(ask.id, float(np.dot(ask.features, [0.3, 1.5, 0.9, 0.1])) + 0.2 * float(rng.normal()))

    measure()
    study.reopen(reason="sold out", retire=["fir"], delta=0.01)
    assert study.learner.measured_arms.dim == 3
    measure()
    assert (study.best_name, study.log[-1]["kind"]) == ("oak", "stopped")
    assert study.result().explain()
    is_whole(study, tmp_path)
    study.reopen(reason="a new one", join={"box": [0.0, 1.0, 0.0, 1.0]})
    assert study.learner.measured_arms.dim == 4
    measure()
    assert study.best_name == "box"
    is_whole(study, tmp_path)


def test_a_correction_of_an_arm_that_has_left_is_seen_at_once(tmp_path: Path) -> None:
    """The present learner does not know the result, and its evidence rests on it."""
    study = new()
    go_on(study)
    yew = next(
        one.id for one in study.measurements if study.state.roster.label(one.arm) in ("yew", "fir", "elm", "oak")
    )
    name = study.state.roster.label(study.measurements[yew - 1].arm)
    study.reopen(reason="it looked bad", retire=[name])
    assert study.stopped
    before = study.status.evidence
    study.correct(yew, study.measurements[yew - 1].told - 0.1, reason="digit")
    assert study.status.evidence != before
    assert [event["kind"] for event in study.log[-3:]] == ["corrected", "resumed", "stopped"]
    is_whole(study, tmp_path)


def test_earlier_results_are_kept_before_the_first_ask(tmp_path: Path) -> None:
    """Where they are evidence: else the preview would promise what the next era does not have."""
    study, other = new(earlier="evidence"), new(earlier="evidence", m=2)
    rng = np.random.default_rng(1)
    told = [(NAMES[n % 5], float(ROWS[n % 5] @ THETA) + 0.2 * float(rng.normal())) for n in range(60)]
    study.tell_earlier(told)
    other.tell_earlier(told)
    assert study.preview_reopen(delta=0.04).n_evidence == 60
    assert other.preview_reopen(delta=0.04).n_evidence == 0
    assert study.status.evidence == 0.0
    study.reopen(reason="surer", delta=0.04)
    assert study.stopped
    is_whole(study, tmp_path)


def test_evidence_of_the_winner_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the best arm leaves, evidence against the others is its own: to keep it would choose among them by chance.

    At a risk of 0.05 more than 8 wrong answers in 20 runs come with a probability below 1e-6; with what is kept
    wrongly about half of the answers are wrong.
    """
    assert binom.sf(8, 20, 0.05) < 1e-6

    def n_wrong() -> int:
        n = 0
        for seed in range(20):
            arms = sp.FiniteArms([[2.0, 2.0], [1.0, 0.0], [0.0, 1.0]], names=["best", "good", "fair"])
            study = create_study("three", arms=arms, noise_std=0.2, storage="memory:")
            rng = np.random.default_rng(seed)
            for is_open in (True, False):
                while not study.stopped and len(study.measurements) < 80:
                    for ask in study.ask(3):
                        study.tell(ask.id, [3.6, 1.0, 0.8][ask.arm] + 0.2 * float(rng.normal()))
                if is_open:
                    study.reopen(reason="sold out", retire=["best"])
            n += study.stopped and study.best_name == "fair"
        return n

    assert n_wrong() <= 8
    monkeypatch.setattr(Era, "not_rejected", [])
    assert n_wrong() > 8


def test_a_log_cannot_keep_evidence_without_a_proof() -> None:
    """Of another claim it is refused; of an arm that leaves too early, or inside a block, a check says so."""
    study = new()
    go_on(study, 3)
    study.reopen(reason="fewer", retire=["ash"])
    events = study.log
    events[-1]["kept"] = 3
    events[-1]["identity"] = study.learner.identity
    rows = rows_of([canonical(event) for event in events])
    found = verify({**study.certificate(), "log": {"events": len(rows), "hash": rows[-1].hash}}, rows).problems
    assert any("keeps evidence that has no proof there" in one for one in found)
    other = new()
    go_on(other)
    other.reopen(reason="more", m=2)
    texts = [json.loads(row.text) for row in other.rows()]
    texts[-1]["kept"] = 5
    state = State(texts[0])
    for event in texts[1:-1]:
        state.apply(event)
    with pytest.raises(CorruptLog, match="the 2 best arms is another claim"):
        state.apply(texts[-1])


def test_the_proof_can_start_anew() -> None:
    """On request, with a risk of its own."""
    study = new()
    go_on(study)
    study.reopen(reason="once more", delta=0.01, keep_evidence=False)
    assert study.state.now.kept is None
    assert study.certificate()["all_eras_delta"] == pytest.approx(0.06)


def test_a_preview_changes_nothing() -> None:
    """Not the log, not the state; and a rule that counts every result keeps them with another budget."""
    study = new(stopping="evidence")
    go_on(study)
    head, n = study.head, study.status.n_pulls
    preview = study.preview_reopen(budget=500.0)
    assert (preview.n_evidence, preview.why, study.head) == (n, "", head)
    young = new()
    assert str(young.preview_reopen(delta=0.1)) == "There are no results to keep. Risk of all eras together: 0.15."


def test_a_budget_is_not_begun_anew_by_another_change(tmp_path: Path) -> None:
    """The rest of it is left, open asks included; a new budget counts from the change on."""
    study = new(budget=12.0, delta=1e-9)
    go_on(study, 5)
    study.ask(2)
    assert "The budget allows 7 more pulls." in str(study.preview_reopen(retire=["yew"]))
    study.reopen(retire=["yew"], reason="sold out")
    assert go_on(study) == 7
    assert study.status.state == "spent"
    with pytest.raises(sp.InvalidInput, match="the budget of 7 is spent; say by `budget` how much more may be spent"):
        study.preview_reopen(join={"new": [0.5, 0.5]})
    assert "The budget allows 3 more pulls." in str(study.preview_reopen(join={"new": [0.5, 0.5]}, budget=3.0))
    study.reopen(join={"new": [0.5, 0.5]}, budget=3.0, reason="more money")
    assert go_on(study) == 3
    is_whole(study, tmp_path)


def test_a_budget_in_units_of_cost_goes_on_too() -> None:
    """Pulls cost what they cost."""
    study = new(budget=60.0, costs=[1.0, 2.0, 4.0, 8.0, 16.0])
    go_on(study, 3)
    left = 60.0 - study.learner.reader.cost
    assert f"The budget allows a further cost of {left:g}." in str(study.preview_reopen(delta=0.01))


def test_looks_change_no_ask() -> None:
    """Status, estimates, explanations and previews are read: the log of a chain of eras stays the same."""

    def log(*, looks: bool) -> list[dict[str, Any]]:
        study, rng = new(noise_std=None, seed=3), np.random.default_rng(3)
        for changes in ({"join": {"box": [0.85, 0.72]}}, {"delta": 0.01}, {"budget": 200.0}):
            for _ in range(14):
                for ask in study.ask(1):
                    study.tell(ask.id, float(np.dot(ask.features, THETA)) + 0.2 * float(rng.normal()))
                if looks:
                    assert all([repr(study.status), study.result().explain(), study.preview_reopen(**changes)])
            study.reopen(reason="a look", **changes)
        return [{name: value for name, value in event.items() if name not in ("at", "until")} for event in study.log]

    assert log(looks=True) == log(looks=False)


@pytest.mark.parametrize("options", [{"noise": "any"}, {"noise_std": 0.2, "drift": 0.1, "model": "unstructured"}])
def test_an_era_has_an_order_of_its_own(options: dict[str, Any]) -> None:
    """Asks are numbered anew: with the seed of an earlier era the orders would be known beforehand, and repeat."""
    study = new(**{"noise_std": None, **options})
    orders = list[list[int]]()
    for era in range(3):
        if era:
            study.reopen(reason="a smaller risk", delta=0.05 / (era + 1))
        orders.append([])
        while len(orders[-1]) < 30 or study.n_planned:
            ask = study.ask(1)[0]
            orders[-1].append(ask.arm)
            study.tell(ask.id, 0.1 * (len(orders[-1]) % 7), questions=False)
    seeds = [event["options"]["seed"] for event in study.state.eras]
    assert seeds == [0, 1, 2]
    assert len({tuple(order[:20]) for order in orders}) == 3
    assert study.state.now.n_evidence >= 20, "and evidence is kept"
    assert verify(study.certificate(), study.rows()).ok
    with pytest.raises(sp.errors.InvalidInput, match=r"`seed` must be another than in earlier eras, .* got 1; leave"):
        study.reopen(reason="once more", delta=0.001, seed=1)
    assert "nothing changes" in study.preview_reopen(seed=7).why
    assert study.preview_reopen(delta=0.001, seed=7).n_evidence > 0


def test_other_eras_keep_their_seed() -> None:
    """Where no proof rests on the order."""
    study = new()
    between_blocks(study)
    study.reopen(reason="a smaller risk", delta=0.01)
    assert [event["options"]["seed"] for event in study.state.eras] == [0, 0]
