"""Days and benches that read high or low: what learners do with labels, and what is refused."""

from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.types import Array

MEANS = np.array([1.0, 0.4, 0.2, 0.0])
BENCHES = {"A": 0.0, "B": 0.0, "C": 3.0}


def _measure(
    learner: Learner, *, n_pulls: int = 1200, size: int = 6, seed: int = 0, at_ask: bool = True, means: Array = MEANS
) -> Learner:
    """Measure in turn on three benches, of which the last reads 3 higher, every day with an offset of its own."""
    rng, turn = np.random.default_rng(seed), 0
    while not learner.stopped and learner.estimate.n_pulls < n_pulls:
        bench, day = "ABC"[turn % 3], turn // 3
        label = {"bench": bench, "day": day}
        offset = BENCHES[bench] + 2.0 * np.random.default_rng([seed, day]).standard_normal()
        for arm in learner.next_arms(size, group=label if at_ask else None):
            value = float(means[arm] + offset + rng.standard_normal())
            learner.tell(arm, value, group=None if at_ask else label)
        turn += 1
    return learner


def _learner(**options: Any) -> Learner:
    return Learner("lazy-track-and-stop", np.eye(4), **{"groups": "offset", **options})


@pytest.mark.parametrize("noise_std", [1.0, None])
@pytest.mark.parametrize("at_ask", [True, False])
def test_offsets_do_not_keep_from_the_answer(noise_std: float | None, at_ask: bool) -> None:
    """The answer is right and proved, whether labels come with the ask or with the result; estimates name the bench."""
    result = _measure(_learner(noise_std=noise_std), at_ask=at_ask).result()
    assert (result.stopped, result.best, result.guarantee) == (True, 0, "proved")
    assert "beside an offset of every group of measurements" in result.explain()
    effects = {one.label[0]: one for one in result.groups}
    bench = effects["bench", "C"]
    assert abs(bench.offset - 2.0) <= 2.0 * bench.half_width < 2.0
    assert np.isinf(result.arms.high).all()  # no interval is proved
    assert result.arms.likely_low is not None
    assert result.noise_std == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_a_bench_that_reads_high_is_named(noise_std: float | None) -> None:
    """Labels are only recorded: the claim is withdrawn, and the words say which bench, by how much and what to do."""
    learner = _learner(groups="watch", noise_std=noise_std)
    rng = np.random.default_rng(1)
    for turn in range(60):
        bench = "ABC"[turn % 3]
        for arm in learner.next_arms(6, group={"bench": bench}):
            learner.tell(arm, float(MEANS[arm] + BENCHES[bench] + rng.standard_normal()))
    result = learner.result()
    assert (result.guarantee, result.model_check) == ("withdrawn", "contradicted")
    assert "measurements of bench C read about 2.9" in result.misfit or "of bench C read about 3" in result.misfit
    assert result.explain().endswith('Repeat with groups="offset", which allows for that.')
    assert [one.label for one in result.groups if one.note] == [(("bench", "C"),)]


def test_benches_that_agree_are_not_named() -> None:
    """With equal benches nothing is withdrawn, in all of twenty runs; a false alarm comes in one of a hundred."""
    withdrawn = 0
    for seed in range(20):
        learner, rng = _learner(groups="watch", noise_std=1.0), np.random.default_rng(seed)
        for turn in range(20):
            for arm in learner.next_arms(6, group={"bench": turn % 3}):
                learner.tell(arm, float(MEANS[arm] + rng.standard_normal()))
        withdrawn += learner.decision.guarantee == "withdrawn"
    assert withdrawn <= 3  # more with probability 4e-5


def test_labels_change_no_plan_and_no_bet_where_they_are_only_recorded() -> None:
    """With groups="watch" a learner asks and decides as one without labels."""
    plain, labelled = _learner(groups="watch"), _learner(groups="watch")
    rng = np.random.default_rng(2)
    for turn in range(30):
        arms = plain.next_arms(4)
        assert arms == labelled.next_arms(4, group=f"day {turn}")
        for arm in arms:
            value = float(MEANS[arm] + rng.standard_normal())
            plain.tell(arm, value)
            labelled.tell(arm, value)
    assert plain.decision.evidence == labelled.decision.evidence
    assert plain.identity == labelled.identity


