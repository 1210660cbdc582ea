"""Bodies and answers of the API, as the OpenAPI document has them. Limits on sizes are here; the study checks the rest.

Numbers that are not finite are null in answers, and refused in bodies.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from surepick.arms import VECTOR_SETS
from surepick.study.events import MOST_DIMENSIONS, MOST_FEATURES
from surepick.study.storage.base import LONGEST_NAME
from surepick.study.study import OWN_LEASE, StudyAsk
from surepick.study.views import OF_LIST, OF_MEASUREMENT, OF_OUTLOOK, Status

MOST_ROWS = 10_000
"""Rows of a list: of asks, results, or a page of an answer."""

Line = Annotated[str, StringConstraints(max_length=1_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Option = bool | Whole | Finite | Line | list[Whole | Finite] | None
Options = Annotated[dict[Line, Option], Field(description="As in Python: delta, epsilon, noise_std, budget, ...")]
Dimension = Annotated[int, Field(ge=1, le=MOST_DIMENSIONS)]
Arm = Annotated[
    Line | Annotated[int, Field(ge=0, lt=2**53)] | Annotated[list[Finite], Field(max_length=MOST_FEATURES)],
    Field(description="Name, row number or vector."),
]
Lease = Annotated[
    Annotated[str, StringConstraints(max_length=20)] | Annotated[float, Field(gt=0, le=1e9)] | None,
    Field(description='Time after which another worker gets the asks: "30m", "2h", "3d", seconds, or null for never.'),
]


Level = Line | Whole | Finite
Group = Annotated[Level | dict[Line, Level] | None, Field(description='Where and when: "day 3", or levels by factor.')]


class Body(BaseModel):
    """A body; unknown fields are refused, and a text is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


# ---- arms


class Column(Body):
    """A column of the table that arms were read from."""

    model_config = ConfigDict(extra="allow")
    title: Line
    cells: list[Line | Finite | bool | None]


class Columns(Body):
    """The table that arms were read from, as people know it."""

    model_config = ConfigDict(extra="allow")
    columns: list[Column]


Row = Annotated[list[Finite], Field(min_length=1, max_length=MOST_FEATURES)]


class Table(Body):
    """A list of arms: a row of features for each."""

    kind: Literal["finite"] = "finite"
    rows: Annotated[list[Row], Field(min_length=1)]
    names: list[Line] | None = None
    features: list[Line] | None = None
    table: Columns | None = None


Axis = Annotated[list[Finite], Field(max_length=MOST_DIMENSIONS)]


class VectorArms(Body):
    """A set of vectors by its kind and parameters: dim; dim and k for top-k; center and axes for an ellipsoid."""

    kind: Literal[tuple(VECTOR_SETS)]  # type: ignore[valid-type]
    dim: Dimension | None = None
    k: Dimension | None = None
    center: Axis | None = None
    axes: Annotated[list[Axis], Field(max_length=MOST_DIMENSIONS)] | None = None


Arms = Table | VectorArms


# ---- requests


class Request(Body):
    """A request that is named in the log."""

    worker: Annotated[str | None, Field(max_length=200, description="Worker; default: the label of the token.")] = None


class NewStudy(Request):
    """A study to create."""

    name: Name
    arms: Arms
    candidates: Table | None = None
    options: Options = {}
    lease: Lease = "1d"
    group_by: Literal["worker"] | None = None
    load_if_exists: bool = Field(default=False, description="Go on with a study of equal arms and options.")


class AskFor(Request):
    """Measurements to ask for."""

    n: Count = 1
    lease: Lease = OWN_LEASE
    group: Group = None


class ResultOfAsk(Request):
    """The value that an ask has given, or several in the order of measuring."""

    value: Finite | bool | None = None
    values: Annotated[list[Finite | bool], Field(min_length=1, max_length=MOST_ROWS)] | None = None
    group: Group = None


class Failure(Request):
    """Why an ask has no value."""

    reason: Line = ""


class ArmValue(Body):
    """A value of an arm."""

    arm: Arm
    value: Finite | bool
    group: Group = None


class Results(Request):
    """Results without asks: one, or a list in the order of measuring, taken in as a whole or not at all."""

    results: Annotated[list[ArmValue], Field(min_length=1, max_length=MOST_ROWS)]
    earlier: bool | None = Field(default=None, description="True: results that guide, as those of a list always do.")


class Change(Request):
    """Why a measurement is voided, corrected or restored; and the right value, to correct it."""

    reason: Line
    value: Finite | bool | None = None


class AuditFor(Request):
    """Check pulls of the model."""

    n: Count | Literal["auto"] = "auto"


class Reopening(Request):
    """What changes in a study, and why."""

    reason: Line
    join: dict[Line, Row] | list[Row] | None = Field(default=None, description="New arms: rows, or rows by name.")
    retire: list[Arm] = []
    keep_evidence: bool = True
    changes: Options = {}


# ---- answers


def _answer(title: str, doc: str, /, **fields: Any) -> Any:
    """Return the schema of an answer; later versions may add fields. A kind with a default is (kind, default)."""
    known: Any = {field: kind if isinstance(kind, tuple) else (kind, ...) for field, kind in fields.items()}
    return create_model(title, __doc__=doc, **known)


def _list(kind: Any) -> Any:
    return list[kind]


_of_status: Any = {name: float | None if kind is float else kind for name, kind in Status.__annotations__.items()}
_of_status.pop("find_outlook")
_of_status.pop("calls")  # only where arms are called
_of_status |= {**dict.fromkeys(OF_OUTLOOK, float | None), "in_question": list[str]}
_of_measurement: Any = dict.fromkeys(OF_MEASUREMENT, Any) | {"id": int, "value": float | None}
_of_measurement["group"] = (dict[str, str], {})

# `next`: the value of `after` for the next page; null: this is the last one.
Problem = _answer("Problem", "An error (RFC 9457).", type=str, title=str, status=int, detail=str)
Head = _answer("Head", "The last event of a log.", n=int, hash=str)
StudyRecord = _answer("StudyRecord", "A study, as `surepick status --format json` has it.", **_of_status, head=Head)
ListedStudy = _answer("ListedStudy", "A study in a list.", **dict.fromkeys(("name", *OF_LIST, "created_at"), Any))
StudyPage = _answer("StudyPage", "Studies, sorted by name.", studies=_list(ListedStudy), next=str | None)
Asks = _answer("Asks", "Open asks.", asks=list[StudyAsk])
Measured = _answer("Measured", "A measurement, as `surepick measurements --format json` has it.", **_of_measurement)
Told = _answer("Told", "The measurements, and questions about them.", measurements=_list(Measured), remarks=list[str])
MeasurementPage = _answer("MeasurementPage", "Measurements.", measurements=_list(Measured), next=int | None)
Planned = _answer("Planned", "Check pulls that were planned.", n=int)
LogRow = _answer("LogRow", "An event: its number, its text, and the hash of the chain.", n=int, text=str, hash=str)
LogPage = _answer("LogPage", "Events of the log.", rows=_list(LogRow), next=int | None)
