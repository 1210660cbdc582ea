"""The entry of `surepick` and of `python -m surepick`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from surepick.app.cli import main as command_line  # noqa: PLC0415 (its packages are optional)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(f"surepick: the command line needs {error.name}; install it with: pip install 'surepick[app]'")
    sys.exit(command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
