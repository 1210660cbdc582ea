"""Five plates of 96 wells: plan what they decide, measure plate by plate, stop with the proof.

Run it: `python examples/plates.py`. `study.ask(96)` hands out a plate whose wells are planned together.
"""

from itertools import product

import numpy as np

import surepick as sp

WELLS, PLATES = 96, 5
recipes = np.array([[1.0, *levels] for levels in product((-1.0, 1.0), repeat=4)])
effects = np.array([10.0, 0.4, -0.3, 0.25, 0.2])
rng = np.random.default_rng(2)


def measure(row: int) -> float:
    """Stand in for a well, with noise of standard deviation 1."""
    return float(recipes[row] @ effects + rng.standard_normal())


def main() -> sp.Result:
    """Plan, measure, and say what is proved and what is estimated."""
    print(sp.plan(recipes, theta=effects, noise_std=1.0, batch=WELLS, rounds=PLATES))
    study = sp.create_study("plates", arms=recipes, storage="memory:", batch=WELLS, rounds=PLATES)
    n_plates = 0
    while plate := study.ask(WELLS):
        n_plates += 1
        for well in plate:
            study.tell(well, measure(well.arm))
        print(f"plate {n_plates}: leader {study.best}, {study.status.state}")
    print(study.result())
    return study.result()


if __name__ == "__main__":
    main()
