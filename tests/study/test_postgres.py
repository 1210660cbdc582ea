"""Studies on a PostgreSQL server: lost connections, stopped servers, locks, databases that are something else."""

import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import cast

import psycopg
import pytest

from surepick.errors import OutcomeUnknown, StorageError
from surepick.study.events import check_chain
from surepick.study.storage import Storage, Writer, open_storage, postgres
from surepick.study.storage.sql import SqlStorage, SqlWriter
from tests.postgres import Server
from tests.study.storages import append, first_rows, next_rows, write
from tests.waiting import until

# Who waits for a study of the database that is asked.
WAITING = """
    SELECT pid FROM pg_locks JOIN pg_database ON pg_locks.database = pg_database.oid
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""


@pytest.fixture
def storage(postgres_url: str) -> Iterator[Storage]:
    """A database with one study."""
    with closing(open_storage(postgres_url)) as new:
        new.create("mix", first_rows())
        yield new


@pytest.fixture
def database(postgres_url: str) -> str:
    """The name of the database."""
    return postgres_url.partition("@/")[2].partition("?")[0]


def cut(server: Server, database: str) -> None:
    """End all connections to a database, as a network or an administrator may."""
    server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")


def test_an_administrator_sees_whose_connections_these_are(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """And there is one, however many calls there were."""
    for _ in range(3):
        append(storage, "mix")
    names = postgres_server.sql(f"SELECT application_name FROM pg_stat_activity WHERE datname = '{database}'")
    assert names == [("surepick",)]


def test_a_connection_in_use_while_the_others_are_closed_is_closed_after_that(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """By another thread that closes the storage, starts a process, or finds that the server was started anew."""
    with storage.writing("mix") as writer:
        storage.close()
        writer.append(next_rows(first_rows()[-1]))
    # The server takes a moment to end one.
    until(lambda: not postgres_server.sql(f"SELECT state FROM pg_stat_activity WHERE datname = '{database}'"))
    assert storage.n_events("mix") == 2


def test_a_connection_that_was_cut_between_two_calls_is_replaced_unnoticed(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """A server that was started anew overnight costs nobody an error."""
    for call in (storage.names, lambda: append(storage, "mix"), lambda: storage.read("mix")):
        cut(postgres_server, database)
        call()
    with storage.writing("mix"):
        storage.names()  # a second connection
    cut(postgres_server, database)
    append(storage, "mix")
    check_chain(storage.read("mix"))
    assert storage.n_events("mix") == 3


def test_a_connection_that_is_cut_in_mid_transaction_leaves_nothing(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """The writer is told, whatever it does next, and the next transaction has a new connection."""

    def before_append(writer: Writer) -> None:
        last = writer.read()[-1]
        cut(postgres_server, database)
        writer.append(next_rows(last))

    def between_two(writer: Writer) -> None:
        first = next_rows(writer.read()[-1])
        writer.append(first)
        cut(postgres_server, database)
        writer.append(next_rows(first[-1]))

    def before_commit(writer: Writer) -> None:
        writer.append(next_rows(writer.read()[-1]))
        cut(postgres_server, database)

    for work in (before_append, between_two, before_commit):
        with pytest.raises(StorageError, match="cannot write study 'mix' in PostgreSQL database"):
            write(storage, "mix", work)
        assert storage.n_events("mix") == 1
    append(storage, "mix")


def test_an_exception_of_the_writer_is_not_hidden_by_a_lost_connection(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """What went wrong first is what is raised."""

    def work(_: Writer) -> None:
        cut(postgres_server, database)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(storage, "mix", work)
    append(storage, "mix")


def test_a_commit_of_unknown_outcome_is_said_to_be_one(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """The server ends the connection in the middle of COMMIT: the writer is told to read the log again."""
    postgres_server.sql(
        """
        CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON events
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die();
        """,
        database,
    )
    with pytest.raises(OutcomeUnknown, match="surepick does not know whether it was written, so read the log again"):
        append(storage, "mix")
    postgres_server.sql("DROP TRIGGER at_commit ON events", database)
    assert storage.n_events("mix") == 1
    append(storage, "mix")


def test_a_server_that_is_stopped_and_started_again_loses_nothing() -> None:
    """Stopped as if by a crash in mid-transaction; while it is down the error says so; then all goes on."""
    folder = Path(mkdtemp(prefix="surepick-"))
    server = Server(folder)
    try:
        server.create()
        server.start()
        with closing(open_storage(server.url("postgres"))) as storage:
            storage.create("mix", first_rows())
            acknowledged = append(storage, "mix")

            def work(writer: Writer) -> None:
                writer.append(next_rows(acknowledged[-1]))
                server.stop()

            with pytest.raises(StorageError, match="cannot write study 'mix' in PostgreSQL database 'postgres' on"):
                write(storage, "mix", work)
            for call in (storage.names, lambda: append(storage, "mix"), lambda: storage.create("b", first_rows())):
                with pytest.raises(StorageError, match=r"cannot .*; check that the server runs"):
                    call()
            server.start()
            assert storage.read("mix") == first_rows() + acknowledged
            append(storage, "mix")
    finally:
        server.remove()
    assert not folder.exists()


def test_who_waits_too_long_is_told_what_to_do(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study is named; other studies are free meanwhile."""
    monkeypatch.setattr(postgres, "PATIENCE", 0.2)
    with closing(open_storage(postgres_url)) as storage:
        storage.create("mix", first_rows())
        storage.create("other", first_rows())
        with storage.writing("mix"):
            with pytest.raises(StorageError, match=r"'mix' in .*lock timeout; another writer has held"):
                append(storage, "mix")
            append(storage, "other")
            storage.create("new", first_rows())
        append(storage, "mix")


