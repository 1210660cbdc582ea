"""The page of a result: what is on it, that names cannot harm it, and how it looks in a real browser."""

import math
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

import surepick as sp
from tests.browser import needs_browser, offline_context, open_browser

NAMES = ["<script>alert(1)</script>", "$x$", "a name that is far too long for any label & more " * 2, "ü漢", "E", "F"]
X = np.array([[1, 0.1, 0.9], [1, 0.5, 0.2], [1, 0.9, 0.6], [1, 0.3, 0.4], [1, 0.8, 0.1], [1, 0.6, 0.7]])
THETA = np.array([0.2, 1.0, 0.3])


class Table(dict[str, Any]):
    """The little of a data frame that makes named features."""

    columns = ("constant", "<b>gloss</b>", "drying")

    def __len__(self) -> int:
        return len(X)


def made(state: str) -> sp.Result:  # noqa: PLR0911
    """Return a result in some state."""
    rng = np.random.default_rng(0)
    arms = sp.FiniteArms(Table(zip(Table.columns, X.T, strict=True)), names=NAMES)

    def measure(arm: int, size: float = 0.1) -> float:
        return float(X[arm] @ THETA + size * rng.standard_normal())

    match state:
        case "decided":
            return sp.identify(arms, measure, audit=12)
        case "undecided":
            return sp.identify(arms, lambda arm: measure(arm, 3.0), noise_std=3.0, max_pulls=40)
        case "nothing":
            return sp.identify(arms, measure, max_pulls=1)
        case "withdrawn":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sp.NoiseWarning)
                return sp.identify(arms, lambda arm: measure(arm, 5.0), noise_std=0.1, max_pulls=60)
        case "vectors":
            truth = np.array([0.6, 0.8])
            return sp.identify(sp.Sphere(2), lambda x: float(x @ truth) + 0.1 * rng.standard_normal(), epsilon=0.1)
        case "candidates":
            return sp.identify(arms, measure, candidates=X[[1, 4]] * 1.1, noise_std=0.1)
        case "many":
            rows = np.random.default_rng(1).normal(size=(2000, 3))
            return sp.identify(rows, lambda arm: rows[arm] @ THETA + 0.1 * rng.standard_normal(), noise_std=0.1)
    raise AssertionError(state)


