"""Five plates of 96 wells whose edges read high: plan what they decide, measure plate by plate, stop with the proof.

Run it: `python examples/plates.py [folder]`; the report is written there, else into a temporary folder.

The data are made up: sixteen recipes of four factors, plates that read high or low, and edges that lose water.
`study.ask(96)` hands out a plate whose wells are planned together. Every value is told with its plate and with whether
the well is at the edge; `groups="offset"` takes both out of every comparison.
"""

import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import surepick as sp

WELLS, PLATES = 96, 5
recipes = np.array([[1.0, *levels] for levels in product((-1.0, 1.0), repeat=4)])
NAMES = [f"recipe {letter}" for letter in "ABCDEFGHIJKLMNOP"]
FACTORS = ["constant", "glucose", "salt", "nitrogen", "zinc"]
effects = np.array([10.0, 0.5, -0.4, 0.3, 0.3])


def is_edge(well: int) -> bool:
    """Whether a well of 8 rows and 12 columns is at the edge of its plate."""
    row, column = divmod(well, 12)
    return row in (0, 7) or column in (0, 11)


def main(folder: Path) -> sp.Result:
    """Plan, measure, say what is proved and what is estimated, and write the report."""
    rng = np.random.default_rng(2)
    print(sp.plan(recipes, theta=effects, noise_std=1.0, batch=WELLS, rounds=PLATES))
    arms = sp.FiniteArms(pd.DataFrame(recipes, index=NAMES, columns=FACTORS))
    study = sp.create_study("plates", arms=arms, storage="memory:", batch=WELLS, rounds=PLATES, groups="offset")
    plate = 0
    while wells := study.ask(WELLS):
        plate += 1
        reads_high = rng.normal(0.0, 0.5)  # all wells of this plate
        for place, well in enumerate(wells):
            evaporated = 0.8 if is_edge(place) else 0.0
            value = recipes[well.arm] @ effects + reads_high + evaporated + rng.standard_normal()
            study.tell(well, value, group={"plate": plate, "edge": "yes" if is_edge(place) else "no"})
        result = study.result()
        n_left = 0 if result.survivors is None else len(result.survivors)
        print(f"plate {plate}: {result.best_name} leads, {n_left} of {len(recipes)} recipes are left")
    print(result.explain())
    result.report(folder / "plates.html", title="Sixteen recipes on five plates", unit="mg/l")
    return result


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Report: {where / 'plates.html'}")
