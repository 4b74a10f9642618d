"""Measure the effect of prefill pacing on token gaps and throughput while long prompts arrive.

Four servers run without speculation, at the same time, and differ only in pacing: vLLM's scheduler
with its own limits, twice; with the longest pause that `paceline serve` has by default
(`slo.max_pause_ms`); and with `slo.time_per_output_token_ms`. They take turns with the same load:
answers that stream all the time, and long prompts that arrive at fixed times. `runs/twin` is the
bundled 11M target padded to the cost of about 120M parameters with layers that add nothing
(`demo_recipe.deepen`).

    python benchmarks/prefill_pacing.py --model runs/twin --results benchmarks/results

Without drafts the time between two chunks is the time between two tokens. Throughput is the number
of output tokens divided by the time until the last answer is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import Server, running_servers
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.workloads import load_heldout

NUM_STREAMS = 6
STREAM_TOKENS = 400
NUM_LONG = 8
FIRST_LONG_S, EVERY_S = 1.5, 1.2
LONG_CHARACTERS = 5_200
"""About 1,500 tokens of source."""
LONG_ANSWER_TOKENS = 8
MODEL_NAME = "target"
STOCK, CONTROL = "vLLM's limits", "vLLM's limits again"
FIGURES = ("inter_chunk_p99_ms", "inter_chunk_p50_ms", "long_first_token_p50_ms", "chunks_per_s")


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer: the arrival of its chunks, in seconds since the load began."""

    is_long: bool
    sent_s: float
    chunks_s: tuple[float, ...]


async def stream(
    session: aiohttp.ClientSession, server: Server, prompt: str, num_tokens: int, at_s: float,
    began_s: float, is_long: bool,
) -> Answer:  # fmt: skip
    """Wait until `at_s`, send, and record the time of every chunk. RuntimeError for an error."""
    await asyncio.sleep(max(began_s + at_s - time.monotonic(), 0.0))
    body = {
        "model": MODEL_NAME, "prompt": prompt, "max_tokens": num_tokens, "min_tokens": num_tokens,
        "temperature": 0, "stream": True,
    }  # fmt: skip
    sent_s = time.monotonic() - began_s
    chunks: list[float] = []
    async with session.post(f"{server.url}/v1/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                if b'"error"' in line[:16]:
                    raise RuntimeError(line.decode())
                chunks.append(time.monotonic() - began_s)
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}")
    return Answer(is_long, sent_s, tuple(chunks))


async def run_load(server: Server, seed: int) -> list[Answer]:
    """Start the streams at once and the long prompts at their fixed times."""
    texts = [prompt.text for prompt in load_heldout() if prompt.text]
    random.Random(seed).shuffle(texts)
    everything = "\n".join(texts)
    longs = [everything[i * LONG_CHARACTERS :][:LONG_CHARACTERS] for i in range(NUM_LONG)]
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        began_s = time.monotonic()
        tasks = [
            stream(session, server, text[-200:], STREAM_TOKENS, 0.0, began_s, False)
            for text in texts[-NUM_STREAMS:]
        ]
        for i, text in enumerate(longs):
            at_s = FIRST_LONG_S + i * EVERY_S
            tasks.append(stream(session, server, text, LONG_ANSWER_TOKENS, at_s, began_s, True))
        return await asyncio.gather(*tasks)


def summarize(answers: Sequence[Answer]) -> dict[str, Any]:
    """Gaps between the chunks of the streams, TTFT of the long prompts, and throughput."""
    gaps = sorted(_gaps(answer for answer in answers if not answer.is_long))
    firsts = sorted(answer.chunks_s[0] - answer.sent_s for answer in answers if answer.is_long)
    tokens = sum(len(answer.chunks_s) for answer in answers)
    ended_s = max(answer.chunks_s[-1] for answer in answers)
    return {
        "num_gaps": len(gaps),
        "inter_chunk_p50_ms": 1e3 * float(np.percentile(gaps, 50)),
        "inter_chunk_p99_ms": 1e3 * float(np.percentile(gaps, 99)),
        "inter_chunk_max_ms": 1e3 * gaps[-1],
        "long_first_token_p50_ms": 1e3 * float(np.percentile(firsts, 50)),
        "long_first_token_max_ms": 1e3 * firsts[-1],
        "chunks": tokens,
        "seconds": ended_s,
        "chunks_per_s": tokens / ended_s,
    }


