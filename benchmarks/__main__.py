"""Run benchmarks by name, or all of them: `python -m benchmarks [name ...]`.

After the name of a benchmark that has parts, some of them may be named: `python -m benchmarks study load kill`.
"""

import importlib
import os
import pkgutil
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import benchmarks
from surepick.cli.options import ExperimentOptions
from surepick.cli.reproduce import run_files


def discover() -> dict[str, list[Callable[..., object]]]:
    """By name: the experiments `<name>-*.toml`, then `main` of the module if it has one; in alphabetical order."""
    files: dict[str, list[Path]] = {}
    for file in sorted(Path(__file__).parent.glob("*.toml")):
        files.setdefault(file.stem.partition("-")[0], []).append(file)
    # First the sweeps: a module may print what they found.
    found: dict[str, list[Callable[..., object]]] = {name: [partial(sweep, own, name)] for name, own in files.items()}
    for info in pkgutil.iter_modules(benchmarks.__path__):
        main = None if info.name.startswith("_") else importlib.import_module(f"benchmarks.{info.name}")
        if callable(getattr(main, "main", None)):
            found.setdefault(info.name, []).append(main.main)  # type: ignore[union-attr]
    return dict(sorted(found.items()))


def sweep(files: Sequence[Path], name: str) -> None:
    """Run experiments in full; runs and report go to out/<name>, and what is there is not done again."""
    run_files(files, ExperimentOptions(full=True, out=Path("out") / name))


def parts_chosen(names: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Tell benchmarks from parts of the one named before them, which its module lists in `PARTS`."""
    found: list[str] = []
    chosen: dict[str, list[str]] = {}
    for name in names:
        module = sys.modules.get(f"benchmarks.{found[-1]}") if found else None
        if name in getattr(module, "PARTS", ()):
            chosen.setdefault(found[-1], []).append(name)
        else:
            found.append(name)
    return found, chosen


def run(names: list[str]) -> int:
    """Run the named benchmarks (all if none is named); returns the exit code."""
    available = discover()
    names, chosen = parts_chosen(names)
    unknown = [name for name in names if name not in available]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(available)}", file=sys.stderr)
        return 2
    today = datetime.now(UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    print(f"{today}, {machine}, numpy {version('numpy')}, scipy {version('scipy')}")
    for name in names or available:
        print(f"\n== {name} ==", flush=True)
        start = time.perf_counter()
        for part in available[name]:
            part(*chosen.get(name, ()))
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
