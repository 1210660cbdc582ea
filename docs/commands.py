"""The page of the command line, docs/cli.md, made of the commands' own help; and the schema of a study.toml.

`python -m docs.commands` writes both; a test says if they are not what the commands are. Examples stand on the page
between the name of a command and its help. They are written by hand, and stay when the page is written anew; tests
compare their outputs with those of the commands.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from surepick.cli.main import app
from surepick.cli.studies import COMMANDS
from surepick.cli.studies.study_file import schema_text
from surepick.study.views import OF_BEST, OF_PLAN

PAGE, SCHEMA = Path(__file__).with_name("cli.md"), Path(__file__).parent / "_static" / "study.schema.json"
WIDTH = 100

INTRODUCTION = """\
# The command line

Each command has an example and its own help (`surepick COMMAND --help`). The examples are one
story: each begins where the one before it ended. `...` stands for times, hashes and lines that are
left out.

A *study* is an experiment in one file, `surepick.db` in the working folder. The file keeps all asks, results,
corrections and decisions. Several people or machines use a study at once, and no server is needed.
`surepick create arms.csv` begins a study, `surepick ask` says what to measure, and `surepick tell` takes the result.

- `--storage`, or the variable `SUREPICK_STORAGE`, names another file or a PostgreSQL database. Only `create`, and
  `copy` for its copy, make a new file.
- `--study`, or the variable `SUREPICK_STUDY`, names the study, if there are several.
- `--author` gives your name, and `--worker` is the same option. A worker that asks again gets its open asks back
  first.
- `surepick --install-completion` lets the shell complete commands, options, studies and arms.
- `surepick create --file study.toml` reads all options from a file. Its keys are the options with `_` for `-`. Editors
  check the file by <a href="_static/study.schema.json">its JSON Schema</a> (`docs/_static/study.schema.json`).

| exit code | what |
|---|---|
| 0 | done; also `ask` after the verdict, so let a loop end when `surepick best` returns 0 or 4 |
| 1 | it failed, or a certificate does not follow from its log |
| 2 | misuse: one line on standard error says what was needed, what came, and what to do |
| 3 | not decided yet (`run`, `best`, `certificate`) |
| 4 | the answer is withdrawn: the data contradict the model, or the noise given (`run`, `best`, `certificate`) |
| 5 | not all of a certificate can be checked: another version worded it, or planned other blocks (`verify`) |
"""

JSON = """\
## JSON of studies

