"""The documentation as readers see it: every page in a browser, on a desk and on a phone; links lead somewhere.

The test with axe checks a page once, without repetitions: on a desk in light colours or on a phone in dark ones, in
turn. `python -m tests.docs.test_site FOLDER` checks the whole pages of a built site in all four ways.
"""

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from axe_playwright_python.sync_playwright import Axe

from docs.parts import mathml, purposes
from tests.browser import needs_browser, offline_context, open_browser
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
SCREENS = [(1280, "light"), (390, "dark")]
CUT = """() => {
  const wide = [...document.querySelectorAll(innerWidth > 1000 ? "pre, .formula" : ".formula")];
  const past = [...document.querySelectorAll("article math, article img, article h1, article h2, article dt")];
  const edge = document.documentElement.clientWidth + 1;
  const scrolls = part => part.closest("pre, .table-wrapper");
  return [
    ...wide.filter(part => part.scrollWidth > part.clientWidth + 1),
    ...past.filter(part => !scrolls(part) && part.getBoundingClientRect().right > edge),
    ...(document.documentElement.scrollWidth > innerWidth ? [document.body] : []),
  ].map(part => part.textContent.slice(0, 60));
}"""
"""What is cut off: code may scroll on a phone, formulas and the page itself never do."""
HIDDEN = """() => {
  const contents = document.querySelector(".toc-drawer:not(.no-toc)");
  return innerWidth > 1000 && contents !== null && contents.getBoundingClientRect().right > innerWidth + 1;
}"""
THIN = """() => {
  document.querySelectorAll("article math").forEach(part => { part.textContent = part.textContent; });
  document.querySelectorAll(`tr:nth-child(n + 4), li:nth-child(n + 5), section ~ section ~ section pre *,
    section ~ section ~ section ~ section table, dl.py ~ dl.py ~ dl.py, dd > dl.py ~ dl.py`)
    .forEach(part => part.remove());
}"""
"""Leaves out repetitions, which take axe most of its time: letters of formulas, rows, lists, colours of code."""
LEFT_OUT = re.compile(r"genindex|py-modindex|search|adr/00(?!01)\d\d-.*|api/(?!arms).*")
"""Pages that Sphinx makes; and decisions, and pages of the reference, of which one stands for all: they are alike."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages, with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with open_browser() as found:
        yield found


def pages(site: Path) -> list[Path]:
    """Return the pages."""
    found = sorted(site.rglob("*.html"))
    assert len(found) > 60
    return found


def cut_off(page: Any) -> list[str]:
    """Return the beginnings of what a reader cannot see."""
    return page.evaluate(CUT) + ["the contents on the right"] * page.evaluate(HIDDEN)


def faults(page: Any) -> list[str]:
    """Return what axe finds."""
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        for node in rule["nodes"]
    ]


def broken_links(site: Path) -> list[str]:
    """Return the links between pages whose page, file or anchor does not exist."""
    texts = {path.resolve(): path.read_text("utf-8") for path in pages(site)}
    anchors = {path: set(map(unescape, re.findall(r'\bid="([^"]*)"', text))) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        for link in map(unescape, re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            if re.match(r"[a-z]+:", link):
                continue
            address, anchor = map(unquote, urldefrag(link))
            target = (path.parent / address.partition("?")[0]).resolve() if address else path
            has_anchor = target.suffix != ".html" or not anchor or anchor in anchors.get(target, ())
            if not target.exists() or not has_anchor:
                broken.append(f"{path.name}: {link}")
    return broken


def test_pages(site: Path) -> None:
    """They show formulas, pictures and the reference, and fetch nothing."""
    found = {path.stem: path.read_text("utf-8") for path in site.glob("*.html")}
    assert found["guarantee"].count('<math xmlns="http://www.w3.org/1998/Math/MathML"') > 200
    assert [
        name for name, page in found.items() if re.search(r'<(script|link|img)[^>]*(src|href)="(https?:)?//', page)
    ] == []
    shown = re.findall(r'<img class="only-(?:light|dark)" src="([^"]*)"', "".join(found.values()))
    assert len(shown) >= 14
    assert [path for path in shown if not (site / path).is_file()] == []
    assert 'aria-level="2"><span class="caption-text">Tutorials' in found["index"]
    assert [name for name, page in found.items() if re.search(r'role="heading">|<pre>', page)] == []
    assert 'id="surepick.identify"' in (site / "api" / "identify.html").read_text("utf-8")
    assert purposes()["surepick.arms.base"] in found["api"]


def test_no_link_is_broken(site: Path, tmp_path: Path) -> None:
    """Every link, picture and style leads to a file of the site, and to an anchor where it names one."""
    assert broken_links(site) == []
    for n in range(70):
        (tmp_path / f"{n}.html").write_text('<p id="a b"></p><a href="1.html#a%20b">', "utf-8")
    (tmp_path / "0.html").write_text('<a href="#none"><a href="1.html#none"><img src="none.svg">', "utf-8")
    assert broken_links(tmp_path) == ["0.html: #none", "0.html: 1.html#none", "0.html: none.svg"]


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nothing_is_cut_off(site: Path, browser: Any, width: int, scheme: str) -> None:
    """No formula is wider than its page; on a desk no line of code is, and the contents are beside the text."""
    context = offline_context(browser, width)
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    cut = {}
    for path in pages(site):
        page.goto(path.as_uri())
        cut[path.name] = cut_off(page)
    assert {name: parts for name, parts in cut.items() if parts} == {}
    long = " + ".join(f"x_{{{n}}}" for n in range(99))
    for latex, is_cut in ((rf"\sqrt{{{long}}}", True), (long, False)):
        page.set_content(f'<article><div class="formula">{mathml(latex, "block")}</div></article>')
        assert bool(cut_off(page)) == is_cut
    context.close()


@needs_browser
def test_everybody_can_use_the_pages(site: Path, browser: Any) -> None:
    """Contrast, landmarks, texts of pictures and the rest of axe's rules."""
    screens = [offline_context(browser, width).new_page() for width, _ in SCREENS]
    for page, (_, scheme) in zip(screens, SCREENS, strict=True):
        page.emulate_media(color_scheme=scheme)
    found = {}
    names = {path: path.relative_to(site).with_suffix("").as_posix() for path in pages(site)}
    checked = [path for path, name in names.items() if not LEFT_OUT.fullmatch(name)]
    for path, page in zip(checked, itertools.cycle(screens), strict=False):
        page.goto(path.as_uri())
        page.evaluate(THIN)
        found[path.name] = faults(page)
    assert {name: rules for name, rules in found.items() if rules} == {}
    page.set_content('<html lang="en"><title>A</title><main><h1>A</h1><img src="a.svg"></main>')
    assert [fault.split(":")[0] for fault in faults(page)] == ["image-alt"]
    for page in screens:
        page.context.close()


def main() -> None:
    """Check all pages of a built site on both screens, in both colours."""
    with open_browser() as browser:
        for width in (1280, 390):
            page = offline_context(browser, width).new_page()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                for path in pages(Path(sys.argv[1]).resolve()):
                    page.goto(path.as_uri())
                    for fault in cut_off(page) + faults(page):
                        sys.stdout.write(f"{path.name}, {width} px, {scheme}: {fault}\n")


if __name__ == "__main__":
    main()
