"""The roster: which arms a study has, which it had, and what they are called.

An arm has one name for as long as the study lives, its *key*: its row number among all arms that ever joined, or its
entries if it is a vector. A learner calls the arms of its era by numbers of its own.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, VectorSet
from surepick.arms.finite import FiniteArms
from surepick.arms.registry import Written, digest_of, read_arms
from surepick.errors import InvalidInput

Key = Any
"""An arm as users of a study call it: a row number, or a tuple of numbers."""


@final
class ArmCatalog:
    """Arms and candidates of one era; it does not change.

    Args:
        written: all arms that ever joined, as the log has them.
        candidates: what is compared, if not the arms.
        present: row numbers of the arms that are there; None: all.
    """

    def __init__(self, written: Written, candidates: Written | None, present: Sequence[int] | None = None) -> None:
        self.written, self.candidates, self.present = written, candidates, present
        self.row_of = None if present is None else {key: row for row, key in enumerate(present)}
        """The learner's number of each arm that is there; None: the same as its key."""

    @cached_property
    def arms(self) -> ArmSet | VectorSet:
        """What may be measured."""
        if self.is_enumerable:
            here = range(len(self.written["rows"])) if self.present is None else self.present
            # Without names of their own they are called by their row numbers, which are no longer those of the table.
            labels = None if self.names is None and self.present is None else [self.label(key) for key in here]
            arms = FiniteArms(np.array([self.written["rows"][key] for key in here], dtype=np.float64), names=labels)
            arms.feature_names = tuple(self.written["features"])
            return arms
        return read_arms(self.written)

    @property
    def is_enumerable(self) -> bool:
        """Whether the log has the table of arms, so that some may join or retire."""
        return bool(self.written["kind"] == "finite")

    def changed(self, joined: Mapping[str, Any] | None, retired: Sequence[int]) -> "ArmCatalog":
        """Return the roster after some have joined and others have retired."""
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
        """Names of all arms that ever joined, by row number; None if they have none."""
        return self.written.get("names")

    @cached_property
    def rows_by_name(self) -> dict[str, int]:
        """Row numbers of all arms that ever joined, by name."""
        return {name: row for row, name in enumerate(self.names or ())}

    def is_present(self, key: Key) -> bool:
        """Whether an arm can be measured now."""
        return self.row_of is None or key in self.row_of

    def label(self, key: Key) -> str:
        """Return what people call an arm."""
        if isinstance(key, tuple | list):
            return "(" + ", ".join(f"{x:.6g}" for x in key) + ")"
        return str(key) if self.names is None else self.names[key]

    def key_of_arm(self, arm: Any) -> Key:
        """Return the key of what the learner calls an arm, a row number of its own or a vector."""
        if isinstance(arm, np.ndarray):
            return tuple(arm.tolist())
        return arm if self.present is None else self.present[arm]

    def candidate_key(self, arm: Any) -> Key:
        """Return the same of a candidate, which has a row number of its own where candidates are no arms."""
        return arm if self.candidates is not None and not isinstance(arm, np.ndarray) else self.key_of_arm(arm)

    def key_label(self, key: Key) -> str:
        """Return what people call a candidate."""
        if self.candidates is None or isinstance(key, tuple):
            return self.label(key)
        names = self.candidates.get("names")
        return f"candidate {key}" if names is None else str(names[key])

    def candidate_label(self, arm: Any) -> str:
        """Return what people call what the learner calls a candidate."""
        return self.key_label(self.candidate_key(arm))

    def features(self, key: Key) -> tuple[float, ...]:
        """Return the features of an arm."""
        if isinstance(key, tuple):
            return key
        if self.is_enumerable:
            return tuple(self.written["rows"][key])
        assert isinstance(self.arms, ArmSet)
        return tuple(self.arms.gather([key])[0].tolist())

    def check_row(self, key: int) -> None:
        """Refuse a row number that no arm has or had."""
        if isinstance(self.arms, VectorSet):
            raise InvalidInput(f"arms are vectors here ({self.arms.description}), got the row number {key}.")
        n = len(self.written["rows"]) if self.is_enumerable else self.arms.n_arms
        if key >= n:
            raise InvalidInput(f"`arm` must be a row number below {n}, got {key}.")

    @property
    def digest(self) -> str:
        """Hash of the arms that may be measured now."""
        if self.present is None:
            return digest_of(self.written)
        return digest_of({**self.written, "rows": [self.written["rows"][key] for key in self.present]})


def key_from(arm: Any) -> Key:
    """Return the key that JSON has as this."""
    return tuple(arm) if type(arm) is list else arm


def plain_key(key: Key) -> Any:
    """Return a key as JSON has it."""
    return list(key) if isinstance(key, tuple) else key
