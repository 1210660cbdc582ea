"""The page that makes a study from a table: upload it, see and change the role of each column, plan, create.

The server keeps nothing before the study exists: the page carries the uploaded file in a hidden field, so that a
mistake loses nothing.
"""

import base64
from pathlib import PurePath

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from surepick.errors import InvalidInput, SurepickError
from surepick.reporting.new_study_view import FORM, form_view, in_page, planned, understood
from surepick.server.api import Admin, create_new
from surepick.server.pages import page, to_study

router = APIRouter(include_in_schema=False)
MOST_COLUMNS, ROOM = 1_000, 100_000
"""Most columns of a table, and bytes of a request beside its file, of which each three bytes are four letters."""


@router.get("/new")
async def blank(request: Request, who: Admin) -> Response:
    """Show the empty form."""
    return page(request, "new.html", who=who, longest=_longest(request), **form_view({}))


@router.post("/new")
async def submitted(request: Request, who: Admin) -> Response:
    """Read the table and show what was understood, or create the study."""
    sent, roles = await _received(request)
    view, longest = form_view(sent), _longest(request)
    form: dict[str, str] = view["form"]
    try:
        if 3 * len(form["draft"]) // 4 > longest:
            form["draft"] = ""
            raise InvalidInput(f"a table must have at most {longest:,} bytes here; try `surepick create`.")
        arms, options = await run_in_threadpool(understood, view, roles)
        if form["do"] == "create":
            await create_new(request, who, form["name"], arms=arms, author=who.label or "dashboard", **options)
            return to_study(request, form["name"])
        if form["lead"] or form["do"] == "plan":
            view["plan"] = await run_in_threadpool(planned, arms, options, form)
    except SurepickError as error:
        view["problem"] = in_page(request.app.state.studies.public(error))
    return page(request, "new.html", who=who, longest=longest, **view)  # also with a problem: the form goes on


def _longest(request: Request) -> int:
    return int(request.app.state.settings.longest_upload - ROOM) * 3 // 4


async def _received(request: Request) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields of the form, its file as text, and the roles of columns by title."""
    async with request.form(max_files=1, max_fields=2 * MOST_COLUMNS, max_part_size=2 * _longest(request)) as sent:
        form = {name: value.strip() for name, value in sent.items() if isinstance(value, str) and name in FORM}
        titles, roles, file = sent.getlist("column"), sent.getlist("role"), sent.get("file")
        if isinstance(file, UploadFile) and file.filename:
            form |= {"title": PurePath(file.filename).name, "draft": base64.b64encode(await file.read()).decode()}
    return form, {" ".join(str(title).split()): str(role) for title, role in zip(titles, roles, strict=False)}
