"""The command `egmm`: `demo`, `fit`, `predict`, `select`, `compare`, `segment`, `data`, `reproduce`, `info`."""

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect."""


def main() -> None:
    """Run the command line; what the installed command ``egmm`` calls."""
    try:
        from egmm.cli.app import app  # noqa: PLC0415 - typer and rich are an extra

        app(prog_name="egmm")
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit("The command line needs typer and rich: pip install 'egmm[cli]'.")
        raise
    except KeyboardInterrupt:
        # Imports take half a second, before any command can tell.
        sys.stderr.write("Error: Stopped; nothing was written.\n")
        sys.exit(INTERRUPTED)
