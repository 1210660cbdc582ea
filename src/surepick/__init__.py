"""surepick: find the best of many options from noisy, costly measurements, with a guarantee."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surepick._version import __version__
from surepick.errors import (
    ArmsDoNotSpan,
    Conflict,
    CorruptLog,
    EntryWarning,
    InvalidInput,
    ModelWarning,
    NoiseWarning,
    NoSuchStudy,
    NotCertified,
    NotEnoughData,
    PullFailed,
    Skipped,
    StorageError,
    StudyExists,
    SurepickError,
    TableWarning,
    TiedArms,
)

if TYPE_CHECKING:
    from surepick import algorithms as algorithms
    from surepick import stopping as stopping
    from surepick import testing as testing
    from surepick.arms.dask import DaskArms as DaskArms
    from surepick.arms.ellipsoid import Ellipsoid as Ellipsoid
    from surepick.arms.finite import FiniteArms as FiniteArms
    from surepick.arms.hypercube import Hypercube as Hypercube
    from surepick.arms.mapped import MappedArms as MappedArms
    from surepick.arms.sphere import Sphere as Sphere
    from surepick.arms.tables.read import TableArms as TableArms
    from surepick.arms.tables.read import read_arms as read_arms
    from surepick.arms.top_k import TopK as TopK
    from surepick.client import AsyncClient as AsyncClient
    from surepick.client import Client as Client
    from surepick.core.design import Design as Design
    from surepick.core.design import characteristic_time as characteristic_time
    from surepick.core.design import lower_bound as lower_bound
    from surepick.core.design import optimal_design as optimal_design
    from surepick.learning.events import History as History
    from surepick.learning.identify import Progress as Progress
    from surepick.learning.identify import identify as identify
    from surepick.learning.learner import Learner as Learner
    from surepick.learning.learner import create_learner as create_learner
    from surepick.learning.result import Result as Result
    from surepick.learning.snapshot import Ask as Ask
    from surepick.learning.snapshot import Decision as Decision
    from surepick.planning.plan import Plan as Plan
    from surepick.planning.plan import plan as plan
    from surepick.planning.replicates import noise_from_replicates as noise_from_replicates
    from surepick.simulation import problems as problems
    from surepick.simulation.parallel import simulate as simulate
    from surepick.simulation.runs import Runs as Runs
    from surepick.study.admin import copy_study as copy_study
    from surepick.study.admin import create_study as create_study
    from surepick.study.admin import delete_study as delete_study
    from surepick.study.admin import list_studies as list_studies
    from surepick.study.admin import load_study as load_study
    from surepick.study.study import Study as Study
    from surepick.study.study import StudyAsk as StudyAsk

# Loaded on first use, numpy and scipy with them: a command that prints its help should not wait for them.
_HOMES = {
    "algorithms": (),
    "arms.dask": ("DaskArms",),
    "arms.ellipsoid": ("Ellipsoid",),
    "arms.mapped": ("MappedArms",),
    "arms.finite": ("FiniteArms",),
    "arms.hypercube": ("Hypercube",),
    "arms.sphere": ("Sphere",),
    "arms.tables.read": ("TableArms", "read_arms"),
    "arms.top_k": ("TopK",),
    "client": ("Client", "AsyncClient"),
    "core.design": ("Design", "characteristic_time", "lower_bound", "optimal_design"),
    "learning.snapshot": ("Ask", "Decision"),
    "learning.events": ("History",),
    "learning.identify": ("Progress", "identify"),
    "learning.learner": ("Learner", "create_learner"),
    "learning.result": ("Result",),
    "planning.plan": ("Plan", "plan"),
    "planning.replicates": ("noise_from_replicates",),
    "simulation.problems": (),
    "simulation.parallel": ("simulate",),
    "simulation.runs": ("Runs",),
    "stopping": (),
    "study.admin": ("create_study", "load_study", "list_studies", "copy_study", "delete_study"),
    "study.study": ("Study", "StudyAsk"),
    "testing": (),
}
"""A file, and what the package offers of it; the file itself where no names are given."""
_HOME = {name: home for home, names in _HOMES.items() for name in names or (home.rpartition(".")[2],)}

__all__ = [
    "read_arms", "TableArms", "FiniteArms", "MappedArms", "DaskArms", "Sphere", "Ellipsoid", "Hypercube", "TopK",
    "Design", "characteristic_time", "optimal_design", "lower_bound",
    "identify", "Progress", "Result", "History", "create_learner", "Learner", "Ask", "Decision",
    "algorithms", "stopping", "testing", "SurepickError", "InvalidInput", "ArmsDoNotSpan", "TiedArms", "Skipped",
    "NotCertified", "NotEnoughData", "PullFailed", "NoiseWarning", "ModelWarning", "TableWarning",
    "EntryWarning",
    "create_study", "load_study", "list_studies", "copy_study", "delete_study", "Study", "StudyAsk",
    "Client", "AsyncClient",
    "Conflict", "StudyExists", "NoSuchStudy", "StorageError", "CorruptLog",
    "plan", "Plan", "noise_from_replicates", "problems", "simulate", "Runs", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'surepick' has no attribute {name!r}")
    home = import_module(f"surepick.{_HOME[name]}")
    found = globals()[name] = getattr(home, name, home)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
