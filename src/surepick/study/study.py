"""A study: an experiment that outlives processes, machines and mistakes, for any number of workers.

Everything that happens is an event in the log (`events`), and the state of a study is what its events add up to
(`state`). A method proposes events and applies them in one transaction (`log`). They are on the disk when it returns.
"""

import json
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Never, Self, TypeVar, final

from surepick._files import file_name
from surepick._texts import html_table
from surepick._version import __version__
from surepick.arms.tables.sources import open_table
from surepick.core.checks import check_count
from surepick.errors import EntryWarning, InvalidInput, SurepickError
from surepick.learning.groups import GroupLabel, group_label, refuse_relabelling
from surepick.learning.learner import Learner
from surepick.learning.progress import facts
from surepick.learning.questions import Question
from surepick.learning.result import Result
from surepick.study import requests
from surepick.study.certificate import certificate_of
from surepick.study.eras import Key, next_era
from surepick.study.events import Kind, Row, written
from surepick.study.exchange import SUFFIXES, What, export, sheet_values, unread_columns, unread_words
from surepick.study.log import LogTransaction, StudyLog, lease_length
from surepick.study.optimize import Callback, optimize, optimize_async
from surepick.study.reopening import ReopenPreview
from surepick.study.requests import StudyAsk, check_text
from surepick.study.signatures import signature_of_head, stamp_of_head
from surepick.study.state import AskState, Measurement, State
from surepick.study.storage import Storage
from surepick.study.views import OF_MEASUREMENT, Status, StudySnapshot, measurement_record, snapshot_of, table_of
from surepick.types import data_frame

__all__ = ["Study", "StudyAsk"]
OWN_LEASE = "own"
"""The lease that the study was created with."""
MOST_ASKS = 100_000
"""In one call; each block among them is planned from older data."""
Json = dict[str, Any]
T = TypeVar("T")


