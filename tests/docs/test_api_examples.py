"""Every name of the API reference has an example with its output, and every public name is in the reference."""

import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import surepick
import surepick.testing
from surepick.simulation import problems
from tests.docs.test_examples import blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
NAMED = re.compile(r"^\.\. auto(?:function|class|exception|data):: (\S+)$", re.MULTILINE)
WHOLE = re.compile(r"^\.\. automodule:: (\S+)\n +:members:$", re.MULTILINE)
SECTION = re.compile(r"^(?=## )", re.MULTILINE)


def documented(text: str) -> list[str]:
    """The names that a text of the reference documents, with their modules."""
    members = [f"{name}.{member}" for name in WHOLE.findall(text) for member in own_names(name)]
    return [*NAMED.findall(text), *members]


def own_names(module: str) -> Iterator[str]:
    """The public functions and classes that a module defines itself."""
    for name, value in vars(import_module(module)).items():
        is_code = inspect.isclass(value) or inspect.isfunction(value)
        if is_code and value.__module__ == module and not name.startswith("_"):
            yield name


def has_doctest(name: str) -> bool:
    """Whether the docstring of a name has an example that prints something; doctests run with the other tests."""
    module, _, attribute = name.rpartition(".")
    text = inspect.getdoc(getattr(import_module(module), attribute)) or ""
    return any(example.want for example in doctest.DocTestParser().get_examples(text))


def without_example(page: str) -> Iterator[str]:
    """The names of a page that no example shows: neither their docstring nor a block of their section that prints."""
    for section in SECTION.split(page):
        pairs = [(code, output) for code, output in pairwise(blocks(section)) if output.kind == "output"]
        shown = "".join(code.text for code, _ in pairs if code.kind == "python")
        for name in documented(section):
            if not has_doctest(name) and not re.search(rf"\b{name.rpartition('.')[2]}\b", shown):
                yield name


def test_every_name_of_the_reference_has_an_example() -> None:
    """An example of a name stands beside its description, runs (`test_examples.py`), and shows its output."""
    assert {page.name: names for page in PAGES if (names := list(without_example(page.read_text("utf-8"))))} == {}


def test_a_name_without_an_example_is_found() -> None:
    """A block that prints nothing, an example of another section and the docstring of another name do not count."""
    page = (
        "```python\nsp.plan(X)\n```\n## two\n```output\n3\n```\n```{eval-rst}\n.. autofunction:: surepick.plan\n```\n"
    )
    assert list(without_example(page)) == []  # its docstring has one
    other = page.replace("surepick.plan", "surepick.optimal_design").replace("sp.plan", "sp.optimal_design")
    assert list(without_example(other)) == ["surepick.optimal_design"]
    shown = other.replace("## two\n", "")
    assert list(without_example(shown)) == []


def test_every_public_name_is_in_the_reference() -> None:
    """Those of the package, its errors, its problems, all algorithms and stopping rules, and the contracts."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    found = {name.removeprefix("surepick.") for name in documented(text)}
    last = {name.rpartition(".")[2] for name in found}
    modules = {name for name in surepick.__all__ if inspect.ismodule(getattr(surepick, name))}
    errors = {name for name in own_names("surepick.errors") if name[0].isupper()}
    classes = {type(surepick.algorithms.as_algorithm(name, {})[0]).__name__ for name in surepick.algorithms.names()}
    contracts = {name for name, value in vars(surepick.testing).items() if callable(value)}
    assert modules == {"algorithms", "stopping", "problems", "testing"}
    assert {"check_rule", "ArmSetContract"} <= contracts
    assert set(surepick.__all__) - modules - {"__version__"} - errors <= found
    assert {f"stopping.{name}" for name in surepick.stopping.__all__} <= found
    assert {f"simulation.problems.{name}" for name in own_names(problems.__name__)} <= found
    assert {"algorithms.names"} | {f"testing.{name}" for name in contracts} | {f"errors.{n}" for n in errors} <= found
    assert classes <= last
