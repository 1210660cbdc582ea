"""Both clients against a real server: what they can do, what they say of errors, and that nothing counts twice."""

import asyncio
import inspect
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import httpx
import numpy as np
import pytest

import surepick as sp
from surepick import errors
from surepick.client import AsyncClient, Client, Record
from surepick.study.admin import load_study
from surepick.study.certificate import verify
from surepick.study.study import Study
from tests.server.conftest import RunningServer, make_token, serving
from tests.study.kinds import NAMES, ROWS
from tests.study.tree_study import means
from tests.waiting import until

ARMS = {"kind": "finite", "rows": ROWS.tolist(), "names": NAMES, "features": ["sun", "rain"]}


class Blocking:
    """A client whose methods block, whether they are coroutines or not."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self.client, self.runner = client, runner

    def __getattr__(self, name: str) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            answer = getattr(self.client, name)(*given, **named)
            return self.runner.run(answer) if inspect.iscoroutine(answer) else answer

        return called

    def first_events(self, n: int, after: int = 0) -> list[Any]:
        """Return n events of the stream."""

        async def read() -> list[Any]:
            found = []
            async for event in (events := self.client.events(after)):
                found.append(event)
                if len(found) == n:
                    break
            await events.aclose()
            return found

        if isinstance(self.client, AsyncClient):
            return self.runner.run(read())
        events = self.client.events(after)
        found = [next(events) for _ in range(n)]
        events.close()
        return found


@pytest.fixture(params=[Client, AsyncClient])
def trees(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Blocking]:
    """A client, of either class, for a study of four trees."""
    with asyncio.Runner() as runner:
        client = Blocking(request.param(server.url, worker="robot"), runner)
        client.create("trees", ARMS, noise_std=0.2)
        yield Blocking(client.client.of("trees"), runner)
        client.close()


def local(server: RunningServer) -> Study:
    """The study past the server."""
    return load_study("trees", server.storage)


def test_a_robot_finds_the_best(trees: Blocking, server: RunningServer, tmp_path: Path) -> None:
    """Ask and tell until it stops; check the model; then files, certificate and log, as the study itself has them."""
    while asks := trees.ask(3):
        for ask in asks:
            assert (ask.name, ask.recipe) == (NAMES[ask.arm], dict(zip(("sun", "rain"), ROWS[ask.arm], strict=True)))
            assert trees.tell(ask, means(ask.arm))[0].ask == ask.id
    status = trees.status()
    assert (status.state, status.best_name, status["head"]["hash"]) == ("stopped", "ash", local(server).head[1])
    assert trees.audit(2) == 2
    assert len(trees.ask(5)) == 2
    assert len(trees.pending()) == 2
    certificate = trees.certificate()
    assert verify(certificate, local(server).rows()).ok
    assert trees.log() == local(server).log
    assert trees.first_events(3, after=2) == local(server).log[2:5]
    path = trees.export("csv", tmp_path / "log.csv")
    assert path.read_text().count("\n") == len(local(server).log) + 1
    assert trees.export("xlsx", tmp_path / "m.xlsx").stat().st_size > 1_000
    assert "ash" in trees.report(tmp_path / "page.html").read_text()
    trees.reopen(reason="a smaller risk", delta=0.01, join={"yew": [0.5, 0.5]}, retire=["fir"])
    assert local(server).status.era == 2
    assert [one.name for one in trees.studies()] == ["trees"]
    trees.delete()
    assert trees.studies() == []


def test_results_by_arm_and_corrections(trees: Blocking, server: RunningServer) -> None:
    """What `Study.tell`, `void`, `correct`, `restore` and `fail` do."""
    asks = trees.ask(2)
    trees.fail(asks[0], reason="spilt")
    told = trees.tell(arm=asks[1].name, value=[np.float32(0.5), 1])  # answers the ask, and one more
    assert [one.ask for one in told] == [asks[1].id, asks[1].id]
    trees.tell(arm="oak", value=0.6, worker="ann", key="oak-1")
    assert [one.id for one in trees.tell(arm="oak", value=0.6, worker="ann", key="oak-1")] == [3]
    for key in ("größe.csv", "k" * 300):  # no text for a header
        trees.void(trees.tell(arm="oak", value=0.6, key=key)[0].id, reason="a test")
        trees.tell(arm="oak", value=0.6, key=key)
    earlier = [("elm", 0.7), ("elm", 0.8)]
    assert [one.id for one in trees.tell_earlier(earlier)] == [one.id for one in trees.tell_earlier(earlier)] == [6, 7]
    assert [one.id for one in trees.tell_earlier(earlier, key="again")] == [8, 9]
    trees.void(1, reason="spilt")
    trees.restore(1, reason="it was not")
    trees.correct(1, 0.55, reason="typo")
    assert [one.value for one in trees.measurements()] == [one.value for one in local(server).measurements]
    first = trees.measurements()[0]
    assert (first.value, first.told, first.author, len(first.changes)) == (0.55, 0.5, "robot", 3)
    with pytest.raises(AttributeError, match="has no field 'colour'; it has id, arm"):
        _ = first.colour


def test_a_value_that_looks_mistyped_is_a_warning(trees: Blocking) -> None:
    """Or a remark alone."""
    for ask in trees.ask(8):
        trees.tell(ask, means(ask.arm))
    with pytest.warns(sp.EntryWarning, match="mistyped") as caught:
        trees.tell(arm="oak", value=600.0)
    if isinstance(trees.client, Client):
        assert Path(caught[0].filename) == Path(__file__)
    assert len(trees.tell(arm="oak", value=70_000.0, warn=False).remarks) == 1


BAD: dict[str, Callable[[Any], Any]] = {
    "no ask": lambda one: one.tell(99, 1.0),
    "answered": lambda one: one.tell(1, 7.0),
    "no arm": lambda one: one.tell(arm="okk", value=1.0),
    "neither": lambda one: one.tell(value=1.0),
    "other use of a key": lambda one: (
        one.tell(arm="oak", value=1.0, key="k"),
        one.tell(arm="elm", value=1.0, key="k"),
    ),
    "no measurement": lambda one: one.void(99, reason="none"),
    "no reason": lambda one: one.void(1, reason=" "),
    "void already": lambda one: (one.void(1, reason="spilt"), one.void(1, reason="spilt")),
    "nothing changes": lambda one: one.reopen(reason="why not"),
    "no option": lambda one: one.reopen(reason="typo", detla=0.1),
    "before the verdict": lambda one: one.audit(2),
}


def test_errors_are_those_of_a_study(trees: Blocking) -> None:
    """The same class, the same sentence."""
    for what, bad in BAD.items():
        own: Any = sp.create_study(what, arms=sp.FiniteArms(ROWS, names=NAMES), noise_std=0.2, storage="memory:")
        trees.create(what, ARMS, noise_std=0.2)
        theirs = Blocking(trees.client.of(what), trees.runner)
        for one in (own, theirs):
            one.ask(1, worker="robot")
            one.tell(1, 0.5)
        with pytest.raises(errors.SurepickError) as expected:
            bad(own)
        with pytest.raises(type(expected.value)) as found:
            bad(theirs)
        assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value)), what


def test_errors_of_the_client_itself(trees: Blocking, server: RunningServer) -> None:
    """What to do is in the sentence."""
    with pytest.raises(errors.InvalidInput, match="finite numbers"):
        trees.tell(arm="oak", value=float("nan"))
    text: Any = "abc"
    with pytest.raises(errors.InvalidInput, match="got 'abc'"):
        trees.tell(arm="oak", value=text)
    with Client(server.url) as client:
        with pytest.raises(errors.NoSuchStudy, match="did you mean 'trees'"):
            client.of("tres").status()
        with pytest.raises(errors.InvalidInput, match="must know which study"):
            client.ask()
    with pytest.raises(errors.StudyExists, match="already"):
        trees.create("trees", ARMS)
    said = "elsewhere answers 404 Not Found; check the address"
    with Client(f"{server.url}/elsewhere", "trees") as client, pytest.raises(errors.SurepickError, match=said):
        client.status()
    said = r"no answer from http://127.0.0.1:9 .*whether the server runs"
    with Client("http://127.0.0.1:9", "trees", patience=0.2) as client, pytest.raises(errors.StorageError, match=said):
        client.status()


def test_every_name_is_reachable(server: RunningServer) -> None:
    """Names may have any letters."""
    for name in ("a/b", "v1.2", "..", ".", "50 % ü?#&+", "ask", "log", "a//b/"):
        sp.create_study(name, arms=ROWS.tolist(), storage=server.storage)
        with Client(server.url, name) as client:
            assert client.status().name == name
            assert client.tell(client.ask()[0], 0.5)[0].id == 1
            assert next(client.events()).name == name


def test_a_server_behind_a_prefix(tmp_path: Path) -> None:
    """As proxies have it: the prefix is part of the address."""
    with serving(str(tmp_path / "lab.db"), root_path="/lab/one") as server:
        assert server.url.endswith("/lab/one")
        study = sp.create_study("trees", arms=ROWS.tolist(), storage=f"{server.url}/")
        assert study.ask(1, worker="ann")[0].id == 1
        with Client(server.url, "trees", worker="ann") as client:
            assert client.tell(client.ask()[0], 0.5)[0].ask == 1
            assert next(client.events(after=1)).kind == "planned"


def test_the_page_about_the_client_runs(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/client.md, top to bottom, with the address of this server."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace("http://127.0.0.1:8080", server.url), namespace)
    assert capsys.readouterr().out.split()[:2] == ["new", "C"]


# ---- a network that fails


class Network(httpx.BaseTransport):
    """Leads to a server that may stop and come back at another port, and loses answers."""

    def __init__(self) -> None:
        self._real = httpx.HTTPTransport()
        self.url: str | None = None
        self.n_lost = 0
        """Answers that will be lost once the server has done what was asked."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the server of the moment."""
        if self.url is None:
            raise httpx.ConnectError("refused", request=request)
        at = httpx.URL(self.url)
        request.url = request.url.copy_with(host=at.host, port=at.port)
        answer = self._real.handle_request(request)
        if self.n_lost:
            self.n_lost -= 1
            answer.close()
            raise httpx.ReadError("lost", request=request)
        return answer

    def close(self) -> None:
        """The clients of a test share it."""

    def end(self) -> None:
        """Close the connections."""
        self._real.close()


