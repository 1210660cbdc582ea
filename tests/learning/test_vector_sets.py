"""identify and learners on sets whose arms are vectors."""

import itertools
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.arms import numbered
from surepick.arms.base import VectorSet
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput, PullFailed, Skipped
from surepick.learning.learner import Learner, create_learner
from surepick.learning.result import Result
from surepick.stopping import vector_sets
from surepick.stopping.vector_sets import VectorEvidenceState, VectorState
from surepick.types import Array

NOISE = 0.3
BALL = sp.Ellipsoid([1.0, 0.0], [[2.0, 0.0], [0.5, 1.0]])
PROBLEMS: list[Any] = [
    pytest.param(sp.Sphere(3), np.array([0.6, -0.5, 0.4]), 0.1, id="sphere"),
    pytest.param(BALL, np.array([0.4, -0.7]), 0.2, id="ellipsoid"),
    pytest.param(sp.Hypercube(3), np.array([0.5, -0.3, 0.4]), 0.0, id="hypercube"),
    pytest.param(sp.TopK(5, 2), np.array([0.1, 0.9, 0.0, 0.8, 0.3]), 0.0, id="top-k"),
    pytest.param(sp.TopK(16, 6), np.linspace(1.0, -1.0, 16), 0.3, id="large-top-k"),
]


class RunSettings:
    """Measures vectors; the noise of a measurement depends on its number alone, so an experiment can be resumed."""

    def __init__(self, theta: Array, *, done: int = 0, noise_std: float = NOISE) -> None:
        self.theta, self.noise_std = theta, noise_std
        self.n_done = done
        self.pulled: list[Array] = []

    def __call__(self, arm: Array) -> float:
        """Measure one arm."""
        self.pulled.append(arm)
        self.n_done += 1
        error = np.random.default_rng([7, self.n_done]).standard_normal()
        return float(arm @ self.theta + self.noise_std * error)


def learner_of(vectors: Any, *, epsilon: float = 0.0, **options: Any) -> Learner:
    """Lazy Track-and-Stop on a set."""
    return create_learner("lazy-track-and-stop", vectors, epsilon=epsilon, **{"noise_std": NOISE} | options)


def step(learner: Learner, lab: RunSettings, n: int = 1) -> list[Array]:
    """Ask for n arms and tell their rewards."""
    arms = learner.next_arms(n)
    for arm in arms:
        learner.tell(arm, lab(arm))
    return arms


def finish(learner: Learner, lab: RunSettings, n: int = 1) -> Any:
    """Go on until the rule stops, n arms at a time; return the answer."""
    while not learner.stopped:
        step(learner, lab, n)
        assert lab.n_done < 20_000, "no end in sight"
    return learner.decision.best


def same(one: list[Array], two: list[Array]) -> bool:
    """Whether two lists of arms are equal bit for bit."""
    return len(one) == len(two) and all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_identify_answers_with_a_vector(vectors: VectorSet, theta: Array, epsilon: float, tmp_path: Path) -> None:
    """The answer, its words, its table and its file."""
    result = sp.identify(vectors, RunSettings(theta), epsilon=epsilon, noise_std=NOISE)
    assert result.stopped
    assert result.guarantee == "proved"
    assert result.best.shape == (vectors.dim,)
    assert float((vectors.best(theta) - result.best) @ theta) <= epsilon + 1e-12
    assert result.n_pulls == sum(result.counts.values()) == len(result.history)

    said = result.explain()
    assert said.startswith(f"Arm ({result.best[0]:.4g}, ")
    assert f"the best of {vectors.description}" in said
    assert ("or loses at most" in said) == (epsilon > 0.0)
    assert "is proved for finite sets" in said
    assert ("lower bound" in said) == (not result.exact)

    columns = result.to_columns()
    arms = np.array(columns["arm"])
    assert list(columns)[:7] == ["arm", "name", "pulls", "estimate", "low", "high", "rank"]
    assert {*result.counts} <= {*columns["arm"]} <= {*result.counts, tuple(result.best.tolist())}
    assert columns["pulls"].sum() == result.n_pulls
    assert np.allclose(columns["estimate"], arms @ result.theta)
    means = arms @ theta
    assert (columns["low"] <= means).all()
    assert (means <= columns["high"]).all()
    assert np.array_equal(arms[np.argmin(columns["rank"])], result.best)

    result.save(tmp_path / "result.json")
    loaded = Result.load(tmp_path / "result.json")
    assert loaded == result
    assert np.array_equal(loaded.best, result.best)
    assert loaded.explain() == said
    assert json.loads((tmp_path / "result.json").read_text("utf-8"))["result"]["arm_set"] == vectors.description


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_history_goes_on_exactly(vectors: VectorSet, theta: Array, epsilon: float, tmp_path: Path) -> None:
    """A run that was cut off, saved and resumed is the run that was not, bit for bit."""
    whole = sp.identify(vectors, RunSettings(theta), epsilon=epsilon, noise_std=NOISE, seed=5)
    n = whole.n_pulls // 2
    part = sp.identify(vectors, RunSettings(theta), epsilon=epsilon, noise_std=NOISE, seed=5, max_pulls=n)
    assert not part.stopped
    part.save(tmp_path / "part.json")
    history = Result.load(tmp_path / "part.json").history
    resumed = sp.identify(
        vectors, RunSettings(theta, done=n), epsilon=epsilon, noise_std=NOISE, seed=5, history=history
    )
    assert resumed == whole


