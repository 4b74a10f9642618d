"""The command line of `paceline serve`: turns flags into settings and errors into exit codes.

Exit codes: 0 after a signal, 1 when something cannot be started, 2 for wrong usage or settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from paceline.foundation.command_line.strict_command import StrictCommand
from paceline.runtime.config import ConfigError, LoadedSettings, load_settings
from paceline.runtime.config.printing import render_settings
from paceline.runtime.config.sources import Key
from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES

if TYPE_CHECKING:
    from paceline.runtime.gateway import GatewaySettings

logger = logging.getLogger(__name__)

_EXAMPLES = """\b
Examples:
  paceline serve
      Serve SmolLM2-135M-Instruct, a small chat model, on http://127.0.0.1:8000
  paceline serve bundled
      Serve the pair of small code models that is part of Paceline
  paceline serve Qwen/Qwen2.5-7B-Instruct
      Use the draft model that the table of known pairs lists for this target
  paceline serve ./my-model --draft ./my-draft --draft-length-max 6
      Use a draft model of your own, with at most 6 draft tokens per step
  paceline serve ./my-model --draft ngram --port 8080 -- --max-num-seqs 64
      Pass the arguments after -- to vLLM's server unchanged
  paceline serve --replicas 0 --config fleet.yaml
      Start no engine; serve the remote servers listed under `replicas` in the file
  paceline serve ./my-model --check
      Say what would not work on this machine, and start nothing
  PACELINE_SERVER__PORT=8080 paceline serve --config paceline.yaml --print-config
      Print the effective settings and where each one comes from
"""

# Flag → setting. Without the flag, the file and the environment decide. Every value is a text: a
# number is read as in a variable.
_SETTINGS: dict[str, Key] = {
    "model": ("engine", "model"),
    "draft": ("engine", "draft"),
    "policy": ("engine", "policy"),
    "draft_length_max": ("engine", "draft_length_max"),
    "replicas": ("engine", "replicas"),
    "host": ("server", "host"),
    "port": ("server", "port"),
    "admin_port": ("server", "admin_port"),
    "vllm_args": ("engine", "vllm_args"),
}


class _ServeCommand(StrictCommand):
    """Separates the arguments after `--`: click alone would take the first of them as MODEL."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            if at == len(args) - 1:
                raise click.UsageError(
                    "-- is the last argument; write arguments for vLLM after it, or leave it out"
                )
            ctx.meta["vllm_args"] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(
    "serve",
    cls=_ServeCommand,
    epilog=_EXAMPLES,
    options_metavar="[OPTIONS]",
    short_help="Serve a model with governed speculative decoding.",
)
@click.argument("model", required=False, metavar="[MODEL]")
@click.option(
    "--draft",
    metavar="auto|MODEL|ngram|suffix|none",
    help="Drafter. auto: that of a model named smollm2 or bundled; else the draft model listed for "
    "MODEL in the table of known pairs, or n-gram.",
)
@click.option(
    "--policy",
    metavar=f"{'|'.join(BUILTIN_POLICIES)}|NAME",
    help="How the draft length is chosen, or NAME of an installed package; can be changed at run "
    "time.",
)
@click.option("--draft-length-max", metavar="N", help="Most draft tokens per request and step.")
@click.option("--replicas", metavar="N", help="Engines to start; 0: none.")
@click.option("--host", metavar="H", help="Address that the data port listens on.")
@click.option("--port", metavar="P", help="Data port; 0: any free port.")
@click.option("--admin-port", metavar="P", help="Admin port; 0: any free port.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings file; default: paceline.yaml in the working folder, if it exists.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Take the ports and the engines over from the server that runs on this port, if one "
    "does; it completes its requests and ends.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Check the settings, the models and this machine, print what was found, then exit; the "
    "exit code is that of a start.",
)
@click.option(
    "--print-config",
    is_flag=True,
    help="Print the effective settings and where each one comes from, then exit.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    config: Path | None,
    take_over: bool,
    check: bool,
    print_config: bool,
    **flags: Any,
) -> None:
    """Serve MODEL over the OpenAI API. MODEL is a folder, a Hugging Face name, smollm2 or bundled.

    Without MODEL, smollm2 is served, or bundled where its package is not installed. Arguments after
    -- are passed to vLLM's server.
    """
    try:
        loaded = load_settings(_given_flags(ctx, flags), os.environ, config)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if print_config:
        click.echo(render_settings(loaded), nl=False)
        return
    sys.exit(_serve(loaded, take_over=take_over, only_checks=check))


