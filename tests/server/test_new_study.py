"""The page that makes a study from a table: what is understood, what is refused, and that nothing is lost."""

import base64
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

import surepick as sp
from surepick.arms.registry import write_arms
from surepick.learning.spec import DEFAULTS
from surepick.reporting.new_study_view import MORE
from tests.browser import needs_browser, open_browser
from tests.excel import excel
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT

GERMAN = """\
Rezeptur;Temperatur;Druck;Weichmacher;Preis (€);Bemerkung
Mischung Ä;80,5;1,2;DINP;12,50;erste Probe vom Werk, etwas trüb
Mischung B;85,0;1,5;DOTP;13,00;nach Vorschrift gerührt und getrocknet
Mischung C;90,5;1,1;DINP;12,75;Lieferung kam zu spät und war feucht
Mischung D;95,0;1,8;DOTP;14,10;wie Mischung C mit mehr Druck
Mischung E;100,5;1,4;DINP;13,30;Farbe etwas dunkler wie so oft
Mischung F;88,0;1,9;DOTP;13,90;wiederholt weil der Rührer stand
Mischung G;92,0;1,3;DINP;12,20;ohne besondere Vorkommnisse im Labor
Mischung H;98,0;1,6;DOTP;14,40;letzte Probe der ersten Woche
"""
PLAIN = b"name,T,p\na,1,2\nb,2,2\nc,3,5\nd,3,6\n"
NASTY = "<script>alert(1)</script>"


def posted(server: RunningServer, *file: tuple[str, bytes], **form: Any) -> httpx.Response:
    """Send the form, as a browser does."""
    files = {"file": file[0] if file else ("", b"")}
    data = {name.replace("_", " "): value for name, value in form.items()}
    if "role" in data and "draft" in data:  # the page has the titles beside the roles
        data["column"] = re.split(",|;", base64.b64decode(data["draft"]).decode("cp1252").splitlines()[0])
    return httpx.post(f"{server.url}/new", files=files, data={"do": "look", **data}, timeout=LIMIT)


def hidden(page: httpx.Response) -> dict[str, str]:
    """Return the fields that carry the file."""
    found = dict(re.findall(r'<input type="hidden" name="(title|draft)" value="([^"]*)">', page.text))
    return {name: unescape(value) for name, value in found.items()}


def roles(page: httpx.Response) -> list[str]:
    """Return the roles that are chosen."""
    chosen = re.findall(r'<select name="role".*?</select>', page.text, re.DOTALL)
    return re.findall(r'<option value="(\w+)" selected>', "".join(chosen))


def problem(page: httpx.Response) -> str:
    """Return the sentence about what is wrong, or nothing."""
    found = re.search(r'role="alert">(.*?)</p>', page.text, re.DOTALL)
    return unescape(found[1]) if found else ""


def test_a_messy_table_becomes_a_study(server: RunningServer, tmp_path: Path) -> None:
    """Upload, change a role, look at the plan, create: the study has the arms that `read_arms` reads from the file."""
    first = posted(server, ("Rezepte.csv", GERMAN.encode("cp1252")))
    assert first.status_code == 200
    assert roles(first) == ["name", "number", "number", "category", "out", "out"]
    assert "looks like a price" in first.text
    assert "semicolons between the columns" in first.text
    assert "decimal commas in Temperatur, Druck" in first.text
    assert "<dt>dropped</dt><dd>Preis (€) (not among the features)</dd><dd>Bemerkung" in first.text
    chosen = {**hidden(first), "role": ["name", "number", "number", "category", "cost", "out"]}
    second = posted(server, lead="0,8", scatter="1,0", budget="100", **chosen)
    assert roles(second)[4] == "cost"
    text = unescape(second.text)
    assert "pulls to know the best of 8 arms with a risk of 0.05" in text
    assert "They cost about" in text
    assert "Your budget of 100 is below that" in text
    created = posted(server, do="create", how_sure="99", loss="0,5", **chosen)
    assert created.status_code == 303
    assert created.headers["location"] == "/studies/Rezepte"
    study = sp.load_study("Rezepte", storage=server.storage)
    (tmp_path / "same.csv").write_text(GERMAN, encoding="utf-8")
    same = sp.read_arms(tmp_path / "same.csv", cost_column="Preis (€)")
    event = study.log[0]
    assert event["arms"] == write_arms(same)
    assert same.costs is not None
    assert event["options"]["costs"] == same.costs.tolist()
    assert (event["options"]["delta"], event["options"]["epsilon"]) == (0.01, 0.5)
    assert study.recipes["Mischung Ä"]["Bemerkung"].startswith("erste Probe")