def _gaps(answers: Any) -> list[float]:
    return [
        after - before
        for answer in answers
        for before, after in zip(answer.chunks_s, answer.chunks_s[1:], strict=False)
    ]


def server_plan(model: str | None, slo: dict[str, str]) -> dict[str, Any]:
    """`slo`: the section's settings. Empty text is none."""
    command = ["paceline", "serve", model or "bundled", "--draft", "none"]
    command += ["--port", "{port}", "--admin-port", "{admin_port}"]
    command += ["--", "--no-enable-prefix-caching"]
    env = {
        "PACELINE_ENGINE__SERVED_NAME": MODEL_NAME,
        "PACELINE_ENGINE__KV_CACHE_BYTES": "536870912",
    }
    for name, value in slo.items():
        env[f"PACELINE_SLO__{name.upper()}"] = value
    return {"command": command, "env": env}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", help="folder of the target; the bundled one by default")
    parser.add_argument("--objective-ms", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", type=Path, required=True, help="folder for the JSON")
    add_allow_dirty(parser)
    options = parser.parse_args()
    if not options.results.is_dir():
        parser.error(f"--results is {options.results}, which is not a folder")
    plan = {
        "objective_ms": options.objective_ms,
        "repeats": options.repeats,
        "servers": {
            STOCK: server_plan(options.model, {"max_pause_ms": ""}),
            CONTROL: server_plan(options.model, {"max_pause_ms": ""}),
            "longest pause": server_plan(options.model, {}),
            "objective": server_plan(
                options.model, {"time_per_output_token_ms": str(options.objective_ms)}
            ),
        },
        "load": {
            "streams": NUM_STREAMS, "stream_tokens": STREAM_TOKENS, "long_prompts": NUM_LONG,
            "every_s": EVERY_S, "long_characters": LONG_CHARACTERS,
        },
    }  # fmt: skip
    runs: list[dict[str, Any]] = []
    name = Path(options.model).name if options.model else "bundled"
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        options.results / f"prefill-pacing-{name}-{today}.json", allow_dirty=options.allow_dirty
    )
    document = {
        "schema_version": 1,
        "kind": "prefill pacing",
        "plan": plan,
        "environment": asdict(describe_environment(sys.argv)),
        "runs": runs,
    }
    with (
        tempfile.TemporaryDirectory(prefix="pacing-") as folder,
        running_servers(plan, Path(folder)) as servers,
    ):
        for server in servers.values():  # warm-up; the pacer also learns its step times
            asyncio.run(run_load(server, seed=999))
        for repeat in range(options.repeats):
            order = list(servers)
            for arm in (order[repeat % len(order) :] + order)[: len(order)]:
                summary = summarize(asyncio.run(run_load(servers[arm], seed=repeat)))
                runs.append({"repeat": repeat, "arm": arm, "summary": summary})
                print(repeat, arm, {k: round(v, 1) for k, v in summary.items()}, flush=True)
            document["comparison"] = compare(runs)
            result.write(document)
    print(json.dumps(document["comparison"], indent=1))
    print(f"written: {result.path}")


def compare(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By arm, median, lowest and highest of each figure, and of its ratio to vLLM's limits within
    each repeat."""
    by_arm: dict[str, dict[int, dict[str, float]]] = {}
    for run in runs:
        by_arm.setdefault(run["arm"], {})[run["repeat"]] = run["summary"]
    stock = by_arm[STOCK]
    found: dict[str, Any] = {}
    for arm, by_repeat in by_arm.items():
        found[arm] = {
            name: _spread(summary[name] for summary in by_repeat.values()) for name in FIGURES
        }
        if arm != STOCK:
            found[f"{arm} / {STOCK}"] = {
                name: _spread(by_repeat[r][name] / stock[r][name] for r in by_repeat)
                for name in FIGURES
            }
    return found


def _spread(values: Iterable[float]) -> list[float]:
    found = list(values)
    return [statistics.median(found), min(found), max(found)]


if __name__ == "__main__":
    main()
