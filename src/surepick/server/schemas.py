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
Worker = Annotated[str | None, Field(max_length=200, description="Who measures; default: the label of the token.")]
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


class NewStudy(Body):
    """A study to create."""

    name: Name
    arms: Arms
    candidates: Table | None = None
    options: Options = {}
    lease: Lease = "1d"
    load_if_exists: bool = Field(default=False, description="Go on with a study of equal arms and options.")
    worker: Worker = None


class AskFor(Body):
    """Measurements to ask for."""

    n: Count = 1
    worker: Worker = None
    lease: Lease = OWN_LEASE


class ResultOfAsk(Body):
    """The value that an ask has given, or several in the order of measuring."""

    value: Finite | bool | None = None
    values: Annotated[list[Finite | bool], Field(min_length=1, max_length=MOST_ROWS)] | None = None
    worker: Worker = None


class Failure(Body):
    """Why an ask has no value."""

    reason: Line = ""
    worker: Worker = None


class ArmValue(Body):
    """A value of an arm."""

    arm: Arm
    value: Finite | bool


class Results(Body):
    """Results without asks: one, or a list in the order of measuring, taken in as a whole or not at all."""

    results: Annotated[list[ArmValue], Field(min_length=1, max_length=MOST_ROWS)]
    earlier: bool | None = Field(
        default=None, description="Whether these are earlier results, which guide and are no evidence; lists always."
    )
    worker: Worker = None


class Change(Body):
    """Why a measurement is voided, corrected or restored; and the right value, to correct it."""

    reason: Line
    value: Finite | bool | None = None
    worker: Worker = None


class AuditFor(Body):
    """Check pulls of the model."""

    n: Count | Literal["auto"] = "auto"
    worker: Worker = None


class Reopening(Body):
    """What changes in a study, and why."""

    reason: Line
    join: dict[Line, Row] | list[Row] | None = Field(
        default=None, description="Arms that join: features by name, or rows where arms have no names."
    )
    retire: list[Arm] = []
    keep_evidence: bool = True
    changes: Options = {}
    worker: Worker = None


# ---- answers


class Answer(BaseModel):
    """An answer; later versions may add fields."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Problem(Answer):
    """An error (RFC 9457); `detail` says what was needed, what came, and what to do."""

    type: str
    title: str
    status: int
    detail: str


class Head(Answer):
    """The last event of a log."""

    n: int
    hash: str


def _nullable(kind: Any) -> Any:
    return kind | None if kind is float else kind


_of_study: Any = {name: (_nullable(kind), ...) for name, kind in Status.__annotations__.items()}
_of_study |= dict.fromkeys(OF_OUTLOOK, (float | None, ...)) | {"in_question": (list[str], ...), "head": (Head, ...)}
_of_study.pop("find_outlook")
StudyRecord = create_model("StudyRecord", __base__=Answer, **_of_study)
StudyRecord.__doc__ = "A study, under the names of `surepick status --format json`, and its last event."
_of_list: Any = dict.fromkeys(("name", *OF_LIST, "created_at"), (Any, ...))
ListedStudy = create_model("ListedStudy", __base__=Answer, **_of_list)
ListedStudy.__doc__ = "A study in a list."


class StudyPage(Answer):
    """Some of the studies, sorted by name."""

    studies: list[ListedStudy]  # type: ignore[valid-type]
    next: str | None
    """The value of `after` for the next page; null: this is the last."""


class Asks(Answer):
    """Open asks."""

    asks: list[StudyAsk]


_of_measurement: Any = dict.fromkeys(OF_MEASUREMENT, (Any, ...)) | {"id": (int, ...), "value": (float | None, ...)}
MeasurementRecord = create_model("MeasurementRecord", __base__=Answer, **_of_measurement)
MeasurementRecord.__doc__ = "A measurement, under the names of `surepick measurements --format json`."


class Told(Answer):
    """What was recorded, and remarks about it: a value may look mistyped."""

    measurements: list[MeasurementRecord]  # type: ignore[valid-type]
    remarks: list[str] = []


class MeasurementPage(Answer):
    """Some of the measurements, by number."""

    measurements: list[MeasurementRecord]  # type: ignore[valid-type]
    next: int | None
    """The value of `after` for the next page; null: this is the last."""


class Planned(Answer):
    """Check pulls that were planned."""

    n: int


class LogRow(Answer):
    """An event: its number, its text, and the hash that chains it to the events before."""

    n: int
    text: str
    hash: str


class LogPage(Answer):
    """Some events of a log."""

    rows: list[LogRow]
    next: int | None
    """The value of `after` for the next page; null: this is the last."""
