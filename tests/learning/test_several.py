"""The m best, costs of arms and budgets, through `identify` and `Learner`."""

import math
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.core.betting import sets
from surepick.errors import InvalidInput
from surepick.simulation import problems
from surepick.types import Array


def _pull(X: Array, theta: Array, noise_std: float, seed: int) -> Any:
    rng, means = np.random.default_rng(seed), X @ theta
    return lambda arm: float(means[arm] + noise_std * rng.standard_normal())


def _classic(angle: float, n_arms: int) -> tuple[Array, Array]:
    """The basis and an arm between its first and last vectors, at an angle to the first; theta = e1."""
    X = np.vstack([np.eye(n_arms - 1), np.zeros(n_arms - 1)])
    X[-1, [0, -1]] = math.cos(angle), math.sin(angle)
    return X, np.eye(n_arms - 1)[0]


@pytest.mark.parametrize("options", [{}, {"stopping": "evidence"}, {"epsilon": 0.1}, {"noise_std": None}])
def test_the_m_best_are_found_in_order(options: dict[str, Any]) -> None:
    """By both rules, with slack, with unknown noise; names come in the same order."""
    X, theta = _classic(0.5, 5)
    X[3] = [0.3, 0.0, 0.0, 1.0]
    names = list("abcde")
    arms = sp.FiniteArms(X, names=names)
    result = sp.identify(arms, _pull(X, theta, 0.2, 1), m=3, **{"noise_std": 0.2, **options})
    assert result.stopped
    assert result.best == [0, 4, 3]
    assert result.best_name == ["a", "e", "d"]
    assert (result.m, result.guarantee) == (3, "proved")
    assert result.stopping == ("evidence" if "stopping" in options or "epsilon" in options else "betting")
    assert "a, e and d are the 3 best of 5 arms" in result.explain()
    assert result.survivors is not None
    assert result.survivors.tolist() == [0, 3, 4]
    assert result.rival not in result.best
    columns = result.to_columns()
    assert columns["behind"][3] == 0.0, "distances are to the last of them"
    assert columns["behind"][0] < 0.0 < columns["behind"][1]
    if not math.isnan(result.p_value):
        assert result.p_value <= result.delta


def test_a_result_of_several_is_saved_with_its_costs(tmp_path: Any) -> None:
    """Lists of winners come back as they were; pages show all of them."""
    X, theta = _classic(0.7, 4)
    costs = [1.0, 2.0, 4.0, 8.0]
    result = sp.identify(X, _pull(X, theta, 0.3, 2), m=2, costs=costs, noise_std=0.3)
    assert result.cost == pytest.approx(sum(n * costs[arm] for arm, n in result.counts.items()))
    result.save(tmp_path / "r.json")
    loaded = sp.Result.load(tmp_path / "r.json")
    assert loaded == result
    assert loaded.best == [0, 3]
    result.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Which are the 2 best of 4 arms?" in page
    assert "Cost" in page


def test_undecided_words_name_the_leaders_and_the_rival() -> None:
    """The last of the leaders is compared with the closest of the rest."""
    X, theta = _classic(0.1, 5)
    result = sp.identify(X, _pull(X, theta, 1.0, 3), m=2, noise_std=1.0, max_pulls=60)
    said = result.explain()
    assert said.startswith("Not decided (60 pulls). Leaders arm ")
    assert result.survivors is not None
    if len(result.survivors) < 5:
        assert "the 2 best are among them at 95 % confidence" in said
    assert "none of them is more than" in said
    assert "ahead by" in said
    standing = result
    assert len(standing.leaders) == 2
    assert standing.rival not in standing.leaders


@pytest.mark.parametrize(
    ("angle", "n_arms", "m", "limit"),
    [(math.pi / 3, 4, 2, 85 + 3 * 8), (math.pi / 6, 4, 2, 853 + 3 * 79)],
    ids=["pi/3", "pi/6"],
)
def test_classic_instances_need_no_more_pulls_than_the_reference(
    angle: float, n_arms: int, m: int, limit: float
) -> None:
    """Mean pulls of 8 runs with sigma = .5, against 30 runs of the reference and 3 of their standard errors."""
    X, _ = _classic(angle, n_arms)
    theta = (np.arange(n_arms - 1) < m).astype(float)  # e1, .., em are the best, and tied
    found = [
        sp.identify(X, _pull(X, theta, 0.5, seed), m=m, noise_std=0.5, max_pulls=20 * int(limit)) for seed in range(8)
    ]
    assert all(result.stopped for result in found)
    assert sum(sorted(result.best) != [0, 1] for result in found) == 0
    assert np.mean([result.n_pulls for result in found]) <= limit


