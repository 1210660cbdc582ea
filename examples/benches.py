"""Eight recipes at three benches over ten days, of which one bench reads high: which recipe has the best yield?

Run it: `python examples/benches.py [folder]`; a report for each of the two studies is written there, else into a
temporary folder.

The data are made up. Bench C reads 3 units high, every day has a level of its own, and neither is known to surepick.
The first study watches the labels of the measurements and names the bench; the second one allows for offsets.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import surepick as sp

BENCHES = {"A": 0.0, "B": 0.0, "C": 3.0}
DAYS = 10
RECIPES = sp.read_arms(Path(__file__).parent / "data" / "recipes.csv", name_column="recipe")
YIELDS = RECIPES.X @ [20.0, 0.4, 0.2, -4.0]


def measure(study: sp.Study) -> None:
    """Stand in for the laboratory: six measurements a day at each bench, until the study ends or ten days are over."""
    rng = np.random.default_rng(1)
    weather = rng.normal(0.0, 2.0, DAYS)
    for day in range(DAYS):
        for bench, reads_high in BENCHES.items():
            for ask in study.ask(6, group={"day": day + 1, "bench": bench}):
                value = YIELDS[int(ask.arm)] + reads_high + weather[day] + rng.standard_normal()
                study.tell(ask, float(value), warn=False, questions=False)
        if study.stopped:
            return


def main(folder: Path) -> tuple[sp.Result, sp.Result]:
    """Run both studies on the same benches, and write a report of each."""
    found = []
    for groups in ("watch", "offset"):
        study = sp.create_study(groups, arms=RECIPES, storage="memory:", groups=groups)
        measure(study)
        result = study.result()
        print(f'groups="{groups}": {result.explain()}\n')
        title = f"Eight recipes, three benches: offsets {'watched' if groups == 'watch' else 'allowed for'}"
        result.report(folder / f"{groups}.html", title=title, unit="%")
        found.append(result)
    for group in found[1].groups[: len(BENCHES)]:
        print(f"bench {dict(group.label)['bench']}: {group.offset:+.1f} ± {group.half_width:.1f} (estimate)")
    return found[0], found[1]


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(where)
    print(f"Reports: {where / 'watch.html'}, {where / 'offset.html'}")
