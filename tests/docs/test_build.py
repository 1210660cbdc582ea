"""The documentation as it is built: the parts that are made on the way, and the pages without a network."""

import re
import subprocess
import sys
from pathlib import Path

from docs.parts import mathml, purposes
from tests.waiting import LIMIT

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


def test_pages(tmp_path: Path) -> None:
    """They build without a warning, show formulas, and fetch nothing."""
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    pages = {path.stem: path.read_text("utf-8") for path in tmp_path.glob("*.html")}
    assert pages["guarantee"].count('<math xmlns="http://www.w3.org/1998/Math/MathML"') > 200
    assert [
        name for name, page in pages.items() if re.search(r'<(script|link|img)[^>]*(src|href)="(https?:)?//', page)
    ] == []
    shown = re.findall(r'<img class="only-(?:light|dark)" src="([^"]*)"', "".join(pages.values()))
    assert len(shown) >= 14
    assert [path for path in shown if not (tmp_path / path).is_file()] == []
    assert 'aria-level="2"><span class="caption-text">Tutorials' in pages["index"]
    assert [name for name, page in pages.items() if re.search(r'role="heading">|<pre>', page)] == []
    assert 'id="surepick.identify"' in (tmp_path / "api" / "identify.html").read_text("utf-8")
    assert purposes()["surepick.arms.base"] in pages["api"]


def opened_lists(page: str) -> list[str]:
    """Lines that begin a list in the middle of a formula, which is none then."""
    faults = []
    for paragraph in re.sub(r"```.*?```|\$\$.*?\$\$", "", page, flags=re.DOTALL).split("\n\n"):
        is_open = False
        for line in paragraph.splitlines():
            if is_open and re.match(r"\s*([-+*]|\d+[.)])\s", line):
                faults.append(line)
            is_open ^= len(re.findall(r"(?<!\\)\$", re.sub(r"`[^`]*`", "", line))) % 2 == 1
    return faults


def test_no_formula_is_broken_by_a_list() -> None:
    """Where a formula goes on in a new line, this line does not begin with a sign that Markdown takes for a list's."""
    assert opened_lists("Put $a\n- b$ here.\n\n- Put $c -\n  d$ here.") == ["- b$ here."]
    pages = {page.name: opened_lists(page.read_text("utf-8")) for page in (ROOT / "docs").glob("*.md")}
    assert {name: lines for name, lines in pages.items() if lines} == {}