def test_failed_measurement_carries_the_vector() -> None:
    """The error says which vector was to be measured, and survives being sent between processes."""
    lab = RunSettings(np.array([0.5, 0.3, -0.2]))

    def pull(arm: Array) -> float:
        if lab.n_done == 5:
            raise OSError("no answer")
        return lab(arm)

    with pytest.raises(PullFailed, match=r"raised OSError .no answer. for arm \(") as caught:
        sp.identify(sp.Hypercube(3), pull, noise_std=NOISE)
    error = pickle.loads(pickle.dumps(caught.value))
    assert np.array_equal(error.arm, sp.Hypercube(3).cycle(1, 0)[1])
    assert error.result == caught.value.result
    assert error.result.n_pulls == 5
    assert sp.identify(sp.Hypercube(3), lab, noise_std=NOISE, history=error.result.history).stopped


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_interruption_returns_what_was_learnt(n: int) -> None:
    """Ctrl-C keeps every reward, also before the pulled arms span."""
    lab = RunSettings(np.array([0.5, 0.3, -0.2]))

    def pull(arm: Array) -> float:
        if lab.n_done == n:
            raise KeyboardInterrupt
        return lab(arm)

    result = sp.identify(sp.Sphere(3), pull, noise_std=NOISE, epsilon=0.1)
    assert result.interrupted
    assert result.n_pulls == n
    assert (result.best is None) == (n < 3)
    assert result.explain().startswith(f"Interrupted after {n} pull")
    budget = sp.identify(sp.Sphere(3), RunSettings(lab.theta), noise_std=NOISE, epsilon=0.1, max_pulls=n)
    assert result.to_dict() | {"interrupted": False} == budget.to_dict()


