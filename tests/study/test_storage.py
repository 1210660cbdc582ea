"""What every storage does, in memory, in an SQLite file and on a PostgreSQL server."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy, StorageError, StudyExists
from surepick.study.events import canonical, check_chain, rows_of
from surepick.study.storage import KeptSummary, ServerStorage, Storage, Summary, TokenRow, Writer, open_storage
from tests.study.storages import Place, append, count_up, first_rows, in_processes, next_rows, write
from tests.waiting import LIMIT

if TYPE_CHECKING:
    from surepick.study.storage.sql import SqlWriter


def test_what_was_written_is_read_back(place: Place) -> None:
    """All rows, or those after a number, from any storage at the same place."""
    storage = place.open()
    rows = first_rows(3)
    storage.create("mix", rows)
    rows += append(storage, "mix", n=2)
    rows += append(storage, "mix", n=1)
    for one in (storage, place.open()):
        assert one.read("mix") == rows
        for after in range(7):
            assert one.read("mix", after=after) == rows[after:]
            assert one.read("mix", after, 2) == rows[after : after + 2]
        assert one.n_events("mix") == 6
    check_chain(storage.read("mix"))


def test_rows_of_one_study_do_not_show_in_another(place: Place) -> None:
    """Studies share a storage, and nothing else."""
    storage = place.open()
    for name in ("b", "a", "c"):
        storage.create(name, first_rows(of=name))
    for name in ("c", "a", "a", "b", "c", "a"):
        append(storage, name, of=name)
    assert storage.names() == ["a", "b", "c"]
    assert [(one.name, one.n_events) for one in storage.summaries()] == [("a", 4), ("b", 2), ("c", 3)]
    for name, _, first, last, last_hash, kept in storage.summaries():
        rows = storage.read(name)
        check_chain(rows)
        assert {json.loads(row.text)["of"] for row in rows} == {name}
        assert (first, last, last_hash, kept) == (rows[0].text, rows[-1].text, rows[-1].hash, None)


def test_an_empty_storage_has_no_studies(place: Place) -> None:
    """It can be listed all the same."""
    assert place.open().names() == []
    assert place.open().summaries() == []
    with pytest.raises(NoSuchStudy, match=r"there is no study 'mix' in .*, nor any other; create one"):
        place.open().read("mix")


def test_a_writer_sees_what_it_has_appended_and_others_do_not_yet(place: Place) -> None:
    """Rows appear to all at once, when the transaction is committed."""
    storage, other = place.open(), place.open()
    first = first_rows()
    storage.create("mix", first)
    with storage.writing("mix") as writer:
        second = next_rows(first[-1])
        writer.append(second)
        third = next_rows(second[-1], n=2)
        writer.append(third)
        assert [writer.read(after) for after in range(5)] == [(first + second + third)[after:] for after in range(5)]
        with pytest.raises(CorruptLog, match="has 4 events, but 5 were read"):
            writer.read(5)
        assert other.read("mix") == storage.read("mix") == first
        assert other.n_events("mix") == 1
    assert other.read("mix") == first + second + third


def test_nothing_is_written_when_the_block_is_left_by_an_exception(place: Place) -> None:
    """Whatever the exception is; and the next writer does not wait."""
    storage = place.open()
    storage.create("mix", first_rows())
    kinds: list[type[BaseException]] = [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit]
    for n, kind in enumerate(kinds, 1):

        def work(writer: Writer, kind: type[BaseException] = kind) -> None:
            writer.append(next_rows(writer.read()[-1], n=3))
            raise kind

        with pytest.raises(kind):
            write(storage, "mix", work)
        assert storage.n_events("mix") == n
        append(place.open(), "mix")


def test_an_empty_transaction_changes_nothing(place: Place) -> None:
    """A writer may find that there is nothing to do."""
    storage = place.open()
    storage.create("mix", first_rows())
    with storage.writing("mix"):
        pass
    with storage.writing("mix") as writer:
        writer.append([])
    assert storage.read("mix") == first_rows()


def test_only_rows_that_continue_the_chain_are_taken(place: Place) -> None:
    """A writer with a wrong idea of the log is stopped before it does harm, and leaves nothing."""
    storage = place.open()
    rows = first_rows(3)
    storage.create("mix", rows)
    follow = next_rows(rows[-1], n=2)
    for wrong in (follow[1:], rows[-1:], next_rows(rows[1]), next_rows(rows[-1]._replace(hash="0" * 64)), rows[:1]):
        with pytest.raises(CorruptLog, match="event 4"), storage.writing("mix") as writer:
            writer.append(wrong)

    def twice(writer: Writer) -> None:
        writer.append(follow[:1])
        writer.append(follow[:1])

    with pytest.raises(CorruptLog, match="event 5 was expected"):
        write(storage, "mix", twice)
    assert storage.read("mix") == rows
    with pytest.raises(CorruptLog, match="event 1 was expected, and event 2 came"):
        storage.create("other", rows[1:])
    with pytest.raises(InvalidInput, match="must begin with at least one event"):
        storage.create("other", [])
    assert storage.names() == ["mix"]


def test_a_name_is_taken_once(place: Place) -> None:
    """The second study of a name is refused, and the first stays as it is."""
    storage = place.open()
    storage.create("mix", first_rows(2))
    with pytest.raises(StudyExists, match=r"there is a study 'mix' in .* already; load it, delete it"):
        place.open().create("mix", first_rows(1))
    assert storage.read("mix") == first_rows(2)


def test_a_deleted_study_is_gone_and_its_name_free(place: Place) -> None:
    """The others stay; and who still holds the old log notices that the new one is another."""
    storage, other = place.open(), place.open()
    storage.create("mix", first_rows(4))
    storage.create("stays", first_rows(2))
    storage.delete("mix")
    asks: list[Callable[[str], object]] = [other.read, other.n_events, other.delete, lambda name: append(other, name)]
    for ask in asks:
        with pytest.raises(NoSuchStudy, match="there is no study 'mix'"):
            ask("mix")
    with pytest.raises(NoSuchStudy), other.writing("mix"):
        pass
    other.create("mix", first_rows(2, again=True))
    with pytest.raises(CorruptLog, match="study 'mix' has 2 events, but 4 were read before"):
        storage.read("mix", after=4)
    with pytest.raises(CorruptLog, match="study 'mix' has 2 events, but 4 were read before"):
        write(storage, "mix", lambda writer: writer.read(after=4))
    with pytest.raises(CorruptLog, match="event 3 was expected, and event 5 came"):
        write(storage, "mix", lambda writer: writer.append(next_rows(first_rows(4)[-1])))
    assert storage.read("stays") == first_rows(2)


def test_a_study_that_is_not_there_is_named_with_the_nearest(place: Place) -> None:
    """A typo is corrected, and otherwise the studies are listed."""
    storage = place.open()
    for name in ("resin screening", "buffer", *map(str, range(12))):
        storage.create(name, first_rows())
    with pytest.raises(
        NoSuchStudy, match=r"there is no study 'resin screning' in .*; did you mean 'resin screening'\?"
    ):
        storage.read("resin screning")
    with pytest.raises(NoSuchStudy, match=r"; the studies are 0, 1, .* and 2 more\."):
        storage.read("!")


def test_any_line_of_text_is_a_name(place: Place) -> None:
    """Quotes, other alphabets and what SQL would take for code are letters like any other."""
    storage = place.open()
    names = [
        "it's",
        '"; DROP TABLE studies; --',
        "%s ? :name %(x)s",
        "Größe\u3000测试 🧪",
        "x" * 200,
        "🧪" * 200,
        "  y",
    ]
    for name in names:
        storage.create(name, first_rows(of=name))
        append(storage, name, of=name)
    assert place.open().names() == sorted(names)
    for name in names:
        assert {json.loads(row.text)["of"] for row in place.open().read(name)} == {name}
        storage.delete(name)
    assert storage.names() == []


def test_other_names_are_refused(place: Place) -> None:
    """The same in every storage, so that a study can move from one to the other."""
    storage = place.open()
    names: list[Any] = ["", "  ", "x" * 201, "two\nlines", "zero\0", "half \ud800", 7, None]
    for name in names:
        for call in (lambda name: storage.create(name, first_rows()), storage.read, storage.n_events, storage.delete):
            with pytest.raises(InvalidInput, match="the name of a study must"):
                call(name)
        with pytest.raises(InvalidInput, match="the name of a study must"), storage.writing(name):
            pass
    assert place.open().names() == []


def test_texts_may_be_long_and_in_any_alphabet(place: Place) -> None:
    """10^5 arms make an event of 5 MB; texts come back to the letter."""
    storage = place.open()
    rows = first_rows(arms="é0,1" * 1_250_000)
    storage.create("big", rows)
    odd = next_rows(rows[-1], text="tab\t nul\0 quote\" backslash\\ \u2028 \ufeff 测试 🧪 \x7f 'single' %s ? :a")
    with storage.writing("big") as writer:
        assert writer.read(1) == []
        writer.append(odd)
    assert place.open().read("big") == rows + odd
    assert place.open().read("big", after=1) == odd


def test_threads_take_turns(place: Place) -> None:
    """Each of 8 threads appends to what all others have appended, and none waits for ever."""
    storage = place.open()
    storage.create("mix", first_rows())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: [append(storage, "mix", by=i) for _ in range(10)], range(8)))
    rows = storage.read("mix")
    check_chain(rows)
    by = [json.loads(row.text)["by"] for row in rows[1:]]
    assert sorted(by) == sorted(list(range(8)) * 10)


def test_the_second_writer_waits_for_the_first(place: Place) -> None:
    """It begins when the first has committed, and sees what it wrote."""
    storage, other = place.open(), place.open()
    storage.create("mix", first_rows())
    storage.create("else", first_rows())
    seen = []

    def second() -> None:
        with other.writing("mix") as writer:
            seen.extend(writer.read(1))

    thread = threading.Thread(target=second)
    with storage.writing("mix") as writer:
        thread.start()
        time.sleep(0.15)
        assert thread.is_alive()
        assert not seen
        rows = next_rows(writer.read()[-1])
        writer.append(rows)
    thread.join()
    assert seen == rows


def test_reading_does_not_wait_for_a_writer_and_sees_whole_transactions(place: Place) -> None:
    """While one thread appends in fives, whoever reads finds a multiple of five, and never fewer than before."""
    storage, other = place.open(), place.open()
    storage.create("mix", first_rows(5))
    lengths = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            rows = other.read("mix")
            check_chain(rows)
            lengths.append(len(rows))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(40):
        append(storage, "mix", n=5)
    done.set()
    thread.join()
    assert lengths == sorted(lengths)
    assert {length % 5 for length in lengths} == {0}


def test_writing_with_a_log_that_has_moved_on_gets_what_is_new(place: Place) -> None:
    """The usual transaction: what came since I looked, then my own."""
    storage, other = place.open(), place.open()
    rows = first_rows(2)
    storage.create("mix", rows)
    new = append(other, "mix", n=3)
    with storage.writing("mix") as writer:
        assert writer.read(2) == new
        writer.append(next_rows(new[-1]))
    assert other.n_events("mix") == 6


def test_a_writer_that_hit_an_error_commits_nothing_even_if_it_was_caught(shared: Place) -> None:
    """Half of a transaction is never committed."""
    storage = shared.open()
    rows = first_rows()
    storage.create("mix", rows)
    twice: Any = {"study": 1, "n": 2, "text": "x", "hash": "x"}

    def work(writer: Writer) -> None:
        writer.append(next_rows(rows[-1]))
        with pytest.raises(StorageError, match="cannot write study 'mix'"):
            cast("SqlWriter", writer).run("append", twice)
        with pytest.raises(StorageError, match="cannot write study 'mix'"):
            writer.read()

    with pytest.raises(StorageError, match="cannot write study 'mix'"):
        write(storage, "mix", work)
    assert storage.read("mix") == rows


def test_processes_take_turns(shared: Place) -> None:
    """Six processes append 15 rows each: all there, none twice, each after what it had seen."""
    storage = shared.open()
    storage.create("mix", first_rows())
    in_processes(count_up, [(shared.url, "mix", 15, str(i)) for i in range(6)])
    rows = storage.read("mix")
    check_chain(rows)
    events = [json.loads(row.text) for row in rows[1:]]
    assert [event["before"] for event in events] == list(range(1, 91))
    assert sorted(event["by"] for event in events) == sorted("012345" * 15)


def _open_and_create(url: str, name: str) -> None:
    storage = open_storage(url)
    storage.create(name, first_rows())
    storage.close()


def test_processes_that_open_a_new_storage_at_once_all_succeed(shared: Place) -> None:
    """One makes the tables, the others wait for it."""
    names = [f"study {i:02}" for i in range(12)]
    in_processes(_open_and_create, [(shared.url, name) for name in names])
    assert shared.open().names() == names


def test_of_processes_that_create_one_name_at_once_one_wins(shared: Place) -> None:
    """The others are told that it is taken."""
    shared.open()
    in_processes(_create_or_hear, [(shared.url, i) for i in range(6)])
    (row,) = shared.open().read("mix")
    assert len(shared.open().names()) == 6, "five others said that they had lost"
    assert json.loads(row.text)["by"] in range(6)


def _create_or_hear(url: str, by: int) -> None:
    storage = open_storage(url)
    try:
        storage.create("mix", first_rows(by=by))
    except StudyExists:
        storage.create(f"lost {by}", first_rows())
    storage.close()


def test_forks_and_their_parent_do_not_disturb_one_another(shared: Place) -> None:
    """A storage that was open and in use before the fork works on both sides."""
    in_processes(_fork_and_write, [(shared.url,)])
    rows = shared.open().read("mix")
    check_chain(rows)
    assert len(rows) == 1 + 5 * 10


def _fork_and_write(url: str) -> None:
    import os  # noqa: PLC0415 (in another process)

    storage = open_storage(url)
    storage.create("mix", first_rows())
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            for _ in range(10):
                append(storage, "mix")
            os._exit(0)
        children.append(child)
        storage.n_events("mix")
    for _ in range(10):
        append(storage, "mix")
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    storage.close()


def test_a_closed_storage_can_be_used_again(place: Place) -> None:
    """To close it is to let go of connections, not to forget where it is."""
    storage = place.open()
    storage.create("mix", first_rows())
    storage.close()
    storage.close()
    append(storage, "mix")
    assert storage.n_events("mix") == 2


def test_a_storage_is_opened_by_itself(place: Place) -> None:
    """Whoever has one can hand it on where an address is asked for."""
    storage = place.open()
    assert open_storage(storage) is storage
    assert isinstance(storage, Storage)


def test_a_summary_can_be_read() -> None:
    """It is a tuple with names."""
    storage = open_storage("memory://")
    rows = rows_of([canonical({"n": 1})])
    storage.create("mix", rows)
    assert storage.summaries() == [Summary("mix", 1, '{"n":1}', '{"n":1}', rows[0].hash)]
    assert open_storage("memory:").names() == [], "each one is fresh"


def kept(storage: Storage) -> dict[str, KeptSummary | None]:
    """The stored summary of each study."""
    return {one.name: one.kept for one in storage.summaries()}


def test_the_newest_summary_of_a_study_is_kept(place: Place) -> None:
    """Each study has its own; an older one does not replace a newer one; the log does not change."""
    storage, other = place.open(), place.open()
    rows = first_rows(3)
    for name in ("mix", "it's"):
        storage.create(name, rows)
    storage.keep_summary("mix", 2, rows[1].hash, '{"n":2}')
    assert kept(other) == {"it's": None, "mix": KeptSummary(2, rows[1].hash, '{"n":2}')}
    other.keep_summary("mix", 3, rows[2].hash, "Größe 🧪 :n %s ?")
    storage.keep_summary("mix", 1, rows[0].hash, "late")
    other.keep_summary("it's", 3, rows[2].hash, "mine")
    for one in (storage, other):
        assert kept(one) == {
            "it's": KeptSummary(3, rows[2].hash, "mine"),
            "mix": KeptSummary(3, rows[2].hash, "Größe 🧪 :n %s ?"),
        }
        assert one.read("mix") == rows
    rows += append(storage, "mix")
    (_, mix) = storage.summaries()
    assert (mix.hash, mix.kept and mix.kept.hash) == (rows[3].hash, rows[2].hash), "it shows that it is out of date"


def test_a_summary_goes_with_its_study(place: Place) -> None:
    """A new study of the same name has none; of a study that is not there none is kept, and nothing is said."""
    storage = place.open()
    storage.create("mix", first_rows())
    storage.keep_summary("mix", 1, first_rows()[0].hash, "old")
    storage.delete("mix")
    storage.keep_summary("mix", 1, first_rows()[0].hash, "late")
    storage.create("mix", first_rows(again=True))
    assert kept(storage) == {"mix": None}
    with pytest.raises(InvalidInput, match="the name of a study must"):
        storage.keep_summary("", 1, "", "")


def test_a_summary_waits_for_no_writer_for_long(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another transaction writes, it is kept or given up; the transaction does not notice."""
    monkeypatch.setattr("surepick.study.storage.sql.CACHE_PATIENCE", 0.05)
    storage, other = shared.open(), shared.open()
    rows = first_rows()
    storage.create("mix", rows)
    with storage.writing("mix") as writer:
        other.keep_summary("mix", 1, rows[0].hash, "one")
        writer.append(next_rows(rows[-1]))
    assert storage.n_events("mix") == 2
    assert kept(storage)["mix"] in (None, KeptSummary(1, rows[0].hash, "one"))
    other.keep_summary("mix", 1, rows[0].hash, "two")
    assert kept(storage)["mix"] == KeptSummary(1, rows[0].hash, "two")


