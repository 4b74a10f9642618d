"""`paceline draft eval`: the options, and the report on the terminal and in a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    AT_LEAST_1,
    INPUT_FILE,
    JSON_FILE,
    SEED,
    refuse_unwritable_file,
)
from paceline.foundation.models.options import (
    ANSWERS,
    DEFAULT_TEMPERATURES,
    DEVICE,
    ENGINE,
    EXIT_INTERRUPTED,
    MAX_DRAFT_LENGTH,
    MAX_TOKENS,
    PROMPTS,
    TARGET,
    TEMPERATURE,
    refuse_without_torch,
)

_EXAMPLES = """\b
Examples:
  paceline draft eval Qwen/Qwen2.5-7B-Instruct --draft drafts/support --prompts mine.jsonl
      Greedy and at temperature 1, drafts of 5 tokens
  paceline draft eval MODEL --draft DRAFT --prompts mine.jsonl --temperature 0.7 --top-p 0.8 \\
      --max-draft-length 3 --json eval.json
  paceline draft eval MODEL --draft DRAFT --prompts mine.jsonl --served bench.json
      Compare with what a server counted on the same prompts (paceline bench run --json)
"""


@click.command(
    name="eval",
    help=(
        "Measure the acceptance of a drafter on your prompts, without a server: the target "
        "answers them, and one pass of both over the answers gives what vLLM would count. "
        "TARGET and --draft are model folders or Hugging Face names, or smollm2 or bundled: the "
        "model of that name, and its drafter.\n\n"
        "Exit codes: 0 measured, 1 failed, 2 wrong usage, 130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@TARGET
@click.option("--draft", required=True, help="Draft model or EAGLE-3 head to measure.")
@PROMPTS
@MAX_DRAFT_LENGTH
@TEMPERATURE
@click.option(
    "--top-p", type=FiniteFloat(min=0, max=1, min_open=True), default=1.0, show_default=True,
    help="Of the target, in sampled answers.",
)  # fmt: skip
@click.option(
    "--top-k", type=click.IntRange(min=0), default=0, show_default=True,
    help="Of the target, in sampled answers; 0: all tokens.",
)  # fmt: skip
@MAX_TOKENS
@click.option(
    "--held-out", is_flag=True,
    help="Use only the prompts that draft train holds out of this file.",
)  # fmt: skip
@click.option("--limit", type=AT_LEAST_1, help="Use the first prompts only.")
@click.option(
    "--answers-per-prompt", type=AT_LEAST_1, default=1, show_default=True,
    help="Sampled ones; more of them narrow the intervals where prompts are few.",
)  # fmt: skip
@ENGINE
@ANSWERS
@DEVICE
@SEED
@click.option(
    "--served", "served_file", type=INPUT_FILE,
    help="Report of paceline bench run on the same prompts, to compare with.",
)  # fmt: skip
@JSON_FILE
def evaluate_draft(
    temperatures: tuple[float, ...], top_p: float, top_k: int, json_file: str | None, **options: Any
) -> None:
    """Measure, show and write."""
    for flag, file in (("--json", json_file), ("--answers", options["answers_file"])):
        refuse_unwritable_file(flag, file)
    chosen = tuple(dict.fromkeys(temperatures or DEFAULT_TEMPERATURES))
    _refuse_sampling_options(chosen, top_p, top_k)
    refuse_without_torch()

    from paceline.foundation.models.interruption import stop_on_signals
    from paceline.foundation.models.progress import draft_progress
    from paceline.foundation.models.values import DraftError, Interrupted, Sampling
    from paceline.foundation.results.environment import describe_environment
    from paceline.foundation.results.files import write_document
    from paceline.workbench.draft.evaluation import (
        EvaluationOptions,
        evaluate,
        render_document,
        render_lines,
    )

    samplings = tuple(Sampling(t, top_k, top_p) if t else Sampling(0.0) for t in chosen)
    environment = asdict(describe_environment(sys.argv))
    try:
        with stop_on_signals() as stop, draft_progress() as progress:
            evaluation = evaluate(EvaluationOptions(samplings=samplings, **options), progress, stop)
    except DraftError as error:
        raise click.ClickException(str(error)) from error
    except (Interrupted, KeyboardInterrupt):
        kept = options["answers_file"]
        click.echo(
            "Interrupted."
            + (f" Repeat the command to continue with the answers in {kept}." if kept else ""),
            err=True,
        )
        sys.exit(EXIT_INTERRUPTED)
    for line in render_lines(evaluation):
        click.echo(line)
    if json_file is not None:
        try:
            write_document(Path(json_file), render_document(evaluation, environment))
        except OSError as error:
            raise click.ClickException(f"--json {json_file} cannot be written: {error}") from error


def _refuse_sampling_options(temperatures: Sequence[float], top_p: float, top_k: int) -> None:
    """Raise `click.UsageError` for options that no answer would follow."""
    if any(temperatures):
        return
    for flag, value, is_given in (("--top-p", top_p, top_p < 1), ("--top-k", top_k, top_k > 0)):
        if is_given:
            raise click.UsageError(
                f"{flag} is {value:g}, which is for sampled answers, and --temperature is 0; leave "
                f"{flag} out, or give a --temperature above 0 as well."
            )
