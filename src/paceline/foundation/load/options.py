"""Options that several commands of the bench share, and the check that one load is stated.

Imports nothing heavy, so that `--help` stays fast.
"""

from __future__ import annotations

import click

from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_0,
    AT_LEAST_1,
    INPUT_FILE,
    NamedChoice,
)
from paceline.foundation.workloads import workload_names

WORKLOAD = click.option(
    "--workload",
    type=NamedChoice(workload_names()),
    help="Built-in prompts; paceline bench run --help lists them.  [default: suited to the model: "
    "chat, or mixed for the bundled code model, or code for one without chats]",
)
PROMPTS = click.option(
    "--prompts",
    "prompts_file",
    type=INPUT_FILE,
    help="Your own prompts instead, as for paceline bench run.",
)
TEMPERATURE = click.option("--temperature", type=AT_LEAST_0, help="0 is greedy.")
MAX_TOKENS = click.option(
    "--max-tokens", type=AT_LEAST_1, help="Overrides the prompts' own limits."
)
CONCURRENCY = click.option(
    "--concurrency", type=AT_LEAST_1, help="Closed loop: requests in flight.  [default: 1]"
)
RATE = click.option(
    "--rate",
    "rate_per_s",
    type=ABOVE_0,
    metavar="PER_SECOND",
    help="Open loop: Poisson arrivals at this mean rate.",
)
TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=ABOVE_0,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Per request; a request that takes longer is an error.",
)


def refuse_two_loads(concurrency: int | None, rate_per_s: float | None) -> None:
    """Raise `click.UsageError` if both a closed and an open loop are stated."""
    if concurrency is not None and rate_per_s is not None:
        raise click.UsageError(
            "--concurrency (closed loop) and --rate (open loop) exclude each other."
        )