@pytest.fixture
def network() -> Iterator[Network]:
    """A network for `through`."""
    made = Network()
    yield made
    made.end()


def through(network: Network, name: str, **more: Any) -> Client:
    """A client on a network."""
    client = Client("http://localhost:1", name, **more)
    client.close()
    client._http = httpx.Client(transport=network, base_url=client._http.base_url)
    return client


@pytest.fixture
def shaky(server: RunningServer, network: Network) -> Client:
    """A client of a study, on a network that fails."""
    with Client(server.url) as client:
        client.create("trees", ARMS, noise_std=0.2)
    network.url = server.url
    return through(network, "trees")


def test_a_lost_answer_makes_nothing_twice(shaky: Client, server: RunningServer, network: Network) -> None:
    """Asks, results by ask and by arm, earlier results, and giving up: sent again, done once."""
    network.n_lost = 2
    asks = shaky.ask(3)
    assert [one.id for one in asks] == [1, 2, 3]
    for call in (
        lambda: shaky.tell(asks[0], 0.5),
        lambda: shaky.tell(arm="yew" if "yew" in NAMES else "oak", value=0.6, worker="ann"),
        lambda: shaky.tell_earlier([("elm", 0.7), ("oak", 0.6)]),
        lambda: shaky.fail(asks[1], reason="spilt"),
    ):
        network.n_lost = 2
        call()
        assert network.n_lost == 0
    study = local(server)
    assert [one.told for one in study.measurements] == [0.5, 0.6, 0.7, 0.6]
    assert len(study.state.attempts) == 3


