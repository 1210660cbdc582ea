"""The dashboard: pages and forms. Every form works without JavaScript: a POST, then a redirect that says what was done.

The address after the redirect names a measurement or an ask and no more; the sentence about it comes from the log.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse

from surepick._files import file_name
from surepick._texts import counted
from surepick._version import __version__
from surepick.errors import InvalidInput, SurepickError
from surepick.reporting import study_view
from surepick.reporting.study_words import MISTYPED, failed_words, told_words, typed_number
from surepick.server.api import STUDY, StudyAccess, ToRead, ToTell
from surepick.server.studies import OpenStudies
from surepick.server.tokens import Identity, Role, clear_cookie, requires, set_cookie
from surepick.study.state import State
from surepick.study.study import Study

router = APIRouter(include_in_schema=False)
STATIC = {
    "look.css": ("surepick.reporting", "templates", "text/css"),
    "charts.css": ("surepick.reporting", "templates", "text/css"),
    "surepick.css": ("surepick.server", "static", "text/css"),
    "surepick.js": ("surepick.server", "static", "text/javascript"),
    "icon.svg": ("surepick.server", "static", "image/svg+xml"),
}
"""Package, folder and type of every file that pages load."""
N_ROWS = 50
"""Rows of a page of studies or of the log."""
MOST_KEPT = 200
"""Views that are kept in memory."""
LONGEST = 1_000
"""Letters of a field."""
Text = Annotated[str, Query(max_length=LONGEST)]
Number = Annotated[int | None, Query(ge=0, lt=2**53)]


# ---- templates


@cache
def _environment() -> Environment:
    found = Environment(
        loader=ChoiceLoader([PackageLoader("surepick.server"), PackageLoader("surepick.reporting")]),
        undefined=StrictUndefined,
        autoescape=True,  # texts come from users
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["quoted"] = partial(quote, safe="")
    found.filters["file_name"] = file_name
    return found


def page(request: Request, template: str, *, who: Identity | None, status: int = 200, **values: Any) -> Response:
    """Return a page from a template. `base` is the prefix of addresses, `may` says which roles the visitor has."""
    base = request.app.state.settings.root_path
    may = {role.word: who is not None and who.role >= role for role in Role}
    text = _environment().get_template(template).render(base=base, who=who, may=may, version=__version__, **values)
    return HTMLResponse(text, status)


async def error_page(request: Request, status: int, detail: str) -> Response:
    """Return an error as a page; where a token is missing, the form to sign in."""
    if status == 401:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        # By a link of another site, a browser sends no cookie: the page asks for itself once more.
        is_elsewhere = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
        return _sign_in(request, status=status, back=back, is_elsewhere=is_elsewhere)
    return page(request, "problem.html", who=None, status=status, detail=detail)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Return a style sheet, the script or the icon."""
    if name not in STATIC:
        raise HTTPException(404, "there is no such file.")
    package, folder, kind = STATIC[name]
    content = files(package).joinpath(folder, name).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


# ---- signing in


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    """Show the form for a token."""
    return _sign_in(request)


