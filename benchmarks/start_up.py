"""Start-up: CPU seconds of short commands, each in a process of its own, with byte code cached.

Run `make bench ARGS=start_up`, or `python -m benchmarks.start_up [repeats]`. The study is small, so nearly all of the
time goes into imports; `python -X importtime -m surepick status` lists them.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = (("--help",), ("status",), ("best",), ("list",))
AIM = 0.6
"""CPU seconds of a command, at most."""
ARMS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\nD,0.3,0.4\nE,0.9,0.9\n"
VALUES = {"A": 0.62, "B": 0.54, "C": 0.71, "D": 0.36, "E": 0.88}


def cpu_of(folder: Path, *words: str) -> float:
    """Return the CPU seconds of a command, of user and system together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-m", "surepick", *words],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=False,  # `best` returns 3 while nothing is decided
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main(repeats: int = 5) -> None:
    """Print the median of some repeats of each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "arms.csv").write_text(ARMS)
        cpu_of(folder, "create", "arms.csv", "--noise-std", "0.05")
        for arm, value in VALUES.items():
            cpu_of(folder, "tell", arm, str(value))
        print(f"start-up: median CPU seconds of {repeats} processes; aim: at most {AIM:g}")
        for words in COMMANDS:
            cpu_of(folder, *words)  # writes the byte code
            times = sorted(cpu_of(folder, *words) for _ in range(repeats))
            print(f"  surepick {' '.join(words):8} {times[repeats // 2]:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