def test_costs_move_pulls_to_cheap_arms() -> None:
    """Sphere d=5, K=50, costs over a factor 100: a quarter of the cost of a plan that ignores them, or less.

    Means of 4 runs on 4 instances; both plans see the same noise.
    """
    aware = blind = 0.0
    for seed in range(4):
        problem = problems.sphere(5, 50, seed=seed, times=(30.0, 400.0))
        costs = 10.0 ** np.random.default_rng([7, seed]).uniform(0.0, 2.0, 50)
        for is_aware in (True, False):
            pull = _pull(problem.X, problem.theta, 1.0, seed)
            result = sp.identify(problem.X, pull, noise_std=1.0, costs=costs if is_aware else None)
            spent = sum(n * costs[arm] for arm, n in result.counts.items())
            assert result.best == problem.best
            if is_aware:
                aware += spent
                assert result.cost == pytest.approx(spent)
            else:
                blind += spent
    assert aware <= 0.25 * blind


def test_equal_costs_change_nothing() -> None:
    """Prices that are all the same are no prices."""
    problem = problems.sphere(4, 20, seed=1, times=(30.0, 100.0))
    plain, priced = (
        sp.identify(problem.X, _pull(problem.X, problem.theta, 1.0, 1), noise_std=1.0, costs=costs)
        for costs in (None, np.full(20, 3.0))
    )
    assert list(priced.history) == list(plain.history)
    assert priced.cost == pytest.approx(3.0 * priced.n_pulls)


@pytest.mark.parametrize(("costs", "budget"), [(None, 100.0), ((1.0, 10.0), 300.0)])
def test_a_budget_ends_a_block_on_itself(costs: tuple[float, float] | None, budget: float) -> None:
    """It is spent but for less than one pull, its last block is settled, and the result says what is known."""
    problem = problems.sphere(4, 20, seed=1, times=(300.0, 3000.0))
    prices = None if costs is None else np.random.default_rng(1).uniform(*costs, 20)
    learner = sp.create_learner("lazy-track-and-stop", problem.X, noise_std=1.0, costs=prices, budget=budget)
    pull = _pull(problem.X, problem.theta, 1.0, 4)
    while arms := learner.next_arms(3):
        for arm in arms:
            learner.tell(arm, pull(arm))
    assert learner.state.is_spent
    assert not learner.stopped
    dearest = 1.0 if prices is None else float(prices.max())
    assert budget - dearest < learner.reader.cost <= budget
    assert sum(learner.pending.values()) == learner.n_planned == 0
    assert learner.next_arms(2) == []
    result = learner.result()
    assert result.path[-1][0] == result.n_pulls, "the last block was settled"
    assert result.path[-1][0] - result.path[-2][0] >= 4, "and was not the crumb that was left"
    assert result.survivors is not None
    assert problem.best in result.survivors
    assert ("Not excluded: " in result.explain()) == (len(result.survivors) < 20)
    assert 0.0 < result.p_value <= 1.0
    assert math.isfinite(result.epsilon_bound)


def test_a_budget_is_replayed_and_kept() -> None:
    """The same log leads to the same state; identify stops at the budget by itself and takes failures in its stride."""
    problem = problems.sphere(3, 10, seed=2, times=(300.0, 3000.0))
    skipped: list[int] = []

    def pull(arm: int) -> float:
        if len(skipped) < 5:
            skipped.append(arm)
            raise sp.Skipped
        return float(problem.X[arm] @ problem.theta)

    result = sp.identify(problem.X, pull, noise_std=1.0, budget=57)
    assert (result.n_pulls, result.stopped) == (57, False)
    again = sp.identify(problem.X, pull, noise_std=1.0, budget=57, history=result.history, max_pulls=0)
    assert again.n_pulls == 57
    with pytest.raises(InvalidInput, match="same arms, algorithm and options"):
        sp.identify(problem.X, pull, noise_std=1.0, budget=58, history=result.history)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"m": 0}, "`m` must be"),
        ({"m": 4}, "below the number of arms"),
        ({"m": 2, "stopping": "betting", "epsilon": 0.1}, "no proof for m = 2"),
        ({"m": 2, "misfit": 0.1}, "no proof for m = 2"),
        ({"m": 2, "stopping": "pairwise"}, 'use "betting" or "evidence"'),
        ({"m": 2, "algorithm": "rage"}, "cannot be given to rage"),
        ({"costs": [1.0, 2.0]}, "costs"),
        ({"costs": [1.0, 2.0, 0.0, 1.0]}, "must be positive"),
        ({"costs": [1.0, 2.0, 3.0, 4.0], "algorithm": "lingape"}, "cannot be given to lingape"),
        ({"budget": -1}, "`budget` must be"),
        ({"budget": 10, "noise": "per-arm", "noise_std": None}, '`budget` is not supported with noise="per-arm"'),
    ],
)
def test_what_has_no_meaning_is_refused(options: dict[str, Any], said: str) -> None:
    """In one sentence, before anything is measured."""
    X, theta = _classic(0.5, 4)
    with pytest.raises(InvalidInput, match=said):
        sp.identify(X, _pull(X, theta, 1.0, 0), **{"noise_std": 1.0, **options})