def test_interruption_inside_an_update_leaves_a_sound_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a step neither loses the reward nor counts it twice."""
    lab, whole = RunSettings(np.array([0.5, 0.3, -0.2])), LeastSquares.update

    def update(self: LeastSquares, *args: Any) -> None:
        whole(self, *args)
        if lab.n_done >= 7 and not interrupted_after:  # results are settled when a block ends
            interrupted_after.append(lab.n_done)
            raise KeyboardInterrupt

    interrupted_after: list[int] = []
    monkeypatch.setattr(LeastSquares, "update", update)
    result = sp.identify(sp.Sphere(3), lab, noise_std=NOISE, epsilon=0.1)
    assert result.interrupted
    (n,) = interrupted_after
    budget = sp.identify(sp.Sphere(3), RunSettings(lab.theta), noise_std=NOISE, epsilon=0.1, max_pulls=n)
    assert result.to_dict() | {"interrupted": False} == budget.to_dict()


@pytest.mark.parametrize(
    ("vectors", "arguments", "says"),
    [
        (sp.Sphere(2), {"epsilon": 0.1, "regularizer": np.eye(2)}, "`regularizer` has no meaning on the unit sphere"),
        (sp.Sphere(2), {"epsilon": 0.1, "schedule": "doubling"}, "`schedule` has no meaning on the unit sphere in R"),
        (sp.Hypercube(2), {"g_mix": 0.2}, "`g_mix` has no meaning on the hypercube of 2 signs"),
        (sp.Hypercube(2), {"candidates": [[1.0, 0.0], [0.0, 1.0]]}, "`candidates` go with a list of arms"),
        (sp.Hypercube(2), {"algorithm": "rage"}, "rage needs a list of arms, got the hypercube of 2 signs; use"),
        (sp.Sphere(2), {"algorithm": "lingame", "epsilon": 0.1}, "lingame needs a list of arms"),
        (sp.Sphere(2), {}, "`epsilon` must be above 0 on the unit sphere in R.2, got 0"),
        (BALL, {}, "`epsilon` must be above 0 on the ellipsoid in R.2, got 0"),
        (sp.Hypercube(2), {"stopping": "per-coordinate", "epsilon": 0.1}, "epsilon = 0, got .* with epsilon = 0.1"),
        (sp.TopK(4, 2), {"stopping": "per-coordinate"}, "is for a hypercube and epsilon = 0, got the choices of 2"),
        (sp.Hypercube(2), {"design": "tangent"}, '"tangent" on a sphere, got .tangent. on the hypercube'),
        (sp.Sphere(2), {"epsilon": 0.1, "design": "spiral"}, "`design` must be .* got .spiral."),
        (sp.Sphere(2), {"epsilon": 0.1, "stopping": "betting"}, "`stopping` must be one of 'evidence', .* 'betting'"),
        (sp.TopK(4, 2), {"stopping": "paper"}, "the rule printed for the unit sphere, got the choices of 2 out of 4"),
        (np.eye(3), {"design": "tangent"}, "`design` is for sets of vectors"),
        (
            np.eye(4),
            {"candidates": sp.TopK(4, 2), "algorithm": "rage"},
            "needs a list of candidates, got the choices of",
        ),
        (np.eye(4), {"candidates": sp.TopK(4, 2), "algorithm": "g-static"}, "one of 'evidence', .*, got 'betting'"),
        (sp.Sphere(2), {"epsilon": -0.1}, "`epsilon`"),
        (sp.Sphere(2), {"epsilon": 0.1, "history": [([2.0, 0.0], 0.3)]}, "`history` at position 0 must be an arm of"),
        (sp.Sphere(2), {"epsilon": 0.1, "history": [(4, 0.3)]}, "`history` at position 0 must be an arm of"),
    ],
)
def test_what_has_no_meaning_is_refused(vectors: Any, arguments: dict[str, Any], says: str) -> None:
    """Before anything is measured, with a sentence that says what to do."""
    with pytest.raises(InvalidInput, match=says):
        sp.identify(vectors, lambda _: pytest.fail("measured"), **{"noise_std": 1.0} | arguments)


def test_a_list_is_needed_where_arms_are_listed() -> None:
    """Functions that go through all arms say so."""
    with pytest.raises(InvalidInput, match="a list of arms is needed here, got the unit sphere"):
        sp.optimal_design(sp.Sphere(2))


@pytest.mark.parametrize("arm", [[1.0, 1.0], [1.0], [math.nan, 0.0], "first", 0, None, [1.0, 0.0, 0.0]])
def test_what_is_no_arm_is_refused(arm: Any) -> None:
    """By tell and fail alike, and the state stays as it was."""
    learner = learner_of(sp.Sphere(2), epsilon=0.1)
    learner.next_arms(1)
    before = learner.log
    for call in (lambda: learner.tell(arm, 0.0), lambda: learner.fail(arm)):
        with pytest.raises(InvalidInput):
            call()
    assert learner.log == before


def test_an_arm_that_was_not_asked_for_cannot_fail() -> None:
    """The message lists what is pending."""
    learner = learner_of(sp.Sphere(2), epsilon=0.1)
    learner.next_arms(1)
    with pytest.raises(InvalidInput, match=r"\(0.0, 1.0\) has no pending ask .* pending are \[\(1.0, 0.0\)\]"):
        learner.fail([0.0, 1.0])


def test_lost_pulls_are_made_up_for() -> None:
    """Per-coordinate needs whole rounds: with every fourth pull lost it still stops, after whole rounds."""
    theta = np.array([0.5, -0.3, 0.4])
    learner, lab = learner_of(sp.Hypercube(3), stopping="per-coordinate"), RunSettings(theta)
    for number in itertools.count():
        arm = learner.next_arms(1)[0]
        if number % 4 == 2:
            learner.fail(arm)
        else:
            learner.tell(arm, lab(arm))
        if learner.stopped:
            break
        assert number < 2000
    decision = learner.decision
    assert decision.guarantee == "proved"
    assert np.array_equal(np.asarray(decision.best), np.sign(theta))
    assert decision.n_pulls % 4 == 0
    assert np.array_equal(learner.estimate.A, decision.n_pulls * np.eye(3))


def test_skipped_measurements_are_made_up_for() -> None:
    """The same through identify, with all losses at the start."""
    lab, lost = RunSettings(np.array([0.5, -0.3, 0.4])), iter([True] * 3)

    def pull(arm: Array) -> float:
        if next(lost, False):
            raise Skipped
        return lab(arm)

    result = sp.identify(sp.Hypercube(3), pull, noise_std=NOISE, stopping="per-coordinate")
    assert result.stopped
    assert result.n_pulls % 4 == 0


def test_looking_changes_nothing() -> None:
    """Who asks for the decision in between gets the same arms afterwards, also when pulls are lost."""
    for seed in (1, 6, 8):
        runs = []
        for is_looking in (False, True):
            learner, rng = learner_of(sp.TopK(7, 3), seed=seed, delta=0.01, noise_std=1.0), np.random.default_rng(seed)
            asked = []
            for _ in range(12):
                batch = learner.next_arms(4)
                asked += batch
                for arm in batch:
                    if rng.random() < 0.4:
                        learner.fail(arm)
                    else:
                        learner.tell(arm, float(arm[0] + rng.normal()))
                _ = is_looking and (learner.decision, learner.epsilon_bound(), learner.expected_remaining())
            runs.append(asked)
        assert same(*runs)


def test_per_coordinate_refuses_results_of_another_design() -> None:
    """Its proof is about its own rounds: unsolicited results go to the evidence rule, which takes them."""
    theta = np.array([0.5, 0.4])
    lab = RunSettings(theta)
    foreign = [np.array(signs) for signs in itertools.product([-1.0, 1.0], repeat=2)]
    learner = learner_of(sp.Hypercube(2), stopping="per-coordinate")
    with pytest.raises(sp.InvalidInput, match="cannot use an unsolicited result"):
        learner.tell(foreign[1], 0.1)
    assert learner.log == (("start", learner.identity),)
    history = [(tuple(arm.tolist()), lab(arm)) for arm in foreign]
    with pytest.raises(sp.PullFailed, match="unsolicited"):
        sp.identify(sp.Hypercube(2), lab, noise_std=NOISE, stopping="per-coordinate", history=history)
    with pytest.raises(sp.InvalidInput, match=r'begin with earlier="evidence"\.$'):
        sp.identify(sp.Hypercube(2), lab, noise_std=NOISE, stopping="evidence", history=history)
    told: Any = {"history": history, "earlier": "evidence"}
    result = sp.identify(sp.Hypercube(2), lab, noise_std=NOISE, stopping="evidence", **told)
    assert result.stopped
    assert result.guarantee == "proved"


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_batches_of_whole_rounds_change_nothing(vectors: VectorSet, theta: Array, epsilon: float) -> None:
    """Asking for a round at a time, or for one arm at a time, gives the same arms, stop and answer."""
    singly, whole = (learner_of(vectors, epsilon=epsilon) for _ in range(2))
    n = len(vectors.cycle(0, 0))
    one, two = RunSettings(theta), RunSettings(theta)
    finish(singly, one)
    finish(whole, two, n)
    assert same(one.pulled, two.pulled)
    assert np.array_equal(np.asarray(singly.decision.best), np.asarray(whole.decision.best))
    assert singly.decision.evidence == whole.decision.evidence


def test_a_batch_beyond_a_round() -> None:
    """Arms continue with the next rounds, and the whole batch is judged at once."""
    learner, lab = learner_of(sp.Sphere(3), epsilon=0.1), RunSettings(np.array([0.6, -0.5, 0.4]))
    arms = step(learner, lab, 8)
    assert np.array_equal(np.array(arms), np.vstack([np.eye(3)] * 3)[:8])
    finish(learner, lab, 8)
    assert learner.decision.n_pulls % 8 == 0
    assert sum(learner.pending.values()) == 0


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_going_back_by_replay(vectors: VectorSet, theta: Array, epsilon: float) -> None:
    """Going back and doing the same again gives the same; doing otherwise in between leaves no trace."""
    learner, lab = learner_of(vectors, epsilon=epsilon, seed=2), RunSettings(theta)
    step(learner, lab, len(vectors.cycle(0, 2)) + 2)
    saved = learner.log
    first = step(learner, RunSettings(theta, done=50), 9)
    after = learner.decision
    learner.replay(saved)
    learner.tell(vectors.best(-theta), -3.0)
    step(learner, RunSettings(-theta), 5)
    learner.replay(saved)
    second = step(learner, RunSettings(theta, done=50), 9)
    assert same(first, second)
    assert after.evidence == learner.decision.evidence
    assert after.n_pulls == learner.decision.n_pulls
    other = learner_of(vectors, epsilon=epsilon, seed=2)
    other.replay(learner.log)
    assert other.decision.evidence == after.evidence
    assert np.array_equal(other.theta, learner.theta)


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_epsilon_bound_covers_the_loss(vectors: VectorSet, theta: Array, epsilon: float) -> None:
    """Infinite until something is known; then never below what the leader loses, and about epsilon at the stop."""
    learner, lab = learner_of(vectors, epsilon=epsilon, delta=0.01), RunSettings(theta)
    n = len(vectors.cycle(0, 0))
    assert learner.epsilon_bound() == math.inf
    bounds = []
    while not learner.stopped:
        step(learner, lab, 2 * n)
        decision, bound = learner.decision, learner.epsilon_bound()
        assert decision.best is not None
        assert float((vectors.best(theta) - decision.best) @ theta) <= bound
        bounds.append(bound)
    assert bounds[-1] <= 1.001 * epsilon
    assert len(bounds) == 1 or bounds[0] > epsilon


@pytest.mark.parametrize(
    ("vectors", "epsilon", "is_exact"),
    [
        (sp.TopK(16, 6), 0.3, False),
        (sp.TopK(16, 6), 0.0, True),
        (sp.TopK(6, 3), 0.3, True),
        (sp.Hypercube(14), 0.3, True),  # whole rounds measure all signs alike, where the bound is the statistic
        (sp.Hypercube(14), 0.0, True),
        (sp.Sphere(3), 0.3, True),
    ],
)
def test_decision_says_whether_evidence_is_a_bound(vectors: VectorSet, epsilon: float, is_exact: bool) -> None:
    """Only where a set is too large to be searched, and only with slack."""
    theta = np.linspace(0.4, -0.5, vectors.dim)
    learner = learner_of(vectors, epsilon=epsilon)
    step(learner, RunSettings(theta), len(vectors.cycle(0, 0)))
    assert learner.decision.exact is is_exact
    result = sp.identify(vectors, RunSettings(theta), epsilon=epsilon, noise_std=NOISE, max_pulls=64)
    assert result.exact is is_exact


def test_uneven_pulls_of_a_large_hypercube_are_a_bound() -> None:
    """Results nobody asked for make some signs better known than others."""
    cube, theta = sp.Hypercube(14), np.linspace(0.4, -0.5, 14)
    learner, lab = learner_of(cube, epsilon=0.3, earlier="evidence"), RunSettings(theta)
    for direction in np.random.default_rng(0).standard_normal((20, 14)):
        arm = cube.best(direction)
        learner.tell(arm, lab(arm))
    step(learner, lab, 16)
    assert not learner.decision.exact


@pytest.mark.parametrize(("vectors", "theta", "epsilon"), PROBLEMS)
def test_lazy_checks_decide_as_full_ones(
    vectors: VectorSet, theta: Array, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check against the last rival alone saves looks at the set, and changes neither stop nor answer."""
    looks: list[int] = []
    whole_look = numbered.vector_evidence

    def counted(*args: Any, **options: Any) -> tuple[float, bool, Array]:
        looks[-1] += 1
        return whole_look(*args, **options)

    monkeypatch.setattr(vector_sets, "vector_evidence", counted)
    ends = []
    for after_block in (VectorEvidenceState.after_block, VectorState.after_block):
        monkeypatch.setattr(VectorEvidenceState, "after_block", after_block)
        looks.append(0)
        learner, lab = (
            learner_of(vectors, epsilon=epsilon, noise_std=3 * NOISE),
            RunSettings(theta, noise_std=3 * NOISE),
        )
        finish(learner, lab, 4)
        decision = learner.decision
        assert decision.best is not None
        ends.append((decision.n_pulls, decision.evidence, decision.best.tolist(), learner.epsilon_bound()))
    assert ends[0] == ends[1]
    assert looks[0] < looks[1]


