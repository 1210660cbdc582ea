"""Labels of figures: short, and never two alike."""

import math

import pytest

from surepick.reporting import figures
from surepick.reporting.figures import LONGEST, Bar, Pulls, distinct_labels, plain

SUPPLIERS = [f"Suspension polymerisate {letter} of Mayer" for letter in "ABC"]


def test_long_names_lose_their_middle_and_keep_their_ends() -> None:
    """Short names stay as they are; a dollar sign starts no formula."""
    assert plain("Mixture 7 of the second plate, warm", LONGEST) == "Mixture 7 ...ate, warm"
    assert plain("B7  $\n2") == r"B7 \$ 2"
    assert len(plain("x" * 500)) == 200


@pytest.mark.parametrize(
    "names",
    [
        SUPPLIERS,
        ["a" * 40 + str(n) + "b" * 40 for n in range(30)],
        ["Suspensio...e of Mayer", *SUPPLIERS, "Suspension pol (1)"],
        [*SUPPLIERS, *(f"{label}" for label in distinct_labels(SUPPLIERS))],
        ["x  y", "x y"],
        ["A", "B"],
    ],
)
def test_no_two_labels_are_alike(names: list[str]) -> None:
    """However the names are cut; those that fit stay as they are."""
    labels = distinct_labels(names)
    assert len(set(labels)) == len(names)
    assert max(map(len, labels)) <= LONGEST
    assert distinct_labels(["A", "B"]) == ["A", "B"]


def test_the_figures_of_a_result_use_them() -> None:
    """Estimates and pulls name every arm of its own."""
    bars = [Bar(name, 1.0, math.nan, math.nan, "arm") for name in SUPPLIERS]
    for canvas in (figures.estimates(bars, "95 %"), figures.pulls([Pulls(name, 3, math.nan) for name in SUPPLIERS])):
        shown = [text.get_text() for text in canvas.axes[0].get_yticklabels()]
        assert len(set(shown)) == len(SUPPLIERS)
