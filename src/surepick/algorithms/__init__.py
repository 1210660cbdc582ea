"""Algorithms by name: the registry, and the way from a name to a learner.

Plug-ins: a package that declares an entry point in the group `surepick.algorithms`, name = a class with keyword options
and a `compose` method (see `learner.Algorithm`), appears here under that name.
"""

import reprlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from surepick.algorithms.learner import Algorithm, Decision, Learner
from surepick.errors import InvalidInput
from surepick.rules.schedules import as_schedule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["Algorithm", "Decision", "Learner", "algorithms", "create_learner"]

_BUILT_IN = {
    "alba": "alba:Alba",
    "explore-verify": "explore_verify:ExploreVerify",
    "frank-wolfe": "frank_wolfe:FrankWolfe",
    "g-static": "g_static:GStatic",
    "lazy-track-and-stop": "lazy_track_and_stop:LazyTrackAndStop",
    "lingame": "lingame:LinGame",
    "lingame-c": "lingame_c:LinGameC",
    "lingape": "lingape:LinGapE",
    "rage": "rage:Rage",
    "top-two": "top_two:TopTwo",
    "track-and-stop": "track_and_stop:TrackAndStop",
    "uniform": "uniform:Uniform",
    "xy-adaptive": "xy_adaptive:XYAdaptive",
    "xy-oracle": "xy_oracle:XYOracle",
    "xy-static": "xy_static:XYStatic",
}
"""Name to "file:class"; a file is imported when its algorithm is asked for, which keeps `import surepick` light."""


def algorithms() -> list[str]:
    """Return the names of all algorithms, plug-ins included."""
    return sorted({*_BUILT_IN, *_plug_ins().names})


def _plug_ins() -> "EntryPoints":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a tenth of the time that `import surepick` takes

    return entry_points(group="surepick.algorithms")


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
    factory: Callable[..., Algorithm]
    if not isinstance(name, str):
        raise InvalidInput(f"`algorithm` must be a name such as 'rage', got {reprlib.repr(name)}; see algorithms().")
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        factory = getattr(import_module(f"surepick.algorithms.{module}"), attribute)
    else:
        found = [entry for entry in _plug_ins() if entry.name == name]
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
        for field in fields(factory):
            if field.name in options:
                _check_kind(field.name, options[field.name], field.type)
    if options.get("schedule") is not None:
        # Read once: an iterator of times could not be read again for a replay.
        options = {**options, "schedule": as_schedule(options["schedule"])}
    return factory(**options)


def _check_kind(option: str, value: object, annotation: Any) -> None:
    """Refuse what would only be taken for true or false, such as "no", where True, False or a name is needed."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    names = [name for kind in kinds if get_origin(kind) is Literal for name in get_args(kind)]
    if value is None and NoneType in kinds:
        return
    if bool in kinds and not isinstance(value, bool):
        raise InvalidInput(f"`{option}` must be True or False, got {reprlib.repr(value)}.")
    is_name = all(kind is NoneType or get_origin(kind) is Literal for kind in kinds)
    if is_name and not isinstance(value, str):
        raise InvalidInput(f"`{option}` must be one of {', '.join(map(repr, names))}, got {reprlib.repr(value)}.")
