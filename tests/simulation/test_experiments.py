"""The experiments that come with the package."""

import math
import re

import numpy as np
import pytest

from surepick.algorithms import names as algorithms
from surepick.arms.sphere import Sphere
from surepick.simulation.experiment import named_experiment, named_experiments, published_tables
from surepick.simulation.sources import GENERATORS, draw_problem

NAMES = named_experiments()
N_ARMS = {1000, 2500, 5000, 7500, 10_000}


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name: str) -> None:
    """Files name what exists."""
    experiment = named_experiment(name)
    assert experiment.name == name
    assert {spec.name for spec in experiment.algorithms if spec.plugin is None} <= {
        *algorithms(),
        *algorithms(fixed_budget=True),
    }
    assert {problem.name for problem in experiment.problems} <= set(GENERATORS)
    assert experiment.quick_runs <= experiment.n_runs


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_can_be_made(name: str) -> None:
    """Arguments are what the generators take."""
    for problem in named_experiment(name).problems:
        for arguments in problem.grid():
            if arguments.get("n_arms", 0) <= 10_000:
                drawn = draw_problem(problem.name, arguments, 1 if problem.redraw else None)
                assert drawn.dim == arguments.get("dim", drawn.dim) or problem.name == "transductive"
                assert drawn.noise_std == arguments.get("noise_std", 1.0)


@pytest.mark.parametrize(
    ("name", "quantity", "n_figures"),
    [
        ("paper-table-1", "n_pulls", 20),  # its table ends at K = 7500
        ("paper-table-2", "n_pulls", 25),
        ("paper-table-3", "seconds", 22),
        ("paper-table-4", "support design_support", 10),
        ("top-m", "n_pulls", 6),
        ("misfit", "n_pulls", 4),
    ],
)
def test_every_published_figure_finds_its_cell(name: str, quantity: str, n_figures: int) -> None:
    """A table is about one quantity or two, and its figures are those of the paper's numbers of arms."""
    published = named_experiment(name).published
    assert {figure.quantity for figure in published} == {*quantity.split()}
    assert len(published) == n_figures


def test_published_figures_are_as_printed() -> None:
    """Some of the table file, the last rows too; every table of the paper is used by an experiment."""
    tables = published_tables()
    found = {
        name: {figure.problem.get("n_arms"): (figure.mean, figure.se) for figure in tables[name]} for name in tables
    }
    assert found["table_1"][7500] == (1434.0, 78.0)
    assert found["table_2"][10_000] == (452.85, 31.6)
    assert found["rage"][10_000] == (1479.4, 52.0)
    assert found["oracle"][1000] == (476.45, 40.74)
    assert found["support_no_averaging"][10_000] == (2.04, 0.01)
    used = {figure.figures for name in NAMES for figure in named_experiment(name).published if figure.figures}
    errors = {name for name in tables if tables[name][0].quantity == "error"}
    assert used == {name for name in tables if "Jedra" in tables[name][0].source} | errors
    by_budget = {figure.problem["budget"]: figure.mean for figure in tables["error_p1_rage"]}
    assert by_budget == {1010: 0.0533, 2010: 0.0136, 3010: 0.0026, 4010: 0.0003, 5010: 0.0002}
    assert len(errors) == 4


def test_the_naive_versions_run_where_memory_allows() -> None:
    """Ours goes to a million arms, the naive versions as far as they can."""
    cells = named_experiment("paper-table-3").cells()
    sizes = {label: {cell.arguments["n_arms"] for cell in cells if cell.algorithm.label == label} for label in
             ("Lazy TS", "RAGE", "Lazy TS, naive", "RAGE, naive")}  # fmt: skip
    assert sizes["Lazy TS"] == sizes["RAGE"] == {*N_ARMS, 10**5, 10**6}
    assert sizes["Lazy TS, naive"] == N_ARMS
    assert sizes["RAGE, naive"] == {1000, 2500}


def test_every_algorithm_is_compared_under_both_rules() -> None:
    """Nobody is left out."""
    specs = named_experiment("comparison").algorithms
    for rule in ("betting", "evidence"):
        names = [spec.name for spec in specs if spec.options["stopping"] == rule]
        assert sorted(names) == sorted(set(names))
        assert set(names) == set(algorithms())


def test_the_reference_values_of_the_sphere() -> None:
    """The text has T* log(1/delta); it says so in one sentence."""
    experiment = named_experiment("sphere")
    (delta,) = experiment.delta
    text = " ".join(experiment.about.split())
    for epsilon in (0.5, 0.1):
        dims = experiment.problems[0].arguments["dim"]
        values = [Sphere(d).characteristic_time(np.full(d, d**-0.5), epsilon) * math.log(1 / delta) for d in dims]
        listed = ", ".join(f"{value:.0f}" for value in values)
        assert re.search(rf"{listed} with epsilon {epsilon}", text), (epsilon, listed)
