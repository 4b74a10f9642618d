"""Compile a model on a CPU with a pass of few tokens.

vLLM compiles with a pass of as many tokens as a step may have, and samples as many requests as may
run: 3.5 s of a start of SmolLM2-135M on two cores, also where the compiled model is loaded from
disk. That pass also touches the memory of a step, by which vLLM chooses the size of its KV cache;
where the size is given, nothing needs it. The compiled model is for any number of tokens.
"""

from __future__ import annotations

import contextlib
from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers
from paceline.runtime.engine.fixes.early_compiler import early_compiler

NUM_TOKENS = 64
"""Chosen: enough for the compiler to divide its loops among threads, as for a whole step."""


def _warm_up(stock: Any, runner: Any) -> None:
    whole = runner.max_num_tokens
    if runner.cache_config.kv_cache_memory_bytes is not None:
        runner.max_num_tokens = min(whole, NUM_TOKENS)
    try:
        with contextlib.nullcontext() if runner.model_config.enforce_eager else early_compiler():
            stock(runner)
    finally:
        runner.max_num_tokens = whole


WRAPPERS = Wrappers(
    "short_warm_up",
    {"vllm.v1.worker.cpu_model_runner:CPUModelRunner.warming_up_model": _warm_up},
    name="the short pass that compiles a model",
)
