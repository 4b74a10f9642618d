"""The options of `paceline bench run`, in the groups in which `--help` lists them.

Imports nothing heavy, so that `--help` stays fast. `parsing` turns the values into a `RunConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_0,
    AT_LEAST_1,
    INPUT_FILE,
    OUTPUT_FILE,
    NamedChoice,
)
from paceline.foundation.command_line.server_options import MODEL, api_key_option
from paceline.foundation.load.options import MAX_TOKENS, TIMEOUT, WORKLOAD
from paceline.foundation.workloads import TimeUnit

DEFAULT_NUM_REQUESTS = 64

Command = TypeVar("Command", bound=Callable[..., Any])

_BURSTINESS = click.option(
    "--burstiness",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help="Shape of the gamma-distributed gaps of --rate: 1 is Poisson, below 1 has bursts.",
)
_MAX_IN_FLIGHT = click.option(
    "--max-in-flight",
    type=AT_LEAST_1,
    help="Bound on the requests in flight of --rate and --trace; the wait counts in latencies.",
)
_WARMUP = click.option(
    "--warmup",
    "num_warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Requests sent before the measurement and not counted.",
)
_SLO = click.option(
    "--slo",
    metavar="BOUNDS",
    help="Report goodput: requests that meet all of these bounds, e.g. ttft=1s,tpot=50ms,e2e=20s.",
)
_MAX_DISPATCH_DELAY = click.option(
    "--max-dispatch-delay-ms",
    type=ABOVE_0,
    default=25.0,
    show_default=True,
    help="The run is not valid when the load generator sends later than this (p99).",
)
_ALLOW_ERRORS = click.option(
    "--allow-errors", is_flag=True, help="Exit with 0 even if requests failed."
)

_WORKLOAD = (
    WORKLOAD,
    click.option(
        "--prompts",
        "prompts_file",
        type=INPUT_FILE,
        help='Your own prompts instead, one JSON object per line: {"messages": [...]} or '
        '{"prompt": "..."}, with optional "max_tokens", "task", "ignore_eos" and "turns"; or a '
        "data set in a public form, such as ShareGPT (docs/bench.md).",
    ),
    click.option(
        "--input-len",
        "input_tokens",
        type=AT_LEAST_1,
        metavar="TOKENS",
        help="Prompts of this length instead, of real text. Needs --output-len.",
    ),
    click.option(
        "--output-len",
        "output_tokens",
        type=AT_LEAST_1,
        metavar="TOKENS",
        help="Answers of exactly this length (ignore_eos). Needs --input-len.",
    ),
    click.option(
        "--length-spread",
        type=FiniteFloat(min=0, max=1, max_open=True),
        default=0.0,
        show_default=True,
        metavar="FRACTION",
        help="Each length is uniform between (1 - F) and (1 + F) times the given one.",
    ),
    click.option(
        "--system-prompt",
        "system_prompt_file",
        type=INPUT_FILE,
        help="Text file that precedes every prompt, as a shared system prompt.",
    ),
    click.option(
        "--temperature",
        type=AT_LEAST_0,
        help="Sampling temperature; 0 is greedy.  [default: the workload's; 0 with --prompts]",
    ),
    click.option(
        "--top-p", type=FiniteFloat(min=0, max=1, min_open=True), help="Nucleus sampling."
    ),
    MAX_TOKENS,
    click.option(
        "--extra-body",
        metavar="JSON",
        help="""Merged into every request body, e.g. '{"top_k": 20, "ignore_eos": true}'.""",
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seeds the order of the prompts, the arrivals and the sampling of each request.",
    ),
)

_LOAD = (
    click.option(
        "--num-requests",
        type=AT_LEAST_1,
        help="Requests to measure, in each repeat.  "
        f"[default: {DEFAULT_NUM_REQUESTS}, or no bound with --duration]",
    ),
    click.option(
        "--duration",
        "duration_s",
        type=ABOVE_0,
        metavar="SECONDS",
        help="Start no request after this time; requests in flight are awaited and counted.",
    ),
    click.option(
        "--concurrency",
        type=AT_LEAST_1,
        help="Closed loop: requests in flight at all times.  [default: 1]",
    ),
    click.option(
        "--rate",
        "rate_per_s",
        type=ABOVE_0,
        metavar="PER_SECOND",
        help="Open loop: random arrivals at this mean rate, whether or not earlier requests ended.",
    ),
    _BURSTINESS,
    click.option(
        "--ramp-to",
        "final_rate_per_s",
        type=ABOVE_0,
        metavar="PER_SECOND",
        help="The rate changes linearly from --rate to this over --duration.",
    ),
    click.option(
        "--trace",
        "trace_file",
        type=INPUT_FILE,
        help="Replay a trace: requests with timestamps, as JSON or CSV (docs/bench.md). With "
        "--concurrency or --rate its sessions are sent at that load instead.",
    ),
    click.option(
        "--trace-speed",
        type=ABOVE_0,
        default=1.0,
        show_default=True,
        help="The times of the trace are divided by it.",
    ),
    click.option(
        "--trace-unit",
        type=NamedChoice([unit.label for unit in TimeUnit]),
        help="Unit of the trace's times that are numbers.  [default: what the form of the trace "
        "states, or Unix time; otherwise it must be given]",
    ),
    click.option(
        "--trace-block-tokens",
        type=AT_LEAST_1,
        metavar="TOKENS",
        help="Tokens that each of the trace's hash_ids stands for.  [default: what the form and "
        "the lengths of the trace state]",
    ),
    click.option(
        "--phases",
        "phases_file",
        type=INPUT_FILE,
        help="YAML or JSON file of phases, each with its load and workload (docs/bench.md).",
    ),
    _MAX_IN_FLIGHT,
    click.option(
        "--repeats",
        type=AT_LEAST_1,
        default=1,
        show_default=True,
        help="Make the measurement this often; with 5 or more, intervals are over repeats.",
    ),
    _WARMUP,
)

_SERVER = (
    MODEL,
    api_key_option("Sent as bearer token; never written to a report."),
    click.option(
        "--admin-url",
        help="Server to read the speculation counters from: Paceline's admin port.  [default: the "
        "server's own /metrics, else, on loopback, the port after URL's]",
    ),
    TIMEOUT,
)

_JUDGEMENT = (
    _SLO,
    click.option(
        "--adaptation-window",
        "adaptation_window_s",
        type=ABOVE_0,
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Window of throughput by which the adaptation lag of --phases is found.",
    ),
    click.option(
        "--adaptation-tolerance",
        type=FiniteFloat(min=0, max=1, min_open=True, max_open=True),
        default=0.1,
        show_default=True,
        help="Distance from the later throughput that counts as settled, as a fraction.",
    ),
    _MAX_DISPATCH_DELAY,
    _ALLOW_ERRORS,
)

_OUTPUT = (
    click.option(
        "--json",
        "json_file",
        type=OUTPUT_FILE,
        help="Write the report to this file.",
    ),
    click.option(
        "--html",
        "html_file",
        type=OUTPUT_FILE,
        help="Write a page for readers to this file.",
    ),
    click.option(
        "--records",
        "records_file",
        type=OUTPUT_FILE,
        help="Write every request to this file, one JSON object per line.",
    ),
)


def run_options(command: Command) -> Command:
    """Add every option to a command."""
    return _add((*_WORKLOAD, *_LOAD, *_SERVER, *_JUDGEMENT, *_OUTPUT), command)


def sweep_options(command: Command) -> Command:
    """Add those that hold for every rate of a sweep."""
    load = (_BURSTINESS, _MAX_IN_FLIGHT, _WARMUP)
    return _add((*_WORKLOAD, *load, *_SERVER, _SLO, _MAX_DISPATCH_DELAY, _ALLOW_ERRORS), command)


def _add(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