# ---- tokens of a server


TOKEN = TokenRow("t1", "ab" * 32, "tell", None, "robot 🤖", "2026-11-18T12:00:00.000000Z", None)


def server_storage(place: Place) -> ServerStorage:
    """A storage with tokens."""
    storage = place.open()
    assert isinstance(storage, ServerStorage)
    return storage


def test_tokens_are_kept_in_order_and_revoked_once(place: Place) -> None:
    """The time of the first revocation stays; studies and tokens do not touch."""
    storage = server_storage(place)
    assert storage.tokens() == []
    second = TokenRow("a2", "cd" * 32, "read", "mix", "boss", TOKEN.created_at, None)
    storage.add_token(TOKEN)
    storage.add_token(second)
    storage.create("mix", first_rows())
    storage.delete("mix")
    assert server_storage(place).tokens() == [TOKEN, second]
    storage.revoke_token("t1", "2026-11-19T12:00:00.000000Z")
    storage.revoke_token("t1", "2026-11-20T12:00:00.000000Z")
    revoked = TOKEN._replace(revoked_at="2026-11-19T12:00:00.000000Z")
    assert server_storage(place).tokens() == [revoked, second]


def test_tokens_that_are_there_or_missing_are_refused(place: Place) -> None:
    """Neither an id nor a digest is used twice; a typo in an id names the nearest."""
    storage = server_storage(place)
    with pytest.raises(InvalidInput, match=r"there is no token 't1' in .*; there is none at all"):
        storage.revoke_token("t1", "now")
    storage.add_token(TOKEN)
    for same in (TOKEN._replace(digest="ef" * 32), TOKEN._replace(id="t2")):
        with pytest.raises(InvalidInput, match=r"there is a token .* already; make another"):
            storage.add_token(same)
    with pytest.raises(InvalidInput, match=r"there is no token 't' in .*t1"):
        storage.revoke_token("t", "now")
    assert storage.tokens() == [TOKEN]


