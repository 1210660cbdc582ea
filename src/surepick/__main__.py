"""The entry of `surepick` and of `python -m surepick`."""

import sys

INTERRUPTED = 3
"""Exit code after Ctrl-C, as `Code.NOT_STOPPED`, which may not be loaded yet."""


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from surepick.cli.main import main as command_line  # noqa: PLC0415 (its packages are optional)
    except KeyboardInterrupt:
        sys.stderr.write("surepick: interrupted\n")
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(f"surepick: the command line needs {error.name}; install it with: pip install 'surepick[app]'")
    sys.exit(command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
