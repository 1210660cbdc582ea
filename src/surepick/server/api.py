"""The routes of /api/v1: each reads a request, calls a method of `Study`, and returns its record as JSON."""

import warnings
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

import numpy as np
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from surepick._files import file_name
from surepick.arms.finite import FiniteArms
from surepick.arms.registry import read_arms
from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy
from surepick.server import schemas
from surepick.server.studies import OpenStudies, to_json
from surepick.server.tokens import Identity, Role, Tokens, requires
from surepick.study.admin import create_study
from surepick.study.study import OWN_LEASE, Study
from surepick.study.views import ask_record, measurement_record

LOOK_AGAIN = 10.0
"""Seconds after which a silent stream checks that its token holds."""
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
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


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": "A problem.", "content": content} for status in statuses}


# ---- what the routes share


def studies_of(request: Request) -> OpenStudies:
    """Return the open studies of the server."""
    found: OpenStudies = request.app.state.studies
    return found


Reader = Annotated[Identity, Depends(requires(Role.READ))]
Teller = Annotated[Identity, Depends(requires(Role.TELL))]
Admin = Annotated[Identity, Depends(requires(Role.ADMIN))]
Studies = Annotated[OpenStudies, Depends(studies_of)]
Limit = Annotated[int, Query(ge=1, le=schemas.MOST_ROWS)]
After = Annotated[int, Query(ge=0, lt=2**53)]
Number = Annotated[int, schemas.Field(ge=1, lt=2**53)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]

router = APIRouter(prefix="/api/v1", responses=_problems(400, 401, 403, 413, 415, 422, 429, 503))
STUDY = "/studies/{name:quoted}"


def answer(value: Any, *, status: int = 200, **headers: str) -> Response:
    """Return a record as JSON."""
    return Response(to_json(value), status, headers, "application/json")


def _download(content: bytes, name: str, media_type: str) -> Response:
    """Return a file for the browser to keep, not to show."""
    said = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return Response(content, headers={"Content-Disposition": said}, media_type=media_type)


def _route(method: str, path: str, model: Any = None, *, status: int = 200, **more: Any) -> Callable[[Any], Any]:
    """Register a route that returns a `Response` of its own; `model` documents it."""
    of_study = _problems(404) if "{name" in path else {}
    content = {"model": model} if model is not None else more.pop("content", {})
    responses = {**of_study, status: {"description": "Done.", **content}, **more.pop("responses", {})}
    return router.api_route(
        path, methods=[method], status_code=status, response_model=None, responses=responses, **more
    )


# ---- studies


@_route("POST", "/studies", schemas.StudyRecord, status=201, responses=_problems(409))
async def create(body: schemas.NewStudy, who: Admin, studies: Studies) -> Response:
    """Create a study."""
    if who.study is not None and who.study != body.name:
        raise HTTPException(403, f"this token is for the study {who.study!r} alone.")
    if body.name in (".", ".."):
        raise InvalidInput(f"{body.name!r} has a meaning of its own in the address of a page; choose another name.")
    await run_in_threadpool(_create, studies, body, who)
    record = (await studies.record(body.name))[1]
    return Response(record, 201, {"Location": f"studies/{quote(body.name, safe='')}"}, "application/json")


def _create(studies: OpenStudies, body: schemas.NewStudy, who: Identity) -> None:
    reserved = {"name", "arms", "candidates", "storage", "lease", "author", "load_if_exists"} & body.options.keys()
    if reserved:
        raise InvalidInput(f"`options` are those of the task, got {sorted(reserved)[0]!r}; leave it out there.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        create_study(
            body.name,
            arms=arms_of(body.arms),
            candidates=None if body.candidates is None else arms_of(body.candidates),
            storage=studies.storage,
            lease=body.lease,
            author=body.worker or who.author,
            load_if_exists=body.load_if_exists,
            **body.options,  # type: ignore[arg-type]
        )


