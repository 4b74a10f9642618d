"""The options of `paceline plan MODEL`, in the groups in which `--help` lists them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from paceline.foundation.capacity.model.weight_format import DTYPE_BYTES, SCHEMES
from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_0,
    AT_LEAST_1,
    NamedChoice,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def _list_catalogue(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Also without MODEL: given options are processed before one that is missing."""
    if is_wanted and not context.resilient_parsing:
        from paceline.foundation.planning.sources.catalogue import load_catalogue
        from paceline.foundation.planning.values import PlanError
        from paceline.workbench.plan.output.listing import render_listing

        try:
            click.echo(render_listing(load_catalogue(context.params.get("catalogue_file"))))
        except PlanError as error:
            raise click.UsageError(str(error)) from None
        context.exit()


_HARDWARE = (
    click.option("--gpu", help="Hardware of the catalogue, such as h100; cpu is this machine."),
    click.option("--num-gpus", type=AT_LEAST_1, help="GPUs to plan for.  [default: the fewest]"),
    click.option(
        "--tensor-parallel",
        type=AT_LEAST_1,
        help="GPUs of one replica.  [default: the size with the most tokens/s]",
    ),
)

_MODEL = (
    click.option(
        "--draft",
        default="auto",
        show_default=True,
        help="Drafter: auto, ngram, suffix, none, or a draft model.",
    ),
    click.option(
        "--acceptance",
        type=FiniteFloat(min=0, max=1, max_open=True),
        help="Probability that a draft token is accepted, from `paceline bench run`.  "
        "[default: unknown, so no gain is counted]",
    ),
    click.option(
        "--draft-quantization",
        type=NamedChoice(SCHEMES),
        help="Plan for a draft model converted to this scheme, such as awq for an INT4 draft.  "
        "[default: as it is stored]",
    ),
    click.option(
        "--draft-length-max",
        type=click.IntRange(1, 64),
        default=8,
        show_default=True,
        help="Ceiling.",
    ),
    click.option(
        "--dtype",
        type=NamedChoice(sorted(DTYPE_BYTES)),
        help="[default: the checkpoint's]",
    ),
    click.option(
        "--quantization",
        type=NamedChoice(SCHEMES),
        help="Plan for weights converted to this scheme.  [default: as the model is stored]",
    ),
)

_LOAD = (
    click.option(
        "--prompt-tokens",
        type=AT_LEAST_1,
        default=1024,
        show_default=True,
        help="Of every request.",
    ),
    click.option(
        "--output-tokens",
        type=AT_LEAST_1,
        default=256,
        show_default=True,
        help="Of every answer.",
    ),
    click.option("--concurrency", type=AT_LEAST_1, help="Requests at once per replica."),
    click.option(
        "--requests-per-day",
        type=ABOVE_0,
        help="Plan replicas for this load, mean of the day.",
    ),
    click.option(
        "--peak-factor",
        type=FiniteFloat(min=1),
        default=3.0,
        show_default=True,
        help="Rate of the busiest minutes over the mean of the day.",
    ),
    click.option(
        "--regions",
        type=AT_LEAST_1,
        default=1,
        show_default=True,
        help="With more than one, the loss of any one is survived.",
    ),
    click.option(
        "--slo-ttft-ms",
        type=ABOVE_0,
        help="Longest time to first token, waits for a slot and for other prompts included.",
    ),
    click.option(
        "--slo-percentile",
        type=FiniteFloat(min=50, max=99.9),
        default=95.0,
        show_default=True,
        help="Of the requests, which --slo-ttft-ms holds for.",
    ),
    click.option("--slo-tpot-ms", type=ABOVE_0, help="Longest time per output token, on average."),
)

_ENGINE = (
    click.option(
        "--max-model-len",
        type=click.IntRange(min=16),
        help="Longest request.  [default: 4 times the stated one, at least 8192]",
    ),
    click.option("--max-num-seqs", type=AT_LEAST_1, help="[default: vLLM's]"),
    click.option("--max-num-batched-tokens", type=AT_LEAST_1, help="[default: vLLM's]"),
    click.option(
        "--gpu-memory-utilization", type=FiniteFloat(min=0.05, max=1), help="[default: 0.9]"
    ),
    click.option(
        "--kv-cache-dtype",
        type=NamedChoice(["auto", "fp8"]),
        default="auto",
        help="auto is the format of the weights.",
    ),
    click.option(
        "--kv-cache-bytes", type=AT_LEAST_1, help="Size on each GPU, instead of the rest."
    ),
    click.option(
        "--reserve-gib",
        type=AT_LEAST_0,
        help="Activations, graphs and runtime of each GPU, instead of the estimate.",
    ),
)

_COST = (
    click.option(
        "--usd-per-gpu-hour",
        type=ABOVE_0,
        help="Your price of one GPU, in machines of any size; with --gpu cpu, of the machine.",
    ),
    click.option("--present-usd-per-month", type=AT_LEAST_0, help="Bill to compare with."),
    click.option(
        "--one-time-usd", type=AT_LEAST_0, default=0.0, help="What the change costs once."
    ),
)

_FILES = (
    click.option(
        "--list",
        is_flag=True,
        expose_value=False,
        callback=_list_catalogue,
        help="List the hardware with its prices and the well-known models, and exit.",
    ),
    click.option(
        "--catalogue",
        "catalogue_file",
        is_eager=True,  # --list shows its entries, wherever it stands
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="JSON file with your own gpus, cpus and models.",
    ),
    click.option(
        "--calibrate",
        metavar="URL",
        help="Idle server that runs MODEL on this hardware: measure its step time for 10 s first.",
    ),
    click.option(
        "--json",
        "json_file",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
        help="Write the plan as JSON; - for standard output.",
    ),
    click.option(
        "--write",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write paceline.yaml and vllm-command.txt into this folder.",
    ),
)


def plan_options(command: Command) -> Command:
    """Add every option to a command."""
    for option in reversed((*_HARDWARE, *_MODEL, *_LOAD, *_ENGINE, *_COST, *_FILES)):
        command = option(command)
    return command
