"""Plans: what they say, what they refuse, and whether runs take as long."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.planning.forecast import smallest_gap

X = np.random.default_rng(0).uniform(0.0, 1.0, size=(12, 3))
THETA = np.array([1.0, -0.5, 0.8])


def test_lower_bound_is_the_one_of_the_package() -> None:
    """The plan's bound is T* sigma^2 kl(delta, 1 - delta)."""
    found = sp.plan(X, theta=THETA, noise_std=0.5, delta=0.01)
    assert found.lower_bound == pytest.approx(sp.lower_bound(X, THETA, 0.01, 0.5), rel=1e-5)
    assert found.lower_bound < found.low < found.pulls < found.high
    assert found.cost is None


def test_plan_has_no_units() -> None:
    """Other units of rewards and features give the same plan."""
    found, scaled = sp.plan(X, theta=THETA, noise_std=0.5), sp.plan(1e3 * X, theta=THETA, noise_std=500.0)
    assert scaled.pulls == pytest.approx(found.pulls, rel=1e-2)  # ties in whole pulls may be broken otherwise


def test_a_lead_between_bounded_rewards_takes_the_noisiest_level() -> None:
    """As noisy as half of them at each bound; the plan says so, and runs need a level."""
    worst, plain = sp.plan(X, gap=0.1, rewards="binary"), sp.plan(X, gap=0.1, noise_std=0.5)
    assert worst.lower_bound == pytest.approx(plain.lower_bound)
    assert "worst case for the noise: half of them at each bound, a standard deviation of 0.5" in worst.explain()
    assert "worst case" not in plain.explain()
    wide = sp.plan(X, gap=0.4, reward_range=(-2.0, 2.0))
    assert wide.lower_bound == pytest.approx(worst.lower_bound)
    assert "a standard deviation of 2." in wide.at(delta=0.1).explain()
    with pytest.raises(sp.InvalidInput, match="give `theta` or `pilot`"):
        worst.simulate(1)


def test_slack_makes_it_shorter_and_risk_longer() -> None:
    """`at` is the plan that the other arguments give."""
    found = sp.plan(X, theta=THETA, noise_std=0.5)
    easier = found.at(epsilon=0.2)
    assert easier.pulls == sp.plan(X, theta=THETA, noise_std=0.5, epsilon=0.2).pulls < found.pulls
    assert math.isnan(easier.lower_bound)
    assert found.at(delta=1e-3).pulls == sp.plan(X, theta=THETA, noise_std=0.5, delta=1e-3).pulls > found.pulls
    assert found.at(delta=0.6).lower_bound == 0.0
    pulls = [each.pulls for each in found.by_slack]
    assert pulls == sorted(pulls, reverse=True)
    assert [each.delta for each in found.by_risk] == [0.1, 0.05, 0.01, 1e-3]


def test_gap_is_the_lead_in_every_scenario() -> None:
    """Random directions, scaled so that the best is ahead of the next by just that; the same for the same seed."""
    found = sp.plan(X, gap=0.3, noise_std=0.5)
    assert found.gap == pytest.approx(0.3)
    assert len(found.per_scenario) == 25
    assert found.low < found.per_scenario.min() < found.pulls < found.per_scenario.max()
    assert np.array_equal(found.per_scenario, sp.plan(X, gap=0.3, noise_std=0.5).per_scenario)
    assert not np.array_equal(found.per_scenario, sp.plan(X, gap=0.3, noise_std=0.5, seed=1).per_scenario)
    assert sp.plan(X, gap=0.3, noise_std=0.5, m=3).gap == pytest.approx(0.3)


def test_gap_leaves_copies_of_the_best_aside() -> None:
    """The second of two equal rows is no rival."""
    assert smallest_gap(sp.FiniteArms(np.vstack([X, X])), THETA) == smallest_gap(sp.FiniteArms(X), THETA)


def pilot(n: int, noise_std: float = 0.5) -> list[tuple[int, float]]:
    """Return n results of the arms in turn."""
    rng = np.random.default_rng(5)
    return [(i % 12, float(X[i % 12] @ THETA + noise_std * rng.standard_normal())) for i in range(n)]


def test_pilot_that_is_longer_says_more() -> None:
    """Scenarios drawn from a long pilot are close to the truth, noise included."""
    truth = sp.plan(X, theta=THETA, noise_std=0.5)
    short, long = sp.plan(X, pilot=pilot(24)), sp.plan(X, pilot=pilot(2400))
    apart, close = (np.ptp(np.log(each.per_scenario)) for each in (short, long))
    assert apart > 2.0 * close
    assert long.pulls == pytest.approx(truth.pulls, rel=0.3)