def arms_of(body: schemas.Table | schemas.VectorArms) -> Any:
    """Return the arms of a body."""
    if isinstance(body, schemas.VectorArms):
        try:
            return read_arms(body.model_dump(exclude_none=True))
        except CorruptLog as error:
            raise InvalidInput(f"arms of the kind {body.kind!r} need their parameters: {error}") from None
    if len({len(row) for row in body.rows}) > 1:
        raise InvalidInput("the rows of `arms` must all have the same number of features.")
    arms = FiniteArms(np.array(body.rows), names=body.names)
    if body.features is not None:
        if len(body.features) != arms.dim:
            raise InvalidInput(f"`features` must name {arms.dim} features, got {len(body.features)} names.")
        arms.feature_names = tuple(body.features)
    if body.table is not None:
        if any(len(column.cells) != arms.n_arms for column in body.table.columns):
            raise InvalidInput(f"every column of `table` must have {arms.n_arms} cells, one for each arm.")
        arms.table = body.table.model_dump()  # type: ignore[attr-defined]
    return arms


@_route("GET", "/studies", schemas.StudyPage)
async def list_studies(
    who: Reader, studies: Studies, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
) -> Response:
    """List the studies, sorted by name, after the name `after`."""
    records = await run_in_threadpool(studies.list)
    found = [one for one in records if who.sees(one["name"]) and one["name"] > after]
    shown = found[:limit]
    return answer({"studies": shown, "next": shown[-1]["name"] if len(found) > limit else None})


