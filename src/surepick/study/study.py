"""A study: an experiment that outlives processes, machines and mistakes, for any number of workers.

Everything that happens is an event in the log (`events`), and the state of a study is what its events add up to
(`state`). A method proposes events and applies them in one transaction (`log`). They are on the disk when it returns.
"""

import base64
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, final

import numpy as np

from surepick._files import file_name
from surepick._version import __version__
from surepick.core.checks import check_count, check_number, check_vector
from surepick.errors import Conflict, InvalidInput, SurepickError, what_was_meant
from surepick.learning import explain
from surepick.learning.learner import Learner
from surepick.learning.result import Result
from surepick.study import clock
from surepick.study.catalog import Key, plain_key
from surepick.study.certificate import certificate_of
from surepick.study.eras import earlier_of, next_era
from surepick.study.events import Kind, Row
from surepick.study.exchange import What, export
from surepick.study.log import LogTransaction, StudyLog
from surepick.study.optimize import optimize
from surepick.study.signatures import head_text, read_stamp, signature_of
from surepick.study.state import AskRecord, Measurement, Standing, State
from surepick.study.storage import Storage
from surepick.study.views import Status, StudySnapshot, reason_for, snapshot_of

OWN_LEASE = "own"
"""The lease that the study was created with."""
MOST_ASKS = 100_000
"""In one call; each block among them is planned from older data."""
Json = dict[str, Any]
_Result = tuple[int | None, Key, Any]
"""The ask that is answered, if any, the arm, and the value."""


@final
@dataclass(frozen=True, slots=True)
class StudyAsk:
    """A measurement that a worker is asked for."""

    id: int
    """By which the result is told."""
    arm: Key
    """Row number, or the entries of a vector."""
    name: str
    features: tuple[float, ...]
    until: str | None
    """When it is given to another worker, in UTC; a result is welcome after that too."""
    reason: str
    """Why this arm, in words."""


