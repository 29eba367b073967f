"""Help that a person can read: values by their names, options in groups."""

from typing import Any

from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from egmm.cli import options as o


def _no_type(ctx: Any) -> str:  # noqa: ARG001
    return ""


class _Flags:
    """Help that names the values of options; a flag has none, and an argument is its own name."""

    def get_params(self, ctx: Any) -> Any:
        """Options and arguments, without Python types such as <str>."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            if param.param_type_name == "argument":
                param.display_type_rich = _no_type
        return params


class Command(_Flags, TyperCommand):
    """A command with readable help."""


class FitCommand(Command):
    """The command that fits; its help lists the options of the paper's model separately."""

    def get_params(self, ctx: Any) -> Any:
        """Options in their groups."""
        params = super().get_params(ctx)
        for param in params:
            if param.name in o.PAPER_OPTIONS:
                param.rich_help_panel = o.PAPER
        return params


class Commands(_Flags, TyperGroup):
    """The list of commands, likewise."""


def examples(*commands: str) -> str:
    """Examples below the help, one per line."""
    return "\n\n".join(["[bold]Examples[/bold]", *(escape(command) for command in commands)])
