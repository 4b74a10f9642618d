"""The command `paceline tune`: parse the options, tune, show and write.

What measures is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import ABOVE_0, AT_LEAST_1, INPUT_FILE, SEED
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import api_key_option
from paceline.foundation.load.options import MAX_TOKENS, PROMPTS, TEMPERATURE, WORKLOAD
from paceline.foundation.workloads import WorkloadError

if TYPE_CHECKING:
    from paceline.workbench.tune.search import Outcome
    from paceline.workbench.tune.tuning import Tuning

_EXIT_NO_WINNER = 3
_EXIT_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  paceline tune --slo-ttft-ms 500 --slo-tpot-ms 50 --state tune.jsonl --out paceline.yaml
      Tune the chat model of `paceline serve`; repeat the command to continue after an interruption
  paceline tune --model Qwen/Qwen2.5-7B-Instruct --gpu l4 --usd-per-gpu-hour 0.8 \\
      --slo-tpot-ms 40 --prompts mine.jsonl --out paceline.yaml
  paceline tune --config paceline.yaml --space space.yaml --slo-ttft-ms 1000 --json tune.json
      Try the values of your own space
  paceline tune --server-command "vllm serve MODEL --port {port} --max-num-seqs {seqs}" \\
      --space space.yaml --slo-tpot-ms 40
      Tune any OpenAI-compatible server that answers /health
"""