@final
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
        self._log.state()

    def __repr__(self) -> str:
        return f"Study({self.name!r} in {self.storage.address})"

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
        with self._log.writing(_text("author", self.author) if worker is None else _text("worker", worker)) as pen:
            was_stopped = pen.state.stopped
            yield pen
        if was_stopped or pen.state.stopped:
            with suppress(SurepickError):  # a summary is a cache, and the events are on the disk
                self.keep_summary()

    # ---- asks

    def ask(self, n: int = 1, *, worker: str | None = None, lease: Any = OWN_LEASE) -> list[StudyAsk]:
        """Return what to measure next: n asks, or fewer if a budget ends, or none once the study has stopped.

        Args:
            n: how many.
            worker: who will measure. A worker that asks again gets its open asks back first; without a name every call
                makes new ones.
            lease: how long the asks are kept for the worker: "30m", "2h", "3d", seconds, None for ever; default: as the
                study was created. Then another worker gets them. A result that comes later counts all the same.
        """
        n = check_count("n", n, least=1)
        if n > MOST_ASKS:
            raise InvalidInput(f"`n` must be at most {MOST_ASKS:,}, got {n:,}; ask for further ones when needed.")
        with self._log.reading() as state:
            if state.learner.state.needs_plan:
                state.learner.state.plans.catch_up()  # before others have to wait for it
        with self._writing(worker) as transaction:
            state = transaction.state
            length = clock.lease_length(state.lease if lease == OWN_LEASE else lease)
            if due := [one.id for one in state.open.values() if self._is_due(one, transaction.at)]:
                transaction.write(Kind.EXPIRED, asks=due)
            self._log.leases.keep(state.open)
            until = None if length is None else clock.written(transaction.now + length)
            asked = [one for one in state.open.values() if worker is not None and one.by == worker][:n]
            while len(asked) < n and state.can_ask:
                if (plan := state.propose_plan()) is not None:
                    transaction.write(Kind.PLANNED, **plan)
                    transaction.write_verdict()  # earlier results may be enough
                    continue
                fields = state.propose_asks(n - len(asked))
                if not fields["asks"]:
                    break
                transaction.write(Kind.ASKED, **fields, until=until)
                asked += [state.attempts[id_] for id_ in range(fields["ask"], len(state.attempts) + 1)]
            return [self._shown(state, one) for one in asked]

    def _is_due(self, one: AskRecord, at: str) -> bool:
        """Whether the lease of an open ask has run out: by the clock, and by what this process has seen."""
        if one.until is None or one.until > at:
            return False
        return self._log.leases.may_be_over(one.id, one.at, one.until)

    def _shown(self, state: State, one: AskRecord) -> StudyAsk:
        return StudyAsk(
            one.id,
            one.arm,
            state.roster.label(one.arm),
            state.roster.features(one.arm),
            one.until,
            reason_for(state, one),
        )

    def fail(self, ask: "int | StudyAsk", *, reason: str = "", worker: str | None = None) -> None:
        """Give up an ask: another worker gets it. For any reason but the value: a value that was seen must be told."""
        with self._writing(worker) as transaction:
            one = self._attempt(transaction.state, ask)
            if one.standing is Standing.TOLD:
                raise Conflict(f"ask {one.id} has a result; `void` that if it does not count.")
            if one.standing is Standing.OPEN:
                transaction.write(Kind.FAILED, ask=one.id, reason=_text("reason", reason))

    @staticmethod
    def _attempt(state: State, ask: "int | StudyAsk") -> AskRecord:
        id_ = ask.id if isinstance(ask, StudyAsk) else ask
        one = state.attempts.get(id_) if type(id_) is int else None
        if one is None:
            shown = ", ".join(map(str, list(state.open)[:8])) or "none"
            raise InvalidInput(f"there is no ask {id_!r}; open are {shown}.")
        if isinstance(ask, StudyAsk) and ask.arm != one.arm:
            raise Conflict(
                f"ask {one.id} is of arm {state.roster.label(one.arm)} in this study, got one of {ask.name}."
            )
        return one

    # ---- results

    def tell(
        self,
        ask: "int | StudyAsk | None" = None,
        value: "float | Iterable[float] | None" = None,
        *,
        arm: Any = None,
        worker: str | None = None,
        key: str | None = None,
    ) -> list[Measurement]:
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

        Returns:
            The measurements, with the ids by which `void` and `correct` name them.
        """
        if (ask is None) is (arm is None):
            raise InvalidInput("`tell` needs an ask or an arm, got " + ("neither." if ask is None else "both."))
        is_one = not isinstance(value, Iterable) or isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0
        given: list[Any] = [value] if is_one else list(value)  # type: ignore[arg-type]  # is iterable
        if value is None or not given:
            raise InvalidInput("`value` must be a number, or a list of at least one; an ask without one can `fail`.")
        if key is not None:
            _text("key", key)
        with self._writing(worker) as transaction:
            state = transaction.state
            values = [_number(state, each) for each in given]
            one = None if ask is None else self._attempt(state, ask)
            told = self._key(state, arm) if one is None else one.arm
            if key is not None and key in state.by_key:
                before = state.by_key[key]
                of = state.measurement(before[0])
                if of.arm != told or (one is not None and of.ask != one.id):
                    raise Conflict(f"key {key!r} names a result of {_of(state, of)} already; choose another key.")
                return _told_already(state, before, values, f"key {key!r}")
            if one is None:
                # Not the ask of another, who will have a result of it too.
                own = (each for each in state.open.values() if each.arm == told and each.by == transaction.by)
                one = next(own, None)
            elif one.results:
                return _told_already(state, one.results, values, f"ask {one.id}")
            return self._write_results(
                transaction, [(None if one is None else one.id, told, each) for each in values], key
            )

    def tell_earlier(
        self, pairs: Iterable[tuple[Any, float]], *, worker: str | None = None, key: str | None = None
    ) -> list[Measurement]:
        """Take in unsolicited results, all or none: (arm, value) in the order in which they were measured.

        They guide plans and bets, and are no evidence. Told before the first ask of a study that was created with
        earlier="evidence" they count (docs/study.md).

        Args:
            pairs: (arm, value). The same list told once more is a `Conflict`, since it would count twice.
            worker: who measured.
            key: as for `tell`. With a key of their own, the same values are further measurements.
        """
        pairs = list(pairs)  # before others have to wait for it
        with self._writing(worker) as transaction:
            state = transaction.state
            results: list[_Result] = [(None, self._key(state, arm), value) for arm, value in pairs]
            if key is not None and _text("key", key) in state.by_key:
                before = state.by_key[key]
                if [state.measurement(id_).arm for id_ in before] != [arm for _, arm, _ in results]:
                    raise Conflict(f"key {key!r} names results of other arms already; choose another key.")
                return _told_already(state, before, [_number(state, value) for _, _, value in results], f"key {key!r}")
            if results and earlier_of(state.options) == "guidance":
                state.learner.state.refuse_guidance()
            values = [(arm, _number(state, value)) for _, arm, value in results]
            if key is None and (told := state.told_together(values)):
                raise Conflict(
                    f"these {explain.counted(len(told), 'result')} were told before, as measurement {told[0].id} and "
                    "following, and would count twice; if they are further measurements, tell them with a key."
                )
            return self._write_results(transaction, results, key)

    @staticmethod
    def _write_results(transaction: LogTransaction, results: "list[_Result]", key: str | None) -> list[Measurement]:
        state, first = transaction.state, len(transaction.state.measurements)
        named = {} if key is None else {"key": key}
        for ask, arm, value in results:
            fields = {"ask": ask, "arm": plain_key(arm), "value": _number(state, value), **named}
            transaction.write(Kind.TOLD, measurement=len(state.measurements) + 1, **fields)
            transaction.write_verdict()
        return state.measurements[first:]

    def arm(self, name: Any) -> Key:
        """Return an arm by its name, its row number, or its vector; for a typo the error has the nearest name."""
        return self._key(self._log.state(), name)

    @staticmethod
    def _key(state: State, arm: Any) -> Key:
        if isinstance(arm, str):
            named = state.roster.rows_by_name
            if arm in named:
                return named[arm]
            if named:
                raise InvalidInput(f"there is no arm {arm!r}; {what_was_meant(arm, named, 'arms')}")
            arm = _unnamed(arm)
        if isinstance(arm, np.ndarray | list | tuple):
            white = state.learner.measured_arms
            if white.is_enumerable:
                raise InvalidInput(
                    f"`arm` must be a name or a row number where arms are a list, got {reprlib.repr(arm)}."
                )
            return white.key_of(white.number_of(tuple(check_vector("arm", arm, white.dim).tolist())))
        key = check_count("arm", arm, least=0)
        state.roster.check_row(key)
        return key

    # ---- corrections

    def void(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Take a measurement back: all is worked out again without it, and a verdict that no longer holds is withdrawn.

        Valid if which measurements are void or corrected has nothing to do with the noise of their own block or of
        later ones: never because of the value. The certificate lists them with their reasons.
        """
        self._change(Kind.VOIDED, measurement, reason, worker)

    def correct(self, measurement: int, value: float, *, reason: str, worker: str | None = None) -> None:
        """Replace the value of a measurement that was told wrong, as `void` does and on the same condition."""
        self._change(Kind.CORRECTED, measurement, reason, worker, value)

    def restore(self, measurement: int, *, reason: str, worker: str | None = None) -> None:
        """Let a measurement that is void count again, with the value it had."""
        self._change(Kind.RESTORED, measurement, reason, worker)

    def _change(
        self, kind: Kind, measurement: int, reason: str, worker: str | None, value: float | None = None
    ) -> None:
        if not _text("reason", reason).strip():
            raise InvalidInput("`reason` must say why in a few words: it stands in the certificate.")
        n = check_count("measurement", measurement, least=1)
        with self._log.reading() as state:  # what takes long is done before others wait for it
            state.prepare_change(kind, n, _changed_value(state, kind, n, value))
        with self._writing(worker) as transaction:
            value = _changed_value(transaction.state, kind, n, value)
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
        worker: str | None = None,
        **changes: Any,
    ) -> None:
        """Go on after a verdict, or with other arms or options: a new era, with a risk of its own.

        What was measured so far guides its plans and bets and is no evidence in it, so that arms and options may be
        chosen after a look at the results. Every earlier verdict stands in the log, about the arms of its time.

        Args:
            reason: why.
            join: arms that are added: {name: features}, or rows as `create_study` takes them where arms have no names.
            retire: arms that leave, by name or row number; others keep their row numbers.
            worker: who does it.
            **changes: of options: delta, budget, epsilon, ...
        """
        if not _text("reason", reason).strip():
            raise InvalidInput("`reason` must say why in a few words.")
        with self._writing(worker) as transaction:
            state = transaction.state
            fields = next_era(state, join, [self._key(state, arm) for arm in retire], changes)
            transaction.write(
                Kind.REOPENED, **state.propose_reopening({"reason": reason, **fields}), version=__version__
            )
            transaction.write_verdict()  # rules that count what was measured before may say the same again at once

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
            n, digest = transaction.state.n_events, transaction.hash
            if token is not None:
                digest = read_stamp(token).hash
                if digest not in heads:
                    raise InvalidInput(
                        f"the time stamp must be of the hash of an event of this log, got one of {digest}; the last "
                        f"event, {n}, has the hash {transaction.hash}."
                    )
                proof: Json = {"token": base64.b64encode(token).decode()}
                n = heads[digest]
            else:
                assert key is not None
                proof = {"signature": signature_of(head_text(n, digest), key, password)}
            transaction.write(Kind.ANCHORED, event=n, hash=digest, **proof)
            return dict(transaction.state.anchors[-1])

    # ---- what is known

    @property
    def learner(self) -> Learner:
        """The learner of the present era; to be looked at, by one thread, while no other thread uses this object."""
        return self._log.state().learner

    @property
    def state(self) -> State:
        """All that the events add up to; to be looked at, as `learner` is."""
        return self._log.state()

    @property
    def stopped(self) -> bool:
        """Whether there is a verdict that holds."""
        return self._log.state().stopped

    @property
    def best(self) -> Any:
        """The answer, or who leads before: a row number or a vector, a list of them if several are sought."""
        return self.status.best

    @property
    def best_name(self) -> Any:
        """What people call it."""
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
        """Return about how many pulls are still needed; inf or NaN while nothing can be said."""
        with self._log.reading() as state:
            return state.learner.expected_remaining()

    def result(self) -> Result:
        """Return all that is known in the form that `identify` gives: estimates, intervals, `report`, figures."""
        with self._log.reading() as state:
            return state.learner.result()

    def certificate(self) -> Json:
        """Return what is claimed, what it rests on, and the hash of the log it follows from; JSON can hold it.

        `surepick.study.certificate.verify` works it out again from the log, and so does
        `tools/verify_certificate.py`, one file that needs nothing but numpy.
        """
        with self._log.reading() as state:
            return certificate_of(state, self._log.head[1])

    def export(self, kind: Literal["csv", "parquet", "json"], path: Any = None, *, what: What = "log") -> Path:
        """Write the log with its hashes, or the measurements, to a file; return where.

        Args:
            kind: of file.
            path: where to; default: the name of the study and of what it is, in the working directory. Characters
                that could lead elsewhere are replaced.
            what: "log" or "measurements".
        """
        target = Path(f"{file_name(self.name)}-{what}.{kind}" if path is None else path)
        if target.suffix.lower() != f".{kind}":
            raise InvalidInput(f"a file of the kind {kind!r} must end in .{kind}, got {target.name!r}.")
        export(self, target, what)
        return target

    def optimize(
        self,
        function: Callable[[Any], float],
        *,
        n_jobs: int = 1,
        max_pulls: int | None = None,
        on_pull: "Callable[[Study, StudyAsk, float], object] | None" = None,
        lease: Any = OWN_LEASE,
    ) -> None:
        """Measure by a Python function until the study has stopped.

        Args:
            function: of an arm (row number or vector) to a reward; it may raise `Skipped` if it has none this time.
                Whatever else it raises ends all, and what was measured is kept.
            n_jobs: threads; for more than one processor start several processes, which share the study.
            max_pulls: most pulls in this call.
            on_pull: called after each with the study, the ask and the value: `study.remaining()` says what is left.
            lease: as for `ask`.
        """
        optimize(self, function, n_jobs=n_jobs, max_pulls=max_pulls, on_pull=on_pull, lease=lease)

    @property
    def n_planned(self) -> int:
        """Asks left in the newest block: a batch of that size loses nothing. 0: the next ask plans."""
        return self.learner.n_planned

    @property
    def pending(self) -> list[StudyAsk]:
        """Open asks, the oldest first."""
        with self._log.reading() as state:
            return [self._shown(state, one) for one in state.open.values()]

    @property
    def measurements(self) -> list[Measurement]:
        """All measurements, those void included."""
        return list(self._log.state().measurements)

    @property
    def log(self) -> list[Json]:
        """All events."""
        return [json.loads(row.text) for row in self.rows()]

    def rows(self) -> list[Row]:
        """Return the log as it is kept: texts and hashes."""
        return self.storage.read(self.name)

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last event."""
        with self._log.reading():
            return self._log.head


def _unnamed(text: str) -> Any:
    """Return the arm that a text means where arms have no names: a row number, or the entries of a vector."""
    try:
        return int(text) if text.strip().isdecimal() else [float(entry) for entry in text.strip("() ").split(",")]
    except ValueError:
        raise InvalidInput(
            f"there is no arm {text!r}; they have no names here, so give its row number, or of a vector the entries "
            "with commas between them, as in 0.6,-0.8."
        ) from None


def _number(state: State, value: Any) -> float:
    return check_number("value", value, needed="one measured number", takes_booleans=state.learner.is_binary)


def _changed_value(state: State, kind: Kind, n: int, value: Any) -> float | None:
    """Return the value that a measurement is corrected to; None if it is voided or restored."""
    if kind is not Kind.CORRECTED:
        return None
    number = _number(state, value)
    if state.measurement(n).value == number:
        raise InvalidInput(f"measurement {n} is {number:.12g} already; there is nothing to correct.")
    return number


def _of(state: State, one: Measurement) -> str:
    return f"arm {state.roster.label(one.arm)}" + ("" if one.ask is None else f" (ask {one.ask})")


def _told_already(state: State, ids: Sequence[int], values: Sequence[float], what: str) -> list[Measurement]:
    """Return what was told before, if it is the same."""
    told = [state.measurement(id_) for id_ in ids]
    before = [one.told for one in told]
    if before != values:
        was, now = (", ".join(f"{value:.12g}" for value in row) for row in (before, values))
        raise Conflict(
            f"{what} has the result {was} already (measurement {ids[0]}), got {now}; if that was a mistake, correct "
            "it by `correct`, giving the reason; if it is a further measurement, tell it by the arm."
        )
    return told


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidInput(f"`{name}` must be a line of text, got {value!r}.")
    return value
