"""All commands about studies, in the order in which one meets them."""

import typer

from surepick.cli.studies import admin, ask_tell, corrections, inspect

TITLE = "Studies, kept in a file for many hands and days"

COMMANDS = {
    "create": ask_tell.create,
    "ask": ask_tell.ask,
    "tell": ask_tell.tell,
    "fail": ask_tell.fail,
    "pending": ask_tell.pending,
    "status": inspect.status,
    "best": inspect.best,
    "measurements": corrections.measurements,
    "void": corrections.void,
    "correct": corrections.correct,
    "restore": corrections.restore,
    "audit": corrections.audit,
    "reopen": corrections.reopen,
    "report": inspect.report,
    "certificate": inspect.certificate,
    "verify": inspect.verify,
    "anchor": inspect.anchor,
    "export": admin.export,
    "import": admin.import_command,
    "list": admin.list_command,
    "copy": admin.copy,
    "delete": admin.delete,
}
TAKE_NEGATIVE_NUMBERS = ("tell", "correct")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for name, command in COMMANDS.items():
        settings = ask_tell.NUMBERS_AS_ARGUMENTS if name in TAKE_NEGATIVE_NUMBERS else None
        app.command(name, context_settings=settings)(command)