@click.command(
    name="tune",
    help=(
        "Find the configuration with the most goodput per dollar: requests per second that meet "
        "the SLO. Servers are started and measured one after another; the planner screens them, "
        "successive halving decides what is measured, and the best setting of a server is scored "
        "on requests that it was not chosen on.\n\n"
        "Exit codes: 0 a setting meets the SLO and won, 3 none meets it, 1 failed, 2 wrong usage, "
        "130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@click.option(
    "--config", type=INPUT_FILE,
    help="paceline.yaml to start from.  [default: Paceline's defaults]",
)  # fmt: skip
@click.option("--model", help="Model to serve, in place of the configuration's.")
@click.option(
    "--space", type=INPUT_FILE,
    help="File with the values to try.  [default: drafters, batched tokens, draft lengths, limits]",
)  # fmt: skip
@click.option(
    "--server-command",
    metavar="TEMPLATE",
    help="Start this instead of paceline serve; with the field {port} and those of --space.",
)
@click.option("--slo-ttft-ms", type=ABOVE_0, help="Longest time to first token.")
@click.option("--slo-tpot-ms", type=ABOVE_0, help="Longest time per output token.")
@click.option(
    "--attain", "attain_percent", type=FiniteFloat(min=1, max=100), default=95.0,
    show_default=True, metavar="PERCENT", help="Share of the requests that must meet the SLO.",
)  # fmt: skip
@click.option(
    "--usd-per-hour", type=ABOVE_0,
    help="Price of the machine, for all configurations alike.",
)  # fmt: skip
@click.option(
    "--usd-per-gpu-hour", type=ABOVE_0,
    help="Price of one GPU; a configuration pays for those that it uses.",
)  # fmt: skip
@click.option(
    "--gpu", "hardware",
    help="Hardware of this machine in the planner's catalogue.  [default: cpu without a GPU]",
)  # fmt: skip
@WORKLOAD
@PROMPTS
@MAX_TOKENS
@TEMPERATURE
@click.option(
    "--block-seconds", "block_s", type=ABOVE_0, default=5.0,
    show_default=True, help="Length of a measurement.",
)  # fmt: skip
@click.option(
    "--max-starts", type=AT_LEAST_1, default=6, show_default=True,
    help="Servers that are started, unless a tuning is interrupted.",
)  # fmt: skip
@click.option(
    "--max-minutes", type=ABOVE_0, default=30.0, show_default=True,
    help="Bound on the measurements; starting servers takes extra time.",
)  # fmt: skip
@click.option(
    "--max-blocks", type=AT_LEAST_1,
    help="Bound on the number of measurements.  [default: one for each setting, at least 32]",
)  # fmt: skip
@SEED
@click.option(
    "--start-timeout", "start_timeout_s", type=ABOVE_0, default=900.0,
    show_default=True, metavar="SECONDS", help="Per server.",
)  # fmt: skip
@click.option(
    "--timeout", "request_timeout_s", type=ABOVE_0, default=120.0,
    show_default=True, metavar="SECONDS", help="Per request.",
)  # fmt: skip
@api_key_option("For --server-command, sent as bearer token; never written to a file.")
@click.option(
    "--state", "state_file", type=click.Path(dir_okay=False, path_type=Path),
    help="File of the measurements. If it exists, the tuning continues.",
)  # fmt: skip
@click.option(
    "--out", "out_file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write the winning paceline.yaml here.",
)  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report here.",
)  # fmt: skip
def tune(
    state_file: Path | None,
    out_file: Path | None,
    json_file: Path | None,
    api_key: str | None,
    start_timeout_s: float,
    **options: Any,
) -> None:
    """Parse, tune, show and write; the exit code says whether there is a winner."""
    _check_usage(options, out_file)
    for flag, file in (("--state", state_file), ("--out", out_file), ("--json", json_file)):
        if file is not None and not file.absolute().parent.is_dir():
            raise click.UsageError(f"{flag} is {file}, in a folder that does not exist.")

    from paceline.foundation.load.config import BenchError
    from paceline.foundation.results.files import write_document, write_text
    from paceline.workbench.tune.configuration import render_yaml
    from paceline.workbench.tune.output import render_document, render_lines
    from paceline.workbench.tune.tuning import TuneOptions, prepare
    from paceline.workbench.tune.values import TuneError

    try:
        tuning = prepare(TuneOptions(**options), state_file, sys.argv)
    except (TuneError, WorkloadError) as error:
        raise click.UsageError(str(error)) from error
    try:
        outcome = _carry_out(tuning, api_key, start_timeout_s)
    except (BenchError, TuneError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
    context = tuning.context(outcome)
    if json_file is not None:
        write_document(json_file, render_document(context, tuning.state, outcome))
    if outcome is None:
        click.echo(_interrupted(tuning, state_file), err=True)
        sys.exit(_EXIT_INTERRUPTED)
    if out_file is not None and context.winning_config is not None:
        write_text(out_file, render_yaml(context.winning_config, _comments(tuning, outcome)))
    for line in render_lines(context, tuning.state, outcome):
        click.echo(printable(line))
    sys.exit(0 if outcome.winner is not None else _EXIT_NO_WINNER)


def _check_usage(options: dict[str, Any], out_file: Path | None) -> None:
    if options["slo_ttft_ms"] is None and options["slo_tpot_ms"] is None:
        raise click.UsageError(
            "no SLO is given; give --slo-ttft-ms, --slo-tpot-ms or both: goodput counts the "
            "requests that meet them."
        )
    if options["usd_per_hour"] is not None and options["usd_per_gpu_hour"] is not None:
        raise click.UsageError("--usd-per-hour and --usd-per-gpu-hour exclude each other.")
    if options["server_command"] is not None:
        for name, value in (
            ("--config", options["config"]),
            ("--model", options["model"]),
            ("--gpu", options["hardware"]),
            ("--usd-per-gpu-hour", options["usd_per_gpu_hour"]),
            ("--out", out_file),
        ):
            if value is not None:
                raise click.UsageError(
                    f"{name} is for servers that paceline serve starts; leave it out with "
                    "--server-command. The report has the winning command."
                )


def _carry_out(tuning: Tuning, api_key: str | None, start_timeout_s: float) -> Outcome | None:
    """The outcome; None after Ctrl-C or SIGTERM."""
    import asyncio

    from paceline.foundation.command_line.interruption import cancelled_by_signals
    from paceline.foundation.load.client_loop import client_loop
    from paceline.workbench.tune.live import carry_out
    from paceline.workbench.tune.output import tune_progress

    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        launcher = tuning.launcher(Path(folder), api_key=api_key, start_timeout_s=start_timeout_s)
        try:
            with (
                tune_progress(tuning.state) as progress,
                client_loop() as runner,
            ):
                work = carry_out(tuning.state, launcher, progress.begin_round, progress.end_trial)
                return runner.run(cancelled_by_signals(work))
        except (KeyboardInterrupt, asyncio.CancelledError):
            return None


def _interrupted(tuning: Tuning, state_file: Path | None) -> str:
    text = f"Interrupted after {len(tuning.state.measurements)} blocks."
    if state_file is None:
        return f"{text} They are lost: without --state FILE a tuning cannot be continued."
    return f"{text} Repeat the command to continue from {state_file}."


def _comments(tuning: Tuning, outcome: Outcome) -> list[str]:
    assert outcome.winner is not None
    winner = outcome.winner
    return [
        "Written by `paceline tune`.",
        f"{winner.good_requests_per_s:.2f} good requests/s, {winner.attained_fraction:.1%} of the "
        "requests within the SLO, on held-out requests.",
    ]
