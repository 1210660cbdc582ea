import math
from collections.abc import Callable

import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.arms.hypercube import Hypercube
from surepick.arms.top_k import TopK
from surepick.core.design import characteristic_time
from surepick.errors import InvalidInput
from surepick.simulation import problems
from surepick.simulation.problems import Problem, VectorProblem

GENERATED = [
    problems.many_arms(20, seed=3),
    problems.many_arms(20, seed=3, variant="normal-std-0.09"),
    problems.many_arms(20, seed=3, variant="normal-var-0.09"),
    problems.soare(5),
    problems.soare_unequal(5),
    problems.unit_basis([0.2, 1.0, 0.4]),
    problems.transductive(4),
    problems.sphere(4, 30, seed=1),
    problems.sphere(4, 30, seed=1, closest_pair=0.01),
    problems.random_linear(seed=2),
    problems.multivariate(4, seed=5),
]


@pytest.mark.parametrize("problem", GENERATED, ids=lambda p: p.name)
def test_every_generator_gives_spanning_arms_and_a_unique_best(problem: Problem) -> None:
    """A generated problem can be identified: its arms span and its best answer is unique."""
    assert np.linalg.matrix_rank(problem.X) == problem.dim
    assert problem.min_gap > 1e-5 or "normal-var" in problem.name
    assert problem.gaps[problem.best] == 0.0
    assert (problem.gaps >= 0.0).all()


def test_names_tell_the_problems_apart() -> None:
    """No two generated problems share a name."""
    assert len({problem.name for problem in GENERATED}) == len(GENERATED)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: problems.many_arms(10, seed=seed),
        lambda seed: problems.sphere(3, 10, seed=seed),
        lambda seed: problems.random_linear(seed=seed),
        lambda seed: problems.multivariate(3, seed=seed),
    ],
    ids=["many_arms", "sphere", "random_linear", "multivariate"],
)
def test_same_seed_same_problem_other_seed_other_problem(make) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """A problem is a function of its arguments, and the seed matters."""
    first, again, other = make(7), make(7), make(8)
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.theta, again.theta)
    assert not (np.array_equal(first.X, other.X) and np.array_equal(first.theta, other.theta))


def test_many_arms_as_run_has_its_cluster_between_its_two_angles() -> None:
    """The as-run cluster lies at angles in [.78, .88], e1 is best, and the last arm is (-.707, .707)."""
    problem = problems.many_arms(500, seed=0)
    angles = np.arctan2(problem.X[:498, 1], problem.X[:498, 0])
    assert angles.min() >= 0.78
    assert angles.max() <= 0.88
    assert problem.best == 498
    np.testing.assert_array_equal(problem.X[499], [-0.707, 0.707])
    assert problem.min_gap >= 1 - math.cos(0.78) - 1e-12


@pytest.mark.parametrize(("variant", "spread"), [("normal-std-0.09", 0.09), ("normal-var-0.09", 0.3)])
def test_normal_variants_spread_as_their_names_say(variant: problems.ManyArmsVariant, spread: float) -> None:
    """The printed 0.09 is a standard deviation in one variant and a variance in the other."""
    problem = problems.many_arms(20_002, seed=1, variant=variant)
    angles = np.arctan2(problem.X[:20_000, 1], problem.X[:20_000, 0])
    # Six standard errors of the sample deviation of 20,000 normals are 3 %.
    assert np.std(angles) == pytest.approx(spread, rel=0.03)


def test_soare_has_the_angled_arm_and_its_gap() -> None:
    """Soare's instance is the basis plus one arm at the angle, and its smallest gap is s (1 - cos)."""
    problem = problems.soare(6, 0.1, scale=2.0)
    assert problem.X.shape == (7, 6)
    assert problem.best == 0
    assert problem.X[6] @ problem.X[0] == pytest.approx(math.cos(0.1))
    assert problem.min_gap == pytest.approx(2 * (1 - math.cos(0.1)))


