"""Measure one server with `paceline bench run` and with `vllm bench serve`, in turn.

Both send the same number of requests with the same lengths in a closed loop. Each run has prompts
of its own, so that none is in the server's prefix cache. The server is the mock server unless a URL
is given.

    python benchmarks/client/cross_check.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.client.process import read_report, start_bench
from benchmarks.client.truth import SERVER_FLAGS
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment
from paceline.mock_vllm import spawn_mock_vllm

_RUN_LIMIT_S = 600


def write_requests(folder: Path, run: str, num_requests: int, max_prompt_chars: int) -> Path:
    """Requests that both tools read: ours `max_tokens`, vLLM's `output_tokens`. Equal for all runs
    but for the beginning of each prompt."""
    generator = random.Random(0)
    path = folder / f"{run}.jsonl"
    with path.open("w") as file:
        for number in range(num_requests):
            words = "words " * (generator.randint(max_prompt_chars // 4, max_prompt_chars) // 6)
            tokens = generator.randint(16, 64)
            request = {"prompt": f"{run} {number:04d} {words}", "max_tokens": tokens}
            file.write(json.dumps({**request, "ignore_eos": True}) + "\n")
    return path


def for_vllm(path: Path) -> Path:
    """The same requests in the format of vLLM's custom data set."""
    other = path.with_suffix(".vllm.jsonl")
    with other.open("w") as file:
        for line in path.read_text().splitlines():
            request = json.loads(line)
            entry = {"prompt": request["prompt"], "output_tokens": request["max_tokens"]}
            file.write(json.dumps(entry) + "\n")
    return other


def run_ours(url: str, requests: Path, num: int, concurrency: int) -> dict[str, float]:
    """The figures of `paceline bench run`."""
    words = ["--prompts", str(requests), "--num-requests", str(num)]
    words += ["--concurrency", str(concurrency)]
    summary = read_report(start_bench(url, words, requests.parent), requests.parent).document[
        "summary"
    ]
    return {
        "num_requests": summary["num_requests"] - summary["num_errors"],
        "output_tokens": summary["output_tokens"],
        "output_tokens_per_s": summary["output_tokens_per_s"],
        "requests_per_s": summary["requests_per_s"],
        **{f"{name}.p50": summary[name]["p50"] for name in ("ttft_ms", "tpot_ms")},
        **{f"{name}.mean": summary[name]["mean"] for name in ("ttft_ms", "tpot_ms")},
    }


def run_vllm(
    url: str, model: str, tokenizer: str, requests: Path, num: int, concurrency: int
) -> dict[str, float]:
    """The figures of `vllm bench serve`."""
    folder = requests.parent
    command = [str(Path(sys.executable).parent / "vllm"), "bench", "serve"]
    command += ["--backend", "openai", "--base-url", url, "--model", model]
    command += ["--tokenizer", tokenizer, "--endpoint", "/v1/completions"]
    command += ["--dataset-name", "custom", "--dataset-path", str(for_vllm(requests))]
    command += ["--custom-output-len", "-1", "--skip-chat-template", "--ignore-eos"]
    command += ["--num-prompts", str(num), "--max-concurrency", str(concurrency)]
    command += ["--temperature", "0", "--save-result", "--disable-tqdm"]
    command += ["--result-dir", str(folder), "--result-filename", "vllm.json"]
    command += ["--percentile-metrics", "ttft,tpot", "--ready-check-timeout-sec", "0"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_RUN_LIMIT_S,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    if done.returncode:
        raise RuntimeError(f"vllm bench serve ended with {done.returncode}: {done.stderr[-2000:]}")
    result = json.loads((folder / "vllm.json").read_text())
    return {
        "num_requests": result["completed"],
        "output_tokens": result["total_output_tokens"],
        "output_tokens_per_s": result["output_throughput"],
        "requests_per_s": result["request_throughput"],
        **{f"{name}.p50": result[f"median_{name}"] for name in ("ttft_ms", "tpot_ms")},
        **{f"{name}.mean": result[f"mean_{name}"] for name in ("ttft_ms", "tpot_ms")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", help="of a running server; the mock server by default")
    parser.add_argument("--model", default="m", help="the served name")
    parser.add_argument("--tokenizer", help="the bundled target's by default")
    parser.add_argument("--num-requests", type=int, default=60)
    parser.add_argument("--max-prompt-chars", type=int, default=1200)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    name = f"bench-cross-check-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    runs: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url, tokenizer = arguments.url, arguments.tokenizer
        if url is None:
            url = stack.enter_context(spawn_mock_vllm(*SERVER_FLAGS)).url
        if tokenizer is None:
            from paceline.demo import target_path

            tokenizer = str(target_path())
        for repeat in range(arguments.repeats):
            size = (arguments.num_requests, arguments.max_prompt_chars)
            requests = write_requests(folder, f"ours{repeat}", *size)
            ours = run_ours(url, requests, arguments.num_requests, arguments.concurrency)
            requests = write_requests(folder, f"vllm{repeat}", *size)
            theirs = run_vllm(
                url,
                arguments.model,
                tokenizer,
                requests,
                arguments.num_requests,
                arguments.concurrency,
            )
            runs.append({"repeat": repeat, "paceline": ours, "vllm": theirs})
            print({k: f"{ours[k] / theirs[k] - 1:+.2%}" for k in theirs}, flush=True)
    ratios = {
        figure: [run["paceline"][figure] / run["vllm"][figure] for run in runs]
        for figure in runs[0]["vllm"]
    }
    document = {
        "schema_version": 1,
        "kind": "bench cross-check",
        "environment": asdict(environment),
        "server": arguments.url or ["paceline", "mock-vllm", *SERVER_FLAGS],
        "ratios": {
            figure: {"median": statistics.median(r), "min": min(r), "max": max(r)}
            for figure, r in ratios.items()
        },
        "runs": runs,
    }
    result.write(document)
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()
