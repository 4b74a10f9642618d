"""Options that the subcommands of `paceline draft` share.

Imports nothing heavy, so that `--help` stays fast.
"""

from __future__ import annotations

import importlib.util

import click

from paceline.foundation.command_line.option_types import (
    AT_LEAST_0,
    AT_LEAST_1,
    INPUT_FILE,
    OUTPUT_FILE,
    NamedChoice,
)

TARGET = click.argument("target")
PROMPTS = click.option(
    "--prompts",
    "prompts_file",
    type=INPUT_FILE,
    required=True,
    help='Your prompts, one JSON object per line: {"messages": [...]} or {"prompt": "..."}, with '
    'optional "max_tokens"; as for paceline bench run.',
)
MAX_DRAFT_LENGTH = click.option(
    "--max-draft-length",
    type=click.IntRange(min=1, max=32),
    default=5,
    show_default=True,
    help="Draft tokens per step, as served.",
)
MAX_TOKENS = click.option(
    "--max-tokens",
    type=AT_LEAST_1,
    default=256,
    show_default=True,
    help="Longest answer to a prompt without max_tokens of its own.",
)
TEMPERATURE = click.option(
    "--temperature",
    "temperatures",
    type=AT_LEAST_0,
    multiple=True,
    help="Sampling of the target's answers; 0 is greedy. Repeatable.  [default: 0 and 1]",
)
ANSWERS = click.option(
    "--answers",
    "answers_file",
    type=OUTPUT_FILE,
    help="Keep the target's answers in this file; if it exists, they are not generated again.",
)
ENGINE = click.option(
    "--engine",
    type=NamedChoice(["transformers", "vllm"]),
    default="transformers",
    show_default=True,
    help="What generates the answers. vllm takes a minute to start and is several times as fast.",
)
DEVICE = click.option(
    "--device",
    type=NamedChoice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="auto: a GPU if torch finds one.",
)
DEFAULT_TEMPERATURES = (0.0, 1.0)
EXIT_INTERRUPTED = 130


def refuse_without_torch(command: str = "paceline draft") -> None:
    """Raise `click.ClickException` that names `command`, unless torch and transformers are
    installed.
    """
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"{command} needs {' and '.join(missing)}; install Paceline with its extra cpu or "
            "cuda, as for paceline serve"
        )
