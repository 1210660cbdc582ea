"""Addresses of storages: which there are, and what is said about those that are none."""

import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import surepick as sp
from surepick.errors import NoSuchStudy, StorageError, SurepickError
from surepick.study.storage import file_of, open_storage
from tests.study.storages import first_rows


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}", "SQLite:///{}"])
def test_a_path_and_its_url_mean_the_same_file(tmp_path: Path, form: str) -> None:
    """Both are taken to the letter."""
    path = tmp_path / "lab 100%20 #1 ä's.db"
    with closing(open_storage(form.format(path))) as storage:
        storage.create("mix", first_rows())
    with closing(open_storage(path)) as storage:
        assert storage.names() == ["mix"]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the program moves to another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with closing(open_storage("lab.db")) as storage, closing(open_storage("~/lab.db")) as same:
        monkeypatch.chdir("/")
        storage.create("mix", first_rows())
        assert storage.address == "lab.db"
        assert same.names() == ["mix"]
    assert (tmp_path / "lab.db").exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "a storage must be a path such as"),
        (" ", "a storage must be a path such as"),
        (":memory:", 'a storage must be .* or "memory:"; got .:memory:.'),
        (7, "a storage must be a path such as"),
        (None, "a storage must be a path such as"),
        ("mysql://user:s3cret@host/db", "got one that begins with 'mysql:'"),
        ("postgresql+psycopg2://user:s3cret@host/db", "got one that begins with 'postgresql.psycopg2:'"),
        ("sqlite://", "an SQLite storage must be a path"),
        ("sqlite:lab.db", "an SQLite storage must be a path"),
        ("sqlite:///:memory:", 'for a storage in memory write "memory:"'),
        ("sqlite:///lab.db?mode=ro", "takes no options"),
        ("postgresql://user:s3cret@host:port/db", "cannot be read; check it"),
        ("postgresql://user:s3cret/more@nowhere.invalid/db", "database 'db' on nowhere.invalid: "),
        ("postgresql://user:more@s3cret@nowhere.invalid/db", "write %40 for @"),
        ("postgresql://nowhere.invalid/user:s3cret@db", "write %40 for @"),
        ("postgresql://user:s3cret@[::1/db", "cannot"),
        ("postgresql:s3cret", "cannot be read; check it"),
        (" postgresql://user:s3cret@nowhere.invalid/db", "check that the server runs"),
        ("\tpostgresql://user:s3cret@host:port/db", "cannot be read; check it"),
        ("postgresql//user:s3cret@nowhere.invalid/db", "check how it begins"),
        ("//user:s3cret@nowhere.invalid/db", "check how it begins"),
        ("nowhere/user:s3cret@more@host", "check how it begins"),
        ("host=nowhere password=s3cret", "check how it begins"),
        (" sqlite://user:s3cret@host/db", "check how it begins"),
        (Path("postgresql:/user:s3cret@host/db"), "check how it begins"),
        ("postgresql://user:s3cret@nowhere.invalid/db", "check that the server runs"),
        ("postgresql://user@nowhere.invalid/db?password=s3cret", "check that the server runs"),
        ("postgresql://user:s3cret@/db?host=/nowhere", "check that the server runs"),
        ("postgresql://user:s3cret@/db?host=/nowhere&colour=1", 'invalid connection option "colour"'),
    ],
)
def test_a_wrong_address_is_explained_without_its_password(url: str | Path, said: str) -> None:
    """What an address should look like, and nothing of what may be secret; not in the traceback either."""
    with pytest.raises(StorageError, match=said) as caught:
        open_storage(url)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    lines = traceback.format_exception(caught.value)
    assert not [line for line in lines if "s3cret" in line]


@pytest.mark.parametrize(
    ("module", "url", "said"),
    [
        (
            "psycopg",
            "postgresql:///x",
            "needs psycopg, which is not installed; pip install 'surepick[study,postgres]'",
        ),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(tmp_path: Path, module: str, url: str, said: str) -> None:
    """Memory needs none of them."""
    script = f"""
import sys
sys.modules[{module!r}] = None
from surepick.study.storage import open_storage
assert open_storage("memory:").names() == []
open_storage({url!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stderr.splitlines()[-1].removesuffix(".").endswith(said)
    assert SurepickError.__name__ in done.stderr.splitlines()[-1]


def test_storages_load_nothing_until_one_is_opened() -> None:
    """No driver of a database, and no numpy."""
    heavy = {"numpy", "psycopg", "sqlite3"}
    script = f"import sys, surepick.study.storage; print(*({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == ""


def test_looking_for_a_study_makes_no_file(tmp_path: Path) -> None:
    """Only creating one does; and a copy is made only of what is there."""
    typo, other = tmp_path / "typo.db", tmp_path / "other.db"
    calls: list[Callable[[], object]] = [
        lambda: sp.load_study("x", typo),
        lambda: sp.list_studies(typo),
        lambda: sp.delete_study("x", typo),
        lambda: sp.copy_study("x", "y", storage=typo, to_storage=other),
    ]
    for call in calls:
        with pytest.raises(NoSuchStudy, match=r"there is no file .*typo\.db"):
            call()
    with sp.create_study("x", arms=[[1.0, 0.0], [0.0, 1.0]], storage=typo), pytest.raises(NoSuchStudy):
        sp.copy_study("y", "z", storage=typo, to_storage=other)
    assert not other.exists()


@pytest.mark.parametrize("path", ["C:\\Users\\ann@lab\\lab.db", "/home/ann@lab/lab.db", "ann@lab.db", "12:30 lab.db"])
def test_an_ordinary_path_is_taken_for_one(path: str) -> None:
    """A drive, a mail address and a time hold no password."""
    assert file_of(path) == file_of(Path(path)) == Path(path)
