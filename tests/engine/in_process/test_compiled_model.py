"""A compiled model on a CPU: the same tokens, and a second start loads it instead of compiling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.demo import target_path

_CHILD = """
import json, sys
from vllm import LLM, SamplingParams

llm = LLM(
    model=sys.argv[1], enforce_eager=sys.argv[2] == "eager", load_format="dummy",
    hf_overrides={"num_hidden_layers": 1}, skip_tokenizer_init=True, dtype="float32", seed=0,
    max_model_len=64, max_num_seqs=2, kv_cache_memory_bytes=8 << 20,
)
prompts = [{"prompt_token_ids": list(range(5, 5 + length))} for length in (1, 3, 17)]
answers = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8, detokenize=False))
print("TOKENS", json.dumps([list(one.outputs[0].token_ids) for one in answers]))
"""


def _run(mode: str, cache: Path) -> tuple[list[list[int]], str]:
    """The tokens of three answers, and everything that vLLM printed."""
    environment = {name: text for name, text in os.environ.items() if name != "TORCHDYNAMO_DISABLE"}
    environment |= {
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "INFO",
    }
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(target_path()), mode],
        capture_output=True, text=True, env=environment, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOKENS ")]
    return json.loads(line.removeprefix("TOKENS ")), done.stdout + done.stderr


@pytest.mark.slow
def test_a_compiled_model_is_loaded_at_the_second_start(tmp_path: Path) -> None:
    expected, log = _run("eager", tmp_path)
    assert "AOT" not in log
    compiled, log = _run("compiled", tmp_path)
    assert "saved AOT compiled function" in log
    loaded, log = _run("compiled", tmp_path)
    assert "Directly load AOT compilation" in log
    assert "Compiling model again" not in log
    assert compiled == expected
    assert loaded == expected
