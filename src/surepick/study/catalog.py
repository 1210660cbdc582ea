"""The catalog of a study's arms: those of the present era, those that retired, and their names.

An arm has one *key* for as long as the study lives: its row number among all arms that ever joined, or its entries if
it is a vector. A learner numbers the arms of its own era.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, VectorSet
from surepick.arms.finite import FiniteArms
from surepick.arms.registry import Written, digest_of, read_arms
from surepick.errors import InvalidInput
from surepick.types import ArmKey

Key = Any
"""An `ArmKey` in records that users see: `X[ask.arm]` passes a type checker, as it should where arms are a table."""


@final
class ArmCatalog:
    """Arms and candidates of one era, immutable.

    Args:
        written: all arms that ever joined, as written in the log.
        candidates: the candidates as written in the log; None if the arms themselves are compared.
        present: row numbers of the arms that can be measured; None for all.
    """

    def __init__(self, written: Written, candidates: Written | None, present: Sequence[int] | None = None) -> None:
        self.written, self.candidates, self.present = written, candidates, present
        self.row_of: dict[ArmKey, int] | None = (
            None if present is None else {key: row for row, key in enumerate(present)}
        )
        """The learner's number of each arm that can be measured; None if the number is the key."""

    @cached_property
    def arms(self) -> ArmSet | VectorSet:
        """The arms that can be measured."""
        if self.is_enumerable:
            here = range(len(self.written["rows"])) if self.present is None else self.present
            # Arms without names are called by their keys, which are no longer their row numbers.
            labels = None if self.names is None and self.present is None else [self.label(key) for key in here]
            arms = FiniteArms(np.array([self.written["rows"][key] for key in here], dtype=np.float64), names=labels)
            arms.feature_names = tuple(self.written["features"])
            return arms
        return read_arms(self.written)

    @property
    def is_enumerable(self) -> bool:
        """Whether the log has the table of arms, so that arms may join or retire."""
        return bool(self.written["kind"] == "finite")

    def changed(self, joined: Mapping[str, Any] | None, retired: Sequence[int]) -> "ArmCatalog":
        """Return the catalog after some arms have joined and others have retired."""
        if not self.is_enumerable:
            return self
        n_before, new = len(self.written["rows"]), joined or {"rows": [], "names": []}
        names = None if self.names is None else [*self.names, *new["names"]]
        rows = [*self.written["rows"], *new["rows"]]
        here = [*(range(n_before) if self.present is None else self.present), *range(n_before, len(rows))]
        here = [key for key in here if key not in set(retired)]
        present = None if here == list(range(len(rows))) else here
        return ArmCatalog({**self.written, "rows": rows, "names": names}, self.candidates, present)

    @property
    def names(self) -> Sequence[str] | None:
        """Names of all arms that ever joined, by row number; None if the arms have no names."""
        return self.written.get("names")

    @cached_property
    def rows_by_name(self) -> dict[str, int]:
        """Row numbers of all arms that ever joined, by name."""
        return {name: row for row, name in enumerate(self.names or ())}

    def is_present(self, key: ArmKey) -> bool:
        """Whether an arm can be measured now."""
        return self.row_of is None or key in self.row_of

    def label(self, key: ArmKey) -> str:
        """Return the name of an arm for people."""
        if isinstance(key, tuple | list):
            return "(" + ", ".join(f"{x:.6g}" for x in key) + ")"
        return str(key) if self.names is None else self.names[key]

    def key_of_arm(self, arm: Any) -> ArmKey:
        """Return the key of an arm that the learner names by its own row number or by a vector."""
        if isinstance(arm, np.ndarray):
            return tuple(arm.tolist())
        return int(arm if self.present is None else self.present[arm])

    def candidate_key(self, arm: Any) -> ArmKey:
        """Return the key of a candidate, which has a row number of its own if candidates are not arms."""
        return int(arm) if self.candidates is not None and not isinstance(arm, np.ndarray) else self.key_of_arm(arm)

    def key_label(self, key: ArmKey) -> str:
        """Return the name of a candidate for people."""
        if self.candidates is None or isinstance(key, tuple):
            return self.label(key)
        names = self.candidates.get("names")
        return f"candidate {key}" if names is None else str(names[key])

    def candidate_label(self, arm: Any) -> str:
        """Return the name of a candidate that the learner names by its own row number or by a vector."""
        return self.key_label(self.candidate_key(arm))

    def features(self, key: ArmKey) -> tuple[float, ...]:
        """Return the features of an arm."""
        if isinstance(key, tuple):
            return key
        if self.is_enumerable:
            return tuple(self.written["rows"][key])
        assert isinstance(self.arms, ArmSet)
        return tuple(self.arms.gather([key])[0].tolist())

    def check_row(self, key: int) -> None:
        """Check that an arm has or had this row number.

        Raises:
            InvalidInput: no arm has.
        """
        if isinstance(self.arms, VectorSet):
            raise InvalidInput(f"arms are vectors here ({self.arms.description}), got the row number {key}.")
        n = len(self.written["rows"]) if self.is_enumerable else self.arms.n_arms
        if key >= n:
            raise InvalidInput(f"`arm` must be a row number below {n}, got {key}.")

    @property
    def digest(self) -> str:
        """Hash of the arms that can be measured now."""
        if self.present is None:
            return digest_of(self.written)
        return digest_of({**self.written, "rows": [self.written["rows"][key] for key in self.present]})


def key_from(arm: Any) -> ArmKey:
    """Return the key that JSON writes in this way."""
    return tuple(arm) if type(arm) is list else arm


def plain_key(key: ArmKey) -> Any:
    """Return a key as JSON writes it."""
    return list(key) if isinstance(key, tuple) else key
