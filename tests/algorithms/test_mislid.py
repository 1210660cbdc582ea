"""MisLid: fit, gains and thresholds by their formulas, rules and labels, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from surepick.core.near_linear import NearLinear
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems, simulate
from surepick.simulation.problems_published import reda_a, reda_c2
from tests.learning.lab import chooser_of, run
from tests.tasks import AnyLearner

NOISE = 0.5
A = replace(reda_a(), noise_std=NOISE)


def told(n_pulls: int, **options: Any) -> Learner:
    """A learner on instance A with m = 3 after some pulls."""
    given = {"misfit": 0.1, "m": 3, "noise_std": NOISE, "delta": 1e-9} | options
    learner = create_learner("mislid", A.X, **given)
    run(learner, A, seed=5, most=n_pulls)
    return learner


def means_of(learner: Learner) -> tuple[np.ndarray, np.ndarray]:
    """Pulls and mean reward of every arm; 0 for arms without pulls."""
    sums = np.zeros((2, 10))
    for arm, reward in learner.history:
        sums[:, arm] += 1.0, reward
    return sums[0], np.divide(sums[1], sums[0], out=np.zeros(10), where=sums[0] > 0)


@pytest.mark.parametrize("misfit", [0.0, 0.1])
def test_the_rule_compares_the_distance_of_the_fit_with_the_heuristic_price(misfit: float) -> None:
    """In units of the noise; the answer is the m largest fitted means."""
    learner = told(60, variant="paper", gains="empirical", misfit=misfit)
    N, y = means_of(learner)
    model = NearLinear(A.X, misfit)
    fitted = model.fit(N, y)
    team = np.argsort(-fitted)[:3]
    decision = learner.decision
    best: Any = decision.best
    assert list(best) == team.tolist()
    assert decision.evidence == pytest.approx(model.nearest(N, fitted, team).distance / NOISE**2, rel=1e-6)
    assert decision.target == pytest.approx(math.log((1 + math.log(60)) / 1e-9))
    assert (decision.rule, decision.guarantee) == ("mislid", "heuristic")


@pytest.mark.parametrize(("n_pulls", "misfit", "is_reached"), [(30, 0.02, False), (400, 0.02, True), (400, 0.2, True)])
def test_the_published_price_is_the_smaller_of_two(n_pulls: int, misfit: float, is_reached: bool) -> None:
    """W inverts x - log x; the linear price grows with the misfit, and counts once A is at least 2 max |x|^2 I."""
    learner = told(n_pulls, price="published", misfit=misfit, delta=1e-40)
    L = math.log(2e40)
    y = (1 + L) / 20 + math.log(80 * math.e * math.log(n_pulls)) / 2
    alone = 20 * scipy.optimize.brentq(lambda x: x - math.log(x) - y, 1.0, 100.0)
    noise = 1 + L + (1 + 1 / L) * 2.5 * math.log1p(n_pulls * L / 10)
    linear = (4 * math.sqrt(n_pulls) * misfit / NOISE + math.sqrt(2 * noise)) ** 2 / 2
    A_now = sum(np.outer(A.X[arm], A.X[arm]) for arm, _ in learner.history)
    assert (np.linalg.eigvalsh(A_now)[0] >= 2 * (A.X**2).sum(axis=1).max()) == is_reached
    assert (linear < alone) == (misfit < 0.1)
    assert learner.decision.target == pytest.approx(min(alone, linear) if is_reached else alone)
    assert learner.decision.guarantee == "published"


@pytest.mark.parametrize("gains", ["empirical", "optimistic", "aggressive"])
def test_gains_by_their_formulas(gains: str) -> None:
    """In units of the noise, at most log t."""
    learner = told(40, variant="paper", gains=gains, reward_bound=1.5)
    chooser = chooser_of(learner)
    N, _ = means_of(learner)
    rows, inverse = A.X, np.linalg.inv(sum(np.outer(A.X[arm], A.X[arm]) for arm, _ in learner.history))
    log_t, apart = math.log(40), np.linspace(0.0, 1.0, 10)
    y = math.log(5 * math.e * 40**3) / 20 + math.log(80 * math.e * log_t) / 2
    B = 20 * scipy.optimize.brentq(lambda x: x - math.log(x) - y, 1.0, 100.0)
    own = 8 * 0.2**2 + 2 * log_t * np.einsum("ij,jk,ik->i", rows, inverse, rows)
    c = np.minimum(np.minimum(2 * B / np.maximum(N, 1e-10), 4 * 3.0**2), own)
    expected = {
        "empirical": apart**2 / 2, "optimistic": (apart + np.sqrt(c)) ** 2 / 2, "aggressive": apart**2 + c
    }[gains]  # fmt: skip
    np.testing.assert_allclose(chooser.gains(apart), np.minimum(expected, log_t), rtol=1e-9)


@pytest.mark.parametrize("learners", ["one", "per-answer"])
def test_learners_of_the_weights(learners: Any) -> None:
    """One, or one for each set of leaders that ever led, which is fed in these rounds alone."""
    chooser = chooser_of(told(60, variant="paper", gains="empirical", learners=learners))
    assert "learners" not in told(1).identity  # logs of before the option must open
    fit = chooser._fit
    first = tuple(sorted(fit.members.tolist()))
    assert (first in chooser._learners) == (learners == "per-answer")
    before = {team: one.weights.copy() for team, one in chooser._learners.items()}
    fit.means = -fit.means  # other leaders
    fit.members = np.argsort(-fit.means)[:3]
    chooser.choose()
    then = tuple(sorted(fit.members.tolist()))
    assert then not in before
    if learners == "one":
        assert chooser._learners.keys() == {()}
        assert not np.array_equal(chooser._learners[()].weights, before[()])
    else:
        np.testing.assert_array_equal(chooser._learners[first].weights, before[first])
        assert then in chooser._learners


@pytest.mark.parametrize(
    ("options", "rule", "guarantee"),
    [
        ({"m": 1, "misfit": 0.1}, "betting", "proved"),
        ({"m": 3, "misfit": 0.0}, "betting", "proved"),
        ({"m": 3, "misfit": 0.1}, "mislid", "published"),
        ({"m": 3, "misfit": 0.0, "epsilon": 0.1}, "evidence", "proved"),
        ({"m": 3, "misfit": 0.0, "model": "unstructured"}, "betting", "proved"),
        ({"m": 3, "misfit": 0.1, "variant": "paper", "reward_bound": 1.5}, "mislid", "heuristic"),
    ],
)
def test_the_rule_is_ours_where_it_has_a_proof(options: dict[str, Any], rule: str, guarantee: str) -> None:
    """Else the published one, labelled as it is."""
    decision = told(20, **options).decision
    assert (decision.rule, decision.guarantee) == (rule, guarantee)


def test_means_off_the_line_are_allowed_for() -> None:
    """C2 of the paper, where every mean may be 1 off: right; linear means lead m-LinGapE astray on A with c = 5."""
    given: dict[str, Any] = {"variant": "paper", "n_jobs": 1, "max_pulls": 3000}
    runs = simulate(reda_c2(), "mislid", m=2, gains="empirical", misfit=1.0, n_runs=1, seed=3, **given)
    assert runs.correct.all()
    runs = simulate(reda_a(5.0), "m-lingape", m=3, n_runs=2, seed=3, **given)
    assert not runs.correct.any()


def test_what_has_no_meaning_is_refused() -> None:
    """With what to do instead."""
    with pytest.raises(InvalidInput, match=r'reward_bound.*gains="empirical"'):
        AnyLearner("mislid", A.X, variant="paper", noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"one noise_std.*m-lingape"):
        create_learner("mislid", A.X, candidates=A.X[:4], noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"at most 1000 arms, got 1001; use lingame"):
        create_learner("mislid", problems.sphere(2, 1001, seed=0).X, noise_std=1.0)
    with pytest.raises(InvalidInput, match="no proof for m = 3"):
        create_learner("mislid", A.X, m=3, misfit=0.1, stopping="betting", noise_std=1.0)
