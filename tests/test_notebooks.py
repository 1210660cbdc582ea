"""Short texts and small tables of results, plans, designs and studies, as notebooks show them."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import surepick as sp
from tests.study.tree_study import finish, new

HOSTILE = "<script>alert(1)</script> & <b>\x1b[2J"
X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7]])


def _result(names: list[str] | None = None) -> sp.Result:
    rng = np.random.default_rng(0)
    arms = sp.FiniteArms(X, names=names)
    return sp.identify(arms, lambda arm: float(X[arm] @ [0.7, 0.6] + 0.1 * rng.standard_normal()), noise_std=0.1)


def _undecided() -> sp.Result:
    return sp.identify(X, lambda _arm: 1.0, max_pulls=1)


def _candidates() -> sp.Result:
    return sp.identify(X, lambda arm: float(arm == 0), candidates=[[1.0, 0.0], [0.5, 0.5]], noise_std=0.2)


def _sphere() -> sp.Result:
    return sp.identify(sp.Sphere(2), lambda x: float(x[0]), noise_std=0.1, epsilon=0.2)


def _measured() -> sp.Study:
    study = new()
    finish(study)
    return study


OBJECTS: dict[str, tuple[Callable[[], object], str, str]] = {
    "result": (_result, "Result(best=2, stopped=True, n_pulls=", "estimate"),
    "named": (lambda: _result(["A", "B", "C"]), "Result(best='C', stopped=True", "95 % interval"),
    "undecided": (_undecided, "Result(best=None, stopped=False, n_pulls=1)", "No leader yet"),
    "candidates": (_candidates, "Result(best=0, stopped=True", "estimate"),
    "vectors": (_sphere, "Result(best=", "estimate"),
    "plan": (lambda: sp.plan(X, gap=0.1, noise_std=0.3), "Plan(pulls=", "in 8 of 10 runs"),
    "hopeless plan": (lambda: sp.plan(X, gap=1e-9, noise_std=0.3), "Plan(pulls=", "lower bound for any method"),
    "design": (lambda: sp.optimal_design(X), "Design(value=2", "weight of arm"),
    "new study": (new, "Study('trees' in memory)", "none yet"),
    "study": (_measured, "Study('trees' in memory)", "ash"),
}


class _Balance(HTMLParser):
    """Counts elements that are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.open = list[str]()
        self.seen = set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_one_line_in_a_terminal_and_a_table_in_a_notebook(name: str) -> None:
    """The table has no script and no colour, so that it fits light and dark notebooks."""
    make, begins, says = OBJECTS[name]
    shown: Any = make()
    text = repr(shown)
    assert text.startswith(begins)
    assert len(text) < 120
    assert "\n" not in text
    page = shown._repr_html_()
    assert says in page
    assert "color" not in page
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    assert parser.seen <= {"p", "table", "tr", "th", "td"}


def test_texts_of_others_are_shown_and_not_obeyed() -> None:
    """Names of arms and of studies, in results and in studies."""
    study = new(arms=X, name=HOSTILE.replace("\x1b", ""))
    results: list[Any] = [_result([HOSTILE.replace("\x1b", "") + str(n) for n in range(3)]), study]
    for one in results:
        page = one._repr_html_()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
