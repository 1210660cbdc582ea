"""surepick: find the best of many options from noisy, costly measurements, with a guarantee."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surepick import algorithms, stopping
from surepick._version import __version__
from surepick.arms.finite import FiniteArms
from surepick.core.design import Design, characteristic_time, lower_bound, optimal_design
from surepick.errors import (
    ArmsDoNotSpan,
    InvalidInput,
    ModelWarning,
    NoiseWarning,
    NotCertified,
    NotEnoughData,
    PullFailed,
    Skipped,
    SurepickError,
    TiedArms,
)
from surepick.learning.history import History
from surepick.learning.identify import Progress, identify
from surepick.learning.learner import Ask, Decision, Learner, create_learner
from surepick.learning.result import Result

if TYPE_CHECKING:
    from surepick.arms.cluster import DaskArms as DaskArms
    from surepick.arms.ellipsoid import Ellipsoid as Ellipsoid
    from surepick.arms.files import MappedArms as MappedArms
    from surepick.arms.hypercube import Hypercube as Hypercube
    from surepick.arms.sphere import Sphere as Sphere
    from surepick.arms.tables.read import TableArms as TableArms
    from surepick.arms.tables.read import read_arms as read_arms
    from surepick.arms.top_k import TopK as TopK
    from surepick.simulation import problems as problems
    from surepick.simulation.runner import simulate as simulate
    from surepick.simulation.runs import Runs as Runs

# Loaded on first use: most experiments need neither simulations nor sets other than a table of arms.
_LATER = {
    "DaskArms": ("surepick.arms.cluster", "DaskArms"),
    "Ellipsoid": ("surepick.arms.ellipsoid", "Ellipsoid"),
    "Hypercube": ("surepick.arms.hypercube", "Hypercube"),
    "MappedArms": ("surepick.arms.files", "MappedArms"),
    "Sphere": ("surepick.arms.sphere", "Sphere"),
    "TableArms": ("surepick.arms.tables.read", "TableArms"),
    "read_arms": ("surepick.arms.tables.read", "read_arms"),
    "TopK": ("surepick.arms.top_k", "TopK"),
    "problems": ("surepick.simulation.problems", None),
    "simulate": ("surepick.simulation.runner", "simulate"),
    "Runs": ("surepick.simulation.runs", "Runs"),
}

__all__ = [
    "read_arms", "TableArms", "FiniteArms", "MappedArms", "DaskArms", "Sphere", "Ellipsoid", "Hypercube", "TopK",
    "Design", "characteristic_time", "optimal_design", "lower_bound",
    "identify", "Progress", "Result", "History", "create_learner", "Learner", "Ask", "Decision",
    "algorithms", "stopping", "SurepickError", "InvalidInput", "ArmsDoNotSpan", "TiedArms", "Skipped",
    "NotCertified", "NotEnoughData", "PullFailed", "NoiseWarning", "ModelWarning",
    "problems", "simulate", "Runs", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'surepick' has no attribute {name!r}")
    module, attribute = _LATER[name]
    loaded = import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