def _sign_in(request: Request, *, status: int = 200, **values: Any) -> Response:
    known = {"back": "", "problem": "", "is_elsewhere": False, **values}
    return page(request, "sign_in.html", who=None, status=status, **known)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Keep a token in a cookie, and go where the visitor wanted to go."""
    fields, base = await _fields(request), request.app.state.settings.root_path
    secret, back = fields.get("token", "").strip(), fields.get("back", "")
    try:
        await request.app.state.tokens.of_secret(secret)
    except HTTPException as error:
        return _sign_in(request, status=401, back=back, problem=error.detail)
    is_own = back.startswith(f"{base}/") and not back.startswith(("//", "/\\"))
    response = RedirectResponse(back if is_own else f"{base}/", 303)
    set_cookie(request, response, secret)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Forget the token."""
    response = RedirectResponse(f"{request.app.state.settings.root_path}/sign-in", 303)
    clear_cookie(request, response)
    return response


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; the last of each name."""
    async with request.form(max_fields=50, max_files=0) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if long := [name for name, value in fields.items() if len(value) > LONGEST]:
        raise InvalidInput(f"the field {long[0][:50]!r} must have at most {LONGEST:,} letters; shorten it.")
    return fields


# ---- reading

_KEPT = WeakKeyDictionary[OpenStudies, OrderedDict[Any, Any]]()


async def _view(studies: OpenStudies, name: str, make: Callable[..., Any], **options: Any) -> Any:
    """Return a view of a study, which is made once for each event."""
    kept = _KEPT.setdefault(studies, OrderedDict())
    key = (name, make, *options.items())

    def made(study: Study) -> Any:
        head = study.head
        if (known := kept.get(key)) is None or known[0] != head:
            known = kept[key] = head, make(study, **options)
            while len(kept) > MOST_KEPT:
                kept.popitem(last=False)
        return known[1]

    return await studies.read(name, made)


@router.get("/")
async def studies_page(
    request: Request, who: Annotated[Identity, Depends(requires(Role.READ))], after: Text = ""
) -> Response:
    """List the studies."""
    studies: OpenStudies = request.app.state.studies
    names = [name for name in await run_in_threadpool(studies.storage.names) if who.sees(name) and name > after]
    shown = sorted(names)[:N_ROWS]
    lines = []
    for name in shown:
        try:
            lines.append(await _view(studies, name, study_view.line_of))
        except SurepickError as error:  # the others can be listed all the same
            lines.append(study_view.unreadable_line(name, error))
    more = shown[-1] if len(names) > len(shown) else ""
    return page(request, "studies.html", who=who, lines=lines, more=more, is_first=not after)


class Visit(NamedTuple):
    """What a visitor wants to see of a study, and what the last form did."""

    worker: str
    arms: str = ""
    did: str = ""
    id: int | None = None
    problem: str = ""
    typed: Mapping[str, str] = MappingProxyType({})
    """The fields of a form that was refused."""

    @property
    def query(self) -> str:
        """The same view again, for links and forms."""
        return urlencode({name: value for name, value in (("worker", self.worker), ("arms", self.arms)) if value})


@router.get(STUDY)
async def study_page(
    request: Request,
    study: ToRead,
    worker: Text = "",
    arms: Text = "",
    did: Text = "",
    id: Number = None,  # noqa: A002 (as in the address)
) -> Response:
    """Show a study."""
    return await _show(request, study, Visit(_named(worker, study.who), arms, did, id))


@router.get(f"{STUDY}/live")
async def live(request: Request, study: ToRead, worker: Text = "", arms: Text = "") -> Response:
    """Return the part of the page of a study that changes."""
    return await _show(request, study, Visit(_named(worker, study.who), arms), template="live.html")


def _named(worker: str, who: Identity) -> str:
    return worker.strip() or who.label or "dashboard"


async def _show(
    request: Request, study: StudyAccess, visit: Visit, *, template: str = "study.html", status: int = 200
) -> Response:
    n_arms = study_view.MOST_SHOWN if visit.arms == "all" else study_view.N_SHOWN
    view = await _view(study.studies, study.name, study_view.view_of, n_arms=n_arms)
    message, question = "", None
    if visit.did in ACTIONS and visit.id is not None:
        message, question = await study.read(partial(_said, visit.did, visit.id))
    said = {"message": message, "question": question, "mistyped": MISTYPED}
    # By its key a value that is sent twice counts once.
    values = {"view": view, "visit": visit, **said, "key": secrets.token_hex(8)}
    return page(request, template, who=study.who, status=status, **values)


def _said(did: str, id_: int, study: Study) -> tuple[str, Any]:
    """Return what a form did in a sentence, and the question that a value raises."""
    try:
        return ACTIONS[did].said(study.state, id_), study.question(id_) if did == "tell" else None
    except (InvalidInput, KeyError, IndexError):  # an address that was typed
        return "", None


@router.get(f"{STUDY}/log")
async def log_page(
    request: Request, study: ToRead, worker: Text = "", before: Number = None, events: Number = None
) -> Response:
    """Show measurements and events, the newest first: those before a measurement, those before an event."""

    def read(found: Study) -> dict[str, Any]:
        state = found.state
        last, end = (
            n if given is None else min(max(given - 1, 0), n)
            for given, n in ((before, len(state.measurements)), (events, state.n_events))
        )
        rows = found.storage.read(found.name, max(end - N_ROWS, 0))[: min(end, N_ROWS)]
        return {
            "entries": study_view.entries_of(state, last, N_ROWS),
            "events": study_view.event_lines(state, rows)[::-1],
            "n_measurements": len(state.measurements),
            "n_events": state.n_events,
        }

    known = await study.read(read)
    visit = Visit(_named(worker, study.who))
    return page(request, "log.html", who=study.who, name=study.name, visit=visit, **known)


# ---- forms


class Form(NamedTuple):
    """The fields of a form, as a person filled them in."""

    fields: Mapping[str, str]
    worker: str

    def number(self, name: str) -> int:
        """Return a whole number."""
        text = self.fields.get(name, "").strip()
        if not text.isdecimal() or len(text) > 15:
            raise InvalidInput(f"{name} must be a whole number, got {text!r}.")
        return int(text)

    @property
    def values(self) -> list[float]:
        """The values of a measurement, between them spaces."""
        return [typed_number(text) for text in self.fields.get("value", "").replace(";", " ").split()]

    @property
    def change(self) -> dict[str, str]:
        """Reason and worker of a change."""
        return {"reason": self.fields.get("reason", "").strip(), "worker": self.worker}


class Action(NamedTuple):
    """What a form does."""

    role: Role
    run: Callable[[Study, Form], Any]
    """Returns the number that `said` names."""
    said: Callable[[State, int], str]
    """Says in a sentence what was done."""
    grouped: bool = True
    """Whether the events share a commit with those of others."""


def _ask(study: Study, form: Form) -> int:
    return len(study.ask(form.number("n"), worker=form.worker))


def _tell(study: Study, form: Form) -> int:
    arm, key = form.fields.get("arm", "").strip() or None, form.fields.get("key") or None
    ask = form.number("ask") if arm is None else None
    return study.tell(ask, form.values, arm=arm, worker=form.worker, key=key, warn=False)[0].id


def _fail(study: Study, form: Form) -> int:
    study.fail(form.number("ask"), **form.change)
    return form.number("ask")


def _void(study: Study, form: Form) -> int:
    study.void(form.number("measurement"), **form.change)
    return form.number("measurement")


def _restore(study: Study, form: Form) -> int:
    study.restore(form.number("measurement"), **form.change)
    return form.number("measurement")


def _correct(study: Study, form: Form) -> int:
    if len(form.values) != 1:
        raise InvalidInput("a correction needs the right value; write it as 0.53 or 0,53.")
    study.correct(form.number("measurement"), form.values[0], **form.change)
    return form.number("measurement")


def _reopen(study: Study, form: Form) -> int:
    budget = typed_number(form.fields.get("budget", ""))
    study.reopen(reason=form.change["reason"], worker=form.worker, budget=budget)
    return study.state.era


def _entry_said(state: State, id_: int) -> str:
    (entry,) = study_view.entries_of(state, id_, 1)
    counts = "does not count" if entry.is_void else f"counts as {entry.value}"
    return f"Measurement {id_} ({entry.name}) {counts}; all is worked out again."


ACTIONS = {
    "ask": Action(
        Role.TELL, _ask, lambda _, n: f"{counted(n, 'ask')} for you." if n else "There is nothing to ask for."
    ),
    "tell": Action(Role.TELL, _tell, lambda state, id_: next(told_words(state, [state.measurement(id_)], 0))),
    "fail": Action(Role.TELL, _fail, lambda state, id_: failed_words(state, id_, was_open=True)),
    "void": Action(Role.TELL, _void, _entry_said, grouped=False),
    "correct": Action(Role.TELL, _correct, _entry_said, grouped=False),
    "restore": Action(Role.TELL, _restore, _entry_said, grouped=False),
    "audit": Action(
        Role.ADMIN,
        lambda study, form: study.audit(worker=form.worker),
        lambda _, n: f"{counted(n, 'check pull')} planned; the next asks are theirs.",
        grouped=False,
    ),
    "reopen": Action(Role.ADMIN, _reopen, lambda _, era: f"Era {era} has begun.", grouped=False),
}


@router.post(STUDY)
async def act(request: Request, study: ToTell) -> Response:
    """Do what a form asks for, and show the page again."""
    fields, who = await _fields(request), study.who
    visit = Visit(_named(fields.get("worker", ""), who), fields.get("arms", ""), typed=fields)
    action = ACTIONS.get(fields.get("action", ""))
    if action is None:
        raise InvalidInput("the form says no action; open the page again.")
    if who.role < action.role:
        raise HTTPException(403, f"this needs a token of the role {action.role.word}, got one of {who.role.word}.")
    form = Form(fields, visit.worker)
    try:
        number = await study.write(lambda found: action.run(found, form), grouped=action.grouped)
    except SurepickError as error:
        return await _show(request, study, visit._replace(problem=str(error)), status=422)
    base = request.app.state.settings.root_path
    query = f"{visit.query}&{urlencode({'did': fields['action'], 'id': number})}"
    return RedirectResponse(f"{base}/studies/{quote(study.name, safe='')}?{query}", 303)
