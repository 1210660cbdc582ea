"""Algorithms by name: the registry, and the way from a name to a learner.

Plug-ins: a package that declares an entry point in the group `surepick.algorithms`, name = a class with keyword options
and a `compose` method (see `learner.Algorithm`), appears here under that name.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any

from surepick.algorithms.lazy_track_and_stop import LazyTrackAndStop
from surepick.algorithms.learner import Algorithm, Decision, Learner
from surepick.errors import InvalidInput

__all__ = ["Algorithm", "Decision", "Learner", "algorithms", "create_learner"]

_BUILT_IN: dict[str, Callable[..., Algorithm]] = {
    "lazy-track-and-stop": LazyTrackAndStop,
}


def algorithms() -> list[str]:
    """Return the names of all algorithms, plug-ins included."""
    return sorted({*_BUILT_IN, *entry_points(group="surepick.algorithms").names})


def create_learner(
    algorithm: str,
    arms: Any,
    *,
    delta: float = 0.05,
    noise_std: float = 1.0,
    epsilon: float = 0.0,
    candidates: Any = None,
    seed: int = 0,
    **options: Any,
) -> Learner:
    """Return a learner for the named algorithm; `options` are the algorithm's own."""
    return Learner(
        _composition(algorithm, options),
        arms,
        delta=delta,
        noise_std=noise_std,
        epsilon=epsilon,
        candidates=candidates,
        seed=seed,
        name=algorithm,
    )


def _composition(name: str, options: dict[str, Any]) -> Algorithm:
    factory = _BUILT_IN.get(name)
    if factory is None:
        found = [entry for entry in entry_points(group="surepick.algorithms") if entry.name == name]
        if not found:
            raise InvalidInput(f"`algorithm` must be one of {', '.join(algorithms())}, got {name!r}.")
        factory = found[0].load()
    if is_dataclass(factory):
        known = [field.name for field in fields(factory) if field.init]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(
                f"{name} has no option {', '.join(map(repr, unknown))}; its options are {', '.join(known)}."
            )
    return factory(**options)
