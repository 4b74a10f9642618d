"""Load one model in vLLM and report what it holds, in a process of its own.

    python benchmarks/planner/loaded_model.py REQUEST ANSWER

`check_memory.py` and `check_time.py` run it. REQUEST is JSON: `llm`, the arguments of `vllm.LLM`,
and `decode_batches`, the batch sizes whose step time is measured. The bytes of parameters and
buffers are counted after vLLM has created and filled them and before it repacks them for a kernel:
on CPUs repacking moves weights out of torch's sight.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "WARNING"}
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

PROMPT_TOKENS = 64
DECODE_STEPS = 32
REPEATS = 5


def tensor_bytes(model: Any) -> dict[str, int]:
    """Bytes of parameters and of buffers, tensors that are shared counted once."""
    counted: set[int] = set()
    sums = {"parameters": 0, "buffers": 0}
    for kind, tensors in (("parameters", model.parameters()), ("buffers", model.buffers())):
        for tensor in tensors:
            if id(tensor) not in counted:
                counted.add(id(tensor))
                sums[kind] += tensor.numel() * tensor.element_size()
    return sums


def load(arguments: dict[str, Any]) -> tuple[Any, list[dict[str, int]]]:
    """Start vLLM; also the bytes of each model that it loads, the target first."""
    from vllm.model_executor.model_loader import base_loader

    counts: list[dict[str, int]] = []
    process = base_loader.process_weights_after_loading

    def count_and_process(model: Any, *rest: Any) -> Any:
        counts.append(tensor_bytes(model))
        return process(model, *rest)

    base_loader.process_weights_after_loading = count_and_process
    from vllm import LLM

    return LLM(**arguments), counts


def kv_cache(llm: Any) -> dict[str, Any]:
    """The capacity that vLLM logs, and the bytes of its cache."""
    config = llm.llm_engine.vllm_config
    core = llm.llm_engine.engine_core.engine_core
    layout = core.scheduler.kv_cache_config
    return {
        "tokens": config.cache_config.kv_cache_size_tokens,
        "max_concurrency": config.cache_config.kv_cache_max_concurrency,
        "num_blocks": layout.num_blocks,
        "block_size": config.cache_config.block_size,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
    }


def decode_steps(llm: Any, batches: Sequence[int]) -> dict[str, dict[str, float]]:
    """Seconds of a decode step by batch size: the median of runs that differ in the number of steps
    only. The sizes take turns, so that a disturbance of the machine does not hit all runs of one.
    """
    for batch in batches:
        run_s(llm, batch, 1 + DECODE_STEPS)
    rounds = [
        [
            (run_s(llm, batch, 1 + DECODE_STEPS) - run_s(llm, batch, 1)) / DECODE_STEPS
            for batch in batches
        ]
        for _ in range(REPEATS)
    ]
    return {
        str(batch): {
            "median": statistics.median(steps),
            "lowest": min(steps),
            "highest": max(steps),
        }
        for batch, steps in zip(batches, zip(*rounds, strict=True), strict=True)
    }


def run_s(llm: Any, batch: int, tokens: int) -> float:
    """Seconds until all of `batch` requests have that many tokens."""
    from vllm import SamplingParams, TokensPrompt

    prompts = [
        TokensPrompt(
            prompt_token_ids=[50 + (7 * row + place) % 800 for place in range(PROMPT_TOKENS)]
        )
        for row in range(batch)
    ]
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    began = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    return time.perf_counter() - began


def main() -> None:
    """Load, measure, write the answer."""
    request = json.loads(sys.argv[1])
    llm, counts = load(request["llm"])
    answer = {
        "models": counts,
        "kv_cache": kv_cache(llm),
        "decode_step_s": decode_steps(llm, request.get("decode_batches", [])),
    }
    Path(sys.argv[2]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
