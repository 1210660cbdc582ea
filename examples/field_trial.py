"""Which variety of oats, and how much nitrogen? Twelve options whose effects add up.

Run it: `python examples/field_trial.py [folder]`; the report is written into the folder, else into a temporary one.

The data are the 72 plots of F. Yates, "Complex experiments", Supplement to the Journal of the Royal Statistical
Society 2 (1935), 181-247: three varieties by four amounts of nitrogen (hundredweight an acre) in six blocks, yields in
quarter pounds a plot. They are the pilot. A measurement here is the sum of the effects found by least squares and one
of the 72 residuals, drawn with replacement; that the plots of a variety lay side by side is left out.
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

TABLE = Path(__file__).parent / "data" / "oats.csv"
BLOCKS = ("I", "II", "III", "IV", "V", "VI")
EPSILON = 2.0  # quarter pounds; an answer may lose as much

arms = sp.read_arms(TABLE, name_column="option", features=["variety", "nitrogen"])
with TABLE.open(encoding="utf-8", newline="") as file:
    yields = np.array([[float(row[block]) for block in BLOCKS] for row in csv.DictReader(file)])

plots = yields - (yields.mean(axis=0) - yields.mean())  # some blocks are better soil; every option stands in each
means = arms.X @ np.linalg.lstsq(arms.X, plots.mean(axis=1))[0]
residuals = (plots - means[:, None]).ravel() * np.sqrt(72 / (72 - 11))  # five effects of blocks and six were fitted


def measure(row: int, rng: np.random.Generator) -> float:
    """Harvest one plot."""
    return float(means[row] + rng.choice(residuals))


def main(folder: Path, seed: int = 0) -> sp.Result:
    """Plan from the pilot, measure until the answer is sure, test the model by check pulls, and write the report."""
    print(arms.roles)
    pilot = [(row, float(plots[row, block])) for block in range(6) for row in range(12)]
    print(sp.plan(arms, pilot=pilot, epsilon=EPSILON))

    rng = np.random.default_rng(seed)
    result = sp.identify(arms, lambda row: measure(row, rng), epsilon=EPSILON, audit="auto", seed=seed)
    print(result.explain())
    result.report(folder / "field_trial.html", title="Oats: which variety, how much nitrogen?")
    return result


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Report: {where / 'field_trial.html'}")
