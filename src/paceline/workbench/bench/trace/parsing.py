"""Turn the options of `paceline bench trace` into a `TraceConfig`; errors name the options."""

from __future__ import annotations

import json
from typing import Any

import click

from paceline.foundation.load.config import parse_server_url
from paceline.foundation.shifting_trace import find_trace
from paceline.workbench.bench.trace.config import AcceptanceMode, TraceConfig
from paceline.workbench.bench.trace.requests import make_source
from paceline.workbench.bench.trace.started_server import render_words


def parse_config(trace: str, options: dict[str, Any], default_url: str) -> TraceConfig:
    """The settings of the run, against `default_url` where neither URL nor command is given.

    Raises click.UsageError; WorkloadError for a trace that cannot be run, BenchError for addresses
    and commands that cannot be used.
    """
    settings = dict(options)
    mode = AcceptanceMode(settings.pop("acceptance"))
    speculative = _parse_object(settings.pop("speculative_config"))
    if mode is AcceptanceMode.SYNTHETIC:
        _check_synthetic(settings)
    elif settings["serve_command"] is not None:
        raise click.UsageError("--serve is for --acceptance synthetic; give --url instead.")
    elif settings["url"] is None:
        settings["url"] = default_url
    config = TraceConfig(
        trace=find_trace(trace), acceptance=mode, speculative_config=speculative, **settings
    )
    for address in (config.url, config.admin_url):
        if address is not None:
            parse_server_url(address)
    if config.serve_command is not None:
        render_words(config.serve_command, 0, [0.0] * config.draft_length, speculative)
    make_source(config, "", "")
    return config


def _check_synthetic(settings: dict[str, Any]) -> None:
    if settings["serve_command"] is None:
        raise click.UsageError(
            "--acceptance synthetic needs --serve COMMAND: vLLM's acceptance rates are fixed when "
            "it starts, so it is started anew when the rates of the trace change."
        )
    if settings["url"] is not None or settings["admin_url"] is not None:
        raise click.UsageError(
            "--url and --admin-url name a server that runs; --serve starts one. Give one of them."
        )


def _parse_object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.UsageError(
            f"--speculative-config is {text!r}, which is not JSON: {error}"
        ) from error
    if not isinstance(document, dict):
        raise click.UsageError(f"--speculative-config is {text!r}; it must be a JSON object.")
    return document
