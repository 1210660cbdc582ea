"""Sphinx configuration: MyST pages, furo theme, warnings are errors (see the Makefile)."""

from pathlib import Path

about: dict[str, str] = {}
exec((Path(__file__).parents[1] / "src/surepick/_version.py").read_text(encoding="utf-8"), about)  # noqa: S102  our own file

project = "surepick"
author = "surepick contributors"
copyright = "surepick contributors"  # noqa: A001  the name Sphinx reads
version = release = about["__version__"]

extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nitpicky = True

exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"surepick {release}"
