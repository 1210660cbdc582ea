"""The statements of `sql.py`, written once for SQLite and PostgreSQL."""

from typing import Any

from sqlalchemy import (
    BindParameter,
    ScalarSelect,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.sql.expression import ClauseElement

from surepick.study.storage.schema import EVENTS, STUDIES

_n, _text, _hash = EVENTS.c.n, EVENTS.c.text, EVENTS.c.hash
_by_name = select(STUDIES.c.id).where(STUDIES.c.name == bindparam("name")).scalar_subquery()
_by_number = bindparam("study", type_=EVENTS.c.study.type)
_after = bindparam("after", type_=_n.type)
# Written into the statement: a constant of Python's would become one more value to supply.
_one, _nothing = literal_column("1", _n.type), literal_column("''", _text.type)


def _rows(study: ScalarSelect[int] | BindParameter[int]) -> Select[Any]:
    """The rows of a study from number `after` on: that one, without its text, shows that the log goes on from there."""
    text = case((_n > _after, _text), else_=_nothing)
    return select(_n, text, _hash).where(EVENTS.c.study == study, _n >= _after).order_by(_n)


def _last(study: Any) -> ScalarSelect[int]:
    events = EVENTS.alias()
    return select(func.max(events.c.n)).where(events.c.study == study).scalar_subquery()


def _summaries() -> Select[Any]:
    first, last = EVENTS.alias(), EVENTS.alias()
    return (
        select(STUDIES.c.name, last.c.n, first.c.text, last.c.text)
        .select_from(STUDIES)
        .join(first, (first.c.study == STUDIES.c.id) & (first.c.n == _one))
        .join(last, (last.c.study == STUDIES.c.id) & (last.c.n == _last(STUDIES.c.id)))
    )


STATEMENTS: dict[str, ClauseElement] = {
    "names": select(STUDIES.c.name),
    "summaries": _summaries(),
    "length": select(_last(_by_name)),
    "read": _rows(_by_name),
    "read claimed": _rows(_by_number),
    "end": select(_n, _hash).where(EVENTS.c.study == _by_number, _n == _last(_by_number)),
    "add study": insert(STUDIES).values(name=bindparam("name")),
    "number": select(_by_name),
    "append": insert(EVENTS),
    "delete events": delete(EVENTS).where(EVENTS.c.study == _by_number),
    "delete study": delete(STUDIES).where(STUDIES.c.id == _by_number),
}
