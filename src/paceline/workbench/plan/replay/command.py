"""The command `paceline plan replay RECORDING`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import ABOVE_0, SEED, refuse_unwritable_file
from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.foundation.planning.values import PlanError
from paceline.foundation.recording.reading import Recording, RecordingUnusable, read_recording
from paceline.runtime.governor.policy import Policy
from paceline.runtime.policy_registry import create_policy, policy_names
from paceline.workbench.plan.replay.closed_loop import closed_loop_size
from paceline.workbench.plan.replay.hardware_choice import HardwareChoice, choose_scaling
from paceline.workbench.plan.replay.output import recorded_figures, render_replay, replay_document
from paceline.workbench.plan.replay.prediction import Setting, predict
from paceline.workbench.plan.replay.values import (
    DEFAULT_REPLICATES,
    DEFAULT_SECONDS,
    MIN_REPLICATES,
    parse_load,
)

_MOST_LENGTH = 64
_EXAMPLES = """\b
Examples:
  paceline plan replay engine-0.recording.jsonl
      The recorded traffic again, under the recorded policy
  paceline plan replay engine-0.recording.jsonl --draft-length 3
  paceline plan replay engine-0.recording.jsonl --load closed:32 --draft-length off
  paceline plan replay engine-0.recording.jsonl --load 2x --json replay.json
  paceline plan replay engine-0.recording.jsonl --drafter-acceptance other.recording.jsonl
      With the drafter of another recording: 200 requests on the same machine are enough
  paceline plan replay engine-0.recording.jsonl --model Qwen/Qwen2.5-7B-Instruct \\
      --recorded-on l4 --gpu h100
