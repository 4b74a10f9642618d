"""Measure a server with three load generators: `paceline bench run`, `vllm bench serve`, GuideLLM.

Each function runs the tool as a user does, in a closed loop, and returns its figures under the same
names. Time per output token means the same in all: the time from the first to the last token,
divided by the tokens after the first (GuideLLM calls that inter-token latency).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client.process import read_report, start_bench

_RUN_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What is measured, as the tools name it."""

    url: str
    name: str
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Load:
    """Requests in a file of JSON lines with `prompt` and `max_tokens`, in a closed loop."""

    requests: Path
    num_requests: int
    concurrency: int


Tool = Callable[[ServedModel, Load], dict[str, float]]


def run_paceline(model: ServedModel, load: Load) -> dict[str, float]:
    """The figures of `paceline bench run`."""
    folder = load.requests.parent
    words = ["--prompts", str(load.requests), "--num-requests", str(load.num_requests)]
    words += ["--model", model.name, "--concurrency", str(load.concurrency)]
    summary = read_report(start_bench(model.url, words, folder), folder).document["summary"]
    return {
        "num_requests": summary["num_requests"] - summary["num_errors"],
        "output_tokens": summary["output_tokens"],
        "output_tokens_per_s": summary["output_tokens_per_s"],
        "requests_per_s": summary["requests_per_s"],
        **{f"{name}.p50": summary[name]["p50"] for name in ("ttft_ms", "tpot_ms")},
        **{f"{name}.mean": summary[name]["mean"] for name in ("ttft_ms", "tpot_ms")},
    }


def run_vllm(model: ServedModel, load: Load) -> dict[str, float]:
    """The figures of `vllm bench serve`, which imports pandas to read a file of requests."""
    folder = load.requests.parent
    command = [str(Path(sys.executable).parent / "vllm"), "bench", "serve"]
    command += ["--backend", "openai", "--base-url", model.url, "--model", model.name]
    command += ["--tokenizer", model.tokenizer, "--endpoint", "/v1/completions"]
    command += ["--dataset-name", "custom", "--dataset-path"]
    command += [str(_renamed(load.requests, "output_tokens"))]
    command += ["--custom-output-len", "-1", "--skip-chat-template", "--ignore-eos"]
    command += ["--num-prompts", str(load.num_requests)]
    command += ["--max-concurrency", str(load.concurrency)]
    command += ["--temperature", "0", "--save-result", "--disable-tqdm"]
    command += ["--result-dir", str(folder), "--result-filename", "vllm.json"]
    command += ["--percentile-metrics", "ttft,tpot", "--ready-check-timeout-sec", "0"]
    _run(command, {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"})
    result = json.loads((folder / "vllm.json").read_text())
    return {
        "num_requests": result["completed"],
        "output_tokens": result["total_output_tokens"],
        "output_tokens_per_s": result["output_throughput"],
        "requests_per_s": result["request_throughput"],
        **{f"{name}.p50": result[f"median_{name}"] for name in ("ttft_ms", "tpot_ms")},
        **{f"{name}.mean": result[f"mean_{name}"] for name in ("ttft_ms", "tpot_ms")},
    }


def guidellm_tool(executable: Path) -> Tool:
    """`run_guidellm` with the program of an environment that has GuideLLM."""

    def run_guidellm(model: ServedModel, load: Load) -> dict[str, float]:
        """The figures of `guidellm run`.

        Rates are over the time from the first request's start to the last one's end, because
        GuideLLM's own means are weighted by time.
        """
        output = load.requests.with_suffix(".guidellm.json")
        data = _renamed(load.requests, "output_tokens_count")
        backend = {"kind": "openai_http", "target": model.url, "model": model.name}
        backend |= {"request_format": "/v1/completions"}
        command = [str(executable), "run", "--backend", _words(backend)]
        command += [
            *("--profile", f"kind=concurrent,streams={load.concurrency}"),
            *("--constraint", f"kind=max_requests,count={load.num_requests}"),
            *("--data", f"kind=json_file,path={data}"),
            *("--tokenizer", f"kind=huggingface_auto,model={model.tokenizer}"),
            *("--output", f"kind=json,path={output}"),
            "--disable-console",
        ]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        _run(command, {**environment, "HF_HUB_OFFLINE": "1"})
        benchmark = json.loads(output.read_text())["benchmarks"][0]
        return _guidellm_figures(benchmark)

    return run_guidellm


def _guidellm_figures(benchmark: dict[str, Any]) -> dict[str, float]:
    metrics = benchmark["metrics"]
    num_requests = metrics["request_totals"]["successful"]
    output_tokens = metrics["output_token_count"]["successful"]["total_sum"]
    duration_s = benchmark["duration"]
    figures: dict[str, float] = {
        "num_requests": num_requests,
        "output_tokens": output_tokens,
        "output_tokens_per_s": output_tokens / duration_s,
        "requests_per_s": num_requests / duration_s,
    }
    names = {"ttft_ms": "time_to_first_token_ms", "tpot_ms": "inter_token_latency_ms"}
    for statistic, theirs in (("p50", "median"), ("mean", "mean")):
        for name, metric in names.items():
            figures[f"{name}.{statistic}"] = metrics[metric]["successful"][theirs]
    return figures


def _renamed(requests: Path, field: str) -> Path:
    """The same requests with `max_tokens` under the name that another tool reads."""
    other = requests.with_suffix(f".{field}.jsonl")
    with other.open("w") as file:
        for line in requests.read_text().splitlines():
            request = json.loads(line)
            entry = {"prompt": request["prompt"], field: request["max_tokens"]}
            file.write(json.dumps(entry) + "\n")
    return other


def _words(options: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in options.items())


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_RUN_LIMIT_S, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command[:3])} ended with {done.returncode}: {done.stderr[-2000:]}"
        )
