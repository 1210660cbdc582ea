"""Labels of groups over HTTP: the interface, clients, remote studies, tools for agents and the dashboard."""

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

import surepick as sp
from surepick.client import Client
from surepick.server.mcp import create_mcp
from tests.browser import needs_browser, open_browser
from tests.server.conftest import RunningServer
from tests.server.test_dashboard import check, visiting
from tests.waiting import LIMIT, until

NAMES = ["A", "B", "C"]
B_3 = {"bench": "B", "day": "3"}


def made(storage: str, **options: Any) -> sp.Study:
    """Create a study of three paints."""
    return sp.create_study("paints", arms=sp.FiniteArms(np.eye(3), names=NAMES), storage=storage, **options)


def groups(server: RunningServer) -> list[dict[str, str]]:
    """Return the labels of all measurements in the storage of a server."""
    return [dict(one.group) for one in sp.load_study("paints", server.storage).measurements]


def test_interface(server: RunningServer) -> None:
    """Asks and results have a field for the label, a text or an object; records have an object."""
    made(server.storage)
    with server.client() as client:
        asked = client.post("studies/paints/asks", json={"n": 2, "group": {"day": 3, "bench": "B"}}).json()["asks"]
        assert [one["group"] for one in asked] == [B_3] * 2
        assert [one["group"] for one in client.get("studies/paints/asks").json()["asks"]] == [B_3] * 2
        first, second = (f"studies/paints/asks/{one['id']}/result" for one in asked)
        assert client.post(first, json={"value": 0.5}).json()["measurements"][0]["group"] == B_3
        refused = client.post(second, json={"value": 0.5, "group": {"day": 4}})
        assert (refused.status_code, "was asked for the group" in refused.json()["detail"]) == (422, True)
        for odd in ("", {"day": None}, {"day": [3]}, [3], {"day": ""}, "a\u0007"):
            assert client.post("studies/paints/asks", json={"group": odd}).status_code == 422, odd
        of_arm = {"results": [{"arm": "A", "value": 0.5, "group": "day 4"}]}
        assert client.post("studies/paints/measurements", json=of_arm).json()["measurements"][0]["group"] == {
            "group": "day 4"
        }
        mixed = [{"arm": "A", "value": 0.5, "group": day} for day in ("1", "2")]
        both = {"results": mixed, "earlier": False}
        assert client.post("studies/paints/measurements", json=both).status_code == 422
        client.post("studies/paints/measurements", json={"results": mixed})
        listed = client.get("studies/paints/measurements").json()["measurements"]
    assert [one["group"] for one in listed] == groups(server)
    assert groups(server) == [B_3, {"group": "day 4"}, {"group": "1"}, {"group": "2"}]


def test_client(server: RunningServer) -> None:
    """A client sends labels with asks and results."""
    made(server.storage)
    with Client(server.url, "paints", worker="robot") as client:
        (ask,) = client.ask(group=B_3)
        assert ask.group == B_3
        client.tell(ask, 0.5)
        client.tell(arm="A", value=0.4, group="day 4")
        client.tell_earlier([("B", 0.1, "day 0"), ("C", 0.2)])
    assert groups(server) == [B_3, {"group": "day 4"}, {"group": "day 0"}, {}]


def test_remote_study(server: RunningServer, tmp_path: Any) -> None:
    """A study on a server takes labels as others do: asks, results, items, sheets, earlier results, workers."""
    study = made(server.url, group_by="worker", author="ann")
    (ask,) = study.ask(group={"day": 3})
    assert ask.group == {"day": "3"}
    with pytest.raises(sp.InvalidInput, match="was asked for the group 'day 3'"):
        study.tell(ask, 0.5, group={"day": 4})
    study.tell(ask, 0.5)
    study.tell(study.ask()[0], 0.5, item=17, worker="bob")
    study.tell_earlier([("A", 0.5, {"day": 0})])
    (ask,), sheet = study.ask(), tmp_path / "asks.csv"
    sheet.write_text(f"ask,day,value\n{ask.id},4,0.5\n")
    study.tell_file(sheet, group_columns=["day"])
    days = [{"day": "3", "worker": "ann"}, {"item": "17", "worker": "bob"}]
    assert groups(server) == [*days, {"day": "0", "worker": "ann"}, {"day": "4", "worker": "ann"}]
    study.optimize(lambda _: (0.5, "day 5"), max_pulls=1)
    assert groups(server)[-1]["group"] == "day 5"


def test_tools(server: RunningServer) -> None:
    """An agent may say where it measures."""
    fastmcp = pytest.importorskip("fastmcp")
    made(server.storage)

    async def session() -> Any:
        async with fastmcp.Client(create_mcp(server.storage)) as agent:
            asked = (await agent.call_tool("ask", {"group": "day=3, bench=B"})).structured_content["result"]
            await agent.call_tool("tell", {"ask": asked[0]["ask"], "value": 0.5})
            (other,) = (await agent.call_tool("ask", {})).structured_content["result"]
            await agent.call_tool("tell", {"ask": other["ask"], "value": 0.5, "group": "day 4"})
            return asked[0]["group"], other

    label, other = asyncio.run(session())
    assert label == B_3
    assert "group" not in other
    assert groups(server) == [B_3, {"group": "day 4"}]