def _given_flags(ctx: click.Context, flags: dict[str, Any]) -> dict[Key, tuple[str, Any]]:
    given = {
        _SETTINGS[name]: ("MODEL" if name == "model" else f"--{name.replace('_', '-')}", value)
        for name, value in flags.items()
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if "vllm_args" in ctx.meta:
        given[_SETTINGS["vllm_args"]] = ("--", ctx.meta["vllm_args"])
    return given


def _serve(loaded: LoadedSettings, *, take_over: bool, only_checks: bool) -> int:
    # Imported here because `--help` and `--print-config` do not need them.
    import uvloop

    from paceline.foundation.models.model_folder import ModelUnfit
    from paceline.runtime.engine.launch.command import EngineMissing, find_server_module
    from paceline.runtime.engine.launch.hardware import read_hardware
    from paceline.runtime.engine.process.supervisor import EngineFailed
    from paceline.runtime.gateway import PortTaken, WorkerFailed
    from paceline.runtime.gateway.capture.results import CaptureUnusable
    from paceline.runtime.gateway.http.listening import HostUnknown
    from paceline.runtime.gateway.keys.record import KeysUnusable
    from paceline.runtime.gateway.preparation import find_taken_ports
    from paceline.runtime.gateway.process import start_logging
    from paceline.runtime.serve.handover.taking_over import TakeOver, TakeOverFailed
    from paceline.runtime.serve.plan import make_plan
    from paceline.runtime.serve.predecessor import (
        PredecessorStays,
        explain_taken_port,
        leaving_ports,
    )
    from paceline.runtime.serve.preparation import check_startable
    from paceline.runtime.serve.run import serve as run_serve
    from paceline.runtime.serve.shared_files import refuse_shared_files
    from paceline.runtime.serve.startup_checks.report import (
        refusals,
        render_report,
        render_summary,
        warnings,
    )
    from paceline.runtime.serve.startup_checks.startup import check_startup
    from paceline.runtime.serve.terminal_output import TerminalOutput

    start_logging()
    hardware = read_hardware()
    try:
        run_folder = Path(tempfile.mkdtemp(prefix="paceline-"))  # short: socket paths are limited
    except OSError as error:
        return _fail(OSError(f"the temporary folder (TMPDIR) cannot be used: {error}"), 2)
    try:
        refuse_shared_files(loaded)
        plan = make_plan(
            loaded.settings,
            hardware,
            server_module=find_server_module() if loaded.settings.engine.replicas else None,
            run_folder=run_folder,
            log_folder=_log_folder(loaded),
        )
        if take_over and plan.gateway.port == 0:
            raise ValueError(
                "server.port is 0, so there is no port to take over; set it (--port) to the port "
                "of the running server"
            )
        check_startable(plan, os.environ)
    except (CaptureUnusable, HostUnknown, KeysUnusable, ModelUnfit, ValueError) as error:
        run_folder.rmdir()
        return _fail(error, 2)
    except EngineMissing as error:
        run_folder.rmdir()
        return _fail(error, 1)
    check = functools.partial(
        check_startup, plan, hardware, skipped=loaded.settings.engine.skip_checks
    )
    taken: TakeOver | None = None
    try:
        if take_over:
            taken = TakeOver.begin(plan.gateway.host, plan.gateway.port)
        if only_checks:
            results = check(has_running_engines=taken is not None)
            click.echo(render_report(results))
            if taken is None:
                refused = find_taken_ports(plan.gateway, leaving=leaving_ports(plan.gateway))
            else:
                refused = find_taken_ports(plan.gateway, offered=taken.sockets)
            summary = render_summary(
                model=plan.served_name,
                drafter=plan.reasons[0],
                ports=plan.gateway.ports,
                taken=refused,
            )
            click.echo(f"\n{summary}")
            for not_free in refused.values():
                raise not_free
            return 1 if refusals(results) or not results else 0
        if taken is None and not uvloop.run(_wait_for_ports(plan.gateway)):
            return 0
        results = check(has_running_engines=taken is not None)
        for text in warnings(results):
            logger.warning("%s", text)
        if reasons := refusals(results):
            click.echo("\n".join(f"paceline: {reason}" for reason in reasons), err=True)
            return 1
        with TerminalOutput(plan.served_name, plan.gateway.keys) as output:
            uvloop.run(
                run_serve(
                    plan,
                    on_progress=output.progress,
                    on_ready=output.ready,
                    taken=taken,
                )
            )
    except (CaptureUnusable, HostUnknown, KeysUnusable) as error:
        return _fail(error, 2)
    except PortTaken as error:
        return _fail(f"{error}{explain_taken_port(plan.gateway) if taken is None else ''}", 1)
    except (EngineFailed, PredecessorStays, TakeOverFailed, WorkerFailed) as error:
        return _fail(error, 1)
    except asyncio.CancelledError:  # a second signal: do not wait for requests in flight
        return 0
    finally:
        if taken is not None:
            taken.close()
        with contextlib.suppress(OSError):  # engines that were handed over have their folders there
            run_folder.rmdir()
    return 0


async def _wait_for_ports(settings: GatewaySettings) -> bool:
    """Wait for a process that ends, before the checks: its engines still have their memory.

    Returns whether to start: False after SIGTERM or Ctrl-C.
    """
    from paceline.runtime.serve.predecessor import wait_for_predecessors
    from paceline.runtime.serve.shutdown_signals import cancelled_by, shutdown_signals

    with shutdown_signals() as signalled:
        async with cancelled_by(signalled):
            await wait_for_predecessors(
                settings, lambda message: click.echo(f"paceline: {message}", err=True)
            )
        return not signalled.is_set()


def _fail(error: Exception | str, code: int) -> int:
    click.echo(f"paceline: {error}", err=True)
    return code


def _log_folder(loaded: LoadedSettings) -> Path:
    """The configured folder, else one per port, so that two servers never share a log."""
    configured = loaded.settings.engine.log_folder
    if configured is not None:
        return configured.absolute()
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    port = loaded.settings.server.port
    return state / "paceline" / (str(port) if port else f"pid-{os.getpid()}")
