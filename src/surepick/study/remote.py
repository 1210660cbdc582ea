"""Studies on a server: this process follows their logs, and changes them by requests to the server."""

import json
import secrets
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final

from surepick.arms.tables.sources import open_table
from surepick.core.checks import check_count
from surepick.errors import InvalidInput, NoSuchStudy, StorageError
from surepick.learning.groups import group_label
from surepick.learning.spec import KEPT
from surepick.study import requests
from surepick.study.eras import next_era, plain_key
from surepick.study.events import Kind, Row
from surepick.study.exchange import sheet_values, unread_columns, unread_words
from surepick.study.requests import StudyAsk, check_text
from surepick.study.storage.base import KeptSummary, Summary, at_forks, log_is_short
from surepick.study.study import OWN_LEASE, Study, Told

if TYPE_CHECKING:
    from surepick.client import Client

METHODS = {Kind.VOIDED: "void", Kind.CORRECTED: "correct", Kind.RESTORED: "restore"}


@final
class HttpStorage:
    """The studies of a server, as a storage that others write.

    Args:
        url: of the server, such as "http://127.0.0.1:8080".
        options: further arguments of `Client`, such as `token`.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._options = {"url": url, **options}
        self.renew()
        self.address = self.client.url
        at_forks(self)

    def __reduce__(self) -> Any:
        """A pickle has the address, with the token if one was given here."""
        return partial(HttpStorage, **self._options), ()

    def before_fork(self) -> None:
        """Nothing to let go of."""

    def renew(self) -> None:
        """Forget the connections; the child of a fork must not use those of its parent."""
        self._client: Client | None = None

    def close(self) -> None:
        """Close the connections. A later call opens them again."""
        if self._client is not None:
            self._client.close()
        self.renew()

    @property
    def client(self) -> "Client":
        """The client of the server."""
        from surepick.client import Client  # noqa: PLC0415 (studies elsewhere need no httpx)

        if self._client is None:
            self._client = Client(**self._options)
            weakref.finalize(self, self._client.close)  # for studies that are not closed
        return self._client

    def names(self) -> list[str]:
        """Return the names of all studies that the token may see, sorted."""
        return [one["name"] for one in self.client.studies()]

    def summaries(self) -> list[Summary]:
        """Return all studies at a glance, as the server lists them."""
        found = []
        for one in self.client.studies():
            first, kept = json.dumps({"at": one["created_at"]}), KeptSummary(one["n_events"], "", json.dumps(one))
            found.append(Summary(one["name"], one["n_events"], first, "", "", kept))
        return found

    def keep_summary(self, name: str, n: int, hash: str, text: str) -> None:  # noqa: A002 (the column's name)
        """The server keeps its own."""

    def n_events(self, name: str) -> int:
        """Return the number of events of a study."""
        return int(self.client.of(name).status()["head"]["n"])

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Let the server create a study by the arms and options of an event; it writes an event of its own."""
        event = json.loads(rows[0].text)
        options = {name: value for name, value in event["options"].items() if value != KEPT.get(name)}
        options |= options.pop("own", {})
        given = {"candidates": event["candidates"], "lease": event["lease"], "worker": event["by"]}
        given |= {name: event[name] for name in ("group_by",) if name in event}
        self.client.create(name, event["arms"], **given, **options)

    def delete(self, name: str) -> None:
        """Delete a study and its events for good."""
        self.client.of(name).delete()

    def read(self, name: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows of a study after number `after`, at most `limit`."""
        try:
            return [Row(one["n"], one["text"], one["hash"]) for one in self.client.of(name).rows(after)[:limit]]
        except NoSuchStudy:
            raise
        except InvalidInput as error:
            raise log_is_short(name, self.n_events(name), after) from error

    def writing(self, name: str) -> NoReturn:
        """Refuse: the server writes."""
        raise StorageError(
            f"this cannot be done through the server {self.address}; do it where the server's studies are kept, with "
            "the file or the database as --storage (in Python, `storage`)."
        )


@final
class RemoteStudy(Study):
    """A study on a server; `create_study` and `load_study` return one for the address of a server.

    What is read is derived from the log, here. What is told goes to the server, and is on its disk when the call
    returns.
    """

    storage: HttpStorage

    @property
    def _client(self) -> "Client":
        return self.storage.client.of(self.name)

    def _who(self, worker: str | None) -> str:
        return check_text("author", self.author) if worker is None else check_text("worker", worker)

    def ask(
        self, n: int = 1, *, worker: str | None = None, lease: Any = OWN_LEASE, group: Any = None, item: Any = None
    ) -> list[StudyAsk]:
        """Return the next asks, as for other studies.

        Without a worker's name each call has one of its own, of the author and a random number: a request that is
        repeated then makes no further asks.
        """
        who = f"{self._who(worker)}:{secrets.token_hex(4)}" if worker is None else self._who(worker)
        label = dict(group_label(group, item=item)) or None
        asks = self._client.ask(check_count("n", n, least=1), worker=who, lease=lease, group=label)
        with self._log.reading() as state:
            return [requests.shown(state, state.attempts[one["id"]]) for one in asks]

    def fail(self, ask: int | StudyAsk, *, reason: str = "", worker: str | None = None) -> None:
        """Give up an ask: another worker gets it."""
        with self._log.reading() as state:
            id_ = requests.find_ask(state, ask).id
        self._client.fail(id_, reason=check_text("reason", reason), worker=self._who(worker))

    def _take_in(self, ask: Any, arm: Any, value: Any, *, worker: str | None, questions: bool, **how: Any) -> Told:
        key, group = how.get("key"), how.get("group", ())
        with self._log.reading() as state:
            n_before, who = len(state.measurements), self._who(worker)
            value = float(value) if how.get("takes_flags") and requests.is_pass_or_fail(state, value) else value
            given = [requests.check_value(state, one) for one in requests.values_in(value)]
            if ask is not None:
                ask = requests.find_ask(state, ask).id
            else:
                arm = requests.find_arm(state, arm)
                own = [one for one in state.open.values() if one.arm == arm and one.by.startswith(f"{who}:")]
                own = [one for one in own if not group or one.group in ((), group)] or own
                ask = own[0].id if own and worker is None and key is None else None
        named: Any = {
            "arm": plain_key(arm) if ask is None else None,
            "worker": who,
            "key": key,
            "group": dict(group) or None,
        }
        said = self._client.tell(ask, given, **named, warn=False)
        with self._log.reading() as state:
            told = Told([state.measurement(one["id"]) for one in said])
            is_new = told[0].id > n_before
            own_words = requests.remarks(state, told[0].id - 1, questions=False) if is_new else ()
            told.remarks = said.remarks if questions and is_new else tuple(own_words)
        return told

    def tell_file(
        self,
        path: Any,
        *,
        worker: str | None = None,
        group: Any = None,
        group_columns: Iterable[str] = (),
        questions: bool = True,
        warn: bool = True,
    ) -> Told:
        """Take in the values of a sheet, as for other studies; all are checked before the first is sent."""
        with self._log.reading() as state:
            table, columns = open_table(path), tuple(group_columns)
            values = sheet_values(state, table, group_label(group), columns)
            found = [(one.id, list(one.results), value, label) for one, value, label in values]
            unread = unread_columns(state, table, columns) if questions else []
        told = Told()
        told.remarks = (unread_words(unread),) if unread else ()
        for id_, results, value, label in found:
            how: dict[str, Any] = {"worker": worker, "questions": questions, "group": label}
            some = self._take_in(id_, None, value, **how) if not results else Told()
            told += some or [self.state.measurement(results[0])]
            told.remarks += some.remarks
        if warn:
            told.warn()
        return told

    def tell_earlier(
        self,
        pairs: Iterable[tuple[Any, float] | tuple[Any, float, Any]],
        *,
        worker: str | None = None,
        key: str | None = None,
    ) -> Told:
        """Take in unsolicited results, as for other studies; the same list counts once, also without a key."""
        with self._log.reading() as state:
            given = [
                (
                    plain_key(requests.find_arm(state, arm)),
                    requests.check_value(state, one),
                    *[dict(label) for label in map(group_label, group) if label],
                )
                for arm, one, *group in pairs
            ]
        said = self._client.tell_earlier(given, worker=self._who(worker), key=key)
        with self._log.reading() as state:
            return Told([state.measurement(one["id"]) for one in said])

    def _change(self, kind: Kind, measurement: int, reason: str, worker: str | None, value: Any = None) -> None:
        with self._log.reading() as state:
            number = requests.changed_value(state, kind, check_count("measurement", measurement, least=1), value)
        values = [] if number is None else [number]
        getattr(self._client, METHODS[kind])(measurement, *values, reason=reason, worker=self._who(worker))

    def audit(self, n: int | Literal["auto"] = "auto", *, worker: str | None = None) -> int:
        """Plan check pulls of the model after the verdict; the next asks are theirs. Returns how many."""
        return self._client.audit(n, worker=self._who(worker))

    def reopen(self, *, reason: str, worker: str | None = None, **changes: Any) -> None:
        """Go on after a verdict, or with other arms or options, as for other studies."""
        join, retire = changes.pop("join", None), changes.pop("retire", ())
        options = {name: value for name, value in changes.items() if name != "keep_evidence"}
        with self._log.reading() as state:
            gone = [requests.find_arm(state, arm) for arm in retire]
            joined = next_era(state, join, gone, options)["joined"]
        if joined is not None:
            names, rows = joined["names"], joined["rows"]
            changes["join"] = dict(zip(names, rows, strict=True)) if names else rows
        self._client.reopen(reason=reason, retire=gone, worker=self._who(worker), **changes)