def test_a_number_can_be_a_category(server: RunningServer) -> None:
    """Each value is then a level of its own; a text cannot be a number."""
    first = posted(server, ("t.csv", PLAIN))
    second = posted(server, do="create", role=["name", "category", "number"], **hidden(first))
    assert second.status_code == 303
    arms = sp.load_study("t", storage=server.storage).log[0]["arms"]
    assert arms["features"] == ["constant", "T=2", "T=3", "p"]
    assert roles(posted(server, role=["number", "number", "number"], **hidden(first)))[0] == "name"


def test_another_file_keeps_the_roles_of_the_same_columns(server: RunningServer) -> None:
    """In any order; where the columns have other names, the page says that it guesses anew."""
    first, kept = hidden(posted(server, ("t.csv", PLAIN))), {"role": ["name", "category", "number"]}
    moved = posted(server, ("u.csv", b"p,name,T\n2,a,1\n2,b,2\n5,c,3\n6,d,3\n"), **first, **kept)
    assert (roles(moved), hidden(moved)["title"]) == (["number", "name", "category"], "u.csv")
    assert "guessed their roles anew" not in moved.text
    other = posted(server, ("v.csv", b"name,T,q\na,1,2\nb,2,2\nc,3,5\nd,3,6\n"), **first, **kept)
    assert roles(other) == ["name", "number", "number"]
    assert "guessed their roles anew" in other.text


@pytest.mark.parametrize(
    ("title", "content", "said"),
    [
        ("x.csv", b"\0\1\2", "Cannot read x.csv: it is no text."),
        ("x.csv", b"a,b\n", "x.csv must have a header line and at least one line below it, got 1 line."),
        ("x.csv", b"name,T\na,80\nb,9O\nc,95\nd,96\ne,97\n", "line 3: column 'T' is mostly numbers, got '9O'"),
        ("x.csv", b"name,T\na,80\na,90\nb,95\n", "'a' is in lines 2 and 3"),
        ("x.csv", b"name,T,U\na,1,2\nb,2,4\nc,3,6\nd,4,8\n", "U is 2 times T. Leave such features out."),
        ("x.xls", b"junk", "save it as .xlsx or .csv"),
        ("x.xlsx", b"PK\3\4junk", "Cannot read x.xlsx: it is not an Excel file"),
        ("x.xlsx", excel(A=[["T"], [1]], B=[["T"], [1]]), 'say which has the arms in the field "Sheet".'),
    ],
)
def test_problems_of_a_table_are_said_and_nothing_is_lost(
    server: RunningServer, title: str, content: bytes, said: str
) -> None:
    """The sentence names the file and the line; the file and what was typed stay in the form."""
    page = posted(server, (title, content), name="mine")
    assert page.status_code == 200
    assert said in problem(page)
    assert "/tmp" not in page.text
    again = posted(server, **hidden(page))
    assert problem(again) == problem(page)
    assert hidden(again) == hidden(page)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"how_sure": "120"}, '"how sure" must lie between 0 and 100 percent'),
        ({"how_sure": "very"}, "\"how sure\" must be a number, got 'very'; write decimals as 0.53 or 0,53."),
        ({"how_many": "1.5"}, '"how many" must be a whole number'),
        ({"loss": "-1"}, '"loss" must be a slack of at least 0'),
        ({"budget": "0"}, '"budget" must be a positive number'),
        (
            {"kind": "range", "smallest": "0"},
            '"largest" must be a number, got nothing; write decimals as 0.53 or 0,53.',
        ),
        ({"kind": "range", "smallest": "3", "largest": "1"}, '"smallest and largest" must be'),
        ({"lead": "1"}, 'A plan needs a guess in "Scatter of one measurement".'),
        ({"do": "plan"}, '"Lead of the best over the next" and "Scatter of one measurement".'),
        ({"lead": "0", "scatter": "1"}, '"lead" must be'),
        ({"do": "create", "name": ".."}, "choose another name"),
        ({"do": "create", "name": "x" * 500}, "at most 200 characters"),
        ({"do": "create", "how_many": "9"}, '"how many" must be below the number of arms'),
        ({"do": "create", "name": "there"}, "There is a study 'there' on this server already"),
    ],
)
def test_mistakes_in_the_form_are_said_and_nothing_is_created(
    server: RunningServer, form: dict[str, str], said: str
) -> None:
    """What was typed stays."""
    posted(server, ("there.csv", PLAIN), do="create")
    page = posted(server, ("t.csv", PLAIN), **form)
    assert page.status_code == 200
    assert said in problem(page)
    assert hidden(page)["title"] == "t.csv"
    for name, value in form.items():
        if name not in ("do", "kind"):
            assert f'name="{name.replace("_", " ")}" value="{value}"' in page.text
    assert [one["name"] for one in httpx.get(f"{server.api}/studies").json()["studies"]] == ["there"]


