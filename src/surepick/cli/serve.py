"""Commands of the server: serve, tokens of those who may use it, and tools for agents."""

import gc
import logging
import shlex
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._files import lock
from surepick.cli.options import Output, says
from surepick.cli.output import Code, Format
from surepick.cli.studies import DEFAULT, OF_STORAGE, OF_STUDY, StorageOptions, printing
from surepick.errors import InvalidInput, SurepickError
from surepick.study.tokens import Role, new_token

if TYPE_CHECKING:
    from surepick.study.storage.base import ServerStorage, TokenRow

PATIENCE = 60_000
"""Milliseconds for which a client may leave an answer unread."""
NEW_OBJECTS = 50_000
"""Objects after which Python looks for garbage: a server keeps nearly all, and every 700 it would look in vain."""
OF_TOKENS = ("id", "role", "study", "label", "created_at", "revoked_at")

Place = Annotated[
    str | None,
    says(f"Where studies are kept: a file, or the URL of a database (default: {DEFAULT}).", envvar=OF_STORAGE),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of the server to the command line."""
    app.command("serve")(serve)
    tokens = typer.Typer(help="Tokens: who may use a server, and for what.", rich_markup_mode=None)
    for name, function in (("create", create_token), ("list", list_tokens), ("revoke", revoke_token)):
        tokens.command(name)(function)
    app.add_typer(tokens, name="token")
    app.command("mcp")(mcp)


# ---- serve


def serve(
    *,
    storage: Place = None,
    host: Annotated[str, says("Address to listen at; another than this machine's own needs tokens.")] = "127.0.0.1",
    port: Annotated[int, says("Port to listen at; 0 takes any free port.", min=0, max=65_535)] = 8080,
    root_path: Annotated[str, says("Prefix of all addresses behind a proxy, such as /lab.")] = "",
) -> int:
    """Serve studies to browsers, robots and other machines: dashboard and JSON interface. Ctrl-C ends."""
    _check_installed()
    from surepick.server.app import Server, ServerSettings  # noqa: PLC0415 (`--help` stays quick)

    logging.basicConfig(format="%(levelname)s: %(message)s")
    place = StorageOptions(storage=storage)
    # The address of a database may have a password, which is not shown.
    told = (
        "" if storage is None else " --storage ADDRESS" if place.file is None else f" --storage {shlex.quote(storage)}"
    )
    if place.file is not None and not place.file.exists():
        _check_tokens([], host, told)  # a start that is refused makes no file
    prefix = f"/{root_path.strip('/')}" if root_path.strip("/") else ""
    with _token_storage(storage, may_create=True) as kept, _only_server(place), _listening(host, port) as listening:
        _check_tokens(kept.tokens(), host, told)
        port = listening.getsockname()[1]
        server = Server(ServerSettings(storage=place.address, host=host, port=port, root_path=prefix))
        here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (what no browser opens)
        shown = f"[{here}]" if ":" in here else here
        elsewhere = "" if here == host else f" Elsewhere, write the name or address of this machine for {shown}."
        printing.say(f"Studies of {kept.address} are at http://{shown}:{port}{prefix}; Ctrl-C ends.{elsewhere}")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn hands a signal on once it has ended
        gc.set_threshold(NEW_OBJECTS)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    printing.say("The server has ended. Every acknowledged result is kept.")
    return Code.OK


def _check_installed() -> None:
    from importlib.util import find_spec  # noqa: PLC0415

    if missing := [name for name in ("fastapi", "uvicorn", "prometheus_client", "httpx") if find_spec(name) is None]:
        raise SurepickError(f"a server needs {missing[0]}, which is not installed; pip install 'surepick[server]'.")


@contextmanager
def _only_server(place: StorageOptions) -> Iterator[None]:
    """Keep a second server from the same file: it would not hear of what the first one writes."""
    if place.file is None:
        yield
        return
    path = place.file.with_name(f".{place.file.name}.serving")
    with path.open("a") as file:
        if not lock(file.fileno()):
            raise SurepickError(f"another server has {place.file} already; use that one, or a PostgreSQL database.")
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, small answers are sent at once (TCP_NODELAY).
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInput(f"--host must be an address of this machine, got {host!r}: {error.strerror}.") from error
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # a client that does not read its answer is let go of
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE)
        try:
            listening.bind(address)
            listening.listen(2048)
        except OSError as error:
            said = error.strerror or str(error)
            raise InvalidInput(f"cannot listen at {host}, port {port}: {said}; choose another --port.") from error
        yield listening


def _check_tokens(tokens: "Sequence[TokenRow]", host: str, where: str) -> None:
    """Refuse to serve other machines without tokens; `where` says of the storage what the command line said."""
    from surepick.server.tokens import is_loopback  # noqa: PLC0415 (needs the server's packages)

    if not is_loopback(host) and all(token.revoked_at is not None for token in tokens):
        raise InvalidInput(
            f"--host {host} lets other machines in, and there is no token that says who may do what; create one: "
            f"surepick token create{where} --role admin. Or leave out --host."
        )


# ---- tokens


@contextmanager
def _token_storage(storage: str | None, *, may_create: bool = False) -> "Iterator[ServerStorage]":
    from surepick.study.storage.base import ServerStorage  # noqa: PLC0415 (`--help` stays quick)

    with StorageOptions(storage=storage).opened(may_create=may_create) as place:
        if not isinstance(place, ServerStorage):
            raise InvalidInput(f"a server and its tokens need a file or a database, got {place.address}.")
        yield place


def create_token(
    *,
    role: Annotated[Role, says("read shows studies; tell also asks and tells; admin also creates and deletes.")],
    study: Annotated[str | None, says("Only for this study (default: all).")] = None,
    label: Annotated[str, says("Holder of the token, such as robot-1; the log names the holder as author.")] = "",
    storage: Place = None,
    output: Output = Format.TABLE,
) -> int:
    """Create a token. Its secret is shown once."""
    with _token_storage(storage, may_create=study is None) as place:
        if study is not None:
            place.n_events(study)  # a study of that name exists
        row, secret = new_token(role, study=study, label=label)
        place.add_token(row)
    if output is not Format.TABLE:
        printing.write(output, {**_record(row), "token": secret}, [{**_record(row), "token": secret}])
        return Code.OK
    printing.say(f"Token {row.id} for {'all studies' if study is None else f'study {study}'}, role {row.role}:")
    printing.say(secret)
    printing.say(
        "Keep the token: surepick does not show it again. Robots send it as `Authorization: Bearer ...`; "
        "people sign in."
    )
    return Code.OK


def list_tokens(*, storage: Place = None, output: Output = Format.TABLE) -> int:
    """List the tokens of a storage. Secrets are not kept, and so not shown."""
    with _token_storage(storage) as place:
        rows = [_record(row) for row in place.tokens()]
    if output is not Format.TABLE:
        printing.write(output, rows, titles=OF_TOKENS)
    elif rows:
        titles = ("id", "role", "study", "label", "created", "revoked")
        printing.show(titles, [[one if (one := row[name]) else "-" for name in OF_TOKENS] for row in rows])
    else:
        printing.say("There are no tokens: a server is open to this machine alone. Next: surepick token create")
    return Code.OK


def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, see surepick token list.")],
    *,
    storage: Place = None,
) -> int:
    """Revoke a token: within a second no server takes it any more."""
    from surepick.study import events  # noqa: PLC0415 (`--help` stays quick)

    with _token_storage(storage) as place:
        place.revoke_token(token, events.written(events.now()))
    printing.say(f"Token {token} is revoked.")
    return Code.OK


def _record(row: Any) -> dict[str, Any]:
    """Return a token for a program, without the hash of its secret."""
    return {name: getattr(row, name) for name in OF_TOKENS}


# ---- agents


def mcp(
    *,
    storage: Annotated[
        str | None,
        says(
            f"Where studies are kept: a file, the URL of a database, or the address of a server (default: {DEFAULT}).",
            envvar=OF_STORAGE,
        ),
    ] = None,
    study: Annotated[
        str | None, says("Study that calls without a name are about (default: the only one).", envvar=OF_STUDY)
    ] = None,
) -> int:
    """Offer a study to agents as tools (MCP) over standard input and output: ask, tell, status, best and others."""
    try:
        from surepick.server.mcp import create_mcp  # noqa: PLC0415 (optional)
    except ModuleNotFoundError as error:
        raise SurepickError(f"tools for agents need {error.name}; pip install 'surepick[mcp]'.") from error
    place = StorageOptions(storage=storage)
    with place.opened():  # what cannot be opened is said now
        create_mcp(place.address, study).run("stdio", show_banner=False)
    return Code.OK
