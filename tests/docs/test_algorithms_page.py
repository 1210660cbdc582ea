"""The page of algorithms lists all of them, with what the code says: guarantee, rule, price and source."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

import surepick as sp
from surepick.simulation import problems
from tests.algorithm_needs import knowledge

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text("utf-8")
FOR_CONFIDENCE, FIXED_BUDGET = sp.algorithms.names(), sp.algorithms.names(fixed_budget=True)
OF_VECTORS = ["rounds"]
BASIS = problems.unit_basis([2.0, 0.0, -0.5])


def rows_below(header: str) -> dict[str, list[str]]:
    """The rows of the table with this header, by the name in the first cell."""
    text = PAGE[PAGE.index(header) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text]
    return {row[0].strip("` "): row for row in cells}


STOPPING = rows_below("| name | idea | published rule: its guarantee")
SPENDING = rows_below("| name | idea | answer as published")


def test_every_algorithm_has_a_row() -> None:
    """No name is missing and none is made up."""
    assert sorted(STOPPING) == sorted([*FOR_CONFIDENCE, *OF_VECTORS])
    assert sorted(SPENDING) == sorted(FIXED_BUDGET)
    assert all(len(row) == 6 and all(row) for row in [*STOPPING.values(), *SPENDING.values()])


@pytest.mark.filterwarnings("ignore:the rule printed in the paper needs")
@pytest.mark.parametrize("name", [*FOR_CONFIDENCE, *FIXED_BUDGET, *OF_VECTORS])
def test_a_row_says_what_the_code_does(name: str) -> None:
    """The guarantee of the published rule, the practical rule, which is proved, and the year of the source."""
    row = (STOPPING | SPENDING)[name]
    goal: dict[str, Any] = {"budget": 100, "goal": "fixed-budget"} if name in FIXED_BUDGET else {}
    arms = sp.Sphere(3) if name in OF_VECTORS else BASIS.X
    decisions = {}
    for variant in ("paper", "practical"):
        needs = {} if name in OF_VECTORS else knowledge(name, BASIS, variant=variant)
        slack: dict[str, Any] = {"epsilon": 0.5} if name in OF_VECTORS else {}
        learner = sp.create_learner(name, arms, noise_std=1.0, variant=variant, **goal, **needs, **slack)
        decisions[variant] = learner.decision
    assert decisions["practical"].guarantee == "proved"
    if name in FIXED_BUDGET:
        assert row[3].startswith(decisions["paper"].guarantee)
    else:
        assert re.search(rf": {decisions['paper'].guarantee}\b", row[2])
        assert row[3].startswith(decisions["practical"].rule)
    years = re.findall(r"\((\d{4})\)", sp.algorithms.__getattr__(class_of(name)).__doc__ or "")
    assert row[5] == "-" or "line" in row[5] or re.findall(r"\d{4}", row[5])[0] in years


@pytest.mark.parametrize("name", [*FOR_CONFIDENCE, *FIXED_BUDGET, *OF_VECTORS])
def test_every_class_shows_a_number_that_it_gives(name: str) -> None:
    """An example with a printed number, which the tests of docstrings run."""
    text = sp.algorithms.__getattr__(class_of(name)).__doc__ or ""
    wanted = [example.want for example in doctest.DocTestParser().get_examples(text)]
    assert any(re.fullmatch(r"\d+(\.\d+)?\n", one) for one in wanted)


def class_of(name: str) -> str:
    """The class behind a name."""
    return sp.algorithms._BUILT_IN[name].split(":")[1]
