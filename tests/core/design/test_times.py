"""Characteristic times and lower bounds of every task: tolerance, groups, noise and cost of each arm, few arms."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import ArmsDoNotSpan, InvalidInput, TiedArms

KL = 0.9 * math.log(19.0)
FACTORS = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
BASIS = (np.eye(5), np.array([0.5, 0.2, 0.1, 0.0, -0.1]))
FACTORIAL = (np.column_stack([np.ones(16), FACTORS]), np.array([0.0, 0.12, 0.12, 0.12, 0.12]))
SPHERE = (sp.problems.sphere(5, 50, seed=3).X, sp.problems.sphere(5, 50, seed=3).theta)
SOARE = (sp.problems.soare(6).X, sp.problems.soare(6).theta)


def time(X: Any, theta: Any, **options: Any) -> float:
    """T*, solved tightly."""
    return sp.characteristic_time(X, theta, tol=1e-7, **options).value


# ---- groups


@pytest.mark.parametrize(
    ("problem", "alone", "together", "pairs"),
    [(BASIS, 122, 122, 170), (FACTORIAL, 139, 139, 139), (SPHERE, 127, 132, 133), (SOARE, 222, 80_136, 80_140)],
)
def test_offsets_of_groups(problem: tuple[Any, Any], alone: int, together: int, pairs: int) -> None:
    """Without groups, in one group without end, and in groups of two: values computed elsewhere."""
    assert time(*problem) == pytest.approx(alone, abs=0.5)
    assert time(*problem, groups="offset") == pytest.approx(together, abs=0.5)
    assert time(*problem, groups="offset", group_size=2) == pytest.approx(pairs, abs=0.5)


def test_many_arms_in_groups() -> None:
    """From 22 to 85: differences alone say less."""
    problem = sp.problems.many_arms(1000)
    assert time(problem.X, problem.theta) == pytest.approx(22.4, abs=0.1)
    assert time(problem.X, problem.theta, groups="offset") == pytest.approx(84.7, abs=0.1)


def test_one_group_is_the_design_of_rows_with_a_constant() -> None:
    """The certificate is about those rows; with a constant among the features one group is free."""
    X, theta = SPHERE
    design = sp.characteristic_time(X, theta, groups="offset", tol=1e-7)
    assert design.verify(sp.FiniteArms(np.column_stack([X, np.ones(50)])))
    assert not design.verify(sp.FiniteArms(X))
    best = int(np.argmax(X @ theta))
    Y = np.delete(X[best] - X, best, axis=0)
    rows = np.column_stack([Y / (Y @ theta)[:, None], np.zeros(49)])
    assert design.value == pytest.approx(
        2.0 * sp.optimal_design(np.column_stack([X, np.ones(50)]), rows).value, rel=1e-3
    )
    with_level = np.column_stack([X, np.ones(50)]), [*theta, 3.0]
    assert time(*with_level, groups="offset") == pytest.approx(time(*with_level), rel=1e-5)


def test_pairs_are_numbered_as_combinations() -> None:
    """Two arms: the one pair, T* = 8 / gap^2 as without offsets."""
    design = sp.characteristic_time(np.eye(3), [1.0, 0.5, -9.0], groups="offset", group_size=2, tol=1e-7)
    pairs = list(itertools.combinations(range(3), 2))
    assert pairs[design.support[np.argmax(design.weights)]] == (0, 1)
    assert time(np.eye(2), [0.5, 0.0], groups="offset", group_size=2) == pytest.approx(8.0 / 0.25, rel=1e-6)


def test_pairs_of_arms_that_differ_in_noise_and_cost() -> None:
    """A pair has the variance s^2 + t^2 for the cost c + e: T = 2 (s^2 + t^2)(c + e) / gap^2, by its cost."""
    options = {"noise_std": [0.5, 2.0], "costs": [1.0, 3.0], "groups": "offset", "group_size": 2}
    assert time(np.eye(2), [0.5, 0.0], **options) == pytest.approx(2.0 * 4.25 * 4.0 / 0.25, rel=1e-6)


def test_groups_beside_the_m_best_and_a_control() -> None:
    """The directions are those of the task, the rows those of groups; a threshold has no meaning."""
    X, theta = SPHERE
    for goal in ({"m": 3}, {"control": 7}, {"epsilon": 0.05}):
        assert time(X, theta, groups="offset", **goal) > time(X, theta, **goal)
    with pytest.raises(InvalidInput, match="control"):
        time(X, theta, threshold=0.5, groups="offset")


# ---- tolerance


def test_one_right_answer() -> None:
    """Gaps grow by epsilon: T* = 8 / (gap + eps)^2 for two arms."""
    assert time(np.eye(2), [0.5, 0.0], epsilon=0.2) == pytest.approx(8.0 / 0.49, rel=1e-6)
    assert sp.lower_bound(np.eye(2), [0.5, 0.0], epsilon=0.2) == pytest.approx(8.0 / 0.49 * KL, rel=1e-5)
    assert sp.lower_bound(np.eye(2), [0.5, 0.0], epsilon=1e-9) == pytest.approx(8.0 / 0.25 * KL, rel=1e-5)


def test_the_answer_that_is_cheapest_to_prove_may_not_be_the_best() -> None:
    """The smallest T over the right answers, each by its own explicit design."""
    rng = np.random.default_rng(0)
    n_others = 0
    for _ in range(10):
        X, theta, epsilon = rng.normal(size=(5, 2)), rng.normal(size=2), 1.5
        means = X @ theta
        times = {}
        for i in np.flatnonzero(means.max() - means < epsilon).tolist():
            Y = np.delete(X[i] - X, i, axis=0)
            times[i] = 2.0 * sp.optimal_design(X, Y / (Y @ theta + epsilon)[:, None], tol=1e-7).value
        assert time(X, theta, epsilon=epsilon) == pytest.approx(min(times.values()), rel=1e-5)
        n_others += min(times, key=lambda i: times[i]) != np.argmax(means)
    assert n_others > 0


def test_several_right_answers_share_the_chance() -> None:
    """Two alike answers: each is given with probability (1 - delta)/2, and kl of that counts."""
    theta, delta = [0.0, 0.0, -1.0], 0.05
    half = 0.5 * (1.0 - delta)
    kl = half * math.log(half / delta) + (1 - half) * math.log((1 - half) / (1 - delta))
    found = sp.lower_bound(np.eye(3), theta, delta, epsilon=0.4)
    assert found == pytest.approx(time(np.eye(3), theta, epsilon=0.4) * kl, rel=1e-4)
    small = sp.lower_bound(np.eye(3), theta, 1e-200, epsilon=0.4) / math.log(1e200)
    assert small == pytest.approx(0.5 * time(np.eye(3), theta, epsilon=0.4), rel=0.01)
    assert sp.lower_bound(np.eye(30), np.zeros(30), delta, epsilon=0.4) == pytest.approx(0.0, abs=1e-9)
    assert sp.lower_bound(np.eye(3), theta, 0.5, epsilon=0.4) == 0.0


def test_copies_of_a_right_answer_count_once() -> None:
    """They are one answer."""
    once = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.1]])
    twice = once[[0, 1, 0, 2, 1]]
    found, expected = (sp.lower_bound(rows, [1.0, 0.8], epsilon=0.5) for rows in (twice, once))
    assert found == pytest.approx(expected, rel=1e-5)


def test_calls_with_a_tolerance() -> None:
    """Distances grow by epsilon, and an arm that is closer needs no pulls; if all are, none does."""
    X, theta = np.eye(3), [1.0, 0.52, -1.0]
    expected = 2.0 * (2 / 0.7**2 / 2 + 2 / 1.7**2 / 2)  # each arm alone: 2 / (distance + eps)^2, summed
    assert time(X, theta, threshold=0.5, epsilon=0.2) == pytest.approx(expected, rel=1e-5)
    assert sp.lower_bound(X, theta, threshold=0.5, epsilon=5.0) == 0.0
    with pytest.raises(InvalidInput, match="epsilon"):
        time(X, theta, threshold=0.5, epsilon=5.0)


def test_mistakes_with_a_tolerance_are_refused() -> None:
    """The m best have no bound; a tie is one only without a tolerance."""
    with pytest.raises(InvalidInput, match="m > 1"):
        sp.lower_bound(np.eye(4), [1.0, 0.5, 0.2, 0.0], m=2, epsilon=0.1)
    with pytest.raises(TiedArms):
        time(np.eye(3), [1.0, 1.0, 0.0])
    assert time(np.eye(3), [1.0, 1.0, 0.0], epsilon=0.1) < math.inf


# ---- noise and cost of each arm


def test_noise_and_cost_in_the_characteristic_time() -> None:
    """Known values of unequal costs, with shares of cost as weights."""
    X = np.vstack([np.eye(2), [math.cos(0.3), math.sin(0.3)]])
    design = sp.characteristic_time(X, [2.0, 0.0], costs=[1.0, 9.0, 1.0], tol=1e-8)
    assert design.value == pytest.approx(217.356549, rel=1e-6)
    assert design.weights == pytest.approx([0.047962, 0.952038], abs=1e-5)
    assert design.verify(sp.FiniteArms(X / np.sqrt([[1.0], [9.0], [1.0]])))
    assert time(np.eye(2), [1.0, 0.5], noise_std=[0.5, 2.0]) == pytest.approx(2.0 * 2.5**2 / 0.25, rel=1e-6)
    assert time(np.eye(2), [1.0, 0.5], noise_std=3.0) == pytest.approx(9.0 * 32.0, rel=1e-6)


@pytest.mark.parametrize(
    "goal", [{"m": 2}, {"threshold": 0.3}, {"control": 0}, {"epsilon": 0.05}, {"groups": "offset"}]
)
def test_the_bound_is_the_time_whatever_is_sought(goal: dict[str, Any]) -> None:
    """One right answer: the time in pulls per nat, times kl; with noise and cost of each arm."""
    X, theta = np.eye(4), [1.0, 0.5, 0.2, -0.4]
    options = {"noise_std": [0.5, 1.0, 0.7, 2.0], "costs": [1.0, 2.0, 1.0, 4.0], **goal}
    assert sp.lower_bound(X, theta, **options) == pytest.approx(time(X, theta, **options) * KL, rel=1e-4)


# ---- arms that do not span


def test_arms_that_measure_every_needed_difference() -> None:
    """Candidates differ in the first two features alone; arms that never show the third will do."""
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.6, 0.0]])
    candidates = np.array([[1.0, 0.0, 5.0], [0.8, 0.3, 5.0], [0.1, 0.9, 5.0]])
    theta = [1.0, 0.2, 7.0]
    plain = time(X[:, :2], theta[:2], candidates=candidates[:, :2])
    design = sp.characteristic_time(X, theta, candidates, tol=1e-7)
    assert design.value == pytest.approx(plain, rel=1e-6)
    assert design.verify(sp.FiniteArms.on_span(X))
    assert sp.lower_bound(X, theta, candidates=candidates) == pytest.approx(plain * KL, rel=1e-5)
    mixed = X @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    assert np.linalg.matrix_rank(mixed) == 2
    with pytest.raises(ArmsDoNotSpan):
        time(X, theta)


def test_a_difference_that_no_arm_measures_is_refused() -> None:
    """The third feature of a candidate differs, and no arm has it."""
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    with pytest.raises(ArmsDoNotSpan, match="tell the candidates apart"):
        time(X, [1.0, 0.2, 0.1], candidates=np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]))
    with pytest.raises(ArmsDoNotSpan, match="compare arms only with each other"):
        time(np.eye(2), [1.0, 0.2], candidates=np.array([[1.0, 1.0], [0.0, 1.0]]), groups="offset")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"groups": "watch"}, "groups"),
        ({"group_size": 2}, "group_size"),
        ({"groups": "offset", "group_size": 1}, "group_size"),
        ({"m": 2, "threshold": 0.1}, "`m` must be 1"),
        ({"control": 5}, "control"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_options_that_do_not_go_together_are_refused(wrong: dict[str, Any], match: str) -> None:
    """By name."""
    for function in (sp.characteristic_time, sp.lower_bound):
        with pytest.raises(InvalidInput, match=match):
            function(np.eye(3), [1.0, 0.5, 0.2], **wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"costs": [1.0, -5.0]}, r"^`costs` must be above 0, got a least cost of -5\.$"),
        ({"noise_std": [1.0, 1.0, 1.0]}, r"^`noise_std` must be one number or .* 2 arms, got 3 numbers\.$"),
    ],
)
def test_costs_and_noise_are_refused_in_their_own_words(options: dict[str, Any], message: str) -> None:
    """A wrong cost is no matter of the noise."""
    with pytest.raises(InvalidInput, match=message):
        sp.characteristic_time([[1, 0], [0, 1]], [1.0, 0.0], **options)
