"""What was made of the columns of a table, to be read before anything is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

from surepick.arms.alike import same_features
from surepick.core.texts import shown

WIDTH = 12


class Levels(NamedTuple):
    """Levels of a category."""

    reference: str | None
    """The level with which the others are compared; None if all have a feature."""
    others: tuple[str, ...]
    """Levels with a feature of their own."""

    def __str__(self) -> str:
        reference = [] if self.reference is None else [f"{self.reference} (reference)"]
        return ", ".join([*reference, *self.others])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The role of every column of a table of arms; `str()` says all of it, nothing left out."""

    source: str
    """The file, or "the data frame"."""
    notes: tuple[str, ...] = ()
    """What was recognised: semicolons, decimal commas, Latin-1, a byte order mark, the sheet."""
    n_arms: int
    feature_names: tuple[str, ...]
    """All features, those of the arms."""
    constant: str
    """Whether there is a constant, and why."""
    formula: str | None = None
    numbers: tuple[str, ...] = ()
    """Columns that are used as numbers."""
    categories: Mapping[str, Levels] = field(default_factory=dict)
    """Columns that became 0/1 features."""
    products: tuple[str, ...] = ()
    squares: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Products and squares that would say nothing new, and features that others make up; each with the reason."""
    names: str
    """Where the arms' names come from."""
    noise: str | None = None
    """The column that says how noisy each arm is."""
    cost: str | None = None
    """The column that says what a pull of each arm costs."""
    dropped: tuple[str, ...] = ()
    """Columns that are not used, each with the reason."""
    attention: tuple[str, ...] = ()
    """What may not be meant: levels that differ in case alone, dates."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Names of arms with the same features."""

    def __str__(self) -> str:
        noted = f" ({', '.join(self.notes)})" if self.notes else ""
        dim = len(self.feature_names)
        head = f"{self.n_arms} arms, {dim} feature{'' if dim == 1 else 's'}, from {self.source}{noted}"
        rows: list[tuple[str, Sequence[str]]] = [
            ("formula", [self.formula] if self.formula else []),
            ("constant", [self.constant]),
            ("numbers", [", ".join(self.numbers)] if self.numbers else []),
            ("categories", [f"{title}: {levels}" for title, levels in self.categories.items()]),
            ("products", [", ".join(self.products)] if self.products else []),
            ("squares", [", ".join(self.squares)] if self.squares else []),
            ("left out", self.left_out),
            ("features", [", ".join(self.feature_names)] if self.formula else []),
            ("names", [self.names]),
            ("noise", [self.noise] if self.noise else []),
            ("cost", [self.cost] if self.cost else []),
            ("dropped", self.dropped),
            ("attention", self.attention),
            ("alike", [f"{same_features(group)}." for group in self.alike]),
        ]
        lines = [
            f"  {word if place == 0 else '':{WIDTH}}{shown(text)}"
            for word, texts in rows
            for place, text in enumerate(texts)
        ]
        return "\n".join([shown(head), *lines])
