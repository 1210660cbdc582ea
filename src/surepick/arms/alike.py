"""Arms with the same features: one arm to a model that knows nothing else of them."""

from collections import defaultdict
from collections.abc import Sequence

from surepick.arms.finite import FiniteArms
from surepick.arms.protocol import ArmSet
from surepick.core.rows import first_copies

Groups = tuple[tuple[int, ...], ...]


def alike_rows(arms: ArmSet, best: int | None = None) -> Groups:
    """Return the groups of rows that are equal; of arms that are not in memory, that of `best` alone."""
    if not isinstance(arms, FiniteArms):
        group = () if best is None else tuple(arms.copies(best).tolist())
        return (group,) if len(group) > 1 else ()
    first = first_copies(arms.X)
    if first is None:
        return ()
    groups: dict[int, list[int]] = defaultdict(list)
    for row, lowest in enumerate(first.tolist()):
        groups[lowest].append(row)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def same_features(labels: Sequence[str]) -> str:
    """Say so of some arms."""
    *others, last = labels
    return f"{', '.join(others)} and {last} have the same features and cannot be told apart by this model"
