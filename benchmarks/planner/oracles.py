"""Compare weights and KV cache of well-known models with llm-d-planner and kvfit.

    python -m venv /tmp/oracles
    /tmp/oracles/bin/pip install "llm-d-planner[estimation]==0.3.3" kvfit==0.3.0
    python benchmarks/planner/oracles.py --python /tmp/oracles/bin/python \\
        --results benchmarks/results

The oracles run in an environment of their own (`oracle_child.py`), on the same configurations and
without a network. For weights, both read the safetensors headers on Hugging Face; here transformers
builds the models on torch's meta device instead. The exit code is 1 where a figure differs by more
than 1 %; one that an oracle refuses to compute is null.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.capacity.model.kv_layout import kv_bytes_per_token, kv_layers
from paceline.foundation.capacity.model.weights import num_params
from paceline.foundation.planning.sources.catalogue import Catalogue, load_catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.results.environment import describe_environment

MODELS = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B",
    "meta-llama/Meta-Llama-3-8B-Instruct",
    "meta-llama/Meta-Llama-3-70B-Instruct",
    "meta-llama/Llama-3.1-405B",
    "meta-llama/Llama-3.2-1B",
    "mistralai/Mistral-7B-v0.3",
    "mistralai/Mixtral-8x7B-v0.1",
    "mistralai/Mixtral-8x22B-v0.1",
    "google/gemma-2-9b",
    "google/gemma-3-1b-it",
    "microsoft/phi-4",
    "deepseek-ai/DeepSeek-V3",
)
MODEL_TYPES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "Phi3ForCausalLM": "phi3",
    "DeepseekV3ForCausalLM": "deepseek_v3",
}
CONTEXT_TOKENS = 256
"""Below every sliding window, so that all layers cache all tokens."""
MAX_ERROR = 0.01


def main() -> None:
    """Run both oracles on every model and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="interpreter of the oracles' environment")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file = None
    if arguments.results is not None:
        date = describe_environment(sys.argv).date_utc[:10]
        path = arguments.results / f"planner-oracles-{date}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    catalogue = load_catalogue()
    requests = [_request(name, catalogue) for name in MODELS]
    cache = _ask(arguments.python, "cache", requests)
    params = _ask(sys.executable, "params", requests)
    rows = [
        _row(name, catalogue, {**cache["models"][name], **params["models"][name]})
        for name in MODELS
    ]
    for row in rows:
        print(json.dumps(row), flush=True)
    errors = [error for row in rows for error in row["errors"].values() if error is not None]
    print(f"{len(errors)} figures compared, worst {max(errors):.3%}")
    if file is not None:
        file.write(
            {
                "schema_version": 1,
                "kind": "planner oracles",
                "environment": asdict(describe_environment(sys.argv)),
                "oracles": {**cache["versions"], **params["versions"]},
                "models": rows,
            }
        )
    sys.exit(0 if max(errors) <= MAX_ERROR else 1)


def _ask(python: str, what: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(Path(__file__).with_name("oracle_child.py")), what],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"Error: {python} oracle_child.py {what} exited: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _request(name: str, catalogue: Catalogue) -> dict[str, Any]:
    config = dict(catalogue.model_config(name) or {})
    config["model_type"] = MODEL_TYPES[config["architectures"][0]]
    config.pop("quantization_config", None)
    shape = find_model(name, catalogue).shape
    if len(set(shape.sliding_windows)) > 1:
        config["layer_types"] = [
            "full_attention" if window is None else "sliding_attention"
            for window in shape.sliding_windows
        ]
        config.pop("sliding_window_pattern", None)
    return {"name": name, "config": config, "context_tokens": CONTEXT_TOKENS}


def _row(name: str, catalogue: Catalogue, found: dict[str, Any]) -> dict[str, Any]:
    shape = find_model(name, catalogue).shape
    own = {
        "params": num_params(shape),
        "kv_bytes_per_token": kv_bytes_per_token(kv_layers(shape, "bfloat16")),
    }
    judged = {
        "kvfit": "kv_bytes_per_token",
        "llm_d_planner": "kv_bytes_per_token",
        "transformers": "params",
    }
    errors = {
        oracle: None if found[oracle] is None else abs(own[figure] / found[oracle] - 1)
        for oracle, figure in judged.items()
    }
    return {"model": name, **own, "oracles": found, "errors": errors}


if __name__ == "__main__":
    main()