def test_pilot_takes_a_history_and_names() -> None:
    """What an interrupted experiment has learnt plans the rest."""
    arms = sp.FiniteArms(X, names=[f"M{i}" for i in range(12)])
    by_number = pilot(30)
    by_name = [(f"M{arm}", reward) for arm, reward in by_number]
    rewards = iter(np.random.default_rng(1).standard_normal(20).tolist())
    result = sp.identify(arms, lambda arm: float(X[arm] @ THETA) + 0.5 * next(rewards), max_pulls=20)
    assert sp.plan(arms, pilot=by_name).pulls == sp.plan(arms, pilot=by_number).pulls
    assert sp.plan(arms, pilot=result.history).pulls > 0.0


def test_costs_move_pulls_to_cheap_arms() -> None:
    """A plan for the cost spends less, and its bound is below."""
    costs = np.linspace(1.0, 5.0, 12)
    plain, cheap = sp.plan(X, theta=THETA, noise_std=0.5), sp.plan(X, theta=THETA, noise_std=0.5, costs=costs)
    assert cheap.cost is not None
    assert cheap.cost_lower_bound is not None
    assert cheap.cost_lower_bound < cheap.cost < 5.0 * cheap.pulls
    assert cheap.lower_bound == plain.lower_bound
    same = sp.plan(X, theta=THETA, noise_std=0.5, costs=np.full(12, 3.0))
    assert same.cost == pytest.approx(3.0 * plain.pulls, rel=1e-2)


def test_several_best_cost_the_price_of_the_smaller_side() -> None:
    """Of two arms of three, one of the worst is a mirror image: no price for m."""
    two = sp.plan(np.eye(3), theta=[1.0, 0.5, 0.0], noise_std=1.0, m=2)
    one = sp.plan(np.eye(3), theta=[1.0, 0.5, 0.0], noise_std=1.0)
    assert two.pulls == pytest.approx(one.pulls, rel=1e-2)
    four = sp.plan(np.eye(4), theta=[1.0, 1.0, 0.0, 0.0], noise_std=1.0, m=2)
    assert "2 best of 4 arms" in four.explain()
    assert len(four.by_slack) == 1


def test_click_log_that_is_not_worth_it() -> None:
    """Rates of half a percent that differ by less than a tenth of that take millions of pulls; the plan says so."""
    rates = np.array([0.0055, 0.0051, 0.0051, 0.005, 0.0048, 0.0045])
    found = sp.plan(np.eye(6), theta=rates, rewards="binary")
    assert 3e6 < found.pulls < 6e6
    assert found.lower_bound > 1e6
    assert not found.is_possible
    assert found.explain().startswith("Not possible within 1,000,000 pulls: about ")
    # By what bounds alone say of the noise it would be fifty times worse.
    assert sp.plan(np.eye(6), theta=rates, noise_std=0.5).pulls > 40 * found.pulls


def test_clicks_are_planned_by_their_own_variance() -> None:
    """Means decide the noise; the same range in other units gives the same plan."""
    rates = np.array([0.04, 0.03, 0.02, 0.02, 0.02])
    found = sp.plan(np.eye(5), theta=rates, rewards="binary")
    assert sp.plan(np.eye(5), theta=10.0 * rates, reward_range=(0.0, 10.0)).pulls == pytest.approx(
        found.pulls, rel=1e-3
    )
    # 18,550 +- 2,337 in 20 runs (docs/lab-book.md).
    assert 0.75 * 18_550 < found.pulls < 1.25 * 18_550


def test_pilot_of_clicks_may_have_estimates_outside() -> None:
    """Least squares of few clicks can be below 0; the plan takes a small rate instead."""
    rng = np.random.default_rng(2)
    clicks = [(i % 4, float(rng.random() < 0.03)) for i in range(400)]
    assert sp.plan(np.eye(4), pilot=clicks, rewards="binary").pulls > 0.0


def test_tied_scenarios_are_counted_as_endless() -> None:
    """One tied theta is refused; among several it takes for ever."""
    with pytest.raises(sp.TiedArms, match="epsilon > 0"):
        sp.plan(np.eye(2), theta=[1.0, 1.0], noise_std=1.0)
    some = sp.plan(np.eye(2), scenarios=[[1.0, 0.0], [1.0, 1.0], [0.5, 0.0]], noise_std=1.0)
    assert some.high == math.inf
    assert math.isfinite(some.pulls)
    most = sp.plan(np.eye(2), scenarios=[[1.0, 0.0], [1.0, 1.0], [2.0, 2.0]], noise_std=1.0)
    assert not most.is_possible
    assert "no number of pulls suffices" in most.explain()
    with pytest.raises(sp.TiedArms, match="arms 1 and 2 are tied"):
        sp.plan(np.eye(3), theta=[1.0, 0.5, 0.5], noise_std=1.0, m=2)


