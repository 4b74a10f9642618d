"""Compare the planner's memory with what vLLM loads, for every shape that the planner knows.

    python benchmarks/planner/check_memory.py --twin runs/twin --results benchmarks/results

Every configuration of `configurations.py` is loaded in a process of its own, on the CPU.
`paceline plan --json` runs on the same folder. Compared are the bytes of parameters and buffers,
for target and draft, and the tokens of the KV cache that vLLM logs. The exit code is 1 if weights
are off by more than 0.5 % or tokens by more than 0.35 %.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planner.checks import check_parser, load_in_child, open_result
from benchmarks.planner.configurations import Configuration, configurations
from paceline.foundation.results.environment import describe_environment

KV_CACHE_BYTES = 64 * 1024**2
MAX_MODEL_LEN = 2048
MAX_BATCHED_TOKENS = 1024
MAX_WEIGHTS_ERROR = 0.005
MAX_TOKENS_ERROR = 0.0035
TIMEOUT_S = 240


def main() -> None:
    """Check every configuration and write the result."""
    parser = check_parser(__doc__)
    parser.add_argument("--only", nargs="+", help="configurations with one of these in their name")
    arguments = parser.parse_args()
    result = open_result(arguments, "planner-memory", "configurations")
    rows = result.rows
    checked = {row["name"] for row in rows}
    for configuration in configurations(arguments.twin):
        if arguments.only and not any(part in configuration.name for part in arguments.only):
            continue
        if configuration.name in checked:
            continue
        row = check(configuration)
        print(_line(row), flush=True)
        rows.append(row)
        if result.file is not None:
            result.file.write(_document(rows))
    worst = _worst(rows)
    print(json.dumps(worst))
    is_close = (
        max(worst["weights_error"], worst["draft_weights_error"]) <= MAX_WEIGHTS_ERROR
        and worst["tokens_error"] <= MAX_TOKENS_ERROR
    )
    sys.exit(0 if is_close and not any("failed" in row for row in rows) else 1)


def _document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "planner memory",
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {
            "kv_cache_bytes": KV_CACHE_BYTES,
            "max_model_len": MAX_MODEL_LEN,
            "max_num_batched_tokens": MAX_BATCHED_TOKENS,
        },
        "worst": _worst(rows),
        "configurations": rows,
    }


def _worst(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {
        name: max((row[name] for row in rows if "failed" not in row), default=0.0)
        for name in ("weights_error", "draft_weights_error", "tokens_error")
    }


def check(configuration: Configuration) -> dict[str, Any]:
    """Load and plan one configuration."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        model = configuration.folder or _write_config(Path(folder), configuration)
        loaded = _load(configuration, model)
        if "failed" in loaded:
            return {"name": configuration.name, **loaded}
        planned = _plan(configuration, model, loaded["kv_cache"]["dtype"])
    target, *drafts = loaded["models"]
    row = {
        "name": configuration.name,
        "weights_loaded": target["parameters"] + target["buffers"],
        "weights_planned": planned["weights_bytes"],
        "draft_weights_loaded": sum(map(_own_bytes, drafts)),
        "draft_weights_planned": planned["draft"]["weights_bytes"],
        "tokens_logged": loaded["kv_cache"]["tokens"],
        "tokens_planned": planned["kv_cache"]["tokens"],
        "blocks_vllm": loaded["kv_cache"]["num_blocks"],
        "blocks_planned": planned["kv_cache"]["num_blocks"],
        "dtype": loaded["kv_cache"]["dtype"],
        "loaded": loaded["models"],
    }
    for name, measured, expected in (
        ("weights_error", "weights_loaded", "weights_planned"),
        ("draft_weights_error", "draft_weights_loaded", "draft_weights_planned"),
        ("tokens_error", "tokens_logged", "tokens_planned"),
    ):
        row[name] = abs(row[expected] - row[measured]) / row[measured] if row[measured] else 0.0
    return row


def _own_bytes(draft: dict[str, int]) -> int:
    return draft["parameters"] + draft["buffers"]


def _write_config(folder: Path, configuration: Configuration) -> Path:
    assert configuration.config is not None
    (folder / "config.json").write_text(json.dumps(configuration.config))
    return folder


def _load(configuration: Configuration, model: Path) -> dict[str, Any]:
    llm: dict[str, Any] = {
        "model": str(model),
        "enforce_eager": True,
        "kv_cache_memory_bytes": KV_CACHE_BYTES,
        "max_model_len": MAX_MODEL_LEN,
        "max_num_batched_tokens": MAX_BATCHED_TOKENS,
        "max_num_seqs": 16,
        "skip_tokenizer_init": configuration.folder is None,
        "load_format": "auto" if configuration.folder is not None else "dummy",
        **configuration.llm,
    }
    if configuration.draft is not None:
        llm["speculative_config"] = {
            "method": "draft_model",
            "model": str(configuration.draft),
            "num_speculative_tokens": 3,
        }
    return load_in_child({"llm": llm}, timeout_s=TIMEOUT_S)


def _plan(configuration: Configuration, model: Path, dtype: str) -> dict[str, Any]:
    command = [
        sys.executable, "-c", "from paceline.cli import main; main()", "plan", str(model),
        "--gpu", "cpu", "--json", "-",
        "--draft", "none" if configuration.draft is None else str(configuration.draft),
        "--kv-cache-bytes", str(KV_CACHE_BYTES),
        "--max-model-len", str(MAX_MODEL_LEN),
        "--max-num-batched-tokens", str(MAX_BATCHED_TOKENS),
        "--prompt-tokens", "256", "--output-tokens", "64",
        "--dtype", dtype,
        *configuration.plan,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    planned: dict[str, Any] = json.loads(done.stdout)
    return planned


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['name']:40} FAILED: {row['failed']}"
    return (
        f"{row['name']:40} weights {row['weights_error']:.4%} draft "
        f"{row['draft_weights_error']:.4%} tokens {row['tokens_error']:.4%}"
    )


if __name__ == "__main__":
    main()