def test_equal_arms_are_refused_where_several_are_sought() -> None:
    """Nothing can tell which of them is third and which fourth."""
    X = np.vstack([np.eye(3), np.eye(3)[:1]])
    with pytest.raises(InvalidInput, match="different features, got 0 and 3"):
        sp.identify(X, _pull(X, np.ones(3), 1.0, 0), m=2, noise_std=1.0)


def test_evidence_is_that_of_the_team_that_is_shown() -> None:
    """After every result of near ties, with the team changing between blocks: finite, and p above 0, until the end."""
    means, n_changes = np.array([0.02, 0.01, 0.0]), 0
    for seed in range(12):
        rng = np.random.default_rng([4, seed])
        learner = sp.create_learner("lazy-track-and-stop", np.eye(3), m=2, noise_std=1.0, seed=seed)
        team: set[int] = set()
        while not learner.stopped and learner.estimate.n_pulls < 80:
            (arm,) = learner.next_arms()
            learner.tell(arm, float(means[arm] + rng.standard_normal()))
            decision = learner.decision
            if decision.best is not None and not decision.stopped:
                n_changes += team != set(decision.best)
                team = set(decision.best)
                assert math.isfinite(decision.evidence)
                assert learner.snapshot.p_value > 0.0
    assert n_changes > 6


def _told(learner: sp.Learner, X: Array, theta: Array, n: int) -> sp.Learner:
    """Measure up to n times, or until the learner has stopped."""
    pull = _pull(X, theta, 0.4, 8)
    while not learner.stopped and learner.estimate.n_pulls < n:
        for arm in learner.next_arms(3):
            learner.tell(arm, pull(arm))
    return learner


@pytest.mark.parametrize("algorithm", ["lazy-track-and-stop", "uniform"])
def test_a_log_is_replayed_with_the_accounts_it_was_written_with(algorithm: str) -> None:
    """One from before there were accounts of sets does not name them; it leads to the same asks and verdict."""
    X, theta = _classic(0.5, 5)

    def fresh(edition: int = 2) -> sp.Learner:
        return sp.create_learner(algorithm, X, m=2, noise_std=0.4, edition=edition)

    earlier, now = _told(fresh(1), X, theta, 400), _told(fresh(), X, theta, 400)
    assert earlier.decision.target == pytest.approx(math.log(2.0 / 0.05))
    assert now.decision.target == pytest.approx(math.log(1.0 / 0.05))
    for one in (earlier, now):
        again = fresh()
        again.replay(one.log)
        assert (again.identity, again.decision, again.log) == (one.identity, one.decision, one.log)
    same = fresh()
    with pytest.raises(InvalidInput, match="must begin with"):
        same.replay([("start", "another"), *now.log[1:]])
    assert same.has_sets
    with pytest.raises(InvalidInput, match="must be a list of events"):
        same.replay(None)  # type: ignore[arg-type]
    assert same.has_sets


def test_accounts_of_sets_are_for_the_m_best_of_a_list_that_is_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One best arm, slack and long lists have the accounts that they had; so has the identity, to the letter."""
    X = np.eye(4)
    assert sp.create_learner("lazy-track-and-stop", X, m=2).has_sets
    for options in ({"m": 1}, {"m": 2, "epsilon": 0.1}, {"m": 2, "stopping": "evidence"}):
        learner = sp.create_learner("lazy-track-and-stop", X, **options)
        assert not learner.has_sets
    monkeypatch.setattr(sets, "MOST_BYTES", 1000)
    long = sp.create_learner("lazy-track-and-stop", X, m=2, noise_std=1.0)
    assert not long.has_sets
    assert _told(long, X, np.array([3.0, 2.0, 0.0, -1.0]), 500).decision.best == [0, 1]


@pytest.mark.parametrize("noise", [{"noise_std": 0.4}, {}, {"noise": "per-arm"}, {"noise": "symmetric"}])
def test_blocks_may_overlap(noise: dict[str, Any]) -> None:
    """Results that come in late, and out of order, lead to the same two best; a replay has the same state."""
    X, theta = _classic(0.5, 5)
    learner, pull = sp.create_learner("lazy-track-and-stop", X, m=2, **noise), _pull(X, theta, 0.4, 5)
    rng, open_ = np.random.default_rng(2), list[Any]()
    while not learner.stopped and learner.estimate.n_pulls < 3000:
        open_ += learner.next_asks(4)
        while len(open_) > 30:
            ask = open_.pop(int(rng.integers(len(open_))))
            learner.tell(ask.arm, pull(ask.arm), ask=ask.number)
    assert learner.stopped
    assert learner.decision.best == [0, 4]
    again = sp.create_learner("lazy-track-and-stop", X, m=2, **noise)
    again.replay(learner.log)
    assert again.decision == learner.decision
