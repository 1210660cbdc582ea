"""Studies in an SQLite file: locks, power cuts, full disks, files that are something else."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

import surepick
from surepick.errors import NoSuchStudy, StorageError
from surepick.study.events import canonical, check_chain, rows_of
from surepick.study.storage import Storage, open_storage, sqlite
from surepick.study.storage.sql import SqlStorage
from tests.study.storages import append, first_rows, next_rows, write
from tests.waiting import until

EVENTS = """
    CREATE TABLE events ( study INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (study, n), FOREIGN KEY(study) REFERENCES studies (id) ) WITHOUT ROWID
"""
VERSION = """
    CREATE TABLE surepick_version ( version_num VARCHAR(32) NOT NULL,
    CONSTRAINT surepick_version_pkc PRIMARY KEY (version_num) )
"""
SUMMARIES = """
    CREATE TABLE summaries ( study INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL,
    text TEXT NOT NULL, FOREIGN KEY(study) REFERENCES studies (id) )
"""
TOKENS = """CREATE TABLE tokens ( id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL,
    digest TEXT NOT NULL, role TEXT NOT NULL, study TEXT, label TEXT NOT NULL, created_at TEXT NOT NULL,
    revoked_at TEXT, UNIQUE (token), UNIQUE (digest) )"""
REVISION_3 = [
    " ".join(EVENTS.split()),
    "CREATE TABLE sqlite_sequence(name,seq)",
    "CREATE TABLE studies ( id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, UNIQUE (name) )",
    " ".join(SUMMARIES.split()),
    " ".join(TOKENS.split()),
    " ".join(VERSION.split()),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be."""
    return tmp_path / "lab.db"


@pytest.fixture
def storage(path: Path) -> Iterator[Storage]:
    """A file with one study."""
    with closing(open_storage(path)) as new:
        new.create("mix", first_rows())
        yield new


def driver_of(storage: Storage) -> Any:
    """The connection that the next call will use."""
    pool = cast(SqlStorage, storage)._pool
    held = pool.take()
    pool.give_back(*held)
    return held[0]


