"""Algorithms: each is a class of options with a method `compose`, such as `surepick.algorithms.Rage()`.

`compose(task)` returns a sampler, which chooses arms, and a stopping rule, which decides. For example:

    lazy-track-and-stop     tracks the design that separates the leader (`sampling.tracking`); betting decides
    rage                    follows designs for the pairs left, phase by phase (`sampling.phases`); betting decides
    lingape                 chooses arm by arm (`sampling.choosers`); evidence decides

Plug-ins: a package that declares an entry point in the group `surepick.algorithms`, name = class, adds that name.
"""

import inspect
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from surepick.algorithms.options import check_kind
from surepick.errors import InvalidInput, or_nearest, what_was_meant

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from surepick.algorithms.alba import Alba as Alba
    from surepick.algorithms.bayes_gap import BayesGap as BayesGap
    from surepick.algorithms.explore_verify import ExploreVerify as ExploreVerify
    from surepick.algorithms.frank_wolfe import FrankWolfe as FrankWolfe
    from surepick.algorithms.gse import GSE as GSE
    from surepick.algorithms.h_rage import HRage as HRage
    from surepick.algorithms.lazy_track_and_stop import LazyTrackAndStop as LazyTrackAndStop
    from surepick.algorithms.lin_halving import LinHalving as LinHalving
    from surepick.algorithms.lingame import LinGame as LinGame
    from surepick.algorithms.lingame import LinGameC as LinGameC
    from surepick.algorithms.lingape import LinGapE as LinGapE
    from surepick.algorithms.lingifa import LinGIFA as LinGIFA
    from surepick.algorithms.m_lingape import MLinGapE as MLinGapE
    from surepick.algorithms.mislid import MisLid as MisLid
    from surepick.algorithms.od_linbai import ODLinBAI as ODLinBAI
    from surepick.algorithms.p1_rage import P1RAGE as P1RAGE
    from surepick.algorithms.peace import Peace as Peace
    from surepick.algorithms.peps import Peps as Peps
    from surepick.algorithms.rage import Rage as Rage
    from surepick.algorithms.rounds import Rounds as Rounds
    from surepick.algorithms.static import GStatic as GStatic
    from surepick.algorithms.static import Uniform as Uniform
    from surepick.algorithms.static import XYOracle as XYOracle
    from surepick.algorithms.static import XYStatic as XYStatic
    from surepick.algorithms.top_two import TopTwo as TopTwo
    from surepick.algorithms.track_and_stop import TrackAndStop as TrackAndStop
    from surepick.algorithms.xy_adaptive import XYAdaptive as XYAdaptive

_BUILT_IN = {
    "alba": "alba:Alba",
    "bayes-gap": "bayes_gap:BayesGap",
    "explore-verify": "explore_verify:ExploreVerify",
    "frank-wolfe": "frank_wolfe:FrankWolfe",
    "g-static": "static:GStatic",
    "gse": "gse:GSE",
    "h-rage": "h_rage:HRage",
    "lazy-track-and-stop": "lazy_track_and_stop:LazyTrackAndStop",
    "lin-halving": "lin_halving:LinHalving",
    "lingame": "lingame:LinGame",
    "lingame-c": "lingame:LinGameC",
    "lingape": "lingape:LinGapE",
    "lingifa": "lingifa:LinGIFA",
    "m-lingape": "m_lingape:MLinGapE",
    "mislid": "mislid:MisLid",
    "od-linbai": "od_linbai:ODLinBAI",
    "p1-rage": "p1_rage:P1RAGE",
    "peace": "peace:Peace",
    "peps": "peps:Peps",
    "rage": "rage:Rage",
    "rounds": "rounds:Rounds",
    "top-two": "top_two:TopTwo",
    "track-and-stop": "track_and_stop:TrackAndStop",
    "uniform": "static:Uniform",
    "xy-adaptive": "xy_adaptive:XYAdaptive",
    "xy-oracle": "static:XYOracle",
    "xy-static": "static:XYStatic",
}
"""Name to "file:class"; a file is imported when its algorithm is used, which keeps `import surepick` light."""
_VECTORS_ONLY = ("rounds",)
_FIXED_BUDGET = ("bayes-gap", "gse", "lin-halving", "od-linbai", "p1-rage", "peace")


