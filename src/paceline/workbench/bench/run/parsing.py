"""Turn the options of `paceline bench run` into a `RunConfig`; wrong usage names the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from paceline.foundation.files.strict_files import load_json
from paceline.foundation.load.config import BenchError, RunConfig, parse_server_url
from paceline.foundation.load.phase_file import load_phases
from paceline.foundation.results.adaptation import AdaptationRule
from paceline.foundation.results.slo import Slo, parse_slo
from paceline.foundation.workloads import SyntheticLengths
from paceline.workbench.bench.run.options import DEFAULT_NUM_REQUESTS

_LOADS = {
    "concurrency": "--concurrency (closed loop)",
    "rate_per_s": "--rate (open loop)",
    "trace_file": "--trace",
    "phases_file": "--phases",
}


_REQUESTS = {
    "workload": "--workload",
    "prompts_file": "--prompts",
    "trace_file": "--trace",
    "phases_file": "--phases",
}


def parse_config(url: str, options: dict[str, Any]) -> RunConfig:
    """The settings of the run. Raises click.UsageError; WorkloadError for a bad file of phases."""
    _check_loads(options)
    _check_lengths(options)
    try:
        for address in (url, options["admin_url"]):
            if address is not None:
                parse_server_url(address)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    settings = dict(options)
    phases_file = settings.pop("phases_file")
    rule = AdaptationRule(settings.pop("adaptation_window_s"), settings.pop("adaptation_tolerance"))
    lengths = [settings.pop(n) for n in ("input_tokens", "output_tokens", "length_spread")]
    return RunConfig(
        url=url,
        synthetic=None if lengths[0] is None else SyntheticLengths(*lengths),
        extra_body=_parse_extra_body(settings.pop("extra_body")),
        slo=_parse_slo(settings.pop("slo")),
        adaptation=rule,
        phases=() if phases_file is None else load_phases(Path(phases_file)),
        **settings,
    )


def _check_loads(options: dict[str, Any]) -> None:
    """Refuse options that exclude each other, and fill in the defaults of the load."""
    given = [label for name, label in _LOADS.items() if options[name] is not None]
    # A trace may be sent at another load than the recorded one.
    if len(given) > (2 if "--trace" in given and "--phases" not in given else 1):
        raise click.UsageError(f"{' and '.join(given)} exclude each other.")
    if not given:
        options["concurrency"] = 1
    has_rate = options["rate_per_s"] is not None
    if options["final_rate_per_s"] is not None and not (has_rate and options["duration_s"]):
        raise click.UsageError("--ramp-to needs --rate, at which it begins, and --duration.")
    if options["burstiness"] != 1.0 and not has_rate:
        raise click.UsageError("--burstiness shapes the arrivals of --rate; give --rate.")
    for name in ("trace_unit", "trace_block_tokens"):
        if options[name] is not None and options["trace_file"] is None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} describes the file of --trace; give --trace."
            )
    is_open = has_rate or (options["trace_file"] and options["concurrency"] is None)
    if options["max_in_flight"] is not None and not is_open:
        raise click.UsageError("--max-in-flight bounds --rate and --trace; give one of them.")
    bounds = [options["num_requests"], options["duration_s"]]
    if options["phases_file"] is not None:
        if any(bound is not None for bound in bounds):
            raise click.UsageError(
                "--phases gives each phase a duration; --num-requests and --duration have no place."
            )
    elif options["trace_file"] is None and all(bound is None for bound in bounds):
        options["num_requests"] = DEFAULT_NUM_REQUESTS


def _check_lengths(options: dict[str, Any]) -> None:
    """Refuse lengths that are half given, or given beside other requests."""
    given = [options[name] is not None for name in ("input_tokens", "output_tokens")]
    if any(given) and not all(given):
        raise click.UsageError("--input-len and --output-len need each other; give both.")
    if options["length_spread"] and not any(given):
        raise click.UsageError("--length-spread varies --input-len and --output-len; give them.")
    others = [label for name, label in _REQUESTS.items() if options[name] is not None]
    if all(given) and others:
        raise click.UsageError(f"--input-len and {others[0]} exclude each other.")


def _parse_slo(text: str | None) -> Slo | None:
    if text is None:
        return None
    try:
        return parse_slo(text)
    except ValueError as error:
        raise click.UsageError(f"--slo is {text!r}: {error}") from error


def _parse_extra_body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        extra_body = load_json(text)
    except ValueError as error:
        raise click.UsageError(f"--extra-body is {text!r}, which is not JSON: {error}") from error
    if not isinstance(extra_body, dict):
        raise click.UsageError(f"--extra-body is {text!r}; it must be a JSON object.")
    return extra_body