def test_a_database_from_before_tokens_has_none_until_one_is_added(shared: Place) -> None:
    """To look for tokens changes no table."""
    storage = server_storage(shared)
    storage.create("mix", first_rows())
    with storage.writing("mix") as writer:
        connection = cast("SqlWriter", writer).connection
        connection.execute("DROP TABLE tokens")
        connection.execute("UPDATE surepick_version SET version_num = '2'")
    assert server_storage(shared).tokens() == []
    storage.add_token(TOKEN)
    assert server_storage(shared).tokens() == [TOKEN]
    assert storage.read("mix") == first_rows()


def test_who_listens_hears_of_every_change_of_any_study(shared: Place) -> None:
    """Made, appended to, deleted, by any process; what was refused is not heard of. SQLite cannot tell."""
    storage, other = server_storage(shared), server_storage(shared)
    heard = storage.listen(LIMIT)
    if heard is None:
        assert "lab.db" in shared.url
        return
    assert next(heard) == ""
    other.create("Größe/2 'x'", first_rows())
    other.create("mix", first_rows())
    with pytest.raises(CorruptLog), other.writing("mix") as writer:
        writer.append(first_rows())
    with other.writing("mix"):
        pass
    append(other, "mix", n=3)
    other.keep_summary("mix", 4, other.read("mix")[-1].hash, "{}")
    other.delete("mix")
    other.create("last", first_rows())
    assert [next(heard) for _ in range(5)] == ["Größe/2 'x'", "mix", "mix", "mix", "last"]


def test_a_storage_in_memory_has_no_other_writers() -> None:
    """So there is nothing to listen to."""
    storage = open_storage("memory:")
    assert isinstance(storage, ServerStorage)
    assert storage.listen() is None