def test_pass_or_fail_and_bounds(server: RunningServer) -> None:
    """Become options of the study; no scatter is needed for their plan."""
    page = posted(server, ("t.csv", PLAIN), kind="pass", lead="0.2")
    assert "Not possible" in page.text or "About" in page.text
    for kind, bounds in (("pass", {}), ("range", {"smallest": "-1,5", "largest": "20"})):
        assert posted(server, ("t.csv", PLAIN), do="create", name=kind, kind=kind, **bounds).status_code == 303
    options = {name: sp.load_study(name, storage=server.storage).log[0]["options"] for name in ("pass", "range")}
    assert options["pass"]["rewards"] == "binary"
    assert options["range"]["reward_range"] == [-1.5, 20.0]


def options_in(server: RunningServer, name: str) -> dict[str, Any]:
    """Return the options of a study as its log has them."""
    options: dict[str, Any] = sp.load_study(name, storage=server.storage).log[0]["options"]
    return options


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"threshold": "70,5"}, {"threshold": 70.5, "m": 1}),
        (
            {"control": "b", "margin": "2", "calls": "fdr", "groups": "offset"},
            {"control": "b", "margin": 2.0, "calls": "fdr", "groups": "offset"},
        ),
        ({"batch": "8", "rounds": "5", "goal": "fixed-budget"}, {"batch": 8, "rounds": 5, "goal": "fixed-budget"}),
        ({"kind": "pass", "pool": "40"}, {"pool": 40, "rewards": "binary"}),
        ({"drift": "0,2", "scatter": "1,5", "known": "yes"}, {"drift": 0.2, "noise_std": 1.5}),
        ({"noise": "any"}, {"noise": "any", "noise_std": None}),
        ({"scatter": "1,5"}, {"noise_std": None}),
    ],
)
def test_options_behind_the_fold(server: RunningServer, form: dict[str, str], expected: dict[str, Any]) -> None:
    """Become options of the study, with the types that its log needs; the page keeps what was chosen."""
    page = posted(server, ("t.csv", PLAIN), **form)
    assert problem(page) == ""
    assert ("<details open>" in page.text) is (expected != {"noise_std": None})
    for name, value in form.items():
        assert re.search(rf'(name="{name}" value="{value}"|<option value="{value}" selected>)', page.text)
    assert posted(server, ("t.csv", PLAIN), do="create", **form).status_code == 303
    options = options_in(server, "t")
    assert {name: options.get(name) for name in expected} == expected


def test_a_form_as_it_comes_sets_none_of_these_options(server: RunningServer) -> None:
    """The log of such a study is that of earlier releases."""
    assert posted(server, ("t.csv", PLAIN), do="create").status_code == 303
    options = options_in(server, "t")
    assert {name: options[name] for name in MORE if options.get(name, DEFAULTS[name]) != DEFAULTS[name]} == {}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"threshold": "1", "control": "b"}, 'One of "threshold" and "control" is needed'),
        ({"threshold": "1", "how_many": "2"}, '"how many"'),
        ({"threshold": "1", "groups": "offset"}, "`control`"),
        ({"margin": "1"}, '"margin" is how far an arm may be below a "control"'),
        ({"control": "z"}, '"control"'),
        ({"calls": "fdr"}, 'calls="fdr" goes with "threshold" or "control", got neither'),
        ({"rounds": "3"}, '"rounds" counts batches, got 3 without "batch"'),
        ({"batch": "2", "rounds": "3", "budget": "6"}, '"budget" must be left out beside "batch"'),
        ({"batch": "9.5"}, '"batch" must be a whole number'),
        ({"goal": "fixed-budget"}, 'goal="fixed-budget" needs "budget"'),
        ({"drift": "1"}, 'fill in "scatter", tick the box below it'),
        ({"drift": "1", "known": "yes"}, '"scatter" must be a number, got nothing'),
        ({"pool": "40"}, '"pool"'),
        ({"groups": "none"}, '"groups" must be'),
        ({"kind": "pass", "noise": "any"}, '"noise"'),
        ({"noise": "any", "groups": "offset"}, 'noise="any"'),
    ],
)
def test_options_that_do_not_go_together(server: RunningServer, form: dict[str, str], said: str) -> None:
    """Are refused before anything is created, with the sentence of the library in the words of the page."""
    page = posted(server, ("t.csv", PLAIN), do="create", **form)
    assert page.status_code == 200
    assert said.replace("`", '"') in problem(page)
    assert "`" not in problem(page)
    assert httpx.get(f"{server.api}/studies").json()["studies"] == []


