"""The dashboard: pages and forms. Every form works without JavaScript: a POST, then a redirect that says what was done.

The address after the redirect names a measurement or an ask and no more; the sentence about it comes from the log.
"""

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse

from surepick.errors import InvalidInput, SurepickError
from surepick.reporting import study_view
from surepick.reporting.html import template as layout
from surepick.reporting.study_words import MISTYPED, done_words, typed_group, typed_number, typed_numbers
from surepick.server.api import FILE_TYPES, STUDY, Reader, StudyAccess, ToRead, ToTell
from surepick.server.studies import OpenStudies
from surepick.server.tokens import A_YEAR, COOKIE, Identity, check_role, cookie_options
from surepick.study.study import Study
from surepick.study.tokens import Role

router = APIRouter(include_in_schema=False)
STATIC = {
    **{name: files("surepick.reporting") / "templates" / name for name in ("look.css", "charts.css")},
    **{name: files("surepick.server") / "static" / name for name in ("surepick.css", "surepick.js", "icon.svg")},
}
"""Every file that pages load."""
LONGEST = 1_000
"""Letters of a field."""
Text = Annotated[str, Query(max_length=LONGEST)]
Number = Annotated[int | None, Query(ge=0, lt=2**53)]
Id = Annotated[int | None, Query(alias="id", ge=0, lt=2**53)]


# ---- pages


def page(request: Request, template: str, *, who: Identity | None, status: int = 200, **values: Any) -> Response:
    """Return a page from a template. `base` is the prefix of addresses, `may` says which roles the visitor has."""
    base = request.app.state.settings.root_path
    may = {role: who is not None and who.role.includes(role) for role in Role}
    # The number pad of an iPhone has no minus sign, and no space between two values.
    values["keypad"] = "text" if "iPhone" in request.headers.get("user-agent", "") else "decimal"
    text = layout(template, "surepick.server").render(base=base, who=who, may=may, **values)
    return HTMLResponse(text, status)


async def error_page(request: Request, status: int, detail: str) -> Response:
    """Return an error as a page; where a token is missing, the form to sign in."""
    if status == 401:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        # By a link of another site, a browser sends no cookie: the page asks for itself once more.
        is_elsewhere = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
        return _sign_in(request, status=status, back=back, is_elsewhere=is_elsewhere, problem=detail)
    return page(request, "problem.html", who=None, status=status, detail=detail)