def test_noise_of_quadratic_variance() -> None:
    """The arms and the gap of Soare's instance, and the variance x'Sigma x of each arm."""
    problem, plain = problems.soare_unequal(3, 0.4, quiet=0.5), problems.soare(3, 0.4)
    np.testing.assert_array_equal(problem.X, plain.X)
    assert problem.min_gap == plain.min_gap
    variances = [x @ np.diag([1.0, 0.25, 0.25]) @ x for x in problem.X]
    np.testing.assert_allclose(np.square(problem.noise_std), variances)
    with pytest.raises(InvalidInput, match="quiet"):
        problems.soare_unequal(3, quiet=0.0)


def test_transductive_measures_the_basis_and_answers_in_other_vectors() -> None:
    """The transductive arms are the basis of 2d dimensions and only the first two candidates compete."""
    problem = problems.transductive(3)
    np.testing.assert_array_equal(problem.X, np.eye(6))
    assert problem.answers.shape == (6, 6)
    assert problem.best == 0
    np.testing.assert_allclose(np.sort(problem.gaps), [0, 1 - math.cos(0.1), 1, 1, 1, 1])
    np.testing.assert_allclose(np.linalg.norm(problem.answers, axis=1), 1.0)


def test_sphere_arms_are_unit_and_the_closest_pair_leads() -> None:
    """Arms lie on the sphere, and the hard version puts its two closest arms on top."""
    free = problems.sphere(5, 40, seed=2)
    np.testing.assert_allclose(np.linalg.norm(free.X, axis=1), 1.0)
    assert np.linalg.norm(free.theta) == pytest.approx(2.0)
    hard = problems.sphere(5, 40, seed=2, closest_pair=0.01)
    top = np.argsort(hard.gaps)[:2]
    inner = hard.X @ hard.X.T - 2 * np.eye(40)
    assert set(top) == set(np.unravel_index(np.argmax(inner), inner.shape))


def test_random_linear_has_its_ladder_of_means() -> None:
    """With the defaults ten basis arms pay 1, .9 x 4, .8 x 5 and all others at most one half."""
    problem = problems.random_linear(seed=4)
    values = problem.X @ problem.theta
    np.testing.assert_allclose(values[:10], [1.0, *[0.9] * 4, *[0.8] * 5])
    assert problem.X.shape == (50, 20)
    assert values[10:].max() <= 0.5
    assert problem.theta[10:].max() <= 0.0


def test_multivariate_has_all_versions_and_orthogonal_features() -> None:
    """All 2^D versions appear and the features are orthogonal columns of signs."""
    problem = problems.multivariate(4, seed=0)
    assert problem.X.shape == (16, 11)
    np.testing.assert_array_equal(problem.X.T @ problem.X, 16 * np.eye(11))
    coefficients = 100 * problem.theta
    coefficients[5] *= 2
    np.testing.assert_allclose(coefficients, np.round(coefficients), atol=1e-9)


def test_pull_has_the_mean_and_noise_of_the_problem() -> None:
    """Rewards average to theta'x and spread by noise_std, within six standard errors."""
    problem = Problem(X=np.eye(2), theta=np.array([1.0, -1.0]), noise_std=0.5, name="two")
    rng = np.random.default_rng(0)
    rewards = np.array([problem.pull(1, rng) for _ in range(10_000)])
    assert rewards.mean() == pytest.approx(-1.0, abs=6 * 0.5 / 100)
    assert rewards.std() == pytest.approx(0.5, rel=6 / math.sqrt(20_000))


def test_a_problem_cannot_be_changed_from_outside() -> None:
    """A problem copies its arrays and refuses writes."""
    theta = np.array([1.0, 0.0])
    problem = Problem(X=np.eye(2), theta=theta, name="two")
    theta[0] = -1.0
    assert problem.best == 0
    with pytest.raises(ValueError, match="read-only"):
        problem.X[0, 0] = 5.0


