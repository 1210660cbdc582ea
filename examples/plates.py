"""Five plates of 96 wells whose edges read high: plan what they decide, measure plate by plate, stop with the proof.

Run it: `python examples/plates.py`. `study.ask(96)` hands out a plate whose wells are planned together, in random
order. Every value is told with its plate and with whether the well is at the edge; `groups="offset"` takes both out.
"""

from itertools import product

import numpy as np

import surepick as sp

WELLS, PLATES = 96, 5
recipes = np.array([[1.0, *levels] for levels in product((-1.0, 1.0), repeat=4)])
effects = np.array([10.0, 0.4, -0.3, 0.25, 0.2])
rng = np.random.default_rng(2)


def is_edge(well: int) -> bool:
    """Whether a well of 8 rows and 12 columns is at the edge of its plate."""
    row, column = divmod(well, 12)
    return row in (0, 7) or column in (0, 11)


def main() -> sp.Result:
    """Plan, measure, and say what is proved and what is estimated."""
    print(sp.plan(recipes, theta=effects, noise_std=1.0, batch=WELLS, rounds=PLATES))
    study = sp.create_study("plates", arms=recipes, storage="memory:", batch=WELLS, rounds=PLATES, groups="offset")
    plate = 0
    while wells := study.ask(WELLS):
        plate += 1
        reads_high = rng.normal(0.0, 0.5)  # all wells of this plate
        for place, well in enumerate(wells):
            evaporated = 0.8 if is_edge(place) else 0.0
            value = recipes[well.arm] @ effects + reads_high + evaporated + rng.standard_normal()
            study.tell(well, value, group={"plate": plate, "edge": "yes" if is_edge(place) else "no"})
        print(f"plate {plate}: leader {study.best}, {study.status.state}")
    print(study.result())
    return study.result()


if __name__ == "__main__":
    main()