def test_the_printed_rule_warns_that_it_is_slow() -> None:
    """By its name, or as part of the printed algorithm; it is proved, and has no say beyond the sphere."""
    for options in ({"stopping": "paper"}, {"variant": "paper"}):
        with pytest.warns(UserWarning, match=r"needs 10\^3 to 10\^4 times the pulls of stopping='evidence'"):
            learner = learner_of(sp.Sphere(2), epsilon=0.5, **options)
        step(learner, RunSettings(np.array([1.0, 0.5])), 20)
        decision = learner.decision
        assert (decision.rule, decision.guarantee, decision.stopped) == ("paper", "proved", False)
    assert learner_of(sp.Hypercube(2), variant="paper").decision.rule == "evidence"


def test_the_printed_rule_stops() -> None:
    """With hardly any noise it comes to an end too."""
    with pytest.warns(UserWarning, match="printed"):
        learner = learner_of(sp.Sphere(2), epsilon=0.5, noise_std=0.03, stopping="paper")
    lab = RunSettings(np.array([1.0, 0.5]), noise_std=0.03)
    while not learner.stopped:
        step(learner, lab, 2)
        assert lab.n_done < 5000
    assert float(np.asarray(learner.decision.best) @ lab.theta) >= np.linalg.norm(lab.theta) - 0.5


