"""Studies under load, kills and power cuts, with long logs and many workers.

Run `python -m benchmarks study [part ...]`, parts as in `PARTS`; all of them take about an hour on two cores.
"""

from collections.abc import Callable

from benchmarks.study_crash import cut, kill
from benchmarks.study_length import beside, length
from benchmarks.study_load import load
from benchmarks.study_points import points
from benchmarks.study_workers import workers

PARTS: dict[str, Callable[[], None]] = {
    "load": load,
    "kill": kill,
    "cut": cut,
    "points": points,
    "length": length,
    "beside": beside,
    "workers": workers,
}


def main(*parts: str) -> None:
    """Run these parts, or all."""
    for name in parts or PARTS:
        print(f"-- {name}", flush=True)
        PARTS[name]()
