"""Arms that are not in memory: in a file, or on a cluster.

Loaded on first use: pyarrow and Dask are optional and slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surepick.sources.dask_arms import DaskArms as DaskArms
    from surepick.sources.mapped import MappedArms as MappedArms

__all__ = ["MappedArms", "DaskArms"]

_LATER = {"MappedArms": "surepick.sources.mapped", "DaskArms": "surepick.sources.dask_arms"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'surepick.sources' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
