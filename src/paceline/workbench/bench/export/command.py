"""The command `paceline bench export`: write a script of another load tool."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from paceline.foundation.command_line.option_types import (
    AT_LEAST_1,
    SEED,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.server_options import MODEL, api_key_option
from paceline.foundation.load import options
from paceline.foundation.servers.default_addresses import DEFAULT_URL
from paceline.foundation.workloads import (
    SamplingSettings,
    WorkloadError,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)
from paceline.workbench.bench.export.scripts import TOOLS

_EXAMPLES = """\b
Examples:
  paceline bench export --tool locust --concurrency 8 --out load.py
      then: locust -f load.py --headless
  paceline bench export http://10.0.0.5:8000 --tool k6 --rate 4 --num-requests 500 --out load.js
      then: k6 run load.js
"""


@click.command(
    name="export",
    help=(
        "Write a script for locust or k6 that sends the requests of paceline bench run with the "
        "same options: the same prompts in the same order with the same seeds and arrivals.\n\n"
        f"URL defaults to {DEFAULT_URL}. The script holds everything it needs."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url", default=DEFAULT_URL)
@click.option("--tool", type=NamedChoice(list(TOOLS)), required=True, help="Whose script.")
@click.option(
    "--out",
    "out_file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write the script here.",
)
@options.WORKLOAD
@options.PROMPTS
@options.TEMPERATURE
@options.MAX_TOKENS
@SEED
@click.option("--num-requests", type=AT_LEAST_1, default=64, show_default=True)
@options.CONCURRENCY
@options.RATE
@MODEL
@api_key_option(
    "To ask the server for its model. The script reads PACELINE_API_KEY and holds no key."
)
@options.TIMEOUT
def export_command(
    url: str,
    tool: str,
    out_file: Path,
    workload: str | None,
    prompts_file: str | None,
    temperature: float | None,
    max_tokens: int | None,
    seed: int,
    num_requests: int,
    concurrency: int | None,
    rate_per_s: float | None,
    model: str | None,
    api_key: str | None,
    timeout_s: float,
) -> None:
    """Fix the traffic and write the script."""
    from paceline.foundation.load.config import BenchError, parse_server_url
    from paceline.foundation.results.files import write_text
    from paceline.workbench.bench.export.scripts import render_script
    from paceline.workbench.bench.export.traffic import make_traffic

    options.refuse_two_loads(concurrency, rate_per_s)
    refuse_unwritable_file("--out", out_file)
    try:
        server = parse_server_url(url)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    try:
        if model is None or (workload is None and prompts_file is None):
            model, workload = asyncio.run(_ask_server(url, api_key, model, workload))
        if prompts_file is not None:
            prompts = shuffle_prompts(load_prompt_file(Path(prompts_file)), seed)
        else:
            assert workload is not None
            prompts = load_workload(workload).prompts(seed)
        if temperature is None:
            given = workload is not None and not prompts_file
            temperature = load_workload(workload or "").temperature if given else 0.0
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
    traffic = make_traffic(
        str(server).rstrip("/"),
        prompts,
        SamplingSettings(model, temperature, None, max_tokens, seed, {}),
        num_requests=num_requests,
        concurrency=None if rate_per_s is not None else concurrency or 1,
        rate_per_s=rate_per_s,
        timeout_s=timeout_s,
    )
    write_text(out_file, render_script(tool, traffic))
    run_it = "locust -f {} --headless" if tool == "locust" else "k6 run {}"
    click.echo(f"written: {out_file}; run it with: {run_it.format(out_file)}")


async def _ask_server(
    url: str, api_key: str | None, model: str | None, workload: str | None
) -> tuple[str, str]:
    """The model and the workload, each as given or as suits the server."""
    import aiohttp

    from paceline.foundation.load.config import parse_server_url
    from paceline.foundation.load.suited_workload import find_suited_workload
    from paceline.foundation.servers.described import fetch_model

    server = parse_server_url(url)
    async with aiohttp.ClientSession() as session:
        model = model or await fetch_model(session, server, api_key)
        if workload is None:
            workload = (await find_suited_workload(session, server, api_key, model)).name
    return model, workload
