"""The dashboard in a real browser: the whole story of a study, without a script, by role, and against hostile names."""

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

import surepick as sp
from surepick.study.certificate import verify
from surepick.study.exchange import read_log
from surepick.study.storage import open_storage
from tests.browser import needs_browser, open_browser
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT, until

pytestmark = needs_browser
X = np.array([[1, 0.1, 0.9], [1, 0.5, 0.2], [1, 0.9, 0.6], [1, 0.3, 0.4], [1, 0.8, 0.1], [1, 0.6, 0.7]])
NAMES = ["A1", "B2", "C3", "D4", "E5", "F6"]
MEANS = dict(zip(NAMES, X @ [50.0, 2.0, 1.0], strict=True))
MESSY = "Farbe;Glanz;Trocknung;Lösung\r\n" + "".join(
    f"{name};{row[1]:.1f};{row[2]:.1f};{17 * n % 7}\r\n".replace(".", ",")
    for n, (name, row) in enumerate(zip(NAMES, X, strict=True))
)
"""The same paints as a spreadsheet in Germany writes them."""
SCREENS = [(1280, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with open_browser() as found:
        yield found


@contextmanager
def visiting(
    browser: Any, *, width: int = 1280, scheme: str = "light", expects: str = "$^", **more: Any
) -> Iterator[Any]:
    """Open a page. At the end, messages of the console, errors and alerts other than `expects` fail the test."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, **more)
    context.set_default_timeout(LIMIT * 1000)
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    yield page
    context.close()
    assert [text for text in said if not re.search(expects, text)] == []


def check(page: Any) -> None:
    """Assert that everybody can use the page as it is now, and that it does not scroll sideways."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def made(storage: str, name: str = "paints", **options: Any) -> sp.Study:
    """Create a study of six paints."""
    arms = sp.FiniteArms(X, names=NAMES)
    return sp.create_study(name, arms=arms, storage=storage, **{"noise_std": 0.5, **options})


def go_on(study: sp.Study, n: int, *, noise: float = 0.5, worker: str = "robot", bend: float = 0.0) -> None:
    """Measure n times as another program does."""
    rng = np.random.default_rng(n)
    for _ in range(n):
        asks = study.ask(1, worker=worker)
        if not asks:
            return
        value = MEANS[asks[0].name] + bend * (asks[0].arm % 2) + noise * rng.standard_normal()
        study.tell(asks[0].id, round(value, 2), worker=worker)


def live(page: Any) -> None:
    """Wait until the page follows the log."""
    page.get_by_text("live", exact=True).wait_for()


def shows(page: Any, n: int) -> None:
    """Wait until the page shows the log up to event n."""
    until(lambda: int(page.locator("#head").get_attribute("data-n")) >= n)


def open_ask(page: Any) -> tuple[Any, str]:
    """Return the field for the value of the first ask, and the name of its arm."""
    card = page.locator("article.ask").first
    name = card.locator("h3").inner_text().split()[0]
    return card.locator("input[name=value]"), name


# ---- the story


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_a_study_from_the_first_ask_to_the_certificate(
    browser: Any, server: RunningServer, tmp_path: Path, width: int, scheme: str
) -> None:
    """Upload, ask, tell, a questioned value, void, restore, the live page, verdict, audit, files that verify."""
    with visiting(browser, width=width, scheme=scheme, accept_downloads=True) as page:
        page.goto(server.url)
        assert "There is no study yet." in page.locator("main").inner_text()
        check(page)
        page.get_by_role("link", name="New study").click()
        page.set_input_files("#file", {"name": "paints.csv", "mimeType": "text/csv", "buffer": MESSY.encode("cp1252")})
        page.get_by_role("button", name="Read the table").click()
        page.get_by_label("Lösung").select_option("leave out")  # the number of a bottle is no feature
        page.get_by_role("button", name="Use these roles").click()
        page.get_by_label("Name of the study").fill("paints")
        check(page)
        page.get_by_role("button", name="Create the study").click()
        live(page)
        study = sp.load_study("paints", server.storage)
        assert study.state.catalog.written["features"] == ["constant", "Glanz", "Trocknung"]
        page.get_by_role("link", name="Studies").click()
        assert "no data" in page.locator("tbody tr").inner_text()
        check(page)
        page.get_by_role("link", name="paints").click()
        live(page)
        check(page)
        page.evaluate("window.isSame = true")  # a reload would forget it

        # Ask as a worker, and record values; a decimal comma is one.
        page.get_by_label("Measurements").fill("3")
        page.get_by_label("Worker").fill("bench-1")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator("article.ask").nth(2).wait_for()
        assert page.locator("#message").inner_text() == "3 asks for you."
        assert open_ask(page)[0].evaluate("field => field === document.activeElement")
        check(page)
        for n in range(1, 13):
            if not page.locator("article.ask").count():
                page.get_by_role("button", name="Ask", exact=True).click()
                page.locator("article.ask").first.wait_for()
            field, name = open_ask(page)
            field.fill(f"{MEANS[name] + 0.3 * (-1) ** n:.2f}".replace(".", ","))
            field.press("Enter")
            page.get_by_text(f"(measurement {n}, ").wait_for()
        assert page.locator("#leaderboard tbody tr").count() == 6
        # What is proved of each arm is not beside the screen, and three are asked for again.
        board = page.locator("#leaderboard .box")
        assert board.evaluate("box => box.scrollWidth <= box.clientWidth")
        assert board.get_by_text("not excluded").filter(visible=True).count() == 6
        assert page.get_by_label("Measurements").input_value() == "3"

        # A value with a shifted point is recorded, and questioned.
        if not page.locator("article.ask").count():
            page.get_by_label("Measurements").fill("1")
            page.get_by_role("button", name="Ask", exact=True).click()
        field, name = open_ask(page)
        field.fill(f"{100 * round(MEANS[name], 2):.0f}")
        page.locator("article.ask").first.get_by_role("button", name="Record").click()
        page.get_by_role("button", name=f"Correct to {round(MEANS[name], 2):g}").wait_for()
        assert "Do not measure again" in page.locator("#message").inner_text()
        check(page)
        page.get_by_role("button", name=re.compile("Correct to")).click()
        page.get_by_text("counts as").wait_for()
        assert study.measurements[12].is_corrected

        # Void with a reason, and restore.
        page.locator("#change13 summary").click()
        page.locator("#reason13").fill("wrong <bottle>")
        page.get_by_role("button", name="Make void").click()
        page.get_by_text("does not count").wait_for()
        assert study.measurements[12].changes[-1].reason == "wrong <bottle>"
        page.locator("#change13 summary").click()
        page.locator("#reason13").fill("the bottle was right")
        page.get_by_role("button", name="Let it count again").click()
        page.locator("#m13:not(.void)").wait_for()
        check(page)

        # Others measure: the page follows, and keeps what is being typed, the focus and what is open.
        page.locator("#unasked summary").click()
        page.locator("#unasked-arm").fill("C3")
        page.locator("#unasked-value").press_sequentially("5")
        before = page.locator("#leaderboard").inner_text()
        go_on(study, 4)
        shows(page, study.head[0])
        assert page.locator("#leaderboard").inner_text() != before
        page.keyboard.type("3.4")
        assert page.locator("#unasked-value").input_value() == "53.4"
        page.keyboard.press("Enter")
        page.get_by_text("not asked for, kept all the same").wait_for()

        # The verdict comes without a reload, then an audit, then the files.
        for one in study.pending:  # a block counts once all its measurements are in
            study.tell(one.id, MEANS[one.name], worker="bench-1")
        go_on(study, 400)
        page.locator("#state .state.good").wait_for()
        shows(page, study.head[0])
        check(page)
        page.get_by_role("button", name="Audit: plan check pulls").click()
        page.get_by_text("check pulls planned").wait_for()
        go_on(study, 400)
        shows(page, study.head[0])
        page.get_by_text("tested, not contradicted").wait_for()
        assert page.evaluate("window.isSame") is True
        paths = {}
        for link in ("Certificate", "Log with hashes", "Report", "Measurements (Excel)"):
            with page.expect_download() as download:
                page.get_by_role("link", name=link).click()
            paths[link] = tmp_path / download.value.suggested_filename
            download.value.save_as(paths[link])
        said = json.loads(paths["Certificate"].read_text(encoding="utf-8"))
        assert verify(said, read_log(paths["Log with hashes"])).outcome == "ok"
        assert "<svg" in paths["Report"].read_text(encoding="utf-8")
        page.get_by_role("link", name="and the log").click()
        page.get_by_role("heading", name="Events").wait_for()
        check(page)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_every_state_is_for_everybody(browser: Any, server: RunningServer, width: int, scheme: str) -> None:
    """A check of accessibility finds nothing in any state of a study, the alarm of a wrong model included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        go_on(made(server.storage, "wrong", noise_std=None), 60, bend=20.0)
        go_on(made(server.storage, "spent", budget=9, noise_std=8.0), 20, noise=8.0)
        go_on(made(server.storage, "many", noise_std=3.0), 12)
    with visiting(browser, width=width, scheme=scheme) as page:
        page.goto(server.url)
        check(page)
        assert all(box["height"] < 40 for box in [one.bounding_box() for one in page.locator(".state:visible").all()])
        states = page.locator("tbody tr").all_inner_texts()
        assert ["withdrawn" in states[2], "budget ended" in states[1], "measuring" in states[0]] == [True] * 3
        for name in ("wrong", "spent", "many"):
            page.goto(f"{server.url}/studies/{name}")
            live(page)
            check(page)
        page.goto(f"{server.url}/studies/wrong")
        assert "no answer of this study must be used" in page.locator("#state").inner_text()
        assert "contradicted" in page.locator("#model .state.bad").inner_text()
        assert page.get_by_role("heading", name="Proved").count() == 0
        assert page.get_by_role("button", name="Ask", exact=True).count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_what_matters_is_in_sight(browser: Any, server: RunningServer, width: int) -> None:
    """The next ask at first sight, what was recorded while the page is scrolled, and who measures after a reload."""
    made(server.storage, noise_std=3.0)
    with visiting(browser, width=width, has_touch=width < 1000) as page:
        page.goto(f"{server.url}/studies/paints")
        live(page)
        assert in_sight(page, page.get_by_role("button", name="Ask", exact=True))
        page.get_by_label("Worker").fill("Anna")
        page.get_by_role("button", name="Ask", exact=True).click()
        field, name = open_ask(page)
        page.evaluate("document.getElementById('latest')?.scrollIntoView() ?? scrollTo(0, 700)")
        field.fill("51,2")
        field.press("Enter")
        done = page.get_by_text(f"{name} = 51.2 (measurement 1")
        done.wait_for()
        page.evaluate("scrollTo(0, 900)")
        assert in_sight(page, done)
        page.get_by_text("Mistyped?").click()
        page.get_by_label("Value in your notes").fill("52,1")
        check(page)
        page.get_by_role("button", name="Correct", exact=True).click()
        page.get_by_text("counts as 52.1").wait_for()
        # The form for a change is as wide as the screen allows, wherever the table is scrolled sideways.
        page.locator("#change1 summary").click()
        assert f"{name} = 52.1, measurement 1" in page.locator("#change1").inner_text()
        page.locator("#latest .box").evaluate("box => { box.scrollLeft = 1000; }")
        inside = page.locator("#latest .box").bounding_box()
        for found in (page.locator("#reason1"), page.get_by_role("button", name="Make void")):
            box = found.bounding_box()
            assert inside["x"] <= box["x"] < box["x"] + box["width"] <= inside["x"] + inside["width"]
        check(page)
        page.locator("#change1 summary").click()
        page.goto(server.url)
        page.get_by_role("link", name="paints").click()
        live(page)
        until(lambda: page.get_by_label("Worker").input_value() == "Anna")
        page.goto(f"{server.url}/studies/paints?worker=Bela")
        live(page)
        assert page.get_by_label("Worker").input_value() == "Bela"


def in_sight(page: Any, found: Any) -> bool:
    """Whether an element is on the screen as it is scrolled now."""
    box = found.bounding_box()
    return bool(box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"])


# ---- without a script


def test_every_form_works_without_a_script(browser: Any, server: RunningServer) -> None:
    """A POST, a redirect and a sentence. What was typed into a form that is refused is still there."""
    study = made(server.storage, budget=6, noise_std=8.0)
    with visiting(browser, width=390, java_script_enabled=False) as page:
        page.goto(f"{server.url}/studies/paints")
        page.get_by_label("Measurements").fill("2")
        page.get_by_label("Worker").fill("bench-1")
        page.get_by_role("button", name="Ask", exact=True).click()
        assert "2 asks for you." in page.locator("#message").inner_text()
        field, name = open_ask(page)
        field.fill("about 5")
        page.locator("article.ask").first.get_by_role("button", name="Record").click()
        assert "got 'about 5'" in page.get_by_role("alert").inner_text()
        field, _ = open_ask(page)
        assert field.input_value() == "about 5"
        field.fill("51,25 51.5")
        field.press("Enter")
        assert f"{name} = 51.25 (measurement 1, answers ask 1)." in page.locator("#message").inner_text()
        page.locator("details[id^=fail] summary").click()
        page.get_by_label("Reason. If you have seen").fill("the bench is broken")
        page.get_by_role("button", name="Give up ask 2").click()
        assert "is given up" in page.locator("#message").inner_text()
        assert [one.last for one in study.measurements] == [51.25, 51.5]
        page.locator("#change1 summary").click()
        page.locator("#reason1").fill("typed")
        page.get_by_role("button", name="Correct", exact=True).click()
        assert "A correction needs the right value" in page.get_by_role("alert").inner_text()
        assert page.locator("#reason1").input_value() == "typed"
        page.locator("#value1").fill("52.5")
        page.get_by_role("button", name="Correct", exact=True).click()
        assert "Measurement 1" in page.locator("#message").inner_text()
        page.locator("#unasked summary").click()
        page.locator("#unasked-arm").fill("C4")
        page.locator("#unasked-value").fill("52")
        page.locator("#unasked button").click()
        assert "C3" in page.get_by_role("alert").inner_text()  # the nearest name
        page.locator("#unasked-arm").fill("C3")
        page.locator("#unasked button").click()
        assert [one.last for one in study.measurements] == [52.5, 51.5, 52.0]
        go_on(study, 20, noise=8.0)
        page.goto(f"{server.url}/studies/paints?worker=bench-1")
        assert "budget ended" in page.locator("#state").inner_text()
        page.get_by_label("Further budget").fill("4")
        page.locator("#reopen-reason").fill("more paint")
        page.get_by_role("button", name="Reopen").click()
        assert "Era 2 has begun." in page.locator("#message").inner_text()
        page.get_by_role("link", name="and the log").click()
        assert "the bench is broken" in page.locator("main").inner_text()


def test_the_connection_is_lost_and_comes_back(browser: Any, server: RunningServer) -> None:
    """The page says so, and catches up; a form that cannot be sent keeps what was typed."""
    study = made(server.storage)
    with visiting(browser, expects="ERR_FAILED|Failed to load resource") as page:
        page.route("**/events*", lambda route: route.abort())
        page.goto(f"{server.url}/studies/paints")
        lost = page.get_by_text("connection lost, trying again")
        lost.wait_for()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert in_sight(page, lost)
        assert page.locator("#connection").get_attribute("role") == "status"
        go_on(study, 3)
        page.unroute("**/events*")
        live(page)
        shows(page, study.head[0])
        # A form that cannot be sent says so, and keeps what was typed.
        page.get_by_role("button", name="Ask", exact=True).click()
        field, _ = open_ask(page)
        page.route("**/studies/paints", lambda route: route.abort())
        field.fill("51.5")
        field.press("Enter")
        page.get_by_text("The server does not answer").wait_for()
        assert field.input_value() == "51.5"
        page.unroute("**/studies/paints")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # connects anew
        page.locator("#silent").wait_for(state="detached")
        field.press("Enter")
        page.get_by_text("(measurement 4, ").wait_for()


def test_an_older_answer_never_replaces_a_newer_one(browser: Any, server: RunningServer) -> None:
    """A part of the page that was fetched before a form was answered, and comes later, is fetched again."""
    study, held = made(server.storage), list[Any]()
    study.ask(2, worker="dashboard")
    with visiting(browser) as page:
        page.goto(f"{server.url}/studies/paints")
        live(page)
        page.route("**/live*", lambda route: route.continue_() if held else held.append((route, route.fetch())))
        study.tell(arm="C3", value=52.0, worker="robot")
        until(lambda: page.title() and held)
        page.locator("#tell1").fill("51")
        page.locator("#tell1").press("Enter")
        page.get_by_text("(measurement 2, answers ask 1)").wait_for()
        page.evaluate("""() => {
            window.nBack = 0;
            const look = () => { window.nBack += document.getElementById("ask1") !== null; };
            new MutationObserver(look).observe(document.getElementById("live"), { childList: true, subtree: true });
        }""")
        route, response = held[0]
        route.fulfill(response=response)
        study.tell(arm="C3", value=52.5, worker="robot")
        shows(page, study.head[0])
        assert page.evaluate("window.nBack") == 0


def test_the_list_follows_and_a_deleted_study_is_gone(browser: Any, server: RunningServer) -> None:
    """Without a reload by hand."""
    study = made(server.storage)
    with visiting(browser, expects="status of 404") as page, visiting(browser) as other:
        other.clock.install()
        other.goto(server.url)
        other.get_by_text("no data").first.wait_for(state="attached")
        page.goto(f"{server.url}/studies/paints")
        live(page)
        go_on(study, 12)
        other.clock.fast_forward(6_000)
        other.get_by_text("measuring").first.wait_for(state="attached")
        with server.client() as client:
            assert client.delete("/studies/paints").status_code == 204
        page.get_by_role("heading", name="This did not work").wait_for()


def test_a_page_changes_in_place(browser: Any, server: RunningServer) -> None:
    """Of 300 random changes each gives the fresh page, and a field that stays keeps its focus and its text."""
    made(server.storage)
    with visiting(browser) as page:
        page.goto(f"{server.url}/studies/paints")
        found = page.evaluate(
            """async (url) => {
                const { morphChildren } = await import(url);
                let seed = 1;
                const random = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };
                const html = (ids) => "<h2>x</h2>\\n" + ids.map((id) =>
                    (random(3) ? "" : `<p>${random(9)}</p>\\n`) +
                    `<article id="a${id}">${random(2)}<form><input id="f${id}"></form></article>\\n`).join("");
                const place = document.createElement("section");
                document.body.append(place);
                let ids = [1, 2, 3, 4, 5];
                place.innerHTML = html(ids);
                const wrong = [];
                for (let turn = 0; turn < 300; turn++) {
                    const kept = ids[random(ids.length)];
                    const field = document.getElementById(`f${kept}`);
                    field.focus();
                    field.value = "typed";
                    ids = ids.filter((id) => id === kept || random(3));
                    for (let n = random(3); n; n--) ids.splice(random(ids.length + 1), 0, 100 * turn + 10 + n);
                    const fresh = document.createElement("section");
                    fresh.innerHTML = html(ids);
                    const wanted = fresh.innerHTML;
                    morphChildren(place, fresh);
                    if (place.innerHTML !== wanted) wrong.push(`${turn}: not the fresh page`);
                    const isKept = document.activeElement === field && field.value === "typed";
                    if (!isKept) wrong.push(`${turn}: focus or text`);
                }
                return wrong;
            }""",
            f"{server.url}/static/surepick.js",
        )
        assert found == []


# ---- who may do what


def test_two_people_with_different_roles(browser: Any, server: RunningServer) -> None:
    """A reader sees no form and one study; a worker has the label of its token; a revoked token ends at once."""
    study = made(server.storage)
    made(server.storage, "secret")
    reader = make_token(server.storage, "read", study="paints", label="the boss")
    teller = make_token(server.storage, "tell", label="bench-7")
    refused = "status of 40[134]"
    with visiting(browser, expects=refused) as boss, visiting(browser, width=390, expects=refused) as bench:
        for page, token in ((boss, reader), (bench, teller)):
            page.goto(f"{server.url}/studies/paints?worker=x")
            page.get_by_label("Token").fill("spk_wrong")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_text("the token is unknown or revoked").wait_for()
            check(page)
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            live(page)
            assert page.url.endswith("/studies/paints?worker=x")
            assert token not in page.content()
        assert boss.locator("#live form").count() == 0
        assert boss.get_by_text("the boss (read)").count() == 1
        check(boss)
        bench.goto(f"{server.url}/studies/paints")
        bench.get_by_role("button", name="Ask", exact=True).click()
        field, _ = open_ask(bench)
        field.fill("51.5")
        field.press("Enter")
        boss.locator("#m1").wait_for()  # seen by the other at once
        assert study.measurements[0].by == "bench-7"  # the label of the token
        assert bench.get_by_role("link", name="New study").count() == 0
        # A token for one study shows no other, and says no more than that there is none.
        boss.goto(server.url)
        assert boss.locator("tbody tr").all_inner_texts()[0].startswith("paints")
        assert boss.locator("tbody tr").count() == 1
        boss.goto(f"{server.url}/studies/secret")
        assert "secret" in boss.get_by_role("alert").inner_text()
        check(boss)
        boss.get_by_role("link", name="Studies", exact=True).click()
        boss.get_by_role("button", name="Sign out").click()
        boss.get_by_label("Token").wait_for()
        boss.goto(f"{server.url}/studies/paints")
        assert boss.get_by_label("Token").count() == 1
        # A token that is revoked ends also where a page is open.
        place: Any = open_storage(server.storage)
        place.revoke_token(next(row.id for row in place.tokens() if row.label == "bench-7"), "2026-01-01T00:00:00")
        place.close()
        with server.client(teller) as client:
            until(lambda: client.get("/studies").status_code == 401)
        bench.get_by_label("Token").wait_for()  # without a click: the stream ends
        bench.get_by_text("the token is unknown or revoked").wait_for()


def test_a_link_in_a_message_opens_the_page(browser: Any, server: RunningServer) -> None:
    """A browser sends no strict cookie with a link of another site; a visitor who is signed in sees the page."""
    made(server.storage)
    token = make_token(server.storage, "read")
    with visiting(browser, expects="status of 401") as page:
        page.goto(f"{server.url}/studies/paints")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        live(page)
        page.goto(f"{server.url}/sign-in".replace("127.0.0.1", "localhost"))
        page.evaluate("url => { location.href = url; }", f"{server.url}/studies/paints")
        live(page)


# ---- hostile texts

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(2)" x="',
    "</title></svg></table><img src=x onerror=alert(3)>",
    "{{7*7}}{% raw %}",
    "javascript:alert(4)",
    "a/b?c=d#e&f=%22'",
]


@pytest.mark.parametrize("name", [HOSTILE[0], HOSTILE[1], HOSTILE[5]])
def test_texts_of_users_are_texts(browser: Any, server: RunningServer, name: str) -> None:
    """In names of studies, arms, columns and workers, and in reasons; also where a form brings them back."""
    columns = {"name": HOSTILE, HOSTILE[0]: X[:, 1], HOSTILE[2]: X[:, 2], HOSTILE[3]: 2 * [*HOSTILE[1:3], "plain"]}
    arms = sp.read_arms(pd.DataFrame(columns), name_column="name", features=[HOSTILE[0], HOSTILE[2]])
    study = sp.create_study(name, arms=arms, storage=server.storage, noise_std=3.0)
    for worker in HOSTILE:
        (told,) = study.tell(study.ask(1, worker=worker)[0].id, 50.0, worker=worker)
        study.void(told.id, reason=worker, worker=worker)
        study.restore(told.id, reason=worker, worker=worker)
        study.correct(told.id, 51.0 + told.id, reason=worker, worker=worker)
        study.fail(study.ask(1, worker=worker)[0].id, reason=worker, worker=worker)
        study.ask(1, worker=worker)
    with visiting(browser) as page:
        page.goto(server.url)
        check(page)
        page.locator("tbody th a").click()
        live(page)
        assert page.locator("h1").inner_text() == name
        check(page)
        text = page.locator("main").inner_text()
        assert all(one in text for one in HOSTILE)
        assert "49" not in page.locator("#leaderboard tbody th").all_inner_texts()
        assert page.locator("img, [onmouseover], [onerror], main script, a[href^=javascript]").count() == 0
        for one in HOSTILE:  # what a form brings back
            page.get_by_label("Worker").fill(one)
            page.get_by_role("button", name="Ask", exact=True).click()
            page.get_by_text("for you.").wait_for()
            field, _ = open_ask(page)
            field.fill(one)
            field.press("Enter")
            page.get_by_role("alert").wait_for()
        page.goto(f"{page.url.partition('?')[0]}/log")
        assert all(one in page.locator("main").inner_text() for one in HOSTILE)
        assert page.locator("img, [onmouseover], [onerror], main script, a[href^=javascript]").count() == 0
        check(page)
