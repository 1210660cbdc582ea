"""The parts of the documentation that are made while it is built, and its reference."""

import re
from pathlib import Path

from docs.parts import mathml, purposes

ROOT = Path(__file__).parents[2]


def test_every_module_opens_with_its_purpose() -> None:
    """Every module has a docstring whose first line is one sentence."""
    assert len(purposes()) > 100
    assert [name for name, purpose in purposes().items() if not purpose.endswith(".")] == []


def test_formulas_are_made_of_mathml() -> None:
    """Names are set apart, a bracket with an exponent keeps its size, and no LaTeX is left."""
    code = mathml(r"\Big( \tfrac12 \log\det A \Big)^{1/2} \lVert x \rVert", "inline")
    assert "\\" not in code
    assert '<mo lspace="0.1em" rspace="0.1em">log</mo>' in code
    assert "<mn>1</mn><mn>2</mn>" in code
    assert '<msup><mspace height="0.9em" />' in code
    assert code.count('<mo stretchy="false" lspace="0" rspace="0">') == 2


def opened_lists(page: str) -> list[str]:
    """Lines that begin a list in the middle of a formula or of code, which is none then."""
    faults = []
    for paragraph in re.sub(r"```.*?```|\$\$.*?\$\$", "", page, flags=re.DOTALL).split("\n\n"):
        is_open = is_code = False
        for line in paragraph.splitlines():
            if (is_open or is_code) and re.match(r"\s*([-+*]|\d+[.)])\s", line):
                faults.append(line)
            is_code ^= line.count("`") % 2 == 1
            is_open ^= len(re.findall(r"(?<!\\)\$", re.sub(r"`[^`]*`", "", line))) % 2 == 1
    return faults


def test_no_formula_is_broken_by_a_list() -> None:
    """Where a formula or code goes on in a new line, this line does not begin with the sign of a list."""
    assert opened_lists("Put $a\n- b$ here.\n\n- Put $c -\n  d$ here.") == ["- b$ here."]
    assert opened_lists("Put `a\n* b` here.\n\n- Put `c *\n  d` here.\n- Put `e`.") == ["* b` here."]
    pages = {page.name: opened_lists(page.read_text("utf-8")) for page in (ROOT / "docs").glob("*.md")}
    assert {name: lines for name, lines in pages.items() if lines} == {}
