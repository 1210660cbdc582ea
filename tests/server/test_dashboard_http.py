"""Pages and forms by HTTP alone: addresses, what is refused, and that nothing is said which the log does not say."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

import surepick as sp
from surepick.reporting import study_view
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT

NAMES = ["A", "B", "C"]
WORDS = ('href="', 'action="', 'src="', 'data-live="', 'data-events="')
"""Before the addresses of a page."""


def made(storage: str, name: str = "paints", **options: Any) -> sp.Study:
    """Create a study of three paints."""
    return sp.create_study(name, arms=sp.FiniteArms(np.eye(3), names=NAMES), storage=storage, **options)


def visitor(server: RunningServer, **more: Any) -> httpx.Client:
    """Return a browser without a screen."""
    return httpx.Client(base_url=server.url, timeout=LIMIT, **more)


def test_addresses_begin_with_the_prefix(start: Callable[..., Any]) -> None:
    """Behind a proxy every link, form, style sheet and redirect has the prefix."""
    with start(root_path="/lab") as server, visitor(server) as client:
        made(server.storage)
        text = client.get("/studies/paints").text
        links = [part.partition('"')[0] for word in WORDS for part in text.split(word)[1:]]
        assert {link for link in links if not link.startswith(("/lab/", "#"))} == set()
        asked = client.post("/studies/paints", data={"action": "ask", "n": "1", "worker": "me & you"})
        assert asked.headers["location"] == "/lab/studies/paints?worker=me+%26+you&n=1&did=ask&id=1"
        assert client.get("/static/surepick.js").headers["content-type"].startswith("text/javascript")
        assert client.get("/static/..%2Fpages.py").status_code == 404


@pytest.mark.parametrize("name", ["a/b", "a?b#c", "100 %", "log", "ü漢", "a/live", "../x"])
def test_any_name_has_a_page(server: RunningServer, name: str) -> None:
    """A name may have a slash, or be the word of another page."""
    made(server.storage, name)
    with visitor(server) as client:
        assert quote(name, safe="") in client.get("/").text
        for part in ("", "/live", "/log"):
            assert client.get(f"/studies/{quote(name, safe='')}{part}").status_code == 200
        there = client.post(f"/studies/{quote(name, safe='')}", data={"action": "ask", "n": "1"}).headers["location"]
        assert client.get(there).status_code == 200


def test_the_address_cannot_say_what_did_not_happen(server: RunningServer) -> None:
    """A link names a measurement, and the sentence about it comes from the log."""
    study = made(server.storage)
    study.tell(arm="A", value=5.0, worker="me")
    with visitor(server) as client:
        assert "A = 5 (measurement 1, not asked for" in client.get("/studies/paints?did=tell&id=1").text
        for query in ("did=tell&id=2", "did=fail&id=1", "did=nonsense&id=1", "did=void&id=0", "did=correct&id=99"):
            answer = client.get(f"/studies/paints?{query}")
            assert (answer.status_code, 'class="done"' in answer.text) == (200, False), query
        assert client.get("/studies/paints?did=tell&id=-1").status_code == 422


def test_forms_that_are_refused(server: RunningServer) -> None:
    """Each with a sentence on a page, and nothing is written."""
    study = made(server.storage)
    study.ask(1, worker="me")
    before = study.head
    refused = {
        "The form names no action": {"action": "dance"},
        "n must be a whole number": {"action": "ask", "n": "two"},
        "a whole number of at least 1": {"action": "ask", "n": "0"},
        "There is no ask 7": {"action": "tell", "ask": "7", "value": "1"},
        "could be 1.500 or 1500": {"action": "tell", "ask": "1", "value": "1,500"},
        "A measured value must be a number without its unit, and several have spaces between them, got '28,2 %'": {
            "action": "tell",
            "ask": "1",
            "value": "28,2 %",
        },
        "<code>value</code> must be a number": {"action": "tell", "ask": "1", "value": " "},
        "There is no measurement 1": {"action": "void", "measurement": "1", "reason": "x"},
        "must have at most 1,000 letters": {"action": "fail", "ask": "1", "reason": "x" * 1_001},
        "must be a line of text": {"action": "fail", "ask": "1", "reason": "a\x07b"},
        "There is no arm": {"action": "tell", "arm": "Z", "value": "1"},
    }
    with visitor(server) as client:
        for said, data in refused.items():
            answer = client.post("/studies/paints", data=data)
            is_page = "action" in said or "letters" in said  # no form of ours sends these
            assert answer.status_code == (422 if is_page else 200), data  # a browser logs every other status
            assert said in answer.text.replace("&#39;", "'"), (said, answer.text[:3000])
            assert answer.headers["content-type"].startswith("text/html")
        assert client.post("/studies/none", data={"action": "ask", "n": "1"}).status_code == 404
        elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert client.post("/studies/paints", data={"action": "ask", "n": "1"}, headers=elsewhere).status_code == 403
    assert study.head == before


def test_a_value_that_is_sent_twice_counts_once(server: RunningServer) -> None:
    """An ask has one result; a value that was not asked for has the key of its form."""
    study = made(server.storage)
    study.ask(1, worker="me")
    with visitor(server) as client:
        for data in ({"ask": "1", "value": "5"}, {"arm": "A", "value": "5", "key": "k1"}):
            answers = [client.post("/studies/paints", data={"action": "tell", **data}) for _ in range(2)]
            assert answers[0].headers["location"] == answers[1].headers["location"]
        again = client.post("/studies/paints", data={"action": "tell", "arm": "A", "value": "5", "key": "k2"})
        said = client.get(again.headers["location"]).text
    assert len(study.measurements) == 3
    assert "The same value was recorded as measurement 2; void one if it is the same measurement." in said


def test_a_receipt_names_every_value(server: RunningServer) -> None:
    """Also of several values; one with spaces between its thousands is refused."""
    study = made(server.storage)
    study.ask(1, worker="me")
    with visitor(server, follow_redirects=True) as client:
        tell = {"action": "tell", "ask": "1", "worker": "me"}
        refused = client.post("/studies/paints", data={**tell, "value": "1 234,5"}).text
        assert "write '1234.5' for one value, or '1; 234.5' for 2 values." in unescape(refused)
        said = client.post("/studies/paints", data={**tell, "value": "1; 234.5; 7"}).text
    assert "= 1 (measurement 1, answers ask 1). Also recorded: 234.5 and 7 (measurements 2 to 3)." in said


def test_a_question_names_the_arm_and_takes_any_value(server: RunningServer) -> None:
    """Where another decimal point is offered, the notes may still say something else."""
    study = made(server.storage)
    for n in range(12):
        study.tell(arm=NAMES[n % 3], value=40.0 + n / 10, worker="me")
    name = study.ask(1, worker="me")[0].name
    with visitor(server, follow_redirects=True) as client:
        tell = {"action": "tell", "ask": "1", "worker": "me", "value": "4102"}
        said = client.post("/studies/paints", data=tell).text.partition('id="message"')[2].partition('id="live"')[0]
    assert f"{name} = 4102 (measurement 13, answers ask 1)." in said
    assert re.findall(r"<button>(.*?)</button>|<summary>(.*?)</summary>", said) == [
        ("Keep 4102", ""),
        ("Correct to 41.02", ""),
        ("", "The notes say something else"),
        ("Correct", ""),
    ]


def test_a_number_pad_has_every_key(server: RunningServer) -> None:
    """That of an iPhone has no minus and no space, and the name of a control needs letters everywhere."""
    study = made(server.storage)
    study.ask(1, worker="me")
    study.tell(arm="A", value=1.0, worker="you")
    agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    file = {"file": ("t.csv", b"name,T\na,1\nb,2\nc,4\n")}
    for headers, keys in (({}, "decimal"), ({"User-Agent": agent}, "text")):
        with visitor(server, headers=headers) as client:
            page = client.get("/studies/paints?worker=me").text
            new = client.post("/new", files=file, data={"do": "look"}).text
        for field in ("tell1", "unasked-value", "value1"):
            assert re.search(rf'<input id="{field}"[^>]* inputmode="(\w+)"', page)[1] == keys  # type: ignore[index]
        for field, wanted in (("threshold", keys), ("control", "text")):
            assert re.search(rf'<input id="{field}"[^>]* inputmode="(\w+)"', new)[1] == wanted  # type: ignore[index]


def test_a_study_with_offsets_asks_for_pairs(server: RunningServer) -> None:
    """One measurement at a time would split them."""
    made(server.storage, "offset", groups="offset")
    made(server.storage, "plain")
    with visitor(server) as client:
        for name, n in (("offset", "2"), ("plain", "1")):
            page = client.get(f"/studies/{name}").text
            assert re.search(r'name="n"[^>]* value="(\d+)"', page)[1] == n  # type: ignore[index]
            assert ("ask for an even number" in page) is (name == "offset")


def test_a_remark_has_every_change(server: RunningServer) -> None:
    """A value that was corrected and is void says both, each with its own reason."""
    study = made(server.storage)
    study.tell(arm="A", value=500.0, worker="me")
    with visitor(server) as client:
        assert 'id="leaderboard"' in client.get("/studies/paints").text
        study.correct(1, 5.0, reason="point slipped")
        study.void(1, reason="wrong can")
        assert "corrected, was 500: point slipped; void: wrong can" in client.get("/studies/paints").text
        study.restore(1, reason="right can")
        said = client.get("/studies/paints").text
    assert "corrected, was 500: point slipped<" in said


def test_no_leaderboard_before_the_first_value(server: RunningServer) -> None:
    """It would be a list of names without a number."""
    made(server.storage)
    with visitor(server) as client:
        assert 'id="leaderboard"' not in client.get("/studies/paints").text


def test_signing_in_leads_nowhere_else(server: RunningServer) -> None:
    """After signing in a visitor stays on this server, whatever the form says; the cookie is for the server alone."""
    token = make_token(server.storage, "tell")
    with visitor(server) as client:
        for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""):
            answer = client.post("/sign-in", data={"token": token, "back": back})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert client.get("/").status_code == 200
        assert client.post("/sign-out").headers["location"] == "/sign-in"
        client.cookies.clear()
        answer = client.get("/")
        assert (answer.status_code, 'role="alert"' in answer.text) == (401, False)
        assert "surepick token create --role tell" in answer.text
        client.cookies.set("surepick_token", "spk_gone")  # the token of a visitor who was signed in
        answer = client.get("/")
        assert (answer.status_code, "the token is unknown or revoked" in answer.text.lower()) == (401, True)


def test_an_audit_needs_an_administrator(server: RunningServer) -> None:
    """A worker sees no button for an audit or a larger budget, and a form made by hand is refused."""
    made(server.storage, budget=1)
    token, reader = make_token(server.storage, "tell"), make_token(server.storage, "read")
    with visitor(server, headers={"Authorization": f"Bearer {reader}"}) as client:
        assert "Next:" not in client.get("/studies/paints").text  # a reader measures nothing
    with visitor(server, headers={"Authorization": f"Bearer {token}"}) as client:
        assert "Next:" in client.get("/studies/paints").text
        for data in ({"action": "audit"}, {"action": "reopen", "budget": "5", "reason": "x"}):
            answer = client.post("/studies/paints", data=data)
            assert (answer.status_code, "role admin" in answer.text) == (403, True)


def test_a_study_that_cannot_be_read_leaves_the_list_whole(server: RunningServer) -> None:
    """The list shows why, and the others."""
    made(server.storage, "good")
    bad = made(server.storage, "bad")
    bad.close()
    with closing(sqlite3.connect(server.storage)) as file, file:
        file.execute("UPDATE events SET text = '{}' WHERE study = (SELECT id FROM studies WHERE name = 'bad')")
    with visitor(server) as client:
        text = client.get("/").text
    assert ("unreadable" in text, "good" in text) == (True, True)


def test_a_view_is_worked_out_once_for_each_event(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many people look."""
    study, made_views = made(server.storage), list[int]()
    view_of = study_view.view_of

    def counted(*args: Any, **options: Any) -> Any:
        made_views.append(1)
        return view_of(*args, **options)

    monkeypatch.setattr(study_view, "view_of", counted)
    with visitor(server) as client:
        for _ in range(3):
            client.get("/studies/paints/live")
        study.ask(1, worker="me")
        client.get("/studies/paints")
    assert len(made_views) == 2


