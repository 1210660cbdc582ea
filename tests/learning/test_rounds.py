"""Batches of one length, a number of rounds, and budgets that are spent whatever is proved."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.learning.explain import verdict
from surepick.types import Array

ROWS = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.5, 0.5]])
THETA = np.array([1.0, 0.5, 0.3])


def _bench(seed: int, noise: float = 0.5, theta: Array = THETA) -> Callable[[int], float]:
    rng = np.random.default_rng(seed)
    return lambda arm: float(ROWS[arm] @ theta + noise * rng.standard_normal())


def _lengths(learner: sp.Learner, n_blocks: int) -> list[int]:
    """Lengths of the blocks, as the learner opens them."""
    lengths, pull = [], _bench(1)
    for _ in range(n_blocks):
        lengths.append(len(learner.next_arms()) + learner.n_planned)
        asked = [arm for arm, n in learner.pending.items() for _ in range(n)]
        for arm in [*asked, *(learner.next_arms(learner.n_planned) if learner.n_planned else [])]:
            learner.tell(arm, pull(arm))
    return lengths


@pytest.mark.parametrize("algorithm", ["lazy-track-and-stop", "top-two"])
def test_every_block_is_a_batch(algorithm: str) -> None:
    """From the first to the last, for algorithms that choose arm by arm."""
    learner = sp.create_learner(algorithm, ROWS, noise_std=5.0, batch=24, rounds=4)
    assert _lengths(learner, 4) == [24] * 4
    assert learner.next_arms(24) == []
    assert learner.budget == 96.0


def test_batches_go_on_without_rounds_until_the_verdict() -> None:
    """And end with a whole batch."""
    result = sp.identify(ROWS, _bench(2), batch=16)
    assert result.stopped
    assert result.n_pulls % 16 == 0


def test_rounds_count_batches_where_pulls_have_costs() -> None:
    """Costs steer the design, and the result says the cost of all."""
    result = sp.identify(ROWS, _bench(3, noise=5.0), batch=16, rounds=3, costs=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert result.n_pulls == 48
    assert result.cost == sum(n * (arm + 1.0) for arm, n in result.counts.items())
    assert result.cost > 48.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": 6}, "`batch` must be at least 7"),
        ({"batch": 0}, "`batch` must be"),
        ({"rounds": 3}, "`rounds` counts batches, got 3 without `batch`"),
        ({"batch": 24, "budget": 100}, "give `rounds`"),
        ({"batch": 24, "noise": "per-arm"}, 'not supported with noise="per-arm"'),
        ({"batch": 24, "schedule": "doubling"}, "`schedule` must be left out beside `batch`"),
        ({"batch": 24, "algorithm": "rage", "noise_std": 1.0}, "`batch` cannot be given to rage"),
        ({"goal": "fixed-budget"}, "needs `budget`, or `batch` and `rounds`"),
        ({"goal": "fixed-budget", "budget": 50, "m": 2}, "finds the best arm alone"),
        ({"goal": "fixed-budget", "budget": 50, "audit": 5}, "`audit` must be 0"),
        (
            {"goal": "fixed-budget", "budget": 50, "audit": 5, "algorithm": "lin-halving", "variant": "paper"},
            "`audit` must be 0",
        ),
        ({"goal": "fixed-budget", "budget": 50, "threshold": 1.0}, "got `threshold` or `control` too"),
        ({"goal": "fast"}, "`goal` must be"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], said: str) -> None:
    """Before anything is measured."""
    with pytest.raises(InvalidInput, match=said):
        sp.identify(ROWS, _bench(0), **options)


def test_a_set_of_vectors_has_its_own_blocks() -> None:
    """Its design fixes them."""
    with pytest.raises(InvalidInput, match="`batch` needs a list of arms"):
        sp.create_learner("lazy-track-and-stop", sp.Sphere(3), noise_std=1.0, epsilon=0.2, batch=24)


def test_a_fixed_budget_is_spent_after_the_proof() -> None:
    """The default goal stops early on the same problem; both prove the same answer."""
    early, spent = (sp.identify(ROWS, _bench(4), budget=600, goal=goal) for goal in ("confidence", "fixed-budget"))
    assert early.stopped
    assert early.n_pulls < 600 == spent.n_pulls
    assert spent.stopped
    assert spent.best == early.best == 3
    assert spent.p_value <= 0.05
    assert "(proved, betting rule)" in spent.explain()


def test_an_undecided_budget_says_the_pick_its_chance_and_what_is_proved() -> None:
    """Estimate and proof are kept apart."""
    result = sp.identify(ROWS, _bench(5, noise=3.0), budget=60, goal="fixed-budget")
    assert not result.stopped
    assert result.best == int(np.argmax(ROWS @ np.asarray(result.theta)))
    text = result.explain()
    assert f"Arm {result.best} has the best estimate, not proved (60 pulls of a fixed budget)." in text
    for part in ("Estimate, not a guarantee:", "is best with", "on average", "Proved so far:", "below the best"):
        assert part in text, part


def test_a_proof_neither_ends_nor_changes_the_sampling_of_a_fixed_budget() -> None:
    """Arms asked do not depend on the risk; those of the default goal do."""
    asked = {
        goal: [
            [arm for arm, _ in sp.identify(ROWS, _bench(6), budget=400, goal=goal, delta=delta).history]
            for delta in (0.3, 1e-6)
        ]
        for goal in ("confidence", "fixed-budget")
    }
    assert asked["fixed-budget"][0] == asked["fixed-budget"][1]
    assert asked["confidence"][0] != asked["confidence"][1]


def test_the_best_estimate_of_all_results_is_the_pick_even_against_the_rule() -> None:
    """After a proof at a large risk the data turn: then nothing is proved of the pick."""
    learner = sp.create_learner(
        "lazy-track-and-stop", np.eye(2), noise_std=10.0, delta=0.4, batch=20, rounds=5, goal="fixed-budget"
    )
    means = [20.0, 0.0]
    while arms := learner.next_arms(20):
        for arm in arms:
            learner.tell(arm, means[arm])
        if learner.state.settled.stopped:
            means = [-4.0, 24.0]
    result = learner.result()
    assert learner.state.settled.stopped
    assert (result.best, result.stopped, learner.stopped) == (1, False, False)
    assert result.p_value == 1.0
    assert {0, 1} == {*(result.survivors if result.survivors is not None else ())}


@pytest.mark.parametrize("goal", ["confidence", "fixed-budget"])
def test_results_with_a_goal_are_kept_in_files(tmp_path: Path, goal: str) -> None:
    """And go on from their history."""
    options: dict[str, Any] = {"batch": 16, "rounds": 2, "goal": goal}
    result = sp.identify(ROWS, _bench(7, noise=3.0), **options)
    result.save(tmp_path / "result.json")
    again = sp.Result.load(tmp_path / "result.json")
    assert again.goal == goal
    assert verdict(again) == verdict(result)
    assert ('"goal"' in (tmp_path / "result.json").read_text()) is (goal == "fixed-budget")
    more = sp.identify(ROWS, _bench(8), history=result.history, **options)
    assert more.n_pulls == result.n_pulls == 32


def test_a_study_hands_out_plates(tmp_path: Path) -> None:
    """Until the rounds are over; a well that failed is measured again on the next plate."""
    study = sp.create_study("plates", arms=ROWS, storage=tmp_path / "lab.db", batch=24, rounds=2)
    pull = _bench(9, noise=5.0)
    first = study.ask(24)
    study.fail(first[3], reason="an empty well")
    for ask in [*first[:3], *first[4:]]:
        study.tell(ask, pull(ask.arm))
    second = study.ask(24)
    assert (len(second), second[0].arm) == (24, first[3].arm)
    for ask in second:
        study.tell(ask, pull(ask.arm))
    (last,) = study.ask(24)
    study.tell(last, pull(last.arm))
    assert study.ask(24) == []
    assert study.status.state == "spent"
    assert study.result().n_pulls == 48
    with pytest.raises(InvalidInput, match="all 2 rounds are measured; say by `rounds`"):
        study.reopen(reason="a smaller risk", delta=0.01)
    assert study.preview_reopen(rounds=1).allows == "1 more batch of 24"
    assert study.preview_reopen(rounds=1).n_evidence == 48
    study.reopen(reason="a third plate", rounds=1)
    assert len(study.ask(24)) == 24
    assert sp.load_study("plates", tmp_path / "lab.db").status.n_pulls == 48


def test_a_study_that_spends_its_budget_stops_with_it(tmp_path: Path) -> None:
    """Its verdict is written with the last result, and its log replays to the same result."""
    storage = tmp_path / "lab.db"
    study = sp.create_study("all", arms=ROWS, storage=storage, batch=40, rounds=10, goal="fixed-budget")
    pull, states = _bench(10), []
    while asks := study.ask(40):
        states.append(study.status.state)
        for ask in asks:
            study.tell(ask, pull(ask.arm))
    assert len(states) == 10
    assert "stopped" not in states
    assert study.status.state == "stopped"
    assert study.result().n_pulls == 400
    assert sp.load_study("all", storage).result().explain() == study.result().explain()


def test_plates_with_offsets_stay_whole(tmp_path: Path) -> None:
    """A plate and its edge are groups, whose offsets are taken out; asked with a group or told with one."""
    options: dict[str, Any] = {"batch": 24, "rounds": 3, "groups": "offset"}
    study = sp.create_study("edges", arms=ROWS, storage=tmp_path / "lab.db", **options)
    pull, lengths = _bench(12, noise=1.0), []
    while wells := study.ask(24):
        lengths.append(len(wells))
        for place, well in enumerate(wells):
            label = {"plate": len(lengths), "edge": "yes" if place % 3 == 0 else "no"}
            value = pull(well.arm) + 9.0 * len(lengths) + 5.0 * (place % 3 == 0)
            study.tell(well, value, group=label, questions=False, warn=False)
    assert lengths == [24] * len(lengths)
    assert study.result().noise_std < 2.0
    learner = sp.create_learner("lazy-track-and-stop", ROWS, **options)
    assert len(learner.next_arms(24, group="plate 1")) == 24
    assert learner.n_planned == 0


def test_logs_have_new_options_only_if_they_are_set(tmp_path: Path) -> None:
    """The bytes of other studies stay as they were."""
    plain = sp.create_study("plain", arms=ROWS, storage=tmp_path / "lab.db")
    assert {"batch", "rounds", "goal"}.isdisjoint(plain.log[0]["options"])
    plates = sp.create_study("plates", arms=ROWS, storage=tmp_path / "lab.db", batch=24)
    assert plates.log[0]["options"]["batch"] == 24


def test_few_batches_keep_the_risk() -> None:
    """At delta = 0.3: 10 batches of 20, two arms tied and one behind; a false alarm has probability below 1e-3.

    Beside it a rule that believes the noise to be a fifth of what it is, which the limit catches.
    """
    n, rates = 150, []
    for noise_std in (1.0, 0.2):
        n_wrong = 0
        for run in range(n):
            rng = np.random.default_rng([11, run])
            learner = sp.create_learner(
                "lazy-track-and-stop", np.eye(3), noise_std=noise_std, delta=0.3, batch=20, rounds=10
            )
            while not learner.stopped and (arms := learner.next_arms(20)):
                for arm in arms:
                    learner.tell(arm, (0.0, 0.0, -0.3)[arm] + rng.standard_normal())
            left = learner.state.settled.state.survivors(1)
            n_wrong += left is not None and not left[0]
        rates.append(n_wrong / n)
    limit = 0.3 + 3.1 * math.sqrt(0.21 / n)
    assert rates[0] <= limit < rates[1]
