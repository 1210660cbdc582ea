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
from surepick.reporting.plan_words import FORM, form_view, in_page, planned, understood
from surepick.server.api import Admin, create_new
from surepick.server.pages import page, to_study

router = APIRouter(include_in_schema=False)
MOST_COLUMNS, ROOM = 1_000, 100_000
"""Most columns of a table, and bytes of a request beside its file, of which each three bytes are four letters."""


@router.get("/new")
async def blank(request: Request, who: Admin) -> Response:
    """Show the empty form."""
    return page(request, "new.html", who=who, **form_view({}))


@router.post("/new")
async def submitted(request: Request, who: Admin) -> Response:
    """Read the table and show what was understood, or create the study."""
    sent, roles = await _received(request)
    view = form_view(sent)
    form: dict[str, str] = view["form"]
    try:
        if len(form["draft"]) > (longest := request.app.state.settings.longest_upload - ROOM):
            form["draft"] = ""
            raise InvalidInput(f"a table must have at most {longest * 3 // 4:,} bytes here; try `surepick create`.")
        arms, options = await run_in_threadpool(understood, view, roles)
        if form["do"] == "create":
            await create_new(request, who, form["name"], arms=arms, author=who.label or "dashboard", **options)
            return to_study(request, form["name"])
        view["plan"] = await run_in_threadpool(planned, arms, options, form) if form["lead"] else None
    except SurepickError as error:
        view["problem"] = in_page(request.app.state.studies.public(error))
    return page(request, "new.html", who=who, **view)  # also with a problem: the form goes on


async def _received(request: Request) -> tuple[dict[str, str], list[str]]:
    """Return the fields of the form, its file as text, and the roles of columns, unless these are of another file."""
    longest = request.app.state.settings.longest_upload
    async with request.form(max_files=1, max_fields=MOST_COLUMNS, max_part_size=longest) as sent:
        form = {name: value.strip() for name, value in sent.items() if isinstance(value, str) and name in FORM}
        roles, file = [str(role) for role in sent.getlist("role")], sent.get("file")
        content = await file.read() if isinstance(file, UploadFile) else b""
    if not (isinstance(file, UploadFile) and content):
        return form, roles
    title = PurePath(file.filename or "table.csv").name
    return {**form, "title": title, "draft": base64.b64encode(content).decode("ascii")}, []