def test_the_tangent_design_measures_across_the_leader() -> None:
    """After four rounds most pulls are orthogonal to the estimate, and fewer are needed than by rounds."""
    theta = np.array([1.0, 0.0])
    pulls = []
    for design in ("tangent", "rounds"):
        learner, lab = learner_of(sp.Sphere(2), epsilon=0.02, design=design), RunSettings(theta)
        finish(learner, lab)
        across = np.abs(np.array(lab.pulled[8:])[:, 1])
        assert np.allclose(np.linalg.norm(lab.pulled, axis=1), 1.0, atol=1e-12)
        assert (float((across > 0.9).mean()) > 0.7) == (design == "tangent")
        assert float(theta @ np.asarray(learner.decision.best)) >= 1.0 - 0.02
        pulls.append(learner.decision.n_pulls)
    assert pulls[0] < pulls[1]


def test_a_list_of_signs_and_the_hypercube_agree() -> None:
    """The same eight arms as a table and as a set give the same answer, named by row and by vector."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    theta = np.array([0.5, -0.3, 0.4])
    by_vector = sp.identify(sp.Hypercube(3), RunSettings(theta), noise_std=NOISE)
    lab = RunSettings(theta)
    by_row = sp.identify(signs, lambda row: lab(signs[row]), noise_std=NOISE)
    assert np.array_equal(signs[by_row.best], by_vector.best)


def test_units_of_features_do_not_matter() -> None:
    """The same ellipsoid in other units needs as many pulls and has the same answer."""
    units = np.array([1e-6, 1e5])
    theta = np.array([0.4, -0.7])
    other = sp.Ellipsoid(BALL.center * units, BALL.axes * units[:, None])
    one = sp.identify(BALL, RunSettings(theta), epsilon=0.2, noise_std=NOISE)
    two = sp.identify(other, RunSettings(theta / units), epsilon=0.2, noise_std=NOISE)
    assert one.n_pulls == two.n_pulls
    assert np.allclose(two.best / units, one.best, rtol=1e-9)
    assert two.evidence == pytest.approx(one.evidence, rel=1e-9)
