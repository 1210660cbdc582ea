"""`surepick serve` and `surepick token`, as they are typed."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from surepick.cli.main import main
from surepick.study.admin import create_study
from tests.server.conftest import RunningServer, make_token
from tests.waiting import LIMIT, answers, until

ROWS = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]
ROOT = Path(__file__).parents[2]


def _start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "surepick", "serve", *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, text=True, **pipes, env={**os.environ, "PYTHONUNBUFFERED": "1"})


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the command on a free port; yield the process and the address that it prints."""
    with _start(folder, "--port", "0", *arguments) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = re.findall(r"http://\S+?(?=;)", said)
        assert url, f"{said}{process.communicate()[1]}"
        until(lambda: answers(f"{url[0]}/healthz"))
        yield process, url[0]
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_a_stream_open(tmp_path: Path, sent: signal.Signals) -> None:
    """Exit code 0, no traceback, and the stream ends; then the same file can be served again."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=tmp_path / "surepick.db").close()
    with running(tmp_path) as (process, url), httpx.stream("GET", f"{url}/api/v1/studies/tea/events") as stream:
        process.send_signal(sent)
        assert [line for line in stream.iter_lines() if line.startswith("data")] == []
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, err) == (0, "")
        assert out == "The server has ended. Every acknowledged result is kept.\n"
    with running(tmp_path):
        pass


def test_a_second_server_on_a_file_is_refused(tmp_path: Path) -> None:
    """The first one serves on; after a kill the file is free."""
    with running(tmp_path, "--storage", "lab.db") as (process, url):
        with _start(tmp_path, "--storage", "lab.db", "--port", "0") as second:
            err = second.communicate(timeout=LIMIT)[1]
        assert second.returncode == 1
        assert err == ("surepick: another server has lab.db already; use that one, or a PostgreSQL database.\n")
        assert answers(f"{url}/readyz")
        process.kill()
        process.wait()
    with running(tmp_path, "--storage", "lab.db"):
        pass


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command in the folder of the test; return its exit code, and what it said."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        code = main(arguments)
        return code, "".join(capsys.readouterr())

    return run


def test_other_machines_are_served_with_tokens_alone(typed: Any) -> None:
    """The error says what to do; a token that is revoked is none."""
    said = (
        "surepick: --host 0.0.0.0 lets other machines in, and there is no token that says who may do what; create "
        "one: surepick token create --role admin. Or leave out --host.\n"
    )
    assert typed("serve", "--host", "0.0.0.0", "--port", "0") == (2, said)
    elsewhere = typed("serve", "--storage", "the lab.db", "--host", "0.0.0.0", "--port", "0")[1]
    assert "surepick token create --storage 'the lab.db' --role admin." in elsewhere  # else it is in another file
    assert not Path("the lab.db").exists()  # a start that is refused leaves nothing behind
    code, made = typed("token", "create", "--role", "admin", "--format", "json")
    assert code == 0
    assert typed("token", "revoke", json.loads(made)["id"])[0] == 0
    assert typed("serve", "--host", "0.0.0.0", "--port", "0") == (2, said)


def test_the_address_opens_in_a_browser(tmp_path: Path) -> None:
    """No browser opens 0.0.0.0, which stands for every address of this machine."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=tmp_path / "surepick.db").close()
    make_token(str(tmp_path / "surepick.db"), "tell")
    with _start(tmp_path, "--host", "0.0.0.0", "--port", "0") as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    assert re.search(r"are at http://127\.0\.0\.1:\d+; Ctrl-C ends\.", said)
    assert said.endswith(" Elsewhere, write the name or address of this machine for 127.0.0.1.\n")


def test_a_port_in_use_and_a_strange_host_are_named(typed: Any) -> None:
    """In one line."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = typed("serve", "--port", str(port))
        assert code == 2
        assert said == (
            f"surepick: cannot listen at 127.0.0.1, port {port}: Address already in use; choose another --port.\n"
        )
    code, said = typed("serve", "--host", "no.such.host.invalid")
    assert code == 2
    assert "--host must be an address of this machine" in said


def test_tokens_are_made_listed_and_revoked(typed: Any, tmp_path: Path) -> None:
    """The secret is shown once, when the token is made."""
    create_study("tea", arms=ROWS, noise_std=1.0, storage=tmp_path / "surepick.db").close()
    assert "There are no tokens" in typed("token", "list")[1]
    code, made = typed("token", "create", "--role", "tell", "--study", "tea", "--label", "robot-1")
    assert code == 0
    (secret,) = re.findall(r"^spk_[\w-]{43}$", made, flags=re.MULTILINE)
    listed = typed("token", "list", "--format", "json")[1]
    (row,) = json.loads(listed)
    assert (row["role"], row["study"], row["label"], row["revoked_at"]) == ("tell", "tea", "robot-1", None)
    assert secret not in listed
    assert "robot-1" in typed("token", "list")[1]
    assert typed("token", "revoke", row["id"]) == (0, f"Token {row['id']} is revoked.\n")
    assert json.loads(typed("token", "list", "--format", "json")[1])[0]["revoked_at"] is not None
    code, said = typed("token", "revoke", "none")
    assert (code, row["id"] in said) == (2, True)
    code, said = typed("token", "create", "--role", "tell", "--study", "te")
    assert (code, "did you mean 'tea'?" in said) == (2, True)
    assert typed("token", "create", "--role", "boss")[0] == 2


def test_behind_a_proxy_with_a_prefix(tmp_path: Path) -> None:
    """Whether the proxy leaves the prefix or takes it away."""
    create_study("tea/green", arms=ROWS, noise_std=1.0, storage=tmp_path / "surepick.db").close()
    with running(tmp_path, "--root-path", "lab/") as (_, url):
        assert url.endswith("/lab")
        for address in (url, url.removesuffix("/lab")):
            assert httpx.get(f"{address}/api/v1/studies/tea%2Fgreen").json()["name"] == "tea/green"
        assert httpx.get(f"{url}/api/v1/openapi.json").json()["servers"] == [{"url": "/lab"}]


def test_the_demonstration_moves() -> None:
    """`make serve`: a study of real data, in which further results come in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "examples.live_bench", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/healthz"))
        until(lambda: httpx.get(f"{url}/api/v1/studies/oats").json()["n_pulls"] > 60)
        asks = httpx.post(f"{url}/api/v1/studies/oats/asks", json={"worker": "Anna"}).json()["asks"]
        assert [*asks[0]["recipe"]] == ["variety", "nitrogen"]  # not the yields, which a bench does not know
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LIMIT) == 0


def test_the_examples_of_the_documentation_work(server: RunningServer) -> None:
    """Every `curl` of docs/server.md, in its order, as the page has it."""
    page = (ROOT / "docs" / "server.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    commands = [words for block in blocks for words in re.split(r"^(?=curl )", block, flags=re.MULTILINE) if words]
    assert len(commands) > 15
    for command in commands:
        words = iter(shlex.split(command.replace("\\\n", " "))[1:])
        method, headers, content, url = "", {}, None, ""
        for word in words:
            match word:
                case "-X":
                    method = next(words)
                case "-H":
                    name, _, value = next(words).partition(": ")
                    headers[name] = value
                case "--json":
                    content = next(words)
                    headers["Content-Type"] = "application/json"
                case "-o":
                    next(words)
                case _:
                    url = word.replace("http://127.0.0.1:8080", server.url)
        chosen = method or ("GET" if content is None else "POST")
        answer = httpx.request(chosen, url, headers=headers, content=content)
        assert answer.is_success, f"{command}: {answer.text}"
