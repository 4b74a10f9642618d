"""`paceline draft train`: the options, and the result on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_1,
    SEED,
    NamedChoice,
    refuse_unwritable_file,
    refuse_unwritable_folder,
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

if TYPE_CHECKING:
    from paceline.foundation.models.acceptance import AcceptanceFigures, Estimate
    from paceline.workbench.draft.training import Comparison, TrainResult

_EXIT_NOT_PROMOTED = 3
_DEFAULT_MINUTES = 30.0
_HEAD_VOCABULARY = 6144
_NUM_LAYERS = 2
_HEAD_ADAM_SCALE = 0.25
"""A head's output layer is the target's: of SmolLM2, 0.26 of the drafts were right after 80 steps
at a scale of 1, 0.28 at 0.25 and 0.26 at 0.1 (observed)."""
_NEW_RATE_SCALE = 1.0
_TRAINED_RATE_SCALE = 0.3
"""Weights that are already trained take smaller steps."""
_EXAMPLES = """\b
Examples:
  paceline draft train MODEL --draft DRAFT --prompts mine.jsonl --out drafts/mine
      Adapt the present draft to your traffic, half an hour of training
  paceline draft train MODEL --prompts mine.jsonl --out drafts/new --layers 2 --minutes 120
      Cut a new draft from the target's layers
  paceline draft train MODEL --head --prompts mine.jsonl --out heads/mine --minutes 120
      Train an EAGLE-3 head for the target
  paceline draft train MODEL --draft DRAFT --prompts mine.jsonl --out drafts/mine --resume
      Continue after an interruption
  paceline serve MODEL --draft drafts/mine/draft
