"""`paceline mock-vllm`: a simulated vLLM server as a command."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click
import uvloop

from paceline.mock_vllm.faults.fault_book import load_faults
from paceline.mock_vllm.server import MockVllm, die_in_earnest
from paceline.mock_vllm.settings import MockVllmSettings

_DEFAULTS = MockVllmSettings()


def _counts(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("must be counts such as 1 or 1,3,2") from None


@click.command(
    epilog="What it imitates and what not: docs/mock-vllm.md.",
    context_settings={"show_default": True},
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8100, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Listen on this Unix socket instead.",
)
@click.option("--model", default=_DEFAULTS.model, help="Name of the model.")
@click.option("--max-model-len", default=_DEFAULTS.max_model_len, help="Context, in tokens.")
@click.option("--tpot-ms", default=_DEFAULTS.tpot_ms, help="Time per output token.")
@click.option(
    "--prefill-tokens-per-s",
    default=_DEFAULTS.prefill_tokens_per_s,
    help="Rate at which prompts are read, one after another.",
)
@click.option("--max-num-seqs", default=_DEFAULTS.max_num_seqs, help="Sequences at once.")
@click.option(
    "--tokens-per-chunk",
    default="1",
    callback=_counts,
    help="Tokens of each chunk in turn, as under speculation, e.g. 1,3,2.",
)
@click.option("--speculates", is_flag=True, help="Refuse min_p and logit_bias as vLLM then does.")
@click.option("--api-key", default="", help="Bearer token that /v1 wants; empty: none.")
@click.option(
    "--eos-every-tokens",
    default=_DEFAULTS.eos_every_tokens,
    help="Answers end by themselves after so many tokens on average; 0: never.",
)
@click.option(
    "--num-kv-blocks",
    default=_DEFAULTS.num_kv_blocks,
    help="Blocks of 16 tokens in the virtual KV cache; 0: as many as all sequences can need.",
)
@click.option(
    "--faults",
    "faults_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A fault script, YAML or JSON.",
)
@click.option(
    "--ledger",
    "ledger_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append a record of every request to this file.",
)
@click.option("--lifeline-fd", type=int, hidden=True, help="End when this pipe's writer ends.")
@click.option("--seed", default=_DEFAULTS.seed, help="For what is drawn.")
def mock_vllm(
    host: str,
    port: int,
    socket_path: Path | None,
    model: str,
    max_model_len: int,
    tpot_ms: float,
    prefill_tokens_per_s: float,
    max_num_seqs: int,
    tokens_per_chunk: tuple[int, ...],
    speculates: bool,
    api_key: str,
    eos_every_tokens: int,
    num_kv_blocks: int,
    faults_path: Path | None,
    ledger_path: Path | None,
    lifeline_fd: int | None,
    seed: int,
) -> None:
    """Run a simulated vLLM server: no model, known tokens, known times.

    \b
    Examples:
      paceline mock-vllm --port 8100 --model m
          http://127.0.0.1:8100/v1, 50 tokens/s for each of 256 streams
      paceline mock-vllm --tpot-ms 5 --tokens-per-chunk 1,3,2 --speculates
          Chunks of several tokens, as under speculation
      paceline mock-vllm --faults faults.yaml --ledger ledger.jsonl
          Faults from a script, and the server's own record of every request
      curl localhost:8100/mock_vllm/faults -d '[{"kind": "die", "after_tokens": 30}]'
          A fault of a running server; DELETE ends all
    """
    try:
        settings = MockVllmSettings(
            model=model,
            max_model_len=max_model_len,
            tpot_ms=tpot_ms,
            prefill_tokens_per_s=prefill_tokens_per_s,
            max_num_seqs=max_num_seqs,
            tokens_per_chunk=tokens_per_chunk,
            speculates=speculates,
            api_key=api_key,
            eos_every_tokens=eos_every_tokens,
            num_kv_blocks=num_kv_blocks,
            seed=seed,
        )
        faults = load_faults(faults_path) if faults_path else []
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    server = MockVllm(
        settings,
        host=host,
        port=port,
        socket_path=socket_path,
        faults=faults,
        ledger_path=ledger_path,
        die=die_in_earnest,
    )
    try:
        uvloop.run(_serve(server, lifeline_fd))
    except OSError as error:
        raise click.ClickException(f"Cannot start: {error}") from None


async def _serve(server: MockVllm, lifeline_fd: int | None) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if lifeline_fd is not None:
        loop.add_reader(lifeline_fd, stopped.set)
    async with server:
        print(f"Simulated vLLM on {server.url}", file=sys.stderr)
        await stopped.wait()
