"""Estimates before the verdict: what they say, when they are silent, and that they are calibrated."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy

import surepick as sp
from surepick._texts import about, roughly
from surepick.core import posterior
from surepick.learning import outlook as outlooks
from surepick.learning.progress import left_to_do
from surepick.learning.snapshot import Snapshot
from surepick.types import Array

MEANS = np.array([1.0, 0.6, 0.5, 0.0, -0.5])


def learner_at(n: int, X: Any = None, means: Array = MEANS, **options: Any) -> sp.Learner:
    """Return a learner after n pulls with Gaussian noise, or 0/1 rewards if the options say so."""
    rng = np.random.default_rng(8)
    learner = sp.create_learner("lazy-track-and-stop", np.eye(len(means)) if X is None else X, **options)
    for _ in range(n):
        arm = learner.next_arms(1)[0]
        mean = float(means[arm])
        is_binary = options.get("rewards") == "binary"
        learner.tell(arm, float(rng.random() < mean) if is_binary else mean + float(rng.standard_normal()))
    return learner


def test_two_arms_agree_with_the_formula() -> None:
    """P(best) and the expected loss by draws against the mixture, within five standard errors of 2,000 draws."""
    learner = learner_at(12, means=np.array([0.8, 0.3]))
    found, fit = learner.snapshot.outlook, learner.reader._fit
    assert found is not None
    assert fit is not None
    leader = int(learner.reader.leaders[0])
    own, other = learner.task.rivals.gather([leader, 1 - leader])
    law = posterior.shrunk_posterior(fit.theta, fit.A_inv, fit.variance, fit.nu, learner.task.rows.level)
    mean, variance = law.along(own - other)
    x = mean / np.sqrt(variance)
    right = float(law.weights @ scipy.special.ndtr(x))
    density = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    loss = float(law.weights @ (np.sqrt(variance) * density - mean * scipy.special.ndtr(-x)))
    assert found.probability == pytest.approx(right, abs=5 * 0.5 / math.sqrt(2000))
    assert found.loss == pytest.approx(loss, rel=0.2)
    assert found.within == found.probability  # epsilon = 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise_std": 1.0},
        {"noise_std": np.linspace(0.8, 1.2, 5)},
        {"noise": "per-arm"},
        {"noise": "symmetric"},
        {"reward_range": (-6.0, 6.0)},
        {"rewards": "binary", "means": np.array([0.8, 0.6, 0.5, 0.4, 0.2])},
        {"m": 2},
        {"epsilon": 0.2},
        {"stopping": "evidence"},
    ],
    ids=str,
)
def test_every_kind_of_noise_and_question_has_an_outlook(options: dict[str, Any]) -> None:
    """Probabilities in order, leaders first in question, and files and pickles that keep all of it."""
    options = dict(options)
    means = options.pop("means", MEANS)
    learner = learner_at(40, means=means, delta=1e-6, **options)
    now, result = learner.snapshot, learner.result()
    found = now.outlook
    assert found is not None
    assert 0.0 < found.probability <= found.within <= 1.0
    assert 0.0 <= found.loss <= 2.0
    assert found.in_question[: now.m] == now.leaders
    assert [one.pulls for one in found.ahead] == [10, 20, 50]
    assert found.probability <= found.ahead[0].probability <= found.ahead[2].probability + 0.02
    assert result.outlook == found
    again = sp.Result.from_dict(result.to_dict())
    assert again == result
    assert again.outlook == found
    assert pickle.loads(pickle.dumps(result)).outlook == found
    columns = result.to_columns()
    assert (columns["likely_low"] <= columns["likely_high"]).all()
    if learner.reward_range is not None:
        assert columns["likely_low"].min() >= learner.reward_range[0]
        assert columns["likely_high"].max() <= learner.reward_range[1]


def test_sets_of_vectors() -> None:
    """On a sphere an arm is never exactly the best; what the leader loses can be said all the same."""
    rng = np.random.default_rng(2)
    learner = sp.create_learner("lazy-track-and-stop", sp.Sphere(3), epsilon=0.1, noise_std=1.0)
    for _ in range(30):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, float(arm @ [1.0, 0.5, 0.0] + rng.standard_normal()))
    now, n_named = learner.snapshot, learner.candidates.n_arms
    found = now.outlook
    assert learner.candidates.n_arms == n_named  # draws give no arm a number
    assert found is not None
    assert math.isnan(found.probability)
    assert 0.0 < found.loss < 1.5
    assert "is best with" not in learner.result().explain()
    assert "within epsilon = 0.1 of the best" in learner.result().explain()


def test_silent_where_nothing_can_be_said() -> None:
    """Before arms span, without residuals, with equal rewards, with a misfit, when withdrawn, and after the verdict."""
    assert learner_at(3).snapshot.outlook is None
    assert learner_at(5).snapshot.outlook is None  # no residual, unknown noise
    equal = sp.create_learner("lazy-track-and-stop", np.eye(3))
    for _ in range(9):
        equal.tell(equal.next_arms(1)[0], 2.0)
    assert equal.snapshot.outlook is None
    assert "nothing to compare yet" in equal.result().explain() or equal.decision.guarantee == "withdrawn"
    X = np.column_stack([np.ones(6), np.arange(6.0)])
    means = X @ [1.0, 0.1]
    assert learner_at(20, X, means, noise_std=1.0, misfit=0.3).snapshot.outlook is None
    assert learner_at(60, means=10.0 * MEANS, noise_std=0.1).snapshot.outlook is None  # withdrawn
    decided = learner_at(60, means=10.0 * MEANS)
    assert decided.stopped
    assert decided.snapshot.outlook is None


def test_rejected_arms_are_not_in_question() -> None:
    """An arm that the rule has rejected is out of all estimates, whatever the draws say."""
    learner = learner_at(200, means=np.array([1.0, 0.95, -1.0, -3.0]))
    now = learner.snapshot
    assert now.survivors is not None
    assert len(now.survivors) < 4
    assert now.outlook is not None
    assert set(now.outlook.in_question) <= set(now.survivors.tolist())


def test_looks_do_not_jitter_and_an_old_look_stays() -> None:
    """Equal results give equal numbers; a snapshot belongs to its moment, also if it is read later."""
    learner, twin = learner_at(30), learner_at(30)
    before = learner.snapshot
    arm = learner.next_arms(1)[0]
    learner.tell(arm, 50.0)
    assert before.outlook == twin.snapshot.outlook
    assert learner.snapshot.outlook != before.outlook


def test_nothing_is_worked_out_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions, results and statuses draw nothing: a loop pays for no estimate."""
    calls: list[Any] = []
    monkeypatch.setattr(outlooks, "shrunk_posterior", lambda *given: calls.append(given))
    learner = learner_at(30)
    _ = learner.snapshot, learner.decision, learner.result()
    assert not calls