def test_a_change_whose_answer_is_lost_is_not_made_again(shaky: Client, network: Network) -> None:
    """It may have happened: the error says how to find out."""
    while asks := shaky.ask():
        shaky.tell(asks[0], means(asks[0].arm))
    changes: dict[str, Callable[[], Any]] = {
        "voided": lambda: shaky.void(1, reason="spilt"),
        "restored": lambda: shaky.restore(1, reason="not spilt"),
        "corrected": lambda: shaky.correct(1, 0.6, reason="typo"),
        "audited": lambda: shaky.audit(2),
        "reopened": lambda: shaky.reopen(reason="less risk", delta=0.01),
        "created": lambda: shaky.create("others", ARMS),
        "deleted": shaky.delete,
    }
    for kind, change in changes.items():
        network.n_lost = 1
        with pytest.raises(errors.OutcomeUnknown, match="has happened, or not; look into the log"):
            change()
        assert network.n_lost == 0
        assert kind == "deleted" or [event.kind for event in shaky.log()].count(kind) == 1
    assert [one.name for one in shaky.studies()] == ["others"]


def test_patience(shaky: Client, server: RunningServer, network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is sent again if it never arrived; after some time the client gives up, and says so.

    Patience is short until the server has answered once, whichever study was asked for.
    """
    monkeypatch.setattr("surepick.client.FIRST_PATIENCE", 0.0)
    shaky.tell(shaky.ask()[0], 0.5)
    network.url = None
    threading.Timer(0.3, lambda: setattr(network, "url", server.url)).start()
    shaky.of("trees").correct(1, 0.6, reason="typo")
    assert shaky.measurements()[0].value == 0.6
    network.url, shaky.patience = None, 0.2
    with pytest.raises(errors.StorageError, match=r"no answer from http://localhost:1 .refused."):
        shaky.correct(1, 0.7, reason="typo")
    with through(network, "trees") as client, pytest.raises(errors.StorageError, match="no answer"):
        client.status()


@pytest.mark.parametrize(
    ("status", "kind", "again", "expected"),
    [
        (503, "StorageError", False, None),
        (503, "OutcomeUnknown", True, None),
        (503, "OutcomeUnknown", False, errors.OutcomeUnknown),
        (502, "", True, None),
        (504, "", False, errors.OutcomeUnknown),
        (503, "CorruptLog", True, errors.CorruptLog),
        (429, "TooBusy", False, None),
        (500, "", True, errors.SurepickError),
        (301, "", True, errors.SurepickError),
    ],
)
def test_which_answers_are_waited_out(status: int, kind: str, again: bool, expected: Any) -> None:
    """Those of a server that has done nothing, and for what can be sent twice those of a broken one too."""
    problem = {"type": f"urn:surepick:{kind}", "detail": "The reason."}
    answer = httpx.Response(status, json=problem, headers={"Retry-After": "2"})
    with Client("http://127.0.0.1:1", "trees") as client:
        client.patience = 60.0
        if expected is None:
            assert 2.0 <= client._pause(answer, time.monotonic(), 0.1, again=again) <= 3.0
            return
        with pytest.raises(errors.SurepickError) as refused:
            client._pause(answer, time.monotonic(), 0.1, again=again)
        assert type(refused.value) is expected


def test_a_refusal_without_a_word_has_its_status() -> None:
    """As a proxy may send it."""
    refusing: Any = httpx.MockTransport(lambda _: httpx.Response(500))
    with through(refusing, "trees") as client, pytest.raises(errors.SurepickError, match="answers 500 Internal"):
        client.status()


def test_a_busy_server_is_asked_again_later(tmp_path: Path) -> None:
    """429 with Retry-After, from a limit of three requests a second."""
    with serving(str(tmp_path / "lab.db"), rate=3) as server, Client(server.url) as client:
        client.create("trees", ARMS)
        one = client.of("trees")
        assert [len(one.ask(3)) for _ in range(6)] == [3] * 6
        impatient = Client(server.url, "trees", patience=0.0)
        with pytest.raises(errors.StorageError, match="more than 3 requests a second"), impatient:
            [impatient.status() for _ in range(8)]


def test_servers_come_and_go_while_robots_work(tmp_path: Path, network: Network) -> None:
    """Every robot finishes by itself, every acknowledged result is in the log once, and the stream misses nothing."""
    storage, n = str(tmp_path / "lab.db"), 8
    sp.create_study("trees", arms=ROWS.tolist(), noise_std=5.0, delta=1e-9, storage=storage)
    acknowledged, heard, is_over = list[tuple[int, float]](), list[Any](), threading.Event()

    def robot(number: int) -> None:
        with through(network, "trees", worker=f"robot-{number}") as client:
            for _ in range(n):
                (ask,) = client.ask()
                value = float(number + ask.id / 1_000)
                client.tell(ask, value, warn=False)
                acknowledged.append((ask.id, value))
            client.tell(arm=0, value=100.0 + number, warn=False)
            acknowledged.append((0, 100.0 + number))

    def listener() -> None:
        with through(network, "trees") as client:
            for event in client.events():
                heard.append(event)
                if is_over.is_set():
                    return

    def serve(until_told: int) -> None:
        with serving(storage) as server:
            network.url = server.url
            until(lambda: len(acknowledged) >= until_told or jobs_are_over())
            network.url, network.n_lost = None, 2  # the next answers, from the next server, are lost

    def jobs_are_over() -> bool:
        return all(job.done() for job in jobs)

    with ThreadPoolExecutor(4) as pool:
        listening = pool.submit(listener)
        jobs = [pool.submit(robot, number) for number in range(3)]
        for until_told in (5, 12, 3 * (n + 1)):
            serve(until_told)
        for job in jobs:
            job.result()
        study = load_study("trees", storage)
        with serving(storage) as server:
            network.url = server.url
            until(lambda: len(heard) >= len(study.log))
            is_over.set()
            study.ask(1)
            listening.result()
    assert sorted(acknowledged) == sorted((one.ask or 0, one.told) for one in study.measurements)
    assert heard[: len(study.log) - 1] == study.log[: len(study.log) - 1]
    assert [event["n"] for event in heard] == [*range(1, len(heard) + 1)]


# ---- secrets


def test_a_token_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By argument or environment; the errors of roles are sentences."""
    storage = str(tmp_path / "lab.db")
    sp.create_study("trees", arms=ROWS.tolist(), storage=storage)
    secret = make_token(storage, "read", label="ann")
    with serving(storage) as server:
        monkeypatch.setenv("SUREPICK_TOKEN", secret)
        with Client(server.url, "trees") as client:
            assert client.status().name == "trees"
            with pytest.raises(errors.SurepickError, match="needs a token of the role tell") as refused:
                client.ask()
            shown = f"{client!r} {refused.value} {vars(client)}"
            assert secret not in shown
        monkeypatch.delenv("SUREPICK_TOKEN")
        said = "needs a token.* or in SUREPICK_TOKEN"
        with Client(server.url, "trees") as client, pytest.raises(errors.SurepickError, match=said):
            client.status()


def test_a_token_goes_to_no_other_machine_in_the_open() -> None:
    """Unless that is allowed; a password in an address is refused and not shown."""
    for url in (
        "http://lab.example:8080",
        "http://10.0.0.7",
        "http://127.evil.example",
        "http://localhost.evil.example",
    ):
        with pytest.raises(errors.InvalidInput, match=r"must go encrypted.*SUREPICK_ALLOW_HTTP=1") as refused:
            Client(url, token="spk_secret")
        assert "spk_secret" not in str(refused.value)
        Client(url, token="spk_secret", allow_http=True).close()
        Client(url).close()
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://lab.example/prefix/"):
        Client(url, token="spk_secret").close()
    assert Client("https://lab.example/prefix/").url == "https://lab.example/prefix"
    for wrong in ("https://ann:secret@lab.example", "https://lab.example?token=secret", "https://lab.example/#secret"):
        with pytest.raises(errors.InvalidInput, match="no password in it") as refused:
            Client(wrong)
        assert "secret" not in str(refused.value)
    for odd in ("ftp://lab.example", "lab.example:8080", "http://", "", "http://host:port", "http://[bad", None):
        with pytest.raises(errors.InvalidInput, match="must be like http://127"):
            Client(odd)  # type: ignore[arg-type]
    for token in ("spk_se\ncret", "spk_sécret", "spk se"):
        with pytest.raises(errors.InvalidInput, match="one word of plain letters") as refused:
            Client("http://127.0.0.1:1", token=token)
        assert "spk" not in str(refused.value)
    assert Client("http://127.0.0.1:1", token="spk_secret\n")._http.headers["Authorization"] == "Bearer spk_secret"


def test_a_client_loads_no_mathematics() -> None:
    """A robot starts quickly, on a small machine."""
    script = "import sys, surepick; surepick.Client; assert not {'numpy', 'scipy', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
    script = "import sys, surepick; sys.modules['httpx'] = None; surepick.Client"
    without = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert "SurepickError: a client of a server needs httpx; pip install 'surepick[client]'." in without.stderr


def test_both_clients_have_the_same_methods_with_words() -> None:
    """Every method has a docstring and a signature, in `help` too."""
    for name in ("ask", "tell", "fail", "status", "events", "create", "reopen"):
        for kind in (Client, AsyncClient):
            assert inspect.getdoc(getattr(kind, name))
        assert inspect.signature(getattr(Client, name)) is not None
    with Client("http://127.0.0.1:1") as client:
        assert "n: int = 1" in str(inspect.signature(client.ask))
    if TYPE_CHECKING:
        assert_type(client.ask(2), list[Record])
        _ = assert_type(AsyncClient("").status(), Coroutine[Any, Any, Record])
