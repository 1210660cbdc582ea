"""Parts of the documentation that are made when it is built: formulas, anchors and the list of modules."""

import ast
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

PACKAGE = Path(__file__).parents[1] / "src" / "surepick"
MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML"'
LONG = 22
"""Formulas of more characters may break: a phone shows about 35 in a line."""
RELATIONS = "=≤≥<>≠∈\u223c~∝⪰⪯≈→:≔⊆\u2223"
OPERATORS = "+\u2212-±⋅\u00d7∧\u2228"
FUNCTIONS = re.compile("[a-z]{2,}|[∑∫∏√].*", re.DOTALL)


def mathml(latex: str, display: str) -> str:
    """A formula as browsers show it by themselves: no script, no network; a long one is several, to break between."""
    from latex2mathml.converter import convert  # noqa: PLC0415 (the rest needs no more than Python)

    latex = re.sub(r"\\([bB]igg?)\\[lr]vert(?![a-z])", r"\\\1|", latex)
    lines = re.split(r"\\\\", re.sub(r"\\(begin|end){aligned}|&", "", latex))  # browsers align no lines
    return "<br>".join(_breakable(_improved(convert(line, display=display)), display) for line in lines)


def _improved(code: str) -> str:
    for pattern, better in (
        # Without a little space one cannot see where log, det and the like end.
        (r"<(m[io])[^>]*>([a-z]{2,})</\1>", r'<mo lspace="0.1em" rspace="0.1em">\2</mo>'),
        # Bars would stretch on one side only, and a large bracket with an exponent not at all.
        (r"<mo>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'),
        (r"<msup>(<mo minsize=[^>]*>[^<]*</mo>)", r'\1<msup><mspace height="0.9em" />'),
        # The order of matrices is a relation, infinity is a number.
        (r"<mi>(&#x02AB0;|&#x02AAF;)</mi>", r"<mo>\1</mo>"),
        (r"<mo>(&#x0221E;)</mo>", r"<mi>\1</mi>"),
    ):
        code = re.sub(pattern, better, code)
    return code


def _breakable(code: str, display: str) -> str:
    """Cut a long formula into pieces, because browsers break lines between formulas and never within one."""
    row = ET.fromstring(code.replace(MATH, "<math"))  # noqa: S314 (made above)
    while len(row) == 1 and row[0].tag == "mrow":
        row = row[0]
    parts = [word for part in row for word in _words(part)]
    if _length(parts) <= LONG:
        return code
    style = ' displaystyle="true"' if display == "block" else ""
    pieces = ["".join(ET.tostring(part, "unicode") for part in piece) for piece in _pieces(parts, 0)]
    return "<wbr>".join(f"{MATH}{style}><mrow>{piece}</mrow></math>" for piece in pieces)


def _words(part: ET.Element) -> list[ET.Element]:
    """Split a text into its words."""
    if part.tag != "mtext":
        return [part]
    words = []
    for text in re.findall(r"\s*[^\s]+\s*|\s+", part.text or ""):
        words.append(ET.Element("mtext"))
        words[-1].text = re.sub(r"\s", "\N{NO-BREAK SPACE}", text)
    return words


def _text(part: ET.Element) -> str:
    return "".join(part.itertext())


def _length(parts: list[ET.Element]) -> int:
    return sum(len(_text(part)) for part in parts)


def _pieces(parts: list[ET.Element], level: int) -> list[list[ET.Element]]:
    """Cut where the reader expects a break: outside brackets before inside, at relations before operators."""
    if _length(parts) <= LONG or level == 9:
        return [parts]
    depths, depth = [], 0
    for part in parts:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(_text(part)[:1], 0)
        depths.append(depth)
    pieces = [parts[:1]]
    for (before, part), within in zip(pairwise(parts), depths[1:], strict=True):
        if within <= level // 3 and _may_break(before, part) <= level % 3:
            if part.tag == "mo" and _text(part) in RELATIONS + OPERATORS:
                part.set("form", "infix")  # also where it is the first of its piece
            pieces.append([])
        pieces[-1].append(part)
    return [shorter for piece in pieces for shorter in _pieces(piece, level + 1)]


def _may_break(before: ET.Element, part: ET.Element) -> int:
    """Say how bad a break between two parts is: 0 to 2, or 3 for none."""
    first, second = _text(before), _text(part)
    if first == "," or before.get("width") in ("1em", "2em") or (before.tag == "mtext" and part.tag == "mtext"):
        return 0 if part.tag != "mspace" else 3
    if before.tag == "mo" and first not in ")]}":
        return 3
    if part.tag == "mo" and second in RELATIONS:
        return 0
    if part.tag == "mo" and second in OPERATORS:
        return 1
    return 2 if part.tag in ("mfrac", "mtext") or FUNCTIONS.fullmatch(second) else 3


def anchored(page: str) -> str:
    """Return a page whose anchors are targets: links to a missing one are an error then. GitHub shows neither form."""
    return re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", page, flags=re.MULTILINE)


def purposes() -> dict[str, str]:
    """Every module of the package and the first line of its docstring, by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["surepick", *path.relative_to(PACKAGE).with_suffix("").parts]
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        found[".".join(parts).removesuffix(".__init__")] = (docstring or "").split("\n")[0]
    return dict(sorted(found.items()))


def module_table() -> str:
    """The modules in Markdown."""
    rows = [f"| `{name}` | {purpose} |" for name, purpose in purposes().items()]
    return "\n".join(["| module | purpose |", "|---|---|", *rows])