`--format json` writes these fields. Later versions may add fields, and they rename or remove none of these. An unknown
value is `null`, and times are UTC. An *arm* is a row number from 0 on, or a list of numbers in a set of vectors.
`--format csv` has those of the fields that are single values, in one line for each ask, measurement or study.
`ask --format csv` writes a sheet to fill in, for `tell --file`.
"""

ASK = {
    "id": "number of the ask, by which its result is told",
    "arm": "what to measure",
    "name": "what people call it",
    "features": "of the arm, a list of numbers",
    "until": "when it goes to another worker; `null`: never",
    "reason": "why this arm, in words",
    "recipe": "the arm as its table has it: every column with its value, levels in words; empty for a vector",
}
MEASUREMENT = {
    "id": "number of the measurement, by which it is voided or corrected",
    "arm": "what was measured",
    "name": "what people call it",
    "value": "what counts; `null` if it is void",
    "told": "the value as it was told first",
    "is_void": "whether it was taken back",
    "ask": "the ask it answers; `null`: it was not asked for",
    "author": "who told it",
    "at": "when",
    "changes": "voids, corrections and restorations with their reasons, a list of texts",
}
STATUS = {
    "name": "of the study",
    "state": "`new`, `measuring`, `stopped`, `withdrawn` (the data contradict the model) or `spent` (no budget)",
    "best": "the answer, or who leads before; a list if several are sought",
    "best_name": "what people call it",
    "rival_name": "the runner-up: second by estimate, excluded or not",
    "hardest_name": "the candidate hardest to exclude; `null` once stopped",
    "lead": "how far the best is ahead of the runner-up, by estimate",
    "lead_low": "lower end of its interval, at confidence 1 - delta",
    "lead_high": "upper end",
    "evidence": "log of the evidence, in nats",
    "threshold": "the evidence at which the study stops",
    "confidence": "that the leader is right, at least",
    "remaining": "pulls still needed, by estimate",
    "remaining_low": "the pulls still needed are between this and `remaining_high` with 80 %, by estimate",
    "remaining_high": "upper end",
    "epsilon_bound": "what the leader can be losing at most, with probability 1 - delta",
    "guarantee": "`proved`, `published`, `heuristic`, `none` (so before the verdict), `doubtful` or `withdrawn`",
    "model_check": "what the data say of the model",
    "stopping": "the rule that decides",
    "delta": "the accepted probability of a wrong answer",
    "n_pulls": "measurements that count",
    "n_pending": "asks that are open",
    "n_planned": "asks that are planned and not made yet: a batch of this size loses nothing",
    "n_arms": "arms that may be measured; `null` for a set of vectors",
    "n_events": "events in the log",
    "n_void": "measurements that are void",
    "n_corrected": "measurements with another value than they were told with",
    "era": "1, and one more each time the study was reopened",
    "stopped_at": "when the verdict was reached that holds; `null` if there is none",
    "registrations": "for each era the hash of its first event, a list: the registration digests",
    "probability": "estimate, not a guarantee: probability that the leader is best",
    "within": "estimate: probability that it loses at most epsilon",
    "loss": "estimate: loss of stopping now, on average",
    "likely_loss": "estimate: the leader is within this of the best with 95 %",
    "in_question": "estimate: the leader and those that may be ahead of it; the best is among them with 95 %",
    **{
        name: text.format(n)
        for n in (10, 20, 50)
        for name, text in (
            (f"probability_after_{n}", "estimate: probability that the leader after {} more measurements is best"),
            (f"loss_after_{n}", "estimate: average loss of the leader after {} more measurements"),
        )
    },
}
FIELDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ask": (
        "The answer is an object:",
        {
            "study": "its name",
            "state": STATUS["state"],
            "asks": "what to measure, a list of objects; empty once it has stopped",
        },
    ),
    "ask: each of asks": ("", ASK),
    "pending": (
        "The answer is a list of open asks:",
        {**ASK, "worker": "who was asked", "asked_at": "when"},
    ),
    "tell": (
        "The answer is an object:",
        {
            "measurements": "the results told, a list of objects as `measurements` has them",
            "status": "an object as `status` has it",
        },
    ),
    "measurements": ("The answer is a list of measurements:", MEASUREMENT),
    "status": ("The answer is an object:", STATUS),
    "best": (
        "The answer is an object:",
        {**{name: STATUS[name] for name in OF_BEST}, "explanation": "all of this in words"},
    ),
    "plan": (
        "For a study the answer is an object:",
        {name: STATUS[name] for name in OF_PLAN},
    ),
    "list": (
        "The answer is a list of studies:",
        {
            "name": STATUS["name"],
            "state": f"{STATUS['state']}; or `unreadable`, a log that is damaged: `status` says how",
            **{name: STATUS[name] for name in ("best_name", "n_pulls", "n_pending", "n_events")},
            "created_at": "when it was created",
            "stopped_at": STATUS["stopped_at"],
        },
    ),
    "verify": (
        "The answer is an object:",
        {
            "ok": "whether everything was checked and agrees",
            "outcome": "`ok`, `not ok`, or `unchecked`: this version cannot check some sentences",
            "problems": "what does not agree, a list of texts",
            "unchecked": "what this version cannot check, a list of texts",
            "notes": "what else there is to know",
            "limits": "what the log cannot show, a list of texts",
            "claim": "what follows from the log, in words",
            "registrations": "for each era the hash of its first event in the log, a list",
        },
    ),
}
"""What every command writes as JSON: a heading, what it is, and the fields with their meaning."""


EXAMPLE = re.compile(r"^### ([^\n]+)\n\n(.*?)^```text\nUsage", re.MULTILINE | re.DOTALL)
"""The name of a command, and the example that stands before its help."""


def cli_page() -> str:
    """Return the page, with the examples that are on it."""
    return "\n".join([INTRODUCTION, *_commands(examples()), JSON, *_fields()])


def examples() -> dict[str, str]:
    """Return the example of each command, an empty text if there is none."""
    return dict(EXAMPLE.findall(PAGE.read_text("utf-8")))


def commands() -> Iterator[tuple[str, Any]]:
    """Yield all commands with their names, those of groups such as `token create` too."""
    from typer.main import get_command  # noqa: PLC0415 (loads slowly)

    group: Any = get_command(app)
    for name, command in group.commands.items():
        parts = getattr(command, "commands", {"": command})
        yield from ((f"{name} {part}".strip(), one) for part, one in parts.items())


def _commands(shown: Mapping[str, str]) -> Iterator[str]:
    for is_of_studies, title in ((True, "Commands of studies"), (False, "Other commands")):
        yield f"## {title}\n"
        for name, command in commands():
            if (name in COMMANDS) is is_of_studies:
                context = command.context_class(command, info_name=f"surepick {name}", terminal_width=WIDTH)
                yield f"### {name}\n\n{shown.get(name, '')}```text\n{command.get_help(context)}\n```\n"


def _fields() -> Iterator[str]:
    for name, (what, fields) in FIELDS.items():
        rows = "\n".join(f"| `{field}` | {text} |" for field, text in fields.items())
        said = f"{what}\n\n" if what else ""
        yield f"### JSON of {name}\n\n{said}| field | what |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    PAGE.write_text(cli_page(), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