def test_words() -> None:
    """The text has the numbers to two digits, and what else they could buy."""
    found = sp.plan(X, theta=THETA, noise_std=0.5)
    text = str(found)
    assert text == found.explain()
    for part in (
        "pulls to know the best of 12 arms with a risk of 0.05",
        "No method",
        "(epsilon), about",
        "risk of 0.005",
    ):
        assert part in text, part
    assert "They cost about" in sp.plan(X, theta=THETA, noise_std=0.5, costs=np.ones(12)).explain()
    assert "up to a loss of 0.2" in found.at(epsilon=0.2).explain()
    assert "The plan is for 25 scenarios: they take" in sp.plan(X, gap=0.3, noise_std=0.5).explain()


def test_plot_has_a_panel_for_risk_and_one_for_slack(tmp_path: Path) -> None:
    """The figure can be saved; with several best arms there is no slack."""
    figure = sp.plan(X, theta=THETA, noise_std=0.5).plot()
    figure.savefig(tmp_path / "plan.png")
    assert [axes.get_xlabel().rpartition(", ")[2] for axes in figure.axes] == ["delta", "epsilon"]
    assert len(sp.plan(X, theta=THETA, noise_std=0.5, m=2).plot().axes) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "exactly one of"),
        ({"theta": THETA, "gap": 1.0}, "theta and gap"),
        ({"theta": THETA}, "`noise_std` must be given"),
        ({"theta": [1.0], "noise_std": 1.0}, "vector of 3"),
        ({"scenarios": [], "noise_std": 1.0}, "at least one"),
        ({"gap": 0.0, "noise_std": 1.0}, "above 0"),
        ({"gap": 1.0, "rewards": "binary"}, "`gap` must be below 1"),
        ({"theta": THETA, "rewards": "binary"}, "within the bounds"),
        ({"theta": THETA, "noise_std": [1.0, 2.0]}, "each of 12 arms"),
        ({"theta": THETA, "noise_std": 1.0, "costs": [1.0]}, "vector of 12"),
        ({"theta": THETA, "noise_std": 1.0, "costs": np.zeros(12)}, "must be positive"),
        ({"theta": THETA, "noise_std": 1.0, "m": 12}, "below the number"),
        ({"theta": THETA, "noise_std": 1.0, "m": 2, "epsilon": 0.1}, "no proof"),
        ({"theta": THETA, "noise_std": 1.0, "seed": -1}, "seed"),
        ({"pilot": [(99, 1.0)]}, "`pilot` must be"),
        ({"pilot": 3}, "`pilot` must be"),
        ({"theta": 0.0 * THETA, "reward_range": (0.0, 1.0)}, "same bound"),
    ],
)
def test_refusals(options: dict[str, object], said: str) -> None:
    """Whatever cannot be planned is refused in one sentence."""
    with pytest.raises(sp.InvalidInput, match=said):
        sp.plan(X, **options)  # type: ignore[arg-type]


def test_pilot_that_says_too_little_is_refused() -> None:
    """Noise needs one result more than there are features; with noise_std given that many suffice."""
    with pytest.raises(sp.NotEnoughData, match="at least 4 pulls"):
        sp.plan(X, pilot=pilot(3))
    assert sp.plan(X, pilot=pilot(3), noise_std=0.5).pulls > 0.0
    with pytest.raises(sp.NotEnoughData):
        sp.plan(X, pilot=[(0, 1.0)] * 5, noise_std=0.5)


def test_sets_of_vectors_are_refused() -> None:
    """A sphere has no list of arms."""
    with pytest.raises(sp.InvalidInput, match="a list of arms is needed"):
        sp.plan(sp.Sphere(3), theta=THETA, noise_std=1.0)


