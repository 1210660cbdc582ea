"""What others have published, from an experiment's file or from experiments/published.csv, to compare ours with.

Jedra and Proutiere (2020): Tables 1 and 2 differ in the constants of the stopping rule only. What the paper does
not say and is inferred here: its columns "Std" are read as standard errors, because runs repeated with its
constants have standard errors of that size; the means are multiples of 1/20, which suggests 20 runs; and the arms
are those of `problems.many_arms(variant="as-run")`, the one variant on which its figures come out.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, final

from surepick.core.checks import check_delta
from surepick.simulation import toml_table as toml
from surepick.simulation.experiment import Published

EXPERIMENTS: Any = resources.files("surepick.simulation") / "experiments"
"""Folder of the experiments that come with the package, and of published.csv."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One entry of [[published]] that stands for a whole table of published.csv."""

    algorithm: toml.Text
    figures: toml.Text
    note: toml.Text = ""


def read_published(entry: dict[str, Any], where: str) -> list[Published]:
    """Return the figures that an entry of [[published]] gives or names."""
    if "figures" not in entry:
        values = toml.check_table(entry, where, Published)
        with toml.saying(where):
            values |= {"delta": check_delta(values["delta"])} if "delta" in values else {}
        return [Published(**values)]
    values, tables = toml.check_table(entry, where, PublishedTable), published_tables()
    if values["figures"] not in tables:
        raise toml.refused(where, "figures", f"one of {', '.join(tables)}", values["figures"])
    return [replace(figure, **values) for figure in tables[values["figures"]]]


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
