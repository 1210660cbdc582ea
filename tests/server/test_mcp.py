"""Tools for agents, by FastMCP's own client: in memory, and over the standard input and output of a real process."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

from surepick.server.mcp import READS, WRITES, create_mcp
from surepick.study.admin import delete_study, load_study
from tests.server.conftest import RunningServer
from tests.study.tree_study import means, new

Session = Callable[[Any], Awaitable[None]]


def talk(server: Any, session: Session) -> None:
    """Let an agent use tools."""

    async def talking() -> None:
        async with Client(server) as agent:
            await session(agent)

    asyncio.run(talking())


async def said(agent: Any, tool: str, **given: Any) -> Any:
    """Call a tool; return what it says, which must be small."""
    answer = await agent.call_tool(tool, given)
    found = answer.structured_content
    assert len(json.dumps(found)) < 6_000
    return found.get("result", found)


async def measure_all(agent: Any) -> None:
    """Measure until the study has stopped, as an agent would."""
    while asks := await said(agent, "ask", n=4):
        for one in asks:
            assert {"ask", "arm", "recipe", "reason"} == one.keys()
            value = 0.7 * one["recipe"]["x0"] + 0.6 * one["recipe"]["x1"]
            told = await said(agent, "tell", ask=one["ask"], value=value)
            assert told["remarks"] == []


@pytest.mark.parametrize("is_remote", [False, True], ids=["file", "server"])
def test_an_agent_finds_the_best(server: RunningServer, is_remote: bool) -> None:
    """Ask, tell, status, best, plan and certificate, on a file and on a server; what is told is in the log."""
    storage = server.url if is_remote else server.storage
    new(storage=storage)

    async def session(agent: Any) -> None:
        before = await said(agent, "best")
        assert not before["stopped"]
        assert before["guarantee"] == "none"  # nothing is proved yet
        assert before["confidence"] is None or before["confidence"] <= 1.0
        assert (await said(agent, "plan"))["state"] == "new"
        await measure_all(agent)
        assert (await said(agent, "status"))["state"] == "stopped"
        best = await said(agent, "best")
        assert (best["best_name"], best["guarantee"], best["stopped"]) == ("ash", "proved", True)
        assert "estimates" in best
        assert "ash is the best" in (await said(agent, "certificate"))["claim"]
        assert (await said(agent, "plan"))["summary"] == "the study has stopped"

    talk(create_mcp(storage), session)
    study = load_study("trees", server.storage)
    assert study.stopped
    assert {one.by for one in study.measurements} == {"agent"}


def test_the_tools_describe_themselves(tmp_path: Path) -> None:
    """Every tool and every argument has words, and says whether it changes anything."""
    new(storage=tmp_path / "lab.db")

    async def session(agent: Any) -> None:
        tools = {one.name: one for one in await agent.list_tools()}
        assert tools.keys() == {*WRITES, *READS}
        for name, one in tools.items():
            assert one.description
            schema = one.model_dump(by_alias=True)["inputSchema"]["properties"]
            assert all("description" in argument for argument in schema.values() if "reason" not in schema), name
            assert one.annotations.model_dump(by_alias=True)["readOnlyHint"] is (name in READS)

    talk(create_mcp(str(tmp_path / "lab.db")), session)


def test_refusals_are_sentences_for_the_agent(tmp_path: Path) -> None:
    """The sentence of the exception, and a study that was made anew is read again."""
    storage = tmp_path / "lab.db"
    new(storage=storage)

    async def session(agent: Any) -> None:
        with pytest.raises(ToolError, match="there is no ask 9; no ask is open"):
            await said(agent, "tell", ask=9, value=1.0)
        with pytest.raises(ToolError, match="did you mean 'trees'"):
            await said(agent, "status", study="tree")
        (ask,) = await said(agent, "ask")
        assert (await said(agent, "fail", ask=ask["ask"], reason="spilt"))["n_pending"] == 0
        new("others", storage=storage)
        assert (await said(agent, "status"))["name"] == "trees"  # the one that was the only one
        delete_study("trees", storage)
        new(storage=storage, noise_std=0.3)
        with pytest.raises(ToolError, match="made anew"):
            await said(agent, "status")
        with pytest.raises(ToolError, match="a study must be named"):
            await said(agent, "status")
        assert (await said(agent, "status", study="trees"))["n_pulls"] == 0

    talk(create_mcp(str(storage)), session)


def test_a_real_process_speaks_over_its_standard_streams(tmp_path: Path) -> None:
    """`surepick mcp` as an agent's program starts it; a questioned value comes back as a remark."""
    storage = tmp_path / "lab.db"
    study = new(storage=storage)
    for ask in study.ask(12, worker="ann"):
        study.tell(ask, means(ask.arm), worker="ann")
    arguments = ["-m", "surepick", "mcp", "--storage", str(storage), "--study", "trees"]

    async def session(agent: Any) -> None:
        asks = await said(agent, "ask", worker="robot")
        if asks:
            told = await said(agent, "tell", ask=asks[0]["ask"], value=7_000.0, worker="robot")
            assert "mistyped" in told["remarks"][0]
        assert (await said(agent, "status"))["name"] == "trees"

    talk(StdioTransport(sys.executable, arguments, env=dict(os.environ)), session)