def test_a_plan_says_what_it_leaves_out(server: RunningServer) -> None:
    """A plan knows batches, groups and drift, and no goal; a lead says nothing about calls, nor about a pool."""
    form = {"lead": "1", "scatter": "1"}
    drift = {"drift": "0,5", "known": "yes"}
    plans = (({"batch": "8"}, "In batches of 8"), ({"groups": "offset"}, "Groups may"), (drift, "A drift of"))
    for known, said in plans:
        text = posted(server, ("t.csv", PLAIN), **known, **form).text
        assert said in text
        assert "The plan is made without" not in text
    goal = {"goal": "fixed-budget", "budget": "40"}
    assert "The plan is made without goal" in posted(server, ("t.csv", PLAIN), **goal, **form).text
    for asked, why in (({"threshold": "1"}, "asks for calls; leave"), ({"kind": "pass", "pool": "40"}, "has no plan")):
        assert why in posted(server, ("t.csv", PLAIN), **asked, **form).text


def test_excel_with_several_sheets(server: RunningServer) -> None:
    """The sheet is a field; the file need not be sent again."""
    content = excel(Notes=[["a", "b"], [1, 2]], Arms=[["Name", "T"], ["x", 1], ["y", 2], ["z", 4]])
    page = posted(server, ("lab.xlsx", content))
    assert "'Notes', 'Arms'" in problem(page)
    assert roles(posted(server, sheet="Arms", **hidden(page))) == ["name", "number"]


def test_texts_of_the_table_are_escaped(server: RunningServer) -> None:
    """In names of the file and of columns, in cells, in what is typed, and in errors."""
    table = f"name,{NASTY},{{{{7*7}}}}\n{NASTY},1,2\ny,2,2\nz,3,5\nw,3,6\n".encode()
    for page in (posted(server, (f"{NASTY}.csv", table), name=NASTY), posted(server, ("x.csv", table), lead=NASTY)):
        assert NASTY not in page.text
        assert "&lt;script&gt;" in page.text
        assert "{{7*7}}" in page.text
    created = posted(server, ("x.csv", table), name=NASTY, do="create")
    assert NASTY not in httpx.get(f"{server.url}{created.headers['location']}").text


def test_a_file_that_is_too_large_is_refused(start: Any) -> None:
    """Also one that fits into this request and would not fit into the next, where it is text."""
    rows = "".join(f"arm{n},{n}\n" for n in range(20_000))
    with start(longest_upload=300_000) as server:
        page = posted(server, ("t.csv", f"name,T\n{rows}".encode()), name="mine")
        assert "at most 150,000 bytes" in problem(page)
        assert hidden(page)["draft"] == ""
        assert posted(server, ("t.csv", PLAIN)).status_code == 200
        refused = posted(server, ("t.csv", b"x" * 400_000))
        assert refused.status_code == 413
        assert problem(refused) == "A request must have at most 300,000 bytes; send less."
        assert "Go back in your browser" in refused.text
        assert "A file must have at most 150,000 bytes." in httpx.get(f"{server.url}/new").text


def test_a_plan_is_for_tables_of_people(server: RunningServer) -> None:
    """A larger one would keep the server busy; the study itself can be created."""
    rows = "".join(f"arm{n},{n * n % 97}\n" for n in range(2_001))
    page = posted(server, ("t.csv", f"name,T\n{rows}".encode()), lead="1", scatter="1")
    assert problem(page).startswith("A plan is for at most 2,000 arms here")
    assert posted(server, do="create", lead="1", **hidden(page)).status_code == 303


