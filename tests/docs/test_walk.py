"""The walk of a pull through the files, as docs/architecture.md tells it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import surepick as sp
from surepick.simulation import problems

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
# Helpers that every file may call: a reader need not follow them.
HELPERS = {"core/checks.py", "core/linalg.py"}


def files_of(work: Callable[[], object]) -> set[str]:
    """The files of the package that are entered; the design solver counts as one, and so does the misfit watch."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        _, found, name = frame.f_code.co_filename.rpartition("/surepick/")
        if event == "call" and found:
            room = "core/misfit" if name == "learning/model.py" else name.rpartition("/")[0]
            seen.add(room if room in ("core/design", "core/misfit") else name)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen - HELPERS


def test_a_pull_takes_the_walk_that_is_described() -> None:
    """Nine files inside an interval, fourteen to open or to close one, and the page names them all."""
    problem = problems.sphere(5, 50, seed=1)
    means, rng = problem.X @ problem.theta, np.random.default_rng(0)
    learner = sp.create_learner("lazy-track-and-stop", problem.X, noise_std=1.0)

    def pull() -> None:
        arm = learner.next_arms()[0]
        learner.tell(arm, float(means[arm] + rng.standard_normal()))
        assert not learner.stopped

    for _ in range(60):
        pull()
    opening: set[str] = set()
    while "core/design" not in opening:  # one design serves more than one interval
        while learner.n_planned:
            pull()
        assert not learner.stopped  # settles
        opening = files_of(learner.next_arms)
        learner.tell(next(iter(learner.pending)), 0.1)
    inside = files_of(pull)
    while learner.n_planned > 1:
        pull()
    last = learner.next_arms()[0]
    learner.tell(last, float(means[last]))
    closing = files_of(lambda: learner.stopped)
    assert len(inside) <= 9
    assert len(opening) <= 14
    assert len(closing) <= 13
    walk = PAGE.read_text(encoding="utf-8").partition("## One pull, step by step")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:arms|core|stopping|sampling|algorithms|learning)/[\w/]+(?:\.py)?)`", walk))
    assert named == inside | opening | closing
