"""Options and arms as the log has them, from what users pass."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surepick._texts import check_line
from surepick.arms.finite import FiniteArms
from surepick.errors import InvalidInput
from surepick.study.catalog import ArmCatalog
from surepick.study.state import State
from surepick.types import ArmKey

Json = dict[str, Any]


def changed_options(options: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """Return options as the log has them, with some of them changed; those that none of ours are the algorithm's."""
    changed = {**options, "own": dict(options["own"])}
    if odd := [name for name in ("arms", "candidates") if name in changes]:
        raise InvalidInput(f"`{odd[0]}` is no option that can be given here; arms can `join` and `retire`.")
    for name, value in changes.items():
        if name == "algorithm" and not isinstance(value, str):
            raise InvalidInput(f"a study keeps its algorithm by name, got {value!r}; register it and pass the name.")
        place = changed if name in options and name != "own" else changed["own"]
        is_array = isinstance(value, list | tuple | np.ndarray | np.generic) and np.asarray(value).dtype.kind in "bifu"
        place[name] = np.asarray(value).tolist() if is_array else list(value) if isinstance(value, tuple) else value
    return changed


def next_era(state: State, join: Any, retired: Sequence[ArmKey], changes: Mapping[str, Any]) -> Json:
    """Return arms and options of an era that differs by these from the present one.

    Raises:
        InvalidInput: they cannot, or nothing differs in a study that is not over.
    """
    roster = state.roster
    if "earlier" in changes:
        raise InvalidInput("`earlier` is fixed when a study begins: in later eras results from before are guidance.")
    if (retired or join is not None) and not roster.is_enumerable:
        raise InvalidInput(f"arms can join or retire in a list of arms, got {state.learner.measured_arms.description}.")
    if gone := [roster.label(key) for key in retired if not roster.is_present(key)]:
        raise InvalidInput(f"arm {gone[0]} is retired already.")
    joined, options = None if join is None else _joined(roster, join), changed_options(state.options, changes)
    if not state.stopped and state.can_ask and not (joined or retired) and options == state.options:
        raise InvalidInput(
            "a study that is not over goes on by itself, and a new era would begin without evidence; to reopen it say "
            "which arms or options change."
        )
    of_arms = [name for name in ("noise_std", "costs") if isinstance(options[name], list)]
    if (retired or joined) and (kept := [name for name in of_arms if name not in changes]):
        raise InvalidInput(f"`{kept[0]}` has a number for each arm; give it for the arms that there are now.")
    return {"joined": joined, "retired": retired, "options": options}


def _joined(roster: ArmCatalog, join: Any) -> Json:
    """Return rows that are added to the arms, with names if the others have names."""
    if isinstance(join, Mapping):
        join = FiniteArms.rows_only([*join.values()], names=[*join], least=1, argument="join")
    rows = join if isinstance(join, FiniteArms) else FiniteArms.rows_only(join, least=1, argument="join")
    if rows.dim != (dim := len(roster.written["rows"][0])):
        raise InvalidInput(f"arms that join must have {dim} features as the others have, got {rows.dim}.")
    if (roster.names is None) is not (rows.names is None):
        raise InvalidInput("arms that join must have names if the others have them; pass {name: features}.")
    if rows.names is not None and (taken := set(rows.names) & set(roster.names or ())):
        raise InvalidInput(f"the name {min(taken)!r} is taken by an arm of the study; choose another.")
    for name in rows.names or ():
        check_line("the name of an arm", name)
    return {"rows": rows.X.tolist(), "names": [] if rows.names is None else list(rows.names)}