"""


@click.command(
    "replay",
    help="Predict what another draft length, drafter, load or machine would give.\n\n"
    "RECORDING is a file that `paceline record` made of a running engine. The figures are those of "
    "one replica, with a 90 % interval; how often measurements fall into it was checked for the "
    "throughput of simulated engines only. docs/how-to/replay.md states how the figures are "
    "computed, and what they leave out.",
    epilog=_EXAMPLES,
)
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--draft-length",
    metavar="K|off|POLICY",
    help="A fixed draft length, off, or a policy such as goodput.  [default: the recorded policy]",
)
@click.option(
    "--load",
    "load_text",
    metavar="LOAD",
    help="recorded (the same arrivals), 2x (at twice the rate), 12/s, or closed:32 (always 32 "
    "requests).  [default: recorded; for a recorded closed loop, one of as many requests]",
)
@click.option(
    "--drafter-acceptance",
    "drafter_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A recording of another drafter with the same target on the same machine.",
)
@click.option(
    "--gpu", help="Hardware of the catalogue to predict for; needs --recorded-on, --model."
)
@click.option(
    "--num-gpus", type=click.IntRange(min=1), default=1, help="GPUs of one replica there."
)
@click.option("--recorded-on", metavar="NAME", help="Hardware that the recording was made on.")
@click.option(
    "--recorded-num-gpus",
    type=click.IntRange(min=1),
    default=1,
    help="GPUs of one replica there, for the price too.",
)
@click.option("--model", help="The target model, as of `paceline plan`.")
@click.option(
    "--draft", default="none", show_default=True, help="Draft model, as of `paceline plan`."
)
@click.option(
    "--usd-per-gpu-hour",
    type=ABOVE_0,
    help="Your price of one GPU; a replica costs that of --num-gpus with --gpu, else of "
    "--recorded-num-gpus.",
)
@click.option(
    "--catalogue",
    "catalogue_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file with your own gpus, cpus and models.",
)
@click.option(
    "--seconds",
    type=FiniteFloat(min=1, max=86_400),
    default=DEFAULT_SECONDS,
    show_default=True,
    help="Most virtual seconds of each run, from a random point of the recording.",
)
@click.option(
    "--replicates",
    type=click.IntRange(MIN_REPLICATES, 1000),
    default=DEFAULT_REPLICATES,
    show_default=True,
    help="Simulated runs, which the interval is computed from.",
)
@SEED
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write the prediction as JSON; - for standard output.",
)
def replay(recording: Path, json_file: Path | None, **options: Any) -> None:
    """Parse the options, predict, show and write."""
    refuse_unwritable_file("--json", json_file)
    try:
        document = _replay(recording, options)
    except (RecordingUnusable, PlanError) as error:
        raise click.UsageError(str(error)) from None
    if json_file is not None:
        text = json.dumps(document, indent=1) + "\n"
        if str(json_file) == "-":
            click.echo(text, nl=False)
            return
        json_file.write_text(text, encoding="utf-8")
    click.echo(render_replay(document))


def _replay(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    recording = read_recording(file)
    drafter_file = options["drafter_file"]
    other = None if drafter_file is None else read_recording(drafter_file)
    make_policy, name, longest = choose_policy(recording, options["draft_length"])
    num_clients = closed_loop_size(recording.requests)
    load = parse_load(
        options["load_text"], recorded_figures(recording)["requests_per_s"], num_clients
    )
    hardware = choose_scaling(
        HardwareChoice(
            gpu=options["gpu"],
            num_gpus=options["num_gpus"],
            recorded_on=options["recorded_on"],
            recorded_num_gpus=options["recorded_num_gpus"],
            model=options["model"],
            draft=options["draft"],
            usd_per_hour=options["usd_per_gpu_hour"],
        ),
        load_catalogue(options["catalogue_file"]),
    )
    setting = Setting(
        make_policy=make_policy,
        max_draft_length=longest,
        load=load,
        other_drafter=other,
        scale_cost=hardware.scale_cost,
        scale_deviation=hardware.deviation,
        usd_per_hour=hardware.usd_per_hour,
        seconds=options["seconds"],
        num_replicates=options["replicates"],
        seed=options["seed"],
    )
    prediction = predict(recording, setting, _progress(options["replicates"]))
    described = {
        "draft length": name,
        "load": str(load)
        if options["load_text"] is not None or num_clients is None
        else f"{load}, as the recorded closed loop",
        "drafter": (other or recording).header.method,
        "hardware": hardware.description,
        "usd_per_hour": hardware.usd_per_hour,
    }
    return replay_document(recording, described, prediction)


def choose_policy(
    recording: Recording, given: str | None
) -> tuple[Callable[[int, CostTable | None], Policy], str, int]:
    """Return what makes the policy, its name, and the ceiling. Raises `PlanError`.

    `given`: the option --draft-length.
    """
    header = recording.header
    given = header.policy if given is None else given
    if given == "off":
        given = "0"
    if given.isdigit():
        length = int(given)
        if length > _MOST_LENGTH:
            raise PlanError(
                f"--draft-length is {length}; it must be from 0 (off) to {_MOST_LENGTH}"
            )
        allowed = header.allowed_lengths
        if allowed is not None and length not in allowed:
            raise PlanError(
                f"--draft-length is {length}, which has no CUDA graphs in the recorded engine; "
                f"it must be one of {', '.join(map(str, allowed))}"
            )
        return lambda *_: create_policy("fixed", max_draft_length=length), str(length), length
    if given not in policy_names():
        raise PlanError(
            f"--draft-length is {given!r}; it must be a number, off, or one of "
            f"{', '.join(policy_names())}"
        )
    if given in ("fixed", "schedule"):
        raise PlanError(
            f"the policy {given} needs its parameters, which a recording does not hold: give the "
            "length, as --draft-length 3, or an adaptive policy, as --draft-length goodput"
        )
    return (
        lambda ceiling, table: create_policy(given, max_draft_length=ceiling, cost_table=table),
        given,
        header.max_draft_length,
    )


def _progress(total: int) -> Callable[[int], None]:
    """Show the number of replicates done on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda done: None

    def show(done: int) -> None:
        end = "\r" if done < total else "\r\033[K"
        click.echo(f"replicate {done} of {total}{end}", err=True, nl=False)

    return show
