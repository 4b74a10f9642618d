"""The command `paceline cost`: parse the options, calculate, show and write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_1,
    refuse_unwritable_file,
)

_EXAMPLES = """\b
Examples:
  paceline cost run.json --usd-per-hour 2.50
  paceline cost run.json --usd-per-hour 2.50 --utilization 0.6 \\
      --requests-per-day 500000 --peak-factor 2.5
  paceline cost run.json --gpu h100 --machines 8
  paceline cost paceline.json --usd-per-hour 2.50 --baseline plain-vllm.json --json cost.json
"""


@click.command(
    name="cost",
    help=(
        "Turn a measurement and the price of the machine into dollars per 1M tokens.\n\n"
        "FILE is the JSON of paceline bench run. Measure the load that you expect, at the "
        "concurrency that still meets your latency limits: the price holds for that load only. "
        "All assumptions are printed."
    ),
    epilog=_EXAMPLES,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--usd-per-hour",
    type=ABOVE_0,
    help="Price of one machine in US dollars per hour.",
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="Take the price from the catalogue of paceline plan; one GPU counts as one machine.",
)
@click.option(
    "--machines",
    "num_machines",
    type=AT_LEAST_1,
    default=1,
    show_default=True,
    help="Machines that the measured server ran on.",
)
@click.option(
    "--utilization",
    type=FiniteFloat(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Largest fraction of the measured rate that the machines may carry, at the peak.",
)
@click.option("--requests-per-day", type=ABOVE_0, help="Load for the cost per month.")
@click.option(
    "--peak-factor",
    type=FiniteFloat(min=1),
    default=1.0,
    show_default=True,
    help="Peak over mean of that load.",
)
@click.option(
    "--baseline",
    "baseline_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON of another run, to state the savings against.",
)
@click.option(
    "--baseline-usd-per-hour",
    type=ABOVE_0,
    help="Price of one machine of the baseline.  [default: the same]",
)
@click.option(
    "--baseline-machines",
    "baseline_num_machines",
    type=AT_LEAST_1,
    help="Machines of the baseline.  [default: the same]",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to this file.",
)
def cost(
    file: Path,
    baseline_file: Path | None,
    json_file: Path | None,
    usd_per_hour: float | None,
    gpu: str | None,
    **options: Any,
) -> None:
    """Read, calculate, show and write."""
    from paceline.workbench.cost.assumptions import CostInputs
    from paceline.workbench.cost.measured import MeasurementUnusable, read_measurement
    from paceline.workbench.cost.report import calculate, render_document, render_lines

    refuse_unwritable_file("--json", json_file)
    for flag in ("baseline_usd_per_hour", "baseline_num_machines"):
        if options[flag] is not None and baseline_file is None:
            raise click.UsageError("The price of a baseline needs --baseline FILE.")
    if options["peak_factor"] != 1 and options["requests_per_day"] is None:
        raise click.UsageError("--peak-factor needs --requests-per-day.")
    if (usd_per_hour is None) == (gpu is None):
        raise click.UsageError("Give the price as either --usd-per-hour or --gpu NAME.")
    try:
        mine = read_measurement(file)
        baseline = None if baseline_file is None else read_measurement(baseline_file)
    except MeasurementUnusable as error:
        raise click.ClickException(str(error)) from error
    price, source = _price(usd_per_hour, gpu)
    inputs = CostInputs(usd_per_hour=price, price_source=source, **options)
    report = calculate(inputs, mine, baseline)
    for line in render_lines(report):
        click.echo(line)
    if json_file is not None:
        text = json.dumps(render_document(report), indent=2) + "\n"
        json_file.write_text(text, encoding="utf-8")


def _price(usd_per_hour: float | None, gpu: str | None) -> tuple[float, str | None]:
    """The price of a machine and where it comes from."""
    if usd_per_hour is not None:
        return usd_per_hour, None
    assert gpu is not None
    from paceline.foundation.planning.sources.catalogue import load_catalogue

    priced = {entry.hardware.name: entry for entry in load_catalogue().priced_gpus()}
    entry = priced.get(gpu.lower())
    if entry is None:
        raise click.UsageError(
            f"--gpu is {gpu!r}; the catalogue has prices of {', '.join(priced)}. For another one "
            "give --usd-per-hour."
        )
    return entry.hardware.usd_per_hour, f"{entry.hardware.name}: {entry.price_source}"
