"""What pages quote from the code: defaults, flags, extras and messages."""

import ast
import re
import tomllib
from pathlib import Path

import numpy as np

import surepick as sp
from surepick.learning.spec import DEFAULTS, OPTIONS
from surepick.sampling.schedules import as_schedule
from tests.tasks import task_of

ROOT = Path(__file__).parents[2]
BESIDES = {"test", "lint", "docs"}
"""Extras for those who change the package."""


def tables(page: str) -> list[list[list[str]]]:
    """Return the cells of every table of a page, without its two header lines."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in one.splitlines()[2:]] for one in found]


def code(cell: str) -> str:
    """Return a cell without its backticks."""
    return cell.strip("` ")


def test_defaults_of_an_experiment() -> None:
    """The page of settings has every option of a task, with its default and its flag."""
    shown = {code(name): (code(default), code(flag)) for name, default, flag, _ in tables("settings.md")[0]}
    assert {name: default for name, (default, _) in shown.items()} == {name: repr(DEFAULTS[name]) for name in OPTIONS}
    flags = {name: f"--{(option.flag or name).replace('_', '-')}" for name, option in OPTIONS.items()}
    assert {name: flag for name, (_, flag) in shown.items()} == flags


def test_defaults_of_the_algorithm() -> None:
    """The page has the rule, the schedule and the designs that the default algorithm composes, and rules that exist."""
    shown = {code(row[0]): row[1:] for row in tables("settings.md")[1]}
    algorithm = sp.algorithms.LazyTrackAndStop()
    sampler, rule = algorithm.compose(task_of(np.eye(3)))
    others, _ = sp.algorithms.LazyTrackAndStop(stopping="evidence").compose(task_of(np.eye(3)))
    found = {name: code(row[0]) for name, row in shown.items()}
    assert found["stopping"] == rule.name
    assert (found["tracking"], found["variant"]) == (algorithm.tracking, algorithm.variant)
    assert as_schedule(found["schedule"]) == sampler.schedule  # type: ignore[attr-defined]
    assert float(found["g_mix"]) == sampler.g_mix  # type: ignore[attr-defined]
    named = re.findall(r"geometric:[\d.]+", shown["schedule"][1])
    assert [as_schedule(name) for name in named] == [others.schedule]  # type: ignore[attr-defined]
    assert f"rules {others.g_mix}," in shown["g_mix"][1]  # type: ignore[attr-defined]
    rules = {found["stopping"], *re.findall(r"`([a-z-]+)`", shown["stopping"][1])}
    assert rules <= set(sp.stopping.names())
    guarantees = {name: sp.stopping.as_rule(name).guarantee for name in rules}
    assert {name for name, guarantee in guarantees.items() if guarantee != "proved"} == {"heuristic", "log-t"}


def test_extras() -> None:
    """The page of the installation has every extra and the packages that it brings."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    packages = {
        name: [re.match(r"[\w-]+", package)[0] for package in wanted]  # type: ignore[index]
        for name, wanted in declared.items()
        if name not in BESIDES
    }
    shown = {code(name): re.findall(r"[\w-]+", brings) for name, _, brings in tables("install.md")[0]}
    assert shown == {**packages, "all": []}


def texts() -> list[str]:
    """Return every text in the package, with a tab for what is filled in."""
    found = []
    for path in (ROOT / "src" / "surepick").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "\t" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_messages() -> None:
    """Every message on the page of messages is in the code, piece by piece."""
    known = texts()
    shown = [row[0] for table in tables("messages.md") for row in table]
    pieces = {piece.strip() for message in shown for piece in message.strip('"').split("...") if piece.strip()}
    assert len(shown) > 40
    assert [piece for piece in sorted(pieces) if not any(piece in text for text in known)] == []