STATES = ("decided", "undecided", "nothing", "withdrawn", "vectors", "candidates", "many")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page for every state."""
    folder = tmp_path_factory.mktemp("pages")
    for state in STATES:
        made(state).report(folder / f"{state}.html", command="surepick run --arms 'a b.csv'")
    return folder


def text_of(page: Path) -> str:
    """Return the words of a page."""
    return re.sub(r"<[^>]*>", " ", page.read_text("utf-8").partition("<body>")[2])


def test_page_says_everything(pages: Path) -> None:
    """Verdict, runner-up, every arm, coefficients with their names, four pictures, assumptions, how to do it again."""
    page = pages / "decided.html"
    html, text = page.read_text("utf-8"), text_of(page)
    result = made("decided")
    assert "Decided" in text
    assert "is the best of 6 arms" in text
    assert "Leader against runner-up" in text
    assert "Behind the leader" in text
    assert len(re.findall("<figure>.*?<svg.*?</figure>", html, re.DOTALL)) == 4
    assert "&lt;b&gt;gloss&lt;/b&gt;" in html
    assert "tested by 12 check pulls" in text
    assert "chosen before its reward was seen" in text
    assert "surepick run --arms &#39;a b.csv&#39;" in text
    assert f"seed={result.seed}" in text
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "http:" not in html.replace("http://www.w3.org", "")
    assert "https:" not in html


def test_pages_of_other_states(pages: Path) -> None:
    """What cannot be said is left out, and nothing that was withdrawn is asserted."""
    texts = {state: text_of(pages / f"{state}.html") for state in STATES}
    assert "Not decided (40 pulls). Leader " in texts["undecided"]
    assert "Leader against runner-up" in texts["undecided"]
    assert "No leader yet" in texts["nothing"]
    assert "Coefficients" not in texts["nothing"]
    assert "No answer can be defended" in texts["withdrawn"]
    assert "is the best of" not in texts["withdrawn"]
    assert "Leader against" not in texts["withdrawn"]
    assert "Which arm of the unit sphere in R^2 is the best?" in texts["vectors"]
    assert not re.search("leader|excluded", texts["withdrawn"].partition("Figures")[2].partition("All arms")[0])
    assert "Estimates of 2 candidates" in texts["candidates"]
    assert "All candidates" in texts["candidates"]
    assert "All arms" in texts["candidates"]
    assert "The first 1,000 of 2,000 rows; the result&#39;s `to_frame` has all." in texts["many"]
    assert 900 <= texts["many"].count("predicted") <= 1_000
    for text in texts.values():
        assert not re.search(r"\bnan\b|\binf\b", text)


def test_page_is_the_same_from_a_saved_result(pages: Path, tmp_path: Path) -> None:
    """The file has all that the page needs, the names of the features included; same result, same bytes."""
    made("decided").save(tmp_path / "r.json")
    loaded = sp.Result.load(tmp_path / "r.json")
    loaded.report(tmp_path / "r.html", command="surepick run --arms 'a b.csv'")
    assert loaded.feature_names == Table.columns
    assert (tmp_path / "r.html").read_bytes() == (pages / "decided.html").read_bytes()


def test_page_of_a_file_of_the_version_before(tmp_path: Path) -> None:
    """Without the newer fields there is less to show, and no error."""
    old = sp.Result.load(Path(__file__).parents[1] / "learning" / "result-version-3.json")
    old.report(tmp_path / "old.html", title="Old & good")
    assert "<h1>Old &amp; good</h1>" in (tmp_path / "old.html").read_text("utf-8")


@pytest.mark.filterwarnings("ignore:Glyph")  # no font has all scripts
@pytest.mark.parametrize("name", ["estimates", "evidence", "fit", "pulls"])
def test_figures_can_be_had_alone(name: str, tmp_path: Path) -> None:
    """Each is a matplotlib figure; those that name arms show thirty of many."""
    for state in ("decided", "many"):
        figure = getattr(made(state), f"plot_{name}")()
        figure.savefig(tmp_path / "f.png")
        assert (tmp_path / "f.png").stat().st_size > 5_000
        if name == "estimates":
            assert len(figure.axes[0].get_yticks()) == (6 if state == "decided" else 30)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is not there, and libraries that are not installed, are said in one sentence."""
    with pytest.raises(sp.InvalidInput, match="folder that exists"):
        made("undecided").report(tmp_path / "no" / "r.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(sp.SurepickError, match=r"surepick\[report\]"):
        made("undecided").report(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_needs_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only figures for papers do."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    made("undecided").report(tmp_path / "r.html")
    assert "<svg" in (tmp_path / "r.html").read_text("utf-8")
    with pytest.raises(sp.SurepickError, match=r"surepick\[figures\]"):
        made("undecided").plot_estimates()


def test_measured_means_are_those_of_the_rewards() -> None:
    """Also after corrections; arms never measured have none."""
    result = made("undecided")
    columns = result.to_columns()
    for arm in range(6):
        rewards = [reward for pulled, reward in result.history if pulled == arm]
        mean = columns["measured"][arm]
        assert math.isnan(mean) if not rewards else mean == pytest.approx(np.mean(rewards))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with open_browser() as browser:
        yield browser


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_in_a_browser_without_a_network(browser: Any, pages: Path, tmp_path: Path, width: int) -> None:
    """Nothing sticks out, nothing is fetched, nothing runs, nothing is complained about; paper takes it too."""
    context = offline_context(browser, width)
    for state in STATES:
        page = context.new_page()
        requests: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request, seen=requests: seen.append(request.url))
        page.on("console", lambda message, seen=complaints: seen.append(message.text))
        page.on("pageerror", lambda error, seen=complaints: seen.append(str(error)))
        page.on("dialog", lambda dialog, seen=complaints: seen.append(dialog.message))
        page.goto((pages / f"{state}.html").as_uri(), wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), state
        charts = "[...document.querySelectorAll('svg[role=img]')]"
        assert page.evaluate(f"{charts}.every((chart) => chart.getBoundingClientRect().width > 100)"), state
        parts = "[...document.querySelectorAll('.box, .chart, pre')]"
        assert page.evaluate(f"{parts}.every((part) => part.getBoundingClientRect().right <= innerWidth)"), state
        assert {url.split(":")[0] for url in requests} <= {"file", "data"}
        assert complaints == []
        if width == 1280 and state in ("decided", "withdrawn"):
            page.pdf(path=tmp_path / "page.pdf")
            assert (tmp_path / "page.pdf").stat().st_size > 20_000
        page.close()
    context.close()


def test_a_page_shows_no_empty_chart_and_no_rank_of_nothing(tmp_path: Path) -> None:
    """Before the first evidence there is no chart of it; before an estimate no rank and no prediction."""
    rng, arms = np.random.default_rng(0), sp.FiniteArms(np.eye(4), names=list("ABCD"))
    for n, absent in (
        (2, ("predicted", "Evidence over pulls")),
        (40, ("Evidence over pulls", "Measured means against")),
    ):
        result = sp.identify(arms, lambda _: 20.123 + rng.standard_normal(), model="unstructured", max_pulls=n)
        result.report(tmp_path / "page.html", notes=["The budget is spent.", "  surepick reopen"])
        text = text_of(tmp_path / "page.html")
        assert not [words for words in absent if words in text]
        assert "The budget is spent." in text
    assert "<code>  surepick reopen</code>" in (tmp_path / "page.html").read_text("utf-8")
    assert "Thick: likely, an estimate and not a guarantee." in text
    assert "Likely" in text.partition("Figures")[0]


def test_all_leaders_are_marked_as_leaders() -> None:
    """In both charts, if several are sought."""
    rng = np.random.default_rng(0)
    result = sp.identify(X, lambda arm: X[arm] @ THETA + 0.1 * rng.standard_normal(), m=2, max_pulls=60)
    measured = [arm for arm in result.best if result.counts.get(arm)]
    for canvas, leaders in ((result.plot_estimates(), result.best), (result.plot_fit(), measured)):
        (drawn,) = [one for one in canvas.axes[0].containers if one.get_label() == "leader"]
        assert len(drawn.lines[0].get_xdata()) == len(leaders) == 2


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_are_for_everybody(browser: Any, pages: Path, width: int, scheme: str) -> None:
    """A check of accessibility finds nothing: words for charts, headers, contrast in light and dark."""
    # The policy of a page runs no script, the checker's included.
    window = {"width": width, "height": 844}
    context = browser.new_context(viewport=window, color_scheme=scheme, bypass_csp=True, offline=True)
    for state in ("decided", "undecided", "withdrawn"):
        page = context.new_page()
        page.goto((pages / f"{state}.html").as_uri(), wait_until="load")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.close()
    context.close()
