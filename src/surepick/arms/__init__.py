"""Sets of arms: rows in memory, in files or on a cluster; spheres, ellipsoids, hypercubes, choices of k.

Reading order: `base` (what an algorithm may ask of rows, and of vectors that cannot be listed); `finite`, `mapped`,
`dask`; `sphere`, `ellipsoid`, `hypercube`, `top_k`; `views` and `numbered` (how a learner sees its arms); `registry`
(how logs and the command line spell a set); `tables` (from a spreadsheet to arms).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class SetName(NamedTuple):
    """How logs, the command line and study.toml name a vector set."""

    place: str
    """Module and class: a subclass of `NamedSet` whose `kind` is the name."""
    help: str
    """One line, for the command line and for editors of study.toml."""
    flag_type: Any = int
    """Type of the flag --kind; a `Path` is a file of the set. `NamedSet.from_text` reads its text."""
    is_list: bool = False
    """Whether study.toml has a list of numbers where the flag has them with commas between."""


VECTOR_SETS: Mapping[str, SetName] = {
    "sphere": SetName("sphere:Sphere", "Arms: all unit vectors of this dimension."),
    "ellipsoid": SetName(
        "ellipsoid:Ellipsoid", "Arms: centre + axes u, |u| <= 1; a .csv or .npy: centre first, axes below.", Path
    ),
    "hypercube": SetName("hypercube:Hypercube", "Arms: all vectors of -1 and 1 of this dimension."),
    "top-k": SetName("top_k:TopK", "Arms: all choices of k out of d, as d,k such as 10,3.", str, is_list=True),
}
"""The vector sets by kind: a new set is a file with a subclass of `NamedSet`, and a line here."""
