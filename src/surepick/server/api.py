"""The routes of /api/v1: each reads a request, calls a method of `Study`, and returns its record as JSON."""

import re
import warnings
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from surepick._files import file_name
from surepick._texts import to_json
from surepick.arms.registry import arms_of
from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy
from surepick.reporting.result_page import LONGEST_UNIT
from surepick.reporting.study_page import write_study_page
from surepick.reporting.study_words import steps_to_check
from surepick.server import schemas
from surepick.server.studies import OpenStudies, TooBusy
from surepick.server.tokens import Identity, header, requires
from surepick.study.admin import create_study
from surepick.study.study import Study
from surepick.study.tokens import Role
from surepick.study.views import ask_record, measurement_record

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
JSON = "application/json"
LOOK_AGAIN = 1.0
"""Seconds after which a silent stream checks that its token is still valid."""
LONGEST_KEY = 200
AT_A_TIME = 100
"""Events that a stream keeps in memory: a client that does not read costs no more."""
_PAGE_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILE_TYPES = _PAGE_TYPES | {
    "csv": "text/csv; charset=utf-8",
    "json": JSON,
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
}


class _Quoted(Convertor[str]):
    """A part of a path, which may stand for a name with a slash: the path is matched before it is decoded."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value)

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("quoted", _Quoted())
STUDY = "/studies/{name:quoted}"


# ---- what the routes share


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document errors of a route."""
    content = {"application/problem+json": {"schema": schemas.Problem.model_json_schema()}}
    return {status: {"description": "A problem.", "content": content} for status in statuses}


router = APIRouter(prefix="/api/v1", responses=problems(400, 401, 403, 408, 413, 415, 422, 429, 503))


def _route(
    method: str, path: str, model: Any = None, *, status: int = 200, files: Any = (), responses: Any = None
) -> Callable[[F], F]:
    """Register a route that makes its `Response` itself; `model`, or the endings of its files, document the answer."""
    binary, plain = {"type": "string", "format": "binary"}, {"type": "object"}
    content = {FILE_TYPES[one]: {"schema": plain if one == "json" else binary} for one in files}
    of_study = problems(404, 409) if "{name" in path else {}
    done: Any = {"description": "Done."} | ({"model": model} if model else {}) | ({"content": content} if files else {})
    known = {**of_study, status: done, **(responses or {})}
    return router.api_route(path, methods=[method], status_code=status, response_model=None, responses=known)


class StudyAccess(NamedTuple):
    """A study that a request names, and who sends the request."""

    name: str
    who: Identity
    studies: OpenStudies

    async def read(self, call: Callable[[Study], T]) -> T:
        """Return what a function says of the study."""
        return await self.studies.read(self.name, call)

    async def write(self, call: Callable[[Study], T], *, grouped: bool = True, last: bool = False) -> T:
        """Call a function that writes to the study."""
        return await self.studies.write(self.name, call, grouped=grouped, last=last)

    async def record(self) -> Response:
        """Return the study at this moment."""
        head, record = await self.studies.view(self.name, _record)
        return Response(record, headers={"ETag": f'"{head}"'}, media_type=JSON)

    async def file(self, write: Callable[[Study, Path], object], ending: str) -> Response:
        """Return a file for the browser to keep, not to show."""

        def written(study: Study) -> bytes:
            with TemporaryDirectory() as folder:
                write(study, path := Path(folder) / f"file.{ending.rpartition('.')[2]}")
                return path.read_bytes()

        said = f"attachment; filename*=UTF-8''{quote(file_name(self.name) + ending, safe='')}"
        kind = FILE_TYPES[ending.rpartition(".")[2]]
        content = await self.studies.read(self.name, written, is_download=True)
        return Response(content, headers={"Content-Disposition": said}, media_type=kind)


def access(role: Role) -> Any:
    """Return a dependency: the study of the path, if it exists and a role is allowed."""

    async def accessed(
        name: schemas.Line, request: Request, who: Annotated[Identity, Depends(requires(role))]
    ) -> StudyAccess:
        await request.app.state.studies.open(name)
        return StudyAccess(name=name, who=who, studies=request.app.state.studies)

    return Depends(accessed)