@pytest.mark.parametrize(
    "changes",
    [
        {"theta": np.ones(3)},
        {"X": np.ones(2)},
        {"candidates": np.eye(3)},
        {"X": np.array([[1.0, np.nan], [0.0, 1.0]])},
        {"noise_std": 0.0},
        {"noise_std": math.inf},
    ],
    ids=["theta length", "flat arms", "candidate width", "nan", "no noise", "infinite noise"],
)
def test_a_malformed_problem_is_refused(changes: dict[str, object]) -> None:
    """Wrong shapes, non-finite entries and a non-positive noise level are refused at construction."""
    given: dict[str, object] = {"X": np.eye(2), "theta": np.ones(2), "name": "bad", **changes}
    with pytest.raises(InvalidInput, match=r"need|must"):
        Problem(**given)  # type: ignore[arg-type]


def test_generators_refuse_sizes_that_make_no_problem() -> None:
    """Too few arms or dimensions, and unknown variants, are named in the error."""
    with pytest.raises(InvalidInput, match="n_arms"):
        problems.many_arms(2)
    with pytest.raises(InvalidInput, match="variant"):
        problems.many_arms(5, variant="uniform")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="dim"):
        problems.soare(1)
    with pytest.raises(InvalidInput, match="means"):
        problems.unit_basis([1.0])
    with pytest.raises(InvalidInput, match="n_factors"):
        problems.multivariate(1)


