"""The command group `paceline draft`.

The module of a subcommand is imported on use, and torch only when it is executed.
"""

from __future__ import annotations

import importlib

import click

# Name -> (module, attribute, one line for --help).
_SUBCOMMANDS = {
    "eval": (
        "paceline.workbench.draft.eval_command",
        "evaluate_draft",
        "Measure the acceptance of a draft on your prompts.",
    ),
    "swap": (
        "paceline.workbench.draft.swap_command",
        "swap_draft",
        "Replace the draft of a running server's engines.",
    ),
    "train": (
        "paceline.workbench.draft.train_command",
        "train_draft",
        "Distil a draft on the target's own answers to your prompts.",
    ),
    "train-eagle3": (
        "paceline.workbench.draft.eagle3_command",
        "train_eagle3",
        "Train an EAGLE-3 head through speculators, on GPUs.",
    ),
}


class _Subcommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        module, attribute, _ = _SUBCOMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            rows = [(name, line) for name, (_, _, line) in sorted(_SUBCOMMANDS.items())]
            formatter.write_dl(rows)


@click.group(
    name="draft",
    cls=_Subcommands,
    epilog="""\b
Examples:
  paceline draft eval MODEL --draft DRAFT --prompts mine.jsonl --json eval.json
      Acceptance by position on your prompts, without a server
  paceline draft train MODEL --draft DRAFT --prompts mine.jsonl --out drafts/mine
      Adapt the draft to your traffic; promoted only on a proven gain
  paceline draft swap drafts/mine/draft
      Serve it instead of the present one, without losing a request
""",
)
def draft() -> None:
    """Measure, train and replace the draft model of a target on your own traffic."""
