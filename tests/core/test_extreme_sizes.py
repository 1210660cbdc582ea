"""Extreme sizes: what cannot be squared in double precision is refused before the first pull, everything else works."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task, WhitenedArms
from surepick.core.checks import check_distinct
from surepick.core.evidence import Mixture, glr, log_evidence
from surepick.errors import InvalidInput, TiedArms
from surepick.simulation import problems
from surepick.stopping import as_rule
from surepick.types import Array
from tests.tasks import AnyLearner, any_identify, begun, view_of

X, Z = np.split(np.random.default_rng(0).standard_normal((14, 3)), [8])
THETA = np.array([1.0, -0.5, 0.3])
CLOSE = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1e-170], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
LONG_COLUMNS = X / np.abs(X).max() * 1.7e308
"""Its entries are finite, the lengths of its columns are not."""


def never(_: Any) -> float:
    """Stand in for a measurement that must not be made."""
    pytest.fail("an arm was measured although the arguments cannot be used")


def pulls(means: Array, noise_std: float, seed: int) -> Callable[[int], float]:
    """Return a `pull` of rows with these mean rewards."""
    rng = np.random.default_rng(seed)
    return lambda arm: float(means[arm] + noise_std * rng.standard_normal())


def vector_pulls(theta: Array, noise_std: float, seed: int) -> Callable[[Array], float]:
    """Return a `pull` of vectors under this parameter."""
    rng = np.random.default_rng(seed)
    return lambda arm: float(arm @ theta + noise_std * rng.standard_normal())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tiny candidates": ({"candidates": 1e-160 * Z}, r"`candidates` must be at most 1e\+50 times .*got .*e-160 times"),
    "subnormal candidates": ({"candidates": 1e-320 * Z}, "`candidates` must be .*got .*e-320 times"),
    "huge candidates": ({"candidates": 1e160 * Z}, r"`candidates` .*got .*e\+160 times their size; use the same units"),
    "candidates beyond doubles": ({"arms": 1e-20 * X, "candidates": 1e300 * Z}, "`candidates` must be .*got (inf|nan)"),
    "arms tiny, candidates not": ({"arms": 1e-99 * X, "candidates": Z}, r"`candidates` must be .*got .*e\+99 times"),
    "candidates of two sizes": (
        {"candidates": np.vstack([Z[:3], 1e-170 * Z[3:]])},
        "rows of `candidates` must be equal or differ by 1e-50 times .*got rows [34] and [45] .*; use the units",
    ),
    "close candidates": ({"candidates": CLOSE}, "rows of `candidates` .*got rows 0 and 1 that differ by less; use"),
    "close arms": ({"arms": CLOSE}, "rows of `arms` must be equal or differ .*got rows 0 and 1 that differ by less"),
    "subnormal arms": (
        {"arms": np.eye(3) * 1e-310},
        r"features must be between 1e-120 and 1e\+120 .*e-311 for x0;",
    ),
    "tiny arms": ({"arms": X * 1e-160}, "features must be .* in size, got .*e-160 for x0; use other units"),
    "huge arms": ({"arms": X * 1e300}, r"features must be .* in size, got .*e\+300 for x0; use other units"),
    "a tiny feature": ({"arms": X * [1.0, 1e-170, 1.0]}, "features must be .*got .*e-171 for x1; use other units"),
    "arms beyond doubles": ({"arms": LONG_COLUMNS}, "features must be below 1e300 in size, .*; use other units"),
    "huge epsilon": ({"epsilon": 1e200}, r"`epsilon` must be .* 0 or between 1e-100 and 1e40, got 1e\+200; .*unit"),
    "subnormal epsilon": ({"epsilon": 1e-310}, "`epsilon` must be .* 0 or between 1e-100 and 1e40, got 1e-310; 0 asks"),
    "tiny noise": ({"noise_std": 1e-200}, "`noise_std` must be .* between 1e-40 and 1e40, got 1e-200; .* unit"),
    "huge noise": ({"noise_std": 1e200}, r"`noise_std` must be .* between 1e-40 and 1e40, got 1e\+200; .* unit"),
    "subnormal delta": ({"delta": 1e-320}, "`delta` must be a risk .* of at least 1e-300, got 1e-320; 0.05"),
}


@pytest.mark.parametrize(
    ("algorithm", "case"),
    # Each algorithm meets a quarter of the cases, each case a quarter of the algorithms.
    [
        (name, case)
        for i, name in enumerate(sp.algorithms.names())
        for j, case in enumerate(REFUSED)
        if (i + j) % 4 == 0
    ],
)
def test_every_algorithm_refuses_before_the_first_pull(algorithm: str, case: str) -> None:
    """The error says what was needed, what came and what to do; nothing overflows, nothing is measured."""
    arguments, message = REFUSED[case]
    arms = arguments.get("arms", X)
    rest = {name: value for name, value in arguments.items() if name != "arms"}
    with pytest.raises(InvalidInput, match=message):
        sp.identify(arms, never, algorithm=algorithm, **{"noise_std": 1.0} | rest)


# Units of features and of rewards, size of the candidates beside the arms, epsilon.
ACCEPTED = [
    (1e-119, 1.0, 1.0, 0.0),
    (1e119, 1.0, 1.0, 0.0),
    (1.0, 1e-40, 1.0, 0.0),
    (1.0, 1e40, 1.0, 0.0),
    (1.0, 1.0, 1e-49, 0.0),
    (1.0, 1.0, 1e49, 0.0),
    (1e115, 1e-40, 1e-49, 1e40),
    (1e-115, 1e40, 1e49, 1e-100),
]
# Algorithms that know the arms themselves alone are tried without candidates.
WITHOUT_CANDIDATES = ("mislid", "track-and-stop")
AS_PUBLISHED = (
    "explore-verify",
    "frank-wolfe",
    "g-static",
    "rage",
    "top-two",
    "uniform",
    "xy-adaptive",
    "xy-oracle",
    "xy-static",
)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        *((name, {}) for name in sp.algorithms.names()),
        *((name, {"variant": "paper"}) for name in AS_PUBLISHED),
        *(
            ("lazy-track-and-stop", {"stopping": "evidence", "elimination": elimination})
            for elimination in (True, False)
        ),
    ],
)
def test_every_algorithm_works_at_the_ends_of_the_ranges(algorithm: str, options: dict[str, Any]) -> None:
    """Warnings are errors here. At a risk of 1e-6 no stop of the few runs is wrong."""
    for unit, reward, size, epsilon in ACCEPTED:
        has_candidates = algorithm not in WITHOUT_CANDIDATES
        arms = unit * (X if has_candidates else np.eye(3))
        compared = size * unit * Z if has_candidates else arms
        theta = THETA * (reward / unit)
        result = sp.identify(
            arms,
            pulls(arms @ theta, reward, seed=3),
            candidates=compared if has_candidates else None,
            delta=1e-6,
            noise_std=reward,
            epsilon=epsilon,
            algorithm=algorithm,
            max_pulls=40,
            **{**options, **({"theta": theta} if algorithm == "xy-oracle" else {})},
        )
        assert result.n_pulls > 0
        assert not result.stopped or np.max(compared @ theta) - compared[result.best] @ theta <= epsilon


@pytest.mark.parametrize("options", [{}, {"stopping": "evidence"}, {"stopping": "log-t"}], ids=str)
@pytest.mark.parametrize("power", [-160, 160])
def test_the_unit_of_candidates_leaves_no_trace(options: dict[str, Any], power: int) -> None:
    """Candidates times a power of two are told apart by the same pulls, bit for bit, and as reliably."""
    n_wrong = 0
    for seed in range(10):
        histories = []
        for candidates in (Z, np.ldexp(Z, power)):
            result = sp.identify(
                X, pulls(X @ THETA, 1.0, seed), candidates=candidates, seed=seed, **{"noise_std": 1.0} | options
            )
            histories.append(result.history)
            n_wrong += result.best != int(np.argmax(Z @ THETA))
        assert histories[0] == histories[1]
    assert n_wrong <= 8  # of 20 at a risk of .05: exceeded with probability below 1e-6


@pytest.mark.parametrize("elimination", [True, False])
@pytest.mark.parametrize("rule", ["evidence", "log-t"])
def test_squares_that_vanish_stop_no_rule(rule: str, elimination: bool) -> None:
    """Of 40 seeded runs on candidates of size 1e-160 none stops; 0/0 once passed for evidence, and half were wrong."""
    # Past the checks of a learner, which refuses such candidates.
    view = view_of(X)
    tiny = WhitenedArms(FiniteArms.rows_only(1e-160 * Z), view.back, view.design)
    task = Task(arms=view, candidates=tiny, delta=0.05, given_noise_std=1.0, epsilon=0.0, seed=0)
    n_stopped = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        state, estimate = begun(as_rule(rule, elimination=elimination), task)
        for t in range(40):
            estimate.update(X[t % 8], float(X[t % 8] @ THETA + rng.standard_normal()))
            if estimate.has_theta and state.after_pull(estimate).stopped:
                n_stopped += 1
                break
    assert n_stopped == 0


def test_a_difference_without_a_square_is_no_evidence() -> None:
    """Whatever the gap is to rounding; slack that no such difference can use up is evidence all the same."""
    for q in (0.0, 5e-324, 1e-310):
        assert glr(0.0, q) == 0.0
        assert glr(1e-160, q) < 1e-100
        assert glr(0.0, q, 0.1) > 1e100
        logdets = np.zeros(6)
        assert log_evidence(1e-160, q, q, logdets, mixture=Mixture.default(), noise_std=1.0) == pytest.approx(0.0)


class TestDistinct:
    """Rows that differ, but by too little to be squared."""

    @given(
        exponents=st.lists(st.lists(st.integers(-320, 0), min_size=3, max_size=3), min_size=2, max_size=6),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_what_is_accepted_can_be_squared(self, exponents: list[list[int]], seed: int) -> None:
        """Either all differences can be, or some pair differs by less than 1e-49."""
        signs = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], size=(len(exponents), 3))
        rows = signs * 10.0 ** np.array(exponents, dtype=float)
        rows = np.vstack([rows, rows[0] + 0.0, np.eye(3)])
        differences = np.abs(rows[:, None] - rows[None]).max(axis=2)
        smallest = differences[differences > 0.0].min()
        try:
            check_distinct("candidates", FiniteArms.rows_only(rows), np.eye(3))
        except InvalidInput:
            assert smallest < 1e-49
        else:
            assert smallest * smallest >= 1e-140

    def test_tiny_entries_do_no_harm_by_themselves(self) -> None:
        """Features exp(-distance^2) of a fine grid are full of them; the rows differ elsewhere."""
        grid = np.linspace(0.0, 1.0, 40)
        rows = np.exp(-0.5 * ((grid[:, None] - grid[None, ::10]) / 0.03) ** 2)
        assert ((rows > 0.0) & (rows < 1e-100)).any()
        result = sp.identify(rows, pulls(rows[:, 1], 0.1, seed=0), noise_std=0.1, epsilon=0.1)
        assert rows[:, 1].max() - rows[result.best, 1] <= 0.1

    def test_rows_that_are_equal_once_rounded_do_not_break_a_plan(self) -> None:
        """In whitened coordinates nothing is left of a difference of 1e-30."""
        rows = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1e-30], [0.0, 1.0, 0.0]])
        result = sp.identify(
            X, pulls(X @ THETA, 1.0, seed=0), candidates=rows, algorithm="explore-verify", max_pulls=60, noise_std=1.0
        )
        assert result.n_pulls > 0


class TestDesigns:
    """Designs and characteristic times."""

    value = sp.characteristic_time(X, THETA).value

    @pytest.mark.parametrize("power", [-390, -200, 200, 390])
    def test_a_characteristic_time_scales_with_the_parameter(self, power: int) -> None:
        """T*(s theta) = T*(theta)/s^2, as far as rewards can be squared."""
        design = sp.characteristic_time(X, np.ldexp(THETA, power))
        assert design.value == pytest.approx(np.ldexp(self.value, -2 * power), rel=1e-9)
        assert design.verify(X)

    @pytest.mark.parametrize("size", [1e-320, 1e-150, 1e125, 1e155, 1e300, 1.7e308])
    @pytest.mark.parametrize(
        "use",
        [
            lambda theta: sp.characteristic_time(X, theta),
            lambda theta: sp.characteristic_time(X, theta, candidates=Z),
            lambda theta: sp.lower_bound(X, theta),
            lambda theta: sp.Hypercube(3).characteristic_time(theta),
            lambda theta: sp.Hypercube(3).lower_bound(theta),
            lambda theta: sp.TopK(3, 1).lower_bound(theta),
            lambda theta: AnyLearner("xy-oracle", X, theta=theta, noise_std=1.0),
        ],
        ids=["T*", "T* of candidates", "bound", "T* of signs", "bound of signs", "bound of choices", "xy-oracle"],
    )
    def test_a_parameter_whose_rewards_cannot_be_squared_is_refused(
        self, use: Callable[[Array], object], size: float
    ) -> None:
        """Instead of a division by zero or a singular matrix."""
        with pytest.raises(InvalidInput, match=r"rewards theta'x must be between .*got about .*; use another unit"):
            use(size * THETA)

    @pytest.mark.parametrize("size", [1e-110, 1e-40, 1e40, 1e110])
    def test_features_and_rewards_in_any_unit(self, size: float) -> None:
        """Rewards stay what they are, and so does T*."""
        design = sp.characteristic_time(size * X, THETA / size, candidates=size * Z)
        assert design.value == pytest.approx(sp.characteristic_time(X, THETA, candidates=Z).value, rel=1e-3)
        assert sp.optimal_design(size * X).value == pytest.approx(3.0, rel=1e-3)

    def test_gaps_of_many_sizes(self) -> None:
        """The candidate that is hardest to tell decides, whatever the others are."""
        hard = sp.characteristic_time(np.eye(3), [1e-90, 0.0, -1e90])
        assert hard.value == pytest.approx(8e180, rel=1e-3)
        assert hard.verify(np.eye(3))
        with pytest.raises(TiedArms):
            sp.characteristic_time(np.eye(3), np.zeros(3))

    @pytest.mark.parametrize("size", [1e-139, 1e-60, 1e60, 1e139])
    def test_directions_scale(self, size: float) -> None:
        """Their value is a square; rows that are nothing beside the others change nothing."""
        rows = np.vstack([Z, 1e-170 * Z[:2]])
        value = sp.optimal_design(X, directions=Z).value
        assert sp.optimal_design(X, directions=size * rows).value / size / size == pytest.approx(value, rel=1e-3)

    @pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1e300])
    def test_directions_that_cannot_be_squared_are_refused(self, size: float) -> None:
        """With their size beside the arms."""
        with pytest.raises(InvalidInput, match=r"`directions` must be at most 1e\+140 times .*got .* times their size"):
            sp.optimal_design(X, directions=size * Z)

    def test_a_negligible_direction_among_few(self) -> None:
        """So few directions all enter the solver at once."""
        design = sp.optimal_design(np.eye(2), directions=[[1.0, 1.0], [1e-200, 0.0]])
        assert design.value == pytest.approx(4.0, rel=1e-3)

    def test_arms_are_checked_when_they_are_used(self) -> None:
        """A set of large or small rows can be looked at, not designed for."""
        for size in (1e-310, 1e-125, 1e125, 1e300):
            arms = sp.FiniteArms(size * X)
            assert arms.best(THETA) == int(np.argmax(X @ THETA))
            with pytest.raises(InvalidInput, match="features must be between"):
                sp.optimal_design(arms)
        for build in (sp.FiniteArms, sp.FiniteArms.on_span):
            with pytest.raises(InvalidInput, match=r"below 1e300 in size, .*; use other units"):
                build(LONG_COLUMNS)
        with pytest.raises(InvalidInput, match=r"features must be between .*e-305 for x1"):
            sp.FiniteArms.on_span(np.column_stack([X * [1.0, 1e-305, 1e305], X[:, 0]]))


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1e160, 1e300, None], ids=str)
def test_arms_in_files_and_on_clusters_are_refused_alike(size: float | None, tmp_path: Path) -> None:
    """As arms and as candidates."""
    rows = LONG_COLUMNS if size is None else size * X
    np.save(tmp_path / "rows.npy", rows)
    message = "features must be" if size is None else "features must be between"
    with pytest.raises(InvalidInput, match=message):
        sp.identify(sp.MappedArms(tmp_path / "rows.npy"), never, noise_std=1.0)
    with pytest.raises(InvalidInput, match=message):
        sp.identify(sp.DaskArms(da.from_array(rows, chunks=(4, 3))), never, noise_std=1.0)
    if size is not None:
        for candidates in (
            sp.MappedArms.rows_only(tmp_path / "rows.npy"),
            sp.DaskArms(da.from_array(rows, chunks=(4, 3))),
        ):
            with pytest.raises(InvalidInput, match="`candidates` must be at most"):
                sp.identify(X, never, candidates=candidates, noise_std=1.0)


def test_close_arms_in_a_file_are_refused(tmp_path: Path) -> None:
    """By a pass over the file."""
    np.save(tmp_path / "rows.npy", CLOSE)
    with pytest.raises(InvalidInput, match=r"rows of `arms` .*got rows 0 and 1"):
        sp.identify(sp.MappedArms(tmp_path / "rows.npy"), never, noise_std=1.0)


def test_close_arms_on_a_cluster_are_no_evidence() -> None:
    """They are not looked for, and never told apart: the rule does not stop, unless with slack."""
    arms = sp.DaskArms(da.from_array(CLOSE, chunks=(4, 3)))
    for epsilon in (0.0, 0.5):
        result = sp.identify(arms, pulls(3.0 * CLOSE[:, 0], 1.0, seed=2), epsilon=epsilon, max_pulls=60, noise_std=1.0)
        assert result.stopped == (epsilon > 0.0)


class TestVectors:
    """Sets of vectors."""

    @pytest.mark.parametrize("size", [1e-310, 1e-160, 1e160, 1e305])
    def test_an_ellipsoid_that_cannot_be_squared_is_refused(self, size: float) -> None:
        """As a whole, or along one axis, wherever its centre is."""
        for center, axes in (
            (np.zeros(3), size * np.eye(3)),
            (np.full(3, size), size * np.eye(3)),
            (np.zeros(3), np.diag([1.0, 1.0, size])),
            (np.ones(3), np.diag([1.0, 1.0, size])),
        ):
            with pytest.raises(InvalidInput, match=r"features must be between .*got 1e[+-]\d+ for x[02]; use other"):
                sp.Ellipsoid(center, axes)

    @pytest.mark.parametrize("size", [1e-110, 1e110])
    def test_an_ellipsoid_in_any_unit(self, size: float) -> None:
        """The same answer in those units."""
        ball, theta = sp.Ellipsoid([size, 0.0], size * np.eye(2)), np.array([1.0, 2.0]) / size
        result = sp.identify(ball, vector_pulls(theta, 0.1, seed=0), noise_std=0.1, epsilon=0.2)
        assert theta @ (ball.best(theta) - result.best) <= 0.2

    @pytest.mark.parametrize("stopping", ["evidence", "mix-grid"])
    @pytest.mark.parametrize("epsilon", [1e-100, 1e-20, 1e20, 1e40])
    @pytest.mark.parametrize("noise_std", [1e-40, 1.0, 1e40])
    def test_slack_and_noise_of_any_accepted_size(self, stopping: str, epsilon: float, noise_std: float) -> None:
        """No overflow, and no wrong stop at a risk of 1e-6."""
        for arms, theta in ((sp.Sphere(2), [0.6, 0.8]), (sp.Hypercube(3), [1.0, -2.0, 0.5]), (sp.TopK(4, 2), range(4))):
            truth = noise_std * np.array(theta, dtype=float)
            result = sp.identify(
                arms,
                vector_pulls(truth, noise_std, seed=1),
                noise_std=noise_std,
                epsilon=epsilon,
                delta=1e-6,
                stopping=stopping,
                max_pulls=40,
            )
            assert not result.stopped or truth @ (arms.best(truth) - result.best) <= epsilon

    def test_a_user_set_is_checked_when_it_is_learnt_on(self) -> None:
        """Through the rounds of its design."""

        class Small(type(sp.Hypercube(2))):  # type: ignore[misc]
            """A hypercube of tiny signs."""

            def cycle(self, number: int, seed: int) -> Array:
                return np.asarray(1e-200 * super().cycle(number, seed))

        with pytest.raises(InvalidInput, match="features must be between"):
            sp.create_learner("lazy-track-and-stop", Small(2), noise_std=1.0)

    @pytest.mark.parametrize("theta", [1e-320, 1e-200, 1e-90, 1.0, 1e90, 1e200, 1e308])
    @pytest.mark.parametrize("epsilon", [1e-320, 1e-200, 1e-110, 0.1, 1e90, 1e200])
    def test_numbers_of_the_sphere_are_doubles_or_refused(self, theta: float, epsilon: float) -> None:
        """Its characteristic time and lower bounds are about 1/(|theta| epsilon)."""
        sphere, vector = sp.Sphere(3), theta * np.array([0.6, 0.0, 0.8])
        for use in (
            lambda: sphere.characteristic_time(vector, epsilon),
            lambda: sphere.lower_bound(vector, epsilon),
            lambda: sphere.lower_bound(vector, epsilon, constant="paper"),
        ):
            try:
                number = use()
            except InvalidInput:
                assert not 1e-80 <= theta <= 1e80 or not epsilon < theta / 5.0 or epsilon < 1e-200
            else:
                assert 0.0 < number < np.inf

    @pytest.mark.parametrize("design", ["rounds", "tangent"])
    @pytest.mark.parametrize("reward", [0.0, 1e-300])
    def test_rewards_of_nothing(self, design: str, reward: float) -> None:
        """An estimate of 0, or next to it, has no best arm to follow; the rounds go on."""
        result = any_identify(sp.Sphere(2), lambda _: reward, epsilon=0.1, max_pulls=60, design=design, noise_std=1.0)
        assert result.n_pulls == 60


class TestOptions:
    """Options that are squared, or divide."""

    @pytest.mark.parametrize("algorithm", ["lingame", "lingame-c", "lingape"])
    def test_a_ridge_that_vanishes_beside_the_arms_is_refused(self, algorithm: str) -> None:
        """It may be small, or the arms large."""
        options: dict[str, Any] = {"algorithm": algorithm, "variant": "paper", "norm_bound": 3.0}
        for arms, ridge in ((X, 1e-300), (X, 1e-17), (1e9 * X, 1.0), (1e110 * X, 1.0)):
            with pytest.raises(InvalidInput, match=r"rule needs a regulariser of at least 1e-15 .*got .*;"):
                any_identify(arms, never, ridge=ridge, **{"noise_std": 1.0} | options)
        assert (
            any_identify(
                X, lambda arm: X[arm] @ THETA, ridge=1e-10, max_pulls=10, **{"noise_std": 1.0} | options
            ).n_pulls
            == 10
        )
        with pytest.raises(InvalidInput, match=r"`norm_bound` must be at most 1e\+120, got 1e\+300; use"):
            sp.identify(X, never, **{"noise_std": 1.0} | {**options, "norm_bound": 1e300})

    def test_a_regularizer_that_vanishes_beside_the_arms_is_refused(self) -> None:
        """Or one that overflows."""
        for arms, size in ((X, 1e-300), (X, 1e-60), (1e-100 * X, 1e200)):
            with pytest.raises(InvalidInput, match="regulariser"):
                any_identify(arms, never, stopping="evidence", regularizer=size * np.eye(3), noise_std=1.0)

    @pytest.mark.parametrize("stopping", ["paper-main", "paper-appendix", "paper-remark", "heuristic", "log-t"])
    @pytest.mark.parametrize("ratio", [1e-4, 1e-10, 1e-40])
    def test_features_of_very_different_sizes_work_or_are_refused(self, stopping: str, ratio: float) -> None:
        """The constants of the paper's rules are squares of the features themselves."""
        pulled = []

        def pull(arm: int) -> float:
            pulled.append(arm)
            return float(X[arm] @ THETA)

        try:
            sp.identify(X * [1.0, 1.0, ratio], pull, stopping=stopping, max_pulls=20, noise_std=1.0)
        except InvalidInput:
            assert not pulled
            assert ratio < 1e-8
            assert stopping.startswith("paper")

    def test_a_reward_bound_that_cannot_be_squared_is_refused(self) -> None:
        """Instead of an overflow in the first plan."""
        with pytest.raises(InvalidInput, match=r"`reward_bound` must be above 0 and at most 1e\+120, got 1e\+300;"):
            any_identify(X, never, algorithm="alba", variant="paper", reward_bound=1e300, noise_std=1.0)


@pytest.mark.parametrize("size", [1e-200, 1e160, 1.7e308])
def test_problems_whose_rewards_cannot_be_squared_are_refused(size: float) -> None:
    """By every generator that takes a length."""
    for make in (
        lambda: problems.soare(3, scale=size),
        lambda: problems.unit_basis([size, -size, 0.0]),
        lambda: problems.sphere_set(3, norm=size),
        lambda: problems.Problem(X=np.eye(2), theta=np.eye(2)[0], candidates=size * np.eye(2), name="large"),
    ):
        with pytest.raises(InvalidInput, match="rewards theta'x must be between"):
            make()
    assert problems.soare(3, scale=0.0).min_gap == 0.0
    assert problems.unit_basis([1e-120, 0.0]).min_gap == 1e-120  # the least that is allowed