@_route("GET", STUDY, schemas.StudyRecord, responses={304: {"description": "Nothing has changed."}})
async def show(
    name: str,
    who: Reader,
    studies: Studies,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a study at this moment. The ETag is the hash of its last event."""
    head, record = await studies.record(name)
    etag = f'"{head}"'
    if if_none_match is not None and etag in if_none_match:
        return Response(status_code=304, headers={"ETag": etag})
    return Response(record, headers={"ETag": etag}, media_type="application/json")


@_route("DELETE", STUDY, status=204)
async def delete(name: str, who: Admin, studies: Studies) -> Response:
    """Delete a study with all its measurements, for good."""
    await run_in_threadpool(studies.storage.delete, name)
    studies.forget(name)
    return Response(status_code=204)


# ---- asks and results


def _worker(body: Any, who: Identity) -> str:
    return str(body.worker or who.author)


@_route("POST", f"{STUDY}/asks", schemas.Asks)
async def ask(name: str, body: schemas.AskFor, who: Teller, studies: Studies) -> Response:
    """Ask what to measure next. A worker that asks again gets its open asks back first."""
    lease = OWN_LEASE if body.lease == schemas.OWN_LEASE else body.lease
    # Callers without any name are not one worker.
    worker = body.worker or who.label or None

    def asked(study: Study) -> Any:
        return [ask_record(one) for one in study.ask(body.n, worker=worker, lease=lease)]

    return answer({"asks": await studies.write(name, asked)})


@_route("GET", f"{STUDY}/asks", schemas.Asks)
async def pending(name: str, who: Reader, studies: Studies) -> Response:
    """List the open asks, the oldest first."""
    return answer({"asks": await studies.read(name, lambda study: [ask_record(one) for one in study.pending])})


def _told(study: Study, tell: Callable[..., Any]) -> Any:
    told = tell()
    records = [measurement_record(study.state, one) for one in told]
    return {"measurements": records, "remarks": list(getattr(told, "remarks", ()))}


@_route("POST", f"{STUDY}/asks/{{ask_id}}/result", schemas.Told, responses=_problems(409))
async def tell(
    name: str, ask_id: Number, body: schemas.ResultOfAsk, who: Teller, studies: Studies, key: Key = None
) -> Response:
    """Tell the result of an ask. Told again with the same value, nothing changes."""
    if (body.value is None) is (body.values is None):
        raise InvalidInput("a result needs `value` or `values`, got " + ("neither." if body.value is None else "both."))
    value: Any = body.value if body.values is None else body.values

    def told(study: Study) -> Any:
        return _told(study, partial(study.tell, ask_id, value, worker=_worker(body, who), key=key, warn=False))

    return answer(await studies.write(name, told))


@_route("POST", f"{STUDY}/asks/{{ask_id}}/fail", status=204, responses=_problems(409))
async def fail(name: str, ask_id: Number, body: schemas.Failure, who: Teller, studies: Studies) -> Response:
    """Give up an ask: another worker gets it."""
    await studies.write(name, lambda study: study.fail(ask_id, reason=body.reason, worker=_worker(body, who)))
    return Response(status_code=204)


@_route("POST", f"{STUDY}/measurements", schemas.Told, responses=_problems(409))
async def tell_results(name: str, body: schemas.Results, who: Teller, studies: Studies, key: Key = None) -> Response:
    """Tell results by their arms: one, or a list of earlier results."""
    pairs = [(one.arm, one.value) for one in body.results]
    is_one = len(pairs) == 1 and not body.earlier
    if not is_one and body.earlier is False:
        raise InvalidInput("a list of results is one of earlier results; tell others one by one.")

    def told(study: Study) -> Any:
        named: Any = {"worker": _worker(body, who), "key": key}
        if is_one:
            return _told(study, partial(study.tell, arm=pairs[0][0], value=pairs[0][1], **named, warn=False))
        return _told(study, partial(study.tell_earlier, pairs, **named))

    return answer(await studies.write(name, told))


@_route("GET", f"{STUDY}/measurements", schemas.MeasurementPage)
async def measurements(name: str, who: Reader, studies: Studies, after: After = 0, limit: Limit = 1_000) -> Response:
    """List the measurements after number `after`."""

    def listed(study: Study) -> Any:
        state = study.state
        records = [measurement_record(state, one) for one in state.measurements[after : after + limit]]
        is_more = len(state.measurements) > after + limit
        return {"measurements": records, "next": after + limit if is_more else None}

    return answer(await studies.read(name, listed))


# ---- corrections, and what follows a verdict


async def _change(studies: OpenStudies, name: str, call: Callable[[Study], Any]) -> Response:
    await studies.write(name, call, grouped=False)
    return Response((await studies.record(name))[1], media_type="application/json")


@_route("POST", f"{STUDY}/measurements/{{measurement}}/void", schemas.StudyRecord)
async def void(name: str, measurement: Number, body: schemas.Reason, who: Teller, studies: Studies) -> Response:
    """Take a measurement back, for any reason but its value."""
    worker = _worker(body, who)
    return await _change(studies, name, lambda study: study.void(measurement, reason=body.reason, worker=worker))


@_route("POST", f"{STUDY}/measurements/{{measurement}}/restore", schemas.StudyRecord)
async def restore(name: str, measurement: Number, body: schemas.Reason, who: Teller, studies: Studies) -> Response:
    """Let a void measurement count again."""
    worker = _worker(body, who)
    return await _change(studies, name, lambda study: study.restore(measurement, reason=body.reason, worker=worker))


@_route("POST", f"{STUDY}/measurements/{{measurement}}/correct", schemas.StudyRecord)
async def correct(name: str, measurement: Number, body: schemas.Correction, who: Teller, studies: Studies) -> Response:
    """Replace the value of a measurement that was told wrong."""
    said = {"reason": body.reason, "worker": _worker(body, who)}
    return await _change(studies, name, lambda study: study.correct(measurement, body.value, **said))


@_route("POST", f"{STUDY}/audit", schemas.Planned)
async def audit(name: str, body: schemas.AuditFor, who: Admin, studies: Studies) -> Response:
    """Plan check pulls of the model after the verdict; the next asks are theirs."""
    n = await studies.write(name, lambda study: study.audit(body.n, worker=_worker(body, who)), grouped=False)
    return answer({"n": n})


@_route("POST", f"{STUDY}/reopen", schemas.StudyRecord)
async def reopen(name: str, body: schemas.Reopening, who: Admin, studies: Studies) -> Response:
    """Go on after a verdict, or with other arms or options."""
    given: Any = {"reason": body.reason, "join": body.join, "retire": body.retire, "keep_evidence": body.keep_evidence}
    if twice := {*given, "worker"} & body.changes.keys():
        raise InvalidInput(f"`changes` are options of the task, got {sorted(twice)[0]!r}; leave it out there.")
    given |= {"worker": _worker(body, who), **body.changes}
    return await _change(studies, name, lambda study: study.reopen(**given))


# ---- log, files, stream


@_route("GET", f"{STUDY}/log", schemas.LogPage)
async def log(name: str, who: Reader, studies: Studies, after: After = 0, limit: Limit = schemas.MOST_ROWS) -> Response:
    """Return events of the log after number `after`, as texts with their hashes."""
    rows = await run_in_threadpool(_rows, studies, name, after)
    shown = [{"n": row.n, "text": row.text, "hash": row.hash} for row in rows[:limit]]
    return answer({"rows": shown, "next": shown[-1]["n"] if len(rows) > limit else None})


def _rows(studies: OpenStudies, name: str, after: int) -> Any:
    n = studies.storage.n_events(name)
    if after > n:
        raise InvalidInput(f"`after` must be at most {n}, the number of events of study {name!r}, got {after}.")
    return studies.storage.read(name, after)


def _binary(*types: str) -> dict[str, Any]:
    return {"content": {one: {"schema": {"type": "string", "format": "binary"}} for one in types}}


@_route("GET", f"{STUDY}/export", content=_binary(*TYPES.values()))
async def export(
    name: str,
    who: Reader,
    studies: Studies,
    kind: Annotated[Literal["csv", "json", "xlsx", "parquet"], Query(alias="format")] = "csv",
    what: Literal["log", "measurements"] | None = None,
) -> Response:
    """Return the log with its hashes, or the measurements, as a file."""

    def exported(study: Study) -> tuple[str, bytes]:
        with TemporaryDirectory() as folder:
            chosen = what or ("measurements" if kind == "xlsx" else "log")
            path = study.export(kind, Path(folder) / f"{file_name(name)}-{chosen}.{kind}", what=chosen)
            return path.name, path.read_bytes()

    file, content = await studies.read(name, exported)
    return _download(content, file, TYPES[kind])


@_route("GET", f"{STUDY}/report", content=_binary("text/html; charset=utf-8"))
async def report(name: str, who: Reader, studies: Studies) -> Response:
    """Return a page about the study as one file, which any browser shows and prints."""
    content = await studies.read(name, _report)
    return _download(content, f"{file_name(name)}.html", "text/html; charset=utf-8")


def _report(study: Study) -> bytes:
    head = "event {}, hash {}".format(*study.head)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        steps = [
            (
                "With the certificate and the log of the study, as CSV, anyone can work everything out again:",
                "surepick verify certificate.json --log log.csv",
            ),
            ("This page is of the log that ends with:", head),
        ]
        study.result().report(path, title=study.name, recipes=study.recipes, steps=steps)
        return path.read_bytes()


@_route("GET", f"{STUDY}/certificate", content=_binary("application/json"))
async def certificate(name: str, who: Reader, studies: Studies) -> Response:
    """Return the certificate, which anyone can check against the log."""
    made = await studies.read(name, Study.certificate)
    return _download(to_json(made), f"{file_name(name)}-certificate.json", "application/json")


async def _first_event(
    name: str,
    who: Reader,
    studies: Studies,
    after: After | None = None,
    last_event_id: Annotated[int | None, Header(ge=0, lt=2**53)] = None,
) -> int:
    """Return the number of the event that a stream begins after; errors come before the stream begins."""
    n = await run_in_threadpool(studies.storage.n_events, name)
    begin = last_event_id if last_event_id is not None else after
    return n if begin is None else min(begin, n)


@router.get(f"{STUDY}/events", response_class=EventSourceResponse, responses=_problems(404))
async def events(
    request: Request, name: str, who: Reader, studies: Studies, last: Annotated[int, Depends(_first_event)]
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of the log as server-sent events: those after `Last-Event-ID`, or `after`, then new ones."""
    tokens: Tokens = request.app.state.tokens
    while not studies.is_closing and await tokens.holds(who):
        try:
            if await studies.changed(name, last, LOOK_AGAIN) <= last:
                continue
            rows = await run_in_threadpool(studies.storage.read, name, last)
        except (NoSuchStudy, CorruptLog):  # deleted meanwhile
            return
        for row in rows:
            yield ServerSentEvent(raw_data=row.text, id=str(row.n))
        last = rows[-1].n if rows else last
