"""All commands about studies, in the order in which one meets them."""

import typer

from surepick.app.studies import keeping, looking, measuring, mending

TITLE = "Studies, kept in a file for many hands and days"

COMMANDS = {
    "create": measuring.create,
    "ask": measuring.ask,
    "tell": measuring.tell,
    "fail": measuring.fail,
    "pending": measuring.pending,
    "status": looking.status,
    "best": looking.best,
    "measurements": mending.measurements,
    "void": mending.void,
    "correct": mending.correct,
    "restore": mending.restore,
    "audit": mending.audit,
    "reopen": mending.reopen,
    "report": looking.report,
    "certificate": looking.certificate,
    "verify": looking.verify,
    "anchor": looking.anchor,
    "export": keeping.export,
    "import": keeping.import_command,
    "list": keeping.list_command,
    "copy": keeping.copy,
    "delete": keeping.delete,
}
TAKE_NEGATIVE_NUMBERS = ("tell", "correct")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for name, command in COMMANDS.items():
        settings = measuring.NUMBERS_AS_ARGUMENTS if name in TAKE_NEGATIVE_NUMBERS else None
        app.command(name, context_settings=settings)(command)
