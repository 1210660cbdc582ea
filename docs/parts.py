"""Parts of the documentation that are made when it is built: formulas, anchors and the list of modules."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "surepick"


def mathml(latex: str, display: str) -> str:
    """A formula as browsers show it by themselves: no script, no network."""
    from latex2mathml.converter import convert  # noqa: PLC0415 (the rest needs no more than Python)

    code = convert(latex, display=display)
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