@pytest.mark.parametrize(
    ("make", "arguments", "complaint"),
    [
        (problems.many_arms, {"n_arms": "a"}, "n_arms"),
        (problems.many_arms, {"n_arms": 5.5}, "n_arms"),
        (problems.many_arms, {"n_arms": 5, "seed": -1}, "seed"),
        (problems.many_arms, {"n_arms": 5, "seed": None}, "seed"),
        (problems.soare, {"dim": 2.5}, "dim"),
        (problems.soare, {"dim": 2, "angle": "a"}, "angle"),
        (problems.soare, {"dim": 2, "scale": "a"}, "scale"),
        (problems.soare, {"dim": 2, "scale": -1}, "scale"),
        (problems.unit_basis, {"means": "ab"}, "means"),
        (problems.unit_basis, {"means": 5}, "means"),
        (problems.unit_basis, {"means": [1.0, [2.0, 3.0]]}, "means"),
        (problems.transductive, {"dim": 1.5}, "dim"),
        (problems.sphere, {"dim": 2, "n_arms": 0}, "n_arms"),
        (problems.sphere, {"dim": 0, "n_arms": 5}, "dim"),
        (problems.sphere, {"dim": 2, "n_arms": 5, "seed": 1.5}, "seed"),
        (problems.sphere, {"dim": 2, "n_arms": 1, "closest_pair": 0.1}, "n_arms"),
        (problems.sphere, {"dim": 2, "n_arms": 5, "closest_pair": 2}, "closest_pair"),
        (problems.sphere, {"dim": 2, "n_arms": 5, "closest_pair": -1}, "closest_pair"),
        (problems.sphere, {"dim": 2, "n_arms": 5, "closest_pair": 1}, "closest_pair"),
        (problems.sphere, {"dim": 2, "n_arms": 5, "closest_pair": "a"}, "closest_pair"),
        (problems.sphere_set, {"dim": 2, "norm": "a"}, "norm"),
        (problems.sphere_set, {"dim": 2, "norm": -1.0}, "norm"),
        (problems.sphere_set, {"dim": 2, "epsilon": "a"}, "epsilon"),
        (problems.random_linear, {"n_arms": "a"}, "n_arms"),
        (problems.random_linear, {"dim": 20.5}, "dim"),
        (problems.random_linear, {"n_arms": 5, "dim": 20}, "at least dim = 20"),
        (problems.random_linear, {"seed": "a"}, "seed"),
        (problems.multivariate, {"n_factors": 2.5}, "n_factors"),
        (problems.multivariate, {"n_factors": 17}, "n_factors"),
        (problems.multivariate, {"n_factors": 2, "seed": -1}, "seed"),
        (Problem, {"X": np.eye(2), "theta": np.ones(2), "name": "x", "noise_std": "a"}, "noise_std"),
        (Problem, {"X": "a", "theta": np.ones(2), "name": "x"}, "`X`"),
        (Problem, {"X": np.eye(2), "theta": ["a", "b"], "name": "x"}, "theta"),
        (Problem, {"X": np.eye(2), "theta": np.ones(2), "name": "x", "candidates": "a"}, "candidates"),
        (VectorProblem, {"vectors": np.eye(2), "theta": np.ones(2), "name": "x", "epsilon": 0.1}, "vectors"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named(
    make: Callable[..., object], arguments: dict[str, object], complaint: str
) -> None:
    """Text, fractions and numbers out of range are refused in our words, with the argument's name."""
    with pytest.raises(InvalidInput, match=complaint):
        make(**arguments)


def test_one_answer_has_no_smallest_gap() -> None:
    """With nothing to compare the best to, the error says so."""
    problem = Problem(X=np.array([[1.0, 0.0]]), theta=np.array([1.0, 0.0]), name="alone")
    with pytest.raises(InvalidInput, match="at least two answers"):
        _ = problem.min_gap


def test_whole_floats_and_large_numpy_seeds_are_what_they_equal() -> None:
    """5.0 arms are 5 arms, in the name too; a seed beyond 2^53 is not rounded to another one."""
    whole = problems.many_arms(5.0, seed=2)  # type: ignore[arg-type]
    assert whole.name == problems.many_arms(5, seed=2).name
    np.testing.assert_array_equal(whole.X, problems.many_arms(5, seed=2).X)
    np.testing.assert_array_equal(problems.random_linear(50.0, 20).X, problems.random_linear(50, 20).X)  # type: ignore[arg-type]
    large = 2**60 + 1
    exact = problems.many_arms(5, seed=np.int64(large))  # type: ignore[arg-type]
    np.testing.assert_array_equal(exact.X, problems.many_arms(5, seed=large).X)


def test_a_problem_keeps_the_bits_of_its_arrays() -> None:
    """Checks change nothing: neither the order in memory, which rounding depends on, nor the sign of a zero."""
    problem = Problem(X=np.array([[1.0, -0.0], [0.0, 1.0]], order="F"), theta=np.array([1.0, -0.0]), name="x")
    assert problem.X.flags.f_contiguous
    assert np.signbit(problem.X[0, 1])
    assert np.signbit(problem.theta[1])


def test_spheres_of_a_given_difficulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The characteristic time lies between the two; without them the first draw is taken."""
    values = [
        characteristic_time(FiniteArms(problem.X), problem.theta).value
        for problem in (problems.sphere(5, 50, seed=seed, times=(30.0, 400.0)) for seed in range(1))
    ]
    assert all(30.0 < value < 400.0 for value in values)
    monkeypatch.setattr(problems, "N_DRAWS", 20)
    for times in ((2.0, 1.0), (0.0, 1e-9), 5.0, ("a", 1.0)):
        with pytest.raises(InvalidInput, match="`times`"):
            problems.sphere(2, 3, times=times)  # type: ignore[arg-type]


def test_sets_of_vectors_have_the_bounds_of_their_sets() -> None:
    """Hypercube and choices have one without slack; an ellipsoid has none."""
    cube, pairs = problems.hypercube_set([0.3, 1.0, 1.0]), problems.top_k_set([0.5, 0.5, 0.0], 2)
    assert cube.lower_bound(0.05) == Hypercube(3).lower_bound([0.3, 1.0, 1.0], 0.05)
    assert pairs.lower_bound(0.05) == TopK(3, 2).lower_bound([0.5, 0.5, 0.0], 0.05)
    assert math.isnan(problems.ellipsoid_set([0.5, 0.0], [[1.0, 0.0], [0.3, 0.5]], [0.3, 0.1]).lower_bound(0.05))
    assert pairs.loss(np.array([1.0, 0.0, 1.0])) == 0.5


def test_listed_arms_are_as_given() -> None:
    """The best row is found, the second loses a fiftieth."""
    problem = problems.listed([[0.98, 0.6], [1.0, 0.0]], [1.0, 0.0])
    assert problem.best == 1
    assert problem.min_gap == pytest.approx(0.02)
