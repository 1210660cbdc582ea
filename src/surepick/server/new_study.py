"""The page that makes a study from a table: upload it, see and change the role of each column, plan, create.

The server keeps nothing before the study exists: the page carries the uploaded file in a hidden field, so that a
mistake loses nothing.
"""

import base64
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from surepick.arms.tables.by_role import column_roles, read_by_role, table_of_upload
from surepick.arms.tables.read import TableArms
from surepick.errors import InvalidInput, SurepickError
from surepick.planning.plan import plan
from surepick.reporting.plan_words import PlanView, in_page, number_in, options_of, plan_view
from surepick.server.api import Admin, create_new, quiet
from surepick.server.pages import page, to_study
from surepick.study.events import MOST_FEATURES

router = APIRouter(include_in_schema=False)
DEFAULTS = {"kind": "number", "how many": "1", "how sure": "95", "loss": "0"}
FORM = (*DEFAULTS, "name", "sheet", "smallest", "largest", "budget", "lead", "scatter", "title", "draft", "do")
"""Fields of the form; errors call them by these names."""
MOST_PLANNED = 2_000
"""Arms of a plan that takes seconds."""
MOST_NUMBERS = 1_000_000
"""Features of all arms together."""
MOST_COLUMNS, ROOM = 1_000, 100_000
"""Most columns of a table, and bytes of a request beside its file, of which each three bytes are four letters."""


@router.get("/new")
async def blank(request: Request, who: Admin) -> Response:
    """Show the empty form."""
    return page(request, "new.html", who=who, **_view({}))


@router.post("/new")
async def submitted(request: Request, who: Admin) -> Response:
    """Read the table and show what was understood, or create the study."""
    sent, roles = await _received(request)
    view = _view(sent)
    form: dict[str, str] = view["form"]
    try:
        if len(form["draft"]) > (longest := request.app.state.settings.longest_upload - ROOM):
            form["draft"] = ""
            raise InvalidInput(f"a table must have at most {longest * 3 // 4:,} bytes here; try `surepick create`.")
        arms, options = await run_in_threadpool(_understood, view, roles)
        if form["do"] == "create":
            await create_new(request, who, form["name"], arms=arms, author=who.label or "dashboard", **options)
            return to_study(request, form["name"])
        view["plan"] = await run_in_threadpool(_planned, arms, options, form) if form["lead"] else None
    except SurepickError as error:
        view["problem"] = in_page(request.app.state.studies.public(error))
    return page(request, "new.html", who=who, **view)  # also with a problem: the form goes on


def _view(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of a form before its table is read."""
    form = {**dict.fromkeys(FORM, ""), **DEFAULTS, **sent}
    return {"form": form, "problem": "", "columns": [], "arms": "", "plan": None}


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


def _understood(view: dict[str, Any], roles: list[str]) -> tuple[TableArms, dict[str, Any]]:
    """Return arms and options of the study; `view` gets what is known, also if an error ends this."""
    form = view["form"]
    if not form["draft"]:
        raise InvalidInput("choose a file: a table with one line for each arm, as CSV or Excel.")
    try:
        content = base64.b64decode(form["draft"], validate=True)
    except ValueError:
        raise InvalidInput("the file was changed on its way; choose it again.") from None
    form["name"] = form["name"] or PurePath(form["title"]).stem
    table = table_of_upload(form["title"], content, form["sheet"] or None)
    view["columns"] = column_roles(table, roles)
    arms = quiet(read_by_role, table, view["columns"], MOST_FEATURES, MOST_NUMBERS)
    view["arms"] = in_page(str(arms.roles))
    return arms, options_of(form, arms)


def _planned(arms: TableArms, options: Mapping[str, Any], form: Mapping[str, str]) -> PlanView:
    """Return the plan for a guess of the lead."""
    if arms.n_arms > MOST_PLANNED:
        raise InvalidInput(
            f"a plan is for at most {MOST_PLANNED:,} arms here; use `surepick plan`, or leave the lead empty."
        )
    known = {name: value for name, value in options.items() if name != "budget"}
    if not known.keys() & {"rewards", "reward_range", "noise_std"}:
        known["noise_std"] = number_in(form, "scatter")
    return plan_view(quiet(plan, arms, gap=number_in(form, "lead"), **known), options)