ToRead = Annotated[StudyAccess, access(Role.READ)]
ToTell = Annotated[StudyAccess, access(Role.TELL)]
ToChange = Annotated[StudyAccess, access(Role.ADMIN)]
Reader = Annotated[Identity, Depends(requires(Role.READ))]
Admin = Annotated[Identity, Depends(requires(Role.ADMIN))]
Limit = Annotated[int, Query(ge=1, le=schemas.MOST_ROWS)]
After = Annotated[int, Query(ge=0, lt=2**53)]
Number = Annotated[int, schemas.Field(ge=1, lt=2**53)]
Format = Annotated[Literal["csv", "json", "xlsx", "parquet"], Query(alias="format")]
LastEvent = Annotated[int | None, Header(ge=0, lt=2**53)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=LONGEST_KEY)]


def _record(study: Study) -> tuple[str, bytes]:
    """Return the hash of the last event, and the status as JSON."""
    now = study.snapshot
    return now.head[1], to_json({**now.record(), "head": dict(zip(("n", "hash"), now.head, strict=True))})


def answer(value: Any) -> Response:
    """Return a record as JSON."""
    return Response(to_json(value), media_type=JSON)


# ---- studies


@_route("POST", "/studies", schemas.StudyRecord, status=201, responses=problems(409))
async def create(body: schemas.NewStudy, who: Admin, request: Request) -> Response:
    """Create a study."""
    _check_options(body.options, *schemas.NewStudy.model_fields, "storage", "author")
    given = [one and one.model_dump() for one in (body.arms, body.candidates)]
    arms, candidates = await run_in_threadpool(lambda: [one and arms_of(one) for one in given])
    named: Any = body.model_dump(include={"lease", "load_if_exists", "group_by"})
    named["author"] = body.worker or who.author
    await create_new(request, who, body.name, arms=arms, candidates=candidates, **named, **body.options)
    made = await StudyAccess(name=body.name, who=who, studies=request.app.state.studies).record()
    made.status_code, made.headers["Location"] = 201, f"studies/{quote(body.name, safe='')}"
    return made


async def create_new(request: Request, who: Identity, name: str, **task: Any) -> None:
    """Create a study, unless the token does not show one of that name, or no address can have the name."""
    if not who.sees(name):
        raise HTTPException(403, f"this token is for the study {who.study!r} alone.")
    if name in (".", ".."):
        raise InvalidInput(f"{name!r} has a meaning of its own in the address of a page; choose another name.")
    await run_in_threadpool(quiet, create_study, name, storage=request.app.state.studies.storage, **task)