@pytest.mark.parametrize(("query", "seconds"), [("", "60"), ("?connect_timeout=7", "7")])
def test_a_slow_server_has_a_minute_to_answer(monkeypatch: pytest.MonkeyPatch, query: str, seconds: str) -> None:
    """Unless the address says otherwise."""
    waits: list[object] = []

    def connect(*_: object, connect_timeout: str, **__: object) -> None:
        waits.append(connect_timeout)
        raise psycopg.OperationalError("too late")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(StorageError, match="too late; check that the server runs"):
        open_storage(f"postgresql://lab{query}")
    assert waits == [seconds]


def test_a_writer_that_fell_silent_loses_its_lock(storage: Storage) -> None:
    """A machine that died in a transaction does not hold the study up until the network notices."""

    def work(writer: Writer) -> None:
        driver = cast(SqlWriter, writer).connection
        assert driver.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("2min",)
        # Shortened here, not from the start: a busy machine may take as long between two statements.
        driver.execute("SET LOCAL idle_in_transaction_session_timeout = '0.2s'")
        append(storage, "mix")  # waits for the lock
        writer.read()

    with pytest.raises(StorageError, match="silent for too long"):
        write(storage, "mix", work)
    assert storage.n_events("mix") == 2


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_a_stricter_default_of_the_server_does_not_hide_new_rows(
    storage: Storage, postgres_server: Server, database: str, level: str
) -> None:
    """After waiting for the lock a writer sees what was committed meanwhile."""
    postgres_server.sql(f"ALTER DATABASE {database} SET default_transaction_isolation = '{level}'")
    cut(postgres_server, database)
    threads = [threading.Thread(target=lambda: [append(storage, "mix") for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.n_events("mix") == 21


def test_a_study_deleted_while_a_writer_waits_for_it_is_not_written(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """Not even if there is a new one of that name by then."""
    heard: list[BaseException] = []

    def wait_and_write() -> None:
        try:
            with storage.writing("mix") as writer:
                writer.append(next_rows(first_rows()[-1]))
        except BaseException as error:  # noqa: BLE001 (looked at below)
            heard.append(error)

    thread = threading.Thread(target=wait_and_write)
    with cast(SqlStorage, storage).writing("mix") as writer:
        thread.start()
        until(lambda: postgres_server.sql(WAITING, database))
        writer.delete()
        writer.create("mix", first_rows(again=True))
    thread.join()
    assert [type(error).__name__ for error in heard] == ["NoSuchStudy"]
    assert storage.n_events("mix") == 1


def test_a_database_of_something_else_is_left_as_it_is(
    postgres_url: str, postgres_server: Server, database: str
) -> None:
    """The error says what is in it; a schema of its own is a way out."""
    postgres_server.sql("CREATE TABLE orders (a int)", database)
    with pytest.raises(StorageError, match=r"has tables of something else \(orders\), and is left alone"):
        open_storage(postgres_url)
    assert postgres_server.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database) == [("orders",)]
    own = f"{postgres_url}&options=-csearch_path%3Dlab"
    with pytest.raises(StorageError, match="no schema has been selected"):
        open_storage(own)
    postgres_server.sql("CREATE SCHEMA lab", database)
    with closing(open_storage(own)) as storage:
        storage.create("mix", first_rows())
        assert storage.names() == ["mix"]


@pytest.mark.usefixtures("storage")
def test_a_database_of_a_newer_package_is_left_as_it_is(
    postgres_url: str, postgres_server: Server, database: str
) -> None:
    """The error says to upgrade."""
    postgres_server.sql("UPDATE surepick_version SET version_num = '27'", database)
    with pytest.raises(StorageError, match=r"written by a newer surepick .*upgrade surepick"):
        open_storage(postgres_url)


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: Server) -> None:
    """Names and reasons may be in any alphabet."""
    postgres_server.sql("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(StorageError, match="must keep texts as UTF8, got LATIN1"):
            open_storage(postgres_server.url("old"))
    finally:
        postgres_server.sql("DROP DATABASE old")


@pytest.mark.usefixtures("storage")
def test_who_may_only_read_reads(postgres_url: str, postgres_server: Server, database: str) -> None:
    """And hears why it cannot write."""
    postgres_server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with closing(open_storage(postgres_url)) as reader:
        assert reader.n_events("mix") == 1
        with pytest.raises(StorageError, match="read-only transaction; this server or user may only read"):
            append(reader, "mix")


@pytest.mark.usefixtures("storage")
def test_passwords_are_asked_for_and_never_shown(postgres_server: Server, database: str) -> None:
    """A wrong one, none, and a database or user that is not there: the error says which, without the password."""
    with suppress(Exception):
        postgres_server.sql("CREATE ROLE guarded LOGIN PASSWORD 'r1ght'")
    where = postgres_server.url(database).partition("@")[2]
    for who, where_to, said in (
        ("guarded:wr0ng", where, "password authentication failed for user .guarded.; check"),
        ("guarded", where, "no password supplied; check"),
        ("postgres", where.replace(database, "none"), "database .none. does not exist; check"),
        ("nobody:wr0ng", where, "role .nobody. does not exist; check"),
    ):
        with pytest.raises(StorageError, match=f"cannot open PostgreSQL database .* on .*{said}") as caught:
            open_storage(f"postgresql://{who}@{where_to}")
        assert "\n" not in str(caught.value)
        assert "wr0ng" not in "".join(traceback.format_exception(caught.value))
    url = f"postgresql://guarded:r1ght@{where}"
    with pytest.raises(StorageError, match=r"permission denied for table .*; ask for the right") as caught:
        open_storage(url)
    assert "r1ght" not in "".join(traceback.format_exception(caught.value))


def test_reading_one_study_walks_through_its_own_rows_only(storage: Storage) -> None:
    """It finds them by the index."""
    append(storage, "mix", n=500)
    storage_ = cast(SqlStorage, storage)
    with closing(storage_._database.connect()) as connection:
        connection.execute("ANALYZE")
        plan = connection.execute(
            f"EXPLAIN {storage_.sql['read']}", {"name": "mix", "after": 480, "limit": 2**62}
        ).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "events_pkey" in text
    assert "Seq Scan on events" not in text


def test_a_killed_writer_holds_nobody_up(storage: Storage, postgres_url: str) -> None:
    """The server ends its transaction with it."""
    script = """
import os, sys
from surepick.study.storage import open_storage
from surepick.study.events import rows_of
with open_storage(sys.argv[1]).writing("mix") as writer:
    last = writer.read()[-1]
    writer.append(rows_of(["{}"], last.hash, last.n + 1))
    os.kill(os.getpid(), 9)
"""
    with pytest.raises(subprocess.CalledProcessError, match="SIGKILL"):
        subprocess.run([sys.executable, "-c", script, postgres_url], check=True)
    append(storage, "mix")
    assert storage.n_events("mix") == 2


def test_tables_that_change_under_way_are_left_alone(storage: Storage, postgres_server: Server, database: str) -> None:
    """A newer package may change them while this one is connected: the next turn says to upgrade."""
    append(storage, "mix")
    postgres_server.sql("UPDATE surepick_version SET version_num = '27'", database)
    with pytest.raises(StorageError, match=r"written by a newer surepick .*upgrade surepick"):
        append(storage, "mix")
    assert storage.n_events("mix") == 2


def test_nothing_is_kept_in_a_session(storage: Storage, postgres_server: Server, database: str) -> None:
    """A pooler may give each transaction another session: no prepared statement, no setting, no lock stays in one."""
    for _ in range(20):
        append(storage, "mix")
        storage.names()
    with storage.writing("mix"):
        count = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory'"
        assert postgres_server.sql(f"{count} AND datname = '{database}'") == [(2,)]
    assert postgres_server.sql(f"{count} AND datname = '{database}'") == [(0,)]
    pool = cast(SqlStorage, storage)._pool
    driver, generation = pool.take()
    assert driver.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
    assert driver.execute("SELECT name FROM pg_settings WHERE source = 'session'").fetchall() == []
    assert driver.prepare_threshold is None
    pool.give_back(driver, generation)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("53300", r"as many connections as it allows: .*PgBouncer.*max_connections"),
        ("53100", "disk of the server is full"),
    ],
)
def test_a_full_server_is_told_from_one_that_is_down(
    storage: Storage, postgres_server: Server, database: str, state: str, said: str
) -> None:
    """The advice is about what is full."""
    postgres_server.sql(
        f"""
        CREATE FUNCTION full_() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''full'' USING ERRCODE = ''{state}''; END';
        CREATE TRIGGER full_ BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION full_();
        """,
        database,
    )
    with pytest.raises(StorageError, match=said):
        append(storage, "mix")
    assert storage.n_events("mix") == 1


def test_a_server_without_a_free_connection_says_so(storage: Storage, postgres_server: Server, database: str) -> None:
    """The refusal of a connection has no code in the driver's error, and is known by its words."""
    postgres_server.sql("CREATE ROLE limited LOGIN CONNECTION LIMIT 0")
    try:
        with pytest.raises(StorageError, match=r"too many connections for role.*; the server has as many connections"):
            open_storage(postgres_server.url(database).replace("postgres@", "limited@"))
    finally:
        postgres_server.sql("DROP ROLE limited")
    append(storage, "mix")


def test_who_listens_is_called_after_silence_and_after_a_lost_connection(
    storage: Storage, postgres_server: Server, database: str
) -> None:
    """An empty name: any study may have changed. Then names come again."""
    assert isinstance(storage, SqlStorage)
    heard = storage.listen(0.01)
    assert heard is not None
    assert [next(heard), next(heard)] == ["", ""]
    cut(postgres_server, database)
    assert [next(heard), next(heard)] == ["", ""]
    append(storage, "mix")
    until(lambda: next(heard) == "mix")
    heard.close()
    until(lambda: len(postgres_server.sql(f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}'")) == 1)
