"""`paceline draft train-eagle3`: the options, the checks, and the run of speculators."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_1,
    SEED,
    refuse_unwritable_folder,
)
from paceline.foundation.models.options import (
    DEFAULT_TEMPERATURES,
    EXIT_INTERRUPTED,
    MAX_TOKENS,
    PROMPTS,
    TARGET,
    TEMPERATURE,
    refuse_without_torch,
)

_EXAMPLES = """\b
Examples:
  paceline draft train-eagle3 MODEL --prompts mine.jsonl --out heads/mine \\
      --speculators ~/speculators --speculators-python ~/speculators/.venv/bin/python
  paceline draft train-eagle3 MODEL --prompts mine.jsonl --out heads/mine --dry-run \\
      --speculators ~/speculators --speculators-python ~/speculators/.venv/bin/python
      Check the arguments and print the commands; needs no GPU
"""


@click.command(
    name="train-eagle3",
    help=(
        "Train an EAGLE-3 head for TARGET on its own answers to your prompts, through the package "
        "speculators. Needs GPUs. speculators is installed in an environment of its own, from a "
        "checkout of github.com/vllm-project/speculators.\n\n"
        "Exit codes: 0 trained, 1 failed, 2 wrong usage, 130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@TARGET
@PROMPTS
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="Folder for the answers, the data and the checkpoints.",
)  # fmt: skip
@click.option(
    "--speculators", "checkout", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="Checkout of speculators.",
)  # fmt: skip
@click.option(
    "--speculators-python", type=click.Path(dir_okay=False, path_type=Path), required=True,
    help="Interpreter of its environment.",
)  # fmt: skip
@click.option(
    "--vllm-gpus", default="0", show_default=True, metavar="LIST",
    help="GPUs that compute the target's hidden states.",
)  # fmt: skip
@click.option(
    "--train-gpus", default="1", show_default=True, metavar="LIST", help="GPUs that train."
)
@click.option(
    "--draft-vocab-size", type=AT_LEAST_1,
    help="Most frequent tokens that the head proposes.  [default: all]",
)  # fmt: skip
@click.option("--epochs", type=AT_LEAST_1, default=5, show_default=True)
@click.option("--learning-rate", type=ABOVE_0, default=1e-4, show_default=True)
@click.option(
    "--seq-length", type=AT_LEAST_1, default=2048, show_default=True,
    help="Longest prompt with its answer.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(min=1, max=65535), default=8100, show_default=True,
    help="Of the vLLM server, on 127.0.0.1.",
)  # fmt: skip
@MAX_TOKENS
@TEMPERATURE
@SEED
@click.option("--dry-run", is_flag=True, help="Check, print the commands and stop.")
def train_eagle3(
    target: str,
    prompts_file: str,
    out: Path,
    checkout: Path,
    speculators_python: Path,
    vllm_gpus: str,
    train_gpus: str,
    draft_vocab_size: int | None,
    epochs: int,
    learning_rate: float,
    seq_length: int,
    port: int,
    max_tokens: int,
    temperatures: tuple[float, ...],
    seed: int,
    dry_run: bool,
) -> None:
    """Check, answer the prompts, write the script, and execute it."""
    refuse_unwritable_folder("--out", out)
    refuse_without_torch()

    from paceline.foundation.models.models import find_folder
    from paceline.foundation.models.values import DraftError, Interrupted, Sampling
    from paceline.workbench.draft.eagle3 import (
        Eagle3Plan,
        check_run,
        execute_run,
        parse_gpus,
        script_of,
    )

    samplings = tuple(Sampling(t) for t in dict.fromkeys(temperatures or DEFAULT_TEMPERATURES))
    try:
        plan = Eagle3Plan(
            target=find_folder(target).absolute(),
            out=out.absolute(),
            checkout=checkout.absolute(),
            speculators_python=speculators_python.absolute(),
            vllm_python=Path(sys.executable),
            vllm_gpus=parse_gpus(vllm_gpus),
            train_gpus=parse_gpus(train_gpus),
            draft_vocab_size=draft_vocab_size,
            epochs=epochs,
            learning_rate=learning_rate,
            seq_length=seq_length,
            port=port,
            seed=seed,
        )
        prompts = check_run(plan, Path(prompts_file), max_tokens)
        if dry_run:
            click.echo(script_of(plan), nl=False)
            return
        sys.exit(execute_run(plan, prompts, samplings))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except DraftError as error:
        raise click.ClickException(str(error)) from error
    except (Interrupted, KeyboardInterrupt):
        click.echo("Interrupted. Repeat the command to continue.", err=True)
        sys.exit(EXIT_INTERRUPTED)
