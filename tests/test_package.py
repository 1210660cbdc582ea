"""The package as users get it: what wheel and source archive contain, and the wheel at work outside the clone."""

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

import surepick
from tests.waiting import LIMIT, answers, until

ROOT = Path(__file__).parents[1]
NAME = f"surepick-{surepick.__version__}"


def built(folder: Path, kind: str, into: Path) -> Path:
    """Build by the declared backend, without the network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(into)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=LIMIT)
    (built,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def _contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the clone."""
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _environment(installed: Path) -> dict[str, str]:
    """Variables with which Python finds the contents of the wheel before the clone."""
    return {**os.environ, "PYTHONPATH": str(installed), "PYTHONUNBUFFERED": "1"}


def _say(installed: Path, folder: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    variables = _environment(installed)
    return subprocess.run(
        command, cwd=folder, env=variables, check=True, capture_output=True, text=True, timeout=LIMIT
    ).stdout


@contextmanager
def _serving(installed: Path, folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "surepick", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(installed), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            (url,) = re.findall(r"http://\S+?(?=;)", process.stdout.readline())
            until(lambda: process.poll() is not None or answers(f"{url}/healthz"))
            yield process, url
        finally:
            process.kill()


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Templates, style sheets, experiments and the mark of types too; nothing else but the plain versions."""
    listed = subprocess.run(
        ["git", "ls-files", "src/surepick"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    files = {name.removeprefix("src/") for name in listed.split() if (ROOT / name).exists()}
    packed = {name for name in _contents(wheel) if not name.startswith(f"{NAME}.dist-info/")}
    assert {"surepick/py.typed", "surepick/server/static/surepick.css", "surepick/server/templates/page.html"} <= files
    assert files - packed == set()
    # A file that is new in a clone may not be added to git yet.
    strange = {name for name in packed - files if "/examples/naive/" not in name and not (ROOT / "src" / name).exists()}
    assert strange == set()


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """The archive has all that a build needs, the license and the pins; tests and docs come along."""
    with tarfile.open(built(ROOT, "sdist", tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("LICENSE", "Makefile", "constraints.txt", "tests/conftest.py", "docs/index.md"):
        assert (tmp_path / NAME / name).exists(), name
    again = built(tmp_path / NAME, "wheel", tmp_path / "again")
    assert _contents(again) == _contents(wheel)


def test_the_wheel_works_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    """The library, the command, its help, and the files that it reads are those of the wheel."""
    found = _say(installed, tmp_path, "-c", "import surepick; print(surepick.__file__, surepick.identify)")
    assert found.startswith(str(installed))
    assert surepick.__version__ in _say(installed, tmp_path, "-m", "surepick", "--version")
    assert "serve" in _say(installed, tmp_path, "-m", "surepick", "--help")
    assert "--arms" in _say(installed, tmp_path, "-m", "surepick", "run", "--help")
    assert "many-arms" in _say(installed, tmp_path, "-m", "surepick", "reproduce", "--list")


def test_the_server_of_the_wheel_has_its_pages(installed: Path, tmp_path: Path) -> None:
    """It starts, answers, shows its page with style sheet, script and icon, and ends."""
    with _serving(installed, tmp_path) as (process, url):
        page = httpx.get(url)
        assert page.status_code == 200
        linked = set(re.findall(r'(?:href|src)="([^"]*/static/[^"]*)"', page.text))
        assert len(linked) >= 3
        for address in linked:
            found = httpx.get(httpx.URL(url).join(address))
            assert (found.status_code, bool(found.content)) == (200, True), address
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
