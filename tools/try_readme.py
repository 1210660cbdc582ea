"""Do what README says, and nothing else, in a new clone, a new folder and a new environment; print the transcript.

Run it from the root of a clone: `python -m tools.try_readme`. It tries the last commit, and needs pip's network alone.

A reader with pip installs the extras that README names, fetches the tables that README links, and types the blocks.
A reader with a clone types `make run` and `make serve`. Every output must be the one on the page.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.docs.test_examples import blocks, check_output, transcript
from tests.waiting import LIMIT, until

ROOT = Path(__file__).parents[1]


class Terminal:
    """A terminal in a folder: it knows the programs of one environment, and shows what is typed and printed."""

    def __init__(self, folder: Path, environment: Path) -> None:
        kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_") or name in ("HOME", "LANG")}
        self.folder = folder
        path = f"{environment}/bin{os.pathsep}{os.environ['PATH']}"
        self.variables = {**kept, "COLUMNS": "100", "PATH": path, "PIP_QUIET": "2"}  # pip reports errors alone

    def type(self, command: str, does: str | None = None) -> str:
        """Run a command, or what it stands for here; return what it prints, and end the trial if it fails."""
        print(f"$ {command}", flush=True)
        begun = time.monotonic()
        done = subprocess.run(  # noqa: S603 (the page's own command)
            shlex.split(does or command), cwd=self.folder, env=self.variables, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        print(f"{done.stdout}({time.monotonic() - begun:.0f} s)\n", flush=True)
        if done.returncode:
            sys.exit(f"README fails: {command!r} ended with exit code {done.returncode}.")
        return done.stdout

    def serve(self, command: str, pages: list[str]) -> None:
        """Run a command that serves until Ctrl-C, fetch these pages, and end it."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = shlex.split(command.format(port=port))
        print(f"$ {shlex.join(words)}", flush=True)
        with subprocess.Popen(words, cwd=self.folder, env=self.variables, start_new_session=True) as server:  # noqa: S603
            until(lambda: server.poll() is not None or _answers(f"http://127.0.0.1:{port}/healthz"))
            if server.returncode is not None:
                sys.exit(f"README fails: {command!r} ended by itself, with exit code {server.returncode}.")
            try:
                for page in pages:
                    with urlopen(f"http://127.0.0.1:{port}{page}") as answer:
                        print(f"  {page}: {answer.status}, {len(answer.read())} bytes", flush=True)
            finally:
                os.killpg(server.pid, signal.SIGINT)
            if server.wait(LIMIT) not in (0, -signal.SIGINT):  # make ends by the signal that it got
                sys.exit(f"README fails: {command!r} ended with exit code {server.returncode}.")
        print(flush=True)


def _answers(url: str) -> bool:
    try:
        with urlopen(url):  # noqa: S310 (this machine's own)
            return True
    except URLError:
        return False


def try_package(clone: Path, folder: Path) -> None:
    """Install the package, and type every block that a reader sees."""
    text = re.sub(r"<!--.*?-->", "", (clone / "README.md").read_text("utf-8"), flags=re.DOTALL)
    folder.mkdir()
    terminal = Terminal(folder, folder / "environment")
    terminal.type("python -m venv environment", f"{sys.executable} -m venv environment")
    for command in re.findall(r"^pip install .*$", text, re.MULTILINE):
        terminal.type(command, command.replace("surepick[", f"{clone}["))
    for table in set(re.findall(r"\((examples/data/[^)]*)\)", text)):
        shutil.copy(clone / table, folder)
    printed = ""
    for line, kind, block in blocks(text):
        if kind == "python":
            (folder / "script.py").write_text(block, "utf-8")
            printed = terminal.type("python script.py")
        elif kind == "output":
            check_output(f"README.md:{line}", block, printed)
        else:
            for command, shown in transcript(block):
                check_output(f"README.md:{line}: $ {command}", shown, terminal.type(command))
    print("files:", *sorted(path.name for path in folder.iterdir()), "\n")


def try_clone(clone: Path) -> None:
    """Type the commands for a clone that end, and the demonstration; nothing new shows up in `git status`."""
    terminal = Terminal(clone, clone / ".venv")
    terminal.type("make run")
    terminal.serve("make -s serve ARGS={port}", ["/", "/studies/oats", "/static/surepick.css"])
    terminal.type("du -sh .venv")
    if terminal.type("git status --short"):
        sys.exit("README fails: `make run` or `make serve` left files that git sees.")


def main() -> None:
    """Try README as both readers."""
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place) / "surepick"
        Terminal(ROOT, ROOT).type("git clone surepick", f"git clone -q {ROOT} {clone}")
        try_package(clone, Path(place) / "folder")
        try_clone(clone)
    print("README holds.")


if __name__ == "__main__":
    main()