def test_long_lists_are_folded(server: RunningServer) -> None:
    """Of 60 arms the first 50 are shown, the others behind a link."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    with sp.create_study("many", arms=sp.FiniteArms(rows), storage=server.storage) as study:
        study.tell(study.ask(1)[0].id, 1.0)
    with visitor(server) as client:
        folded, whole = (client.get(f"/studies/many{query}").text for query in ("", "?arms=all"))
    assert [text.count('id="place-') for text in (folded, whole)] == [50, 60]
    assert ("50 of 60 are shown" in folded, "arms=all#leaderboard" in folded) == (True, True)
    assert "are shown" not in whole


def test_the_log_has_pages(server: RunningServer) -> None:
    """The newest first, older ones behind a link, also at both ends."""
    study = made(server.storage)
    study.together([partial(study.tell, arm="A", value=float(n), warn=False) for n in range(120)])
    with visitor(server) as client:
        first = client.get("/studies/paints/log").text
        assert ("before=71" in first, 'id="m120"' in first, 'id="m70"' in first) == (True, True, False)
        last = client.get("/studies/paints/log?before=21&events=2").text
        assert ('id="m1"' in last, 'id="m21"' in last, "Earlier" in last) == (True, False, False)
        assert client.get("/studies/paints/log?before=0&events=0").status_code == 200
        assert client.get("/studies/paints/log?before=99999&events=99999").status_code == 200
