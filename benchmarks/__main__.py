"""Run benchmarks by name, or all of them: `python -m benchmarks [name ...]`."""

import importlib
import os
import pkgutil
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

import benchmarks


def discover() -> dict[str, Callable[[], object]]:
    """Name and `main` of every module of this package that has one, in alphabetical order."""
    found: dict[str, Callable[[], object]] = {}
    for info in sorted(pkgutil.iter_modules(benchmarks.__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        main = getattr(importlib.import_module(f"benchmarks.{info.name}"), "main", None)
        if callable(main):
            found[info.name] = main
    return found


def run(names: list[str]) -> int:
    """Run the named benchmarks (all if none is named); returns the exit code."""
    available = discover()
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
        available[name]()
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