def quiet(call: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call a function without its warnings, which are for a terminal."""
    with warnings.catch_warnings(action="ignore"):
        return call(*given, **options)


def _check_options(options: dict[str, Any], *others: str) -> None:
    if odd := sorted(options.keys() & {*others}):
        raise InvalidInput(f"`{odd[0]}` is no option of a task; leave it out there.")


@_route("GET", "/studies", schemas.StudyPage)
async def list_studies(
    who: Reader, request: Request, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
) -> Response:
    """List the studies, sorted by name, after the name `after`."""
    records = await run_in_threadpool(request.app.state.studies.list)
    found = [one for one in records if who.sees(one["name"]) and one["name"] > after]
    return answer({"studies": found[:limit], "next": found[limit - 1]["name"] if len(found) > limit else None})


@_route("GET", STUDY, schemas.StudyRecord, responses={304: {"description": "Nothing has changed."}})
async def show(study: ToRead, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return a study at this moment. The ETag is the hash of its last event."""
    made = await study.record()
    is_known = if_none_match is not None and made.headers["ETag"] in if_none_match
    return Response(status_code=304, headers={"ETag": made.headers["ETag"]}) if is_known else made


@_route("DELETE", STUDY, status=204)
async def delete(name: str, who: Admin, request: Request) -> Response:
    """Delete a study with all its measurements, for good."""
    await run_in_threadpool(request.app.state.studies.storage.delete, name)
    request.app.state.studies.forget(name)
    return Response(status_code=204)


# ---- asks and results


@_route("POST", f"{STUDY}/asks", schemas.Asks)
async def ask(study: ToTell, body: schemas.AskFor) -> Response:
    """Ask what to measure next. A worker that asks again gets its open asks back first."""
    worker = body.worker or study.who.label or None  # callers without any name are not one worker
    asked = await study.write(lambda one: one.ask(body.n, worker=worker, lease=body.lease, group=body.group), last=True)
    return answer({"asks": list(map(ask_record, asked))})


@_route("GET", f"{STUDY}/asks", schemas.Asks)
async def pending(study: ToRead) -> Response:
    """List the open asks, the oldest first."""
    return answer({"asks": list(map(ask_record, await study.read(lambda one: one.pending)))})


def _told(tell: Callable[[Study], Any], study: Study) -> Any:
    told, state = tell(study), study.state
    return {"measurements": [measurement_record(state, one) for one in told], "remarks": getattr(told, "remarks", ())}


@_route("POST", f"{STUDY}/asks/{{ask_id}}/result", schemas.Told)
async def tell(study: ToTell, ask_id: Number, body: schemas.ResultOfAsk, key: Key = None) -> Response:
    """Tell the result of an ask. Told again with the same value, nothing changes."""
    if (body.value is None) is (body.values is None):
        raise InvalidInput("a result needs `value` or `values`, got " + ("neither." if body.value is None else "both."))
    value: Any = body.value if body.values is None else body.values
    named: Any = {"worker": body.worker or study.who.author, "key": key, "warn": False, "group": body.group}
    return answer(await study.write(partial(_told, lambda one: one.tell(ask_id, value, **named))))


HOT = re.compile("/api/v1/studies/([^/]{1,1000})/asks(?:/([1-9][0-9]{0,14})/result)?")
"""Paths of `ask` and `tell`, with the name of the study and the id of the ask."""
MAY_TELL = requires(Role.TELL)
ROUTES: Any = {getattr(one, "endpoint", None): one for one in router.routes}


async def answer_hot(request: Request, content: bytes, name: str, ask_id: str | None) -> Response | None:
    """Call `ask` or `tell` as FastAPI does; None if the request is malformed, for FastAPI to say in which way."""
    name = unquote(name)
    request.scope.update(path_params={"name": name}, route=ROUTES[ask if ask_id is None else tell])
    study = StudyAccess(name, await MAY_TELL(request), request.app.state.studies)
    try:
        body: Any = (schemas.AskFor if ask_id is None else schemas.ResultOfAsk).model_validate_json(content)
    except ValidationError:
        return None
    if len(key := header(request, b"idempotency-key")) > LONGEST_KEY:
        return None
    return await (ask(study, body) if ask_id is None else tell(study, int(ask_id), body, key or None))


@_route("POST", f"{STUDY}/asks/{{ask_id}}/fail", status=204)
async def fail(study: ToTell, ask_id: Number, body: schemas.Failure) -> Response:
    """Give up an ask: another worker gets it."""
    await study.write(lambda one: one.fail(ask_id, reason=body.reason, worker=body.worker or study.who.author))
    return Response(status_code=204)


@_route("POST", f"{STUDY}/measurements", schemas.Told)
async def tell_results(study: ToTell, body: schemas.Results, key: Key = None) -> Response:
    """Tell results by their arms: one, or a list of earlier results."""
    pairs = [(one.arm, one.value, one.group) for one in body.results]
    named: Any = {"worker": body.worker or study.who.author, "key": key}
    if body.earlier or (body.earlier is None and len(pairs) > 1):
        return answer(await study.write(partial(_told, lambda one: one.tell_earlier(pairs, **named))))
    (arm, _, group), values = pairs[0], [value for _, value, _ in pairs]
    if any((one.arm, one.group) != (arm, group) for one in body.results):
        raise InvalidInput(
            "a list with results of several arms or groups is read as earlier results; tell new results one by one."
        )
    named |= {"arm": arm, "value": values, "group": group, "warn": False}
    return answer(await study.write(partial(_told, lambda one: one.tell(**named))))


@_route("GET", f"{STUDY}/measurements", schemas.MeasurementPage)
async def measurements(study: ToRead, after: After = 0, limit: Limit = 1_000) -> Response:
    """List the measurements after number `after`."""

    def listed(one: Study) -> Any:
        state, end = one.state, after + limit
        records = [measurement_record(state, each) for each in state.measurements[after:end]]
        return {"measurements": records, "next": end if len(state.measurements) > end else None}

    return answer(await study.read(listed))


# ---- corrections, and what follows a verdict


@_route("POST", f"{STUDY}/measurements/{{measurement}}/{{change}}", schemas.StudyRecord)
async def change_measurement(
    study: ToTell, measurement: Number, change: Literal["void", "correct", "restore"], body: schemas.Change
) -> Response:
    """Take a measurement back, correct its value, or let it count again; never because of its value."""
    if (body.value is None) is (change == "correct"):
        raise InvalidInput("`correct` needs the right `value`, and other changes must come without one.")
    value = () if body.value is None else (body.value,)
    named: Any = {"reason": body.reason, "worker": body.worker or study.who.author}
    await study.write(lambda one: getattr(one, change)(measurement, *value, **named), grouped=False)
    return await study.record()


@_route("POST", f"{STUDY}/audit", schemas.Planned)
async def audit(study: ToChange, body: schemas.AuditFor) -> Response:
    """Plan check pulls of the model after the verdict; the next asks are theirs."""
    worker = body.worker or study.who.author
    return answer({"n": await study.write(lambda one: one.audit(body.n, worker=worker), grouped=False)})


@_route("POST", f"{STUDY}/reopen", schemas.StudyRecord)
async def reopen(study: ToChange, body: schemas.Reopening) -> Response:
    """Go on after a verdict, or with other arms or options."""
    given: Any = body.model_dump(exclude={"changes"}) | {"worker": body.worker or study.who.author}
    _check_options(body.changes, *given)
    await study.write(lambda one: one.reopen(**(given | body.changes)), grouped=False)
    return await study.record()


# ---- log, files, stream


@_route("GET", f"{STUDY}/log", schemas.LogPage)
async def log(study: ToRead, after: After = 0, limit: Limit = schemas.MOST_ROWS) -> Response:
    """Return events of the log after number `after`, as texts with their hashes."""
    rows = await study.read(lambda one: one.events_after(after, limit + 1) if after <= one.head[0] else None)
    if rows is None:
        raise InvalidInput(f"`after` must be at most the number of events, got {after}.")
    shown = [{"n": row.n, "text": row.text, "hash": row.hash} for row in rows[:limit]]
    return answer({"rows": shown, "next": shown[-1]["n"] if len(rows) > limit else None})


@_route("GET", f"{STUDY}/export", files=("csv", "json", "xlsx", "parquet"))
async def export(study: ToRead, kind: Format = "csv", what: Literal["log", "measurements"] | None = None) -> Response:
    """Return the log with its hashes, or the measurements, as a file."""
    chosen = what or ("measurements" if kind == "xlsx" else "log")
    return await study.file(lambda one, path: one.export(kind, path, what=chosen), f"-{chosen}.{kind}")


@_route("GET", f"{STUDY}/report", files=("html",))
async def report(study: ToRead, unit: Annotated[str, Query(max_length=LONGEST_UNIT)] = "") -> Response:
    """Return a page about the study as one file, which any browser shows and prints."""

    def write(one: Study, to: Path) -> None:
        write_study_page(one, to, unit=unit, steps=steps_to_check(one.head, file_name(one.name)))

    return await study.file(write, "-report.html")


@_route("GET", f"{STUDY}/certificate", files=("json",))
async def certificate(study: ToRead) -> Response:
    """Return the certificate, which anyone can check against the log."""
    return await study.file(lambda one, path: path.write_bytes(to_json(one.certificate())), "-certificate.json")


@router.get(f"{STUDY}/events", response_class=EventSourceResponse, responses=problems(404))
async def events(
    study: ToRead, request: Request, after: After | None = None, last_event_id: LastEvent = None
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of the log as server-sent events: those after `Last-Event-ID`, or `after`, then new ones."""
    begin = after if last_event_id is None else last_event_id
    n = await study.studies.changed(study.name, -1, 0.0)
    last = n if begin is None else min(begin, n)
    try:
        while not study.studies.is_closing:
            n = await study.studies.changed(study.name, last, LOOK_AGAIN)
            if not await request.app.state.tokens.holds(study.who):
                return
            for row in await study.read(partial(Study.events_after, n=last, limit=AT_A_TIME)) if n > last else ():
                yield ServerSentEvent(raw_data=row.text, id=str(row.n))
                last = row.n
    except TooBusy:
        return  # the client comes again
    except (NoSuchStudy, CorruptLog):  # deleted meanwhile: the client comes again, and hears so
        study.studies.forget(study.name)