@pytest.mark.parametrize(
    ("pragma", "value"),
    [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 60_000)],
)
def test_settings_that_durability_rests_on_are_in_force(storage: Storage, pragma: str, value: object) -> None:
    """On every connection, also after a transaction, in a new one, and where someone changed the file's."""
    append(storage, "mix")
    assert driver_of(storage).execute(f"PRAGMA {pragma}").fetchone()[0] == value
    storage.close()
    with closing(sqlite3.connect(storage.address)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    with closing(open_storage(storage.address)) as again:
        assert driver_of(again).execute(f"PRAGMA {pragma}").fetchone()[0] == value


def test_the_connection_is_kept_from_one_transaction_to_the_next(storage: Storage) -> None:
    """To open a file costs more than to write to it."""
    before = driver_of(storage)
    append(storage, "mix")
    assert driver_of(storage) is before
    storage.close()
    assert driver_of(storage) is not before


def test_the_events_of_a_study_lie_side_by_side(storage: Storage) -> None:
    """Reading one study walks through its own part of the file, in order, without sorting."""
    driver = driver_of(storage)
    sql = cast(SqlStorage, storage).sql["read"]
    (*_, steps) = zip(
        *driver.execute(f"EXPLAIN QUERY PLAN {sql}", {"name": "mix", "after": 3, "limit": 9}), strict=True
    )
    assert "SEARCH events USING PRIMARY KEY (study=? AND n>?)" in steps
    assert not [step for step in steps if "TEMP" in step or "SCAN" in step]


def test_the_file_needs_nothing_beside_it_once_it_is_closed(storage: Storage, path: Path) -> None:
    """A colleague gets one file."""
    append(storage, "mix")
    storage.close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_who_waits_too_long_is_told_what_to_do(storage: Storage, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds the file: the error names it; later all goes well."""
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"cannot write study 'mix' in .*lab.db: database is locked; .*try"):
            append(storage, "mix")
        assert storage.n_events("mix") == 1, "reading does not wait"
        with pytest.raises(StorageError, match="cannot create study 'new' in"):
            storage.create("new", first_rows())
    append(storage, "mix")


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    """Text, noise, and the head of a database without its body."""
    head = b"SQLite format 3\0"
    for content in (b"name,colour\n" * 300, random.Random(1).randbytes(5000), head + b"\xff" * 3000, head[:10]):
        path = tmp_path / "table.csv"
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"cannot open .*table.csv: .*; choose another file"):
            open_storage(path)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_of_something_else_is_left_as_it_is(path: Path, mode: str) -> None:
    """The error says what is in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE orders (a)")
        other.execute("INSERT INTO orders VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"lab.db has tables of something else \(orders\), and is left alone"):
        open_storage(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [None, b""])
def test_a_new_or_empty_file_becomes_a_storage(path: Path, content: bytes | None) -> None:
    """`touch lab.db` does no harm."""
    if content is not None:
        path.write_bytes(content)
    with closing(open_storage(path)) as storage:
        storage.create("mix", first_rows())


def test_threads_that_open_new_files_at_once_all_succeed(tmp_path: Path) -> None:
    """Each file gets its own tables."""
    with ThreadPoolExecutor(6) as pool:
        for storage in pool.map(open_storage, [tmp_path / f"{i}.db" for i in range(6)]):
            with closing(storage):
                storage.create("mix", first_rows())


def test_a_file_of_a_newer_package_is_left_as_it_is(storage: Storage, path: Path) -> None:
    """The error says to upgrade."""
    storage.close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE surepick_version SET version_num = '27'")
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"written by a newer surepick \(its tables have revision 27, .*upgrade"):
        open_storage(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_reported(storage: Storage, path: Path) -> None:
    """A page of zeros in the middle is noticed by SQLite, and said in one line."""
    append(storage, "mix", n=300, by="x" * 100)
    storage.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(path.stat().st_size - 4096))
    with pytest.raises(StorageError, match=r"lab.db: .*malformed; the file is damaged; go back to a copy"):
        open_storage(path).read("mix")


def test_a_missing_folder_and_a_folder_are_refused(tmp_path: Path) -> None:
    """A typo in a path makes no folders."""
    with pytest.raises(StorageError, match=f"there is no folder {tmp_path}/none for lab.db; make it first"):
        open_storage(tmp_path / "none" / "lab.db")
    with pytest.raises(StorageError, match="a storage must be a file, got the folder"):
        open_storage(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_removed_or_replaced_under_way_is_noticed(storage: Storage, path: Path, tmp_path: Path) -> None:
    """No event goes to a file that nobody will find again, and no empty file appears in its place."""
    moved = path.rename(tmp_path / "moved.db")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"lab.db was removed or replaced by another file after it was opened"):
            append(storage, "mix")
        assert not path.exists()
        storage.close()  # the second time with a new connection, which would make a new file
    shutil.copy(moved, path)
    with pytest.raises(StorageError, match="was removed or replaced"):
        storage.read("mix")
    moved.rename(path)
    append(storage, "mix")
    assert storage.n_events("mix") == 2


def test_a_full_disk_leaves_the_log_as_it_was(storage: Storage) -> None:
    """Small events, then one that is too big: an error, nothing of it, and the next small one goes in."""
    driver = driver_of(storage)
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    driver.execute(f"PRAGMA max_page_count = {pages + 5}")
    append(storage, "mix", n=2)
    before = storage.read("mix")
    for work in (
        lambda: append(storage, "mix", n=3, big="x" * 50_000),
        lambda: storage.create("b", first_rows(9, b="x" * 9000)),
    ):
        with pytest.raises(
            StorageError, match=r"lab.db: database or disk is full; make room on the disk and try again"
        ):
            work()
    assert storage.names() == ["mix"]
    assert storage.read("mix") == before
    append(storage, "mix")
    check_chain(storage.read("mix"))


def run(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in another process, with what scripts here need."""
    start = f"""
import os, sys
sys.path.insert(0, {str(Path(surepick.__file__).parents[1])!r})
from surepick.errors import *
from surepick.study.storage import open_storage
from surepick.study.events import *
"""
    command = [sys.executable, "-c", start + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


def test_a_disk_that_fills_up_under_way_loses_nothing_acknowledged(storage: Storage, path: Path) -> None:
    """A limit on the size of files stops the writer somewhere; all it was told to be written is there."""
    script = """
storage, acknowledged = open_storage(sys.argv[1]), 1
try:
    while True:
        with storage.writing("mix") as writer:
            last = writer.read(acknowledged - 1)[-1]
            writer.append(rows_of([canonical({"n": last.n + 1, "by": "x" * 3000})], last.hash, last.n + 1))
        acknowledged += 1
except StorageError as error:
    print(acknowledged, error)
"""
    done = run(script, path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)))
    acknowledged, _, said = done.stdout.partition(" ")
    assert said.startswith("cannot write study 'mix' in")
    assert int(acknowledged) > 20
    rows = storage.read("mix")
    check_chain(rows)
    assert len(rows) - int(acknowledged) in (0, 1), "the last one may be there, though its outcome was unknown"
    append(storage, "mix")


@pytest.mark.parametrize(
    ("file", "folder", "said"),
    [
        (0o444, 0o777, "cannot create study 'new' in lab.db: attempt to write a readonly database; get the right to"),
        (0o666, 0o555, "cannot open lab.db: attempt to write a readonly database; get the right to write to the file"),
        (0o000, 0o777, "cannot open lab.db: unable to open database file; check that the file and its folder exist"),
        (0o666, 0o000, "cannot open lab.db: Permission denied; check that the file and its folder exist"),
    ],
)
def test_a_file_that_may_not_be_written_is_refused(
    storage: Storage, path: Path, file: int, folder: int, said: str
) -> None:
    """The error says so, and nothing has changed."""
    storage.close()
    # Root may write anywhere, so the script becomes another user. That one may be unable to read the package, so
    # everything is loaded by then: the script has opened a storage and created a study.
    script = """
loaded = open_storage(sys.argv[2])
loaded.create("new", rows_of(["{}"]))
loaded.close()
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    storage = open_storage("lab.db")
    storage.create("new", rows_of(["{}"]))
except StorageError as error:
    print(error)
"""
    with TemporaryDirectory() as place:
        copy = Path(shutil.copy(path, place))
        copy.chmod(file)
        Path(place).chmod(folder)
        try:
            assert run(script, place, path.with_name("loaded.db")).stdout.startswith(said)
        finally:
            Path(place).chmod(0o777)
        copy.chmod(0o666)
        assert copy.read_bytes() == path.read_bytes()


def _write_for_ever(url: str, acknowledged: Any) -> None:
    storage = open_storage(url)
    last = storage.read("mix")[-1]
    while True:
        with storage.writing("mix") as writer:
            rows = next_rows(last, by="x" * 15_000)
            writer.append(rows)
        last = rows[-1]
        acknowledged.value = last.n


def test_power_cuts_lose_nothing_that_was_acknowledged(storage: Storage, path: Path, tmp_path: Path) -> None:
    """The files as they were at 30 random moments: each opens, holds all acknowledged events, and is a whole chain."""
    rng = random.Random(7)
    processes = get_context("spawn")  # a child of ours, so that we hear when it has stopped
    acknowledged = processes.Value("q", 1, lock=False)
    writer = processes.Process(target=_write_for_ever, args=(str(path), acknowledged))
    writer.start()
    assert writer.pid is not None
    counts = [acknowledged.value]
    try:
        for moment in range(30):
            until(lambda: acknowledged.value > counts[-1] or not writer.is_alive())
            time.sleep(rng.uniform(0.001, 0.03))
            os.kill(writer.pid, signal.SIGSTOP)
            os.waitpid(writer.pid, os.WUNTRACED)
            counts.append(acknowledged.value)
            folder = tmp_path / str(moment)
            folder.mkdir()
            for one in ("lab.db", "lab.db-wal"):  # shared memory does not survive a power cut
                shutil.copy(tmp_path / one, folder / one)
            os.kill(writer.pid, signal.SIGCONT)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    assert counts == sorted(set(counts))
    for moment, count in enumerate(counts[1:]):
        with closing(open_storage(tmp_path / str(moment) / "lab.db")) as copy:
            rows = copy.read("mix")
            check_chain(rows)
            assert count <= len(rows) <= count + 1
    append(storage, "mix")
    check_chain(storage.read("mix"))


def test_a_killed_writer_holds_nobody_up(storage: Storage, path: Path) -> None:
    """Its lock ends with it, and what it had not committed is not there."""
    script = """
storage = open_storage(sys.argv[1])
with storage.writing("mix") as writer:
    last = writer.read()[-1]
    writer.append(rows_of(["{}"], last.hash, last.n + 1))
    os.kill(os.getpid(), 9)
"""
    with pytest.raises(subprocess.CalledProcessError, match="SIGKILL"):
        run(script, path)
    assert storage.n_events("mix") == 1
    append(storage, "mix")


@pytest.mark.usefixtures("storage")
def test_the_tables_of_released_revisions_are_as_they_were(path: Path) -> None:
    """A revision that was released does not change; a change is a new one, with a migration."""
    with closing(sqlite3.connect(path)) as other:
        made = [
            " ".join(sql.split()) for (sql,) in other.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        ]
    assert sorted(made) == sorted(REVISION_3)


def test_many_rows_are_read_at_once(storage: Storage) -> None:
    """A long log comes back whole, and is as quick to continue as a short one."""
    rows = rows_of([canonical({"n": n, "kind": "told", "value": n / 7}) for n in range(1, 20_001)])
    storage.create("long", rows)
    assert storage.read("long") == rows
    with pytest.raises(NoSuchStudy, match="did you mean 'long'"):
        storage.read("lon")


# ---- one file, one log beside it


def test_a_file_with_two_names_is_refused(storage: Storage, path: Path, tmp_path: Path) -> None:
    """Each name would have a log of its own, and hide what is in the other; a symbolic link is the same file."""
    other, link = tmp_path / "other.db", tmp_path / "link.db"
    link.symlink_to(path)
    with closing(open_storage(link)) as same:
        append(same, "mix")
        append(storage, "mix")
        assert same.n_events("mix") == storage.n_events("mix") == 3
        assert not (tmp_path / "link.db-wal").exists()
    os.link(path, other)
    for name in (path, other, link):
        with pytest.raises(StorageError, match=r"\.db must have one name, got 2 \(hard links\).*remove the others"):
            open_storage(name)
    other.unlink()
    append(storage, "mix")
    with closing(open_storage(path)) as again:
        assert again.n_events("mix") == 4


def test_a_file_that_is_mounted_by_itself_is_refused(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container may have it: its log would stay in the container."""
    storage.close()
    path = (tmp_path / "lab.db").rename(tmp_path / "a lab.db")
    mounts, name = tmp_path / "mounts", str(path).replace(" ", "\\040")
    monkeypatch.setattr(sqlite, "_MOUNTS", mounts)
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 8:1 /lab {path.parent} rw - ext4 /dev/sda1 rw\n")
    with closing(open_storage(path)) as folder:
        assert folder.n_events("mix") == 1
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 8:1 /x/y.db {name} rw - ext4 /dev/sda1 rw\n")
    with pytest.raises(StorageError, match=r"a lab\.db is mounted as a single file, .*; mount the folder"):
        open_storage(path)


def test_a_log_that_was_left_behind_is_not_wiped(storage: Storage, path: Path, tmp_path: Path) -> None:
    """A writer was killed, the file was moved, and a new one is to be made: the last events are in the log alone."""
    storage.close()
    script = """
storage = open_storage(sys.argv[1])
for n in range(50):
    with storage.writing("mix") as writer:
        last = writer.read()[-1]
        writer.append(rows_of(["{}"], last.hash, last.n + 1))
os.kill(os.getpid(), 9)
"""
    with pytest.raises(subprocess.CalledProcessError, match="SIGKILL"):
        run(script, path)
    moved = path.rename(tmp_path / "old.db")
    for leave in (lambda: None, path.touch):
        leave()
        with pytest.raises(StorageError, match=r"lab\.db-wal beside it, which has the last events .*; move that one"):
            open_storage(path)
    moved.rename(path)
    with closing(open_storage(path)) as again:
        assert again.n_events("mix") == 51


def test_a_closed_storage_leaves_nothing_in_the_log_alone(storage: Storage, path: Path, tmp_path: Path) -> None:
    """Also if another process has the file open: a copy of the file has all."""
    with closing(open_storage(path)) as other:
        assert other.n_events("mix") == 1
        append(storage, "mix", n=5)
        storage.close()
        copy = shutil.copy(path, tmp_path / "copy.db")
    with closing(open_storage(copy)) as found:
        assert found.n_events("mix") == 6


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_moved_during_a_turn_is_noticed_after_it(
    storage: Storage, path: Path, tmp_path: Path, is_replaced: bool
) -> None:
    """The writer hears that its event is in the file that was moved; and there it is."""
    moved, backup = tmp_path / "moved.db", tmp_path / "backup.db"
    storage.close()
    shutil.copy(path, backup)
    append(storage, "mix")

    def move(writer: Any) -> None:
        writer.append(next_rows(writer.read()[-1]))
        path.rename(moved)
        if is_replaced:
            backup.rename(path)

    with pytest.raises(
        StorageError, match=r"lab\.db was moved, .* while this was written. This is on record in the file"
    ):
        write(storage, "mix", move)
    storage.close()
    if is_replaced:
        path.unlink()
    else:
        with closing(open_storage(moved)) as found:
            assert found.n_events("mix") == 3
    moved.rename(path)
    assert storage.n_events("mix") == 3


def test_tables_that_change_under_way_are_left_alone(storage: Storage, path: Path) -> None:
    """A newer package may change them while this one has the file open: the next turn says to upgrade."""
    append(storage, "mix")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE surepick_version SET version_num = '27'")
    for write_something in (lambda: append(storage, "mix"), lambda: storage.create("new", first_rows())):
        with pytest.raises(StorageError, match=r"written by a newer surepick \(its tables have revision 27, .*upgrade"):
            write_something()
    assert storage.n_events("mix") == 2
