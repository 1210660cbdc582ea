"""Forty aluminium alloys: which reach a strength of 70 ksi, and which are better than the one in use?

Run it: `python examples/alloys.py [folder]`; a report for each question is written there, else into a temporary folder.

The data are made up. An alloy is a recipe of copper, magnesium and silicon, and the hours it is aged; its strength is a
sum of their effects, and a test bar reads it with noise of standard deviation 1.5, which surepick has to learn.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

TABLE = Path(__file__).parent / "data" / "alloys.csv"
EFFECTS = [42.0, 4.0, 6.5, -2.0, 0.25]  # a constant; of a percent copper, magnesium, silicon; of an hour

alloys = sp.read_arms(TABLE, name_column="alloy")
STRENGTHS = alloys.X @ EFFECTS


def measure(rng: np.random.Generator, row: int) -> float:
    """Stand in for a tensile test."""
    return float(STRENGTHS[row] + 1.5 * rng.standard_normal())


def main(folder: Path) -> tuple[sp.Result, sp.Result]:
    """Ask both questions, and write a report of each."""
    rng = np.random.default_rng(7)
    meet = sp.identify(alloys, lambda row: measure(rng, row), threshold=70, epsilon=0.5)
    print(meet.explain())
    meet.report(folder / "alloys.html", title="Which alloys reach 70?", unit="ksi")

    better = sp.identify(alloys, lambda row: measure(rng, row), control="in use", epsilon=0.5, calls="fdr", budget=60)
    print(better.explain())
    better.report(folder / "better.html", title="Which alloys are better than the one in use?", unit="ksi")
    return meet, better


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Reports: {where / 'alloys.html'}, {where / 'better.html'}")
