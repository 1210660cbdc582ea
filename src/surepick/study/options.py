"""Options and arms as the log has them, from what users pass."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.errors import InvalidInput
from surepick.study.state import State

Json = dict[str, Any]


def changed_options(options: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """Return options as the log has them, with some of them changed; those that none of ours are the algorithm's."""
    changed = {**options, "own": dict(options["own"])}
    for name, value in changes.items():
        if name == "algorithm" and not isinstance(value, str):
            raise InvalidInput(f"a study keeps its algorithm by name, got {value!r}; register it and pass the name.")
        place = changed if name in options and name != "own" else changed["own"]
        place[name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        if isinstance(place[name], tuple):
            place[name] = list(place[name])
    return changed


def joined_arms(state: State, join: Any) -> Json:
    """Return rows that are added to the arms, with names if the others have names."""
    rows = join if isinstance(join, FiniteArms) else FiniteArms.rows_only(join, least=1, argument="join")
    if rows.dim != (dim := len(state.roster.written["rows"][0])):
        raise InvalidInput(f"arms that join must have {dim} features as the others have, got {rows.dim}.")
    if (state.roster.names is None) is not (rows.names is None):
        raise InvalidInput("arms that join must have names if the others have them; pass sp.FiniteArms(X, names).")
    if rows.names is not None and (taken := set(rows.names) & set(state.roster.names or ())):
        raise InvalidInput(f"the name {min(taken)!r} is taken by an arm of the study; choose another.")
    return {"rows": rows.X.tolist(), "names": [] if rows.names is None else list(rows.names)}
