"""`study.toml`: a study in one file, with the keys that `surepick create` has as options."""

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, create_model

from surepick.arms import VECTOR_SETS, SetName
from surepick.arms.tables.sources import refusing
from surepick.cli.options import LearnerOptions, SetOptions, TableOptions, help_of, key_of, one_set
from surepick.errors import InvalidInput, what_was_meant
from surepick.learning.spec import DEFAULTS, OPTIONS, Spec

SCHEMA = "https://json-schema.org/draft/2020-12/schema"

Count = Annotated[int, Field(ge=1)]


def _of_set(one: SetName) -> tuple[Any, Any]:
    """Return type and default of the key that names a vector set."""
    if one.is_list:
        text = re.sub(r"\b(\w+),(\w+)\b", r"[\1, \2]", one.help)  # d,k such as 10,3
        return Annotated[list[Count], Field(min_length=2, max_length=2)] | None, Field(None, description=text)
    return {int: Count, Path: str}.get(one.flag_type, one.flag_type) | None, None


def _flag_of(one: SetName, value: Any, folder: Path) -> Any:
    """Return the value of the flag that says the same as the key of a vector set; None if the key is not there."""
    if value is not None and one.flag_type is Path:
        return folder / value
    return ",".join(map(str, value)) if isinstance(value, list) else value


Keys = dict[str, Any]
"""Types and defaults of keys, as `pydantic.create_model` takes them."""
_ARMS: Keys = {
    "name": (str | None, Field(None, description="Name of the study; default: the name of this file.")),
    "arms": (str | None, Field(None, description="File of arms, from the folder of this file.")),
    **{key_of(kind): _of_set(one) for kind, one in VECTOR_SETS.items()},
}
_TABLE: Keys = {
    "lease": (
        str | float,
        Field("1d", description='How long an ask is kept for its worker: "2h", "3d", "none" for ever.'),
    ),
    "group_by": (
        Literal["worker"] | None,
        Field(None, description="Label every value with the worker who tells it."),
    ),
    **{each.name: (get_type_hints(TableOptions)[each.name], each.default) for each in fields(TableOptions)},
    "features": (list[str] | None, Field(None, description="Use only these columns as features.")),
    "drop": (list[str] | None, Field(None, description="Columns to leave out.")),
}


def _of_learner() -> Keys:
    """Return the keys for the options of a task."""
    keys: Keys = {}
    for name, option in OPTIONS.items():
        kind = option.file_type or option.flag_type or Spec.__annotations__[name]
        default = False if kind is bool else DEFAULTS[name]
        kind = Annotated[kind, Field(**option.limits)] if option.limits else kind
        keys[option.flag or name] = (kind | None if default is None else kind, default)
        if name == "algorithm":
            keys["stopping"] = (str | None, None)
            text = "Options of the algorithm: a table of names and values."
            keys["option"] = (dict[str, Any], Field({}, description=text))
    return keys


_CONFIG = ConfigDict(extra="forbid", strict=True, title="A study of surepick: surepick create --file study.toml")
StudyFile: Any = create_model("StudyFile", __config__=_CONFIG, **_ARMS, **_of_learner(), **_TABLE)
"""The model of a study.toml: its keys, with types, limits and defaults."""


class StudySettings(NamedTuple):
    """Arms and options of a new study."""

    name: str
    source: str
    """The option that says which arms, and its value."""
    value: Any
    table: TableOptions
    learner: LearnerOptions
    lease: str | float
    group_by: str | None


def read_study_file(path: Path) -> StudySettings:
    """Read a study.toml.

    Raises:
        InvalidInput: the file is no study.toml; the text names the key.
    """
    with refusing("cannot read", path):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        said = StudyFile.model_validate(content)
    except ValidationError as error:
        raise InvalidInput(f"{path}: {_words(error)}") from error
    given = said.model_dump()
    folder = path.parent
    sets = {key_of(kind): _flag_of(one, given[key_of(kind)], folder) for kind, one in VECTOR_SETS.items()}
    chosen = one_set(None if said.arms is None else folder / said.arms, SetOptions(**sets))
    if chosen is None:
        raise InvalidInput(f'{path} must say which arms there are; add a line such as arms = "arms.csv".')
    table = {field.name: given[field.name] for field in fields(TableOptions)}
    table |= {name: None if given[name] is None else ",".join(given[name]) for name in ("features", "drop")}
    learner = {name: given[name] for name in help_of(LearnerOptions)}
    learner |= {
        "noise_std": None if said.noise_std is None else str(said.noise_std),
        "reward_range": None if said.reward_range is None else tuple(said.reward_range),
        "option": [f"{name}={value!r}" for name, value in said.option.items()],
    }
    options = TableOptions(**table), LearnerOptions(**learner)
    return StudySettings(said.name or path.stem, *chosen, *options, said.lease, said.group_by)


def _words(error: ValidationError) -> str:
    """Return one line about the first key that is wrong."""
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        keys = StudyFile.model_fields
        return f"there is no key {key!r}; {what_was_meant(key, keys, 'keys', most=len(keys))}"
    got = first["input"]
    said = first["msg"].replace("Input", "the value", 1)
    return f"{key}: {said[0].lower()}{said[1:]}, got {got!r}."


def schema_text() -> str:
    """Return the JSON Schema of a study.toml, for editors that check one while it is written."""
    schema = {"$schema": SCHEMA, **StudyFile.model_json_schema()}
    helps = {
        name: text for group in (TableOptions, SetOptions, LearnerOptions) for name, text in help_of(group).items()
    }
    for name, each in schema["properties"].items():
        each.pop("title", None)
        if "anyOf" in each:  # TOML has no null: a file leaves the key out
            kinds = [kind for kind in each.pop("anyOf") if kind != {"type": "null"}]
            each.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
        if each.get("default", 0) is None:
            del each["default"]
        each.setdefault("description", helps.get(name, ""))
    return json.dumps(schema, indent=2) + "\n"