def test_forms(server: RunningServer) -> None:
    """Forms label asks and values, and remember what was typed last; a fixed label is not told again."""
    made(server.storage)
    with httpx.Client(base_url=server.url, timeout=LIMIT, follow_redirects=True) as client:
        form = {"worker": "ann", "action": "ask", "n": "1", "group": "day=3, bench=B"}
        page = client.post("/studies/paints", data=form)
        assert "Measure on <strong>bench B, day 3</strong>" in page.text
        assert 'value="day=3, bench=B"' in page.text
        assert "group=day" in str(page.url)
        told = {"worker": "ann", "action": "tell", "ask": "1", "value": "0.5", "last_group": "day=3, bench=B"}
        page = client.post("/studies/paints", data=told)
        assert "A = 0.5 (measurement 1, bench B, day 3, answers ask 1)." in page.text.replace("B = ", "A = ")
        assert 'value="day=3, bench=B"' in page.text
        client.post("/studies/paints", data={"worker": "ann", "action": "ask", "n": "1"})
        odd = {"worker": "ann", "action": "tell", "ask": "2", "value": "0.5", "group": "day=3, day=4"}
        assert "two levels of &#39;day&#39;" in client.post("/studies/paints", data=odd).text
        client.post("/studies/paints", data=odd | {"group": "day 4"})
        log = client.get("/studies/paints/log").text
        assert "day 4" in log
    assert groups(server) == [B_3, {"group": "day 4"}]


def test_go_on_with_offsets(server: RunningServer) -> None:
    """Where a bench reads high, the page says what to do, and a button does it."""
    study, rng = made(server.storage), np.random.default_rng(0)
    means, seen = {"A": 1.0, "B": 0.9, "C": 0.8}, 0
    while study.status.state != "withdrawn":
        for bench, high in (("1", 0.0), ("2", 0.0), ("3", 1.5)):
            for ask in study.ask(6, group={"bench": bench}):
                value = means[ask.name] + high + 0.3 * rng.standard_normal()
                study.tell(ask, float(value), warn=False, questions=False)
        seen += 1
        assert seen < 20
    with httpx.Client(base_url=server.url, timeout=LIMIT, follow_redirects=True) as client:
        page = client.get("/studies/paints").text
        assert "Go on with an offset for every group" in page
        assert "they guide a new study" not in page
        assert 'id="offset-form"' in page
        form = {"worker": "ann", "action": "reopen", "groups": "offset", "reason": "bench 3 reads high"}
        page = client.post("/studies/paints", data=form).text
        assert "Era 2 has begun." in page
        assert "offsets are allowed for; bench 3 +" in page
        assert 'id="offset-form"' not in page
    assert sp.load_study("paints", server.storage).learner.spec.groups == "offset"


@needs_browser
def test_at_the_bench(server: RunningServer) -> None:
    """In a browser the day is typed once: the next value at the bench has it already."""
    made(server.storage)
    with open_browser() as browser, visiting(browser, width=390) as page:
        page.goto(f"{server.url}/studies/paints?worker=ann")
        page.fill("#n", "1")
        page.click("#ask-form button")
        page.locator("input.value").wait_for()
        page.fill("input.value", "0.5")
        page.click("article.ask form.tell button")
        until(lambda: groups(server) == [{}])
        page.fill("#ask-form [name=n]", "1")
        page.fill("#ask-form [name=group]", "day 3")
        page.click("#ask-form button")
        page.locator("article.ask strong", has_text="day 3").wait_for()
        page.fill("input.value", "0.6")
        page.click("article.ask form.tell button")
        until(lambda: groups(server) == [{}, {"group": "day 3"}])
        # Another program asks for this worker without a label: the field beside the value has the last one.
        sp.load_study("paints", server.storage).ask(1, worker="ann")
        page.locator("article.ask [name=group]").wait_for()
        assert page.input_value("article.ask [name=group]") == "day 3"
        check(page)
        page.fill("input.value", "0.7")
        page.click("article.ask form.tell button")
        until(lambda: groups(server)[2:] == [{"group": "day 3"}])
        page.locator("#latest td", has_text="day 3").first.wait_for()


@needs_browser
def test_a_study_that_needs_labels(server: RunningServer) -> None:
    """An ask without a label is no dead end: its card has the field, and each field says that it is needed."""
    study = made(server.storage, groups="offset")
    study.ask(1, worker="ann")
    with open_browser() as browser, visiting(browser, width=390) as page:
        page.goto(f"{server.url}/studies/paints?worker=ann")
        page.fill("input.value", "0.5")
        page.click("article.ask form.tell button")  # the browser asks for the label, and sends nothing
        assert (
            page.evaluate("document.activeElement.closest('article') !== null && document.activeElement.name")
            == "group"
        )
        check(page)
        page.fill("article.ask [name=group]", "day 3")
        page.click("article.ask form.tell button")
        until(lambda: groups(server) == [{"group": "day 3"}])
        page.locator("#m1").wait_for()
        labels = page.locator("label", has_text="Day, bench or plate, needed in this study")
        assert labels.count() == page.locator("[name=group][required]").count() == 2
        # The browser keeps worker and label, of this study and of today.
        page.goto(server.url)
        page.get_by_role("link", name="paints").click()
        until(lambda: page.input_value("#ask-form [name=group]") == "day 3")
        page.evaluate("localStorage.setItem('group /studies/paints', 'Sat Jan 01 2000 day 3')")
        page.goto(f"{server.url}/studies/paints?worker=ann")
        page.get_by_text("live", exact=True).wait_for()
        assert page.input_value("#ask-form [name=group]") == ""
