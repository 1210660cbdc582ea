"""Sphinx configuration: MyST pages, furo theme, warnings are errors (see the Makefile)."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the package of this folder, whatever is installed

from docs.parts import anchored, mathml, module_table  # noqa: E402
from docs.pictures import html, sheets, themed  # noqa: E402
from surepick._version import __version__  # noqa: E402

project = "surepick"
author = "surepick contributors"
copyright = "surepick contributors"  # noqa: A001  the name Sphinx reads
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "deflist", "substitution"]
myst_substitutions = {"modules": module_table(), "picture": themed(html("rivals", sheets()["rivals"].alt))}
myst_heading_anchors = 3
nitpicky = True
# Annotations name types of NumPy and of our own that have no page.
nitpick_ignore_regex = [("py:.*", ".*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
default_role = "literal"  # docstrings put code into single backticks

exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"surepick {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = html_copy_source = False
html_math_renderer = "mathml"


def visit_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula in a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_displaymath(translator: Any, node: nodes.Element) -> None:
    """Write a formula of its own."""
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def before_napoleon(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings write |x| for a size, which would be markup, and a colon in that of a property is no type's."""
    lines[:] = [re.sub(r"(`[^`]*`)|[|]", lambda match: match[1] or r"\|", line) for line in lines]
    if what in {"property", "attribute"}:
        lines.insert(0, "")


def make_accessible(_app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Give captions of the navigation the level of their heading, and let the keyboard scroll code and tables.

    The corner of a table is no heading, and the lines of a signature are no list of definitions.
    """
    for part, was, better in (
        ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
        ("body", "<pre>", '<pre tabindex="0">'),
        ("body", '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
        ("body", r'<th class="head">(<p></p>)?</th>', '<td class="head"></td>'),
        ("body", r'<dd>(<em class="sig-param">.*?)</dd>', r'<span class="parameter">\1</span>'),
        ("body", r'<dl>(\s*<span class="parameter">.*?)</dl>', r"\1"),
    ):
        context[part] = re.sub(was, better, context.get(part, ""), flags=re.DOTALL)


def name_sidebars(app: Any, failure: Exception | None) -> None:
    """Name both side columns of the theme, which readers of a screen cannot tell apart, and the page of the search."""
    if failure is None and app.builder.name == "html":
        for path in Path(app.outdir).rglob("*.html"):
            page = path.read_text("utf-8").replace('<aside class="sidebar', '<aside aria-label="Site" class="sidebar')
            page = page.replace('<aside class="toc', '<aside aria-label="On this page" class="toc')
            page = page.replace('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">')
            path.write_text(page, "utf-8")


def before_parsing(_app: Any, _name: str, source: list[str]) -> None:
    """Let pictures follow the switch between light and dark, and links find anchors."""
    source[0] = anchored(themed(source[0]))


def keep_together(_app: Any, tree: nodes.document) -> None:
    """Break no line between a number and its percent sign or standard error, nor within 1e-10."""
    for text in list(tree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.math | nodes.math_block | nodes.raw):
            kept = re.sub(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)|(?<=\d) (?=\([\d.]+\))", "\N{NO-BREAK SPACE}", text)
            kept = re.sub(r"(?<=\de)-(?=\d)", "\N{NON-BREAKING HYPHEN}", kept)
            if kept != text:
                text.parent.replace(text, nodes.Text(kept))


def setup(app: Any) -> None:
    """Tell Sphinx about all of these."""
    app.connect("source-read", before_parsing)
    app.connect("doctree-read", keep_together)
    app.connect("html-page-context", make_accessible, priority=900)  # after the theme has made the navigation
    app.connect("build-finished", name_sidebars)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
