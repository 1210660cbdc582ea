"""The command line, from arms to a certificate: exit codes and JSON, without times, hashes, versions and paths.

    python -m tests.golden.cli record     # writes cli.json
    python -m tests.golden.cli check      # compares with it; exit code 1 if anything differs

The commands run in this process, through the entry of the installed program.
"""

import contextlib
import csv
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from surepick.__main__ import main
from tests.golden.instances import command

RECORDS = Path(__file__).parent / "cli.json"

FILES = {
    "paints.csv": "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.72\nD,0.3,0.4\nE,0.9,0.85\n",
    "more.csv": "paint,gloss,drying\nF,0.5,0.95\nG,0.85,0.1\n",
    "earlier.csv": "arm,value\nA,0.61\nE,0.87\nB,0.56\nC,0.7\n",
    "pilot.csv": "arm,reward\nA,0.7\nB,0.5\nC,0.72\nA,0.6\nE,0.9\nD,0.4\nE,0.71\n",
    "replicates.csv": "option,value\nA,1.0\nA,1.2\nB,2\nB,2.5\nC,3\nC,3.3\n",
    "study.toml": 'arms = "paints.csv"\nname = "from-file"\nnoise_std = 0.05\ndelta = 0.1\nm = 2\nseed = 4\n',
    "measure.py": (
        "import pathlib, sys\n"
        "path = pathlib.Path('n.txt')\n"
        "n = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(n))\n"
        "means = dict(A=0.6, B=0.55, C=0.71, D=0.35, E=0.875)\n"
        "print(means[sys.argv[1]] + 0.05 * ((n * 0.6180339887) % 1 - 0.5))\n"
    ),
}
MEANS = {"A": 0.6, "B": 0.55, "C": 0.71, "D": 0.35, "E": 0.875, "F": 0.725, "G": 0.475}
"""What the paints pay: 0.5 gloss + 0.5 drying."""

MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?( UTC)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{128}\b"), "<signature>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<fork>"),
    (re.compile(r"\b0\.\d+\.\d+(\.dev\d+)?\b"), "<version>"),
)


def masked(value: Any, folder: str = "<folder>") -> Any:
    """The same without what differs from run to run: times, hashes over them, random ids, the version, the folder."""
    match value:
        case dict():
            return {name: masked(each, folder) for name, each in value.items()}
        case list():
            return [masked(each, folder) for each in value]
        case str():
            text = value.replace(folder, "<folder>")
            for pattern, mask in MASKS:
                text = pattern.sub(mask, text)
            return text
        case float():
            return float(f"{value:.8g}") + 0.0
    return value


class Shell:
    """Types commands in one folder, and keeps what each has left under its number and its words."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = str(folder), dict[str, Any]()

    def type(self, *words: str) -> tuple[int, str]:
        """Run a command through the entry of the program; return its exit code and what it wrote."""
        out = io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(io.StringIO()),
            mock.patch.object(sys, "argv", ["surepick", *words]),
            mock.patch.object(sys, "stdin", io.StringIO()),
        ):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        assert isinstance(code, int), f"{words}: {code}"
        return code, out.getvalue()

    def __call__(self, *words: str) -> Any:
        """Type a command and keep its exit code; of one that writes JSON, or reads it, the JSON too."""
        reads_json = "json" in words
        code, out = self.type(*words)
        record: dict[str, Any] = {"code": code}
        if reads_json and out.strip():
            record["json"] = masked(json.loads(out), self.folder)
        self.records[f"{len(self.records) + 1:02} {' '.join(words).replace(sys.executable, 'python')}"] = record
        return record.get("json")

    def keep(self, file: str) -> None:
        """Keep what is in a file that a command has written."""
        text = Path(self.folder, file).read_text(encoding="utf-8")
        if file.endswith(".csv"):
            found: Any = list(csv.reader(io.StringIO(text)))
        else:
            found = json.loads(text)
            for row in found.get("log", []) if isinstance(found, dict) else []:
                if isinstance(row, dict) and isinstance(row["event"], str):
                    row["event"] = json.loads(row["event"])
        self.records[f"{len(self.records) + 1:02} file {file}"] = masked(found, self.folder)

    def measure(self, *options: str, most: int = 100) -> None:
        """Ask and tell until there is nothing to ask, with a little noise that is the same in every run."""
        names = []
        for n in range(1, most + 1):
            _, out = self.type("ask", "--author", "ann", "--format", "json", *options)
            asks = json.loads(out)["asks"]
            if not asks:
                break
            names.append(asks[0]["name"])
            value = MEANS[asks[0]["name"]] + 0.05 * ((n * 0.6180339887) % 1 - 0.5)
            code, _ = self.type("tell", str(asks[0]["id"]), repr(value), "--author", "ann", *options)
            assert code == 0
        self.records[f"{len(self.records) + 1:02} measured {' '.join(options)}".rstrip()] = {"asked": "".join(names)}


def script() -> dict[str, Any]:
    """Type all commands in a new folder; return what they have left, masked."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("SUREPICK_")]:
            del os.environ[name]
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        shell = Shell(Path(folder))
        _before(shell)
        _study(shell)
        _proofs(shell)
        _library(shell)
        _runs(shell)
        return shell.records


