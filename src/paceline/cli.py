"""The command `paceline`: the table of its subcommands.

The module of a subcommand is imported on use, so that `paceline --help` is fast.
"""

from __future__ import annotations

import importlib

import click

import paceline
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.command_line.printable import printable_lines

# Name → (module, attribute, one line for `paceline --help`).
_COMMANDS = {
    "audit": (
        "paceline.workbench.audit.command",
        "audit",
        "Is a served model's speculation lossless?",
    ),
    "bench": ("paceline.workbench.bench.command", "bench", "Measure a served model."),
    "capture": (
        "paceline.operations.capture_command",
        "capture",
        "Show and delete captured prompts.",
    ),
    "cost": (
        "paceline.workbench.cost.command",
        "cost",
        "Turn a measurement into dollars per token.",
    ),
    "deploy": (
        "paceline.operations.deploy.command",
        "deploy",
        "Write Kubernetes manifests of three tiers.",
    ),
    "doctor": (
        "paceline.operations.doctor.command",
        "doctor",
        "Find what is wrong with a deployment, and its cost.",
    ),
    "draft": (
        "paceline.workbench.draft.command",
        "draft",
        "Measure, train and replace a draft model.",
    ),
    "governor": (
        "paceline.operations.governor_command",
        "governor",
        "Show and change the governor of a server.",
    ),
    "keys": ("paceline.runtime.gateway.keys.command", "keys", "Create, list and revoke API keys."),
    "plan": (
        "paceline.workbench.plan.command",
        "plan",
        "Plan memory, speed, replicas and cost of a model.",
    ),
    "quality": (
        "paceline.workbench.quality.command",
        "quality",
        "Compare a quantized model with the original.",
    ),
    "quantize": (
        "paceline.workbench.quantize.command",
        "quantize",
        "Quantize a model into a folder that vLLM loads.",
    ),
    "record": (
        "paceline.operations.record_command",
        "record",
        "Record a running server for plan replay.",
    ),
    "render": (
        "paceline.operations.monitoring.command",
        "render",
        "Write alert rules and dashboards.",
    ),
    "serve": (
        "paceline.runtime.serve.command",
        "serve",
        "Serve a model with governed speculative decoding.",
    ),
    "top": ("paceline.operations.top.command", "top", "Watch a running server in the terminal."),
    "tune": (
        "paceline.workbench.tune.command",
        "tune",
        "Find the configuration with the most goodput per $.",
    ),
    "validate": (
        "paceline.operations.validate.command",
        "validate",
        "Execute the pre-deployment checklist.",
    ),
    "mock-vllm": (
        "paceline.testing.mock_vllm.command",
        "mock_vllm",
        "Run a mock vLLM server, without a model.",
    ),
}


class _LazyGroup(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Errors may quote a server, or a file, so they are cleaned for a terminal here."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _as_argument(error) from None
        except click.ClickException as error:
            vars(error)["message"] = printable_lines(error.message)  # click declares it final
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = did_you_mean(args[0], _COMMANDS) or "; paceline --help lists the commands"
            raise click.UsageError(f"No such command {args[0]!r}{near}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in sorted(_COMMANDS.items())])


def _as_argument(error: click.NoSuchOption) -> click.UsageError:
    """The error, better explained where the name is that of an argument: `bench run --url URL`."""
    command = None if error.ctx is None else error.ctx.command
    for one in () if command is None else command.params:
        if isinstance(one, click.Argument) and f"--{one.name}" == error.option_name:
            assert error.ctx is not None
            shown = one.make_metavar(error.ctx).strip("[]")
            path = error.ctx.command_path
            return click.UsageError(
                f"{error.option_name} is no option here; give {shown} without it: {path} {shown}",
                error.ctx,
            )
    return error


@click.group(
    cls=_LazyGroup,
    epilog="paceline COMMAND --help shows a command's flags and examples.",
)
@click.version_option(paceline.__version__, prog_name="paceline")
def main() -> None:
    """Serve open-weight language models with vLLM and lossless, adaptive speculative decoding.

    \b
    Examples:
      paceline serve
          Serve a small chat model on http://127.0.0.1:8000
      paceline bench run
          Measure the server
    """
