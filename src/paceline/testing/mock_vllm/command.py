"""The command `paceline mock-vllm`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import click
import uvloop

from paceline.foundation.command_line.option_types import NamedChoice
from paceline.testing.mock_vllm.answer_style import AnswerStyle, read_styles
from paceline.testing.mock_vllm.faults.fault_script import load_faults
from paceline.testing.mock_vllm.model.speculation import Speculation, read_speculative_config
from paceline.testing.mock_vllm.server import MockVllm, exit_process
from paceline.testing.mock_vllm.settings import DRAFT_METRICS, MockVllmSettings

_DEFAULTS = MockVllmSettings()


def _parse_counts(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"must be integers such as 1 or 1,3,2; got {value}") from None


def _parse_styles(
    context: click.Context, parameter: click.Parameter, value: str
) -> frozenset[AnswerStyle]:
    try:
        return read_styles(value.split(",") if value else ())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parse_speculation(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> Speculation | None:
    if value is None:
        return None
    try:
        return read_speculative_config(json.loads(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog="docs/mock-vllm.md lists what the server imitates and what it does not.",
    context_settings={"show_default": True},
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--port", default=8100, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Listen on this Unix socket instead of a port.",
)
@click.option("--model", default=_DEFAULTS.model, help="Model name.")
@click.option("--max-model-len", default=_DEFAULTS.max_model_len, help="Context length in tokens.")
@click.option("--tpot-ms", default=_DEFAULTS.tpot_ms, help="Time per output token in ms.")
@click.option(
    "--tpot-per-sequence-ms",
    default=_DEFAULTS.tpot_per_sequence_ms,
    help="Added to it for every other running sequence.",
)
@click.option(
    "--prefill-tokens-per-s",
    default=_DEFAULTS.prefill_tokens_per_s,
    help="Prefill rate; prompts are prefilled one after another.",
)
@click.option(
    "--max-num-seqs", default=_DEFAULTS.max_num_seqs, help="Maximum number of running sequences."
)
@click.option(
    "--tokens-per-chunk",
    default="1",
    callback=_parse_counts,
    help="Tokens in each chunk of a stream, as a repeating pattern such as 1,3,2.",
)
@click.option(
    "--speculative-config",
    "speculation",
    callback=_parse_speculation,
    metavar="JSON",
    help="Scripted speculation in vLLM's form: num_speculative_tokens, rejection_sample_method "
    "(synthetic) and synthetic_acceptance_rates.",
)
@click.option(
    "--per-request-spec-decode-metrics",
    type=NamedChoice(DRAFT_METRICS),
    default=_DEFAULTS.per_request_spec_decode_metrics,
    show_default=True,
    help="summary: the last chunk of an answer has its own counts of drafts, as vLLM's has.",
)
@click.option(
    "--draft-ms", default=_DEFAULTS.draft_ms, help="Time per draft token of a step in ms."
)
@click.option(
    "--verify-ms",
    default=_DEFAULTS.verify_ms,
    help="Time per draft token of a step and per running sequence in ms.",
)
@click.option(
    "--speculates",
    is_flag=True,
    help="Refuse min_p and logit_bias, as vLLM does with speculative decoding.",
)
@click.option(
    "--answer-style",
    default="",
    callback=_parse_styles,
    help="How answers are written, as by other servers and by proxies: a list such as id,crlf,cut "
    f"of {', '.join(AnswerStyle)}.",
)
@click.option("--api-key", default="", help="Bearer token required under /v1; empty requires none.")
@click.option(
    "--eos-every-tokens",
    default=_DEFAULTS.eos_every_tokens,
    help="Average number of tokens before an answer ends with EOS; 0 means never.",
)
@click.option(
    "--num-kv-blocks",
    default=_DEFAULTS.num_kv_blocks,
    help="Blocks of 16 tokens in the virtual KV cache; 0 holds --max-num-seqs full contexts.",
)
@click.option(
    "--faults",
    "faults_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Fault script in YAML or JSON.",
)
@click.option(
    "--request-log",
    "request_log_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append a record of every request to this file, as JSON lines.",
)
@click.option("--parent-fd", type=int, hidden=True, help="Exit when this pipe is closed.")
@click.option("--seed", default=_DEFAULTS.seed, help="Seed of all random draws.")
def mock_vllm(
    host: str,
    port: int,
    socket_path: Path | None,
    model: str,
    max_model_len: int,
    tpot_ms: float,
    tpot_per_sequence_ms: float,
    prefill_tokens_per_s: float,
    max_num_seqs: int,
    tokens_per_chunk: tuple[int, ...],
    speculation: Speculation | None,
    per_request_spec_decode_metrics: str,
    draft_ms: float,
    verify_ms: float,
    speculates: bool,
    answer_style: frozenset[AnswerStyle],
    api_key: str,
    eos_every_tokens: int,
    num_kv_blocks: int,
    faults_path: Path | None,
    request_log_path: Path | None,
    parent_fd: int | None,
    seed: int,
) -> None:
    """Run a mock vLLM server: no model, known tokens, known times, scripted faults.

    \b
    Examples:
      paceline mock-vllm --port 8100 --model m
          Serve http://127.0.0.1:8100/v1 at 50 tokens/s for each of up to 256 streams.
      paceline mock-vllm --tpot-ms 5 --tokens-per-chunk 1,3,2 --speculates
          Send chunks of several tokens, as speculative decoding does.
      paceline mock-vllm --faults faults.yaml --request-log requests.jsonl
          Inject the faults of a script and record every request.
      curl localhost:8100/mock_vllm/faults -d '[{"kind": "die", "after_tokens": 30}]'
          Add a fault to a running server. A DELETE of the same path clears all faults.
    """
    try:
        settings = MockVllmSettings(
            model=model,
            max_model_len=max_model_len,
            tpot_ms=tpot_ms,
            tpot_per_sequence_ms=tpot_per_sequence_ms,
            prefill_tokens_per_s=prefill_tokens_per_s,
            max_num_seqs=max_num_seqs,
            tokens_per_chunk=tokens_per_chunk,
            speculation=speculation,
            per_request_spec_decode_metrics=per_request_spec_decode_metrics,
            draft_ms=draft_ms,
            verify_ms=verify_ms,
            speculates=speculates,
            answer_style=answer_style,
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
        request_log_path=request_log_path,
        exit_process=exit_process,
    )
    try:
        uvloop.run(_serve(server, parent_fd))
    except OSError as error:
        text = f"Cannot start: {error}. Check --port, --socket and --request-log."
        raise click.ClickException(text) from None


async def _serve(server: MockVllm, parent_fd: int | None) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, stopped.set)
    async with server:
        print(f"Mock vLLM server on {server.url}", file=sys.stderr)
        await stopped.wait()