def test_simulation_is_repeatable_and_knows_several_and_costs() -> None:
    """The first runs of a longer rehearsal are those of a shorter one; the m best and costs are run as planned."""
    found = sp.plan(X, theta=THETA, noise_std=0.3)
    few, more = found.simulate(2, seed=3), found.simulate(4, seed=3)
    assert np.array_equal(few.n_pulls, more.n_pulls[:2])
    assert more.stopped.all()
    assert more.quantiles()[0] <= more.mean <= more.n_pulls.max()
    cut = found.simulate(2, seed=3, max_pulls=5)
    assert not cut.stopped.any()
    assert not cut.correct.any()
    assert (cut.n_pulls == 5).all()
    assert math.isnan(found.simulate(1, seed=3).se)
    assert more.cost is not None
    assert np.array_equal(more.cost, more.n_pulls)
    several = sp.plan(X, theta=THETA, noise_std=0.3, m=2, costs=np.linspace(1.0, 5.0, len(X)))
    runs = several.simulate(6, seed=3)
    assert runs.correct.all()
    assert runs.cost is not None
    assert (runs.cost > runs.n_pulls).all()
    assert several.cost is not None
    assert 0.4 < runs.cost.mean() / several.cost < 2.5, "six runs, each with a spread of about a third"


def test_clicks_are_simulated_as_clicks() -> None:
    """Rewards are lo or hi; a learner of binary rewards would refuse all others."""
    runs = sp.plan(np.eye(2), theta=[0.7, 0.2], rewards="binary").simulate(3, seed=1)
    assert runs.stopped.all()
    assert runs.correct.all()
    assert sp.plan(np.eye(2), theta=[0.7, 0.2], reward_range=(-1.0, 1.0)).simulate(1, seed=1).stopped.all()


@pytest.mark.statistical
def test_another_assumption_on_the_noise_is_said_and_simulated() -> None:
    """The forecast is that of normal noise; the runs draw and learn what was assumed."""
    rows, theta = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]], [1.0, 0.3]
    normal, each = (sp.plan(rows, theta=theta, noise_std=0.2, noise=noise) for noise in ("same", "per-arm"))
    assert each.pulls == normal.pulls
    assert 'with noise="per-arm" runs may take several times as many pulls' in str(each)
    assert "several times as many" not in str(normal)
    assert each.simulate(20).mean > normal.simulate(20).mean


def test_runs_take_as_long_as_planned() -> None:
    """On instances that nothing was fitted to, means are within 25 % (and three standard errors), nine tenths below.

    Of 30 runs, each below its quantile with a probability of at least .8, fewer than the limit are so once in a million
    times. A plan for half the noise, a quarter of the pulls, is caught by both.
    """
    cases = [
        sp.plan(np.eye(3), theta=[1.0, 0.2, 0.0], noise_std=0.6),
        sp.plan(X, theta=THETA, noise_std=0.4),
    ]
    n_below = n_below_quarter = 0
    for case in cases:
        runs = case.simulate(15, seed=6)
        assert abs(runs.mean - case.pulls) < 0.25 * case.pulls + 3.0 * runs.se
        assert runs.mean - 0.25 * case.pulls > 0.25 * 0.25 * case.pulls + 3.0 * runs.se
        n_below += int((runs.n_pulls <= case.high).sum())
        n_below_quarter += int((runs.n_pulls <= 0.25 * case.high).sum())
    assert n_below >= binom.ppf(1e-6, 30, 0.8) > n_below_quarter


def test_a_plan_says_what_some_batches_decide() -> None:
    """By simulated runs, which few batches decide less often; the answer at the end may be right all the same."""
    few, many = (sp.plan(X, theta=THETA, noise_std=0.15, batch=24, rounds=rounds) for rounds in (1, 6))
    assert few.by_rounds is not None
    assert many.by_rounds is not None
    assert few.by_rounds.decided <= few.by_rounds.right
    assert few.by_rounds.rounds == 1.0
    assert few.by_rounds.decided < many.by_rounds.decided
    assert 1.0 < many.by_rounds.rounds <= 6.0
    assert f"With 6 of them (144 pulls) {100 * many.by_rounds.decided:.0f} % of 40 simulated runs" in many.explain()
    assert many.in_rounds(3, seed=1).n_runs == 3


def test_a_plan_in_batches_without_rounds_says_how_many() -> None:
    """It simulates nothing."""
    found = sp.plan(X, theta=THETA, noise_std=0.5, batch=24)
    assert found.by_rounds is None
    assert "In batches of 24, planned one after the other, expect about" in found.explain()
    assert "batches" not in sp.plan(X, theta=THETA, noise_std=0.5).explain()
    with pytest.raises(sp.InvalidInput, match="got no `rounds`; give both"):
        found.in_rounds()


def test_batches_of_bounded_rewards_need_their_level() -> None:
    """The plan says so in the place of the chance."""
    text = sp.plan(X, gap=0.1, rewards="binary", batch=24, rounds=3).explain()
    assert "How often 3 batches decide needs the level of the rewards: give `theta` or `pilot`." in text