def test_binary_rewards_with_one_mean_per_arm() -> None:
    """Wilson's interval of each share, and shares off 0 and 1 in the posterior."""
    learner = learner_at(40, means=np.array([0.9, 0.5, 0.1]), rewards="binary", model="unstructured", delta=1e-6)
    result, fit = learner.result(), learner.reader._fit
    columns, measured = result.to_columns(), result.measured()
    n = np.array([result.counts[arm] for arm in range(3)], dtype=float)
    low, high = posterior.wilson(np.array([measured[arm] for arm in range(3)]) * n, n)
    assert columns["likely_low"] == pytest.approx(low)
    assert columns["likely_high"] == pytest.approx(high)
    assert fit is not None
    shares = learner.task.rows.gather(range(3)) @ fit.theta
    assert shares == pytest.approx((columns["measured"] * n + 0.5) / (n + 1.0))


# ---- remaining pulls


def test_remaining_is_never_below_the_rest_of_the_block() -> None:
    """What is planned and open is measured in any case."""
    learner, rng = learner_at(6), np.random.default_rng(3)
    learner.next_arms(1)
    for _ in range(80):
        now, left = learner.snapshot, learner.n_planned + sum(learner.pending.values())
        assert now.stopped or now.remaining >= left
        assert now.stopped or math.isnan(now.remaining_low) or left <= now.remaining_low <= now.remaining_high
        for arm, n in list(learner.pending.items()):
            for _ in range(n):
                learner.tell(arm, float(MEANS[arm] + rng.standard_normal()))
        if not learner.stopped:
            learner.next_arms(1)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((300.0, 100.0, 900.0), "about 300 more pulls (100 to 900)"),
        ((1234.0, 987.0, 5678.0), "about 1,200 more pulls (990 to 5,700)"),
        ((300.0, 100.0, 2001.0), "at least about 100 more, too early to say how many at most"),
        ((2.2, 1.0, 9.0), "about 3 more pulls (1 to 9)"),
        ((math.inf, math.nan, math.nan), "more pulls, how many cannot be said yet"),
        ((10.3, math.nan, math.nan), "about 11 more pulls"),
    ],
)
def test_words_of_remaining_pulls(numbers: tuple[float, float, float], words: str) -> None:
    """A point with its range; at least how many, if the range is wide; nothing below one pull."""
    remaining, low, high = numbers
    now = Snapshot(
        n_pulls=9, threshold=3.0, delta=0.05, remaining=remaining, remaining_low=low, remaining_high=high, best=0
    )
    assert left_to_do(now) == words


def test_probabilities_come_in_steps_of_five_percent() -> None:
    """No estimate looks more exact than it is."""
    assert [about(p) for p in (0.0, 0.02, 0.68, 0.97, 0.99, 1.0)] == [
        *("less than 5 %", "less than 5 %", "about 70 %", "about 95 %", "more than 95 %", "more than 95 %")
    ]
    assert [roughly(x) for x in (0.0, 0.0437, 0.91, 12.3, 1234.0)] == ["0", "0.044", "0.91", "12", "1,200"]


def test_open_asks_count_as_remaining() -> None:
    """A batch of 3,000 that is out is measured in any case, whatever the forecast says."""
    learner = learner_at(40)
    assert learner.snapshot.remaining < 3000
    learner.next_arms(3000)
    now = learner.snapshot
    assert 3000 <= now.remaining_low <= now.remaining_high
    assert now.remaining >= 3000


def test_the_runner_up_is_second_by_estimate() -> None:
    """Also where the interval of another candidate reaches further ahead of the leader."""
    X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    learner = sp.create_learner("lazy-track-and-stop", X, noise_std=1.0, earlier="evidence")
    for arm, value in ((0, 1.0), (0, 1.2), (1, 0.9), (1, 1.0), (2, 0.3)):
        learner.tell(arm, value)
    result = learner.result()
    ahead = result.arms.estimate[result.best] - result.arms.estimate
    assert result.arms.margin is not None
    furthest = int(np.argmax(result.arms.margin - ahead))
    assert result.arms.rank()[result.rival] == 2
    assert furthest != result.rival