def test_a_form_that_was_changed_on_its_way(server: RunningServer) -> None:
    """Is refused with a sentence."""
    assert problem(posted(server, title="x.csv", draft="%%%")) == "The file was changed on its way; choose it again."
    assert problem(posted(server)).startswith("Choose a file")
    assert problem(posted(server, ("t.csv", b""))).startswith("t.csv is empty")
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert httpx.post(f"{server.url}/new", content=b"junk", headers=broken).status_code == 400


def test_only_who_may_create_studies_sees_the_page(start: Any, tmp_path: Path) -> None:
    """Readers and tellers are refused, and so is another name than that of the token's study."""
    storage = str(tmp_path / "lab.db")
    tokens = {role: make_token(storage, role) for role in ("read", "tell", "admin")}
    tokens["own"] = make_token(storage, "admin", study="mine")
    with start(storage=storage) as server:
        expected = {"read": 403, "tell": 403, "admin": 303, "own": 403}
        for role, status in expected.items():
            headers = {"Authorization": f"Bearer {tokens[role]}"}
            page = httpx.get(f"{server.url}/new", headers=headers)
            assert page.status_code == (200 if role in ("admin", "own") else 403)
            form: dict[str, Any] = {"files": {"file": ("t.csv", PLAIN)}, "data": {"do": "create"}}
            assert httpx.post(f"{server.url}/new", headers=headers, **form).status_code == status
        assert httpx.get(f"{server.url}/new").status_code == 401
        assert httpx.post(f"{server.url}/new").status_code == 401
        assert httpx.post(f"{server.url}/new", headers={**headers, "Origin": "http://evil.example"}).status_code == 403


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with open_browser() as browser:
        yield browser


def check(page: Any) -> None:
    """Assert that the page suits screen readers and keyboards, and does not scroll sideways."""
    page.wait_for_load_state("load")  # with its style sheets
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme", "script"), [(1280, "light", True), (390, "dark", True), (390, "light", False)]
)
def test_in_a_browser(
    browser: Any, server: RunningServer, tmp_path: Path, width: int, scheme: str, script: bool
) -> None:
    """From a table with semicolons and decimal commas to the page of the study, also without a script."""
    (tmp_path / "Rezepte.csv").write_bytes(GERMAN.encode("cp1252"))
    window = {"width": width, "height": 844}
    context = browser.new_context(viewport=window, color_scheme=scheme, java_script_enabled=script)
    context.set_default_timeout(LIMIT * 1000)
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{server.url}/")
    page.get_by_role("link", name="New study").click()
    page.get_by_role("heading", name="New study").wait_for()
    if script:
        check(page)
    page.get_by_label("A table with one line").set_input_files(tmp_path / "Rezepte.csv")
    page.get_by_role("button", name="Read the table").click()
    page.get_by_role("combobox", name="Preis (€)").select_option("cost")
    page.get_by_role("button", name="Use these roles").click()
    assert page.get_by_role("combobox", name="Preis (€)").input_value() == "cost"
    page.get_by_label("Lead of the best").fill("0,8")
    page.get_by_role("button", name="Show the plan").click()
    assert page.get_by_role("alert").inner_text() == 'A plan needs a guess in "Scatter of one measurement".'
    if script:
        check(page)
    page.get_by_label("Scatter of one").fill("1")
    page.get_by_role("button", name="Show the plan").click()
    assert "pulls to know the best of 8 arms" in page.get_by_role("status").filter(has_text="pulls").inner_text()
    page.get_by_label("Smallest").wait_for(state="hidden")
    page.get_by_label("a number between two bounds").check()
    page.get_by_label("Smallest").wait_for(state="visible")
    page.get_by_label("a number with noise").check()
    page.get_by_label("Threshold, if").wait_for(state="hidden")
    page.get_by_text("More options").click()
    page.get_by_label("Control, if").fill("Mischung A")
    page.get_by_label("Margin beside").fill("0,5")
    page.get_by_label("Groups, such").select_option("offset")
    page.get_by_label("Name of the study").fill("Rezepte")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_role("alert").filter(has_text="control").wait_for()
    page.get_by_label("Control, if").fill("Mischung B")
    if script:
        check(page)
    page.get_by_label("Name of the study").fill("Rezepte / März")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_role("heading", name="Rezepte / März", level=1).wait_for()
    created = sp.load_study("Rezepte / März", storage=server.storage).log[0]
    assert created["by"] == "dashboard"
    options = {name: created["options"][name] for name in ("control", "margin", "groups")}
    assert options == {"control": "Mischung B", "margin": 0.5, "groups": "offset"}
    assert said == []
    context.close()