def test_a_day_of_one_arm_says_so() -> None:
    """The group compares nothing, and explain and the table of groups say so."""
    learner, rng = _learner(noise_std=1.0), np.random.default_rng(3)
    for day in range(6):
        for arm in learner.next_arms(4, group=f"day {day}"):
            learner.tell(arm, float(MEANS[arm] + rng.standard_normal()))
    for arm in learner.next_arms(1, group="day 6"):
        learner.tell(arm, 5.0)
    result = learner.result()
    assert "Only one arm was measured in day 6, so it could not compare arms" in result.explain()
    note = {one.label[0][1]: one.note for one in result.groups}["day 6"]
    assert note.startswith("Only arm ")
    assert note.endswith("so these results compare no arms.")


def test_a_result_without_its_group_is_refused_and_changes_nothing() -> None:
    """Where offsets are allowed for, a result needs its label; told with it, it counts."""
    learner = _learner()
    (arm,) = learner.next_arms(1)
    with pytest.raises(InvalidInput, match='needs the group of every measurement, such as group="day 3"'):
        learner.tell(arm, 1.0)
    assert (learner.estimate.n_pulls, dict(learner.pending)) == (0, {arm: 1})
    learner.tell(arm, 1.0, group="day 3")
    assert learner.estimate.n_pulls == 1


def test_a_log_with_labels_is_replayed_to_the_last_bit() -> None:
    """Asks, labels and corrections lead to the same state; and other offsets of the identity are refused."""
    learner = _measure(_learner(noise_std=1.0), n_pulls=90)
    learner.correct(5, 2.5)
    learner.void(7)
    again = _learner(noise_std=1.0)
    again.replay(learner.log)
    assert again.log == learner.log
    assert again.decision == learner.decision
    np.testing.assert_array_equal(again.theta, learner.theta)
    assert "groups='offset'" in learner.identity
    with pytest.raises(InvalidInput):
        _learner(noise_std=1.0, groups="watch").replay(learner.log)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stopping": "evidence", "noise_std": 1.0}, "has no proof for stopping='evidence'"),
        ({"noise": "per-arm"}, 'no proof beside noise="per-arm"'),
        ({"noise": "symmetric"}, 'no proof beside noise="symmetric"'),
        ({"noise_std": [1.0, 1.0, 2.0, 1.0]}, "no proof beside a noise_std for each arm"),
        ({"earlier": "evidence"}, 'earlier="evidence" has no proof beside groups="offset"'),
        ({"groups": "offsets"}, '`groups` must be "watch" or "offset"'),
        ({"candidates": np.array([[2.0, 0, 0, 0], [0, 1.0, 0, 0]])}, "do not span the differences of the candidates"),
    ],
)
def test_what_has_no_proof_is_refused(options: dict[str, Any], words: str) -> None:
    """One sentence: what is needed, what was given, what to do."""
    with pytest.raises(InvalidInput, match=words):
        _learner(**options)


def test_sets_of_vectors_are_refused() -> None:
    """A sphere has no list of arms to pair up."""
    with pytest.raises(InvalidInput, match='groups="offset"'):
        Learner("lazy-track-and-stop", sp.Sphere(3), groups="offset", noise_std=1.0, epsilon=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"reward_range": (-30.0, 30.0)},
        {"noise_std": 1.0, "misfit": 0.05},
        {"noise_std": 1.0, "m": 2},
        {"noise_std": 1.0, "epsilon": 0.3},
        {"noise_std": 1.0, "costs": [1.0, 2.0, 1.0, 1.0]},
        {"budget": 60},
        {"model": "unstructured"},
        {"algorithm": "uniform", "stopping": "betting", "noise_std": 1.0},
    ],
)
def test_what_goes_together_with_offsets(options: dict[str, Any]) -> None:
    """A run of ninety measurements, and a result that can be read."""
    algorithm = options.pop("algorithm", "lazy-track-and-stop")
    learner = Learner(algorithm, np.eye(4), groups="offset", **options)
    rng = np.random.default_rng(0)
    for turn in range(15):
        for arm in learner.next_arms(6, group=f"day {turn}"):
            learner.tell(arm, float(MEANS[arm] + 3.0 * (turn % 4) + rng.standard_normal()))
    result = learner.result()
    assert result.n_pulls == (60 if "budget" in options else 90)
    assert result.explain()