"""


@click.command(
    name="train",
    help=(
        "Distil a draft model on the target's own answers to your prompts. One conversation in "
        "five is held out; the new draft is promoted only if its acceptance on them is proven to "
        "be higher than that of the present draft, if there is one. TARGET and the drafts are "
        "model folders or Hugging Face names, or smollm2 or bundled: the model of that name, and "
        "its drafter.\n\n"
        "The new draft is OUT/draft, in Hugging Face layout; its paceline-provenance.json says "
        "whether it is promoted.\n\n"
        "Exit codes: 0 promoted, 3 not promoted, 1 failed, 2 wrong usage, 130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@TARGET
@PROMPTS
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="Folder for the answers, checkpoints and the new draft.",
)  # fmt: skip
@click.option(
    "--draft", help="Draft to start from.  [default: a new one, cut from the target's layers]"
)
@click.option(
    "--present", help="Draft in service, to compare with.  [default: the one that is started from]"
)
@click.option(
    "--layers", "num_layers", type=AT_LEAST_1,
    help=f"Of a new draft model.  [default: {_NUM_LAYERS}]",
)  # fmt: skip
@click.option(
    "--head", is_flag=True,
    help="Train an EAGLE-3 head, which reads the target's hidden states, instead of a draft model.",
)  # fmt: skip
@click.option(
    "--head-vocabulary", type=click.IntRange(min=64), metavar="N",
    help="Tokens that a new head can draft: the most frequent ones of the answers.  "
    f"[default: {_HEAD_VOCABULARY}]",
)  # fmt: skip
@click.option(
    "--minutes", type=ABOVE_0,
    help=f"Time for training; answers and measurements take extra time.  "
    f"[default: {_DEFAULT_MINUTES:g}]",
)  # fmt: skip
@click.option("--steps", "num_steps", type=AT_LEAST_1, help="Train that many steps instead.")
@click.option(
    "--loss", type=NamedChoice(["forward-kl", "tv"]), default="forward-kl", show_default=True,
    help="tv (total variation) is one minus the acceptance; it suits a draft that is close.",
)  # fmt: skip
@click.option(
    "--rate-scale", type=ABOVE_0,
    help=f"Factor of the learning rates.  [default: {_TRAINED_RATE_SCALE:g} with --draft, else "
    f"{_NEW_RATE_SCALE:g}]",
)  # fmt: skip
@MAX_DRAFT_LENGTH
@TEMPERATURE
@MAX_TOKENS
@ENGINE
@ANSWERS
@DEVICE
@SEED
@click.option("--resume", is_flag=True, help="Continue the training in --out.")
def train_draft(
    target: str,
    prompts_file: str,
    out: Path,
    draft: str | None,
    present: str | None,
    num_layers: int | None,
    head: bool,
    head_vocabulary: int | None,
    minutes: float | None,
    num_steps: int | None,
    loss: str,
    rate_scale: float | None,
    max_draft_length: int,
    temperatures: tuple[float, ...],
    max_tokens: int,
    engine: Any,
    answers_file: str | None,
    device: str,
    seed: int,
    resume: bool,
) -> None:
    """Train, show the comparison, and exit with the decision."""
    if minutes is not None and num_steps is not None:
        raise click.UsageError("--minutes and --steps exclude each other.")
    if head_vocabulary is not None and not head:
        raise click.UsageError("--head-vocabulary is for --head.")
    if draft is not None and head_vocabulary is not None:
        raise click.UsageError("--head-vocabulary is of a new head, and --draft continues one.")
    if num_layers is not None and (head or draft is not None):
        raise click.UsageError("--layers is for a new draft model, without --head or --draft.")
    refuse_unwritable_folder("--out", out)
    refuse_unwritable_file("--answers", answers_file)
    refuse_without_torch()

    from paceline.foundation.models.interruption import stop_on_signals
    from paceline.foundation.models.progress import draft_progress
    from paceline.foundation.models.values import DraftError, Interrupted, Sampling
    from paceline.workbench.draft.training import TrainingPlan, TrainOptions, train

    if num_steps is None and minutes is None:
        minutes = _DEFAULT_MINUTES
    if rate_scale is None:
        rate_scale = _TRAINED_RATE_SCALE if draft else _NEW_RATE_SCALE
    options = TrainOptions(
        target=target,
        draft=draft,
        present=present,
        num_layers=num_layers or _NUM_LAYERS,
        head=(head_vocabulary or _HEAD_VOCABULARY) if head else None,
        prompts_file=prompts_file,
        out=out,
        resume=resume,
        samplings=tuple(Sampling(t) for t in dict.fromkeys(temperatures or DEFAULT_TEMPERATURES)),
        max_draft_length=max_draft_length,
        max_tokens=max_tokens,
        plan=TrainingPlan(
            loss, seed, num_steps, minutes, rate_scale, _HEAD_ADAM_SCALE if head else 1.0
        ),
        device=device,
        engine=engine,
        answers_file=answers_file,
    )
    try:
        with stop_on_signals() as stop, draft_progress() as progress:
            result = train(options, progress, stop)
    except DraftError as error:
        raise click.ClickException(str(error)) from error
    except (Interrupted, KeyboardInterrupt):
        click.echo("Interrupted. Repeat the command with --resume to continue.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    for line in _lines(result):
        click.echo(line)
    sys.exit(0 if result.promotion.is_promoted else _EXIT_NOT_PROMOTED)


def _lines(result: TrainResult) -> Iterator[str]:
    state = result.state
    yield (
        f"{state.step} steps in {state.seconds / 60:.1f} minutes on the answers to "
        f"{result.num_trained} prompts; {result.num_held_out} prompts held out"
    )
    yield f"{'':<28}{'new':>9}{'present':>9}   difference"
    for sampling, comparison in result.by_sampling.items():
        yield from _comparison_lines(sampling.label, comparison)
    if len(result.by_sampling) > 1:
        yield from _comparison_lines("all", result.overall)
    verdict = "Promoted" if result.promotion.is_promoted else "Not promoted"
    yield f"{verdict}: {result.promotion.reason}."
    yield f"{result.folder}"


def _comparison_lines(label: str, comparison: Comparison) -> Iterator[str]:
    columns = [
        {} if one is None else dict(_figures(one))
        for one in (comparison.candidate, comparison.present, comparison.difference)
    ]
    yield f"{label}:"
    for name, new in columns[0].items():
        present, change = (column.get(name) for column in columns[1:])
        line = f"  {name:<26}{new.value:>9.3f}"
        if present is not None and change is not None:
            line += f"{present.value:>9.3f}   {change.value:+.3f} "
            line += f"({change.low:+.3f} to {change.high:+.3f})"
        yield line


def _figures(figures: AcceptanceFigures) -> Iterator[tuple[str, Estimate]]:
    yield "acceptance rate", figures.acceptance_rate
    yield "tokens per step", figures.acceptance_length
    for number, estimate in enumerate(figures.accepted_per_position_fraction, start=1):
        yield f"position {number}", estimate