@final
class Measurements(list[Measurement]):
    """The measurements of a study, a list that is also a table."""

    def __init__(self, state: State) -> None:
        super().__init__(state.measurements)
        self._state = state

    def __reduce__(self) -> Any:
        """A pickle has the list alone."""
        return list, (list(self),)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table as columns of equal length, under the names of `surepick measurements --format json`.

        `value` is the result that counts, None if the measurement is void; `told` is what was told first. `group` is a
        column if a measurement has a label. Every library of data frames takes such columns:
        `polars.DataFrame(study.measurements.to_columns())`.
        """
        records = table_of([measurement_record(self._state, one) for one in self])
        return {name: [record[name] for record in records] for name in (records[0] if records else OF_MEASUREMENT)}

    def to_frame(self) -> Any:
        """Return the table as a pandas `DataFrame`, or as columns where pandas is not installed."""
        return data_frame(self.to_columns())


@final
class Told(list[Measurement]):
    """The measurements that a call told, and what the study has to say about them."""

    remarks: tuple[str, ...] = ()
    """Values that look mistyped, or that all values so far look like pass or fail, in words."""

    def warn(self) -> None:
        """Warn in the line that called the caller of this."""
        for text in self.remarks:
            warnings.warn(text, EntryWarning, stacklevel=3)


class Study:
    """A persisted learner; `create_study` and `load_study` return one.

    All methods may be called by several threads at once, and by any number of processes on the same storage.

    Args:
        storage: where its log is.
        name: of the study.
        author: named in the events of this object, unless a worker is named.
        created: the state by the first event, if the study has just been created.
    """

    def __init__(self, storage: Storage, name: str, *, author: str = "", created: State | None = None) -> None:
        self.storage, self.name, self.author = storage, name, author
        self._log = StudyLog(storage, name, created)
        self._is_summary_due = False
        self._log.state()

    def __repr__(self) -> str:
        return f"Study({self.name!r} in {self.storage.address})"

    def _repr_html_(self) -> str:
        """Return the study at this moment as a table for a notebook."""
        now = self.snapshot
        known = {"state": now.status.state, "pulls": now.status.n_pulls}
        return html_table(repr(self), {**known, **facts(now.learner, now.label, epsilon_is="epsilon = ")}.items())

    def __reduce__(self) -> Any:
        """A pickle has the storage by its address, and the name: another process opens the same study."""
        return partial(type(self), self.storage, self.name, author=self.author), ()

    def close(self) -> None:
        """Let go of the connections of its storage; a later call makes new ones. `with` does it at the end."""
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self, worker: str | None) -> Iterator[LogTransaction]:
        """Write to the log in one transaction; from a verdict on, keep a summary of the study for lists."""
        author = check_text("author", self.author) if worker is None else check_text("worker", worker)
        with self._log.writing(author) as transaction:
            self._is_summary_due |= transaction.state.stopped
            yield transaction
            self._is_summary_due |= transaction.state.stopped
        self._summarize()

    def _summarize(self) -> None:
        """Keep a summary if one is due, once the events are on the disk."""
        if self._is_summary_due and not self._log.is_open:
            self._is_summary_due = False
            with suppress(SurepickError):  # a summary is a cache
                self.keep_summary()

    def together(self, calls: Sequence[Callable[[], T]]) -> "list[T | Exception]":
        """Make several calls that write to this study in one transaction; when this returns, all is on the disk.

        One commit for many requests: a server answers hundreds of workers by it. The calls are made one after the
        other, and each finds what those before it have written.

        Args:
            calls: such as `partial(study.tell, 3, 1.0, worker="ann", warn=False)`. A call may be made twice, so it
                must do nothing else than to use this study, and must let errors of the study pass.

        Returns:
            For each call what it returns, or the error that it raises. A call that raises leaves nothing in the log,
            and changes nothing for the others.

        Raises:
            StorageError: the commit failed, for all calls.
        """
        outcomes = self._log.together(calls)
        self._summarize()
        return outcomes

    # ---- asks

    def ask(
        self, n: int = 1, *, worker: str | None = None, lease: Any = OWN_LEASE, group: Any = None, item: Any = None
    ) -> list[StudyAsk]:
        """Return the next asks: n, fewer if the budget ends, none once the study has stopped.

        Args:
            n: number of asks.
            worker: who will measure. A worker that asks again gets its open asks back first; without a name every call
                makes new ones.
            lease: time after which another worker gets the asks: "30m", "2h", "3d", seconds, or None for never;
                default: the lease that the study was created with. A result that comes later still counts.
            group: where and when these arms will be measured: a text such as "day 3", or {"day": 3, "bench": "B"}. The
                results then have this label. Open asks of this worker with another label do not come back.
            item: the question, prompt or panellist on which they will be measured: the level of the factor "item".
        """
        label = group_label(group, item=item)
        n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further ones when needed.")
        with self._log.reading() as state:
            if state.learner.state.needs_plan:
                state.learner.state.plans.catch_up()  # before others have to wait for it
        with self._writing(worker) as transaction:
            state = transaction.state
            length = lease_length(state.lease if lease == OWN_LEASE else lease)
            if due := self._log.leases.due(state.open.values(), transaction.at):
                transaction.write(Kind.EXPIRED, asks=due)
            self._log.leases.keep(state.open)
            until = None if length is None else written(transaction.now + length)
            return requests.ask(transaction, n, worker=worker, until=until, group=label)

    def fail(self, ask: "int | StudyAsk", *, reason: str = "", worker: str | None = None) -> None:
        """Give up an ask: another worker gets it. For any reason but the value: a value that was seen must be told."""
        with self._writing(worker) as transaction:
            one = requests.find_untold(transaction.state, ask)
            if one.state is AskState.OPEN:
                transaction.write(Kind.FAILED, ask=one.id, reason=check_text("reason", reason))

    # ---- results

    def tell(  # noqa: PLR0913 (every argument is an option of its own)
        self,
        ask: "int | StudyAsk | None" = None,
        value: "float | Iterable[float] | None" = None,
        *,
        arm: Any = None,
        worker: str | None = None,
        key: str | None = None,
        group: Any = None,
        item: Any = None,
        questions: bool = True,
        warn: bool = True,
    ) -> Told:
        """Take in a result, or several of one arm; when this returns, they are on the disk.

        Args:
            ask: which ask it answers, open, given up or expired. The first value answers it, further ones are extra.
                Told again with the same values nothing happens, with others it is a `Conflict`.
            value: what was measured; several values in the order of measuring, never sorted: which of them is the
                first, and answers the ask, must not depend on the values.
            arm: instead of `ask`: name, row number or vector. The oldest open ask of that arm is answered that this
                worker has; if there is none, the result is unsolicited, and counts as well.
            worker: who measured.
            key: a name for what is told, by which it is recognised if it is told again (a request that is repeated).
            group: where and when it was measured: a text such as "day 3", or {"day": 3, "bench": "B"}. An ask with a
                label keeps that label, and another one is refused. A label never depends on the value.
            item: the question, prompt or panellist on which it was measured: the level of the factor "item".
            questions: whether to remark on a value that looks mistyped; the value is recorded all the same.
            warn: whether to warn of what `remarks` of the answer says.

        Warns:
            EntryWarning: a value stands far apart from the others, or all values so far look like pass or fail.

        Returns:
            The measurements, with the ids by which `void` and `correct` name them; `remarks` has the warnings.
        """
        if (ask is None) is (arm is None):
            raise InvalidInput("`tell` needs an ask or an arm, got " + ("neither." if ask is None else "both."))
        label = group_label(group, item=item)
        told = self._take_in(ask, arm, value, worker=worker, key=key, questions=questions, group=label)
        if warn:  # now that all is recorded
            told.warn()
        return told

    def _take_in(
        self,
        ask: Any,
        arm: Any,
        value: Any,
        *,
        worker: str | None,
        key: str | None = None,
        questions: bool,
        takes_flags: bool = False,
        group: GroupLabel = (),
    ) -> Told:
        """Take in results as `tell` does, and warn of nothing.

        With `takes_flags`, True and False count as 1 and 0 if all values so far are 0 or 1.
        """
        given = requests.values_in(value)
        with self._writing(worker) as transaction:
            state, n_before = transaction.state, len(transaction.state.measurements)
            if takes_flags and requests.is_pass_or_fail(state, value):
                given = [float(value)]
            told = Told(requests.tell(transaction, ask, arm, given, key, group))
            told.remarks = tuple(requests.remarks(state, n_before, questions=questions))
        return told

    def question(self, measurement: int) -> Question | None:
        """Return the question that a value raises if it stands far apart; it changes nothing (docs/study.md)."""
        with self._log.reading() as state:
            return requests.question(state, measurement)

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
        """Take in the values of a sheet that `surepick ask --format xlsx` wrote, by the numbers of asks: all or none.

        Empty cells are not measured yet. Told again, a file changes nothing; another value for an ask that has its
        result is refused. Questions and warnings are those of `tell`.

        Args:
            path: a .csv or .xlsx file with the columns ask and value. Values may have decimal commas.
            worker: who measured.
            group: where and when all values of the sheet were measured, as for `tell`.
            group_columns: titles of columns that say where and when each value was measured, such as ("day", "bench"):
                the title is the factor, the cell its level.
            questions: as for `tell`. A column that looks like one of `group_columns` and is not named is remarked too.
            warn: as for `tell`.

        Returns:
            The measurements of the sheet, those told before among them, with their `remarks`.
        """
        table, columns = open_table(path), tuple(group_columns)
        with self._writing(worker) as transaction:
            n_before, unread = len(transaction.state.measurements), unread_columns(transaction.state, table, columns)
            told = Told()
            for one, value, label in sheet_values(transaction.state, table, group_label(group), columns):
                known = [transaction.state.measurement(one.results[0])] if one.results else []
                told += known or requests.tell(transaction, one.id, None, [value], None, label)
            said = [unread_words(unread)] if unread and questions else []
            told.remarks = (*said, *requests.remarks(transaction.state, n_before, questions=questions))
        if warn:
            told.warn()
        return told

    def tell_earlier(
        self,
        pairs: Iterable[tuple[Any, float] | tuple[Any, float, Any]],
        *,
        worker: str | None = None,
        key: str | None = None,
    ) -> list[Measurement]:
        """Take in unsolicited results, all or none: (arm, value) in the order in which they were measured.

        They guide plans and bets, and are no evidence. Told before the first ask of a study that was created with
        earlier="evidence" they count (docs/study.md).

        Args:
            pairs: (arm, value), or (arm, value, group). The same list told once more is a `Conflict`, since it would
                count twice.
            worker: who measured.
            key: as for `tell`. With a key of their own, the same values are further measurements.
        """
        pairs = list(pairs)  # before others have to wait for it
        with self._writing(worker) as transaction:
            return requests.tell_earlier(transaction, pairs, key)

    def arm(self, name: Any) -> Key:
        """Return an arm by its name, its row number, or its vector; for a typo the error has the nearest name."""
        return requests.find_arm(self._log.state(), name)

    # ---- corrections

    def void(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Take a measurement back: all is worked out again without it, and a verdict that no longer holds is withdrawn.

        Valid if which measurements are void or corrected has nothing to do with the noise of their own block or of
        later ones: never because of the value. The certificate lists them with their reasons.
        """
        self._change(Kind.VOIDED, measurement, reason, worker)

    def correct(
        self, measurement: int, value: float, *, reason: str, worker: str | None = None, group: None = None
    ) -> None:
        """Replace the value of a measurement that was told wrong, as `void` does and on the same condition.

        The label stays as it is: `group` is refused.
        """
        refuse_relabelling(group)
        self._change(Kind.CORRECTED, measurement, reason, worker, value)

    def restore(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Let a measurement that is void count again, with the value it had."""
        self._change(Kind.RESTORED, measurement, reason, worker)

    def _change(self, kind: Kind, measurement: int, reason: str, worker: str | None, value: Any = None) -> None:
        if not check_text("reason", reason).strip():
            raise InvalidInput("`reason` must say why in a few words: it stands in the certificate.")
        n = check_count("measurement", measurement, least=1)
        with self._log.reading() as state:  # what takes long is done before others wait for it
            state.prepare_change(kind, n, requests.changed_value(state, kind, n, value))
        with self._writing(worker) as transaction:
            value = requests.changed_value(transaction.state, kind, n, value)
            said = {} if value is None else {"value": value}
            transaction.write(kind, measurement=n, reason=reason, **said)
            transaction.write_verdict(after_correction=True)

    # ---- after the verdict

    def audit(self, n: int | Literal["auto"] = "auto", *, worker: str | None = None) -> int:
        """Plan check pulls of the model after the verdict; the next asks are theirs. Returns how many."""
        with self._writing(worker) as transaction:
            fields = transaction.state.propose_audit(n)
            transaction.write(Kind.AUDITED, **fields)
            return len(fields["arms"])

    def reopen(
        self,
        *,
        reason: str,
        join: Any = None,
        retire: Iterable[Any] = (),
        keep_evidence: bool = True,
        worker: str | None = None,
        **changes: Any,
    ) -> None:
        """Go on after a verdict, or with other arms or options: a new era.

        You may choose the change after a look at the results. Their evidence is kept where a proof allows that: with a
        smaller delta, another budget, a first epsilon, arms that join, or without arms that are excluded already,
        between two blocks while no ask is open, or after a verdict. Else the results guide plans and bets, and the
        proof starts anew; `preview_reopen` says which, and why. Every earlier verdict stands in the log, about the arms
        of its time.

        Args:
            reason: why.
            join: arms that are added: {name: features}, or rows as `create_study` takes them where arms have no names.
            retire: arms that leave, by name or row number; others keep their row numbers.
            keep_evidence: False starts the proof anew even where evidence could be kept, with a risk of its own.
            worker: who does it.
            **changes: of options: delta, budget, epsilon, ...; a budget counts from here on, and without one the rest
                of the old budget is left.
        """
        if not check_text("reason", reason).strip():
            raise InvalidInput("`reason` must say why in a few words.")
        with self._writing(worker) as transaction:
            state = transaction.state
            fields = next_era(state, join, [requests.find_arm(state, arm) for arm in retire], changes)
            opening = state.propose_reopening({"reason": reason, **fields}, keeps=keep_evidence)
            transaction.write(Kind.REOPENED, **opening, version=__version__)
            transaction.write_verdict()  # rules that count what was measured before may say the same again at once

    def preview_reopen(self, *, join: Any = None, retire: Iterable[Any] = (), **changes: Any) -> ReopenPreview:
        """Return what `reopen` with these changes would keep as evidence, and why not more; nothing changes.

        `print` shows one sentence: "This keeps 46 results as evidence."
        """
        with self._log.reading() as state:
            fields = next_era(state, join, [requests.find_arm(state, arm) for arm in retire], changes)
            return state.preview_reopening(fields)

    # ---- proofs for others

    def anchor(
        self,
        *,
        token: bytes | None = None,
        key: Path | None = None,
        password: str | None = None,
        worker: str | None = None,
    ) -> Json:
        """Keep a proof in the log that an earlier head existed; return the event.

        Args:
            token: an RFC 3161 time stamp of the hash of some event of this log, as an authority has sent it.
            key: instead of it an Ed25519 private key, a PEM file, which signs the present head.
            password: of the key, if it has one.
            worker: who does it.
        """
        if (token is None) is (key is None):
            raise InvalidInput("`anchor` needs a token or a key, got " + ("neither." if key is None else "both."))
        heads = {} if token is None else {row.hash: row.n for row in self.rows()}
        with self._writing(worker) as transaction:
            head = transaction.state.n_events, transaction.hash
            signed = {} if key is None else signature_of_head(head, key, password)
            stamped = {} if token is None else stamp_of_head(token, heads, head)
            transaction.write(Kind.ANCHORED, **signed, **stamped)
            return dict(transaction.state.anchors[-1])

    # ---- what is known

    @property
    def learner(self) -> Learner:
        """The learner of the present era; for reading, by one thread, while no other thread uses this object."""
        return self._log.state().learner

    @property
    def state(self) -> State:
        """The state after all events; for reading, as `learner` is."""
        return self._log.state()

    @property
    def stopped(self) -> bool:
        """Whether the study has a verdict that holds."""
        return self._log.state().stopped

    @property
    def best(self) -> Any:
        """The answer, or the leader before the verdict: a row number or a vector; a list of them with m > 1."""
        return self.status.best

    @property
    def best_name(self) -> Any:
        """The name of `best`, or a list of names."""
        return self.status.best_name

    @property
    def snapshot(self) -> StudySnapshot:
        """Everything that is shown of the study, as one frozen record; two passes over the candidates."""
        with self._log.reading() as state:
            return snapshot_of(state, self.name, self._log.head)

    @property
    def status(self) -> Status:
        """The study at this moment, under the names of `surepick status --format json`."""
        return self.snapshot.status

    def held(self) -> AbstractContextManager[None]:
        """Keep the study as it was last read: everything read inside the block belongs to one event of the log."""
        return self._log.held()

    def keep_summary(self) -> None:
        """Let the storage keep what a list shows of the study, so that listing need not load it."""
        now = self.snapshot
        self.storage.keep_summary(self.name, *now.head, now.summary())

    def remaining(self) -> float:
        """Return an estimate of the pulls still needed; inf or NaN when unknown."""
        with self._log.reading() as state:
            return state.learner.expected_remaining()

    def result(self) -> Result:
        """Return a result as `identify` does: estimates, intervals, `report`, figures."""
        with self._log.reading() as state:
            return state.learner.result()

    def certificate(self) -> Json:
        """Return the certificate: claim, assumptions, and the hash of the log, as JSON writes them.

        `surepick.study.certificate.verify` derives the certificate again from the log, and so does
        `tools/verify_certificate.py`, one file that needs nothing but numpy.
        """
        with self._log.reading() as state:
            return certificate_of(state, self._log.head[1])

    def export(
        self, kind: Literal["csv", "parquet", "json", "xlsx"], path: Any = None, *, what: What | None = None
    ) -> Path:
        """Write the log with its hashes, or the measurements, to a file; return where.

        Args:
            kind: of file.
            path: where to; default: the name of the study and of what it is, in the working directory. Characters
                that could lead elsewhere are replaced.
            what: "log" or "measurements"; default: the measurements for an Excel file, the log for others.
        """
        if f".{kind}" not in SUFFIXES:
            raise InvalidInput(
                f'`kind` must be "csv", "parquet", "json" or "xlsx", got {str(kind)!r}; a path comes after it: '
                'study.export("csv", "log.csv").'
            )
        what = what or ("measurements" if kind == "xlsx" else "log")
        target = Path(f"{file_name(self.name)}-{what}.{kind}" if path is None else path)
        if target.suffix.lower() != f".{kind}":
            raise InvalidInput(f"a file of the kind {kind!r} must end in .{kind}, got {target.name!r}.")
        export(self, target, what)
        return target

    def optimize(  # noqa: PLR0913 (every argument is an option of its own)
        self,
        function: Callable[..., Any],
        *,
        n_jobs: int = 1,
        max_pulls: int | None = None,
        timeout: float | None = None,
        catch: "type[Exception] | Iterable[type[Exception]]" = (),
        callbacks: "Callback | Iterable[Callback] | None" = None,
        on_pull: "Callback | None" = None,
        progress: bool = False,
        lease: Any = OWN_LEASE,
        group: Any = None,
        **unknown: Never,
    ) -> None:
        """Measure by a Python function until the study has stopped; after `audit`, until the check pulls are made.

        Args:
            function: of an arm (row number or vector) to a reward, or to a pair of the reward and where or when it was
                measured, such as (0.7, "day 3"); it may raise `Skipped` if it has none this time. In a pool it is a
                function of an arm and an item.
                Whatever else it raises ends all, and what was measured is kept. So do True and False, which are kept
                as 1 and 0, unless the study has rewards="binary". An async function runs in an event loop of this
                call, `n_jobs` calls at a time; inside a loop of your own use `optimize_async`.
            n_jobs: threads; -1 for one per core. For more than one processor start several processes, which share the
                study.
            max_pulls: most pulls in this call.
            timeout: seconds after which nothing more is asked for. Measurements under way end and count.
            catch: exceptions that give up the ask, as `Skipped` does, and go on: a class, or several. For failures
                that have nothing to do with the value: a value that was seen must be returned.
            callbacks: a function, or several, called after each pull with the study, the ask and the value:
                `study.remaining()` says what is left. One that returns False ends the call, as `timeout` does.
            on_pull: one more such function.
            progress: whether a line on standard error says who leads, by rich if it is installed.
            lease: as for `ask`.
            group: where and when this call measures, as for `ask`: the label of all its asks.
            unknown: no other option: an error names those above.

        Raises:
            InvalidInput: an argument cannot be used.
            SurepickError: 1,000 measurements in a row had no result.
        """
        options = {"callbacks": callbacks, "on_pull": on_pull, "lease": lease, "progress": progress, **unknown}
        options |= {"n_jobs": n_jobs, "max_pulls": max_pulls, "timeout": timeout, "catch": catch, "group": group}
        optimize(self, function, **options)

    async def optimize_async(  # noqa: PLR0913 (every argument is an option of its own)
        self,
        function: Callable[..., Awaitable[Any]],
        *,
        n_jobs: int = 1,
        max_pulls: int | None = None,
        timeout: float | None = None,
        catch: "type[Exception] | Iterable[type[Exception]]" = (),
        callbacks: "Callback | Iterable[Callback] | None" = None,
        on_pull: "Callback | None" = None,
        progress: bool = False,
        lease: Any = OWN_LEASE,
        group: Any = None,
        **unknown: Never,
    ) -> None:
        """Measure by an async function until the study has stopped; the options are those of `optimize`.

        `n_jobs` measurements are under way at a time. The study is read and written in another thread, so the event
        loop never waits for a database. A call that is cancelled gives up its asks, so that others get them. Callbacks
        run in the event loop, and may be async too.
        """
        options = {"callbacks": callbacks, "on_pull": on_pull, "lease": lease, "progress": progress, **unknown}
        options |= {"n_jobs": n_jobs, "max_pulls": max_pulls, "timeout": timeout, "catch": catch, "group": group}
        await optimize_async(self, function, **options)

    @property
    def n_planned(self) -> int:
        """Asks left in the newest block: a batch of that size loses nothing. 0: the next ask plans."""
        return self.learner.n_planned

    @property
    def pending(self) -> list[StudyAsk]:
        """Open asks, the oldest first."""
        with self._log.reading() as state:
            return [requests.shown(state, one) for one in state.open.values()]

    @property
    def measurements(self) -> "Measurements":
        """All measurements, those void included; `study.measurements.to_frame()` is their table."""
        return Measurements(self._log.state())

    @property
    def recipes(self) -> dict[str, dict[str, Any]]:
        """The arms that can be measured as their table describes them, every column, by name; none for other sets."""
        catalog = self._log.state().catalog
        if not catalog.is_enumerable:
            return {}
        present = range(len(catalog.written["rows"])) if catalog.present is None else catalog.present
        return {catalog.label(key): catalog.recipe(key) for key in present}

    @property
    def log(self) -> list[Json]:
        """All events."""
        return [json.loads(row.text) for row in self.rows()]

    def rows(self) -> list[Row]:
        """Return the log as it is kept: texts and hashes."""
        return self.events_after(0)

    def events_after(self, n: int, limit: int | None = None) -> list[Row]:
        """Return the log after event n, as it is kept; at most `limit` events, unless that is None.

        Raises:
            CorruptLog: the log has fewer than n events.
        """
        return self.storage.read(self.name, n, limit)

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last event."""
        with self._log.reading():
            return self._log.head
