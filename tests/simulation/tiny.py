"""A small experiment that several test files share: four cells, milliseconds a run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from surepick.simulation.experiment import Experiment, parse_experiment

TINY = """
name = "tiny"
title = "Tiny"
delta = [0.1]
n_runs = 12
quick_runs = 3
seed = 7
max_pulls = 8

[[problems]]
name = "unit_basis"
arguments = { means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]] }

[[algorithms]]
label = "uniform"
name = "uniform"

[[algorithms]]
label = "evidence"
name = "uniform"
options = { stopping = "evidence" }

# end
"""


def tiny(*changes: tuple[str, str], folder: Path = Path()) -> Experiment:
    """Return the experiment with some of its text replaced."""
    return parse_experiment(tiny_text(*changes), "tiny.toml", folder)


def tiny_text(*changes: tuple[str, str]) -> str:
    """Return its text with some of it replaced."""
    text = TINY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def content(folder: Path) -> Any:
    """The table of a folder as a data frame, without the one column that differs between equal sweeps."""
    return pq.read_table(folder / "runs.parquet").to_pandas().drop(columns="seconds")


def python(script: str, *arguments: object) -> Any:
    """Run a script in a process of its own, return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