def test_an_arm_that_does_not_fit_is_found_beside_offsets() -> None:
    """Means off a line by one standard deviation contradict the model; offsets of the days alone do not."""
    rows = np.c_[np.ones(6), np.arange(6.0)]
    for off, expected in ((1.2, "contradicted"), (0.0, "tested")):
        learner, rng = (
            Learner("uniform", rows, stopping="betting", groups="offset", noise_std=1.0),
            np.random.default_rng(5),
        )
        means = rows @ [0.0, 1.0] + off * np.array([0, 0, 1, 0, 0, -1])
        for turn in range(80):
            offset = 3.0 * rng.standard_normal()
            for arm in learner.next_arms(6, group=f"day {turn}"):
                learner.tell(arm, float(means[arm] + offset + rng.standard_normal()))
            if learner.stopped and not learner.state.checks:
                learner.audit(60)
        result = learner.result()
        assert result.model_check == expected
        assert ("Fits worst beside the offsets of the groups: arm " in result.misfit) is (expected == "contradicted")


@pytest.mark.parametrize("groups", ["watch", "offset"])
def test_a_look_changes_no_bit(groups: str) -> None:
    """A learner that is read after every result, and one that is read at the end, agree to the last bit."""
    read, unread = (_learner(groups=groups, noise_std=1.0) for _ in range(2))
    rng = np.random.default_rng(6)
    for turn in range(24):
        group = None if groups == "watch" and turn < 8 else {"bench": "CBA"[turn % 3], "day": turn // 3}
        arms = read.next_arms(5, group=group)
        assert unread.next_arms(5, group=group) == arms
        for arm in arms:
            value = float(MEANS[arm] + 0.4 * (turn % 3) + rng.standard_normal())
            read.tell(arm, value)
            unread.tell(arm, value)
            assert read.snapshot.groups is not None
    one, other = read.state.settled.model, unread.state.settled.model
    assert one._log_evidence == other._log_evidence
    assert read.decision == unread.decision
    np.testing.assert_array_equal(read.theta, unread.theta)


def test_a_slip_is_found_beside_offsets() -> None:
    """A value in which the point is shifted stands apart from its own block, and is named with its number."""
    learner, rng = _learner(), np.random.default_rng(8)
    for turn in range(14):
        for place, arm in enumerate(learner.next_arms(8, group=f"day {turn}")):
            value = float(50.0 + MEANS[arm] + 3.0 * (turn % 3) + rng.standard_normal())
            learner.tell(arm, 10.0 * value if (turn, place) == (12, 3) else value)
    result = learner.result()
    assert result.model_check == "contradicted"
    assert f"number {12 * 8 + 3}, of arm " in result.misfit
    assert " where the others say 5" in result.misfit


def test_pass_or_fail_beside_offsets() -> None:
    """Days on which more pass than on others: the answer is right, and no share of successes is shown."""
    learner, rng = _learner(rewards="binary"), np.random.default_rng(9)
    rates = np.array([0.75, 0.45, 0.35, 0.25])
    while not learner.stopped and learner.estimate.n_pulls < 3000:
        turn = learner.estimate.n_pulls // 12
        easier = float(np.random.default_rng(turn).choice([-0.2, 0.0, 0.2]))
        for arm in learner.next_arms(12, group={"day": turn}):
            learner.tell(arm, float(rng.random() < rates[arm] + easier))
    result = learner.result()
    assert (result.stopped, result.best, result.guarantee) == (True, 0, "proved")
    assert result.arms.likely_low is not None
