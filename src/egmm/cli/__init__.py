"""The command `egmm`: `demo`, `fit`, `predict`, `select`, `compare`, `segment`, `reproduce`, `info`."""

import sys


def main() -> None:
    """Run the command line; what the installed command ``egmm`` calls."""
    try:
        from egmm.cli.app import app  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit("The command line needs typer and rich: pip install 'egmm[cli]'.")
        raise
    app(prog_name="egmm")
