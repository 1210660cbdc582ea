"""Which offer would most people take? A yes/no question about twelve offers: three prices, four extras.

Run it: `python examples/questionnaire.py [folder]`; the report is written into the folder, else into a temporary one.

The counts in data/questionnaire.csv are made up, as an illustration: so many said yes of so many asked. A measurement
here asks one more person, who says yes with the rate of the file. Rates are nearly sums of an effect of the price and
one of the extra; nothing else is assumed of answers that are yes or no.
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

TABLE = Path(__file__).parent / "data" / "questionnaire.csv"

arms = sp.read_arms(TABLE, name_column="offer", features=["price", "extra"])
with TABLE.open(encoding="utf-8", newline="") as file:
    rates = np.array([int(row["yes"]) / int(row["asked"]) for row in csv.DictReader(file)])


def ask(row: int, rng: np.random.Generator) -> bool:
    """Ask one person about one offer."""
    return bool(rng.random() < rates[row])


def main(folder: Path, seed: int = 0) -> sp.Result:
    """Plan, ask until the answer is sure, test the model by check pulls, and write the report."""
    print(arms.roles)
    effects = np.linalg.lstsq(arms.X, rates)[0]
    print(sp.plan(arms, theta=effects, rewards="binary"))

    rng = np.random.default_rng(seed)
    result = sp.identify(arms, lambda row: ask(row, rng), rewards="binary", audit="auto", seed=seed)
    print(result.explain())
    result.report(folder / "questionnaire.html", title="Which offer would most people take?")
    return result


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Report: {where / 'questionnaire.html'}")
