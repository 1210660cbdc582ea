"""Figures for papers: labels that matplotlib takes, and never two alike."""

import math

import numpy as np

from surepick.reporting import figures
from surepick.reporting.charts import LONGEST, Bar, Pulls
from surepick.reporting.figures import plain

SUPPLIERS = [f"Suspension polymerisate {letter} of Mayer, $" for letter in "ABC"]


def test_long_names_lose_their_middle_and_keep_their_ends() -> None:
    """Short names stay as they are; a dollar sign starts no formula."""
    assert plain("Mixture 7 of the second plate, warm", LONGEST) == "Mixture 7 ...ate, warm"
    assert plain("B7  $\n2") == r"B7 \$ 2"
    assert len(plain("x" * 500)) == 200


def test_the_figures_of_a_result_use_them() -> None:
    """Estimates and pulls name every arm of its own."""
    bars = [Bar(name, 1.0, math.nan, math.nan, "arm") for name in SUPPLIERS]
    for canvas in (figures.estimates(bars, "95 %"), figures.pulls([Pulls(name, 3, math.nan) for name in SUPPLIERS])):
        shown = [text.get_text() for text in canvas.axes[0].get_yticklabels()]
        assert len(set(shown)) == len(SUPPLIERS)
        assert all(r"\$" in text for text in shown)


def test_shares_of_arms_are_named_in_order() -> None:
    """The legend lists arms by number, and says what dashed lines are."""
    values = np.array([[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]])
    canvas = figures.shares([10, 20], values, {2: 0.5, 1: 0.4})
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == [
        "arm 0", "arm 1", "arm 2", "weight in the design",
    ]  # fmt: skip