def names(*, vectors: bool = False, fixed_budget: bool = False) -> list[str]:
    """Return the names of the algorithms.

    Args:
        vectors: list the algorithms for sets of vectors instead of those for lists of arms, which include plug-ins.
        fixed_budget: list the algorithms that need a `budget`, and plan for it, instead of those that stop by
            themselves.
    """
    if vectors:
        return ["lazy-track-and-stop", *_VECTORS_ONLY]
    if fixed_budget:
        return list(_FIXED_BUDGET)
    return sorted({*_BUILT_IN, *_plug_ins().names} - {*_VECTORS_ONLY, *_FIXED_BUDGET})


def __getattr__(name: str) -> Any:
    for place in _BUILT_IN.values():
        if place.endswith(f":{name}"):
            return _load(place)
    raise AttributeError(f"module 'surepick.algorithms' has no attribute {name!r}")


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"surepick.algorithms.{module}"), attribute)


def _plug_ins() -> "EntryPoints":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a tenth of the time that `import surepick` takes

    return entry_points(group="surepick.algorithms")


def as_algorithm(algorithm: Any, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the algorithm, an object with a `compose` method, and its name."""
    check_algorithm_object(algorithm)
    if not isinstance(algorithm, str):
        if options:
            raise InvalidInput(
                f"`{next(iter(options))}` is an option of the algorithm: pass it to {type(algorithm).__name__}(...)."
            )
        return algorithm, _name_of(algorithm)
    factory = _factory(algorithm)
    if is_dataclass(factory):
        known = {field.name: field.type for field in fields(factory) if field.init}
        for name, value in options.items():
            check_kind(name, value, known[name])
    return factory(**options), algorithm


_ELSEWHERE = {"binary": 'rewards="binary" says that rewards are pass or fail.'} | {
    name: f"`study.optimize(function, {name}=...)` has it, after `study = create_study(...)`."
    for name in ("n_jobs", "timeout", "catch", "callbacks", "progress")
}
"""What to write for options that are called otherwise, or are those of another function."""


def check_algorithm_object(algorithm: Any) -> None:
    """Raise `InvalidInput` for anything but a name or an object with a `compose` method, such as a class."""
    if isinstance(algorithm, str) or (hasattr(algorithm, "compose") and not isinstance(algorithm, type)):
        return
    needed = "a name such as 'rage' or an object such as `surepick.algorithms.Rage()`"
    if isinstance(algorithm, type) and hasattr(algorithm, "compose"):
        raise InvalidInput(
            f"`algorithm` must be {needed}, got the class {algorithm.__name__}; write `{algorithm.__name__}()`, with "
            "its options in the brackets."
        )
    raise InvalidInput(
        f"`algorithm` must be {needed}, got {reprlib.repr(algorithm)}; `surepick.algorithms.names()` lists the names, "
        "and an algorithm of your own is an object with a method `compose`."
    )


def check_options(options: Mapping[str, Any], algorithm: Any, *functions: Callable[..., Any]) -> None:
    """Refuse a keyword that neither one of the functions nor the algorithm knows, with the nearest that they know.

    Args:
        options: the keywords that are none of the function's own.
        algorithm: its name, or an object; None for a function that takes none.
        functions: that was called, and those that get the options from it.
    """
    kind = _factory(algorithm) if isinstance(algorithm, str) else type(algorithm)
    if not is_dataclass(kind) and algorithm is not None:
        return  # an algorithm of the user's own checks its options itself
    of_kind = [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else []
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    named = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name != "self"]
    for name in options:
        if name not in (known := list(dict.fromkeys([*named, *of_kind]))):
            elsewhere = _ELSEWHERE.get(name)
            meant = elsewhere or what_was_meant(name, known, "options", most=len(known))
            raise InvalidInput(f"there is no option {name!r}; {meant}")


def _factory(name: str) -> Any:
    if name in _BUILT_IN:
        return _load(_BUILT_IN[name])
    found = [entry for entry in _plug_ins() if entry.name == name]
    if not found:
        known = [*names(), *_FIXED_BUDGET]
        meant = or_nearest(name, known)
        raise InvalidInput(f"`algorithm` must be one of {', '.join(known)}, got {name!r}{meant}")
    return found[0].load()


def _name_of(algorithm: Any) -> str:
    own = type(algorithm).__name__
    return next((name for name, place in _BUILT_IN.items() if place.endswith(f":{own}")), own)