def _before(shell: Shell) -> None:
    """What is asked before a study: noise and plans."""
    json_ = ("--format", "json")
    shell("noise", "replicates.csv", *json_)
    shell("plan", "paints.csv", "--gap", "0.2", "--noise-std", "0.05", *json_)
    shell("plan", "paints.csv", "--pilot", "pilot.csv", "--epsilon", "0.3", "--simulate", "2", *json_)
    shell("plan", "paints.csv", "--theta", "0,0.5,0.5", "--noise-std", "0.05", "--m", "2", *json_)


def _study(shell: Shell) -> None:
    """A study to which everything happens, up to the answer and beyond it."""
    ann, bob, json_ = ("--author", "ann"), ("--author", "bob"), ("--format", "json")
    shell("create", "paints.csv", "--noise-std", "0.05", *ann)
    shell("create", "paints.csv", "--noise-std", "0.05", *ann)
    shell("import", "earlier.csv", *ann)
    shell("best", *json_)
    shell("ask", "-n", "3", "--lease", "2h", *bob, *json_)
    shell("pending", *json_)
    shell("fail", "2", "--reason", "spilt", *bob)
    shell("tell", "1", "0.62", *bob, *json_)
    shell("tell", "3", "0,56", "--key", "k", *bob, *json_)
    shell("tell", "E", "0.88", "0.86", *ann, *json_)
    shell("tell", "X", "0.88", *ann)
    shell("void", "5", "--reason", "mislabelled", *ann)
    shell("restore", "5", "--reason", "it was not", *ann)
    shell("correct", "6", "0.57", "--reason", "comma", *ann)
    shell("void", "99", "--reason", "none", *ann)
    shell("status", *json_)
    shell("plan", *json_)
    shell.measure()
    shell("best", *json_)
    shell("audit", "3", *ann)
    shell.measure()
    shell("status", *json_)
    shell("measurements", *json_)


def _proofs(shell: Shell) -> None:
    """Certificate, log, and their check; then another era."""
    ann, json_ = ("--author", "ann"), ("--format", "json")
    shell("certificate", "--out", "certificate.json")
    shell.keep("certificate.json")
    shell("export", "log.json")
    shell.keep("log.json")
    shell("export", "log.csv")
    shell("verify", "certificate.json", "--log", "log.csv", *json_)
    shell("export", "measured.csv", "--what", "measurements")
    shell.keep("measured.csv")
    shell("report", "page.html")
    shell("reopen", "--reason", "new recipe", "--join", "more.csv", "--retire", "A,D", "--delta", "0.1", *ann)
    shell.measure()
    shell("best", *json_)
    shell("verify", "certificate.json", "--log", "log.json", *json_)


def _library(shell: Shell) -> None:
    """Several studies in one storage."""
    ann, json_ = ("--author", "ann"), ("--format", "json")
    shell("copy", "paints", "spare", *ann)
    shell("create", "--file", "study.toml", *ann)
    shell("create", "--hypercube", "3", "--name", "cube", "--noise-std", "0.1", *ann)
    shell("ask", "-n", "4", "--study", "cube", *ann, *json_)
    shell("list", *json_)
    shell.measure("--study", "from-file")
    shell("best", "--study", "from-file", *json_)
    shell("delete", "spare", "--yes")
    shell("delete", "spare", "--yes")
    shell("status", *json_)
    shell("list", *json_)


def _runs(shell: Shell) -> None:
    """A run whose measurements come from a command, and what it saves; one that ends without an answer."""
    pull = ("--pull", f"{sys.executable} -S measure.py {{arm}}")
    shell("run", "--arms", "paints.csv", *pull, "--noise-std", "0.05", "--save", "result.json", "--format", "json")
    shell.keep("result.json")
    shell("run", "--arms", "paints.csv", *pull, "--max-pulls", "12", "--format", "json")
    shell("run", "--arms", "none.csv", *pull, "--format", "json")


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], RECORDS, script))
