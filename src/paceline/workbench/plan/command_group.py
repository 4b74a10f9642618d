"""A group of commands whose first argument may be a model instead of a subcommand."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class ModelOrSubcommand(click.Group):
    """Selects a subcommand by its name; takes anything else for arguments of `model_command`.

    The modules of the subcommands are imported on use, because they are slow to import.
    """

    def __init__(
        self,
        *,
        model_command: click.Command,
        subcommands: Mapping[str, tuple[str, str]],
        **extra: Any,
    ) -> None:
        """`subcommands`: the module and the attribute of each."""
        super().__init__(**extra)
        self._model_command = model_command
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands."""
        return sorted({*self.commands, *self._subcommands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name."""
        if cmd_name not in self._subcommands or cmd_name in self.commands:
            return self.commands.get(cmd_name)
        module, attribute = self._subcommands[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the group for a subcommand, else that of the model's command."""
        if args and (args[0] in self.commands or args[0] in self._subcommands):
            return super().make_context(info_name, args, parent=parent, **extra)
        return self._model_command.make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run what `make_context` selected."""
        if ctx.command is self._model_command:
            return self._model_command.invoke(ctx)
        return super().invoke(ctx)
