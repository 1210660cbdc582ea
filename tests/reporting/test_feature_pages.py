"""What pages say of targets, pools, budgets, batches, drift and groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.reporting.result_figures import target_of
from surepick.reporting.result_page import Page, page_of
from surepick.reporting.study_view import view_of

RECIPES = np.column_stack([np.ones(5), np.arange(5.0)])
MEANS = RECIPES @ [1.0, 0.5]


def measure(seed: int = 0) -> Callable[[int], float]:
    """A bench with little noise."""
    rng = np.random.default_rng(seed)
    return lambda row: float(MEANS[row] + 0.2 * rng.standard_normal())


def page(**options: Any) -> Page:
    """The page of a short run."""
    return page_of(sp.identify(RECIPES, measure(), **options), title=None, command=None)


def code(made: Page) -> str:
    """The call that repeats the run."""
    return next(step for words, step in made.steps if "gives the same pulls" in words)


def test_calls_are_shown_against_their_target() -> None:
    """A line at the threshold, a title that says who met it, and likely intervals beside the calls."""
    result = sp.identify(RECIPES, measure(), threshold=2.2, epsilon=0.05)
    assert result.stopped
    made = page_of(result, title=None, command=None)
    chart = made.figures[0].chart
    assert (chart.target, chart.target_is) == (2.2, "threshold")
    assert chart.axis.low <= 2.2 <= chart.axis.high
    assert chart.has_likely
    ranking = next(table for table in made.tables if table.title == "All arms")
    assert "Calls are proved by bets" in ranking.note


def test_a_control_is_a_line_at_its_estimate() -> None:
    """With a margin the line is that much below; a result that is withdrawn has none."""
    result = sp.identify(RECIPES, measure(), control=2, margin=0.3, epsilon=0.05)
    value, words = target_of(result)
    assert value == pytest.approx(result.compared.estimate[2] - 0.3)
    assert words == "control minus 0.3 (estimate)"
    assert target_of(sp.identify(RECIPES, measure(), noise_std=1.0, max_pulls=20)) == (None, "")


def test_recipes_of_arms_called_met() -> None:
    """They are no winners."""
    arms = sp.FiniteArms(RECIPES, names=list("ABCDE"))
    result = sp.identify(arms, measure(), threshold=2.2, epsilon=0.05)
    recipes = {name: {"acid": float(row)} for row, name in enumerate("ABCDE")}
    made = page_of(result, title=None, command=None, recipes=recipes)
    assert made.top[0].title == f"What the {len(result.best)} arms called met consist of"


@pytest.mark.parametrize(
    ("options", "fact", "said"),
    [
        ({"budget": 12, "goal": "fixed-budget"}, ("Budget", "12, all to be measured"), "goal='fixed-budget'"),
        ({"batch": 10, "rounds": 2}, ("Batches", "at most 2 of 10"), "batch=10, rounds=2"),
        ({"noise_std": 0.2, "drift": 0.1, "max_pulls": 30}, None, "noise_std=0.2, drift=0.1"),
    ],
)
def test_options_are_on_the_page(options: Any, fact: Any, said: str) -> None:
    """Facts name what was allowed, and the call that repeats the run has all options."""
    made = page(**options)
    assert fact is None or fact in made.facts
    assert said in code(made)
    assert "noise='drift'" not in code(made)


def test_a_pool_has_items() -> None:
    """Its items are no groups that read high."""
    rng = np.random.default_rng(0)
    scores = rng.random((5, 20)) < 0.5

    def grade(*call: int) -> bool:
        return bool(scores[call])

    result = sp.identify(np.eye(5), grade, pool=20, rewards="binary", max_pulls=30)
    made = page_of(result, title=None, command=None)
    assert made.top[0].note.startswith("There are no intervals in a pool.")
    assert ("Items of the pool", "20") in made.facts
    items = next(table for table in made.tables if table.title == "Items")
    assert items.headers == ["Item", "Pulls", "Scores higher by", "Likely"]
    assert "than the mean of all items asked" in items.note


def test_the_dashboard_knows_limits_order_and_target() -> None:
    """Numbers of a study, the rule about its order, and the line of its threshold."""
    study = sp.create_study("drift", arms=RECIPES, storage="memory:", noise_std=0.2, drift=0.1, budget=40)
    study.ask(4)
    view = view_of(study)
    assert view.needs_order
    assert view.numbers["order"].startswith("measure in the order of the asks")
    assert view.numbers["budget"].endswith("of 40 asked for")
    study = sp.create_study("target", arms=RECIPES, storage="memory:", threshold=2.2, groups="watch")
    for ask in study.ask(12, group="day 1"):
        study.tell(ask, float(MEANS[ask.arm]) + 0.1 * (-1) ** ask.id, warn=False)
    view = view_of(study)
    assert not view.needs_order
    assert view.leaderboard.chart.target == 2.2


def test_limits_are_saved(tmp_path: Path) -> None:
    """A result that is loaded has them too."""
    result = sp.identify(RECIPES, measure(), batch=10, rounds=2)
    result.save(tmp_path / "result.json")
    loaded = sp.Result.load(tmp_path / "result.json")
    assert (loaded.batch, loaded.rounds, loaded.budget, loaded.drift) == (10, 2, None, 0.0)