def to_study(request: Request, name: str, query: str = "") -> Response:
    """Lead a browser to the page of a study."""
    return RedirectResponse(f"{request.app.state.settings.root_path}/studies/{quote(name, safe='')}{query}", 303)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Return a style sheet, the script or the icon."""
    if name not in STATIC:
        raise HTTPException(404, "there is no such file.")
    return Response(STATIC[name].read_bytes(), 200, {"Cache-Control": "no-cache"}, FILE_TYPES[name.rpartition(".")[2]])


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
    response.set_cookie(COOKIE, secret, max_age=A_YEAR, **cookie_options(request))
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Forget the token."""
    response = RedirectResponse(f"{request.app.state.settings.root_path}/sign-in", 303)
    response.delete_cookie(COOKIE, **cookie_options(request))
    return response


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; the last of each name."""
    async with request.form(max_fields=50, max_files=0) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if long := [name for name, value in fields.items() if len(value) > LONGEST]:
        raise InvalidInput(f"the field {long[0][:50]!r} must have at most {LONGEST:,} letters; shorten it.")
    return fields


# ---- reading


@router.get("/")
async def studies_page(request: Request, who: Reader, after: Text = "") -> Response:
    """List the studies."""
    studies: OpenStudies = request.app.state.studies
    names = [name for name in await run_in_threadpool(studies.storage.names) if who.sees(name) and name > after]
    shown = sorted(names)[: study_view.N_ROWS]
    lines = []
    for name in shown:
        try:
            lines.append(await studies.view(name, study_view.line_of))
        except SurepickError as error:  # the others can be listed all the same
            lines.append(study_view.unreadable_line(name, error))
    more = shown[-1] if len(names) > len(shown) else ""
    return page(request, "studies.html", who=who, lines=lines, more=more, is_first=not after)


class Visit(NamedTuple):
    """What a visitor wants to see of a study, what the last form did, and what is typed into this one."""

    worker: str
    arms: str = ""
    did: str = ""
    id: int | None = None
    problem: str = ""
    group: str = ""
    """The label that was typed last."""
    n: str = ""
    """How many measurements were asked for last."""
    typed: Mapping[str, str] = MappingProxyType({})
    """The fields of a form."""

    @property
    def query(self) -> str:
        """The same view again, for links and forms."""
        return urlencode({name: said for name in ("worker", "arms", "group", "n") if (said := getattr(self, name))})

    def number(self, name: str) -> int:
        """Return a whole number that was typed."""
        text = self.typed.get(name, "").strip()
        if not text.isdecimal() or len(text) > 15:
            raise InvalidInput(f"{name} must be a whole number, got {text!r}.")
        return int(text)

    @property
    def values(self) -> list[float]:
        """The values that were typed, between them spaces."""
        return typed_numbers(self.typed.get("value", ""))

    @property
    def change(self) -> dict[str, str]:
        """Reason and worker of a change."""
        return {"reason": self.typed.get("reason", "").strip(), "worker": self.worker}


async def _visit(
    study: ToRead, worker: Text = "", arms: Text = "", did: Text = "", number: Id = None, group: Text = "", n: Text = ""
) -> Visit:
    """Return what the address of a page says."""
    return Visit(_named(worker, study.who), arms, did, number, group=group, n=n)


def _named(worker: str, who: Identity) -> str:
    return worker.strip() or who.label or "dashboard"


Visited = Annotated[Visit, Depends(_visit)]


@router.get(STUDY)
async def study_page(request: Request, study: ToRead, visit: Visited) -> Response:
    """Show a study."""
    return await _show(request, study, visit)


@router.get(f"{STUDY}/live")
async def live(request: Request, study: ToRead, visit: Visited) -> Response:
    """Return the part of the page of a study that changes."""
    return await _show(request, study, visit, "live.html")


async def _show(request: Request, study: StudyAccess, visit: Visit, template: str = "study.html") -> Response:
    n_arms = study_view.MOST_SHOWN if visit.arms == "all" else study_view.N_SHOWN
    view = await study.studies.view(study.name, study_view.view_of, n_arms=n_arms)
    message, question = await study.read(partial(_said, visit.did, visit.id))
    said: Any = {"message": message, "question": question, "mistyped": MISTYPED}
    # By its key a value that is sent twice counts once.
    return page(request, template, who=study.who, view=view, visit=visit, key=secrets.token_hex(8), **said)


def _said(did: str, id_: int | None, study: Study) -> tuple[str, Any]:
    """Return what a form did in a sentence, and the question that a value raises."""
    if did not in ACTIONS or id_ is None:
        return "", None
    try:
        return done_words(study.state, did, id_), study.question(id_) if did == "tell" else None
    except (InvalidInput, KeyError):  # an address that was typed
        return "", None


@router.get(f"{STUDY}/log")
async def log_page(
    request: Request, study: ToRead, visit: Visited, before: Number = None, events: Number = None
) -> Response:
    """Show measurements and events, the newest first: those before a measurement, those before an event."""
    log = await study.read(partial(study_view.log_of, before=before, events=events))
    return page(request, "log.html", who=study.who, name=study.name, visit=visit, **log._asdict())


# ---- forms


def _ask(study: Study, visit: Visit) -> int:
    return len(study.ask(visit.number("n"), worker=visit.worker, group=typed_group(visit.typed.get("group", ""))))


def _tell(study: Study, visit: Visit) -> int:
    arm, key = visit.typed.get("arm", "").strip() or None, visit.typed.get("key") or None
    ask = visit.number("ask") if arm is None else None
    group = typed_group(visit.typed.get("group", ""))
    return study.tell(ask, visit.values, arm=arm, worker=visit.worker, key=key, group=group, warn=False)[0].id


def _fail(study: Study, visit: Visit) -> int:
    study.fail(visit.number("ask"), **visit.change)
    return visit.number("ask")


def _change(study: Study, visit: Visit) -> int:
    measurement, action = visit.number("measurement"), visit.typed["action"]
    values = visit.values if action == "correct" else []
    if action == "correct" and len(values) != 1:
        raise InvalidInput("a correction needs the right value; write it as 0.53 or 0,53.")
    getattr(study, action)(measurement, *values, **visit.change)
    return measurement


def _reopen(study: Study, visit: Visit) -> int:
    if visit.typed.get("groups") == "offset":
        study.reopen(groups="offset", **visit.change)  # type: ignore[arg-type]
        return study.state.era
    name = "budget" if study.learner.spec.rounds is None else "rounds"
    more = typed_number(visit.typed.get("budget", ""), "a budget" if name == "budget" else "a number of batches")
    study.reopen(**{name: int(more) if name == "rounds" and more.is_integer() else more}, **visit.change)  # type: ignore[arg-type]
    return study.state.era


Actions = dict[str, Callable[[Study, Visit], int]]
"""What forms do; each action returns the number that `done_words` names."""
OF_ASKS: Actions = {"ask": _ask, "tell": _tell, "fail": _fail}
"""Their events share a commit with those of others."""
OF_ADMINS: Actions = {"audit": lambda study, visit: study.audit(worker=visit.worker), "reopen": _reopen}
ACTIONS = OF_ASKS | dict.fromkeys(("void", "correct", "restore"), _change) | OF_ADMINS


@router.post(STUDY)
async def act(request: Request, study: ToTell) -> Response:
    """Do what a form asks for, and show the page again."""
    fields, who = await _fields(request), study.who
    group, n = fields.get("group", fields.get("last_group", "")), fields.get("n", "")
    visit = Visit(_named(fields.get("worker", ""), who), fields.get("arms", ""), group=group, n=n, typed=fields)
    if (action := fields.get("action", "")) not in ACTIONS:
        raise InvalidInput("the form names no action; open the page again.")
    check_role(who, Role.ADMIN if action in OF_ADMINS else Role.TELL)
    try:
        number = await study.write(lambda found: ACTIONS[action](found, visit), grouped=action in OF_ASKS)
    except SurepickError as error:  # the page shows it, and the form goes on
        return await _show(request, study, visit._replace(problem=study.studies.public(error)))
    return to_study(request, study.name, f"?{visit.query}&{urlencode({'did': action, 'id': number})}")
