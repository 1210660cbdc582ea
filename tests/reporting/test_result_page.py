"""The page of a result: what is on it, that names cannot harm it, and how it looks in a real browser."""

import math
import pickle
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

import surepick as sp
from surepick.learning.groups import GroupEffect
from surepick.reporting import result_page, study_page
from surepick.reporting.result_figures import figures_of, points_of
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
        case "three":
            return sp.identify(X, measure, m=3, audit=6)
        case "many":
            rows = np.random.default_rng(1).normal(size=(2000, 3))
            return sp.identify(rows, lambda arm: rows[arm] @ THETA + 0.1 * rng.standard_normal(), noise_std=0.1)
    raise AssertionError(state)


STATES = ("decided", "undecided", "nothing", "withdrawn", "vectors", "candidates", "three", "many")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page for every state."""
    folder = tmp_path_factory.mktemp("pages")
    for state in STATES:
        made(state).report(folder / f"{state}.html", command="surepick run --arms 'a b.csv'")
    return folder


def html_of(page: Path) -> str:
    """Return a page without the marks that keep a number beside its percent sign."""
    return re.sub(r'<span class="whole">([^<]*)</span>', r"\1", page.read_text("utf-8"))


def text_of(page: Path) -> str:
    """Return the words of a page."""
    return re.sub(r"<[^>]*>", " ", html_of(page).partition("<body>")[2])


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
    """The file has all that the page needs but the arms, whose recipes the caller gives; same result, same bytes."""
    result = made("decided")
    result.save(tmp_path / "r.json")
    loaded = sp.Result.load(tmp_path / "r.json")
    assert loaded.feature_names == Table.columns
    winner = dict(zip(Table.columns[1:], X[result.best][1:].tolist(), strict=True))
    for some, path in ((loaded, "loaded.html"), (pickle.loads(pickle.dumps(result)), "pickled.html")):
        some.report(tmp_path / path, command="surepick run --arms 'a b.csv'")
        assert "consists of" not in text_of(tmp_path / path)
        some.report(tmp_path / path, command="surepick run --arms 'a b.csv'", recipes={NAMES[result.best]: winner})
        shown = (pages / "decided.html").read_text("utf-8")
        assert shown.partition("<h2>")[1:][1].partition("<h2>")[0] in (tmp_path / path).read_text("utf-8")


def test_table_of_groups(tmp_path: Path) -> None:
    """Groups stand with their offsets, as estimates; a result that was saved has them again."""
    effects = (
        GroupEffect((("bench", "<b>"),), 12, 0.53, 0.2, "bench <b> reads high"),
        GroupEffect((("group", "day 3"),), 1, math.nan, math.inf),
    )
    result = replace(made("decided"), groups=effects)
    table = result_page.groups_of(result, "kg")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["bench <b>", "bench <b> reads high", "12", "0.53", "0.33 to 0.73"],
        ["day 3", "", "1", "-", "-"],
    ]
    assert table.headers[3] == "Reads higher by (kg)"
    assert "Estimates, no guarantee" in table.note
    result.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h2>Groups</h2>" in text
    assert "bench &lt;b&gt; reads high" in text
    made("decided").report(tmp_path / "plain.html")
    assert "<h2>Groups</h2>" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    result.save(tmp_path / "result.json")
    again = sp.Result.load(tmp_path / "result.json").groups
    assert again[0] == effects[0]
    assert (again[1].label, again[1].half_width, math.isnan(again[1].offset)) == (effects[1].label, math.inf, True)


def test_measured_means_beside_the_fit_are_without_the_offsets_of_their_groups() -> None:
    """An arm that was measured on a day that reads high lies on the line if it fits the model."""
    rng, days = np.random.default_rng(0), {"1": 0.0, "2": 50.0, "3": 0.0}
    arms = np.column_stack([np.ones(8), np.arange(8.0), np.arange(8.0) % 3])
    learner = sp.create_learner("lazy-track-and-stop", arms, groups="offset", epsilon=0.01)
    for day, offset in days.items():
        for arm in learner.next_arms(8, group={"day": day}):
            learner.tell(arm, float(arms[arm] @ [1.0, 2.0, 3.0]) + offset + 0.1 * rng.standard_normal())
    result = learner.result()
    points = points_of(result)
    assert {point.name for point in points} == {str(arm) for arm in result.counts}
    assert max(abs(point.measured - point.fitted) for point in points) < 0.5
    assert max(abs(mean - result.arms.estimate[arm]) for arm, mean in result.measured().items()) > 5.0
    fit = next(one for one in figures_of(result, "kg") if one.kind == "scatter")
    assert fit.caption.startswith("Measured means, without the offsets of the groups, against the fit in kg")


def test_one_day_alone_moves_all_means_alike() -> None:
    """Its offset is not known, and no picture needs it."""
    rng, arms = np.random.default_rng(0), np.column_stack([np.ones(6), np.arange(6.0)])
    learner = sp.create_learner("lazy-track-and-stop", arms, groups="offset", epsilon=0.01)
    for arm in learner.next_arms(8, group="day 1"):
        learner.tell(arm, float(arm) + 0.1 * rng.standard_normal())
    result = learner.result()
    assert math.isnan(result.groups[0].offset)
    assert {point.name: point.measured for point in points_of(result)} == pytest.approx(
        {str(arm): mean for arm, mean in result.measured().items()}
    )


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
        # A phone has one scroller up and down; no line breaks between a number and its %, or inside a date.
        boxes = page.evaluate("[...document.querySelectorAll('.box')].map((box) => getComputedStyle(box).maxHeight)")
        assert {*boxes} == {"none" if width == 390 else "672px"}
        whole = page.evaluate("[...document.querySelectorAll('.whole')].map((one) => one.getClientRects().length)")
        assert {*whole} == {1}, state
        assert {url.split(":")[0] for url in requests} <= {"file", "data"}
        assert complaints == []
        if width == 1280 and state in ("decided", "withdrawn"):
            paper = page.pdf(path=tmp_path / "page.pdf")
            assert len(paper) > 20_000
            assert 2 <= paper.count(b"/Type /Page\n") <= 4
            page.emulate_media(media="print")
            # A short table stays whole, and a long one has at least two rows on a page.
            breaks = "(where, kind) => [...document.querySelectorAll(where)].map((one) => getComputedStyle(one)[kind])"
            assert {*page.evaluate(f"({breaks})('.short, .step', 'breakInside')")} == {"avoid"}
            assert {*page.evaluate(f"({breaks})('tbody tr:first-child', 'breakAfter')")} == {"avoid"}
            assert {*page.evaluate(f"({breaks})('tbody tr:nth-last-child(2)', 'breakAfter')")} == {"avoid"}
            assert {*page.evaluate(f"({breaks})('h2', 'breakAfter')")} == {"avoid"}
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


def table_of(page: Path, title: str) -> list[list[str]]:
    """Return the cells of a table of a page, its headers first; small print is left out."""
    part = html_of(page).partition(f"<h2>{title}</h2>")[2].partition("</table>")[0]
    rows = re.sub(r"<small>.*?</small>", "", part).split("<tr")[1:]
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]


def column(rows: list[list[str]], header: str) -> list[str]:
    """Return a column of a table."""
    return [row[rows[0].index(header)] for row in rows[1:]]


def test_words_are_explained_and_settings_are_folded(pages: Path) -> None:
    """A reader who knows neither arms nor pulls learns both above the verdict; no settings stand in the open."""
    text = text_of(pages / "decided.html")
    above, _, _ = text.partition("is the best of")
    assert "An arm is one of the options" in above
    assert "A pull is one measurement" in above
    assert "A check pull is" in above
    assert "A check pull is" not in text_of(pages / "undecided.html")
    html = (pages / "decided.html").read_text("utf-8")
    in_the_open = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert "LazyTrackAndStop(" in html
    assert "LazyTrackAndStop(" not in in_the_open


def test_page_says_of_what_the_winner_consists(pages: Path, tmp_path: Path) -> None:
    """Of a table of features, of vectors, of candidates, and of what the caller says; not of a withdrawn answer."""
    best = X[made("decided").best]
    rows = table_of(pages / "decided.html", "What the winner consists of")
    assert rows[1:] == [["&lt;b&gt;gloss&lt;/b&gt;", f"{best[1]:g}"], ["drying", f"{best[2]:g}"]]
    assert len(table_of(pages / "vectors.html", "What the winner consists of")) == 1 + 2
    chosen = (X[[1, 4]] * 1.1)[made("candidates").best]
    assert table_of(pages / "candidates.html", "What the winner consists of")[-1][1] == f"{chosen[2]:g}"
    assert "What the leader consists of" in text_of(pages / "undecided.html")
    assert "consists of" not in text_of(pages / "withdrawn.html")
    made("undecided").report(tmp_path / "r.html", recipes={name: {"binder": "alkyd", "extra": None} for name in NAMES})
    assert table_of(tmp_path / "r.html", "What the leader consists of")[1:] == [["binder", "alkyd"], ["extra", "-"]]


def test_a_withdrawn_answer_is_not_crowned(pages: Path) -> None:
    """No ranks, no highlighted row, no distance to a leader; the headline is short."""
    html = (pages / "withdrawn.html").read_text("utf-8")
    assert '<p class="verdict">No answer can be defended.</p>' in html
    rows = table_of(pages / "withdrawn.html", "All arms")
    assert set(column(rows, "Rank")) == {"-"}
    assert "Behind the leader" not in html
    assert '<tr class="first">' not in html
    pulls = [int(n) for n in column(rows, "Pulls")]
    assert pulls == sorted(pulls, reverse=True)
    assert '<tr class="first">' in (pages / "decided.html").read_text("utf-8")


def test_three_winners_are_three(pages: Path) -> None:
    """All are highlighted and described, and the last of them is compared with the first arm that is left out."""
    page, result = pages / "three.html", made("three")
    assert result.stopped
    html = page.read_text("utf-8").partition("<h2>All arms</h2>")[2]
    assert html.count('<tr class="first">') == 3
    assert html.partition("</tbody>")[0].rindex('class="first"') < html.index("<tr><td")
    ranking = table_of(page, "All arms")
    assert {int(name) for name in column(ranking, "Arm")[:3]} == {*result.best}
    assert column(ranking, "Behind the last winner")[:3] == ["-"] * 3
    rows = table_of(page, "The last of the 3 winners against the first arm left out")
    assert [row[:2] for row in rows[1:3]] == [
        ["Last of the 3 winners", f"arm {result.leader}"],
        ["First left out", f"arm {result.rival}"],
    ]
    assert rows[3][0] == "Lead over the first left out"
    assert len(table_of(page, "What the 3 winners consist of")[0]) == 1 + 3
    assert "Leader against" not in text_of(page)


@pytest.mark.parametrize("state", ["decided", "three", "undecided"])
def test_pulls_are_counted_alike_in_tables_and_picture(pages: Path, state: str) -> None:
    """Check pulls have a column of their own; the sums are those of the summary."""
    page, result = pages / f"{state}.html", made(state)
    rows = table_of(page, "All arms")
    pulls = [int(n) for n in column(rows, "Pulls")]
    assert sum(pulls) == result.n_pulls - result.n_checks
    drawn = re.findall(r'<span class="number" aria-hidden="true">(\d+)</span>', page.read_text("utf-8"))
    assert sorted(map(int, drawn)) == sorted(n for n in pulls if n)
    top = next(title for title in re.findall("<h2>(.*?)</h2>", page.read_text("utf-8")) if "against" in title)
    ahead = table_of(page, top)  # check pulls may have changed the order of several winners
    place = column(rows, "Arm").index(column(ahead, "Arm")[0].removeprefix("arm "))
    assert place < result.m
    assert column(ahead, "Pulls")[0] == str(pulls[place])
    if result.n_checks:
        assert sum(int(n) for n in column(rows, "Check pulls")) == result.n_checks
    else:
        assert "Check pulls" not in rows[0]


def test_the_verdict_stands_above_an_interval_that_says_less(tmp_path: Path) -> None:
    """Beside "decided" the lead is more than 0, and the interval of all arms together is in small print."""
    rng = np.random.default_rng(0)
    arms = np.random.default_rng(3).normal(size=(40, 4))
    result = sp.identify(arms, lambda arm: arms[arm] @ [1.0, 0.4, 0.2, 0.1] + 2.0 * rng.standard_normal())
    assert result.interval[0] < 0.0, "the case that this test is about"
    result.report(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text("utf-8")
    assert re.search(r"Lead over the runner-up.*more than 0<small>all together: -", html)


def test_units_stand_beside_the_values(tmp_path: Path) -> None:
    """In headers, facts and captions; a unit that is no short line is refused, and no file is written."""
    made("undecided").report(tmp_path / "r.html", unit="kg/m²")
    text = text_of(tmp_path / "r.html")
    for words in ("Estimate (kg/m²)", "Measured mean (kg/m²)", "Unit of all values", "6 arms in kg/m² with"):
        assert words in text
    for bad in ("kg\n", "k" * 21):
        with pytest.raises(sp.InvalidInput, match="`unit` must be at most 20 letters"):
            made("undecided").report(tmp_path / "bad.html", unit=bad)
    assert not (tmp_path / "bad.html").exists()


def test_page_of_a_study_has_author_workers_and_changes(tmp_path: Path) -> None:
    """Who made it and when, who measured how much, and why which measurement does not count as it was told."""
    study = sp.create_study("paint", arms=sp.FiniteArms(X, names=list("ABCDEF")), storage="memory:", author="anna")
    rng = np.random.default_rng(0)
    for worker in ("bench 1", "bench 2", "bench 1"):
        for ask in study.ask(4, worker=worker):
            study.tell(ask, float(X[ask.arm] @ THETA + 0.1 * rng.standard_normal()), worker=worker)
    study.void(2, reason="the cup <fell>", worker="ben")
    study.correct(5, 0.5, reason="mistyped", worker="ben")
    study.void(7, reason="wrong day", worker="ben")
    study.restore(7, reason="right day after all", worker="ben")
    study_page.write_study_page(study, tmp_path / "r.html", unit="kg", notes=["Go on."], steps=[("Check:", "verify")])
    page, text = tmp_path / "r.html", text_of(tmp_path / "r.html")
    today = study.log[0]["at"][:10]
    assert re.search(rf"Study created\s+{today}\s\d\d:\d\d\sUTC\s+Author\s+anna", text)
    workers = table_of(page, "Who measured")
    assert [row[:4] for row in workers[1:]] == [["bench 1", "8", "1", "0"], ["bench 2", "4", "0", "1"]]
    changes = table_of(page, "Void and corrected measurements")
    assert column(changes, "No.") == ["2", "5", "7", "7"]
    assert column(changes, "Reason") == ["the cup &lt;fell&gt;", "mistyped", "wrong day", "right day after all"]
    assert column(changes, "Since the change")[:3] == ["void", "corrected: 0.5", "void"]
    assert set(column(changes, "By")) == {"ben"}
    assert "Go on." in text
    assert "Estimate (kg)" in text
    assert "Recipes" in text


def test_page_of_100_000_arms_has_at_most_1_MB(tmp_path: Path) -> None:
    """Also with long names and with recipes of many columns; the winner's recipe is whole and the first."""
    n = 100_000
    rows = np.random.default_rng(1).normal(size=(n, 3))
    names = [f"acrylic & alkyd, a mixture with a long name, number {number}" for number in range(n)]
    rng = np.random.default_rng(0)
    arms = sp.FiniteArms(rows, names=names)
    result = sp.identify(arms, lambda arm: rows[arm] @ THETA + rng.standard_normal(), noise_std=1.0, max_pulls=60)
    recipe = {f"column {j}": f"<{'text ' * 5}{j}>" for j in range(20)}
    result.report(tmp_path / "r.html", recipes=dict.fromkeys(names, recipe))
    assert 300_000 < (tmp_path / "r.html").stat().st_size <= 1_000_000
    text = text_of(tmp_path / "r.html")
    assert re.search(r"The first [\d,]+ of 100,000 rows; your table has all\.", text)
    assert column(table_of(tmp_path / "r.html", "Recipes"), "Arm")[0] == names[result.best].replace("&", "&amp;")
    assert (
        len(table_of(tmp_path / "r.html", f"What the {'winner' if result.stopped else 'leader'} consists of")) == 1 + 20
    )


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


@pytest.mark.parametrize("columns", [("resin", "filler"), ("constant", "resin")])
def test_coefficients_of_a_mixture_are_read_by_their_differences(columns: tuple[str, str]) -> None:
    """Its parts add up to one, so that no part changes alone; with a constant among the features they may."""
    resin, rng = np.array([0.5, 0.2, 0.9]), np.random.default_rng(0)
    values = {"resin": resin, "filler": 1.0 - resin, "constant": np.ones(3)}
    arms = sp.read_arms({name: values[name].tolist() for name in columns if name != "constant"})
    result = sp.identify(arms, lambda arm: float(5.0 * resin[arm] + 0.1 * rng.standard_normal()), noise_std=0.1)
    assert ("mixture" in result_page.coefficients(result).note) == ("constant" not in columns)
