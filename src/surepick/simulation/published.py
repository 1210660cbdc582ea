"""What others have published, from experiments/published.csv: figures by table, to compare ours with.

Jedra and Proutiere (2020): Tables 1 and 2 differ in the constants of the stopping rule only. What the paper does
not say and is inferred here: its columns "Std" are read as standard errors, because runs repeated with its
constants have standard errors of that size; the means are multiples of 1/20, which suggests 20 runs; and the arms
are those of `problems.many_arms(variant="as-run")`, the one variant on which its figures come out.
"""

import csv
from functools import cache

from surepick.simulation.experiment import EXPERIMENTS, Published


@cache
def published_tables() -> dict[str, list[Published]]:
    """Return the figures by the name of their table."""
    tables: dict[str, list[Published]] = {}
    for row in csv.DictReader((EXPERIMENTS / "published.csv").read_text("utf-8").splitlines()):
        figure = Published(
            algorithm="",
            problem={"n_arms": int(row["n_arms"])} if row["n_arms"] else {},
            mean=float(row["mean"]),
            se=float(row["se"]) if row["se"] else None,
            quantity=row["quantity"],
            delta=float(row["delta"]),
            source=row["source"],
            figures=row["figures"],
        )
        tables.setdefault(figure.figures, []).append(figure)
    return tables
