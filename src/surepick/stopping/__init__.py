"""Stopping rules and the table of their names.

Reading order: `base` (what a rule is); `betting` (the default); `scan`, then `evidence` and `glr` (checked after every
pull); `phases` (elimination by the results of one block); `vector_sets`.

To add a rule to the package, write a file with a `Rule` and add a line to the table. A rule of your own is passed as an
object; see docs/extending.md.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from surepick.core.thresholds import THRESHOLDS
from surepick.errors import InvalidInput, or_nearest
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.stopping.betting import Betting
from surepick.stopping.evidence import Evidence, Pairwise
from surepick.stopping.glr import GLR
from surepick.stopping.vector_sets import MixGrid, PerCoordinate, PrintedSphere

__all__ = [
    "Betting", "Evidence", "GLR", "Pairwise", "MixGrid", "PerCoordinate", "PrintedSphere", "Rule", "RuleState",
    "Verdict", "names",
]  # fmt: skip

Stopping = str | Rule
"""A rule, or its name."""

_NAMED: Mapping[str, tuple[Any, Mapping[str, str]]] = {
    "betting": (Betting, {}),
    "evidence": (Evidence, {}),
    "pairwise": (Pairwise, {}),
    **{name: (GLR, {"threshold": name}) for name in THRESHOLDS},
    "mix-grid": (MixGrid, {}),
    "paper": (PrintedSphere, {}),
    "per-coordinate": (PerCoordinate, {}),
}
"""Name to the rule and the options that the name implies."""
_GONE = ("betting-plain", "betting-capped")
"""Research variants that had a name; `benchmarks.bet_variants` of the repository has them as objects."""


def names(*, vectors: bool = False) -> list[str]:
    """Return the names of the rules.

    Args:
        vectors: list only the rules for sets of vectors.
    """
    return [name for name, (kind, _) in _NAMED.items() if not vectors or kind.takes_vectors]


def as_rule(stopping: Stopping, **options: Any) -> Rule:
    """Return the rule that a name or a rule object stands for.

    Args:
        stopping: a rule, or its name.
        options: rule options that the algorithm received, such as `elimination` or `regularizer`; None means not
            given. The named rule must have every option except `start_arms`, which other rules ignore.
    """
    given = {name: value for name, value in options.items() if value is not None}
    asked = [name for name, value in given.items() if value is not False and name != "start_arms"]
    if isinstance(stopping, Rule):
        if asked:
            raise InvalidInput(f"`{asked[0]}` belongs to the rule: pass it to {type(stopping).__name__}(...) instead.")
        return stopping
    if stopping in _GONE:
        raise InvalidInput(
            f"stopping={stopping!r}, a research variant, is no longer part of surepick; use 'betting'. A study "
            "with this rule is intact, but only the version that made it can open it. Export its results there, and "
            "import them into a new study."
        )
    if stopping not in _NAMED:
        end = or_nearest(str(stopping), list(_NAMED))
        raise InvalidInput(f"`stopping` must be one of {', '.join(map(repr, _NAMED))} or a rule, got {stopping!r}{end}")
    (kind, meant), known = _NAMED[stopping], _options_of(stopping)
    for name in asked:
        if name not in known and not (name == "elimination" and kind.always_eliminates):
            others = ", ".join(repr(other) for other in _NAMED if name in _options_of(other))
            raise InvalidInput(f"`{name}` is not an option of stopping={stopping!r}; leave it out, or use {others}.")
    rule: Rule = kind(**{name: value for name, value in given.items() if name in known}, **meant)
    return rule


def _options_of(name: str) -> set[str]:
    return {field.name for field in fields(_NAMED[name][0]) if field.init}
